"""Whether restored workloads have come up, and why not. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from pinnace.api.objects import JSONObject, mapping, member, objects, text
from pinnace.kube.resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    APIResource,
)

WORKLOADS: Final[Sequence[APIResource]] = (
    DEPLOYMENTS,
    STATEFUL_SETS,
    DAEMON_SETS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    PODS,
)


class WorkloadState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of one workload: a set of pods, or a pod that belongs to none.

    Attributes:
        is_up: whether as many pods are ready as are wanted.
        detail: how many pods are ready, and the reason for the others.
    """

    kind: str
    namespace: str
    name: str
    is_up: bool
    detail: str


def states(found: Mapping[str, Sequence[JSONObject]]) -> Iterator[WorkloadState]:
    """The states of the workloads in lists of objects by resource name, without those that another owns."""
    pods = found.get(PODS.name, ())
    for resource in WORKLOADS:
        for obj in found.get(resource.name, ()):
            if any(owner.get("controller") for owner in objects(obj, "metadata", "ownerReferences")):
                continue
            if resource is PODS:
                is_up = is_pod_up(obj)
                detail = "ready" if is_up else _reason_of_pod(obj)
            else:
                ready, wanted = _counts(resource, obj)
                is_up = wanted is not None and ready >= wanted
                detail = f"{ready} of {'?' if wanted is None else wanted} pods are ready"
                if not is_up and (reason := _reason(obj, pods)):
                    detail += f": {reason}"
            yield WorkloadState(
                kind=resource.kind,
                namespace=text(obj, "metadata", "namespace"),
                name=text(obj, "metadata", "name"),
                is_up=is_up,
                detail=detail,
            )


def is_pod_up(pod: JSONObject) -> bool:
    """Whether a pod is ready, or has done its work."""
    if text(pod, "status", "phase") == "Succeeded":
        return True
    return any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in objects(pod, "status", "conditions")
    )


def _counts(resource: APIResource, obj: JSONObject) -> tuple[int, int | None]:
    """How many pods are ready, and how many are wanted; None while its controller has not counted."""
    status = mapping(obj, "status")
    if resource is DAEMON_SETS:
        wanted = _number(status, "desiredNumberScheduled") if "observedGeneration" in status else None
        return _number(status, "numberReady"), wanted
    replicas = member(obj, "spec", "replicas")
    return _number(status, "readyReplicas"), replicas if isinstance(replicas, int) else 1


def _number(status: JSONObject, name: str) -> int:
    value = status.get(name)
    return value if isinstance(value, int) else 0


def _reason(workload: JSONObject, pods: Sequence[JSONObject]) -> str:
    """Why pods of a workload are not ready: what its controller says, or the first pod."""
    for condition in objects(workload, "status", "conditions"):
        if condition.get("type") == "ReplicaFailure" and condition.get("status") == "True":
            return text(condition, "message")
    selector = mapping(workload, "spec", "selector")
    wanted = mapping(selector, "matchLabels") or {
        key: value for key, value in selector.items() if isinstance(value, str)
    }
    namespace = text(workload, "metadata", "namespace")
    for pod in pods:
        has = mapping(pod, "metadata", "labels")
        is_its = text(pod, "metadata", "namespace") == namespace and wanted.items() <= has.items()
        if is_its and not is_pod_up(pod):
            return f"pod {text(pod, 'metadata', 'name')}: {_reason_of_pod(pod)}"
    return ""


def _reason_of_pod(pod: JSONObject) -> str:
    status = mapping(pod, "status")
    containers = [*objects(status, "initContainerStatuses"), *objects(status, "containerStatuses")]
    for container in containers:
        waiting = mapping(container, "state", "waiting")
        if reason := text(waiting, "reason"):
            if reason in ("PodInitializing", "ContainerCreating") and len(containers) > 1:
                continue
            message = text(waiting, "message")
            return f"container {text(container, 'name')}: {reason}" + (f" ({message})" if message else "")
    for condition in objects(status, "conditions"):
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return text(condition, "message") or text(condition, "reason") or "not scheduled"
    return f"phase {text(status, 'phase') or 'unknown'}"
