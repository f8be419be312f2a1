"""Clocks for tests: one that moves on request, one that moves with each call, and a timer that is fast."""

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
    """A clock that moves by some seconds with each call."""

    def __init__(self, seconds: float = 2.0) -> None:
        super().__init__()
        self._seconds = seconds

    def __call__(self) -> datetime:
        return self.advance(self._seconds)


class HurriedTimer:
    """A timer that is faster than real time, for waits beside real work whose length does not matter.

    Args:
        factor: the number of its seconds in a real one. If other work of the test has to be done between two
            moments of the timer, the factor must be small enough for a busy machine.
    """

    def __init__(self, factor: float = 200.0) -> None:
        self._factor = factor

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)
