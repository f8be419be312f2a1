"""Reports the progress of a backup, at most once a second. (docs/spec: BKP 13)"""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from types import TracebackType
from typing import Self

from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.runs.activity import Activity
from pinnace.runs.progress import ProgressSink

_INTERVAL = timedelta(seconds=1)


PROGRESS_MESSAGE = (
    "Backed up %d items out of an estimated total of %d (estimate will change throughout the backup)"
)
"""The line that is logged after each collected item, for people and for tools that wait for it."""


class ProgressReporter:
    """Passes the newest numbers on, one call of the sink at a time, without delaying the backup.

    An async context manager: leaving it normally waits for a call in flight, an exception cancels it.
    A failing sink counts as a warning.

    Args:
        activity: gets all numbers, not only those of each second.
    """

    def __init__(
        self,
        sink: ProgressSink | None,
        activity: Activity,
        *,
        log: RunLog,
        clock: Callable[[], datetime],
    ) -> None:
        self._sink = sink
        self._activity = activity
        self._log = log
        self._clock = clock
        self._next_at: datetime | None = None
        self._last = (-1, -1)
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
        now = self._clock()
        if (self._next_at is not None and now < self._next_at) or (self._call and not self._call.done()):
            return
        self._next_at = now + _INTERVAL
        self._last = (done, total)
        self._call = asyncio.create_task(self._report(self._sink, done, total), name="backup progress")

    async def finish(self, count: int) -> None:
        """Report the final number of items, unless it was reported last."""
        self._activity.done = self._activity.total = count
        if self._call is not None:
            await self._call
        if self._sink is not None and self._last != (count, count):
            self._last = (count, count)
            await self._report(self._sink, count, count)

    async def _report(self, sink: ProgressSink, done: int, total: int) -> None:
        try:
            await sink(total, done)
        except KubeError as error:
            self._log.warning(
                Notice(Code.PROGRESS_NOT_SHOWN, "Got error trying to update backup's status.progress"),
                error=error,
            )


def trace_item(log: RunLog, group_resource: str, namespace: str, name: str) -> None:
    """Write the two debug lines of an item that users of Velero look for."""
    fields = {"resource": group_resource, "namespace": namespace, "name": name}
    log.debug("Processing item", progress="", **fields)
    log.debug("Backing up item", **fields)
