"""Waits for operations of a cloud, with a time limit."""

import asyncio
from collections.abc import Awaitable, Callable

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.volumes.native.snapshotters import SnapshotError

INTERVAL_SECONDS = 2.0


async def wait_until(
    done: Callable[[], Awaitable[bool]], what: str, *, limit_seconds: float, clock: Clock = SYSTEM_CLOCK
) -> None:
    """Check repeatedly until an operation is done.

    Args:
        done: one question; raises for what can never be done.
        what: names what is waited for, for the error.

    Raises:
        SnapshotError: it was not done in time.
    """
    try:
        async with asyncio.timeout(limit_seconds):
            while not await done():
                await clock.sleep(INTERVAL_SECONDS)
    except TimeoutError as error:
        raise SnapshotError(f"{what} was not done within {limit_seconds:g} seconds") from error
