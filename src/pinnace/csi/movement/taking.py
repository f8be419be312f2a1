"""Takes the volume of a claim that exists, so that moved data can be written into it. (docs/adr/122)

    volume marked, kept (Retain) and given to the temporary claim ──> no pod uses its own claim ──> temporary
        claim made ──> data written ──> the volume goes back as every filled one does (`rebinding`)

The claim itself is never deleted. While the volume names the temporary claim, the cluster shows the claim as
Lost, and no kubelet mounts the volume for it. So the pods are looked at after that: whoever does not use it
by then, cannot begin to. A volume that got a part of the data is withheld from its claim, so that nothing
starts on a mixture; the next restore into the claim takes it up.

Every step is decided by the objects that exist, so that another server can continue after one that died.
"""

from typing import Final

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.exposing import Exposer
from pinnace.csi.movement.objects import BLOCK, is_image
from pinnace.csi.movement.rebinding import (
    FILLED_BY,
    FORMER_POLICY,
    is_bound,
    mode_of,
    rebind,
    release,
    target_claim,
)
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.pods.claim_users import users_of, why_in_use

log = get_logger(__name__)

_LOST: Final = "Lost"


def is_withheld(claim: JSONObject, volume: JSONObject) -> bool:
    """Whether a claim has lost its volume because an earlier restore wrote a part of the data into it."""
    is_lost = text(claim, "status", "phase") == _LOST
    return is_lost and FILLED_BY in mapping(volume, "metadata", "labels")


def where_it_is(movement: JSONObject) -> str:
    """What is to be done about a claim after its transfer failed or was canceled. Pure."""
    target = mapping(movement, "spec", "targetVolume")
    claim, volume = f"{target.get('namespace')}/{target.get('pvc')}", target.get("pv")
    if not _has_begun(movement):
        return f"the claim {claim} has its volume with the data of before"
    patch = '[{"op":"remove","path":"/spec/claimRef"}]'
    return (
        f"the PersistentVolume {volume} may hold a part of the data, and so the claim {claim} is kept from it"
        " (Lost): restore again with existingVolumeDataPolicy; or, to use it as it is: kubectl patch pv"
        f" {volume} --type=json -p '{patch}'"
    )


async def take(client: KubeClient, exposer: Exposer, movement: JSONObject) -> None:
    """Take the volume from its claim, unless that is done. The finalizer must be on the DataDownload.

    Raises:
        MovementError: it may not be taken: the claim has another volume or none, or pods use it.
        Conflict: the volume has just changed; try again.
    """
    if await exposer.temporary_claim(movement) is not None:
        return
    target = await target_claim(client, movement)
    volume = await _volume_of(client, movement)
    uid, name = movement["metadata"]["uid"], volume["metadata"]["name"]
    if mapping(volume, "metadata", "labels").get(FILLED_BY) != uid:
        if text(target, "spec", "volumeName") != name or not await _is_free(client, target, volume):
            raise MovementError(f"the claim is not bound to the volume {name}")
        if is_image(movement) and mode_of(volume) != BLOCK:
            raise MovementError(
                f"the data is the image of a device, and the volume {name} is in the mode {mode_of(volume)}:"
                " delete the claim and restore again"
            )
        await _check_users(client, target)
        volume = await client.patch(PERSISTENT_VOLUMES, name, _taken(volume, movement))
    await _check_users(client, target)
    await exposer.make_claim(movement, _claim_spec(volume))


async def give_back(client: KubeClient, exposer: Exposer, movement: JSONObject) -> bool:
    """Take the next step after a DataDownload that did not complete; return whether nothing is left to do.

    A volume whose claim is gone, or has another one, keeps its data and the policy Retain.
    """
    if not _has_begun(movement):
        try:
            return await rebind(client, exposer, movement)
        except MovementError as error:
            log.warning("A volume is not given back to its claim", reason=str(error))
    if not (await exposer.remove_pod(movement) and await exposer.remove_claim(movement)):
        return False
    if not _has_begun(movement):
        await release(client, movement)
    return True


def _has_begun(movement: JSONObject) -> bool:
    """Whether an agent may have written into the volume."""
    return bool(text(movement, "status", "startTimestamp"))


async def _volume_of(client: KubeClient, movement: JSONObject) -> JSONObject:
    name = text(movement, "spec", "targetVolume", "pv")
    try:
        return await client.get(PERSISTENT_VOLUMES, name)
    except NotFound as error:
        raise MovementError(f"the volume {name} of the claim is gone") from error


async def _is_free(client: KubeClient, target: JSONObject, volume: JSONObject) -> bool:
    """Whether the claim has the volume, or it is withheld from it and nobody writes into it."""
    owner = mapping(volume, "spec", "claimRef")
    if owner.get("uid") == target["metadata"]["uid"]:
        return is_bound(target)
    if not is_withheld(target, volume):
        return False
    try:
        await client.get(PERSISTENT_VOLUME_CLAIMS, text(owner, "name"), text(owner, "namespace"))
    except NotFound:
        return True
    return False


async def _check_users(client: KubeClient, target: JSONObject) -> None:
    """Raise MovementError if pods on nodes use the claim; others are not mounted, and cannot be."""
    metadata = target["metadata"]
    pods = await client.list_all(PODS, metadata["namespace"])
    users = [pod for pod in users_of(metadata["name"], pods) if text(pod, "spec", "nodeName")]
    if users:
        raise MovementError(await why_in_use(client, users, may_scale=True))


def _taken(volume: JSONObject, movement: JSONObject) -> JSONObject:
    """The patch that gives a volume to the temporary claim, valid only for the state that was read."""
    metadata = movement["metadata"]
    noted = mapping(volume, "metadata", "annotations").get(FORMER_POLICY)
    policy = noted or text(volume, "spec", "persistentVolumeReclaimPolicy") or "Delete"
    return {
        "metadata": {
            "labels": {FILLED_BY: metadata["uid"]},
            "annotations": {FORMER_POLICY: policy},
            "resourceVersion": volume["metadata"]["resourceVersion"],
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {
                "apiVersion": "v1",
                "kind": PERSISTENT_VOLUME_CLAIMS.kind,
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": None,
                "resourceVersion": None,
            },
        },
    }


def _claim_spec(volume: JSONObject) -> JSONObject:
    """The spec of the claim that is bound to a volume and to no other."""
    spec = volume["spec"]
    return {
        "accessModes": spec["accessModes"],
        "resources": {"requests": {"storage": spec["capacity"]["storage"]}},
        "storageClassName": text(spec, "storageClassName"),
        "volumeMode": mode_of(volume),
        "volumeName": volume["metadata"]["name"],
    }
