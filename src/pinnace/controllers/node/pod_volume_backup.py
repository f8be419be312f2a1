"""The PodVolumeBackup controller: saves volumes of the pods of its node. (docs/spec: CTL 9, PVL 5.3)"""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.phases import TransferPhase
from pinnace.api.pod_hooks import is_ended
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import known_time
from pinnace.api.velero.pod_volume import NEWEST_PARENT, NO_PARENT, RESTIC, PodVolumeBackup
from pinnace.controllers.node.holding import was_begun_before
from pinnace.controllers.node.parts import NodeController, NodeParts
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler, Report
from pinnace.controllers.node.resuming import watch_work
from pinnace.controllers.node.saving import discard, save_held, status_of
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes, VolumeContent
from pinnace.controllers.shared.waiting_pods import is_ending
from pinnace.kube.resources import POD_VOLUME_BACKUPS
from pinnace.runtime.cache import IndexFunction
from pinnace.runtime.controller import Controller
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.outcomes import is_new, phase_of
from pinnace.volumes.pods.host_paths import HostPathError
from pinnace.volumes.pods.parents import parent_snapshot
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import AccessError, CommandFailed, SnapshotMissing, UploaderError
from pinnace.volumes.uploader.interface import Saved, Saver, Source
from pinnace.volumes.uploaders import UPLOADERS

log = get_logger(__name__)

NAME: Final = "pod-volume-backup"
CLAIM_INDEX: Final = "claim"
SNAPSHOT_INDEX: Final = "snapshot"
REQUESTER_TAG: Final = "snapshot-requester"
REQUESTER: Final = "snapshot-pod-volume"
PARALLEL_SETTING: Final = "ParallelFilesUpload"
EMPTY_MESSAGE: Final = "volume was empty so no snapshot was taken"


def by_claim(obj: JSONObject) -> Iterable[str]:
    """The index of PodVolumeBackups by the uid of the claim whose volume they save."""
    uid = (obj["metadata"].get("labels") or {}).get(labels.PVC_UID)
    return (uid,) if uid else ()


def by_snapshot(obj: JSONObject) -> Iterable[str]:
    """The index of PodVolumeBackups by their snapshot."""
    snapshot = (obj.get("status") or {}).get("snapshotID")
    return (snapshot,) if snapshot else ()


def is_of_node(obj: JSONObject, node: str) -> bool:
    """Whether a PodVolumeBackup is for the agent of this node."""
    return bool((obj.get("spec") or {}).get("node") == node)


class PodVolumeBackupWork:
    """Saves the volumes of PodVolumeBackups.

    Args:
        backups: all PodVolumeBackups of the namespace, with the index of claims.
    """

    def __init__(self, scope: NodeScope, volumes: NodeVolumes, uploaders: Saver, backups: Informer) -> None:
        self._scope = scope
        self._volumes = volumes
        self._uploaders = uploaders
        self._backups = backups

    def is_wanted(self, obj: JSONObject) -> bool:
        """Whether this agent should claim the PodVolumeBackup."""
        return is_of_node(obj, self._scope.node) and is_new(obj)

    def enqueued(self, obj: JSONObject) -> Iterable[Key]:
        """The key of the PodVolumeBackup; counts it as enqueued."""
        self._scope.metrics.backup_enqueued()
        return (Key.of(obj),)

    async def is_due(self, pod_volume: PodVolumeBackup) -> bool:
        """Whether its pod is on this node. A pod does not move, so this needs no look at the pod."""
        return pod_volume.spec.node == self._scope.node

    async def carry_out(self, pod_volume: PodVolumeBackup, report: Report) -> JSONObject:
        """Save the volume. Raises PodVolumeFailed."""
        refuse_other_uploaders(pod_volume.spec.uploader_type)
        if was_begun_before(pod_volume.metadata.annotations):
            await self.discard(pod_volume)
        pod = await self._volumes.pod(pod_volume.spec.pod)
        try:
            content = await self._volumes.files(pod, pod_volume.spec.volume)
        except HostPathError as error:
            raise PodVolumeFailed(f"error getting volume path on host: {error}") from error
        path = content.path
        saved = await save_held(
            self._volumes.held(content),
            partial(self._save, pod_volume, path, report),
            partial(self.discard, pod_volume),
            check=partial(self._check_pod, pod_volume, content),
        )
        if not saved.snapshot:
            return {"path": str(path), "message": EMPTY_MESSAGE}
        return status_of(path, saved)

    async def _check_pod(self, pod_volume: PodVolumeBackup, content: VolumeContent) -> None:
        """The kubelet deletes what is no mount when its pod is gone or has ended. Raises PodVolumeFailed."""
        if await self._volumes.is_mounted(content):
            return
        pod = await self._volumes.pod(pod_volume.spec.pod)
        if is_ending(pod) or is_ended(pod):
            raise PodVolumeFailed(
                f"the pod {Key.of(pod)} was deleted or has ended while its volume was saved, so that files"
                " may be missing"
            )

    async def discard(self, pod_volume: PodVolumeBackup, snapshot: str = "") -> None:
        """Remove a snapshot that no object refers to; does its best."""
        await discard(self._uploaders, _place(pod_volume), _tags(pod_volume), snapshot)

    def ended(self, pod_volume: PodVolumeBackup | None = None, status: JSONObject | None = None) -> None:
        """Count the end, and the time that a Completed one took. (docs/spec: PVL 14)"""
        metrics = self._scope.metrics
        metrics.backup_dequeued()
        if pod_volume is None or status is None or status["phase"] != TransferPhase.COMPLETED:
            return
        started, completed = pod_volume.status.start_timestamp, known_time(status["completionTimestamp"])
        if started is not None and completed is not None:
            seconds = max(0, int((completed - started).total_seconds()))
            name = f"{pod_volume.metadata.namespace}/{backup_name(pod_volume)}"
            metrics.pod_volume_operation("backup", name, pod_volume.metadata.name, seconds)

    async def fail_orphans(self, reconciler: PodVolumeReconciler[PodVolumeBackup]) -> None:
        """Fail what an agent of another version has begun and left on this node. (docs/spec: CTL-062)"""
        for obj in self._backups.objects():
            if is_of_node(obj, self._scope.node) and phase_of(obj) in phases.TRANSFER_BEGUN:
                await reconciler.fail_orphan(obj)

    async def _save(self, pod_volume: PodVolumeBackup, path: Path, report: Report) -> Saved:
        spec, place = pod_volume.spec, _place(pod_volume)
        uploader = place.uploader
        source = Source(
            path=path,
            name=source_name(pod_volume),
            tags=_tags(pod_volume),
            parent=self._parent(pod_volume) if uploader == RESTIC else "",
            parallel=whole_number(spec.uploader_settings.get(PARALLEL_SETTING, "")),
            reads_all=reads_all(spec.parent_snapshot, uploader),
        )
        try:
            try:
                return await self._uploaders.save(place, source, on_progress=report)
            except SnapshotMissing as error:
                # It was forgotten, or the repository is new. Without a parent restic reads all files.
                log.warning("The parent snapshot is gone", error=error)
                alone = replace(source, parent="")
                return await self._uploaders.save(place, alone, on_progress=report)
        except AccessError as error:
            raise PodVolumeFailed(str(error)) from error
        except CommandFailed as error:
            text = f"error running {uploader} backup, stderr={error.stderr}: {error.reason}"
            raise PodVolumeFailed(text) from error
        except UploaderError as error:
            raise PodVolumeFailed(_with_what(str(error), uploader)) from error

    def _parent(self, pod_volume: PodVolumeBackup) -> str:
        """The snapshot to compare with; empty if there is none. (docs/spec: PVL 7.3)"""
        if (wanted := pod_volume.spec.parent_snapshot) not in NEWEST_PARENT:
            return "" if wanted == NO_PARENT else wanted
        others = []
        for obj in self._backups.by_index(CLAIM_INDEX, pod_volume.metadata.labels.get(labels.PVC_UID, "")):
            try:
                others.append(decode(PodVolumeBackup, obj))
            except DecodeError as error:
                log.warning("A PodVolumeBackup cannot be read", name=obj["metadata"]["name"], error=error)
        return parent_snapshot(pod_volume, others)


def _place(pod_volume: PodVolumeBackup) -> Repository:
    spec = pod_volume.spec
    return Repository(
        identifier=spec.repo_identifier,
        location=spec.backup_storage_location,
        namespace=spec.pod.namespace,
        source=spec.pod.namespace,
        uploader=spec.uploader,
    )


def _tags(pod_volume: PodVolumeBackup) -> Mapping[str, str]:
    """The tags of the snapshot, which no snapshot of another PodVolumeBackup has."""
    spec = pod_volume.spec
    if spec.uploader == RESTIC:
        return spec.tags
    return {**spec.tags, REQUESTER_TAG: REQUESTER}


def refuse_other_uploaders(uploader: str) -> None:
    """Never run one program in place of another. Raises PodVolumeFailed. (docs/adr/020)"""
    if uploader and uploader not in UPLOADERS:
        raise PodVolumeFailed(
            f"this node agent has {' and '.join(UPLOADERS)}, and the uploader asked for is {uploader}"
        )


def source_name(pod_volume: PodVolumeBackup) -> str:
    """The path of the snapshot in kopia's listings: Velero's of 1.17 and later. (docs/spec: KOP 3)"""
    spec = pod_volume.spec
    claim = pod_volume.metadata.annotations.get(labels.PVC_NAME) or spec.volume
    return f"{REQUESTER}/kopia/{spec.pod.namespace}/{spec.pod.name}/{claim}"


def reads_all(parent: str, uploader: str) -> bool:
    """Whether every file of a volume is read, by `parentSnapshot`. (docs/spec/after-1.18.md, 5.2)

    kopia chooses the snapshot to compare with by itself, so that any other choice means to read everything.
    """
    if parent == NO_PARENT:
        return True
    if parent in NEWEST_PARENT or uploader == RESTIC:
        return False
    log.warning("kopia cannot compare with one snapshot of many: every file is read", parent=parent)
    return True


def whole_number(text: str) -> int:
    """A number of `uploaderSettings`; 0 if there is none, or it cannot be used."""
    return int(text) if is_digits(text) and len(text) < 7 else 0


def backup_name(pod_volume: PodVolumeBackup) -> str:
    """The name of the Backup that a PodVolumeBackup belongs to. (docs/spec: PVL 5.3)"""
    owners = pod_volume.metadata.owner_references
    return owners[0].name if owners else pod_volume.spec.tags.get("backup", "")


def _with_what(text: str, uploader: str) -> str:
    """The message for an error; a text that begins with `error getting snapshot id` stays as it is."""
    own = "error getting snapshot id"
    return text if text.startswith(own) else f"error running {uploader} backup, stderr=: {text}"


def new_reconciler(
    scope: NodeScope, work: PodVolumeBackupWork, slots: asyncio.Semaphore | None = None
) -> PodVolumeReconciler[PodVolumeBackup]:
    """The reconciler of this kind."""
    return PodVolumeReconciler(scope, POD_VOLUME_BACKUPS, PodVolumeBackup, work, slots=slots)


def indexes() -> Mapping[str, IndexFunction]:
    """The indexes that the informer of PodVolumeBackups must have."""
    return {CLAIM_INDEX: by_claim, SNAPSHOT_INDEX: by_snapshot}


def controller(parts: NodeParts) -> NodeController:
    """The PodVolumeBackup controller of a node agent."""
    work = PodVolumeBackupWork(parts.scope, parts.volumes, parts.uploaders, parts.backups)
    reconciler = new_reconciler(parts.scope, work, parts.limits.saving)
    made = Controller(NAME, reconciler.reconcile, workers=parts.limits.savers, clock=parts.scope.clock)
    watch_work(made, parts.backups, reconciler, parts, is_wanted=work.is_wanted, keys=work.enqueued)
    return NodeController(controller=made, fail_orphans=partial(work.fail_orphans, reconciler))
