"""Clocks for tests: time of day and monotonic time that move on request, by themselves, or fast."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.support.tasks import settled

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


@dataclass
class _FakeTimer:
    due: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time that passes only in `advance`; timers are called on the way, each at its own moment."""

    def __init__(self, time: float = 1000.0) -> None:
        self.time = time
        self._timers: list[_FakeTimer] = []

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        passed = asyncio.get_running_loop().create_future()
        timer = self.call_later(seconds, lambda: passed.set_result(None))
        try:
            await passed
        finally:
            timer.cancel()

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> _FakeTimer:
        timer = _FakeTimer(self.time + delay_seconds, callback)
        self._timers.append(timer)
        return timer

    @property
    def pending(self) -> list[float]:
        """Seconds until each timer that is still to come."""
        return sorted(timer.due - self.time for timer in self._timers if not timer.cancelled)

    def turn(self, seconds: float) -> None:
        """Let time pass without letting tasks run in between."""
        end = self.time + seconds
        while due := self._next_until(end):
            self._timers.remove(due)
            self.time = max(self.time, due.due)
            due.callback()
        self.time = end

    async def advance(self, seconds: float) -> None:
        """Let time pass, and tasks run at each moment that has something due."""
        await settled()
        end = self.time + seconds
        while due := self._next_until(end):
            self._timers.remove(due)
            self.time = max(self.time, due.due)
            due.callback()
            await settled()
        self.time = end
        await settled()

    def _next_until(self, end: float) -> _FakeTimer | None:
        self._timers = [timer for timer in self._timers if not timer.cancelled]
        # Sums of small delays are not exact: what is due a billionth later is due.
        due = [timer for timer in self._timers if timer.due <= end + 1e-9]
        return min(due, key=lambda timer: timer.due, default=None)


class LeapingClock(FakeClock):
    """Time passes only by sleeping, and sleeping takes none."""

    def __init__(self) -> None:
        super().__init__(0.0)

    async def sleep(self, seconds: float) -> None:
        self.turn(seconds)
        await asyncio.sleep(0)


class HurriedClock:
    """A clock that is faster than real time, for waits beside real work whose length does not matter.

    Args:
        factor: the number of its seconds in a real one. If other work of the test has to be done between two
            moments of the clock, the factor must be small enough for a busy machine.
    """

    def __init__(self, factor: float = 200.0) -> None:
        self._factor = factor

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_seconds / self._factor, callback)
