"""Waiting for the world to come to a state, where no event tells of it."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.05


async def eventually(condition: Callable[[], Awaitable[bool]], *, timeout_seconds: float = 60.0) -> None:
    """Return as soon as the condition holds; it is asked again every 50 ms.

    Raises:
        AssertionError: it did not hold in time.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            while not await condition():  # noqa: ASYNC110 - another process's state has no event
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not so within {timeout_seconds:.0f} s") from None
