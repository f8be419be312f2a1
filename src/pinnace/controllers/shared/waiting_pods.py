"""Tells which pods wait for the data of their volumes, and indexes PodVolumeRestores by their pod."""

from collections.abc import Iterable
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject

POD_INDEX: Final = "pod"
WAIT_CONTAINER: Final = "restic-wait"


def pod_gone(namespace: str, name: str) -> str:
    """Why the PodVolumeRestores of a deleted pod fail."""
    return f"the pod {namespace}/{name} was deleted before its volume was restored"


def by_pod(obj: JSONObject) -> Iterable[str]:
    """The index of PodVolumeRestores by the uid of their pod."""
    uid = (obj["metadata"].get("labels") or {}).get(labels.POD_UID)
    return (uid,) if uid else ()


def is_waiting(pod: JSONObject) -> bool:
    """Whether the pod's init container `restic-wait` is running. (docs/spec: PVL 12.3)"""
    named = (pod.get("spec") or {}).get("initContainers") or []
    if not any(container.get("name") == WAIT_CONTAINER for container in named):
        return False
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(
        status.get("name") == WAIT_CONTAINER and (status.get("state") or {}).get("running") is not None
        for status in statuses
    )


def has_waited(pod: JSONObject) -> bool:
    """Whether `restic-wait` has ended well: all volumes of the pod have their data."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return any(
        status.get("name") == WAIT_CONTAINER
        and ((status.get("state") or {}).get("terminated") or {}).get("exitCode") == 0
        for status in statuses
    )


def is_ending(pod: JSONObject) -> bool:
    """Whether a pod is being deleted, and its volumes with it."""
    return pod["metadata"].get("deletionTimestamp") is not None
