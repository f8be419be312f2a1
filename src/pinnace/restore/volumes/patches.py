"""Gives newly provisioned volumes the reclaim policy and the labels of the old ones.

Without that, a volume restored from a snapshot has the reclaim policy of its storage class, often Delete
where the user had chosen Retain. A volume exists only when its claim is bound: most classes make it for the
first pod of the claim, which may itself wait for other volumes. So the engine looks once at its end; what is
left is stored, and patched while the restore is Finalizing, after its item operations. (docs/spec: BEY 5.7;
docs/adr/073)
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Final

import msgspec
import orjson

from pinnace.api import labels
from pinnace.api.codec import decode, encode
from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.api.volume_info import BackupMethod, BackupVolumeInfo, PersistentVolumeInfo
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, ConnectionFailed, KubeError, NotFound, ServerFault, TooManyRequests
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from pinnace.restore.cluster import ClusterClient
from pinnace.restore.selection.reading import ItemRef
from pinnace.volumes.pods.pod_claims import claim_name

_NEWLY_PROVISIONED: Final = (BackupMethod.CSI_SNAPSHOT, BackupMethod.POD_VOLUME_BACKUP)
_ENDED_PODS: Final = ("Succeeded", "Failed")
_PASSING: Final = (Conflict, ConnectionFailed, ServerFault, TooManyRequests)
"""Passing errors: the next look may succeed."""


class WantedPatch(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A claim that a restore created, and what the volume behind it gets.

    Attributes:
        uid: of the claim; another one of its name is not meant.
    """

    namespace: str
    name: str
    uid: str
    volume: PersistentVolumeInfo

    @property
    def title(self) -> str:
        """The claim, as texts name it."""
        return f"persistentvolumeclaims/{self.namespace}/{self.name}"

    @property
    def settings(self) -> str:
        """The settings, as texts name them."""
        policy, marks = self.volume.reclaim_policy, sorted(self.volume.labels.items())
        named = [f"the reclaim policy {policy}"] if policy else []
        named += ["the labels " + ",".join(f"{key}={value}" for key, value in marks)] if marks else []
        return " and ".join(named)


class Unbound(msgspec.Struct, frozen=True, kw_only=True):
    """A claim whose volume is still to come.

    Attributes:
        for_first_pod: its class makes the volume for the first pod of the claim.
        policy: the reclaim policy that its class gives; empty if it has none.
    """

    wanted: WantedPatch
    for_first_pod: bool = False
    policy: str = ""


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """The claims and the failures that one look has left.

    Attributes:
        problems: namespace and text of each failure.
    """

    unbound: Sequence[Unbound] = ()
    problems: Sequence[tuple[str, str]] = ()


class VolumePatches:
    """Remembers the claims that a restore created, and patches the volumes of those that are bound.

    Args:
        infos: the records of the backup; empty if its location is not trusted, as volumes are cluster-scoped.
    """

    def __init__(self, client: ClusterClient, infos: Iterable[BackupVolumeInfo]) -> None:
        self._client = client
        self._infos = {
            info.claim: info.pv_info
            for info in infos
            if info.pv_info is not None and info.pvc_name and info.backup_method in _NEWLY_PROVISIONED
        }
        self._wanted: list[WantedPatch] = []

    def claim_created(self, ref: ItemRef, claim: JSONObject) -> None:
        """Remember a claim that this restore created, unless the restore keeps it unbound."""
        info = self._infos.get((ref.original_namespace, ref.name))
        selector = mapping(claim, "spec", "selector", "matchLabels")
        if info is not None and labels.AWAITS_VOLUME_DATA not in selector:
            wanted = WantedPatch(
                namespace=ref.target_namespace, name=ref.name, uid=text(claim, "metadata", "uid"), volume=info
            )
            self._wanted.append(wanted)

    async def look(self) -> Remaining:
        """Patch the volumes that exist already."""
        return await look(self._client, self._wanted)


async def look(
    client: ClusterClient, wanted: Iterable[WantedPatch], *, operations_ended: bool = False
) -> Remaining:
    """Patch the volumes of claims that are bound; the others are left, unless nothing would change.

    Args:
        operations_ended: what waits for moved data now has been given up, which its operation says.
    """
    classes: dict[str, JSONObject | None] = {}
    unbound: list[Unbound] = []
    problems: list[tuple[str, str]] = []
    for each in wanted:
        try:
            left = await _patch(client, each, classes, operations_ended=operations_ended)
        except _PASSING:
            left = Unbound(wanted=each)
        except KubeError as error:
            problems.append((each.namespace, problem_of(each, str(error))))
            continue
        if left is not None:
            unbound.append(left)
    return Remaining(unbound=unbound, problems=problems)


async def used_claims(client: KubeClient, namespaces: Iterable[str]) -> set[tuple[str, str]]:
    """Namespace and name of the claims that pods use. Raises KubeError."""
    return {
        (namespace, claim_name(pod, volume))
        for namespace in set(namespaces)
        for pod in await client.list_all(PODS, namespace)
        if text(pod, "status", "phase") not in _ENDED_PODS
        for volume in objects(pod, "spec", "volumes")
    }


def problem_of(wanted: WantedPatch, reason: str) -> str:
    """The text about a volume that was not patched."""
    return f"the volume of {wanted.title} did not get back {wanted.settings} of the old one: {reason}"


async def _patch(
    client: ClusterClient,
    wanted: WantedPatch,
    classes: dict[str, JSONObject | None],
    *,
    operations_ended: bool,
) -> Unbound | None:
    """Patch one volume; None if there is nothing more to do. Raises KubeError."""
    claim = await _claim(client, wanted)
    if claim is None:
        return None
    name = text(claim, "spec", "volumeName")
    if not name or text(claim, "status", "phase") != "Bound":
        is_over = operations_ended and labels.DYNAMIC_PV_RESTORE in mapping(
            claim, "spec", "selector", "matchLabels"
        )
        return None if is_over else _still_to_come(wanted, claim, await _class_of(client, claim, classes))
    volume = await client.get(PERSISTENT_VOLUMES, name)
    if text(volume, "spec", "claimRef", "uid") != wanted.uid or text(volume, "status", "phase") != "Bound":
        return Unbound(wanted=wanted)
    if patch := volume_patch(volume, wanted.volume):
        # Of this state only: a volume that has been Released meanwhile must not get the policy Delete.
        patch.setdefault("metadata", {})["resourceVersion"] = volume["metadata"]["resourceVersion"]
        await client.patch(PERSISTENT_VOLUMES, name, patch)
    return None


def _still_to_come(wanted: WantedPatch, claim: JSONObject, storage: JSONObject | None) -> Unbound | None:
    """The claim, unless its volume needs no patch, or can never be made, which the claim's events say."""
    if storage is None:
        return None if text(claim, "spec", "storageClassName") else Unbound(wanted=wanted)
    policy = text(storage, "reclaimPolicy") or "Delete"
    if not wanted.volume.labels and wanted.volume.reclaim_policy in ("", policy):
        return None
    late = text(storage, "volumeBindingMode") == "WaitForFirstConsumer"
    return Unbound(wanted=wanted, for_first_pod=late, policy=policy)


async def _claim(client: ClusterClient, wanted: WantedPatch) -> JSONObject | None:
    """The claim; None if it was deleted meanwhile."""
    try:
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, wanted.name, wanted.namespace)
    except NotFound:
        return None
    return claim if claim["metadata"].get("uid") == wanted.uid else None


async def _class_of(
    client: ClusterClient, claim: JSONObject, classes: dict[str, JSONObject | None]
) -> JSONObject | None:
    """The storage class of a claim; None if it has none, or it is gone."""
    name = text(claim, "spec", "storageClassName")
    if name and name not in classes:
        try:
            classes[name] = await client.get(STORAGE_CLASSES, name)
        except NotFound:
            classes[name] = None
    return classes.get(name)


def encode_patches(wanted: Iterable[WantedPatch]) -> list[JSONObject]:
    """The content of the file that keeps them until their volumes exist."""
    return [encode(each) for each in wanted]


def decode_patches(found: Iterable[JSONObject]) -> list[WantedPatch]:
    """The patches of a file. Raises DecodeError."""
    return [decode(WantedPatch, each) for each in found]


def digest_of_patches(wanted: Sequence[WantedPatch]) -> str:
    """A digest; it proves to a server that the list in the location is the one that was stored."""
    return sha256(orjson.dumps(encode_patches(wanted), option=orjson.OPT_SORT_KEYS)).hexdigest()


def volume_patch(volume: JSONObject, info: PersistentVolumeInfo) -> JSONObject:
    """The patch with the old volume's policy and labels; empty if there is no difference."""
    patch: JSONObject = {}
    policy = text(volume, "spec", "persistentVolumeReclaimPolicy")
    if info.reclaim_policy and info.reclaim_policy != policy:
        patch["spec"] = {"persistentVolumeReclaimPolicy": info.reclaim_policy}
    present = mapping(volume, "metadata", "labels")
    missing = {name: value for name, value in info.labels.items() if present.get(name) != value}
    if missing:
        patch["metadata"] = {"labels": missing}
    return patch
