"""Finding pods and the content of their volumes on an agent's own node. (docs/spec: PVL 6)

Claims and persistent volumes are read when they are needed: two requests for a volume, instead of a copy of
all claims of the cluster in the agent of each node.
"""

from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.api.meta import ObjectReference
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.shared.writes import PASSING_ERRORS
from pinnace.csi.movement.objects import BLOCK
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.volumes.pods.host_paths import (
    HostPathError,
    find_device,
    find_volume_path,
    volume_claim,
    volume_directory,
)


class NodeVolumes:
    """Finds volumes below the kubelet's directory of pods."""

    def __init__(self, scope: NodeScope) -> None:
        self._scope = scope

    async def pod(self, wanted: ObjectReference) -> JSONObject:
        """The pod that is referred to, and not another that took its name. Raises PodVolumeFailed."""
        try:
            pod = await self._scope.client.get(PODS, wanted.name, wanted.namespace)
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            raise PodVolumeFailed(f"error getting pod: {error}") from error
        if pod["metadata"]["uid"] != wanted.uid:
            raise PodVolumeFailed(f'error getting pod: pod "{wanted.name}" not found, another has its name')
        return pod

    async def exists(self, wanted: ObjectReference) -> bool:
        """Whether that pod, and not another that took its name, is still there."""
        try:
            pod = await self._scope.client.get(PODS, wanted.name, wanted.namespace)
        except NotFound:
            return False
        return bool(pod["metadata"]["uid"] == wanted.uid)

    async def directory(self, pod: JSONObject, volume: str) -> str:
        """The name of the volume's directory. Raises PodVolumeFailed."""
        try:
            claim, persistent = volume_claim(pod, volume), None
            if claim:
                persistent = await self._persistent_volume(pod["metadata"]["namespace"], claim)
            return volume_directory(pod, volume, persistent)
        except PASSING_ERRORS:
            raise
        except (HostPathError, KubeError) as error:
            raise PodVolumeFailed(f"error getting volume directory name: {error}") from error

    async def content(self, pod: JSONObject, volume: str) -> Path:
        """The directory of a volume of a pod, or its device if it is in Block mode.

        Raises:
            PodVolumeFailed: the volume is not known.
            HostPathError: it is not on this node, or may not be used.
        """
        claim, pod_uid = volume_claim(pod, volume), pod["metadata"]["uid"]
        try:
            persistent = await self._persistent_volume(pod["metadata"]["namespace"], claim) if claim else None
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            raise PodVolumeFailed(f"error getting the volume of the claim {claim}: {error}") from error
        if persistent is not None and text(persistent, "spec", "volumeMode") == BLOCK:
            name = persistent["metadata"]["name"]
            return await in_thread(find_device, self._scope.pods_directory, pod_uid, name)
        return await self.path(pod_uid, await self.directory(pod, volume))

    async def path(self, pod_uid: str, directory: str) -> Path:
        """The path of the volume. Raises HostPathError, whose text the caller completes."""
        try:
            return await in_thread(find_volume_path, self._scope.pods_directory, pod_uid, directory)
        except OSError as error:
            raise HostPathError(f"the directory of the pod cannot be read: {error.strerror}") from error

    async def _persistent_volume(self, namespace: str, claim: str) -> JSONObject | None:
        found = await self._scope.client.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        bound = (found.get("spec") or {}).get("volumeName")
        return await self._scope.client.get(PERSISTENT_VOLUMES, bound) if bound else None
