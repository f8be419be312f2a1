"""Makes a step of a program fail, for tests of fault injection."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Any

import pytest

Break = Callable[[pytest.MonkeyPatch, Exception], None]


def failing_at(owner: Any, name: str, *, after: bool = False) -> Break:
    """A function that makes `owner.name` raise an error, before it does its work or after."""

    def install(patch: pytest.MonkeyPatch, error: Exception) -> None:
        real = getattr(owner, name)

        def failing(*args: Any, **kwargs: Any) -> Any:
            if after:
                real(*args, **kwargs)
            raise error

        async def failing_later(*args: Any, **kwargs: Any) -> Any:
            if after:
                await real(*args, **kwargs)
            raise error

        patch.setattr(owner, name, failing_later if iscoroutinefunction(real) else failing)

    return install
