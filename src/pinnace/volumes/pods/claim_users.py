"""The pods that use a claim, and the commands that stop them. (docs/adr/122)"""

from collections.abc import Iterable, Sequence
from typing import Final

from pinnace.api.objects import JSONObject, mapping, objects, text
from pinnace.kube.errors import KubeError
from pinnace.kube.reading import ObjectReader
from pinnace.kube.resources import REPLICA_SETS
from pinnace.volumes.pods.pod_claims import claim_name

_ENDED: Final = ("Succeeded", "Failed")
_MOST_PODS: Final = 5
_SCALABLE: Final = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet")
_DELETABLE: Final = ("DaemonSet", "Job", "Pod")


def users_of(claim: str, pods: Iterable[JSONObject]) -> list[JSONObject]:
    """The pods of the claim's namespace that use it and have not ended, by name."""
    found = [
        pod
        for pod in pods
        if text(pod, "status", "phase") not in _ENDED
        and claim in {claim_name(pod, volume) for volume in objects(pod, "spec", "volumes")}
    ]
    return sorted(found, key=lambda pod: text(pod, "metadata", "name"))


async def why_in_use(client: ObjectReader, users: Sequence[JSONObject], *, may_scale: bool) -> str:
    """Say which pods use a claim, and how to stop them.

    Args:
        users: at least one.
        may_scale: whether it is enough that a workload is scaled to 0. Otherwise it must go, because it would
            adopt the restored pod and delete it.
    """
    names = [text(pod, "metadata", "name") for pod in users]
    more = f" and {len(names) - _MOST_PODS} more" if len(names) > _MOST_PODS else ""
    shown = f"pods use it: {', '.join(names[:_MOST_PODS])}{more}"
    workloads = sorted({await _workload_of(client, pod) for pod in users})
    scaled = [each for each in workloads if may_scale and each[0] in _SCALABLE]
    deleted = [each for each in workloads if each not in scaled and each[0] in (*_SCALABLE, *_DELETABLE)]
    others = [f"{kind} {name}" for kind, name in workloads if kind not in (*_SCALABLE, *_DELETABLE)]
    kubectl = f"kubectl -n {text(users[0], 'metadata', 'namespace')}"
    steps = [f"stop {', '.join(others)}"] if others else []
    if scaled:
        steps.append(f"{kubectl} scale {_arguments(scaled)} --replicas=0")
    if deleted:
        steps.append(f"{kubectl} delete {_arguments(deleted)}")
    what = "Stop them" if may_scale else "Delete them and what makes them"
    return f"{shown}. {what}, and restore again: {'; '.join(steps)}"


def _arguments(workloads: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"{kind.lower()}/{name}" for kind, name in workloads)


async def _workload_of(client: ObjectReader, pod: JSONObject) -> tuple[str, str]:
    """Kind and name of the object that makes a pod; the pod itself if nothing does."""
    kind, name = _controller_of(pod) or ("Pod", text(pod, "metadata", "name"))
    if kind == REPLICA_SETS.kind:
        try:
            made = await client.get(REPLICA_SETS, name, text(pod, "metadata", "namespace"))
        except KubeError:
            return kind, name
        return _controller_of(made) or (kind, name)
    return kind, name


def _controller_of(obj: JSONObject) -> tuple[str, str] | None:
    for owner in objects(obj, "metadata", "ownerReferences"):
        if mapping(owner).get("controller") is True:
            return text(owner, "kind"), text(owner, "name")
    return None
