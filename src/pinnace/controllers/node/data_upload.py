"""The DataUpload controller of a node: saves mounted volumes of snapshots. (docs/spec: BEY 6.7)"""

from functools import partial
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.data_movement import BUILT_IN_MOVERS, DataUpload
from pinnace.controllers.node.holding import was_begun_before
from pinnace.controllers.node.moving import REQUESTER, STARTABLE, Moving, fail_left
from pinnace.controllers.node.parts import NodeController, NodeParts
from pinnace.controllers.node.pod_volume_backup import REQUESTER_TAG, reads_all, whole_number
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler, Report
from pinnace.controllers.node.resuming import watch_work
from pinnace.controllers.node.saving import discard, save_held, status_of
from pinnace.controllers.node.scope import NodeMetrics
from pinnace.kube.resources import DATA_UPLOADS
from pinnace.runtime.controller import Controller
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.interface import KOPIA, Saver, Source

NAME: Final = "data-upload"


class DataUploadWork:
    """Saves the volumes of DataUploads."""

    def __init__(self, moving: Moving, uploaders: Saver, metrics: NodeMetrics) -> None:
        self._moving = moving
        self._uploaders = uploaders
        self._metrics = metrics

    async def is_due(self, movement: DataUpload) -> bool:
        """Whether its volume is mounted here."""
        return self._moving.is_due(movement)

    async def carry_out(self, movement: DataUpload, report: Report) -> JSONObject:
        """Save the volume. Raises PodVolumeFailed."""
        if was_begun_before(movement.metadata.annotations):
            await self.discard(movement)
        spec, content = movement.spec, await self._moving.content(movement)
        source = Source(
            path=content.path,
            name=f"{REQUESTER}/kopia/{spec.source_namespace}/{spec.source_pvc}",
            tags=tags_of(movement),
            parallel=whole_number(spec.data_mover_config.get("ParallelFilesUpload", "")),
            reads_all=reads_all(spec.parent_snapshot, KOPIA),
        )
        save = partial(self._uploaders.save, _place(movement), source, on_progress=report)
        try:
            holding = self._moving.held(content)
            return status_of(content.path, await save_held(holding, save, partial(self.discard, movement)))
        except UploaderError as error:
            raise PodVolumeFailed(f"error saving the data of the snapshot: {error}") from error

    async def discard(self, movement: DataUpload, snapshot: str = "") -> None:
        """Remove a snapshot that no object refers to; does its best."""
        await discard(self._uploaders, _place(movement), tags_of(movement), snapshot)

    def ended(self, movement: DataUpload | None = None, status: JSONObject | None = None) -> None:
        """Count how it ended. (docs/spec: BEY 10.3)"""
        if status is not None:
            self._metrics.data_moved("upload", status["phase"])


def _place(movement: DataUpload) -> Repository:
    spec = movement.spec
    return Repository(
        location=spec.backup_storage_location,
        namespace=spec.source_namespace,
        source=spec.source_namespace,
        uploader=KOPIA,
    )


def tags_of(movement: DataUpload) -> dict[str, str]:
    """The tags of the snapshot in the repository. (docs/spec: KOP 3)"""
    own_labels, spec = movement.metadata.labels, movement.spec
    return {
        "backup": own_labels.get(labels.BACKUP_NAME, ""),
        "backup-uid": own_labels.get(labels.BACKUP_UID, ""),
        "ns": spec.source_namespace,
        "volume": spec.source_pvc,
        "pvc-uid": own_labels.get(labels.PVC_UID, ""),
        REQUESTER_TAG: REQUESTER,
    }


def controller(parts: NodeParts) -> NodeController:
    """The DataUpload controller of a node agent."""
    moving = Moving(parts.scope, parts.volumes, BUILT_IN_MOVERS)
    work = DataUploadWork(moving, parts.uploaders, parts.scope.metrics)
    reconciler = PodVolumeReconciler(
        parts.scope, DATA_UPLOADS, DataUpload, work, startable=STARTABLE, slots=parts.limits.saving
    )
    made = Controller(NAME, reconciler.reconcile, workers=parts.limits.savers, clock=parts.scope.clock)
    watch_work(made, parts.uploads, reconciler, parts, is_wanted=moving.is_wanted)
    fail_orphans = partial(fail_left, reconciler, moving, parts.uploads)
    return NodeController(controller=made, fail_orphans=fail_orphans)
