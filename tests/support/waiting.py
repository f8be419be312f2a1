"""Waiting for a state that no event announces."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

POLL_SECONDS = 0.05
MOST_POLL_SECONDS = 0.25
"""The longest pause of `eventually`, and that of agents: a look at a cluster costs some milliseconds."""

PATIENCE_SECONDS = 120.0
"""How long tests wait for another process. It is rarely needed: a busy machine can be ten times slower."""


async def eventually(
    condition: Callable[[], Awaitable[bool]],
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    seen: Sequence[object] = (),
) -> None:
    """Return once the condition holds; it is checked after 50 ms, then ever less often, by a tenth each time.

    Args:
        seen: what the condition saw last, which it fills in itself; shown if it never holds.

    Raises:
        AssertionError: it did not hold in time.
    """
    try:
        async with asyncio.timeout(timeout_seconds):
            pause = POLL_SECONDS
            while not await condition():
                await asyncio.sleep(pause)
                pause = min(pause * 1.1, MOST_POLL_SECONDS)
    except TimeoutError:
        shown = "".join(f"\n{each}" for each in seen)
        raise AssertionError(f"not so within {timeout_seconds:.0f} s{shown}") from None
