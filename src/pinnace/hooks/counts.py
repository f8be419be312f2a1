"""How many hooks of a backup or restore were to run, and how many failed. (docs/spec: BEY 4.9)"""

import msgspec

from pinnace.api.velero.backup import HookStatus


class HookCounts(msgspec.Struct):
    """The counts of one backup or restore, which grow as hooks run.

    Attributes:
        attempted: those that were to run, also those skipped after the failure of another.
        failed: those that failed or could not be run.
    """

    attempted: int = 0
    failed: int = 0

    def status(self) -> HookStatus | None:
        """The counts for the status of the Backup or Restore; None if there were no hooks."""
        if not self.attempted:
            return None
        return HookStatus(hooks_attempted=self.attempted, hooks_failed=self.failed)
