"""The numbers of a restore's progress. (docs/spec: RST 23)"""

from typing import Final

from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice

PROGRESS_FAILURE: Final = Notice(Code.PROGRESS_NOT_SHOWN, "error patching restore's restore progress")


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
