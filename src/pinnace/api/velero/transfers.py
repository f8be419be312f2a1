"""What the status of PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload has in common.

(docs/spec: BEY 2.2)
"""

from enum import StrEnum

from msgspec import Struct

from pinnace.api.fields import Int64


class TransferPhase(StrEnum):
    """The phase of the work. Empty counts as New."""

    NEW = "New"
    ACCEPTED = "Accepted"
    PREPARED = "Prepared"
    IN_PROGRESS = "InProgress"
    CANCELING = "Canceling"
    CANCELED = "Canceled"
    COMPLETED = "Completed"
    FAILED = "Failed"


class TransferProgress(Struct, rename="camel", kw_only=True):
    """The progress of the work.

    Attributes:
        total_bytes: Number of bytes to move.
        bytes_done: Number of bytes moved so far.
    """

    total_bytes: Int64 = 0
    bytes_done: Int64 = 0
