"""Restoring the example application onto itself: unchanged objects are no conflict."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from examples.application import application
from examples.stage import Stage
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, APIStatusError
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SERVICES, APIResource
from tests.support.runs.real_restores import RealRestore
from tests.support.waiting import eventually

RESOURCE_QUOTAS = APIResource(
    group="", version="v1", name="resourcequotas", kind="ResourceQuota", namespaced=True
)
NAMESPACES_OF_SHOP = ("shop", "shop-data", "shop-ops")


def service(name: str, **spec: Any) -> JSONObject:
    ports = spec.pop("ports", [{"name": "a", "port": 80}, {"name": "b", "port": 81}])
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name},
        "spec": {"ports": ports, **spec},
    }


SERVICES_OF_ALL_SORTS = [
    service("cluster-ip"),
    service("headless", clusterIP="None"),
    service("node-port", type="NodePort", externalTrafficPolicy="Local"),
    service("load-balancer", type="LoadBalancer", externalTrafficPolicy="Local"),
    service("external-name", type="ExternalName", externalName="x.example.org"),
    service("prefer-dual-stack", ipFamilyPolicy="PreferDualStack"),
    service("client-ip", sessionAffinity="ClientIP"),
]


async def deploy(client: KubeClient, objects: list[JSONObject]) -> list[JSONObject]:
    """Create what can be created in an API without nodes; return what was made, as a backup would hold it."""
    for item in objects:
        discovery = await Discovery.load(client)
        resource = discovery.for_kind(item["apiVersion"], item["kind"])
        assert resource is not None, item["kind"]
        with contextlib.suppress(AlreadyExists):
            await client.create(resource, item, item["metadata"].get("namespace"))
        if item["kind"] == "CustomResourceDefinition":
            await established(client, item)
    return await taken(client, objects)


async def established(client: KubeClient, definition: JSONObject) -> None:
    kind = definition["spec"]["names"]["kind"]
    versions = [each["name"] for each in definition["spec"]["versions"]]

    async def served() -> bool:
        found = await Discovery.load(client)
        return all(found.for_kind(f"{definition['spec']['group']}/{each}", kind) for each in versions)

    await eventually(served)


async def taken(client: KubeClient, objects: list[JSONObject]) -> list[JSONObject]:
    """The same objects as the cluster has them now, and other objects in their namespaces."""
    discovery = await Discovery.load(client)
    wanted = {
        (item["apiVersion"].partition("/")[0], item["kind"], item["metadata"]["name"]) for item in objects
    }
    found = []
    for resource in discovery.resources:
        if resource.group_resource in ("events", "events.events.k8s.io", "namespaces"):
            continue
        with contextlib.suppress(APIStatusError):
            for item in await client.list_all(resource):
                metadata = item["metadata"]
                key = (resource.api_version.partition("/")[0], resource.kind, metadata["name"])
                if metadata.get("namespace") in NAMESPACES_OF_SHOP or key in wanted:
                    found.append({"apiVersion": resource.api_version, "kind": resource.kind, **item})
    return found


@pytest.fixture
async def shop(client: KubeClient) -> AsyncIterator[list[JSONObject]]:
    """The example application as the cluster has it; gone afterwards."""
    stage = Stage(client, application())
    await stage.destroy()  # another test's namespaces of these names may still be going
    yield await deploy(client, application())
    await stage.destroy()


@pytest.mark.spec("RST-046")
async def test_the_untouched_example_application_makes_no_difference_and_a_change_is_found(
    client: KubeClient, restore: RealRestore, shop: list[JSONObject]
) -> None:
    backup = shop
    kinds = {item["kind"] for item in backup}
    assert len(kinds) >= 30

    results = await restore(*backup)

    assert results.to_dict() == {"errors": {}, "warnings": {}}

    await client.patch(SERVICES, "storefront", {"spec": {"selector": {"changed": "yes"}}}, "shop")
    results = await restore(*backup)
    await client.patch(SERVICES, "storefront", {"spec": {"selector": {"changed": None}}}, "shop")

    assert results.errors.count == 0
    assert [text for _, text in results.warnings.notices()] == [
        'could not restore, services "storefront" already exists. Warning: the in-cluster version is '
        "different than the backed-up version."
    ]


async def test_a_second_restore_of_bare_manifests_makes_no_difference(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    """The server's defaults, its addresses and ports are no conflicts; the second run changes nothing."""
    bare = [_named(item, namespace) for item in SERVICES_OF_ALL_SORTS]
    bare += [_named(item, namespace) for item in _workloads()]
    assert (await restore(*bare)).to_dict() == {"errors": {}, "warnings": {}}
    before = await _versions(client, namespace)

    results = await restore(*bare)

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    assert await _versions(client, namespace) == before


async def test_a_copy_of_a_service_gets_its_own_ports_unless_they_were_requested(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    """A copy with the health check port that the cluster gave to the original would be refused."""
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local"}
    original = await client.create(SERVICES, service("local", **local), namespace)
    probe = await client.create(SERVICES, service("wish", type="NodePort"), namespace)
    ports = [{**port, "targetPort": port["port"]} for port in probe["spec"]["ports"]]
    await client.delete(SERVICES, "wish", namespace)
    wish = await client.create(SERVICES, service("wish", type="NodePort", ports=ports), namespace)
    await client.delete(SERVICES, "wish", namespace)
    backup = [{**item, "apiVersion": "v1", "kind": "Service"} for item in (original, wish)]

    assert (await restore(*backup[1:])).empty
    results = await restore(backup[0], namespace_mapping={namespace: f"{namespace}-copy"})

    assert results.to_dict() == {"errors": {}, "warnings": {}}
    restored = await client.get(SERVICES, "wish", namespace)
    copy = await client.get(SERVICES, "local", f"{namespace}-copy")
    await client.delete(NAMESPACES, f"{namespace}-copy")
    wanted = [port["nodePort"] for port in ports]
    assert [port["nodePort"] for port in restored["spec"]["ports"]] == wanted
    port = "healthCheckNodePort"
    assert copy["spec"][port] not in (0, original["spec"][port])


async def test_a_rerun_against_a_full_quota_fails_only_for_what_is_missing(
    client: KubeClient, restore: RealRestore, namespace: str
) -> None:
    items = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": name}}
        for name in ("same", "changed")
    ]
    items = [_named(item, namespace) for item in items]
    assert (await restore(*items)).empty
    quota = {"spec": {"hard": {"count/configmaps": "1"}}, "apiVersion": "v1", "kind": "ResourceQuota"}
    await client.create(RESOURCE_QUOTAS, {**quota, "metadata": {"name": "full"}}, namespace)

    async def counted() -> bool:
        found = await client.get(RESOURCE_QUOTAS, "full", namespace)
        return "count/configmaps" in ((found.get("status") or {}).get("used") or {})

    await eventually(counted)
    await client.patch(CONFIGMAPS, "changed", {"data": {"a": "theirs"}}, namespace)
    missing = _named(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "missing"}, "data": {}}, namespace
    )

    results = await restore(*items, missing)

    [changed], [absent] = results.warnings.namespaces[namespace], results.errors.namespaces[namespace]
    assert "exceeded quota" in changed
    assert "the in-cluster version is different than the backed-up version" in changed
    assert absent.startswith(f"error restoring configmaps/{namespace}/missing: ")
    assert "exceeded quota" in absent


def _named(item: JSONObject, namespace: str) -> JSONObject:
    return {**item, "metadata": {**item["metadata"], "namespace": namespace}}


def _workloads() -> list[JSONObject]:
    """Manifests as a user would write them, without anything that the server fills in.

    No pod: the server refuses any change of a pod's containers, so that it cannot say what a default is.
    """
    pod = {"containers": [{"name": "c", "image": "example.com/c:1", "ports": [{"containerPort": 80}]}]}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": pod}
    workload = {"selector": {"matchLabels": {"app": "x"}}, "template": template}
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    job = {"template": {"spec": {**pod, "restartPolicy": "Never"}}}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    rule = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": {"service": _PORT}}]}}
    specs: list[tuple[str, str, JSONObject]] = [
        ("apps/v1", "Deployment", {**workload, "replicas": 0}),
        ("apps/v1", "StatefulSet", {**workload, "replicas": 0, "serviceName": "x"}),
        ("apps/v1", "DaemonSet", workload),
        ("batch/v1", "Job", {**job, "suspend": True}),
        ("batch/v1", "CronJob", {"schedule": "@daily", "jobTemplate": {"spec": job}}),
        ("autoscaling/v2", "HorizontalPodAutoscaler", {"maxReplicas": 2, "scaleTargetRef": scaled}),
        ("policy/v1", "PodDisruptionBudget", {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}),
        ("networking.k8s.io/v1", "NetworkPolicy", {"podSelector": {}, "ingress": [{}]}),
        ("networking.k8s.io/v1", "Ingress", {"rules": [rule]}),
        ("v1", "PersistentVolumeClaim", claim),
        ("v1", "LimitRange", {"limits": [{"type": "Container", "max": {"cpu": "1000m"}}]}),
    ]
    return [
        {"apiVersion": api_version, "kind": kind, "metadata": {"name": "bare"}, "spec": spec}
        for api_version, kind, spec in specs
    ]


_PORT = {"name": "cluster-ip", "port": {"number": 80}}


async def _versions(client: KubeClient, namespace: str) -> dict[tuple[str, str], str]:
    """The resourceVersions of the objects that no controller writes."""
    found = {}
    for resource in (SERVICES, CONFIGMAPS):
        for item in await client.list_all(resource, namespace):
            found[resource.name, item["metadata"]["name"]] = item["metadata"]["resourceVersion"]
    return found
