"""What PodVolumeBackup, PodVolumeRestore, DataUpload and DataDownload have in common.

(docs/spec: BEY 2.2)
"""

from typing import Annotated

from msgspec import Meta, Struct, field

from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, Int64, NullableTime
from pinnace.api.phases import TransferPhase
from pinnace.api.values.durations import Duration


class TransferProgress(Struct, rename="camel", kw_only=True):
    """The progress of the work.

    Attributes:
        total_bytes: Number of bytes to move.
        bytes_done: Number of bytes moved so far.
    """

    total_bytes: Int64 = 0
    bytes_done: Int64 = 0


class TransferStatus(Struct, rename="camel", kw_only=True):
    """What the program that moves the data of a volume reports about the work.

    Attributes:
        phase: The phase of the work.
        message: What went wrong.
        start_timestamp: When the work began, by the node's clock.
        completion_timestamp: When the work ended, by the node's clock.
        progress: The progress of the work.
        accepted_timestamp: When the node agent accepted the work.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: TransferPhase})] = ""
    message: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: TransferProgress = field(default_factory=TransferProgress)
    accepted_timestamp: NullableTime = None


class SavedStatus(TransferStatus, rename="camel", kw_only=True):
    """What the program that saves a volume reports about the work.

    Attributes:
        path: The directory or device on the node that was saved.
        snapshot_id: The snapshot in the repository; empty for an empty volume.
        message: What went wrong, or why there is no snapshot.
        incremental_bytes: Number of bytes that were new in the repository.
    """

    path: str = ""
    snapshot_id: str = field(name="snapshotID", default="")
    incremental_bytes: Int64 = 0


class DataMovementSpec(Struct, rename="camel", kw_only=True):
    """The fields that DataUpload and DataDownload have in common.

    Attributes:
        datamover: The program that moves the data; the server's own when empty or `velero`.
        backup_storage_location: The location of the moved data.
        source_namespace: The namespace of the claim that was saved.
        data_mover_config: Settings of the program.
        cancel: Whether to stop the work.
        operation_timeout: How long to wait for each object that is made for the work.
    """

    datamover: str = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    source_namespace: Annotated[str, REQUIRED] = ""
    data_mover_config: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    operation_timeout: Annotated[Duration, REQUIRED] = Duration()
