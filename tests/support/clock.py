"""Clocks for tests: one that stands still until it is told to move, and one that hurries."""

import asyncio
from datetime import UTC, datetime, timedelta

START = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


class FrozenClock:
    """Call it for the time in UTC, as code under test calls its injected `clock`."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        """Return seconds since START, for code that wants a monotonic clock."""
        return (self.now - START).total_seconds()

    def advance(self, delta: timedelta | float) -> datetime:
        """Move on by a time difference, or a number of seconds; return the new time."""
        self.now += delta if isinstance(delta, timedelta) else timedelta(seconds=delta)
        return self.now


class TickingClock(FrozenClock):
    """A clock on which some seconds pass between any two looks."""

    def __init__(self, seconds: float = 2.0) -> None:
        super().__init__()
        self._seconds = seconds

    def __call__(self) -> datetime:
        return self.advance(self._seconds)


class HurriedTimer:
    """A timer that hurries, for waits beside real work whose length does not matter.

    Args:
        factor: how many of its seconds pass in a real one. Where other work of the test must get something
            done between two moments of the timer, it has to be small enough for a busy machine.
    """

    def __init__(self, factor: float = 200.0) -> None:
        self._factor = factor

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)
