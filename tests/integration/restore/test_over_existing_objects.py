"""Restores over a cluster that has changed, and strategic patches. (docs/spec: BEY 5.1-5.3)"""

import json
import shlex
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import RestoreStatusSpec
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules
from pinnace.restore.modifiers.strategic import MERGE_KEYS, merged
from tests.support.runs.real_restores import RealRestore
from tests.support.waiting import eventually

STRATEGIC = "application/strategic-merge-patch+json"


def obj(kind: str, name: str, namespace: str, *, api_version: str = "v1", **fields: Any) -> JSONObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace},
        **fields,
    }


def deployment(name: str, namespace: str, *, image: str = "app:1", app: str = "x") -> JSONObject:
    labels = {"app": app}
    containers = [
        {
            "name": "web",
            "image": image,
            "env": [{"name": "A", "value": "1"}],
            "ports": [{"containerPort": 80}],
        },
        {"name": "side", "image": "side:1"},
    ]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return obj("Deployment", name, namespace, api_version="apps/v1", spec=spec)


async def test_a_restore_over_a_changed_namespace_brings_back_the_backup(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    """Patched where that is possible, recreated where a field is immutable, and a claim is never deleted."""
    immutable = obj("ConfigMap", "frozen", namespace, data={"a": "backup"}, immutable=True)
    backup = [
        obj("ConfigMap", "same", namespace, data={"a": "backup"}),
        obj("ConfigMap", "changed", namespace, data={"a": "backup"}),
        obj("ConfigMap", "missing", namespace, data={"a": "backup"}),
        immutable,
        deployment("patched", namespace),
        deployment("selector", namespace),
        claim("claim", namespace, "1Gi"),
        obj("Service", "svc", namespace, spec={"ports": [{"port": 80}], "selector": {"app": "x"}}),
    ]
    in_cluster = [
        backup[0],
        obj("ConfigMap", "changed", namespace, data={"a": "theirs", "b": "more"}),
        immutable | {"data": {"a": "theirs"}},
        deployment("patched", namespace, image="app:2"),
        deployment("selector", namespace, app="y"),
        claim("claim", namespace, "2Gi"),
        obj("Service", "svc", namespace, spec={"ports": [{"port": 81}], "selector": {"app": "y"}}),
    ]
    discovery = await Discovery.load(client)
    uids = {}
    for item in in_cluster:
        resource = discovery.for_kind(item["apiVersion"], item["kind"])
        assert resource is not None
        made = await client.create(resource, item, namespace)
        uids[item["metadata"]["name"]] = made["metadata"]["uid"]

    results = await restore(*backup, existing_resource_policy="recreate")

    assert results.errors.count == 0
    (warning,) = results.warnings.namespaces[namespace]
    assert f"persistentvolumeclaims/{namespace}/claim" in warning
    assert "as that would delete the data of its volume" in warning
    found = {}
    for item in backup:
        resource = discovery.for_kind(item["apiVersion"], item["kind"])
        assert resource is not None
        found[item["metadata"]["name"]] = await client.get(resource, item["metadata"]["name"], namespace)
    for name in ("same", "changed", "missing", "frozen"):
        assert found[name]["data"] == {"a": "backup"}
    for name in ("patched", "selector"):
        assert found[name]["spec"]["template"]["spec"]["containers"][0]["image"] == "app:1"
        assert found[name]["spec"]["selector"] == {"matchLabels": {"app": "x"}}
    assert [port["port"] for port in found["svc"]["spec"]["ports"]] == [80]
    assert found["claim"]["spec"]["resources"]["requests"] == {"storage": "2Gi"}
    kept = {name for name, uid in uids.items() if found[name]["metadata"]["uid"] == uid}
    assert kept == {"same", "changed", "patched", "claim", "svc"}
    labelled = {name for name, item in found.items() if _restored_by(item) == restore.name}
    assert labelled == set(found)
    outcomes = restore.outcomes.resource_list()
    assert outcomes["v1/ConfigMap"] == [
        f"{namespace}/changed(updated)",
        f"{namespace}/frozen(updated)",
        f"{namespace}/missing(created)",
        f"{namespace}/same(skipped)",
    ]
    # The second time nothing is left to do.
    versions = {name: item["metadata"]["resourceVersion"] for name, item in found.items()}
    again = await restore(*backup, existing_resource_policy="recreate")
    assert again.warnings.count == 1
    assert "updated" not in str(
        {k: v for k, v in restore.outcomes.resource_list().items() if "Claim" not in k}
    )
    config_maps = discovery.for_kind("v1", "ConfigMap")
    assert config_maps is not None
    changed = await client.get(config_maps, "changed", namespace)
    assert changed["metadata"]["resourceVersion"] == versions["changed"]


def claim(name: str, namespace: str, size: str) -> JSONObject:
    spec: JSONObject = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return obj(
        "PersistentVolumeClaim", name, namespace, spec=spec | {"storageClassName": f"class-{size.lower()}"}
    )


def _restored_by(item: JSONObject) -> str:
    found: str = item["metadata"]["labels"]["velero.io/restore-name"]
    return found


async def test_a_status_comes_back_through_the_sub_resource(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    job = obj("CronJob", "job", namespace, api_version="batch/v1", spec={
        "schedule": "0 0 1 1 *", "suspend": True,
        "jobTemplate": {"spec": {"template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}},
    }, status={"lastSuccessfulTime": "2020-01-01T00:00:00Z"})  # fmt: skip

    results = await restore(job, restore_status=RestoreStatusSpec(included_resources=["cronjobs"]))

    assert results.empty
    discovery = await Discovery.load(client)
    resource = discovery.for_kind("batch/v1", "CronJob")
    assert resource is not None
    stored = await client.get(resource, "job", namespace)
    assert stored["status"]["lastSuccessfulTime"] == "2020-01-01T00:00:00Z"


async def test_modifiers_change_objects_that_are_as_in_the_backup(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    """`update` is how objects that exist are modified; Velero 1.18.0 does so too."""
    rules = """
version: v1
resourceModifierRules:
- conditions: {groupResource: deployments.apps}
  patches: [{operation: replace, path: /spec/template/spec/containers/0/image, value: "app:2"}]
"""
    resource = (await Discovery.load(client)).for_kind("apps/v1", "Deployment")
    assert resource is not None
    stored = await client.create(resource, deployment("web", namespace), namespace)
    modifiers = ResourceModifiers(read_rules({"data": {"rules": rules}}))

    warned = await restore(stored, modifiers=modifiers)
    updated = await restore(stored, modifiers=modifiers, existing_resource_policy="update")

    assert "the in-cluster version is different" in str(warned.warnings.namespaces[namespace])
    assert updated.empty
    found = await client.get(resource, "web", namespace)
    assert [each["image"] for each in found["spec"]["template"]["spec"]["containers"]] == ["app:2", "side:1"]


@pytest.mark.found("O10a", "O10b")
async def test_a_cluster_role_binding_gets_the_mapped_subjects_beside_the_original_ones(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    rbac, new = "rbac.authorization.k8s.io", f"{namespace}-copy"

    def subjects(of: str) -> list[JSONObject]:
        return [
            {"kind": "ServiceAccount", "name": "sa", "namespace": of},
            {"kind": "Group", "apiGroup": rbac, "name": f"system:serviceaccounts:{of}"},
            {"kind": "User", "apiGroup": rbac, "name": f"system:serviceaccount:{of}:sa"},
        ]

    binding: JSONObject = {
        "apiVersion": f"{rbac}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": f"of-{namespace}"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "view"},
        "subjects": subjects(namespace),
    }
    inside = obj("ConfigMap", "settings", namespace)
    stored = await client.create(CLUSTER_ROLE_BINDINGS, binding)
    try:
        assert (await restore(stored, inside)).empty
        for policy in ("none", "update", "recreate"):
            copied = await restore(
                stored, inside, namespace_mapping={namespace: new}, existing_resource_policy=policy
            )
            assert copied.to_dict() == {"errors": {}, "warnings": {}}
            found = await client.get(CLUSTER_ROLE_BINDINGS, f"of-{namespace}")
            assert found["subjects"] == [*subjects(namespace), *subjects(new)]
    finally:
        await client.delete(CLUSTER_ROLE_BINDINGS, f"of-{namespace}")
        await client.delete(NAMESPACES, new)


def of_pod(**spec: Any) -> JSONObject:
    return {"spec": {"template": {"spec": spec}}}


WEB = {
    "name": "web",
    "env": [{"name": "B", "value": "2"}, {"name": "A", "value": None}],
    "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}],
}
PATCHES: dict[str, JSONObject] = {
    "image": of_pod(containers=[{"name": "web", "image": "new"}]),
    "new-container": of_pod(containers=[{"name": "more", "image": "m"}]),
    "delete-container": of_pod(containers=[{"name": "side", "$patch": "delete"}]),
    "replace-containers": of_pod(containers=[{"$patch": "replace"}, {"name": "only", "image": "o"}]),
    "env-and-ports": of_pod(containers=[WEB]),
    "order": of_pod(**{"$setElementOrder/containers": [{"name": "side"}, {"name": "web"}]}),
    "volumes": of_pod(
        volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "k", "operator": "Exists"}]
    ),
    "strategy": {"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}},
    "metadata": {"metadata": {"labels": {"a": "b", "app": None}, "annotations": {"x": "y"}}},
}


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
async def test_strategic_patches_are_those_of_the_api_server(
    client: KubeClient, namespace: str, patch: JSONObject
) -> None:
    """The server patches one object; our result, created as another one, is stored the same."""
    discovery = await Discovery.load(client)
    resource = discovery.for_kind("apps/v1", "Deployment")
    assert resource is not None
    stored = await client.create(resource, deployment("theirs", namespace), namespace)
    theirs = await client.patch(resource, "theirs", patch, namespace, content_type=STRATEGIC)
    before = {**stored, "metadata": {"name": "ours", "labels": stored["metadata"].get("labels") or {}}}
    del before["status"]

    ours = await client.create(resource, merged(before, patch), namespace)

    assert ours["spec"] == theirs["spec"]
    assert ours["metadata"].get("labels") == theirs["metadata"].get("labels")


async def test_the_merge_keys_are_those_that_the_api_server_publishes(client: KubeClient) -> None:
    import orjson

    definitions = orjson.loads(await client.request("GET", "/openapi/v2"))["definitions"]
    published = {
        (field, schema["x-kubernetes-patch-merge-key"])
        for name, definition in definitions.items()
        if "Status" not in name
        for field, schema in definition.get("properties", {}).items()
        if "x-kubernetes-patch-merge-key" in schema
    }
    by_parent = {("ports", "containerPort"), ("ports", "port"), ("imagePullSecrets", "name")}
    assert published == set(MERGE_KEYS.items()) | by_parent


def lost_volume(name: str, policy: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": policy,
            "storageClassName": "static",
            "nfs": {"server": "192.0.2.1", "path": f"/{name}"},
        },
    }


def claim_of(volume: str, namespace: str) -> JSONObject:
    spec = {
        "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "static",
        "volumeName": volume,
    }
    return obj("PersistentVolumeClaim", "data", namespace, spec=spec)


@pytest.mark.found("O22b")
@pytest.mark.parametrize("reclaim", ["Retain", "Recycle"])
@pytest.mark.parametrize("policy", ["none", "update"])
async def test_a_claim_gets_back_the_volume_that_its_deletion_has_released(
    client: KubeClient, restore: RealRestore, namespace: str, policy: str, reclaim: str
) -> None:
    """By the command in the warning, or by the policy; a second restore leaves the live claim alone."""
    name = f"{namespace}-{reclaim.lower()}-{policy}"
    await client.create(PERSISTENT_VOLUMES, lost_volume(name, reclaim))
    await client.create(PERSISTENT_VOLUME_CLAIMS, claim_of(name, namespace), namespace)

    async def phase() -> str:
        found: str = (await client.get(PERSISTENT_VOLUMES, name)).get("status", {}).get("phase", "")
        return found

    async def is_bound() -> bool:
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        return claim.get("status", {}).get("phase") == "Bound" and await phase() == "Bound"

    async def is_lost() -> bool:
        return await phase() in ("Released", "Failed")

    await eventually(is_bound)
    backup = [
        await client.get(PERSISTENT_VOLUMES, name),
        await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace),
    ]
    await client.patch(PERSISTENT_VOLUME_CLAIMS, "data", {"metadata": {"finalizers": None}}, namespace)
    await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
    await eventually(is_lost)

    results = await restore(*backup, existing_resource_policy=policy)

    assert results.errors.count == 0
    if policy == "none":
        [warning] = results.warnings.cluster
        command = shlex.split(warning.partition("until it is freed: ")[2])
        assert command[:4] == ["kubectl", "patch", "persistentvolume", name]
        await client.patch(PERSISTENT_VOLUMES, name, json.loads(command[-1]))
    else:
        assert results.warnings.count == 0
        assert restore.outcomes.resource_list()["v1/PersistentVolume"] == [f"{name}(updated)"]
    await eventually(is_bound)
    before = await client.get(PERSISTENT_VOLUMES, name)
    again = await restore(*backup, existing_resource_policy=policy)
    assert again.errors.count == again.warnings.count == 0
    after = await client.get(PERSISTENT_VOLUMES, name)
    assert after["spec"]["claimRef"] == before["spec"]["claimRef"]
    assert await is_bound()
