"""Waiting with a clock that the caller passes in, so that no test has to sleep."""

import asyncio
from collections.abc import Awaitable, Callable

from pinnace.aio.clock import Clock


async def poll(
    check: Callable[[], Awaitable[bool]],
    *,
    clock: Clock,
    timeout_seconds: float,
    first_pause_seconds: float = 1.0,
    longest_pause_seconds: float = 1.0,
) -> bool:
    """Call a check at once and then repeatedly until it returns True or the time is up.

    The pauses double from the first to the longest. The check is always called once more at the deadline.

    Returns:
        Whether the check returned True in time. Errors of the check are not caught.
    """
    deadline = clock.monotonic() + timeout_seconds
    pause_seconds = first_pause_seconds
    while not await check():
        left_seconds = deadline - clock.monotonic()
        if left_seconds <= 0:
            return False
        await clock.sleep(min(pause_seconds, left_seconds))
        pause_seconds = min(pause_seconds * 2, longest_pause_seconds)
    return True


async def wait_for(event: asyncio.Event, *, clock: Clock, timeout_seconds: float) -> bool:
    """Wait until the event is set or the time is up; return whether it is set."""
    async with asyncio.TaskGroup() as group:
        happening = group.create_task(event.wait())
        passing = group.create_task(clock.sleep(timeout_seconds))
        await asyncio.wait((happening, passing), return_when=asyncio.FIRST_COMPLETED)
        happening.cancel()
        passing.cancel()
    return event.is_set()
