"""The objects of the application in a cluster, and whether its controllers are done with them.

Reading needs a cluster; judging (`unsettled`, `fingerprint`) is pure.
"""

from collections.abc import Callable, Iterable
from typing import Any

from examples.compare import Key, Object, World
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource

# Observations with generated names, which controllers write at any time.
NOT_COMPARED = frozenset({"events"})


async def take_snapshot(client: KubeClient, namespaces: Iterable[str], wanted: Iterable[Key]) -> World:
    """Read everything in the namespaces, the namespaces themselves, and the cluster-scoped objects named.

    Args:
        namespaces: a namespace that does not exist has nothing in it.
        wanted: keys; those of namespaced objects are ignored.
    """
    discovery = await Discovery.load(client)
    inside = frozenset(namespaces)
    outside = {key for key in wanted if not key.namespace}
    kinds = {(key.group, key.kind) for key in outside}
    world: dict[Key, Object] = {}
    for resource in discovery.resources:
        if resource.name in NOT_COMPARED:
            continue
        if not resource.namespaced and (resource.group, resource.kind) not in kinds:
            continue
        for item in await _list(client, resource):
            key = Key.of(item)
            if key in outside or key.namespace in inside:
                world[key] = item
    return world


async def _list(client: KubeClient, resource: APIResource) -> list[dict[str, Any]]:
    try:
        return await client.list_all(resource)
    except NotFound:  # its definition was deleted since discovery
        return []


def fingerprint(world: World) -> dict[Key, Any]:
    """Reduce a world to the parts that stop changing once the controllers are done: not the status."""
    return {
        key: {field: value for field, value in item.items() if field not in ("status", "metadata")}
        | {"uid": item["metadata"]["uid"], "labels": item["metadata"].get("labels")}
        | {"annotations": item["metadata"].get("annotations"), "owners": _owners(item)}
        for key, item in world.items()
    }


def unsettled(world: World) -> list[str]:
    """Return what the controllers have yet to do; empty if they are done."""
    waiting: list[str] = []
    for key, item in world.items():
        check = _CHECKS.get(key.kind_and_group)
        if "deletionTimestamp" in item["metadata"]:
            waiting.append(f"{key} is being deleted")
        elif check is not None and not check(item, world):
            waiting.append(f"{key} is not ready")
    return waiting


def _owners(item: Object) -> list[str]:
    return sorted(owner["uid"] for owner in item["metadata"].get("ownerReferences", []))


def _status(item: Object) -> Any:
    return item.get("status") or {}


def _observed(item: Object) -> bool:
    return bool(_status(item).get("observedGeneration", 0) >= item["metadata"]["generation"])


def _namespace_ready(item: Object, world: World) -> bool:
    name = item["metadata"]["name"]
    wanted = (Key("", "ServiceAccount", name, "default"), Key("", "ConfigMap", name, "kube-root-ca.crt"))
    return all(key in world for key in wanted)


def _replicas_ready(item: Object, _world: World) -> bool:
    return _observed(item) and bool(_status(item).get("replicas", 0) == item["spec"]["replicas"])


def _job_ready(item: Object, _world: World) -> bool:
    wanted = 0 if item["spec"].get("suspend") else item["spec"]["parallelism"]
    started = "startTime" in _status(item) or item["spec"].get("suspend")
    return bool(started) and bool(_status(item).get("active", 0) == wanted)


def _claim_ready(item: Object, world: World) -> bool:
    """Bound, unless its class waits for a first consumer, which never comes without nodes."""
    phase = _status(item).get("phase")
    storage_class = world.get(Key("storage.k8s.io", "StorageClass", "", item["spec"]["storageClassName"]))
    waits = storage_class is not None and storage_class["volumeBindingMode"] == "WaitForFirstConsumer"
    return bool(phase == ("Pending" if waits else "Bound"))


def _volume_ready(item: Object, _world: World) -> bool:
    return bool(_status(item).get("phase") == ("Bound" if "claimRef" in item["spec"] else "Available"))


def _secret_ready(item: Object, world: World) -> bool:
    """A token has been written, and for the account that exists now."""
    if item.get("type") != "kubernetes.io/service-account-token":
        return True
    annotations = item["metadata"]["annotations"]
    name = annotations["kubernetes.io/service-account.name"]
    account = world.get(Key("", "ServiceAccount", item["metadata"]["namespace"], name))
    uid = annotations.get("kubernetes.io/service-account.uid")
    return account is not None and uid == account["metadata"]["uid"] and "token" in (item.get("data") or {})


def _definition_ready(item: Object, _world: World) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in _status(item).get("conditions", [])}
    return conditions.get("Established") == "True" and conditions.get("NamesAccepted") == "True"


def _role_ready(item: Object, _world: World) -> bool:
    return "aggregationRule" not in item or bool(item.get("rules"))


def _quota_ready(item: Object, _world: World) -> bool:
    return bool(_status(item).get("hard") == item["spec"]["hard"])


def _observed_ready(item: Object, _world: World) -> bool:
    return _observed(item)


_CHECKS: dict[str, Callable[[Object, World], bool]] = {
    "Namespace": _namespace_ready,
    "Secret": _secret_ready,
    "PersistentVolume": _volume_ready,
    "PersistentVolumeClaim": _claim_ready,
    "ReplicationController": _replicas_ready,
    "ResourceQuota": _quota_ready,
    "Deployment.apps": _replicas_ready,
    "ReplicaSet.apps": _replicas_ready,
    "StatefulSet.apps": _replicas_ready,
    "DaemonSet.apps": _observed_ready,
    "PodDisruptionBudget.policy": _observed_ready,
    "Job.batch": _job_ready,
    "ClusterRole.rbac.authorization.k8s.io": _role_ready,
    "CustomResourceDefinition.apiextensions.k8s.io": _definition_ready,
}
