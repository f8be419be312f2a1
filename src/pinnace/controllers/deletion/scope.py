"""Which files and pod volume snapshots of a backup a server may and can delete. (docs/spec: CTL 6.2)"""

from pinnace.api import labels
from pinnace.api.velero.backup import Backup
from pinnace.catalogue.volumes import Place, Way
from pinnace.controllers.shared.pod_volumes import PodVolumes, volumes_in_repositories
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.identity import read_identity
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound, UnreadableObject
from pinnace.storage.holds import Hold


def request_labels(backup: Backup) -> dict[str, str]:
    """The labels of the DeleteBackupRequests for a backup."""
    name = labels.label_value(backup.metadata.name)
    return {labels.BACKUP_NAME: name, labels.BACKUP_UID: backup.metadata.uid}


async def holder_here(scope: Scope) -> str:
    """What names this server in the holds that it copies; empty if its cluster cannot be told from others."""
    uid = (await read_identity(scope.client)).uid
    return f"{uid}/{scope.namespace}" if uid else ""


async def standing_hold(scope: Scope, backup: Backup, store: BackupStore) -> Hold | None:
    """The hold of the file beside a Backup that is not held itself; None if there is none.

    A copy of this server's own hold that was released stands no longer: the file goes in a moment.

    Raises:
        StorageError: the location cannot be read now.
    """
    hold = await store.read_hold(backup.metadata.name)
    if hold is None or not hold.held:
        return None
    was_copied = labels.HOLD_COPIED in backup.metadata.annotations
    return None if was_copied and hold.holder and hold.holder == await holder_here(scope) else hold


async def foreign_files(store: BackupStore, backup: Backup) -> bool:
    """Whether the location holds another backup of that name.

    Deleting a backup that failed because its name was taken must not delete the other backup. Uids alone do
    not tell them apart, as a backup that was found in the location has another uid in each cluster; its start
    time does. Schedules of two clusters begin in the same second: then the backup that failed is not the one
    that is stored.

    Raises:
        StorageError: the location cannot be read now.
    """
    try:
        stored = await (await store.located(backup.metadata.name)).read_backup(backup.metadata.name)
    except (ObjectNotFound, UnreadableObject):
        return False
    began = stored.status.start_timestamp
    if began is None or began != backup.status.start_timestamp:
        return began is not None
    failed_alone = bool(backup.status.failure_reason) and not stored.status.failure_reason
    return failed_alone and stored.metadata.uid != backup.metadata.uid


class RecordedPodVolumes:
    """The pod volume snapshots of one backup: those of PodVolumeBackups in the cluster and in the location.

    Args:
        pod_volumes: forgets the snapshots; None if this server cannot.
    """

    def __init__(
        self, scope: Scope, store: BackupStore, backup: Backup, pod_volumes: PodVolumes | None
    ) -> None:
        self._scope = scope
        self._store = store
        self._backup = backup
        self._pod_volumes = pod_volumes

    async def obstacles(self) -> list[str]:
        found = await volumes_in_repositories(self._scope, self._store, self._backup.metadata.name)
        return [
            str(volume)
            for volume in found
            # `Snapshots` names moved data that is elsewhere.
            if (volume.place == Place.ELSEWHERE and volume.way == Way.POD_VOLUME)
            or (volume.place == Place.REPOSITORY and self._pod_volumes is None)
        ]

    async def delete(self) -> list[str]:
        if self._pod_volumes is None:
            return []
        return await self._pod_volumes.forget(self._backup, self._store)
