"""Clocks for tests: time that moves on request, by itself, or fast."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.support.tasks import settled

START = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


@dataclass
class _FakeTimer:
    due: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeClock:
    """Time that passes only by `turn` and `advance`; timers are called on the way, each at its own moment."""

    def __init__(self, time: float = 1000.0, *, now: datetime = START) -> None:
        self.time = time
        self.set(now)
        self._timers: list[_FakeTimer] = []

    def now(self) -> datetime:
        return self._zero + timedelta(seconds=self.time)

    def monotonic(self) -> float:
        return self.time

    def set(self, moment: datetime) -> None:
        """Set the time of day; no time passes."""
        self._zero = moment - timedelta(seconds=self.time)

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

    def turn(self, delta: timedelta | float) -> None:
        """Let a time difference, or a number of seconds, pass without letting tasks run in between."""
        end = round(self.time + (delta.total_seconds() if isinstance(delta, timedelta) else delta), 9)
        while due := self._next_until(end):
            self._timers.remove(due)
            self.time = max(self.time, due.due)
            due.callback()
        self.time = end

    async def advance(self, seconds: float) -> None:
        """Let time pass, and tasks run at each moment that has something due."""
        await settled()
        end = round(self.time + seconds, 9)
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


class TickingClock(FakeClock):
    """A clock that moves by two seconds each time it is read."""

    def now(self) -> datetime:
        self.turn(2)
        return super().now()

    def monotonic(self) -> float:
        self.turn(2)
        return super().monotonic()


class LeapingClock(FakeClock):
    """Time passes only by sleeping, and sleeping takes none.

    Attributes:
        ticks, on_sleep: called after each sleep; the first are of parts of the cluster that act in time.
    """

    def __init__(self) -> None:
        super().__init__(0.0)
        self.on_sleep: Callable[[], object] = lambda: None
        self.ticks: list[Callable[[], object]] = []

    async def sleep(self, seconds: float) -> None:
        self.turn(seconds)
        await asyncio.sleep(0)
        for each in (*self.ticks, self.on_sleep):
            each()


class ScriptedClock(FakeClock):
    """Sleeping by it is what the test says: a coroutine function that gets the seconds."""

    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        super().__init__()
        self._sleep = sleep

    async def sleep(self, seconds: float) -> None:
        await self._sleep(seconds)


class HurriedClock:
    """A clock that is faster than real time, for waits beside real work whose length does not matter.

    Args:
        factor: the number of its seconds in a real one. If other work of the test has to be done between two
            moments of the clock, the factor must be small enough for a busy machine.
    """

    def __init__(self, factor: float = 200.0) -> None:
        self._factor = factor

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time() * self._factor

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self._factor)

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(delay_seconds / self._factor, callback)
