"""Limits the requests in flight to what the server can handle, and optionally their rate.

Additive increase, multiplicative decrease, as in TCP: each answer raises the limit a little, a 429 or rising
latency lowers it. One limiter serves one client, so that all its callers share the limit. Users can also cap
the rate of requests.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from pinnace.aio.clock import SYSTEM_CLOCK, Clock

INITIAL_LIMIT = 16.0
MINIMUM_LIMIT = 1.0
THROTTLED_FACTOR = 0.5
SLOW_FACTOR = 0.8
SLOW_RATIO = 4.0
"""Latency counts as congestion from this multiple of the best seen..."""
SLOW_FLOOR_SECONDS = 0.5
"""...and only above this latency: below it, waiting would not make anything faster."""
BASELINE_GROWTH = 1.01
"""The best latency is forgotten at this rate, so that one very fast answer does not count forever."""


class InFlightLimit:
    """Hands out slots, first come first served.

    Args:
        maximum: the cap.
    """

    def __init__(self, maximum: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.maximum = max(1, maximum)
        self.in_flight = 0
        self._limit = min(INITIAL_LIMIT, float(self.maximum))
        self._clock = clock
        # asyncio's own: a cancellation stays one, also in the same turn of the loop as the release of a slot.
        self._slots = asyncio.Semaphore(self.limit)
        self._surplus = 0
        """The slots that are too many since the limit was lowered; they go as soon as they are free."""
        self._probing = True
        self._decreased_at = float("-inf")
        self._baseline_seconds: float | None = None
        self._smoothed_seconds: float | None = None

    @property
    def limit(self) -> int:
        """How many requests may be in flight now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a slot and hold it for one request; yields the end of the wait."""
        await self._acquire()
        self.in_flight += 1
        try:
            yield self._clock.monotonic()
        finally:
            self.in_flight -= 1
            self._give_back()

    def answered(self, started: float, *, comparable: bool) -> None:
        """Adapt the limit to an answer.

        Args:
            started: the time that `slot` yielded.
            comparable: whether the latency reflects the load of the server; that of a page of a list
                mainly reflects its size.
        """
        if comparable and self._is_slow(self._clock.monotonic() - started):
            self._decrease(SLOW_FACTOR, started)
        elif self._slots.locked():
            # Only when requests wait because of the limit; otherwise it would grow without being tested.
            step = 1.0 if self._probing else 1.0 / self._limit
            self._change(min(float(self.maximum), self._limit + step))

    def throttled(self, started: float) -> None:
        """Lower the limit after a 429 to a request sent at `started` (as yielded by `slot`)."""
        self._decrease(THROTTLED_FACTOR, started)

    def _decrease(self, factor: float, started: float) -> None:
        self._probing = False
        # All requests sent before the last decrease show the same overload: it counts once.
        if started < self._decreased_at:
            return
        self._decreased_at = self._clock.monotonic()
        self._change(max(MINIMUM_LIMIT, self._limit * factor))
        self._smoothed_seconds = None

    def _is_slow(self, latency_seconds: float) -> bool:
        baseline = self._baseline_seconds
        grown = latency_seconds if baseline is None else baseline * BASELINE_GROWTH
        self._baseline_seconds = min(grown, latency_seconds)
        smoothed = self._smoothed_seconds
        smoothed = latency_seconds if smoothed is None else 0.9 * smoothed + 0.1 * latency_seconds
        self._smoothed_seconds = smoothed
        return smoothed > SLOW_FLOOR_SECONDS and smoothed > SLOW_RATIO * self._baseline_seconds

    def _change(self, limit: float) -> None:
        before, self._limit = self.limit, limit
        self._surplus += max(0, before - self.limit)
        for _ in range(self.limit - before):
            self._give_back()

    async def _acquire(self) -> None:
        await self._slots.acquire()
        while self._surplus:  # the limit was lowered while this slot was free
            self._surplus -= 1
            await self._slots.acquire()

    def _give_back(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._slots.release()


class RateCap:
    """At most so many requests a second in the long run, and so many at once after a pause: a token bucket.

    Args:
        per_second: positive.
        burst: at least 1.
    """

    def __init__(self, per_second: float, burst: int, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self.per_second = per_second
        self.burst = burst
        self._clock = clock
        self._tokens = float(burst)
        self._counted_at = clock.monotonic()

    async def wait(self) -> None:
        """Return when one more request may be sent; first come, first served."""
        now = self._clock.monotonic()
        self._tokens = min(float(self.burst), self._tokens + (now - self._counted_at) * self.per_second)
        self._counted_at = now
        # Below zero, tokens are reserved for tasks that already wait.
        self._tokens -= 1.0
        if self._tokens < 0:
            await self._clock.sleep(-self._tokens / self.per_second)
