"""The fence of a leader: open while no other candidate can hold the lease. (docs/adr/078)

Three things close it: the lease is lost, its time is up without a renewal, or an answer of the API server has
a Date after its end. The last one finds a pause that our own clock did not count, as that of a virtual
machine whose clocks stood still. It is only a doubt, as the API servers' clocks may differ: writes wait for a
renewal that has begun since, which proves that nobody else had the lease, or for its loss.
"""

import asyncio
from collections.abc import Callable

from pinnace.aio.clock import Clock
from pinnace.aio.fence import FenceClosed
from pinnace.api.values.times import http_date
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NOT_LEADING = "this server does not lead"


class LastDate:
    """The Date of the last answer to one client, that of the lease. It lets every write pass."""

    def __init__(self) -> None:
        self.date = ""

    async def passed(self) -> None:
        pass

    def check(self) -> None:
        pass

    def heard(self, date: str) -> None:
        self.date = date


class LeaseFence:
    """A fence that is open while a lease is proven to be held. See `Fence`.

    Args:
        clock: the lease's own clock; it counts the time of a suspended machine.
        ask: makes the owner of the lease renew it now, or find out that it is lost. Called from any write.
    """

    def __init__(self, clock: Clock, ask: Callable[[], None]) -> None:
        self._clock = clock
        self._ask = ask
        self._closed = NOT_LEADING
        self._until = 0.0
        self._last_date = ""
        self._doubted_at = 0.0
        self._has_warned = False
        self._until_seconds: float | None = None
        self._settled = asyncio.Event()
        self._settled.set()

    @property
    def is_open(self) -> bool:
        """Whether a write may begin now."""
        return not self._reason() and self._settled.is_set()

    def renewed(self, began: float, *, lasts_seconds: float, date: str) -> None:
        """Open the fence: the lease was taken or renewed.

        Args:
            began: when the renewal began, by the clock; its time is counted from then.
            date: of the answer to it; empty if it had none.
        """
        self._closed, self._until = "", began + lasts_seconds
        answered = http_date(date)
        self._until_seconds = None if answered is None else answered.timestamp() + lasts_seconds
        if began >= self._doubted_at:
            self._settled.set()

    def close(self, reason: str) -> None:
        """Close the fence until the lease is taken again."""
        self._closed, self._until_seconds = reason, None
        self._settled.set()

    async def passed(self) -> None:
        if not self._settled.is_set():
            await self._settled.wait()
        self.check()

    def check(self) -> None:
        reason = self._reason()
        if reason or not self._settled.is_set():
            self._ask()
            raise FenceClosed(reason or "whether this server still leads is being found out")

    def heard(self, date: str) -> None:
        if date == self._last_date:  # they change once a second
            return
        self._last_date = date
        moment = http_date(date)
        if moment is None or self._until_seconds is None or not self._settled.is_set():
            return
        if moment.timestamp() >= self._until_seconds:
            self._settled.clear()
            self._doubted_at = self._clock.monotonic()
            if not self._has_warned:
                self._has_warned = True
                log.warning(
                    "By the API server's clock the lease was not renewed in time: writes wait until it is",
                    date=date,
                )
            self._ask()

    def _reason(self) -> str:
        if self._closed:
            return self._closed
        if self._clock.monotonic() >= self._until:
            return "the lease was not renewed in time, and another server may lead"
        return ""
