"""The time of day and monotonic time, injected so that tests move time instead of sleeping.

asyncio is loaded by those who wait: a command that only prints an age is done before it would be loaded.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final, Protocol


class ScheduledCall(Protocol):
    """A call that is due later."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """The time of day, the monotonic time of this process, and waits by it."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC. It jumps when the machine's clock is set."""
        ...

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
    """The clock of this machine; waits by it need a running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import asyncio

        await asyncio.sleep(seconds)

    def call_later(self, delay_seconds: float, callback: Callable[[], None]) -> ScheduledCall:
        import asyncio

        return asyncio.get_running_loop().call_later(delay_seconds, callback)


SYSTEM_CLOCK: Final = SystemClock()


class BootClock(SystemClock):
    """A clock that also counts the time of a suspended machine; timers do not run during a suspension."""

    def monotonic(self) -> float:
        # Elsewhere than on Linux, CLOCK_MONOTONIC counts it.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
