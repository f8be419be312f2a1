"""DataUpload and DataDownload: the data of one CSI snapshot, moved to a location and back.

(docs/spec: BEY 6.7) A program other than the server may do the work: `datamover` names it.
"""

from typing import Annotated, Final

from msgspec import Struct, field

from pinnace.api import ALPHA_API_VERSION
from pinnace.api.fields import NULLABLE, REQUIRED, Int64
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.transfers import DataMovementSpec, SavedStatus, TransferStatus

BUILT_IN_MOVER: Final = "velero"
FILE_SYSTEM_MOVER: Final = "velero-fs"
"""Velero's name for the same mover since 1.19, which writes it into every Backup."""
BUILT_IN_MOVERS: Final = frozenset({"", BUILT_IN_MOVER, FILE_SYSTEM_MOVER})
"""The values of `datamover` that select the server's own data mover."""
BLOCK_MOVER: Final = "velero-block"
"""Velero's mover of blocks since 1.19. Its snapshots, in the same repositories, are images of devices."""
KNOWN_MOVERS: Final = BUILT_IN_MOVERS | {BLOCK_MOVER}
"""The movers whose data can be restored; that of the block mover is only read. (docs/adr/121)"""
_IN_PLACE: Final = {
    "": "pinnace-in-place",
    BUILT_IN_MOVER: "pinnace-in-place",
    BLOCK_MOVER: "pinnace-in-place-block",
}
DOWNLOAD_MOVERS: Final = KNOWN_MOVERS | set(_IN_PLACE.values())
"""The values of `datamover` in DataDownloads for the server's own data mover."""


def in_place_mover(mover: str) -> str:
    """The name in a DataDownload that writes data of a mover into the volume of a claim that exists.

    Programs that do not know it leave such a DataDownload alone. By the mover's own name, Velero and older
    versions of ours would take the volume for one that was made for the transfer, and delete it. (ADR 122)
    """
    return _IN_PLACE.get(mover, mover)


def written_mover(mover: str) -> str:
    """The name of a mover as it is written: the built-in one by the name that every Velero knows."""
    return BUILT_IN_MOVER if mover == FILE_SYSTEM_MOVER else mover


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


class DataUploadSpec(DataMovementSpec, rename="camel", kw_only=True):
    """Which snapshot to move, and where to.

    Attributes:
        snapshot_type: The type of the snapshot; CSI.
        csi_snapshot: The snapshot.
        source_pvc: The claim that the snapshot was taken of.
        parent_snapshot: As of a PodVolumeBackup.
        source_fs_type: The file system of its volume, as the volume names it; Velero's since 1.19.
    """

    snapshot_type: Annotated[str, REQUIRED] = ""
    csi_snapshot: Annotated[CSISnapshotSpec | None, NULLABLE] = None
    source_pvc: Annotated[str, REQUIRED] = field(name="sourcePVC", default="")
    parent_snapshot: str = ""
    source_fs_type: str = field(name="sourceFSType", default="")


class DataUploadStatus(SavedStatus, rename="camel", kw_only=True):
    """What the program reports about the work.

    Attributes:
        data_mover_result: What else the program needs to restore the data.
        node: The node that does the work.
        node_os: The operating system of the node.
        accepted_by_node: The node that accepted the work.
    """

    data_mover_result: Annotated[dict[str, str], NULLABLE] = field(default_factory=dict)
    node: str = ""
    node_os: str = field(name="nodeOS", default="")
    accepted_by_node: str = ""


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
        fs_type: The file system in an image of the volume.
    """

    pvc: Annotated[str, REQUIRED] = ""
    pv: Annotated[str, REQUIRED] = ""
    namespace: Annotated[str, REQUIRED] = ""
    fs_type: str = field(name="fsType", default="")


class DataDownloadSpec(DataMovementSpec, rename="camel", kw_only=True):
    """Which data to restore, and where to.

    Attributes:
        target_volume: The claim and volume that get the data.
        snapshot_id: The snapshot in the repository.
        node_os: The operating system of the node that the volume is for.
        snapshot_size: Number of bytes of the data.
        restore_type: The existingVolumeDataPolicy of the restore: incremental keeps files of the same size
            and time.
    """

    target_volume: Annotated[TargetVolume, REQUIRED] = field(default_factory=TargetVolume)
    snapshot_id: Annotated[str, REQUIRED] = field(name="snapshotID", default="")
    node_os: str = field(name="nodeOS", default="")
    snapshot_size: Int64 = 0
    restore_type: str = ""


class DataDownloadStatus(TransferStatus, rename="camel", kw_only=True):
    """What the program reports about the work.

    Attributes:
        node: The node that does the work.
        accepted_by_node: The node that accepted the work.
    """

    node: str = ""
    accepted_by_node: str = ""


class DataDownload(Struct, rename="camel", kw_only=True):
    """A request to restore the data of a snapshot from a location, and its outcome."""

    kind: str = "DataDownload"
    api_version: str = ALPHA_API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: DataDownloadSpec = field(default_factory=DataDownloadSpec)
    status: DataDownloadStatus = field(default_factory=DataDownloadStatus)
