"""Finds the claim and the persistent volume of a pod's volume, or the node's directory."""

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES


class VolumeError(Exception):
    """The claim or persistent volume of a volume cannot be read; the text is Velero's."""


class PodVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume of a pod.

    Attributes:
        source: its entry in `spec.volumes`.
        claim: the claim behind it, None if there is none.
        is_host_path: whether it is a directory of the node, directly or by way of a claim.
    """

    source: JSONObject
    claim: JSONObject | None = None
    is_host_path: bool = False


def find_volume(pod: JSONObject, name: str) -> JSONObject | None:
    """The entry of a volume in `spec.volumes`; None if the pod has no such volume."""
    volumes = (pod.get("spec") or {}).get("volumes") or []
    return next((volume for volume in volumes if volume.get("name") == name), None)


def claim_name(pod: JSONObject, volume: JSONObject) -> str:
    """The claim of a volume, also of a generic ephemeral one; empty if it has none. (docs/spec: PVL 6)"""
    named = (volume.get("persistentVolumeClaim") or {}).get("claimName")
    if named:
        return str(named)
    return f"{pod['metadata']['name']}-{volume['name']}" if volume.get("ephemeral") is not None else ""


async def read_pod_volume(client: KubeClient, pod: JSONObject, volume: JSONObject) -> PodVolume:
    """Read the claim of a volume and its persistent volume. (docs/spec: PVL 4)

    Raises:
        VolumeError: they cannot be read.
    """
    name = claim_name(pod, volume)
    if not name:
        return PodVolume(source=volume, is_host_path=volume.get("hostPath") is not None)
    try:
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, name, pod["metadata"]["namespace"])
    except KubeError as error:
        raise VolumeError(f"error getting persistent volume claim for volume: {error}") from error
    bound = (claim.get("spec") or {}).get("volumeName")
    if not bound:
        return PodVolume(source=volume, claim=claim)
    try:
        persistent = await client.get(PERSISTENT_VOLUMES, bound)
    except KubeError as error:
        raise VolumeError(f"error checking if volume is a hostPath volume: {error}") from error
    is_host_path = (persistent.get("spec") or {}).get("hostPath") is not None
    return PodVolume(source=volume, claim=claim, is_host_path=is_host_path)
