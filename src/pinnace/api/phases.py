"""The phases of runs and transfers: their sets, and the one decision how a run ended. Pure. (docs/adr/111)

A Backup and a Restore have the same names for the same phases, so one set serves both.

    New ──> InProgress ──items done──> ended() ──> WaitingForPluginOperations ──> Finalizing ──> Completed
     │           │                        │           each also with PartiallyFailed        PartiallyFailed
     │           └──> Failed              └──────────────────────────────────────────────────────^
     └──> FailedValidation
"""

from enum import StrEnum
from typing import Final

from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.objects import JSONObject, text


class BackupPhase(StrEnum):
    """The phase of a Backup. Empty counts as New. (docs/spec: API 2.3, BEY 2.2)"""

    NEW = "New"
    QUEUED = "Queued"
    READY_TO_START = "ReadyToStart"
    FAILED_VALIDATION = "FailedValidation"
    IN_PROGRESS = "InProgress"
    WAITING_FOR_PLUGIN_OPERATIONS = "WaitingForPluginOperations"
    WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED = "WaitingForPluginOperationsPartiallyFailed"
    FINALIZING = "Finalizing"
    FINALIZING_PARTIALLY_FAILED = "FinalizingPartiallyFailed"
    COMPLETED = "Completed"
    PARTIALLY_FAILED = "PartiallyFailed"
    FAILED = "Failed"
    DELETING = "Deleting"


class RestorePhase(StrEnum):
    """The phase of a Restore. Empty counts as New. (docs/spec: API 3.3, BEY 2.2)"""

    NEW = "New"
    FAILED_VALIDATION = "FailedValidation"
    IN_PROGRESS = "InProgress"
    WAITING_FOR_PLUGIN_OPERATIONS = "WaitingForPluginOperations"
    WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED = "WaitingForPluginOperationsPartiallyFailed"
    FINALIZING = "Finalizing"
    FINALIZING_PARTIALLY_FAILED = "FinalizingPartiallyFailed"
    COMPLETED = "Completed"
    PARTIALLY_FAILED = "PartiallyFailed"
    FAILED = "Failed"


class TransferPhase(StrEnum):
    """The phase of a PodVolumeBackup, PodVolumeRestore, DataUpload or DataDownload. Empty counts as New."""

    NEW = "New"
    ACCEPTED = "Accepted"
    PREPARED = "Prepared"
    IN_PROGRESS = "InProgress"
    CANCELING = "Canceling"
    CANCELED = "Canceled"
    COMPLETED = "Completed"
    FAILED = "Failed"


_Phases = frozenset[str]

NOT_BEGUN: Final[_Phases] = frozenset({"", BackupPhase.NEW, BackupPhase.QUEUED, BackupPhase.READY_TO_START})
COLLECTING: Final[_Phases] = NOT_BEGUN | {BackupPhase.IN_PROGRESS}
"""The number of items is not final; the next backup of a schedule waits. (docs/spec: BEY 4.2, 7.1)"""
WAITING: Final[_Phases] = frozenset(
    {
        BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS,
        BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED,
    }
)
FINALIZING: Final[_Phases] = frozenset({BackupPhase.FINALIZING, BackupPhase.FINALIZING_PARTIALLY_FAILED})
UNFINISHED: Final[_Phases] = WAITING | FINALIZING
"""The items are stored or restored, but not all that belongs to them. (docs/spec: BEY 2.2)"""
RUNNING: Final[_Phases] = COLLECTING | UNFINISHED

FINISHED_IN_PART: Final[_Phases] = frozenset({BackupPhase.PARTIALLY_FAILED})
"""Log or results say what is missing."""
FINISHED: Final[_Phases] = FINISHED_IN_PART | {BackupPhase.COMPLETED}
"""The run came to its end. Such a Backup is in its location and can be restored. (docs/spec: AFT 7.3)"""
ENDED: Final[_Phases] = FINISHED | {BackupPhase.FAILED}
"""The ends of a run that has begun."""
FAILURES: Final[_Phases] = frozenset({BackupPhase.FAILED, BackupPhase.FAILED_VALIDATION})
FINAL: Final[_Phases] = FINISHED | FAILURES
"""A Restore stays in such a phase, and a Backup until it is deleted."""
SERVED: Final[_Phases] = FINAL | {BackupPhase.DELETING}
"""No run is to come any more."""

NOTHING_STORED: Final[_Phases] = NOT_BEGUN | {BackupPhase.FAILED_VALIDATION}
"""The location has no file of the run. (docs/spec: AFT 1.4)"""
WITH_LOG: Final[_Phases] = ENDED | UNFINISHED
"""The log is stored. (docs/spec: BEY 11.4)"""
WITHOUT_CONTENTS: Final[_Phases] = (NOTHING_STORED | {BackupPhase.IN_PROGRESS}) - {""}
"""A Backup has no tarball. One that names no phase may have: its metadata file may be damaged."""
NOTHING_TO_VERIFY: Final[_Phases] = FAILURES | {BackupPhase.DELETING}

CUT_SHORT: Final = BackupPhase.PARTIALLY_FAILED
"""The end of an UNFINISHED run when no server will take its last steps."""

TRANSFER_NEW: Final[_Phases] = frozenset({"", TransferPhase.NEW})
"""No node agent has claimed the object yet."""
TRANSFER_PREPARING: Final[_Phases] = frozenset({TransferPhase.ACCEPTED, TransferPhase.PREPARED})
TRANSFER_BEGUN: Final[_Phases] = TRANSFER_PREPARING | {TransferPhase.IN_PROGRESS}
"""A node agent has claimed the object; for pod volumes, the agents here know only the last one."""
TRANSFER_STORED: Final[_Phases] = frozenset({TransferPhase.COMPLETED, TransferPhase.FAILED})
"""A PodVolumeBackup of a location is made known in a cluster. (docs/spec: BEY 7.5)"""
TRANSFER_NOT_DONE: Final[_Phases] = frozenset({TransferPhase.FAILED, TransferPhase.CANCELED})
"""The transfer has ended, and the volume is neither saved nor restored."""
TRANSFER_ENDED: Final[_Phases] = TRANSFER_NOT_DONE | {TransferPhase.COMPLETED}


def ended(errors: int, *, operations: int = 0, finalizing: bool = False) -> BackupPhase:
    """Decide the phase of a Backup or Restore after its items.

    | operations | finalizing | no errors                  | errors                                    |
    | ---------- | ---------- | -------------------------- | ----------------------------------------- |
    | some       | either     | WaitingForPluginOperations | WaitingForPluginOperationsPartiallyFailed |
    | none       | yes        | Finalizing                 | FinalizingPartiallyFailed                 |
    | none       | no         | Completed                  | PartiallyFailed                           |

    Args:
        errors: those of the run so far.
        operations: how many operations of its actions have not ended.
        finalizing: whether results, or settings of restored volumes, are still to be written.
    """
    if operations:
        whole, part = (
            BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS,
            BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED,
        )
    elif finalizing:
        whole, part = BackupPhase.FINALIZING, BackupPhase.FINALIZING_PARTIALLY_FAILED
    else:
        whole, part = BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED
    return part if errors else whole


def is_foreign(obj: JSONObject) -> bool:
    """Whether only a Velero server can continue the Backup or Restore: Pinnace did not set its phase."""
    if text(obj, "metadata", "annotations", ITEM_OPERATIONS):
        return False
    return text(obj, "status", "phase") in UNFINISHED
