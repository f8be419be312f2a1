"""Finds the mounted volumes of DataUploads and DataDownloads on a node. (docs/spec: BEY 6.7)

The server has made a pod that has the volume mounted, and names its node in the status.
"""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import TransferPhase
from pinnace.api.velero.data_movement import DataDownload, DataUpload
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.node.volumes import NodeVolumes, VolumeContent
from pinnace.csi.movement.objects import VOLUME
from pinnace.kube.errors import PASSING_ERRORS, KubeError
from pinnace.kube.resources import PODS
from pinnace.runtime.informer import Informer
from pinnace.volumes.outcomes import phase_of
from pinnace.volumes.pods.host_paths import HostPathError

STARTABLE: Final = frozenset({str(TransferPhase.PREPARED)})
REQUESTER: Final = "snapshot-data-upload-download"


class Moving:
    """Tells which objects of one kind are for this node, and where their volumes are.

    Args:
        movers: the values of `datamover` that stand for this program.
    """

    def __init__(self, scope: NodeScope, volumes: NodeVolumes, movers: Collection[str]) -> None:
        self._movers = movers
        self._scope = scope
        self._volumes = volumes

    def is_ours(self, obj: JSONObject) -> bool:
        """Whether the volume is mounted on this node, and no other program is to move the data."""
        mover = text(obj, "spec", "datamover")
        return mover in self._movers and text(obj, "status", "node") == self._scope.node

    def is_wanted(self, obj: JSONObject) -> bool:
        """Whether this agent should claim the object."""
        return self.is_ours(obj) and phase_of(obj) in STARTABLE

    def is_due(self, movement: DataUpload | DataDownload) -> bool:
        """Whether a decoded object is one that this agent carries out."""
        return movement.status.node == self._scope.node and movement.spec.datamover in self._movers

    def orphans(self, objects: Informer) -> list[JSONObject]:
        """The objects that are InProgress on this node."""
        return [
            obj
            for obj in objects.objects()
            if self.is_ours(obj) and phase_of(obj) == TransferPhase.IN_PROGRESS
        ]

    async def content(self, movement: DataUpload | DataDownload) -> VolumeContent:
        """The directory of the volume on this node, or its device. Raises PodVolumeFailed."""
        name, namespace = movement.metadata.name, movement.metadata.namespace
        try:
            pod = await self._scope.client.get(PODS, name, namespace)
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            raise PodVolumeFailed(f"error getting the pod that has the volume mounted: {error}") from error
        try:
            return await self._volumes.content(pod, VOLUME)
        except HostPathError as error:
            raise PodVolumeFailed(f"error identifying path of volume: {error}") from error

    def held(self, content: VolumeContent) -> AbstractAsyncContextManager[None]:
        """Keep a volume from being unmounted in the body. Raises PodVolumeFailed."""
        return self._volumes.held(content)


async def fail_left(
    reconciler: PodVolumeReconciler[DataUpload] | PodVolumeReconciler[DataDownload],
    moving: Moving,
    objects: Informer,
) -> None:
    """Fail those of the objects InProgress on this node that an agent of another version has begun."""
    for obj in moving.orphans(objects):
        await reconciler.fail_orphan(obj)
