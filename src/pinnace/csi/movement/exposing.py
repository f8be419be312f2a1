"""Makes a claim and a pod so that the agent of some node reaches a volume, and removes them again.

Each step looks first at what an earlier try made, so it can be repeated at any point.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pinnace.api import labels
from pinnace.api.node_agent_config import BackupClaim, NodeAgentConfig
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.csi.movement.copies import TEMPORARY_VOLUME_OF, ClaimCopies
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import BLOCK, PodPlan, temporary_claim, temporary_pod, why_pod_ended
from pinnace.csi.movement.uploads import SourceVolume
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Forbidden, NotFound
from pinnace.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
    APIResource,
)
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.agent_settings import AgentConfigError, named_in, node_agent_settings
from pinnace.volumes.node_agents import AgentSet, NodeAgents, server_image, why_no_image

log = get_logger(__name__)

POD_GONE: Final = "the pod that had the volume mounted is gone: its node may have failed"

_VSPHERE_FAST_CLONE: Final = "csi.vsphere.volume/fast-provisioning"
"""An annotation of claims: vSphere cannot attach such a volume on a node that has the source attached."""


class Exposer:
    """Makes the claim and the pod of a DataUpload or DataDownload.

    Args:
        namespace: the server's.
        fresh_seconds: how long an answer about the node agents is reused.

    Attributes:
        copies: of the objects that drivers read beside the claims.
    """

    def __init__(self, client: KubeClient, namespace: str, *, fresh_seconds: float = 0.0) -> None:
        self._client = client
        self._namespace = namespace
        self.copies = ClaimCopies(client, namespace)
        self._agents = NodeAgents(client, namespace, fresh_seconds=fresh_seconds)

    async def node(
        self, movement: JSONObject, claim_spec: JSONObject, *, on_node: str = "", of_backup: bool = False
    ) -> str:
        """The node that has the volume mounted; empty as long as none has.

        Args:
            claim_spec: of the claim that is made for it.
            on_node: the node that must have it; empty for any that the settings allow.
            of_backup: whether it is made of a snapshot, which the settings may ask to be done in another way.

        Raises:
            MovementError: it can never be mounted.
            KubeError: the claim or the pod was refused.
        """
        pod = await self._find(PODS, movement)
        if pod is None:
            await self._make(movement, claim_spec, on_node, of_backup=of_backup)
            return ""
        if why := why_pod_ended(pod):
            raise MovementError(self._of_pod(pod, why))
        return text(pod, "spec", "nodeName") if text(pod, "status", "phase") == "Running" else ""

    def _of_pod(self, pod: JSONObject, why: str) -> str:
        return f"the pod {self._namespace}/{pod['metadata']['name']}, which is to mount the volume, {why}"

    async def _make(
        self, movement: JSONObject, claim_spec: JSONObject, on_node: str, *, of_backup: bool
    ) -> None:
        """Make claim and pod by the settings of the node agents."""
        agents = await self._agents.find()
        config = await self._config(agents)
        if await self.copies.why_waiting(movement, config):
            return
        class_name = text(claim_spec, "storageClassName")
        wanted = config.backup_claims.get(class_name) if of_backup else None
        wanted = wanted or BackupClaim()
        spec = dict(claim_spec)
        if wanted.storage_class:
            spec["storageClassName"] = wanted.storage_class
        if wanted.read_only:
            spec["accessModes"] = ["ReadOnlyMany"]
        mounted = text(spec, "storageClassName")
        annotations = dict(wanted.annotations)
        source = SourceVolume.noted_on(movement) if of_backup else SourceVolume()
        not_on = await self._refused_nodes(source, annotations)
        plan = PodPlan(
            image=await self._image(agents),
            node=on_node,
            nodes=config.nodes_for(mounted),
            volume_terms=source.node_terms if of_backup and await self._follows_pod(mounted) else (),
            not_on=not_on,
            near=agents.pod_labels if agents is not None else {},
            priority_class=config.priority_class_name,
            annotations=config.pod_annotations,
            labels=config.pod_labels,
            block=text(spec, "volumeMode") == BLOCK,
            read_only=wanted.read_only,
            super_privileged=wanted.spc_no_relabeling,
        )
        await self._ensure(PERSISTENT_VOLUME_CLAIMS, temporary_claim(movement, spec, annotations))
        await self._ensure(PODS, temporary_pod(movement, plan))

    async def _follows_pod(self, class_name: str) -> bool:
        """Whether a new volume of the class is made where its first pod is put.

        Raises:
            MovementError: the class does not exist, so that no volume can be made.
        """
        if not class_name:
            return False
        found = await self._storage_class(class_name)
        if found is None:
            raise MovementError(
                f"the storage class {class_name} of the snapshot's temporary volume does not exist: create"
                " it, or name another class for it under backupPVC in the ConfigMap of the node agents"
            )
        return text(found, "volumeBindingMode") == "WaitForFirstConsumer"

    async def _refused_nodes(self, source: SourceVolume, annotations: dict[str, str]) -> Sequence[str]:
        """The nodes that have the source attached, and so cannot attach the new volume.

        If they cannot be found out, the annotation that makes it so is removed, in place.
        """
        if _VSPHERE_FAST_CLONE not in annotations:
            return ()
        try:
            attached = await self._client.list_all(VOLUME_ATTACHMENTS)
        except (Forbidden, NotFound) as error:
            log.warning(
                "The nodes of a volume cannot be read, so a claim does without an annotation",
                annotation=_VSPHERE_FAST_CLONE,
                persistent_volume=source.name,
                error=error,
            )
            del annotations[_VSPHERE_FAST_CLONE]
            return ()
        nodes = {
            text(each, "spec", "nodeName")
            for each in attached
            if source.name and text(each, "spec", "source", "persistentVolumeName") == source.name
        }
        return sorted(nodes - {""})

    async def _config(self, agents: AgentSet | None) -> NodeAgentConfig:
        """The settings that the node agents are started with. Raises MovementError, KubeError."""
        name = named_in(agents.arguments) if agents is not None else ""
        try:
            config, _warnings = await node_agent_settings(self._client, self._namespace, name)
        except AgentConfigError as error:
            raise MovementError(str(error)) from error
        return config

    async def ignores_delayed_binding(self) -> bool:
        """Whether volumes are made before the first pod of their claim is scheduled. Raises MovementError."""
        return (await self._config(await self._agents.find())).restore_claim.ignore_delay_binding

    async def prepare_queue_length(self) -> int:
        """How many volumes may be prepared at once; 0 for no limit. Raises KubeError."""
        try:
            concurrency = (await self._config(await self._agents.find())).load_concurrency
        except MovementError:
            return 0  # reported when the volume is made; everything is cleaned up after that
        return concurrency.prepare_queue_length if concurrency is not None else 0

    async def why_not(self, movement: JSONObject) -> str:
        """Why the volume is not mounted yet, as far as the cluster shows."""
        pod = await self._find(PODS, movement)
        if pod is None:
            config = await self._config(await self._agents.find())
            return await self.copies.why_waiting(movement, config) or "its pod was not created"
        for condition in objects(pod, "status", "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                said = condition.get("message") or "no reason is given"
                return f"its pod is not scheduled to a node that has a node agent and its volume: {said}"
        name = f"{self._namespace}/{pod['metadata']['name']}"
        return f"the pod {name} is {text(pod, 'status', 'phase') or 'Pending'}; see its events"

    async def why_unmounted(self, movement: JSONObject) -> str:
        """Why the volume of a transfer is not mounted any more; empty if it is."""
        pod = await self._find(PODS, movement)
        if pod is None:
            return POD_GONE
        why = why_pod_ended(pod)
        return self._of_pod(pod, why) if why else ""

    async def why_no_agent(self, node: str, *, has_worked: bool) -> str:
        """Why no agent works on a node; empty if one is ready there. Raises KubeError."""
        return await self._agents.why_none_on(node, has_worked=has_worked)

    async def remove_pod(self, movement: JSONObject) -> bool:
        """Delete the pod; return whether it is gone."""
        return await self._remove(PODS, movement)

    async def remove(self, movement: JSONObject) -> bool:
        """Delete the pod and then the claim with its volume; return whether both are gone."""
        if not await self._remove(PODS, movement):
            return False
        claim = await self._find(PERSISTENT_VOLUME_CLAIMS, movement)
        if claim is None:
            return True
        if volume := text(claim, "spec", "volumeName"):
            # A class may keep volumes; this one holds nothing that anything else uses.
            with suppress(NotFound):
                patch = {
                    "metadata": {"labels": {TEMPORARY_VOLUME_OF: movement["metadata"]["uid"]}},
                    "spec": {"persistentVolumeReclaimPolicy": "Delete"},
                }
                await self._client.patch(PERSISTENT_VOLUMES, volume, patch)
        return await self._remove(PERSISTENT_VOLUME_CLAIMS, movement)

    async def temporary_claim(self, movement: JSONObject) -> JSONObject | None:
        """The claim that was made; None if there is none."""
        return await self._find(PERSISTENT_VOLUME_CLAIMS, movement)

    async def make_claim(self, movement: JSONObject, spec: JSONObject) -> None:
        """Make the claim ahead of the pod, unless it is there."""
        await self._ensure(PERSISTENT_VOLUME_CLAIMS, temporary_claim(movement, spec))

    async def remove_claim(self, movement: JSONObject) -> bool:
        """Delete the claim, and leave its volume as it is; return whether the claim is gone."""
        return await self._remove(PERSISTENT_VOLUME_CLAIMS, movement)

    async def waits_for_consumer(self, class_name: str) -> bool:
        """Whether volumes of a storage class are made only when a pod uses their claim."""
        found = await self._storage_class(class_name) if class_name else None
        return text(found, "volumeBindingMode") == "WaitForFirstConsumer"

    async def _storage_class(self, name: str) -> JSONObject | None:
        try:
            return await self._client.get(STORAGE_CLASSES, name)
        except NotFound:
            return None

    async def _find(self, resource: APIResource, movement: JSONObject) -> JSONObject | None:
        """The object of that name if it was made for this movement."""
        try:
            found = await self._client.get(resource, movement["metadata"]["name"], self._namespace)
        except NotFound:
            return None
        uid = movement["metadata"]["uid"]
        owners = objects(found, "metadata", "ownerReferences")
        if not any(owner.get("uid") == uid for owner in owners):
            raise MovementError(
                f"{resource.kind} {self._namespace}/{movement['metadata']['name']} exists and was not made"
                " for this transfer; delete it or restore again"
            )
        return found

    async def _ensure(self, resource: APIResource, body: JSONObject) -> None:
        with suppress(AlreadyExists):
            await self._client.create(resource, body, self._namespace)

    async def _remove(self, resource: APIResource, movement: JSONObject) -> bool:
        try:
            found = await self._find(resource, movement)
        except MovementError:
            return True  # an object of that name that was not made for this transfer
        if found is None:
            return True
        if not mapping(found, "metadata").get("deletionTimestamp"):
            with suppress(NotFound):
                uid = found["metadata"]["uid"]
                await self._client.delete(resource, found["metadata"]["name"], self._namespace, uid=uid)
        return False

    async def _image(self, agents: AgentSet | None) -> str:
        """The image of the server. Raises MovementError."""
        image = await server_image(self._client, self._namespace, agents)
        if not image:
            raise MovementError(why_no_image(self._namespace))
        return image


def selected_node(claim: JSONObject) -> str:
    """The node that the scheduler has chosen for the first pod of a claim; empty if none."""
    return str(mapping(claim, "metadata", "annotations").get(labels.SELECTED_NODE) or "")
