"""The earlier snapshot of a volume that an uploader compares with. Pure. (docs/spec: PVL 7.3)"""

from collections.abc import Iterable
from datetime import UTC, datetime

from pinnace.api import labels
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.backup import Backup, BackupType
from pinnace.api.velero.pod_volume import NO_PARENT, PodVolumeBackup

_EARLIEST = datetime.min.replace(tzinfo=UTC)


def parent_of(backup: Backup) -> dict[str, str]:
    """The field `parentSnapshot` of what saves the volumes of a backup. (docs/spec/after-1.18.md, 5.2)"""
    return {"parentSnapshot": NO_PARENT} if backup.spec.backup_type == BackupType.FULL else {}


def parent_snapshot(new: PodVolumeBackup, others: Iterable[PodVolumeBackup]) -> str:
    """The newest snapshot of the same claim in the same location; empty if there is none.

    If the newest backup of the claim found it empty there is no parent: older ones are not considered.

    Args:
        others: PodVolumeBackups of the same namespace; those of other claims are left out.
    """
    claim = new.metadata.labels.get(labels.PVC_UID, "")
    if not claim:
        return ""
    completed = [
        other
        for other in others
        if other.metadata.labels.get(labels.PVC_UID) == claim
        and other.status.phase == TransferPhase.COMPLETED
        and other.spec.uploader == new.spec.uploader
        and other.spec.backup_storage_location == new.spec.backup_storage_location
    ]
    newest = max(completed, key=lambda other: other.status.start_timestamp or _EARLIEST, default=None)
    return newest.status.snapshot_id if newest is not None else ""
