"""What a restore is asked for is done, or said, by a real API server. (docs/spec: BEY 5.2-5.4)"""

import secrets
from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.api.velero.restore import RestoreStatusSpec
from pinnace.installing.apply import APPLY
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import (
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    SERVICES,
    APIResource,
)
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import read_rules
from tests.support.cluster.namespaces import erase_namespace
from tests.support.runs.real_restores import RealRestore


def obj(kind: str, name: str, namespace: str = "", *, api_version: str = "v1", **fields: Any) -> JSONObject:
    metadata: JSONObject = {"name": name} | ({"namespace": namespace} if namespace else {})
    metadata |= {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


@pytest.fixture
async def copy(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """The name of a namespace that does not exist yet."""
    name = f"copy-{secrets.token_hex(4)}"
    yield name
    await erase_namespace(control_plane, client, name)


# --- The owners of fields -------------------------------------------------------------------------------


class Deployer:
    """A program that applies its objects on the server's side."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    async def apply(self, resource: APIResource, item: JSONObject) -> JSONObject:
        """Apply an object; a conflict with another manager is an error."""
        namespace = item["metadata"].get("namespace")
        path = resource.path(namespace, item["metadata"]["name"])
        answer = await self._client.request(
            "PATCH",
            f"{path}?fieldManager=deployer&force=false",
            body=orjson.dumps(item),
            content_type=APPLY,
        )
        applied: JSONObject = orjson.loads(answer)
        return applied


def manifests(namespace: str, *, later: bool) -> list[tuple[APIResource, JSONObject]]:
    """A namespace, a ConfigMap and a Deployment as a repository has them, and as it has them later."""
    env = [{"name": "A", "value": "1"}] + ([] if later else [{"name": "B", "value": "1"}])
    container = {"name": "web", "image": f"registry.example/web:{2 if later else 1}", "env": env}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    of_namespace = {"team": "a"} if later else {"team": "a", "drop": "1"}
    of_conf = {"a": "1", "c": "1"} if later else {"a": "1", "b": "1"}
    data = {"x": "2"} if later else {"x": "1", "y": "1"}
    return [
        (NAMESPACES, obj("Namespace", namespace, labels=of_namespace)),
        (CONFIGMAPS, obj("ConfigMap", "conf", namespace, labels=of_conf, data=data)),
        (DEPLOYMENTS, obj("Deployment", "web", namespace, api_version="apps/v1", spec=spec)),
    ]


def owners(item: JSONObject) -> set[tuple[str, str, str]]:
    return {
        (entry["manager"], entry["operation"], orjson.dumps(entry["fieldsV1"]).decode())
        for entry in item["metadata"]["managedFields"]
        if entry.get("subresource") != "status"
    }


@pytest.mark.found("O13")
async def test_who_applied_the_objects_goes_on_without_a_conflict_and_removes_what_is_no_longer_wanted(
    client: KubeClient, restore: RealRestore, namespace: str, copy: str
) -> None:
    deployer = Deployer(client)
    backup = [await deployer.apply(*each) for each in manifests(namespace, later=False)]
    plain = await client.create(
        CONFIGMAPS, obj("ConfigMap", "plain", namespace, data={"a": "1"}), namespace, field_manager="helm"
    )

    results = await restore(*backup, plain, namespace_mapping={namespace: copy})

    assert results.empty
    restored = [
        await client.get(kind, item["metadata"]["name"], copy) for kind, item in manifests(copy, later=False)
    ]
    assert [owners(item) for item in restored] == [owners(item) for item in backup]
    created = await client.get(CONFIGMAPS, "plain", copy)
    assert {manager for manager, _, _ in owners(created)} == {"helm"}

    later = [await deployer.apply(*each) for each in manifests(copy, later=True)]
    of_restore = {"velero.io/backup-name", "velero.io/restore-name"}
    labels = [set(item["metadata"].get("labels", ())) for item in later]
    assert labels == [{"team", "kubernetes.io/metadata.name"}, {"a", "c", *of_restore}, of_restore]
    assert later[1]["data"] == {"x": "2"}
    (container,) = later[2]["spec"]["template"]["spec"]["containers"]
    assert (container["image"], container["env"]) == ("registry.example/web:2", [{"name": "A", "value": "1"}])


# --- Statuses -------------------------------------------------------------------------------------------


def definition(group: str, plural: str, kind: str, *versions: JSONObject) -> JSONObject:
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": list(versions)}
    name = f"{plural}.{group}"
    return obj("CustomResourceDefinition", name, api_version="apiextensions.k8s.io/v1", spec=spec)


def version(
    name: str, schema: JSONObject | None = None, *, is_stored: bool = True, **fields: Any
) -> JSONObject:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": schema or anything},
        **fields,
    }


REQUIRED = {
    "type": "object",
    "required": ["spec", "status"],
    "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "status": {"type": "object", "properties": {"state": {"type": "string"}}},
    },
}


RULED: JSONObject = {
    **{key: value for key, value in REQUIRED.items() if key != "required"},
    "x-kubernetes-validations": [{"rule": "has(self.status)", "message": "it is in no state"}],
}


@pytest.mark.found("O14a", "O14b", "O30")
async def test_a_status_comes_back_whether_or_not_it_is_a_sub_resource(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    group = f"{secrets.token_hex(3)}.example"
    definitions = [
        definition(group, "plains", "Plain", version("v1")),
        definition(
            group,
            "stations",
            "Station",
            version("v1alpha1", is_stored=False),
            version("v1", subresources={"status": {}}),
        ),
        definition(group, "orders", "Order", version("v1", REQUIRED)),
        definition(group, "rules", "Rule", version("v1", RULED)),
    ]

    def of_group(kind: str, name: str, **fields: Any) -> JSONObject:
        return obj(kind, name, namespace, api_version=f"{group}/v1", spec={"x": 1}, **fields)

    kept = {"message": "kept"}
    asked = {"velero.io/restore-status": "true"}
    items = [
        of_group("Plain", "a", status=kept),
        of_group("Station", "b", status=kept),
        of_group("Order", "one", status={"state": "valid"}),
        of_group("Order", "two", status={"state": "valid"}),
        of_group("Rule", "three", status={"state": "valid"}),
    ]
    unasked = of_group("Plain", "unasked", status=kept)
    by_note = of_group("Plain", "asked", status=kept, annotations=asked)
    wanted = RestoreStatusSpec(included_resources=["plains", "stations"])
    resources = {
        kind: APIResource(group=group, version="v1", name=f"{kind.lower()}s", kind=kind, namespaced=True)
        for kind in ("Plain", "Station", "Order", "Rule")
    }

    async def status(kind: str, name: str) -> object:
        return (await client.get(resources[kind], name, namespace)).get("status")

    try:
        assert (await restore(*definitions, unasked, by_note)).empty
        assert (await status("Plain", "unasked"), await status("Plain", "asked")) == (None, kept)

        for _ in range(2):
            assert (await restore(*items, restore_status=wanted)).empty
        assert await status("Plain", "a") == await status("Station", "b") == kept
        assert await status("Order", "one") == await status("Rule", "three") == {"state": "valid"}

        for kind, name, sub in (("Plain", "a", None), ("Station", "b", "status")):
            changed = {"status": {"message": "changed"}}
            await client.patch(resources[kind], name, changed, namespace, subresource=sub)
        left = await restore(*items, restore_status=wanted)
        assert left.errors.count == 0
        assert left.warnings.count == 2
        assert "b: it exists with another status" in str(left.warnings.namespaces[namespace])
        assert (await restore(*items, restore_status=wanted, existing_resource_policy="update")).empty
        assert await status("Plain", "a") == await status("Station", "b") == kept
    finally:
        for each in definitions:
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, each["metadata"]["name"])


# --- Services -------------------------------------------------------------------------------------------


def service(name: str, namespace: str, **spec: Any) -> JSONObject:
    spec = {"selector": {"app": name}, "ports": [{"name": "http", "port": 80}], **spec}
    return obj("Service", name, namespace, spec=spec)


@pytest.mark.found("O16", "O16b")
async def test_what_a_cluster_cannot_give_a_service_is_left_out_or_said_with_what_to_do(
    client: KubeClient, restore: RealRestore, namespace: str, copy: str
) -> None:
    first = (await client.get(SERVICES, "kubernetes", "default"))["spec"]["clusterIP"]
    chosen = f"{first.rpartition('.')[0]}.53"
    taken = [{"name": "http", "port": 80}, {"name": "fixed", "port": 81, "nodePort": 31999}]
    balanced = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    dual = {"ipFamilies": ["IPv4", "IPv6"]}
    backup = [
        await client.create(SERVICES, each, namespace)
        for each in (
            service("ports", namespace, type="NodePort", ports=taken),
            service("health", namespace, **balanced, healthCheckNodePort=31998),
            service("dns", namespace, clusterIP=chosen),
            service("plain", namespace),
        )
    ]
    backup += [
        service("prefers", namespace, ipFamilyPolicy="PreferDualStack", **dual),
        service("requires", namespace, ipFamilyPolicy="RequireDualStack", **dual),
        service("six", namespace, ipFamilyPolicy="SingleStack", ipFamilies=["IPv6"]),
        service("only-six", namespace, ipFamilyPolicy="PreferDualStack", ipFamilies=["IPv6"]),
    ]

    results = await restore(*backup, namespace_mapping={namespace: copy})

    (warning,) = results.warnings.namespaces[copy]
    assert f"services/{copy}/dns: its manifest asks for the cluster IP {chosen}, and it has" in warning
    said = {error.split(":")[0].rpartition("/")[2]: error for error in results.errors.namespaces[copy]}
    hint = "; a resource modifier for services that"
    assert said.keys() == {"ports", "health", "requires", "six"}
    assert f"{hint} removes /spec/ports/1/nodePort lets the cluster choose another port" in said["ports"]
    assert f"{hint} removes /spec/healthCheckNodePort lets" in said["health"]
    assert f"{hint} replaces /spec/ipFamilyPolicy by PreferDualStack" in said["requires"]
    assert f"{hint} removes /spec/ipFamilies lets" in said["six"]
    for name in ("prefers", "only-six"):
        made = await client.get(SERVICES, name, copy)
        assert made["spec"]["ipFamilies"] == ["IPv4"]


# --- Resource modifiers ---------------------------------------------------------------------------------


@pytest.mark.found("O06", "O33")
async def test_rules_change_namespaces_and_those_without_an_effect_are_named_in_the_dry_run_too(
    client: KubeClient, restore: RealRestore, namespace: str, copy: str
) -> None:
    patch = orjson.dumps({"metadata": {"annotations": {"project": "new"}, "labels": {"project": None}}})
    conditions = [
        {"groupResource": "namespaces", "resourceNameRegex": f"^{namespace}$"},
        {"groupResource": "ConfigMap"},
    ]
    rules = {
        "version": "v1",
        "resourceModifierRules": [
            {"conditions": each, "mergePatches": [{"patchData": patch.decode()}]} for each in conditions
        ],
    }
    modifiers = ResourceModifiers(read_rules({"data": {"rules": orjson.dumps(rules).decode()}}))
    old: dict[str, Any] = {"labels": {"project": "old"}, "annotations": {"project": "old"}}
    items = [obj("Namespace", namespace, **old), obj("ConfigMap", "a", namespace)]
    mapping = {namespace: copy}

    for is_dry_run in (True, False):
        results = await restore(*items, modifiers=modifiers, is_dry_run=is_dry_run, namespace_mapping=mapping)
        (warning,) = [message for _, message in results.warnings.notices()]
        assert warning.startswith("resource modifier rule 2 changed nothing: the backup has no objects")
        assert warning.endswith("did you mean configmaps?")
        assert results.errors.count == 0

    found = (await client.get(NAMESPACES, copy))["metadata"]
    assert found["annotations"] == {"project": "new"}
    assert "project" not in found["labels"]
