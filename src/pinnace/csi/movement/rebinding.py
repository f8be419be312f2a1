"""Gives a volume that was filled through a temporary claim to the claim that waits for it.

    temporary claim bound ──> volume kept (Retain, marked) ──> pod and temporary claim deleted
        ──> volume names the target claim, with its former policy ──> target claim bound

Every step is decided by the objects that exist, so that another server can continue after one that died.
"""

from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.exposing import Exposer
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES

FILLED_BY: Final = "pinnace.io/data-download"
"""Label of a volume on its way from the temporary claim to the target: the uid of the DataDownload."""
FORMER_POLICY: Final = "pinnace.io/reclaim-policy"
"""Annotation of such a volume: the reclaim policy that it had, and gets again."""


async def target_claim(client: KubeClient, movement: JSONObject) -> JSONObject:
    """The claim that the data is for. Raises MovementError if it is gone."""
    target = movement["spec"]["targetVolume"]
    try:
        return await client.get(PERSISTENT_VOLUME_CLAIMS, target["pvc"], target["namespace"])
    except NotFound as error:
        raise MovementError(
            f"the claim {target['namespace']}/{target['pvc']} was deleted before its data was restored"
        ) from error


async def rebind(client: KubeClient, exposer: Exposer, movement: JSONObject) -> bool:
    """Take the next step; return whether the target claim is bound to the volume.

    Raises:
        MovementError: the target or the volume is gone, or the target is bound to another volume.
    """
    target = await target_claim(client, movement)
    temporary = await exposer.temporary_claim(movement)
    if temporary is not None:
        await _keep(client, text(temporary, "spec", "volumeName"), movement["metadata"]["uid"])
        if await exposer.remove_pod(movement):
            await exposer.remove_claim(movement)
        return False
    volume = await _filled(client, movement)
    bound = text(target, "spec", "volumeName")
    if volume is None:
        if bound and text(target, "status", "phase") == "Bound":
            return True  # the last step was done, and its answer lost
        raise MovementError("the volume that was filled is gone")
    name = volume["metadata"]["name"]
    if bound and bound != name:
        raise MovementError(f"the claim was bound to another volume meanwhile: {bound}")
    if text(volume, "spec", "claimRef", "uid") != target["metadata"]["uid"]:
        await client.patch(PERSISTENT_VOLUMES, name, _given_to(target, volume))
        return False
    if text(target, "status", "phase") != "Bound":
        return False
    await client.patch(PERSISTENT_VOLUMES, name, {"metadata": {"labels": {FILLED_BY: None}}})
    return True


async def drop_filled(client: KubeClient, movement: JSONObject) -> None:
    """Delete a volume that has lost its temporary claim and has not reached the target."""
    volume = await _filled(client, movement)
    if volume is None:
        return
    name, former = volume["metadata"]["name"], _former_policy(volume)
    if text(volume, "spec", "claimRef", "namespace") == movement["metadata"]["namespace"]:
        await client.patch(PERSISTENT_VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}})
    elif former:
        await client.patch(PERSISTENT_VOLUMES, name, {"spec": {"persistentVolumeReclaimPolicy": former}})


async def _keep(client: KubeClient, name: str, uid: str) -> None:
    """Keep the volume beyond its temporary claim, with a label to find it by. Raises MovementError."""
    try:
        volume = await client.get(PERSISTENT_VOLUMES, name) if name else None
    except NotFound:
        volume = None
    if volume is None:
        raise MovementError("the volume that was filled is gone")
    if mapping(volume, "metadata", "labels").get(FILLED_BY) == uid:
        return
    policy = text(volume, "spec", "persistentVolumeReclaimPolicy") or "Delete"
    patch = {
        "metadata": {"labels": {FILLED_BY: uid}, "annotations": {FORMER_POLICY: policy}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
    }
    await client.patch(PERSISTENT_VOLUMES, name, patch)


async def _filled(client: KubeClient, movement: JSONObject) -> JSONObject | None:
    selector = f"{FILLED_BY}={movement['metadata']['uid']}"
    found = await client.list_all(PERSISTENT_VOLUMES, label_selector=selector)
    return found[0] if found else None


def _given_to(target: JSONObject, volume: JSONObject) -> JSONObject:
    """The patch of a volume that binds it to the target claim."""
    metadata = target["metadata"]
    wanted = mapping(target, "spec", "selector", "matchLabels")
    own_labels = {key: value for key, value in wanted.items() if key == labels.DYNAMIC_PV_RESTORE}
    return {
        "metadata": {"labels": own_labels, "annotations": {FORMER_POLICY: None}},
        "spec": {
            "persistentVolumeReclaimPolicy": _former_policy(volume) or "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": None,
            },
        },
    }


def _former_policy(volume: JSONObject) -> str:
    return str(mapping(volume, "metadata", "annotations").get(FORMER_POLICY) or "")
