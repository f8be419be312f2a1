"""The DataDownload controller of a node: fills volumes that are mounted on it. (docs/spec: BEY 6.7)"""

from functools import partial
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.velero.data_movement import DOWNLOAD_MOVERS, DataDownload
from pinnace.api.velero.restore import ExistingVolumeDataPolicy
from pinnace.controllers.node.moving import STARTABLE, Moving, fail_left
from pinnace.controllers.node.parts import NodeController, NodeParts
from pinnace.controllers.node.pod_volume_backup import whole_number
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler, Report
from pinnace.controllers.node.resuming import watch_work
from pinnace.controllers.node.scope import NodeMetrics
from pinnace.kube.resources import DATA_DOWNLOADS
from pinnace.runtime.controller import Controller
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.interface import KOPIA, Filler, Target

NAME: Final = "data-download"


class DataDownloadWork:
    """Fills the volumes of DataDownloads."""

    def __init__(self, moving: Moving, uploaders: Filler, metrics: NodeMetrics) -> None:
        self._moving = moving
        self._uploaders = uploaders
        self._metrics = metrics

    async def is_due(self, movement: DataDownload) -> bool:
        """Whether its volume is mounted here."""
        return self._moving.is_due(movement)

    async def carry_out(self, movement: DataDownload, report: Report) -> JSONObject:
        """Fill the volume. Raises PodVolumeFailed."""
        spec, content = movement.spec, await self._moving.content(movement)
        place = Repository(
            location=spec.backup_storage_location, namespace=spec.source_namespace, uploader=KOPIA
        )
        config = spec.data_mover_config
        target = Target(
            path=content.path,
            size_bytes=spec.snapshot_size,
            parallel=whole_number(config.get("ParallelFilesDownload", "")),
            sparse=config.get("WriteSparseFiles") == "true",
            keep_unchanged=spec.restore_type == ExistingVolumeDataPolicy.INCREMENTAL,
            delete_extra=config.get("DeleteExtraFiles") == "true",
        )
        try:
            async with self._moving.held(content):
                await self._uploaders.fill(place, spec.snapshot_id, target, on_progress=report)
        except UploaderError as error:
            raise PodVolumeFailed(f"error restoring snapshot {spec.snapshot_id}: {error}") from error
        return {}

    async def discard(self, movement: DataDownload, snapshot: str = "") -> None:
        """Do nothing: no snapshot was saved."""

    def ended(self, movement: DataDownload | None = None, status: JSONObject | None = None) -> None:
        """Count how it ended. (docs/spec: BEY 10.3)"""
        if status is not None:
            self._metrics.data_moved("download", status["phase"])


def controller(parts: NodeParts) -> NodeController:
    """The DataDownload controller of a node agent."""
    moving = Moving(parts.scope, parts.volumes, DOWNLOAD_MOVERS)
    work = DataDownloadWork(moving, parts.uploaders, parts.scope.metrics)
    reconciler = PodVolumeReconciler(
        parts.scope, DATA_DOWNLOADS, DataDownload, work, startable=STARTABLE, slots=parts.limits.restoring
    )
    made = Controller(NAME, reconciler.reconcile, workers=parts.limits.restorers, clock=parts.scope.clock)
    watch_work(made, parts.downloads, reconciler, parts, is_wanted=moving.is_wanted)
    fail_orphans = partial(fail_left, reconciler, moving, parts.downloads)
    return NodeController(controller=made, fail_orphans=fail_orphans)
