"""Claims and volumes: bring the volume along, map classes and nodes. (docs/spec: RST 16, 16.1)"""

from pinnace.api import labels
from pinnace.api.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STATEFUL_SETS, group_resources
from pinnace.api.objects import mapping, objects, text
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.reading import ObjectSource
from pinnace.kube.resources import NODES, APIResource
from pinnace.plugins.builtin.restore.config import ActionError, PluginConfig
from pinnace.plugins.protocols import (
    ResourceIdentifier,
    ResourceSelector,
    RestoreItemInput,
    RestoreItemOutput,
)


class AddVolumeOfClaim:
    """Has the volume of a bound claim restored before the claim."""

    name = "velero.io/add-pv-from-pvc"

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Leave the claim as it is, name its volume if it was bound when it was backed up."""
        claim = given.item_from_backup
        volume = text(claim, "spec", "volumeName")
        if text(claim, "status", "phase") != "Bound" or not volume:
            return RestoreItemOutput(item=given.item)
        identifier = ResourceIdentifier(
            group="", resource=PERSISTENT_VOLUMES.group_resource, namespace="", name=volume
        )
        return RestoreItemOutput(item=given.item, additional_items=(identifier,))


class ChangeStorageClass:
    """Replaces storage classes by the mapping of a ConfigMap."""

    name = "velero.io/change-storage-class"

    def __init__(self, client: ObjectSource, namespace: str, storage_classes: APIResource) -> None:
        self._client = client
        self._storage_classes = storage_classes
        self._config = PluginConfig(client, namespace, self.name)

    async def applies_to(self) -> ResourceSelector:
        """Claims and volumes, and StatefulSets for the claims that they make."""
        return ResourceSelector(
            included_resources=group_resources(PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STATEFUL_SETS)
        )

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Map `spec.storageClassName`, also of claim templates; the old beta annotation is not considered.

        Raises:
            ActionError: the mapping is ambiguous, or the mapped class does not exist.
        """
        classes = await self._config.data(given.restore)
        templates = objects(given.item, "spec", "volumeClaimTemplates")
        for spec in (mapping(given.item, "spec"), *(mapping(each, "spec") for each in templates)):
            old = text(spec, "storageClassName")
            new = classes.get(old) if old else None
            if new is not None:
                try:
                    await self._client.get(self._storage_classes, new)
                except KubeError as error:
                    raise ActionError(f"error getting storage class {new} from API: {error}") from error
                spec["storageClassName"] = new
        return RestoreItemOutput(item=given.item)


class ChangeSelectedNode:
    """Replaces, or removes, the node that a claim's volume was to be provisioned for."""

    name = "velero.io/change-pvc-node-selector"

    def __init__(self, client: ObjectSource, namespace: str) -> None:
        self._client = client
        self._config = PluginConfig(client, namespace, self.name)

    async def applies_to(self) -> ResourceSelector:
        """PersistentVolumeClaims."""
        return ResourceSelector(included_resources=(PERSISTENT_VOLUME_CLAIMS.group_resource,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        """Map the node by a ConfigMap, whether it exists or not; without a mapping keep it only if it exists.

        Raises:
            ActionError: the mapping is ambiguous, or the node could not be looked up.
        """
        annotations = mapping(given.item, "metadata", "annotations")
        node = annotations.get(labels.SELECTED_NODE)
        if not isinstance(node, str):
            return RestoreItemOutput(item=given.item)
        new = (await self._config.data(given.restore)).get(node)
        if new:
            annotations[labels.SELECTED_NODE] = new
        elif not await self._node_exists(node):
            del annotations[labels.SELECTED_NODE]
            if not annotations:
                del given.item["metadata"]["annotations"]
        return RestoreItemOutput(item=given.item)

    async def _node_exists(self, name: str) -> bool:
        if not name:
            return False
        try:
            await self._client.get(NODES, name)
        except NotFound:
            return False
        except KubeError as error:
            raise ActionError(f"error checking node {name} existence: {error}") from error
        return True
