"""Monotonic time, injected so that tests advance the clock themselves instead of sleeping."""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class ScheduledCall(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The monotonic time of this process, and waits by it."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back, whatever is done to the wall clock."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Return when that many seconds have passed."""
        ...

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        """Call back on the event loop after a delay."""
        ...


class SystemClock:
    """The clock of the running event loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        return asyncio.get_running_loop().call_later(delay_seconds, callback)


class BootClock(SystemClock):
    """A clock that also counts the time of a suspended machine, and asks the system at each call.

    The event loop may give the time of the start of its turn. Timers do not run during a suspension.
    """

    def monotonic(self) -> float:
        # Elsewhere than on Linux, CLOCK_MONOTONIC counts it.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Sleeper:
    """Sleeps of one task, which another task can cut short, or end for good."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stopped = False
        self._woken = False
        self._awake: asyncio.Future[None] | None = None

    @property
    def stopped(self) -> bool:
        """Whether `stop` was called."""
        return self._stopped

    async def sleep(self, seconds: float) -> bool:
        """Wait, and return whether the task should continue: False as soon as `stop` was called."""
        if self._stopped or self._woken:
            self._woken = False
            return not self._stopped
        self._awake = asyncio.get_running_loop().create_future()
        timer = self._clock.call_later(seconds, self._wake)
        try:
            await self._awake
        finally:
            timer.cancel()
            self._awake, self._woken = None, False
        return not self._stopped

    def wake(self) -> None:
        """End the current sleep, or else the next one. Idempotent."""
        self._woken = True
        self._wake()

    def stop(self) -> None:
        """End the current sleep and all later ones. Idempotent."""
        self._stopped = True
        self._wake()

    def _wake(self) -> None:
        if self._awake is not None and not self._awake.done():
            self._awake.set_result(None)
