"""Sleeps that can be cut short."""

import asyncio

from pinnace.aio.clock import Clock


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
        clock = self._clock.call_later(seconds, self._wake)
        try:
            await self._awake
        finally:
            clock.cancel()
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
