"""A fence that every write of a leader passes: closed as soon as another process may lead. (docs/adr/078)

Cluster clients, object stores and the programs of repositories ask it before each write; they know nothing
of leases. Reads pass it by.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class FenceClosed(Exception):
    """No write may begin; the text says why."""


class Fence(Protocol):
    """Decides whether a write may begin."""

    async def passed(self) -> None:
        """Return when a write may begin; waits while that is being found out. Raises FenceClosed."""
        ...

    def check(self) -> None:
        """Return if a write may begin at this moment. Raises FenceClosed."""
        ...

    def heard(self, date: str) -> None:
        """Take note of the Date of an answer of the API server."""
        ...


_current: ContextVar[Fence | None] = ContextVar("fence of the write that is being carried out", default=None)


@contextmanager
def write_of(fence: Fence) -> Iterator[None]:
    """While inside, each request checks the fence, too: a write to a store can be many requests."""
    token = _current.set(fence)
    try:
        yield
    finally:
        _current.reset(token)


def has_fence() -> bool:
    """Whether this task carries out a write that passes a fence."""
    return _current.get() is not None


def check_request() -> None:
    """Check the fence of the write that this task carries out, if there is one. Raises FenceClosed."""
    if (fence := _current.get()) is not None:
        fence.check()
