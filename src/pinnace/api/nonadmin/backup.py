"""NonAdminBackup: a tenant's wish to have the own namespace saved. (docs/spec: NAC 4.1)"""

from typing import Annotated

from msgspec import Struct, field

from pinnace.api.backup import BackupSpec
from pinnace.api.fields import REQUIRED
from pinnace.api.meta import ObjectMeta
from pinnace.api.nonadmin import API_VERSION
from pinnace.api.nonadmin.common import Condition, DataMoverCounts, Mirror, Phase, PodVolumeCounts, QueueInfo


class NonAdminBackupSpec(Struct, rename="camel", kw_only=True):
    """What to save.

    Attributes:
        backup_spec: What to save, for how long and where, within the own namespace.
        delete_backup: Delete the backup for good: the stored data and this object.
    """

    backup_spec: Annotated[BackupSpec, REQUIRED] = field(default_factory=BackupSpec)
    delete_backup: bool = False


class VeleroBackup(Struct, rename="camel", kw_only=True):
    """The Backup that was made for the request.

    Attributes:
        nacuuid: The unique id that ties both together.
        name: Name of the Backup.
        namespace: Namespace of the server.
        spec: The Backup's spec, with everything that was enforced and defaulted.
        status: The Backup's status.
    """

    nacuuid: str = ""
    name: str = ""
    namespace: str = ""
    spec: Mirror | None = None
    status: Mirror | None = None


class VeleroDeleteBackupRequest(Struct, rename="camel", kw_only=True):
    """The DeleteBackupRequest that was made for `spec.deleteBackup`.

    Attributes:
        nacuuid: The unique id of the backup.
        name: Name of the DeleteBackupRequest.
        namespace: Namespace of the server.
        status: How deleting goes, with the errors if it does not.
    """

    nacuuid: str = ""
    name: str = ""
    namespace: str = ""
    status: Mirror | None = None


class NonAdminBackupStatus(Struct, rename="camel", kw_only=True):
    """How far the request is, and what became of the backup.

    Attributes:
        phase: How far the request is; says nothing about success of the backup.
        velero_backup: The Backup that was made for the request.
        velero_delete_backup_request: How deleting goes.
        data_mover_data_uploads: Volumes in the hands of a data mover.
        file_system_pod_volume_backups: Pod volumes that are copied file by file.
        queue_info: Where the backup stands in the queue.
        conditions: What was decided about the request, and why.
    """

    phase: Phase = ""
    velero_backup: VeleroBackup | None = None
    velero_delete_backup_request: VeleroDeleteBackupRequest | None = None
    data_mover_data_uploads: DataMoverCounts | None = None
    file_system_pod_volume_backups: PodVolumeCounts | None = None
    queue_info: QueueInfo | None = None
    conditions: list[Condition] = []


class NonAdminBackup(Struct, rename="camel", kw_only=True):
    """A tenant's wish to have the own namespace saved."""

    kind: str = "NonAdminBackup"
    api_version: str = API_VERSION
    metadata: ObjectMeta = field(default_factory=ObjectMeta)
    spec: NonAdminBackupSpec = field(default_factory=NonAdminBackupSpec)
    status: NonAdminBackupStatus = field(default_factory=NonAdminBackupStatus)
