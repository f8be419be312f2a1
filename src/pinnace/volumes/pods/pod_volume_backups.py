"""The server's side of saving pod volumes: creates PodVolumeBackups, which node agents process, and waits.

Each volume has a PodVolumeBackup. The engine asks for those of all pods and waits afterwards, so that the
agents of all nodes work at the same time; each limits how much it does at once. An error affects its volume
only: the others are saved, and created PodVolumeBackups are waited for. (docs/spec: PVL 5.1-5.2, BKP 9.2-9.3)
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

from pinnace.api import API_VERSION, labels, phases
from pinnace.api.objects import JSONObject
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_snapshots import out_of_reach
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.backup_repository import RESTIC_REPOSITORY, BackupRepository
from pinnace.api.velero.pod_volume import RESTIC
from pinnace.archive.runlog import RunLog
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import POD_VOLUME_BACKUPS
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.volumes.creating import create_generated
from pinnace.volumes.errors import PodVolumeBackupFailed, PodVolumeError
from pinnace.volumes.outcomes import CANCELED, message_of, phase_of
from pinnace.volumes.pods.canceling import cancel_all
from pinnace.volumes.pods.in_flight import VolumesInFlight
from pinnace.volumes.pods.parents import parent_of
from pinnace.volumes.pods.pod_claims import PodVolume, VolumeError, find_volume, read_pod_volume
from pinnace.volumes.pods.pod_volume_run import PodVolumeRun
from pinnace.volumes.repositories import RepositoryUnavailable, lost_data_text, not_ready


@dataclass(slots=True)
class _Held:
    """The shared lock of a repository, and for how many pods it is held."""

    lock: AsyncExitStack
    uses: int = 0


class PodVolumeBackups:
    """Saves the volumes of the pods of one backup."""

    def __init__(
        self,
        client: KubeClient,
        backup: Backup,
        run: PodVolumeRun,
        *,
        is_locked: bool = False,
    ) -> None:
        """Args:
        is_locked: whether the location asks for object lock, which repositories of restic do not have.
        """
        self._is_locked = is_locked
        self._client = client
        self._backup = backup
        self._repositories = run.repositories
        self._locks = run.locks
        self._outcomes = run.outcomes
        self._timeout = run.timeout
        self._settle_seconds = run.settle_seconds
        self._uploader = run.uploader
        self._clock = run.clock
        self._created: list[str] = []
        self._canceled: set[str] = set()
        self._held: dict[str, _Held] = {}
        self._ended: list[JSONObject] = []
        self._has_warned = False
        self._told_of_lost: set[str] = set()

    @property
    def pod_volume_backups(self) -> Sequence[JSONObject]:
        """The PodVolumeBackups that ended, in their final state."""
        return self._ended

    async def request(self, pod: JSONObject, volumes: Sequence[str], log: RunLog) -> VolumesInFlight:
        """Ask the node agent of a running pod to save volumes of it.

        Their repository stays shared, so that nothing removes data from it, until they have ended or `close`.
        """
        if reason := out_of_reach(pod):
            left_out = "leave them out by the annotation backup.velero.io/backup-volumes-excludes"
            return VolumesInFlight(
                [
                    PodVolumeError(f"volume {volume} of the pod is not saved, as {reason}: {left_out}")
                    for volume in volumes
                ]
            )
        if problem := self._timeout.take_problem():
            log.error(Notice(Code.SETTING_IGNORED, f"{problem}; the server's timeout is used"))
        try:
            async with self._timeout.limit():
                await self._outcomes.wait_for_sync()
        except TimeoutError:
            return VolumesInFlight([PodVolumeError("timed out waiting for caches to sync")])
        try:
            async with self._timeout.limit():
                namespace, location = pod["metadata"]["namespace"], self._backup.spec.storage_location
                repository = await self._repositories.ensure(
                    namespace, location, uploader=self._uploader, backup=self._backup.metadata.uid
                )
        except RepositoryUnavailable as error:
            return VolumesInFlight([error])
        except TimeoutError:
            return VolumesInFlight([PodVolumeError(not_ready(self._uploader))])
        self._warn_of_lost(repository, log)
        if self._is_locked and is_restic(repository):
            self._is_locked = False  # once
            log.warning(
                Notice(
                    Code.SETTING_IGNORED,
                    "objectLock.mode of the location has no effect on the data of pod volumes: restic deletes"
                    " files while it works, so that its repositories cannot be held; start the server with"
                    " --uploader-type kopia",
                )
            )
        if uploader_settings(self._backup) and is_restic(repository) and not self._has_warned:
            self._has_warned = True
            log.warning(
                Notice(
                    Code.SETTING_IGNORED,
                    "uploaderConfig.parallelFilesUpload has no effect: restic chooses itself how many"
                    " files it"
                    " reads at once",
                )
            )
        return await self._request_in(repository, pod, volumes, log)

    async def close(self) -> None:
        """Give the repositories back whose volumes nobody waited for, as the backup was cut short."""
        while self._held:
            _, held = self._held.popitem()
            await held.lock.aclose()

    async def _hold(self, repository: str) -> None:
        """Share a repository until `_release` was called as often. Raises TimeoutError.

        The volumes of later pods share what those of the first hold: a wait of their own would be behind
        whoever waits to have the repository alone, who waits for the first ones, which wait for this.
        """
        if repository not in self._held:
            lock = AsyncExitStack()
            await lock.enter_async_context(self._timeout.shared(self._locks, repository))
            if repository not in self._held:
                self._held[repository] = _Held(lock)
            else:
                await lock.aclose()
        self._held[repository].uses += 1

    async def _release(self, repository: str) -> None:
        held = self._held.get(repository)
        if held is None:
            return  # after `close`
        held.uses -= 1
        if not held.uses:
            del self._held[repository]
            await held.lock.aclose()

    def _warn_of_lost(self, repository: BackupRepository, log: RunLog) -> None:
        """Warn once of the backups whose volume data is gone with the repository that was there before."""
        metadata = repository.metadata
        lost = metadata.annotations.get(labels.LOST_BACKUPS, "")
        is_for_this = metadata.annotations.get(labels.INITIALIZE_REPOSITORY) == self._backup.metadata.uid
        if lost and is_for_this and metadata.name not in self._told_of_lost:
            self._told_of_lost.add(metadata.name)
            log.warning(Notice(Code.POD_VOLUME_CHANGED, lost_data_text(repository, lost)))

    async def cancel_unfinished(self, reason: str) -> None:
        """Cancel the PodVolumeBackups that have not ended: the backup would not list their snapshots."""
        unfinished = [name for name in self._created if not self._outcomes.has_ended(name)]
        metadata = self._backup.metadata
        message = f"{CANCELED}, as its Backup {metadata.name} {reason}"
        names = [name for name in unfinished if name not in self._canceled]
        self._canceled.update(names)
        now = self._clock.now()
        await cancel_all(self._client, POD_VOLUME_BACKUPS, metadata.namespace, names, message, now=now)

    async def _request_in(
        self, repository: BackupRepository, pod: JSONObject, volumes: Sequence[str], log: RunLog
    ) -> VolumesInFlight:
        errors: list[Exception] = []
        names: list[str] = []
        try:
            await self._hold(repository.metadata.name)
        except TimeoutError:
            return VolumesInFlight([PodVolumeError(not_ready(self._uploader))])
        for volume in volumes:
            try:
                name = await self._create(repository, pod, volume, log)
            except (VolumeError, KubeError) as error:
                errors.append(error)
            else:
                names += [name] if name else []

        async def ended() -> Sequence[Exception]:
            try:
                return await self._ended_ones(names, log)
            finally:
                await self._release(repository.metadata.name)

        return VolumesInFlight(errors, ended)

    async def _ended_ones(self, names: Sequence[str], log: RunLog) -> Sequence[Exception]:
        try:
            async with self._timeout.limit():
                await self._outcomes.ended(names)
        except TimeoutError:
            late = await self._settle(names, log)
        else:
            late = []
        errors = self._collect(names, late, log)
        if late:
            errors.insert(0, PodVolumeError("timed out waiting for all PodVolumeBackups to complete"))
        return errors

    async def _settle(self, names: Sequence[str], log: RunLog) -> Sequence[str]:
        """Cancel all volumes of the backup that are late, and wait until those of a pod have ended.

        An agent that is done at that moment stores a snapshot, which belongs to the backup. One that is gone
        is not waited for any longer than `settle_seconds`, for all pods together.

        Returns:
            The names of those that were not saved in time.
        """
        self._log_unfinished(names, log)
        late = [name for name in names if not self._outcomes.has_ended(name)]
        await self.cancel_unfinished("did not wait for it any longer")
        with suppress(TimeoutError):
            async with self._timeout.limit(more_seconds=self._settle_seconds):
                await self._outcomes.ended(late)
        return [name for name in late if phase_of(self._outcomes.last_seen(name)) != TransferPhase.COMPLETED]

    async def _create(
        self, repository: BackupRepository, pod: JSONObject, volume: str, log: RunLog
    ) -> str | None:
        """Create the PodVolumeBackup and return its name, or None if there is nothing to save."""
        source = find_volume(pod, volume)
        if source is None:
            log.warning(
                Notice(Code.FILTER_MATCHES_NOTHING, f"No volume named {volume} found in pod, skipping"),
                volume=volume,
            )
            return None
        found = await read_pod_volume(self._client, pod, source)
        if found.is_host_path:
            log.warning(
                Notice(
                    Code.POD_VOLUME_NOT_SAVED,
                    f"Volume {volume} is a hostPath volume which is not supported for {self._uploader}"
                    " backup,"
                    " skipping",
                ),
                volume=volume,
            )
            return None
        body = new_pod_volume_backup(self._backup, repository, pod, found)
        namespace = self._backup.metadata.namespace
        created = await create_generated(self._client, POD_VOLUME_BACKUPS, body, namespace)
        name: str = created["metadata"]["name"]
        self._created.append(name)
        if (created["spec"].get("uploaderType") or RESTIC_REPOSITORY) != self._uploader:
            raise VolumeError(
                "the cluster's definition of PodVolumeBackup drops spec.uploaderType, so that the volume"
                f" cannot be saved with {self._uploader}: run `pinnace install --crds-only`"
            )
        log.info("Created PodVolumeBackup", volume=volume, podVolumeBackup=name)
        return name

    def _collect(self, names: Sequence[str], late: Sequence[str], log: RunLog) -> list[Exception]:
        """Keep the PodVolumeBackups, and return the errors but for those that are late. (docs/spec: PVL 5.2)

        A snapshot with a message lacks something, which is a warning. A PodVolumeBackup that was deleted or
        has not ended is kept as Failed: the pod is in the backup, and its restore names the volume that stays
        empty.
        """
        errors: list[Exception] = []
        for name in names:
            obj = self._outcomes.last_seen(name)
            if name in late:
                self._ended.append(_failed(obj, "it did not end in time"))
            elif self._outcomes.is_deleted(name):
                errors.append(PodVolumeError(f"pod volume backup failed: {name} was deleted"))
                self._ended.append(_failed(obj, "it was deleted before it ended"))
            elif obj is not None:
                self._ended.append(obj)
                if phase_of(obj) in phases.TRANSFER_NOT_DONE:
                    errors.append(PodVolumeBackupFailed(f"pod volume backup failed: {message_of(obj)}"))
                elif obj["status"].get("snapshotID") and (message := obj["status"].get("message")):
                    log.warning(
                        Notice(Code.POD_VOLUME_CHANGED, f"Volume {obj['spec']['volume']}: {message}"),
                        podVolumeBackup=name,
                    )
        return errors

    def _log_unfinished(self, names: Sequence[str], log: RunLog) -> None:
        """Log the PodVolumeBackups that have not ended; those with phase New probably lack an agent."""
        for name in names:
            if not self._outcomes.has_ended(name):
                obj = self._outcomes.last_seen(name) or {}
                phase = phase_of(obj) or str(TransferPhase.NEW)
                hint = ": does a node agent run on the node?" if phase == TransferPhase.NEW else ""
                node = (obj.get("spec") or {}).get("node", "")
                log.info(f"PodVolumeBackup has not ended{hint}", podVolumeBackup=name, phase=phase, node=node)


def is_restic(repository: BackupRepository) -> bool:
    """Whether the repository has the format of restic."""
    return repository.spec.repository_type in ("", RESTIC)


def new_pod_volume_backup(
    backup: Backup, repository: BackupRepository, pod: JSONObject, volume: PodVolume
) -> JSONObject:
    """The PodVolumeBackup of a volume: pure. (docs/spec: PVL 5.1)"""
    owner, of_pod = backup.metadata, pod["metadata"]
    own_labels = {labels.BACKUP_NAME: labels.label_value(owner.name), labels.BACKUP_UID: owner.uid}
    tags = {
        "backup": owner.name,
        "backup-uid": owner.uid,
        "pod": of_pod["name"],
        "pod-uid": of_pod["uid"],
        "ns": of_pod["namespace"],
        "volume": volume.source["name"],
    }
    metadata: JSONObject = {
        "generateName": f"{owner.name}-",
        "namespace": owner.namespace,
        "labels": own_labels,
        "ownerReferences": [_owner("Backup", owner.name, owner.uid)],
    }
    if volume.claim is not None:
        of_claim = volume.claim["metadata"]
        own_labels[labels.PVC_UID] = tags["pvc-uid"] = of_claim["uid"]
        metadata["annotations"] = {labels.PVC_NAME: of_claim["name"]}
    return {
        "apiVersion": API_VERSION,
        "kind": POD_VOLUME_BACKUPS.kind,
        "metadata": metadata,
        "spec": {
            "node": (pod.get("spec") or {}).get("nodeName", ""),
            "pod": pod_reference(pod),
            "volume": volume.source["name"],
            "backupStorageLocation": backup.spec.storage_location,
            "repoIdentifier": repository.spec.restic_identifier,
            "tags": tags,
            **({"uploaderSettings": settings} if (settings := uploader_settings(backup)) else {}),
            "uploaderType": uploader_of(repository),
            **parent_of(backup),
        },
        "status": {"progress": {}},
    }


def _failed(obj: JSONObject | None, message: str) -> JSONObject:
    """The record of a PodVolumeBackup that has no outcome of its own."""
    record = obj or {}
    return {
        **record,
        "status": {**(record.get("status") or {}), "phase": str(TransferPhase.FAILED), "message": message},
    }


def uploader_settings(backup: Backup) -> dict[str, str]:
    """The settings for the uploader, under the names of later Velero. (docs/spec: BEY 6.5)"""
    config = backup.spec.uploader_config
    parallel = config.parallel_files_upload if config is not None else 0
    return {"ParallelFilesUpload": str(parallel)} if parallel else {}


def uploader_of(repository: BackupRepository) -> str:
    """The field `uploaderType`. Definitions of Velero before 1.10 drop it; none of it means restic."""
    return repository.spec.repository_type or RESTIC_REPOSITORY


def pod_reference(pod: JSONObject) -> JSONObject:
    """The reference to a pod in PodVolumeBackups and PodVolumeRestores."""
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _owner(kind: str, name: str, uid: str) -> JSONObject:
    return {"apiVersion": API_VERSION, "kind": kind, "name": name, "uid": uid, "controller": True}
