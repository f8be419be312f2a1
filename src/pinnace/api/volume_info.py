"""The record of each volume of a backup, as Velero 1.13 and later write it too. (docs/spec: BEY 3.6)"""

from enum import StrEnum
from typing import Annotated

from msgspec import Struct, field

from pinnace.api.fields import ALWAYS, NullableTime


class BackupMethod(StrEnum):
    """How the data of a volume was saved; empty for a volume that was skipped."""

    NATIVE_SNAPSHOT = "NativeSnapshot"
    POD_VOLUME_BACKUP = "PodVolumeBackup"
    CSI_SNAPSHOT = "CSISnapshot"


class CSISnapshotInfo(Struct, rename="camel", kw_only=True):
    """The CSI snapshot of a volume. For data that was moved the texts are `unknown`."""

    snapshot_handle: str = ""
    size: int = 0
    driver: str = ""
    vsc_name: str = ""
    ready_to_use: bool | None = field(name="ReadyToUse", default=None)


class DataMovementInfo(Struct, rename="camel", kw_only=True):
    """Where the data of a CSI snapshot was moved to."""

    data_mover: str = ""
    uploader_type: str = ""
    snapshot_handle: str = ""
    operation_id: str = field(name="operationID", default="")
    size: int = 0
    incremental_size: int = 0
    phase: str = field(name="Phase", default="")


class NativeSnapshotInfo(Struct, rename="camel", kw_only=True):
    """The snapshot that a provider made of a volume."""

    snapshot_handle: str = ""
    volume_type: str = ""
    volume_az: str = field(name="volumeAZ", default="")
    iops: str = ""
    phase: str = field(name="Phase", default="")


class PodVolumeInfo(Struct, rename="camel", kw_only=True):
    """The files of a volume, saved from a pod."""

    snapshot_handle: str = ""
    size: int = 0
    uploader_type: str = ""
    volume_name: str = ""
    pod_name: str = ""
    pod_namespace: str = ""
    node_name: str = ""
    phase: str = field(name="Phase", default="")


class PersistentVolumeInfo(Struct, rename="camel", kw_only=True):
    """The settings of the old volume that a newly provisioned one gets."""

    reclaim_policy: str = ""
    labels: dict[str, str] = {}


class BackupVolumeInfo(Struct, rename="camel", kw_only=True):
    """One volume of a backup.

    Attributes:
        pvc_name, pvc_namespace, pv_name: Each may be empty.
        backup_method: One of `BackupMethod`; empty for a volume that was skipped.
        snapshot_data_moved: Whether the data of the CSI snapshot was moved into the location.
        preserve_local_snapshot: Whether the CSI snapshot stays in the storage system. Only then does `velero
            backup describe` show it.
        result: `succeeded` or `failed`.
    """

    pvc_name: str = ""
    pvc_namespace: str = ""
    pv_name: str = ""
    backup_method: str = ""
    snapshot_data_moved: Annotated[bool, ALWAYS] = False
    preserve_local_snapshot: Annotated[bool, ALWAYS] = False
    skipped: Annotated[bool, ALWAYS] = False
    skipped_reason: str = ""
    start_timestamp: NullableTime = None
    completion_timestamp: NullableTime = None
    result: str = ""
    csi_snapshot_info: CSISnapshotInfo | None = None
    snapshot_data_movement_info: DataMovementInfo | None = None
    native_snapshot_info: NativeSnapshotInfo | None = None
    pvb_info: PodVolumeInfo | None = None
    pv_info: PersistentVolumeInfo | None = None

    @property
    def claim(self) -> tuple[str, str]:
        """Namespace and name of the claim."""
        return self.pvc_namespace, self.pvc_name


class RestoredVolumeInfo(Struct, rename="camel", kw_only=True):
    """One volume of a restore. (docs/spec: BEY 3.7)

    Attributes:
        pvc_name, pvc_namespace, pv_name: In the cluster; each may be empty.
        restore_method: One of `BackupMethod`, with `PodVolumeRestore` in place of `PodVolumeBackup`.
        snapshot_data_moved: Whether the data comes from the location and not from a CSI snapshot.
    """

    pvc_name: str = ""
    pvc_namespace: str = ""
    pv_name: str = ""
    restore_method: str = ""
    snapshot_data_moved: Annotated[bool, ALWAYS] = False
    csi_snapshot_info: CSISnapshotInfo | None = None
    snapshot_data_movement_info: DataMovementInfo | None = None
    native_snapshot_info: NativeSnapshotInfo | None = None
    pvr_info: PodVolumeInfo | None = None
