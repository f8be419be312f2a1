"""The PodVolumeRestore controller: fills volumes of pods that wait for it on its node.

A pod waits in its init container `restic-wait`. Its volumes are restored once that runs, and not before: they
are mounted then, and no other container writes to them. (docs/spec: CTL 10, PVL 12.3-12.4)
"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pinnace.aio.blocking import in_thread
from pinnace.api import phases
from pinnace.api.objects import JSONObject
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.pod_volume import KOPIA, PodVolumeRestore
from pinnace.api.velero.restore import ExistingVolumeDataPolicy
from pinnace.controllers.node.holding import NODE_ANNOTATION, Holding, was_begun_before
from pinnace.controllers.node.parts import NodeController, NodeParts
from pinnace.controllers.node.pod_volume_backup import SNAPSHOT_INDEX, refuse_other_uploaders, whole_number
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler, Report
from pinnace.controllers.node.resuming import watch_work
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.controllers.shared.waiting_pods import (
    POD_INDEX,
    WAIT_CONTAINER,
    by_pod,
    has_waited,
    is_ending,
    is_wait_container,
    is_waiting,
    pod_gone,
)
from pinnace.kube.resources import POD_VOLUME_RESTORES
from pinnace.runtime.cache import IndexFunction
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.outcomes import is_cancel_wanted, is_new, phase_of
from pinnace.volumes.pods.done_file import DoneFileError, is_done, remove_done_files, write_done_file
from pinnace.volumes.pods.host_paths import CSI_MOUNT, CSI_NOTES, HostPathError, is_migrated
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import AccessError, CommandFailed, UploaderError
from pinnace.volumes.uploader.interface import Filler, Target

log = get_logger(__name__)

NAME: Final = "pod-volume-restore"


class PodVolumeRestoreWork:
    """Fills the volumes of PodVolumeRestores.

    Args:
        restores: all PodVolumeRestores of the namespace, with the index of pods.
        pods: the pods of this node.
        backups: all PodVolumeBackups of the namespace, with the index of snapshots.
    """

    def __init__(
        self,
        scope: NodeScope,
        volumes: NodeVolumes,
        uploaders: Filler,
        *,
        restores: Informer,
        pods: Informer,
        backups: Informer,
    ) -> None:
        self._scope = scope
        self._volumes = volumes
        self._uploaders = uploaders
        self._restores = restores
        self._pods = pods
        self._backups = backups
        self._holding = Holding(scope)

    def is_wanted(self, obj: JSONObject) -> bool:
        """Whether a PodVolumeRestore can begin now."""
        pod = self._pod_of(obj)
        if is_new(obj) and is_cancel_wanted(obj):
            return pod is not None
        return is_new(obj) and pod is not None and is_waiting(pod) and not is_ending(pod)

    def restores_of(self, pod: JSONObject) -> list[JSONObject]:
        """The PodVolumeRestores of a pod."""
        return self._restores.by_index(POD_INDEX, pod["metadata"]["uid"])

    def keys_of_waiting(self, pod: JSONObject) -> Iterable[Key]:
        """The keys that can begin after a change of their pod, or must end if it was deleted."""
        return [Key.of(obj) for obj in self.restores_of(pod) if is_new(obj) or self._holding.is_left(obj)]

    async def is_due(self, pod_volume: PodVolumeRestore) -> bool:
        """Whether its pod waits here, or has all its data already. Raises PodVolumeFailed if it is gone."""
        wanted = pod_volume.spec.pod
        pod = self._pods.get(Key(wanted.namespace, wanted.name))
        if pod is None or pod["metadata"]["uid"] != wanted.uid:
            if not await self._volumes.exists(wanted):
                raise PodVolumeFailed(pod_gone(wanted.namespace, wanted.name))
            return False
        has_begun = pod_volume.status.phase == TransferPhase.IN_PROGRESS
        return (is_waiting(pod) or (has_begun and has_waited(pod))) and not is_ending(pod)

    async def carry_out(self, pod_volume: PodVolumeRestore, report: Report) -> JSONObject:
        """Fill the volume and tell the pod. Raises PodVolumeFailed."""
        refuse_other_uploaders(pod_volume.spec.uploader_type)
        pod = await self._volumes.pod(pod_volume.spec.pod)
        if has_waited(pod):
            return {}  # only the phase is missing, as the former agent ended
        _warn_if_late(pod)
        try:
            content = await self._volumes.files(pod, pod_volume.spec.volume)
        except HostPathError as error:
            raise PodVolumeFailed(
                f"error restoring volume: error identifying path of volume: {error}"
            ) from error
        path = content.path
        if was_begun_before(pod_volume.metadata.annotations) and await in_thread(
            is_done, path, restore_uid(pod_volume)
        ):
            return {}
        async with self._volumes.held(content):
            await self._fill(pod_volume, path, report, migrated=is_migrated(path, content.directory))
        await self._write_done_file(pod_volume, path)
        return {}

    async def discard(self, pod_volume: PodVolumeRestore, snapshot: str = "") -> None:
        """Do nothing: no snapshot was saved."""

    def ended(self, pod_volume: PodVolumeRestore | None = None, status: JSONObject | None = None) -> None:
        """Do nothing: there are no metrics of restores. (docs/spec: SRV 8.2)"""

    async def fail_orphans(self, reconciler: PodVolumeReconciler[PodVolumeRestore]) -> None:
        """Fail what an agent of another version has begun and left on this node. (docs/spec: CTL-062)"""
        for obj in self._restores.objects():
            if phase_of(obj) in phases.TRANSFER_BEGUN and self._was_ours(obj):
                await reconciler.fail_orphan(obj)

    async def _fill(
        self, pod_volume: PodVolumeRestore, path: Path, report: Report, *, migrated: bool
    ) -> None:
        spec = pod_volume.spec
        uploader = spec.uploader
        place = Repository(
            identifier=spec.repo_identifier,
            location=spec.backup_storage_location,
            namespace=spec.source_namespace or spec.pod.namespace,
            uploader=uploader,
        )
        settings = spec.uploader_settings
        target = Target(
            path=path,
            size_bytes=self._size(pod_volume),
            parallel=whole_number(settings.get("ParallelFilesDownload", "")),
            sparse=settings.get("WriteSparseFiles") == "true",
            keep_unchanged=spec.restore_type == ExistingVolumeDataPolicy.INCREMENTAL,
            delete_extra=settings.get("DeleteExtraFiles") == "true",
        )
        try:
            if migrated and await self._uploaders.has_file(place, spec.snapshot_id, CSI_NOTES):
                # Velero saved the level above. The kubelet's notes there are of the new volume, and stay.
                level = path if uploader == KOPIA else path.parent
                target = replace(target, path=level, only=CSI_MOUNT)
            await self._uploaders.fill(place, spec.snapshot_id, target, on_progress=report)
        except AccessError as error:
            raise PodVolumeFailed(str(error)) from error
        except CommandFailed as error:
            raise PodVolumeFailed(
                f"error restoring volume: error running {uploader} restore, cmd={error.command}, "
                f"stdout={error.stdout}, stderr={error.stderr}: {error.reason}"
            ) from error
        except UploaderError as error:
            raise PodVolumeFailed(
                f"error restoring volume: error running {uploader} restore, cmd={uploader} restore, "
                f"stdout=, stderr=: {error}"
            ) from error

    def _size(self, pod_volume: PodVolumeRestore) -> int:
        """How many bytes were saved; 0 if unknown. Restic would have to read all directories to tell."""
        spec = pod_volume.spec
        if spec.snapshot_size > 0:
            return spec.snapshot_size
        for obj in self._backups.by_index(SNAPSHOT_INDEX, spec.snapshot_id):
            saved = ((obj.get("status") or {}).get("progress") or {}).get("totalBytes")
            same_place = obj["spec"].get("backupStorageLocation") == spec.backup_storage_location
            if same_place and isinstance(saved, int) and saved > 0:
                return saved
        return 0

    async def _write_done_file(self, pod_volume: PodVolumeRestore, path: Path) -> None:
        try:
            await in_thread(remove_done_files, path)
        except OSError as error:
            log.warning("Could not remove the done files of earlier restores", error=error)
        try:
            await in_thread(write_done_file, path, restore_uid(pod_volume))
        except DoneFileError as error:
            raise PodVolumeFailed(f"error restoring volume: {error}") from error

    def _pod_of(self, obj: JSONObject) -> JSONObject | None:
        """The pod of a PodVolumeRestore; None if it is not on this node."""
        wanted = (obj.get("spec") or {}).get("pod") or {}
        pod = self._pods.get(Key(wanted.get("namespace", ""), wanted.get("name", "")))
        return pod if pod is not None and pod["metadata"]["uid"] == wanted.get("uid") else None

    def _was_ours(self, obj: JSONObject) -> bool:
        """Whether the agent of this node claimed it. Velero's notes no node; then the pod's node decides."""
        noted = (obj["metadata"].get("annotations") or {}).get(NODE_ANNOTATION)
        return noted == self._scope.node if noted else self._pod_of(obj) is not None


def restore_uid(pod_volume: PodVolumeRestore) -> str:
    """The uid of the Restore that the pod waits for; empty if no owner reference names it."""
    owners = pod_volume.metadata.owner_references
    return next((owner.uid for owner in owners if owner.controller), "")


def _warn_if_late(pod: JSONObject) -> None:
    containers = (pod.get("spec") or {}).get("initContainers") or []
    if containers and not is_wait_container(containers[0]):
        log.warning(
            f"{WAIT_CONTAINER} is not the first init container: those before it may have used the volumes",
            pod=str(Key.of(pod)),
        )


def new_reconciler(
    scope: NodeScope, work: PodVolumeRestoreWork, slots: asyncio.Semaphore | None = None
) -> PodVolumeReconciler[PodVolumeRestore]:
    """The reconciler of this kind."""
    return PodVolumeReconciler(scope, POD_VOLUME_RESTORES, PodVolumeRestore, work, slots=slots)


def indexes() -> Mapping[str, IndexFunction]:
    """The index that the informer of PodVolumeRestores must have."""
    return {POD_INDEX: by_pod}


def controller(parts: NodeParts) -> NodeController:
    """The PodVolumeRestore controller of a node agent."""
    work = PodVolumeRestoreWork(
        parts.scope,
        parts.volumes,
        parts.uploaders,
        restores=parts.restores,
        pods=parts.pods,
        backups=parts.backups,
    )
    reconciler = new_reconciler(parts.scope, work, parts.limits.restoring)
    made = Controller(NAME, reconciler.reconcile, workers=parts.limits.restorers, clock=parts.scope.clock)
    made.watch(parts.pods, keys=work.keys_of_waiting, predicate=is_waiting)

    def pod_changed(pod: JSONObject) -> None:
        # The kubelet cannot unmount the volumes while a restore still writes to them.
        if is_ending(pod):
            give_up(pod)

    def give_up(pod: JSONObject) -> None:
        key = Key.of(pod)
        for restore in work.restores_of(pod):
            reconciler.give_up(restore["metadata"]["uid"], pod_gone(key.namespace, key.name))

    def pod_deleted(pod: JSONObject) -> None:
        give_up(pod)
        for key in work.keys_of_waiting(pod):
            made.enqueue(key)

    watch_work(made, parts.restores, reconciler, parts, is_wanted=work.is_wanted)
    parts.pods.add_handlers(on_update=lambda _old, new: pod_changed(new), on_delete=pod_deleted)
    return NodeController(controller=made, fail_orphans=partial(work.fail_orphans, reconciler))
