"""Makes a step of a program fail, or its disk, for tests of fault injection."""

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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


SMALL_DISK_BYTES = 64 * 1024


@contextmanager
def small_disk() -> Iterator[None]:
    """No file of this process grows beyond SMALL_DISK_BYTES, which is how a full disk looks to a writer."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_DISK_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
