"""What a real cluster writes for itself stays as it is; users' own objects of the same kinds are restored.

The objects of the other cluster are those of this one, changed.
"""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject, copied
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CLUSTER_ROLES, CONFIGMAPS
from pinnace.restore.selection.validation import NON_RESTORABLE
from tests.support.runs.real_restores import RealRestore
from tests.support.waiting import eventually

MARK = "other.example/cluster"
RBAC, FLOWS = "rbac.authorization.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1"
POLICIES = ["none", "update", "recreate"]
WAYS = [*((policy, False) for policy in POLICIES), ("update", True)]


@pytest.fixture
def restore(second_client: KubeClient, tmp_path: Path) -> RealRestore:
    """Restores into a cluster of this module's own, in which nothing but itself has written."""
    return RealRestore(second_client, tmp_path)


@pytest.fixture
async def discovery(second_client: KubeClient) -> Discovery:
    return await Discovery.load(second_client)


async def everything(client: KubeClient, discovery: Discovery) -> list[JSONObject]:
    """Every object of a fresh cluster that a restore may touch, but namespaces and their default accounts."""

    async def is_ready() -> bool:
        try:
            roles = [await client.get(CLUSTER_ROLES, name) for name in ("admin", "edit", "view")]
            await client.get(CONFIGMAPS, "kube-root-ca.crt", "kube-node-lease")
            await client.get(CONFIGMAPS, "extension-apiserver-authentication", "kube-system")
        except NotFound:
            return False
        return all(role["rules"] for role in roles)

    await eventually(is_ready)
    found = []
    for resource in discovery.resources:
        if resource.group_resource in (*NON_RESTORABLE, "namespaces"):
            continue
        api_version = f"{resource.group}/{resource.version}".lstrip("/")
        for item in await client.list_all(resource):
            if (resource.group_resource, item["metadata"]["name"]) != ("serviceaccounts", "default"):
                found.append({**item, "apiVersion": api_version, "kind": resource.kind})
    return found


def of_another_cluster(item: JSONObject) -> JSONObject:
    """The object as another cluster might have it."""
    changed = copied(item)
    metadata = changed["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), MARK: "other"}
    match changed["kind"]:
        case "ConfigMap":
            changed["data"] = {key: f"other {value}" for key, value in (changed.get("data") or {}).items()}
        case "Service":
            changed["spec"]["ports"][0]["targetPort"] = 9443
        case "ClusterRole" | "Role":
            changed["rules"] = [{"apiGroups": ["other.example"], "resources": ["things"], "verbs": ["get"]}]
        case "ClusterRoleBinding" | "RoleBinding":
            group = "rbac.authorization.k8s.io"
            changed["subjects"] = [{"kind": "Group", "name": "others", "apiGroup": group}]
        case "FlowSchema":
            changed["spec"]["matchingPrecedence"] = 17
        case "Lease":
            changed["spec"]["leaseDurationSeconds"] = 17
        case "PriorityClass":
            changed["description"] = "of the other cluster"
    return changed


@pytest.mark.found("R4", "R3")
@pytest.mark.parametrize(("policy", "is_dry_run"), WAYS)
async def test_nothing_that_a_fresh_cluster_has_is_changed_or_warned_about(
    second_client: KubeClient, discovery: Discovery, restore: RealRestore, policy: str, is_dry_run: bool
) -> None:
    before = await everything(second_client, discovery)
    kinds = {item["kind"] for item in before}
    assert kinds >= {
        "APIService",
        "ConfigMap",
        "FlowSchema",
        "IPAddress",
        "Lease",
        "Service",
    }
    assert kinds >= {"PriorityClass", "PriorityLevelConfiguration", "Role", "ServiceAccount", "ServiceCIDR"}

    results = await restore(
        *map(of_another_cluster, before), existing_resource_policy=policy, is_dry_run=is_dry_run
    )

    assert results.errors.count == 0
    assert (results.warnings.namespaces, results.warnings.cluster, results.warnings.velero) == ({}, [], [])
    touched = [
        f"{item['kind']} {item['metadata']['name']}"
        for item in await everything(second_client, discovery)
        if MARK in (item["metadata"].get("annotations") or {})
        or "velero.io/restore-name" in (item["metadata"].get("labels") or {})
    ]
    assert touched == []
    noted = str(restore.outcomes.resource_list())
    assert not any(f"({word})" in noted for word in ("updated", "created", "failed"))


def own(kind: str, name: str, api_version: str, **content: Any) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **content}


def users_objects() -> list[JSONObject]:
    """A user's own objects of the kinds that the cluster writes too, some with its names or marks."""
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    role = own("ClusterRole", "shop-view", RBAC, rules=rules)
    role["metadata"]["labels"] = {"kubernetes.io/bootstrapping": "rbac-defaults"}
    taken_over = own("FlowSchema", "shop", FLOWS, spec={"priorityLevelConfiguration": {"name": "shop"}})
    taken_over["metadata"]["annotations"] = {"apf.kubernetes.io/autoupdate-spec": "false"}
    limited = {
        "type": "Limited",
        "limited": {"nominalConcurrencyShares": 1, "limitResponse": {"type": "Reject"}},
    }
    namespaced = [
        own("ConfigMap", "extension-apiserver-authentication", "v1", data={"client-ca-file": "own"}),
        own("Service", "kubernetes", "v1", spec={"ports": [{"port": 80, "targetPort": 80}]}),
        own("Lease", "kube-scheduler", "coordination.k8s.io/v1", spec={"leaseDurationSeconds": 15}),
        own("Role", "view", RBAC, rules=rules),
    ]
    for item in namespaced:
        # Not `default`, where Service `kubernetes` is the API server's.
        item["metadata"]["namespace"] = "kube-public"
    subjects = [{"kind": "Group", "name": "shop", "apiGroup": "rbac.authorization.k8s.io"}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shop-view"}
    parent = {"group": "", "resource": "services", "namespace": "default", "name": "kubernetes"}
    return [
        *namespaced,
        role,
        own("ClusterRoleBinding", "shop", RBAC, roleRef=reference, subjects=subjects),
        own("PriorityLevelConfiguration", "shop", FLOWS, spec=limited),
        taken_over,
        own("PriorityClass", "shop-critical", "scheduling.k8s.io/v1", value=7),
        own("ServiceCIDR", "shop", "networking.k8s.io/v1", spec={"cidrs": ["198.19.77.0/28"]}),
        own("IPAddress", "198.19.78.9", "networking.k8s.io/v1", spec={"parentRef": parent}),
    ]


@pytest.mark.found("R4")
@pytest.mark.parametrize("policy", POLICIES)
async def test_a_users_own_objects_of_these_kinds_are_restored(
    second_client: KubeClient, discovery: Discovery, restore: RealRestore, policy: str
) -> None:
    wanted = users_objects()
    names = [item["metadata"]["name"] for item in wanted]
    try:
        created = await restore(*wanted)
        assert (created.errors.count, created.warnings.count) == (0, 0)

        results = await restore(*map(of_another_cluster, wanted), existing_resource_policy=policy)

        assert results.errors.count == 0
        marked = [
            item["metadata"]["name"]
            for item in await everything(second_client, discovery)
            if MARK in (item["metadata"].get("annotations") or {})
        ]
        if policy == "none":
            assert marked == []
            assert results.warnings.count == len(wanted)
        else:
            assert sorted(marked) == sorted(names)
            assert results.warnings.count == 0
    finally:
        for item in wanted:
            resource = discovery.for_kind(item["apiVersion"], item["kind"])
            assert resource is not None
            await second_client.delete(resource, item["metadata"]["name"], item["metadata"].get("namespace"))

        async def are_gone() -> bool:
            return not set(names[4:]) & {
                item["metadata"]["name"] for item in await everything(second_client, discovery)
            }

        await eventually(are_gone)


@pytest.mark.found("R3")
@pytest.mark.parametrize("policy", POLICIES)
async def test_the_rules_of_an_aggregated_role_are_the_controllers(
    second_client: KubeClient, restore: RealRestore, policy: str
) -> None:
    """The cluster has not all roles yet that the backup's rules came from."""
    part = {"matchLabels": {f"shop.example/{policy}": "yes"}}
    role = own(
        "ClusterRole", f"shop-{policy}", RBAC, aggregationRule={"clusterRoleSelectors": [part]}, rules=[]
    )
    await second_client.create(CLUSTER_ROLES, role)
    old_rules = [{"apiGroups": ["shop.example"], "resources": ["things"], "verbs": ["get"]}]
    backed_up = {**role, "rules": old_rules}

    results = await restore(backed_up, existing_resource_policy=policy)

    assert (results.errors.count, results.warnings.count) == (0, 0)
    assert restore.outcomes.resource_list() == {f"{RBAC}/ClusterRole": [f"shop-{policy}(skipped)"]}
    found = await second_client.get(CLUSTER_ROLES, f"shop-{policy}")
    assert not found.get("rules")
    other_part = {"matchLabels": {"shop.example/other": "yes"}}
    changed = {**backed_up, "aggregationRule": {"clusterRoleSelectors": [other_part]}}

    results = await restore(changed, existing_resource_policy=policy)

    found = await second_client.get(CLUSTER_ROLES, f"shop-{policy}")
    assert not found.get("rules")
    (selector,) = found["aggregationRule"]["clusterRoleSelectors"]
    assert selector == (part if policy == "none" else other_part)
    assert results.warnings.count == (1 if policy == "none" else 0)
