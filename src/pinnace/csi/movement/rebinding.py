"""Gives a volume that was filled through a temporary claim to the claim that waits for it.

    temporary claim bound ──> volume kept (Retain, marked) ──> pod and temporary claim deleted
        ──> volume names the target claim ──> volume and target claim Bound ──> volume has its former policy

The policy stays Retain until the volume is Bound: provisioners delete every volume that is Released with the
policy Delete, and this one is Released from the deletion of the temporary claim to the binding of the target.

A volume in another mode than the target has the image of a device, which is a file system for the target.
The mode of a PersistentVolume is fixed: a second object takes the place of the first, for the same storage:

    temporary claim deleted ──> volume detached ──> second object, which names the target claim, made
        ──> first object deleted ──> as above

The same is done for a volume that names Secrets which were copied for the transfer: the second object names
those of the target's namespace.

The second one is made first, and its name follows from the DataDownload: whoever dies, the handle of the
storage is in one object at least, and the next server finds both. (docs/spec: AFT-147)

Every step is decided by the objects that exist, so that another server can continue after one that died. The
former policy is noted on the volume until the last step, which removes the note and the mark.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final
from uuid import UUID, uuid5

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.exposing import Exposer
from pinnace.csi.movement.objects import is_in_place
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS

FILLED_BY: Final = "pinnace.io/data-download"
"""Label of a volume on its way from the temporary claim to the target: the uid of the DataDownload."""
FORMER_POLICY: Final = "pinnace.io/reclaim-policy"
"""Annotation of such a volume: the reclaim policy that it had, and gets again."""

FILESYSTEM: Final = "Filesystem"
"""The `volumeMode` of claims and volumes that name none."""

_SECOND_NAMES: Final = UUID("5f2f6f0c-5b0e-4c39-8a54-7f0f0f6f3b2d")
_PROVISIONER_IDENTITY: Final = "storage.kubernetes.io/csiProvisionerIdentity"
_SECRET_USES: Final = (
    "controllerExpandSecretRef",
    "controllerPublishSecretRef",
    "nodeExpandSecretRef",
    "nodePublishSecretRef",
    "nodeStageSecretRef",
)
_DELETION_SECRET_NAME: Final = "volume.kubernetes.io/provisioner-deletion-secret-name"  # noqa: S105 - a name
_DELETION_SECRET_NAMESPACE: Final = "volume.kubernetes.io/provisioner-deletion-secret-namespace"  # noqa: S105
"""Annotations of volumes: the Secret that their provisioner deletes them with."""
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"


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
    volumes = await _filled(client, movement)
    bound = text(target, "spec", "volumeName")
    if not volumes:
        if bound and is_bound(target):
            return True  # the last step was done, and its answer lost
        raise MovementError("the volume that was filled is gone")
    volume, *replaced = volumes
    name = volume["metadata"]["name"]
    if volume["metadata"].get("deletionTimestamp"):
        raise MovementError(f"the volume that was filled, {name}, is being deleted")
    if bound and bound != name:
        raise MovementError(f"the claim was bound to another volume meanwhile: {bound}")
    # The volume of a claim that existed names what its own provisioner gave it.
    copies = frozenset() if is_in_place(movement) else await _copied_secrets(exposer, volume, movement)
    if copies or mode_of(volume) != mode_of(target):
        if not await _is_attached(client, name):
            second = _second(target, volume, movement, copies)
            with suppress(AlreadyExists):
                await client.create(PERSISTENT_VOLUMES, second)
        return False
    if replaced:
        await _drop_replaced(client, replaced)
        return False
    if text(volume, "spec", "claimRef", "uid") != target["metadata"]["uid"]:
        patch = _given_to(target)
        patch["metadata"]["resourceVersion"] = volume["metadata"]["resourceVersion"]
        await client.patch(PERSISTENT_VOLUMES, name, patch)
        return False
    if not (bound and is_bound(target) and is_bound(volume)):
        return False
    await client.patch(PERSISTENT_VOLUMES, name, _settled(volume, _former_policy(volume)))
    return True


async def why_unsettled(client: KubeClient, movement: JSONObject) -> str:
    """Where the restored data is, as long as its claim is not bound to its volume."""
    volumes = await _filled(client, movement)
    name = volumes[0]["metadata"]["name"] if volumes else ""
    return (
        f"the data was restored, but its claim was not bound in time: the PersistentVolume {name} has it,"
        " with the reclaim policy Retain; the events of the claim say why it is not bound"
    )


async def release(client: KubeClient, movement: JSONObject) -> None:
    """Remove the marks of a volume that no claim gets; it keeps its data and the policy Retain."""
    for volume in await _filled(client, movement):
        await client.patch(PERSISTENT_VOLUMES, volume["metadata"]["name"], _settled(volume, "Retain"))


async def drop_filled(client: KubeClient, movement: JSONObject) -> None:
    """End the way of a volume whose temporary claim is gone and that has not reached its target.

    A volume that no claim can get is deleted. One that was given to a claim that still waits for it may be
    bound at any time, and stays with its data and the policy Retain.

    Raises:
        Conflict: the volume has just changed; try again.
    """
    volumes = await _filled(client, movement)
    if not volumes:
        return
    volume, *replaced = volumes
    await _drop_replaced(client, replaced)
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
    policy = text(volume, "spec", "persistentVolumeReclaimPolicy") or "Delete"
    if mapping(volume, "metadata", "labels").get(FILLED_BY) == uid:
        if policy == "Retain":
            return
        policy = _former_policy(volume) or policy  # somebody has changed it meanwhile
    patch = {
        "metadata": {"labels": {FILLED_BY: uid}, "annotations": {FORMER_POLICY: policy}},
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
    }
    await client.patch(PERSISTENT_VOLUMES, name, patch)


async def _filled(client: KubeClient, movement: JSONObject) -> list[JSONObject]:
    """The volume that was filled; the object that takes its place first, where there is one."""
    selector = f"{FILLED_BY}={movement['metadata']['uid']}"
    found = await client.list_all(PERSISTENT_VOLUMES, label_selector=selector)
    return sorted(found, key=lambda each: each["metadata"]["name"] != _second_name(movement))


async def _is_attached(client: KubeClient, name: str) -> bool:
    """Whether a volume is attached to a node, or may be."""
    found = await client.list_all(VOLUME_ATTACHMENTS)
    return any(text(each, "spec", "source", "persistentVolumeName") == name for each in found)


async def _drop_replaced(client: KubeClient, volumes: Iterable[JSONObject]) -> None:
    """Delete objects whose storage has another object now."""
    for volume in volumes:
        metadata = volume["metadata"]
        if metadata.get("deletionTimestamp"):
            continue
        with suppress(NotFound):
            if text(volume, "spec", "persistentVolumeReclaimPolicy") != "Retain":
                # Somebody has changed it, and the storage would be deleted with the object.
                patch = {"spec": {"persistentVolumeReclaimPolicy": "Retain"}}
                await client.patch(PERSISTENT_VOLUMES, metadata["name"], patch)
            await client.delete(PERSISTENT_VOLUMES, metadata["name"], uid=metadata["uid"])


def _second_name(movement: JSONObject) -> str:
    """The name of the object that takes the place of a volume: a UUID, as Velero's, equal at each attempt."""
    return str(uuid5(_SECOND_NAMES, movement["metadata"]["uid"]))


async def _copied_secrets(exposer: Exposer, volume: JSONObject, movement: JSONObject) -> frozenset[str]:
    """The Secrets that a volume names and that were copied into the server's namespace for the transfer."""
    here = movement["metadata"]["namespace"]
    source, notes = mapping(volume, "spec", "csi"), mapping(volume, "metadata", "annotations")
    named = {text(source, use, "name") for use in _SECRET_USES if text(source, use, "namespace") == here}
    if notes.get(_DELETION_SECRET_NAMESPACE) == here:
        named.add(text(notes, _DELETION_SECRET_NAME))
    return (await exposer.copies.secrets(movement)) & named if named else frozenset()


def _second(
    target: JSONObject, volume: JSONObject, movement: JSONObject, copied: frozenset[str]
) -> JSONObject:
    """The object that takes the place of a volume, in the mode of the target claim, which it names.

    Args:
        copied: names of Secrets; the second object has those of the target's namespace in their place.
    """
    here = movement["metadata"]["namespace"]
    given = _given_to(target)
    metadata, spec = volume["metadata"], {**volume["spec"], **given["spec"], "volumeMode": mode_of(target)}
    del spec["claimRef"]["resourceVersion"]
    if source := mapping(spec, "csi"):
        attributes = {**mapping(source, "volumeAttributes")}
        attributes.pop(_PROVISIONER_IDENTITY, None)
        fs_type = text(movement, "spec", "targetVolume", "fsType") or text(source, "fsType")
        spec["csi"] = {**source, "volumeAttributes": attributes, **({"fsType": fs_type} if fs_type else {})}
        for use in _SECRET_USES:
            if text(source, use, "namespace") == here and text(source, use, "name") in copied:
                spec["csi"][use] = {**source[use], "namespace": target["metadata"]["namespace"]}
    annotations = {**mapping(metadata, "annotations")}
    if annotations.get(_DELETION_SECRET_NAME) in copied and annotations[_DELETION_SECRET_NAMESPACE] == here:
        annotations[_DELETION_SECRET_NAMESPACE] = target["metadata"]["namespace"]
    annotations.pop(_BOUND_BY_CONTROLLER, None)
    return {
        "apiVersion": "v1",
        "kind": PERSISTENT_VOLUMES.kind,
        "metadata": {
            "name": _second_name(movement),
            "labels": {**mapping(metadata, "labels"), **given["metadata"]["labels"]},
            "annotations": annotations,
        },
        "spec": spec,
    }


def mode_of(obj: JSONObject) -> str:
    """The mode of a claim or a volume."""
    return text(obj, "spec", "volumeMode") or FILESYSTEM


def _given_to(target: JSONObject) -> JSONObject:
    """The patch of a volume that binds it to the target claim."""
    metadata = target["metadata"]
    wanted = mapping(target, "spec", "selector", "matchLabels")
    own_labels = {key: value for key, value in wanted.items() if key == labels.DYNAMIC_PV_RESTORE}
    return {
        "metadata": {"labels": own_labels},
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
