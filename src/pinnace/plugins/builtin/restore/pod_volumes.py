"""Pods whose volumes have data in the backup wait for it in an init container. (docs/spec: PVL 9, PVL 10)"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Final, Protocol

from pinnace.api.kinds import PODS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.pod_snapshots import SavedSnapshot, out_of_reach
from pinnace.api.velero.restore import Restore
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.reading import ObjectSource
from pinnace.kube.resources import DAEMON_SETS, DEPLOYMENTS
from pinnace.plugins.builtin.restore.config import ActionError, PluginConfig
from pinnace.plugins.builtin.restore.helper_container import (
    FALLBACK_IMAGE,
    HELPER_COMMAND,
    LATER_HELPER_COMMAND,
    OWN_COMMAND,
    configured_image,
    helper_container,
)
from pinnace.plugins.builtin.restore.init_hooks import WAIT_CONTAINERS
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput

log = logging.getLogger(__name__)

LATER_NAME: Final = "velero.io/pod-volume-restore"
"""Name of the action, and so label of its ConfigMap, since Velero 1.10; taken before the older one."""


class PodSnapshots(Protocol):
    """The snapshots that a backup has of the volumes of pods."""

    def snapshots(self, pod: JSONObject, original_namespace: str) -> Mapping[str, SavedSnapshot]:
        """Volume name to snapshot, for the volumes of a pod that have one, by its namespace in the backup."""
        ...


_WORKLOADS: Final = (
    (DEPLOYMENTS, "velero"),
    (DAEMON_SETS, "node-agent"),
    (DAEMON_SETS, "restic"),
)
"""Workloads whose image has the helper: the server's, or the agent's if no server runs in this cluster."""


class WaitForPodVolumes:
    """Adds the container that waits before all others, and removes that of an earlier restore.

    Args:
        client: the cluster that is restored into.
        namespace: the server's.
        pod_volumes: those of the restore's backup; None where no node agents fill volumes: then no pod waits.
    """

    name = "velero.io/restic"

    def __init__(self, client: ObjectSource, namespace: str, pod_volumes: PodSnapshots | None) -> None:
        self._client = client
        self._namespace = namespace
        self._pod_volumes = pod_volumes
        self._config = PluginConfig(client, namespace, self.name)
        self._later_config = PluginConfig(client, namespace, LATER_NAME)
        self._lock = asyncio.Lock()
        self._own_image: str | None = None

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=(PODS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Add the container if the backup has data for the pod's volumes.

        Raises:
            ActionError: the configuration is ambiguous.
        """
        spec = given.item.get("spec")
        if not isinstance(spec, dict):
            return RestoreItemOutput(item=given.item)
        present = spec.get("initContainers")
        others = [each for each in present if not _is_helper(each)] if isinstance(present, list) else []
        snapshots = self._snapshots(given)
        if snapshots and not out_of_reach(given.item):
            spec["initContainers"] = [await self._container(given.restore, spec, sorted(snapshots)), *others]
        elif isinstance(present, list) and len(others) < len(present):
            # Of an earlier restore. It would wait for ever, as that restore has ended.
            spec["initContainers"] = others
        return RestoreItemOutput(item=given.item)

    def _snapshots(self, given: RestoreItemInput) -> Mapping[str, SavedSnapshot]:
        name = text(given.item, "metadata", "name")
        if not name or self._pod_volumes is None:
            return {}
        annotations = mapping(given.item, "metadata", "annotations")
        pod = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"volumes": objects(given.item, "spec", "volumes")},
        }
        return self._pod_volumes.snapshots(pod, text(given.item_from_backup, "metadata", "namespace"))

    async def _container(self, restore: Restore, spec: JSONObject, volumes: list[str]) -> JSONObject:
        later = await self._later_config.data(restore)
        config = later or await self._config.data(restore)
        configured = configured_image(config)
        image = configured or await self._default_image()
        foreign = configured is not None or image == FALLBACK_IMAGE
        return helper_container(
            config,
            spec,
            image=image,
            command=(LATER_HELPER_COMMAND if later else HELPER_COMMAND) if foreign else OWN_COMMAND,
            restore_uid=restore.metadata.uid,
            volumes=volumes,
        )

    async def _default_image(self) -> str:
        """The image of the server, looked up once. Raises ActionError."""
        async with self._lock:
            if self._own_image is None:
                self._own_image = await self._image_of_workloads()
            return self._own_image

    async def _image_of_workloads(self) -> str:
        for resource, name in _WORKLOADS:
            try:
                workload = await self._client.get(resource, name, self._namespace)
            except NotFound:
                continue
            except KubeError as error:
                raise ActionError(f"error getting the image of the server: {error}") from error
            containers = objects(workload, "spec", "template", "spec", "containers")
            if image := next((text(each, "image") for each in containers), ""):
                return image
        return FALLBACK_IMAGE


def _is_helper(container: object) -> bool:
    return isinstance(container, dict) and container.get("name") in WAIT_CONTAINERS
