"""Tells which pods wait for the data of their volumes, and indexes PodVolumeRestores by their pod."""

from collections.abc import Iterable
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject

POD_INDEX: Final = "pod"
WAIT_CONTAINER: Final = "restic-wait"
"""The container that this server gives to restored pods."""
_WAIT_CONTAINERS: Final = frozenset({WAIT_CONTAINER, "restore-wait"})
"""Its names: pods that Velero 1.10 and later restored have the other one."""


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
    if not any(is_wait_container(container) for container in named):
        return False
    return wait_state(pod).get("running") is not None


def has_waited(pod: JSONObject) -> bool:
    """Whether `restic-wait` has ended well: all volumes of the pod have their data."""
    return bool((wait_state(pod).get("terminated") or {}).get("exitCode") == 0)


def wait_state(pod: JSONObject) -> JSONObject:
    """The state of the container that waits, as its kubelet reports it; empty if it does not."""
    statuses = (pod.get("status") or {}).get("initContainerStatuses") or []
    return next((status.get("state") or {} for status in statuses if is_wait_container(status)), {})


def is_wait_container(container: JSONObject) -> bool:
    """Whether an init container, or the status of one, is that of the container that waits."""
    return container.get("name") in _WAIT_CONTAINERS


def is_ending(pod: JSONObject) -> bool:
    """Whether a pod is being deleted, and its volumes with it."""
    return pod["metadata"].get("deletionTimestamp") is not None
