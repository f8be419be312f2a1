"""The progress of a restore, published at most once a second. (docs/spec: RST 23)"""

from typing import Final

from pinnace.aio.clock import Clock
from pinnace.archive.eventlog import EventLog
from pinnace.kube.errors import KubeError
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.ports import (
    ProgressSink,
)

INTERVAL_SECONDS: Final = 1.0


class PassCounts:
    """Counts the selected and processed items of a pass; `Claims` counts the restored set."""

    def __init__(self) -> None:
        self.selected = 0
        self.processed = 0
        self.restored = 0

    def begin_pass(self, selected: int) -> None:
        """Start counting a new pass."""
        self.selected = selected
        self.processed = 0

    def item_done(self, restored: int) -> None:
        """Count one selected item as processed; `restored` is the current size of the restored set."""
        self.processed += 1
        self.restored = restored

    @property
    def total(self) -> int:
        """The estimated total: the restored items and the rest of this pass."""
        return self.restored + max(self.selected - self.processed, 0)


class ProgressReporter:
    """Publishes a `PassCounts` whenever it has changed, never twice within a second."""

    def __init__(self, progress: PassCounts, sink: ProgressSink, log: EventLog, timer: Clock) -> None:
        self._progress = progress
        self._sink = sink
        self._log = log
        self._timer = timer
        self._published: tuple[int, int] | None = None

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            await self._timer.sleep(INTERVAL_SECONDS)
            if self._progress.processed:
                await self.publish(self._progress.total, self._progress.restored)

    async def publish(self, total: int, restored: int) -> None:
        """Publish these numbers unless they were published last. A failure is only logged."""
        if (total, restored) == self._published:
            return
        try:
            await self._sink.publish(total, restored)
        except KubeError as error:
            self._log.warning(
                Notice(Code.PROGRESS_NOT_SHOWN, "error patching restore's restore progress"), error=error
            )
        else:
            self._published = (total, restored)
