"""NonAdminRestore: a tenant's request to restore a backup of its namespace. (docs/spec: NAC 4.2)"""

from typing import Annotated

from msgspec import Struct, field

from pinnace.api.fields import REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin import API_VERSION
from pinnace.api.nonadmin.common import (
    DataMoverCounts,
    PodVolumeCounts,
    QueueInfo,
    RequestStatus,
    VeleroObject,
)
from pinnace.api.velero.restore import RestoreSpec


class NonAdminRestoreSpec(Struct, rename="camel", kw_only=True):
    """What to restore.

    Attributes:
        restore_spec: What to restore; its backupName is the name of a NonAdminBackup in this namespace.
    """

    restore_spec: Annotated[RestoreSpec, REQUIRED] = field(default_factory=RestoreSpec)


class VeleroRestore(VeleroObject, rename="camel", kw_only=True):
    """The Restore that was made for the request."""


class NonAdminRestoreStatus(RequestStatus, rename="camel", kw_only=True):
    """The state of the request and of its restore.

    Attributes:
        velero_restore: The Restore that was made for the request.
        data_mover_data_downloads: Volumes that a data mover restores.
        file_system_pod_volume_restores: Pod volumes that are restored file by file.
        queue_info: The queue position of the restore.
    """

    velero_restore: VeleroRestore | None = None
    data_mover_data_downloads: DataMoverCounts | None = None
    file_system_pod_volume_restores: PodVolumeCounts | None = None
    queue_info: QueueInfo | None = None


class NonAdminRestore(Struct, rename="camel", kw_only=True):
    """A tenant's request to restore a backup of its namespace."""

    kind: str = "NonAdminRestore"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminRestoreSpec = field(default_factory=NonAdminRestoreSpec)
    status: NonAdminRestoreStatus = field(default_factory=NonAdminRestoreStatus)
