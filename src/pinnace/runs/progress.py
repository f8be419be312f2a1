"""The progress of a run as it is stored or shown: at most once a second. (docs/spec: BKP 13, RST 23)"""

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Final, Self

from pinnace.aio.clock import Clock
from pinnace.archive.eventlog import EventLog
from pinnace.kube.errors import KubeError
from pinnace.notices.notice import Notice
from pinnace.runs.activity import Activity

ProgressSink = Callable[[int, int], Awaitable[None]]
"""Keeps or shows the total of items and the items done; raises KubeError if it cannot."""

INTERVAL_SECONDS: Final = 1.0


class ProgressReporter:
    """Passes the newest numbers on, one call of the sink at a time, without delaying the run.

    An async context manager: leaving it normally waits for a call in flight, an exception cancels it.
    A failing sink counts as a warning; the next number is passed on again, and so is the last.

    Args:
        activity: gets all numbers, not only those of each second.
        failure: the warning.
    """

    def __init__(
        self,
        sink: ProgressSink | None,
        activity: Activity,
        *,
        log: EventLog,
        failure: Notice,
        clock: Clock,
    ) -> None:
        self._sink = sink
        self._activity = activity
        self._log = log
        self._failure = failure
        self._clock = clock
        self._next_at: float | None = None
        self._last = self._failed = (-1, -1)
        self._call: asyncio.Task[None] | None = None

    @property
    def is_watched(self) -> bool:
        """Whether the numbers are shown or kept anywhere."""
        return self._sink is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._call is None:
            return
        if error is not None:
            self._call.cancel()
            await asyncio.gather(self._call, return_exceptions=True)
        else:
            await self._call

    def update(self, done: int, total: int) -> None:
        """Record the numbers; report them if a second has passed and they have changed."""
        self._activity.done, self._activity.total = done, total
        if self._sink is None or (done, total) == self._last:
            return
        now = self._clock.monotonic()
        if (self._next_at is not None and now < self._next_at) or (self._call and not self._call.done()):
            return
        self._next_at = now + INTERVAL_SECONDS
        self._call = asyncio.create_task(self._report(self._sink, done, total), name="progress of a run")

    async def finish(self, count: int) -> None:
        """Report the final number of items, unless it was reported last."""
        self._activity.done = self._activity.total = count
        if self._call is not None:
            await self._call
        if self._sink is not None and self._last != (count, count):
            await self._report(self._sink, count, count)

    async def _report(self, sink: ProgressSink, done: int, total: int) -> None:
        self._last = (done, total)
        try:
            await sink(total, done)
        except KubeError as error:
            if self._last != self._failed:
                self._log.warning(self._failure, error=error)
            self._failed, self._last = self._last, (-1, -1)
