"""Pods whose volumes have data in the backup wait for it in an init container. (docs/spec: PVL 9, PVL 10)"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from pinnace.api.kinds import PODS
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.pod_volume_catalogue import PodVolumeCatalogue, SavedSnapshot, out_of_reach
from pinnace.api.velero.pod_volume import PodVolumeBackup
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
from pinnace.storage.errors import StorageError

log = logging.getLogger(__name__)

LATER_NAME: Final = "velero.io/pod-volume-restore"
"""Name of the action, and so label of its ConfigMap, since Velero 1.10; taken before the older one."""

PodVolumeBackupSource = Callable[[], Awaitable[Sequence[PodVolumeBackup]]]
"""Lists the pod volume backups of one backup; may raise KubeError or StorageError."""

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
        pod_volume_backups: lists those of the restore's backup; None where no node agents fill volumes: then
            no pod waits.
    """

    name = "velero.io/restic"

    def __init__(
        self, client: ObjectSource, namespace: str, pod_volume_backups: PodVolumeBackupSource | None
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._pod_volume_backups = pod_volume_backups
        self._config = PluginConfig(client, namespace, self.name)
        self._later_config = PluginConfig(client, namespace, LATER_NAME)
        self._lock = asyncio.Lock()
        self._known: tuple[Restore, PodVolumeCatalogue] | None = None
        self._own_image: str | None = None

    async def applies_to(self) -> ResourceSelector:
        """Pods."""
        return ResourceSelector(included_resources=(PODS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Add the container if the backup has data for the pod's volumes.

        Raises:
            ActionError: the configuration is ambiguous, or the backup's volumes cannot be listed.
        """
        spec = given.item.get("spec")
        if not isinstance(spec, dict):
            return RestoreItemOutput(item=given.item)
        present = spec.get("initContainers")
        others = [each for each in present if not _is_helper(each)] if isinstance(present, list) else []
        snapshots = await self._snapshots(given) if self._pod_volume_backups is not None else {}
        if snapshots and not out_of_reach(given.item):
            spec["initContainers"] = [await self._container(given.restore, spec, sorted(snapshots)), *others]
        elif isinstance(present, list) and len(others) < len(present):
            # Of an earlier restore. It would wait for ever, as that restore has ended.
            spec["initContainers"] = others
        return RestoreItemOutput(item=given.item)

    async def _snapshots(self, given: RestoreItemInput) -> Mapping[str, SavedSnapshot]:
        name = text(given.item, "metadata", "name")
        if not name:
            return {}
        annotations = mapping(given.item, "metadata", "annotations")
        pod = {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"volumes": objects(given.item, "spec", "volumes")},
        }
        assert self._pod_volume_backups is not None
        catalogue = await self._catalogue(given.restore, self._pod_volume_backups)
        return catalogue.snapshots(pod, text(given.item_from_backup, "metadata", "namespace"))

    async def _catalogue(self, restore: Restore, listing: PodVolumeBackupSource) -> PodVolumeCatalogue:
        """What the backup holds, listed once a restore. Raises ActionError."""
        async with self._lock:
            if self._known is None or self._known[0] is not restore:
                try:
                    self._known = (restore, PodVolumeCatalogue(await listing()))
                except (KubeError, StorageError) as error:
                    raise ActionError(f"error listing pod volume backups: {error}") from error
            return self._known[1]

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
