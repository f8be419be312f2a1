"""Makes a claim and a pod so that the agent of some node reaches a volume, and removes them again.

Each step looks first at what an earlier try made, so it can be repeated at any point.
"""

from contextlib import suppress
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import temporary_claim, temporary_pod
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import (
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    APIResource,
)
from pinnace.volumes.node_agents import AgentSet, NodeAgents

_SERVER: Final = "velero"
"""The Deployment of the server."""
_FAILED_PODS: Final = frozenset({"Failed", "Succeeded"})


class Exposer:
    """Makes what one DataUpload or DataDownload needs.

    Args:
        namespace: the server's.
    """

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._agents = NodeAgents(client, namespace)

    async def node(self, movement: JSONObject, claim_spec: JSONObject, *, on_node: str = "") -> str:
        """The node on which the volume is mounted; empty while that is not so yet.

        Raises:
            MovementError: it never will be.
            KubeError: the claim or the pod was refused.
        """
        await self._ensure(PERSISTENT_VOLUME_CLAIMS, temporary_claim(movement, claim_spec))
        pod = await self._find(PODS, movement)
        if pod is None:
            agents = await self._agents.find()
            near = agents.pod_labels if agents is not None else {}
            body = temporary_pod(movement, await self._image(agents), node=on_node, near=near)
            await self._ensure(PODS, body)
            return ""
        if text(pod, "status", "phase") in _FAILED_PODS:
            raise MovementError(
                f"the pod {self._namespace}/{pod['metadata']['name']}, which has the volume mounted, ended:"
                f" {text(pod, 'status', 'message') or text(pod, 'status', 'reason') or 'see its events'}"
            )
        return text(pod, "spec", "nodeName") if text(pod, "status", "phase") == "Running" else ""

    async def why_not(self, movement: JSONObject) -> str:
        """Why the volume is not reached yet, as far as the cluster says."""
        pod = await self._find(PODS, movement)
        if pod is None:
            return "its pod was not created"
        for condition in objects(pod, "status", "conditions"):
            if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
                said = condition.get("message") or "no reason is given"
                return f"its pod is not scheduled to a node that has a node agent and its volume: {said}"
        name = f"{self._namespace}/{pod['metadata']['name']}"
        return f"the pod {name} is {text(pod, 'status', 'phase') or 'Pending'}; see its events"

    async def is_mounted(self, movement: JSONObject) -> bool:
        """Whether the pod is still there."""
        return await self._find(PODS, movement) is not None

    async def why_no_agent(self, node: str, *, has_worked: bool) -> str:
        """Why no agent does the work of a node; empty if one is ready there. Raises KubeError."""
        return await self._agents.why_none_on(node, has_worked=has_worked)

    async def remove_pod(self, movement: JSONObject) -> bool:
        """Delete the pod; whether it is gone."""
        return await self._remove(PODS, movement)

    async def remove(self, movement: JSONObject) -> bool:
        """Delete the pod and then the claim with its volume; whether both are gone."""
        if not await self._remove(PODS, movement):
            return False
        claim = await self._find(PERSISTENT_VOLUME_CLAIMS, movement)
        if claim is None:
            return True
        if volume := text(claim, "spec", "volumeName"):
            # A class may keep volumes; this one holds nothing that anything else uses.
            with suppress(NotFound):
                patch = {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}
                await self._client.patch(PERSISTENT_VOLUMES, volume, patch)
        return await self._remove(PERSISTENT_VOLUME_CLAIMS, movement)

    async def temporary_claim(self, movement: JSONObject) -> JSONObject | None:
        """The claim that was made; None if there is none."""
        return await self._find(PERSISTENT_VOLUME_CLAIMS, movement)

    async def remove_claim(self, movement: JSONObject) -> bool:
        """Delete the claim, and leave its volume as it is; whether the claim is gone."""
        return await self._remove(PERSISTENT_VOLUME_CLAIMS, movement)

    async def waits_for_consumer(self, class_name: str) -> bool:
        """Whether volumes of a storage class are made only when a pod uses their claim."""
        if not class_name:
            return False
        try:
            found = await self._client.get(STORAGE_CLASSES, class_name)
        except NotFound:
            return False
        return text(found, "volumeBindingMode") == "WaitForFirstConsumer"

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
            return True  # what has the name is not ours
        if found is None:
            return True
        if not mapping(found, "metadata").get("deletionTimestamp"):
            with suppress(NotFound):
                uid = found["metadata"]["uid"]
                await self._client.delete(resource, found["metadata"]["name"], self._namespace, uid=uid)
        return False

    async def _image(self, agents: AgentSet | None) -> str:
        """The image of the server. Raises MovementError."""
        image = agents.image if agents is not None else ""
        with suppress(NotFound):
            server = await self._client.get(DEPLOYMENTS, _SERVER, self._namespace)
            containers = objects(server, "spec", "template", "spec", "containers")
            image = next((text(each, "image") for each in containers), "") or image
        if not image:
            raise MovementError(
                f"no Deployment {_SERVER} and no DaemonSet node-agent in {self._namespace} says what image"
                " the pod that mounts the volume should have"
            )
        return image


def selected_node(claim: JSONObject) -> str:
    """The node that the scheduler has chosen for the first pod of a claim; empty if none."""
    return str(mapping(claim, "metadata", "annotations").get(labels.SELECTED_NODE) or "")
