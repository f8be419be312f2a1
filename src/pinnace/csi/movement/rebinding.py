"""Gives a volume that was filled through a temporary claim to the claim that waits for it.

    temporary claim bound ──> volume kept (Retain, marked) ──> pod and temporary claim deleted
        ──> volume names the target claim ──> volume and target claim Bound ──> volume has its former policy

The policy stays Retain until the volume is Bound: provisioners delete every volume that is Released with the
policy Delete, and this one is Released from the deletion of the temporary claim to the binding of the target.

Every step is decided by the objects that exist, so that another server can continue after one that died. The
former policy is noted on the volume until the last step, which removes the note and the mark.
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
        if bound and is_bound(target):
            return True  # the last step was done, and its answer lost
        raise MovementError("the volume that was filled is gone")
    name = volume["metadata"]["name"]
    if volume["metadata"].get("deletionTimestamp"):
        raise MovementError(f"the volume that was filled, {name}, is being deleted")
    if bound and bound != name:
        raise MovementError(f"the claim was bound to another volume meanwhile: {bound}")
    if text(volume, "spec", "claimRef", "uid") != target["metadata"]["uid"]:
        await client.patch(PERSISTENT_VOLUMES, name, _given_to(target, volume))
        return False
    if not (bound and is_bound(target) and is_bound(volume)):
        return False
    await client.patch(PERSISTENT_VOLUMES, name, _settled(volume, _former_policy(volume)))
    return True


async def why_unsettled(client: KubeClient, movement: JSONObject) -> str:
    """Where the restored data is, as long as its claim is not bound to its volume."""
    volume = await _filled(client, movement)
    name = text(volume or {}, "metadata", "name")
    return (
        f"the data was restored, but its claim was not bound in time: the PersistentVolume {name} has it,"
        " with the reclaim policy Retain; the events of the claim say why it is not bound"
    )


async def drop_filled(client: KubeClient, movement: JSONObject) -> None:
    """End the way of a volume whose temporary claim is gone and that has not reached its target.

    A volume that no claim can get is deleted. One that was given to a claim that still waits for it may be
    bound at any time, and stays with its data and the policy Retain.

    Raises:
        Conflict: the volume has just changed; try again.
    """
    volume = await _filled(client, movement)
    if volume is None:
        return
    owner, former = mapping(volume, "spec", "claimRef"), _former_policy(volume)
    if _is_temporary(movement, owner):
        policy = "Delete"
    elif await _is_awaited(client, movement, volume):
        policy = former if is_bound(volume) else "Retain"
    else:
        policy = former  # its claim has given it up again
    await client.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], _settled(volume, policy))


def is_bound(obj: JSONObject) -> bool:
    """Whether a claim or a volume is in the phase Bound."""
    return text(obj, "status", "phase") == "Bound"


async def _is_awaited(client: KubeClient, movement: JSONObject, volume: JSONObject) -> bool:
    """Whether the target claim of the volume still exists and has no other volume."""
    try:
        target = await target_claim(client, movement)
    except MovementError:
        return False
    is_owner = target["metadata"]["uid"] == text(volume, "spec", "claimRef", "uid")
    return is_owner and text(target, "spec", "volumeName") in ("", volume["metadata"]["name"])


def _is_temporary(movement: JSONObject, owner: JSONObject) -> bool:
    metadata = movement["metadata"]
    return (text(owner, "namespace"), text(owner, "name")) == (metadata["namespace"], metadata["name"])


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
        "metadata": {"labels": own_labels, "resourceVersion": volume["metadata"]["resourceVersion"]},
        "spec": {
            # Stated again, as somebody may have changed it: the volume is Released now.
            "persistentVolumeReclaimPolicy": "Retain",
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


def _settled(volume: JSONObject, policy: str) -> JSONObject:
    """The last patch of a volume, valid only for the state that was read: its policy, and no marks."""
    return {
        "metadata": {
            "labels": {FILLED_BY: None},
            "annotations": {FORMER_POLICY: None},
            "resourceVersion": volume["metadata"]["resourceVersion"],
        },
        "spec": {"persistentVolumeReclaimPolicy": policy or "Delete"},
    }


def _former_policy(volume: JSONObject) -> str:
    return str(mapping(volume, "metadata", "annotations").get(FORMER_POLICY) or "")
