"""Finding pods and the content of their volumes on an agent's own node. (docs/spec: PVL 6)

Claims and persistent volumes are read when they are needed: two requests for a volume, instead of a copy of
all claims of the cluster in the agent of each node.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.api.meta import ObjectReference
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.node.presence import held
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.controllers.node.scope import NodeScope
from pinnace.csi.movement.objects import BLOCK
from pinnace.kube.errors import PASSING_ERRORS, KubeError, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.volumes.pods.host_paths import (
    HostPathError,
    find_device,
    find_volume_path,
    volume_claim,
    volume_directory,
)
from pinnace.volumes.pods.mounts import must_be_mounted
from pinnace.volumes.pods.pod_claims import find_volume


class VolumeContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a volume on this node.

    Attributes:
        path: its directory, or its device.
        directory: the name that was looked for; empty for a device.
        must_be_mounted: whether the directory is a mount wherever the volume is in use.
    """

    path: Path
    directory: str = ""
    must_be_mounted: bool = False


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
        """Whether the pod itself, and not another that took its name, is still there."""
        try:
            pod = await self._scope.client.get(PODS, wanted.name, wanted.namespace)
        except NotFound:
            return False
        return bool(pod["metadata"]["uid"] == wanted.uid)

    async def files(self, pod: JSONObject, volume: str) -> VolumeContent:
        """The directory of a volume of a pod.

        Raises:
            PodVolumeFailed: the volume is not known, or has no directory.
            HostPathError: it is not on this node; the caller completes the text.
        """
        try:
            claim, persistent = volume_claim(pod, volume), None
            if claim:
                persistent = await self._persistent_volume(pod["metadata"]["namespace"], claim)
            directory = volume_directory(pod, volume, persistent)
        except PASSING_ERRORS:
            raise
        except (HostPathError, KubeError) as error:
            raise PodVolumeFailed(f"error getting volume directory name: {error}") from error
        return VolumeContent(
            path=await self._path(pod["metadata"]["uid"], directory),
            directory=directory,
            must_be_mounted=must_be_mounted(find_volume(pod, volume) or {}, persistent),
        )

    def held(self, content: VolumeContent) -> AbstractAsyncContextManager[None]:
        """Keep a volume from being unmounted in the body. Raises PodVolumeFailed, as `presence.held` does."""
        is_mount_point = self._scope.is_mount_point if content.must_be_mounted else None
        return held(content.path, is_mount_point=is_mount_point)

    async def is_mounted(self, content: VolumeContent) -> bool:
        """Whether a volume is a mount of its own, which `held` keeps mounted."""
        try:
            return await in_thread(self._scope.is_mount_point, content.path)
        except OSError:
            return False

    async def content(self, pod: JSONObject, volume: str) -> VolumeContent:
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
            device = await in_thread(find_device, self._scope.pods_directory, pod_uid, name)
            return VolumeContent(path=device)
        return await self.files(pod, volume)

    async def _path(self, pod_uid: str, directory: str) -> Path:
        """The path of the volume. Raises HostPathError."""
        try:
            return await in_thread(find_volume_path, self._scope.pods_directory, pod_uid, directory)
        except OSError as error:
            raise HostPathError(f"the directory of the pod cannot be read: {error.strerror}") from error

    async def _persistent_volume(self, namespace: str, claim: str) -> JSONObject | None:
        found = await self._scope.client.get(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        bound = (found.get("spec") or {}).get("volumeName")
        return await self._scope.client.get(PERSISTENT_VOLUMES, bound) if bound else None
