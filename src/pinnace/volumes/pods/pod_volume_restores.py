"""The server's side of restoring pod volumes: creates PodVolumeRestores, which node agents process, and
waits.

The pods wait in their first init container meanwhile. (docs/spec: PVL 12.1-12.2, RST 19)
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

from pinnace.api import API_VERSION, labels, phases
from pinnace.api.labels import RESUMED
from pinnace.api.objects import JSONObject, text
from pinnace.api.pod_snapshots import SavedSnapshot, out_of_reach
from pinnace.api.velero.backup_repository import RESTIC_REPOSITORY, BackupRepository
from pinnace.api.velero.restore import Restore
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import POD_VOLUME_RESTORES
from pinnace.volumes.creating import create_generated
from pinnace.volumes.outcomes import is_cancel_wanted, message_of, phase_of
from pinnace.volumes.pods.pod_volume_backups import pod_reference, uploader_of
from pinnace.volumes.pods.pod_volume_run import PodVolumeRun
from pinnace.volumes.repositories import RepositoryUnavailable, not_ready

log = logging.getLogger(__name__)


DELETE_EXTRA_FILES: Final = "DeleteExtraFiles"
"""A setting of the node agent, for every uploader."""
TIMED_OUT: Final = "timed out waiting for all PodVolumeRestores to complete"


class PodVolumeRestores:
    """Fills the volumes of the pods of one restore.

    Args:
        location: of the backup.
    """

    def __init__(
        self,
        client: KubeClient,
        restore: Restore,
        location: str,
        run: PodVolumeRun,
    ) -> None:
        self._client = client
        self._restore = restore
        self._location = location
        self._repositories = run.repositories
        self._locks = run.locks
        self._outcomes = run.outcomes
        self._timeout = run.timeout

    async def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        """Create the PodVolumeRestores and wait for them.

        Args:
            pod: as the API server returned it.
            original_namespace: of the pod in the backup; the repository has its name.
            snapshots: volume name to its snapshot.

        Returns:
            The errors, each one once.
        """
        if reason := out_of_reach(pod):
            return [
                f"volume {volume} of the pod is not restored from {snapshot.uploader} snapshot {snapshot.id},"
                f" as {reason}"
                for volume, snapshot in sorted(snapshots.items())
            ]
        try:
            async with self._timeout.limit():
                await self._outcomes.wait_for_sync()
        except TimeoutError:
            return ["timed out waiting for cache to sync"]
        of_uploaders: dict[str, dict[str, SavedSnapshot]] = {}
        for volume, snapshot in snapshots.items():
            of_uploaders.setdefault(snapshot.uploader, {})[volume] = snapshot
        errors: list[str] = []
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._restore_with(uploader, pod, original_namespace, of_uploader))
                for uploader, of_uploader in sorted(of_uploaders.items())
            ]
        for task in tasks:
            errors += task.result()
        return errors

    async def _restore_with(
        self,
        uploader: str,
        pod: JSONObject,
        original_namespace: str,
        snapshots: Mapping[str, SavedSnapshot],
    ) -> list[str]:
        try:
            async with self._timeout.limit():
                repository = await self._repositories.ensure(
                    original_namespace, self._location, uploader=uploader
                )
        except (RepositoryUnavailable, TimeoutError) as error:
            reason, metadata = str(error) or not_ready(uploader), pod["metadata"]
            return [
                f"volume {volume} of pod {metadata['namespace']}/{metadata['name']} is not restored from"
                f" {uploader} snapshot {snapshot.id}: {reason}"
                for volume, snapshot in sorted(snapshots.items())
            ]
        return await self._restore_from(repository, pod, snapshots)

    async def _restore_from(
        self, repository: BackupRepository, pod: JSONObject, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        errors: list[str] = []
        names: list[str] = []
        try:
            async with self._timeout.shared(self._locks, repository.metadata.name):
                begun = await self._begun(pod)
                for volume, snapshot in sorted(snapshots.items()):
                    if volume in begun:
                        names.append(begun[volume])
                        continue
                    body = new_pod_volume_restore(
                        self._restore, self._location, repository, pod, volume, snapshot
                    )
                    try:
                        names.append(await self._create(body))
                    except KubeError as error:
                        errors.append(f"error creating PodVolumeRestore for volume {volume}: {error}")
                async with self._timeout.limit():
                    await self._outcomes.ended(names)
        except TimeoutError:
            errors.append(TIMED_OUT)
        except KubeError as error:
            errors.append(f"error listing the PodVolumeRestores of the interrupted restore: {error}")
        return [*errors, *self._failures(names)]

    async def _begun(self, pod: JSONObject) -> dict[str, str]:
        """The PodVolumeRestores that the restore created before it was interrupted, by volume.

        Those that were canceled then are left out: their volumes are read again.
        """
        if RESUMED not in self._restore.metadata.annotations:
            return {}
        uid = self._restore.metadata.uid
        own = f"{labels.RESTORE_UID}={uid},{labels.POD_UID}={pod['metadata']['uid']}"
        namespace = self._restore.metadata.namespace
        found = await self._client.list_all(POD_VOLUME_RESTORES, namespace, label_selector=own)
        return {
            text(each, "spec", "volume"): text(each, "metadata", "name")
            for each in found
            if not is_cancel_wanted(each)
        }

    async def _create(self, body: JSONObject) -> str:
        namespace = self._restore.metadata.namespace
        created = await create_generated(self._client, POD_VOLUME_RESTORES, body, namespace)
        name: str = created["metadata"]["name"]
        return name

    def _failures(self, names: Sequence[str]) -> list[str]:
        failures = []
        for name in names:
            obj = self._outcomes.last_seen(name)
            if self._outcomes.is_deleted(name):
                failures.append(f"pod volume restore failed: {name} was deleted")
            elif phase_of(obj) in phases.TRANSFER_NOT_DONE:
                failures.append(f"pod volume restore failed: {message_of(obj)}")
        return failures


def new_pod_volume_restore(
    restore: Restore,
    location: str,
    repository: BackupRepository,
    pod: JSONObject,
    volume: str,
    snapshot: SavedSnapshot,
) -> JSONObject:
    """The PodVolumeRestore of a volume: pure. (docs/spec: PVL 12.1)"""
    owner = restore.metadata
    return {
        "apiVersion": API_VERSION,
        "kind": POD_VOLUME_RESTORES.kind,
        "metadata": {
            "generateName": f"{owner.name}-",
            "namespace": owner.namespace,
            "labels": {
                labels.RESTORE_NAME: labels.label_value(owner.name),
                labels.RESTORE_UID: owner.uid,
                labels.POD_UID: pod["metadata"]["uid"],
            },
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": "Restore",
                    "name": owner.name,
                    "uid": owner.uid,
                    "controller": True,
                }
            ],
        },
        "spec": {
            "pod": pod_reference(pod),
            "volume": volume,
            "backupStorageLocation": location,
            "repoIdentifier": repository.spec.restic_identifier,
            "snapshotID": snapshot.id,
            "uploaderType": uploader_of(repository),
            # Velero's later definitions require the field.
            "restoreType": restore.spec.existing_volume_data_policy if restore.spec.is_in_place else "",
            **_settings(restore, repository),
            **_of_kopia(repository, snapshot),
        },
        "status": {"progress": {}},
    }


def restore_settings(restore: Restore) -> dict[str, str]:
    """The settings for the uploader, under the names of later Velero. (docs/spec: BEY 6.5)"""
    config = restore.spec.uploader_config
    if config is None:
        return {}
    settings = {"WriteSparseFiles": "true"} if config.write_sparse_files else {}
    if config.delete_extra_files:
        settings[DELETE_EXTRA_FILES] = "true"
    if config.parallel_files_download:
        settings["ParallelFilesDownload"] = str(config.parallel_files_download)
    return settings


def _settings(restore: Restore, repository: BackupRepository) -> JSONObject:
    """The settings that the uploader of the repository takes."""
    settings = restore_settings(restore)
    if uploader_of(repository) == RESTIC_REPOSITORY:
        settings = {name: value for name, value in settings.items() if name == DELETE_EXTRA_FILES}
    return {"uploaderSettings": settings} if settings else {}


def _of_kopia(repository: BackupRepository, snapshot: SavedSnapshot) -> JSONObject:
    """The settings that only other uploaders than restic need."""
    fields: JSONObject = {}
    if uploader_of(repository) != RESTIC_REPOSITORY:
        fields["sourceNamespace"] = repository.spec.volume_namespace
        if snapshot.size_bytes:
            fields["snapshotSize"] = snapshot.size_bytes
    return fields
