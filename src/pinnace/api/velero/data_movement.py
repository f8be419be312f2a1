"""DataUpload and DataDownload: the data of one CSI snapshot, moved to a location and back.

(docs/spec: BEY 6.7) A program other than the server may do the work: `datamover` names it.
"""

from typing import Annotated, Final

from msgspec import Meta, Struct, field

from pinnace.api import ALPHA_API_VERSION
from pinnace.api.fields import ENUM_KEY, NULLABLE, REQUIRED, Int64, NullableTime
from pinnace.api.meta import ObjectMeta
from pinnace.api.values.durations import Duration
from pinnace.api.velero.transfers import TransferPhase, TransferProgress

BUILT_IN_MOVERS: Final = frozenset({"", "velero"})
"""The values of `datamover` that mean the server's own."""


class CSISnapshotSpec(Struct, rename="camel", kw_only=True):
    """The CSI snapshot whose data is moved.

    Attributes:
        volume_snapshot: Name of the VolumeSnapshot.
        storage_class: Storage class of the temporary claim that is made of the snapshot.
        snapshot_class: Name of the VolumeSnapshotClass.
        driver: The CSI driver of the snapshot.
    """

    volume_snapshot: Annotated[str, REQUIRED] = ""
    storage_class: Annotated[str, REQUIRED] = ""
    snapshot_class: str = ""
    driver: str = ""


class DataUploadSpec(Struct, rename="camel", kw_only=True):
    """Which snapshot to move, and where to.

    Attributes:
        snapshot_type: The type of the snapshot; CSI.
        csi_snapshot: The snapshot.
        source_pvc: The claim that the snapshot was taken of.
        datamover: The program that moves the data; the server's own when empty or `velero`.
        backup_storage_location: The location that takes the data.
        source_namespace: The namespace of the claim.
        data_mover_config: Settings of the program.
        cancel: Whether the work is to be given up.
        operation_timeout: How long to wait for each object that is made for the work.
    """

    snapshot_type: Annotated[str, REQUIRED] = ""
    csi_snapshot: Annotated[CSISnapshotSpec | None, NULLABLE] = None
    source_pvc: Annotated[str, REQUIRED] = field(name="sourcePVC", default="")
    datamover: str = ""
    backup_storage_location: Annotated[str, REQUIRED] = ""
    source_namespace: Annotated[str, REQUIRED] = ""
    data_mover_config: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    operation_timeout: Annotated[Duration, REQUIRED] = Duration()


class DataUploadStatus(Struct, rename="camel", kw_only=True):
    """What the program reports about the work.

    Attributes:
        phase: The phase of the work.
        path: The path that was saved.
        snapshot_id: The snapshot in the repository; empty for an empty volume.
        data_mover_result: What else the program needs to restore the data.
        message: What went wrong.
        start_timestamp: When the work began.
        completion_timestamp: When the work ended.
        progress: The progress of the work.
        incremental_bytes: Number of bytes that were new in the repository.
        node: The node that does the work.
        node_os: The operating system of the node.
        accepted_by_node: The node that took the work on.
        accepted_timestamp: When a node took the work on.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: TransferPhase})] = ""
    path: str = ""
    snapshot_id: str = field(name="snapshotID", default="")
    data_mover_result: Annotated[dict[str, str], NULLABLE] = {}
    message: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: TransferProgress = field(default_factory=TransferProgress)
    incremental_bytes: Int64 = 0
    node: str = ""
    node_os: str = field(name="nodeOS", default="")
    accepted_by_node: str = ""
    accepted_timestamp: NullableTime = None


class DataUpload(Struct, rename="camel", kw_only=True):
    """A request to move the data of a snapshot to a location, and its outcome."""

    kind: str = "DataUpload"
    api_version: str = ALPHA_API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataUploadSpec = field(default_factory=DataUploadSpec)
    status: DataUploadStatus = field(default_factory=DataUploadStatus)


class TargetVolume(Struct, rename="camel", kw_only=True):
    """The claim and volume that get the data.

    Attributes:
        pvc: Name of the claim.
        pv: Name of the volume.
        namespace: Namespace of the claim.
    """

    pvc: Annotated[str, REQUIRED] = ""
    pv: Annotated[str, REQUIRED] = ""
    namespace: Annotated[str, REQUIRED] = ""


class DataDownloadSpec(Struct, rename="camel", kw_only=True):
    """Which data to restore, and where to.

    Attributes:
        target_volume: The claim and volume that get the data.
        backup_storage_location: The location that holds the data.
        datamover: The program that moves the data; the server's own when empty or `velero`.
        snapshot_id: The snapshot in the repository.
        source_namespace: The namespace of the claim that was saved.
        data_mover_config: Settings of the program.
        cancel: Whether the work is to be given up.
        operation_timeout: How long to wait for each object that is made for the work.
        node_os: The operating system of the node that the volume is for.
        snapshot_size: Number of bytes of the data.
    """

    target_volume: Annotated[TargetVolume, REQUIRED] = field(default_factory=TargetVolume)
    backup_storage_location: Annotated[str, REQUIRED] = ""
    datamover: str = ""
    snapshot_id: Annotated[str, REQUIRED] = field(name="snapshotID", default="")
    source_namespace: Annotated[str, REQUIRED] = ""
    data_mover_config: Annotated[dict[str, str], NULLABLE] = {}
    cancel: bool = False
    operation_timeout: Annotated[Duration, REQUIRED] = Duration()
    node_os: str = field(name="nodeOS", default="")
    snapshot_size: Int64 = 0


class DataDownloadStatus(Struct, rename="camel", kw_only=True):
    """What the program reports about the work.

    Attributes:
        phase: The phase of the work.
        message: What went wrong.
        start_timestamp: When the work began.
        completion_timestamp: When the work ended.
        progress: The progress of the work.
        node: The node that does the work.
        accepted_by_node: The node that took the work on.
        accepted_timestamp: When a node took the work on.
    """

    phase: Annotated[str, Meta(extra={ENUM_KEY: TransferPhase})] = ""
    message: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    progress: TransferProgress = field(default_factory=TransferProgress)
    node: str = ""
    accepted_by_node: str = ""
    accepted_timestamp: NullableTime = None


class DataDownload(Struct, rename="camel", kw_only=True):
    """A request to restore the data of a snapshot from a location, and its outcome."""

    kind: str = "DataDownload"
    api_version: str = ALPHA_API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataDownloadSpec = field(default_factory=DataDownloadSpec)
    status: DataDownloadStatus = field(default_factory=DataDownloadStatus)
