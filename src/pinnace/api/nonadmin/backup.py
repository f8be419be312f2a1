"""NonAdminBackup: a tenant's request to save its namespace. (docs/spec: NAC 4.1)"""

from typing import Annotated

from msgspec import Struct, field

from pinnace.api.fields import REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin import API_VERSION
from pinnace.api.nonadmin.common import (
    DataMoverCounts,
    Mirror,
    PodVolumeCounts,
    QueueInfo,
    RequestStatus,
    VeleroObject,
)
from pinnace.api.velero.backup import BackupSpec


class NonAdminBackupSpec(Struct, rename="camel", kw_only=True):
    """What to save.

    Attributes:
        backup_spec: What to save, for how long and where, within this namespace.
        delete_backup: Delete the backup for good: the stored data and this object.
    """

    backup_spec: Annotated[BackupSpec, REQUIRED] = field(default_factory=BackupSpec)
    delete_backup: bool = False


class VeleroBackup(VeleroObject, rename="camel", kw_only=True):
    """The Backup that was made for the request.

    Attributes:
        spec: The Backup's spec, with everything that was enforced and defaulted.
    """

    spec: Mirror | None = None


class VeleroDeleteBackupRequest(VeleroObject, rename="camel", kw_only=True):
    """The DeleteBackupRequest that was made for `spec.deleteBackup`.

    Attributes:
        status: The state of the deletion, with its errors.
    """


class NonAdminBackupStatus(RequestStatus, rename="camel", kw_only=True):
    """The state of the request and of its backup.

    Attributes:
        velero_backup: The Backup that was made for the request.
        velero_delete_backup_request: The deletion of the backup, if it was requested.
        data_mover_data_uploads: Volumes that a data mover saves.
        file_system_pod_volume_backups: Pod volumes that are saved file by file.
        queue_info: The queue position of the backup.
    """

    velero_backup: VeleroBackup | None = None
    velero_delete_backup_request: VeleroDeleteBackupRequest | None = None
    data_mover_data_uploads: DataMoverCounts | None = None
    file_system_pod_volume_backups: PodVolumeCounts | None = None
    queue_info: QueueInfo | None = None


class NonAdminBackup(Struct, rename="camel", kw_only=True):
    """A tenant's request to save its namespace."""

    kind: str = "NonAdminBackup"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminBackupSpec = field(default_factory=NonAdminBackupSpec)
    status: NonAdminBackupStatus = field(default_factory=NonAdminBackupStatus)
