"""Pod volumes for the controllers of backups, restores and deletions. (docs/spec: PVL 5, 12, 13)"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Final, Protocol

from pinnace.api import labels
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.backup_repository import BackupRepository
from pinnace.api.velero.pod_volume import RESTIC
from pinnace.api.velero.restore import Restore
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.catalogue.pod_volumes import SavedPodVolumes
from pinnace.catalogue.reading import read_deletable_in_repositories, read_pod_volumes
from pinnace.catalogue.volumes import Place, SavedVolume
from pinnace.controllers.shared.repository_presence import RepositoryPresence
from pinnace.controllers.shared.restored_pods import RestoredPods
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.unattended import Unattended
from pinnace.controllers.shared.waiting_pods import POD_INDEX, by_pod
from pinnace.hooks.pod_watches import PodWatches
from pinnace.kube.resources import DATA_UPLOADS, POD_VOLUME_BACKUPS, POD_VOLUME_RESTORES, APIResource
from pinnace.restore.collaborators import PodVolumeRestorer
from pinnace.runtime.informer import Informer, Selectors
from pinnace.runtime.logfields import get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.volumes.outcomes import SeenTransfers
from pinnace.volumes.pods.pod_volume_backups import PodVolumeBackups
from pinnace.volumes.pods.pod_volume_restores import PodVolumeRestores
from pinnace.volumes.pods.pod_volume_run import PodVolumeRun
from pinnace.volumes.pods.timeouts import Timeout
from pinnace.volumes.repositories import Repositories, RepositoryUnavailable, not_ready, repository_place
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import InvalidSnapshot, RepositoryMissing, UploaderError
from pinnace.volumes.uploader.locks import RepositoryLocks
from pinnace.volumes.uploaders import Uploaders

log = get_logger(__name__)

DEFAULT_TIMEOUT: Final = Duration.hours(4)
FORGET_WAIT_SECONDS: Final = 60.0
"""The limit for all repositories of a deletion together to become ready. (docs/spec: PVL 13)"""


class Forgetter(Protocol):
    """Removes snapshots from repositories."""

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """Remove a snapshot; one that is gone, or whose repository is, is success. Raises UploaderError."""
        ...

    async def is_gone(self, repository: Repository) -> bool:
        """Whether nothing of a repository is left in its location, for certain."""
        ...


class SnapshotForgetter:
    """Removes snapshots of restic and kopia."""

    def __init__(self, uploaders: Uploaders, presence: RepositoryPresence) -> None:
        self._uploaders = uploaders
        self._presence = presence

    async def forget(self, repository: Repository, snapshot: str) -> None:
        """As in `Forgetter`. Raises UploaderError."""
        try:
            await self._uploaders.forget(repository, snapshot)
        except RepositoryMissing:
            if not await self.is_gone(repository):
                raise

    async def is_gone(self, repository: Repository) -> bool:
        """As in `Forgetter`."""
        gone = await self._presence.is_gone(repository)
        if gone:
            log.warning(
                "The repository is gone from its location, and with it the snapshots that are to be deleted",
                location=repository.location,
                namespace=repository.namespace,
                uploader=repository.uploader,
            )
        return gone


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """Saves, restores and forgets the content of pod volumes.

    Args:
        forgetter: removes snapshots of all uploaders.
        timeout: of the volumes of one backup or restore together, unless that says otherwise.
        settle_seconds: how long canceled volumes of a backup may take to end after the timeout.
        uploader: the program that saves volumes.
    """

    scope: Scope
    forgetter: Forgetter
    repositories: Repositories
    locks: RepositoryLocks
    _: KW_ONLY
    timeout: Duration = DEFAULT_TIMEOUT
    settle_seconds: float = 0.0
    uploader: str = RESTIC

    @asynccontextmanager
    async def backing_up(self, backup: Backup, *, is_locked: bool) -> AsyncIterator[PodVolumeBackups]:
        """The collaborator for one backup; its volumes share one timeout.

        Args:
            is_locked: whether its location asks for object lock.
        """
        timeout = Timeout(backup.metadata.annotations, self.timeout)
        selector = f"{labels.BACKUP_UID}={backup.metadata.uid}"
        unattended = Unattended(self.scope, POD_VOLUME_BACKUPS)
        async with self._watched(POD_VOLUME_BACKUPS, selector, unattended) as (_, outcomes):
            run = self._run(outcomes, timeout)
            volumes = PodVolumeBackups(self.scope.client, backup, run, is_locked=is_locked)
            try:
                yield volumes
            finally:
                await volumes.close()
            await volumes.cancel_unfinished("has ended")

    @asynccontextmanager
    async def restoring(self, restore: Restore, backup: Backup) -> AsyncIterator[PodVolumeRestorer]:
        """The collaborator for one restore; its volumes share one timeout."""
        timeout = Timeout(restore.metadata.annotations, self.timeout)
        if problem := timeout.take_problem():
            log.error(f"{problem}; the server's timeout is used")
        selector, location = f"{labels.RESTORE_UID}={restore.metadata.uid}", backup.spec.storage_location
        async with self._watched(POD_VOLUME_RESTORES, selector) as (informer, outcomes):
            run = self._run(outcomes, timeout)
            restores = PodVolumeRestores(self.scope.client, restore, location, run)
            restored = RestoredPods(self.scope, restores, informer, PodWatches(self.scope.client))
            informer.add_handlers(on_update=lambda _old, new: restored.changed(new))
            yield restored

    def _run(self, outcomes: SeenTransfers, timeout: Timeout) -> PodVolumeRun:
        return PodVolumeRun(
            repositories=self.repositories,
            locks=self.locks,
            outcomes=outcomes,
            timeout=timeout,
            settle_seconds=self.settle_seconds,
            uploader=self.uploader,
            clock=self.scope.clock,
        )

    async def forget(self, backup: Backup, store: BackupStore) -> list[str]:
        """Remove all snapshots of pod volumes of a backup; return the errors, which do not stop the rest.

        Space is freed by the next prune. Repeating it is harmless.

        Raises:
            StorageError, KubeError: the snapshots cannot be listed now.
        """
        found = await volumes_in_repositories(self.scope, store, backup.metadata.name)
        errors, left_seconds = [], FORGET_WAIT_SECONDS
        now = asyncio.get_running_loop().time
        for saved in found:
            if saved.place != Place.REPOSITORY:
                continue
            namespace, snapshot, began = saved.namespace, saved.snapshot, now()
            try:
                async with asyncio.timeout(left_seconds):
                    repository = await self.repositories.ensure(
                        namespace, backup.spec.storage_location, uploader=saved.uploader
                    )
            except (RepositoryUnavailable, TimeoutError) as error:
                location = backup.spec.storage_location
                place = Repository(location=location, namespace=namespace, uploader=saved.uploader)
                if isinstance(error, RepositoryUnavailable) and await self.forgetter.is_gone(place):
                    continue
                reason = str(error) or not_ready(saved.uploader)
                errors.append(f"error deleting {saved.uploader} snapshot {snapshot}: {reason}")
                continue
            finally:
                left_seconds -= now() - began
            try:
                await self._forget_in(repository, snapshot)
            except UploaderError as error:
                errors.append(f"error deleting {saved.uploader} snapshot {snapshot}: {error}")
        return errors

    async def _forget_in(self, repository: BackupRepository, snapshot: str) -> None:
        place = repository_place(repository)
        try:
            async with self.locks.exclusive(repository.metadata.name):
                await self.forgetter.forget(place, snapshot)
        except InvalidSnapshot as error:
            log.warning("There is no such snapshot to forget", error=error)

    @asynccontextmanager
    async def _watched(
        self, resource: APIResource, selector: str, unattended: Unattended | None = None
    ) -> AsyncIterator[tuple[Informer, SeenTransfers]]:
        """The informer of the objects, indexed by pod, and their outcomes.

        The watch begins when the first object is about to be made, as most runs make none, and ends with the
        context.
        """
        informer = Informer(
            self.scope.client,
            resource,
            self.scope.namespace,
            selectors=Selectors(labels=selector),
            indexes={POD_INDEX: by_pod},
        )
        watching: list[asyncio.Task[None]] = []

        async def watched() -> None:
            if not watching:
                watching.append(group.create_task(informer.run()))
                if unattended is not None:
                    watching.append(group.create_task(unattended.watch(informer)))
            await informer.wait_for_sync()

        outcomes = SeenTransfers(watched)
        informer.add_handlers(
            on_add=outcomes.seen, on_update=lambda _old, new: outcomes.seen(new), on_delete=outcomes.gone
        )
        async with asyncio.TaskGroup() as group:
            yield informer, outcomes
            for task in watching:
                task.cancel()


async def volumes_in_repositories(scope: Scope, store: BackupStore, backup: str) -> list[SavedVolume]:
    """A backup's volumes of pods and its moved volumes: of live objects, and of those in the location.

    Raises:
        StorageError, KubeError: they cannot be listed now.
    """
    selector = f"{labels.BACKUP_NAME}={labels.label_value(backup)}"
    client, namespace = scope.client, scope.namespace
    return await read_deletable_in_repositories(
        store,
        backup,
        scope.workdir,
        pod_volume_backups=await client.list_all(POD_VOLUME_BACKUPS, namespace, label_selector=selector),
        data_uploads=await client.list_all(DATA_UPLOADS, namespace, label_selector=selector),
    )


async def pod_volumes_in_cluster(
    scope: Scope, store: BackupStore, backup: str, infos: Sequence[BackupVolumeInfo]
) -> SavedPodVolumes:
    """The volumes of pods whose PodVolumeBackups the cluster or the location has. (RST 4, BEY 11.1)

    Raises:
        KubeError, StorageError, DecodeError: they cannot be listed or read.
    """
    selector = f"{labels.BACKUP_NAME}={labels.label_value(backup)}"
    listed = await scope.client.list_all(POD_VOLUME_BACKUPS, scope.namespace, label_selector=selector)
    return await read_pod_volumes(store, backup, infos, listed)
