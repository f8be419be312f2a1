"""Waiting for a state that no event announces."""

import asyncio
from collections.abc import Awaitable, Callable

POLL_SECONDS = 0.05
PATIENCE_SECONDS = 120.0
"""How long tests wait for another process. It is rarely needed: a busy machine can be ten times slower."""


async def eventually(
    condition: Callable[[], Awaitable[bool]], *, timeout_seconds: float = PATIENCE_SECONDS
) -> None:
    """Return as soon as the condition holds; it is checked every 50 ms.

    Raises:
        AssertionError: it did not hold in time.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            while not await condition():  # noqa: ASYNC110 - another process's state has no event
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise AssertionError(f"not so within {timeout_seconds:.0f} s") from None
