"""`backup verify --restore` without a server: reports what starts, and removes everything."""

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import (
    CONFIGMAPS,
    NAMESPACES,
    NETWORK_POLICIES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SERVICES,
)
from tests.e2e.without_server.command import Pinnace
from tests.support.waiting import POLL_SECONDS, eventually

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def pod(name: str, **spec: Any) -> JSONObject:
    containers = [{"name": "c", "image": "registry.example.com/none"}]
    spec = {"automountServiceAccountToken": False, "containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


async def scratch(client: KubeClient, backup: str) -> list[str]:
    selector = f"{labels.VERIFICATION}={backup}"
    found = await client.list_all(NAMESPACES, label_selector=selector)
    return [each["metadata"]["name"] for each in found]


class Node:
    """Simulates the nodes: makes pods ready unless they are named `slow`, and records the objects it sees."""

    def __init__(self, client: KubeClient, backup: str) -> None:
        self._client = client
        self._backup = backup
        self.seen: dict[str, JSONObject] = {}

    @contextlib.asynccontextmanager
    async def working(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(self._work())
            yield
            task.cancel()

    async def _work(self) -> None:
        while True:
            with contextlib.suppress(KubeError):  # the namespace goes
                for namespace in await scratch(self._client, self._backup):
                    await self._look(namespace)
            await asyncio.sleep(POLL_SECONDS)

    async def _look(self, namespace: str) -> None:
        for resource in (SERVICES, PERSISTENT_VOLUME_CLAIMS, CONFIGMAPS, NETWORK_POLICIES, PODS):
            for obj in await self._client.list_all(resource, namespace):
                self.seen[f"{resource.name}/{obj['metadata']['name']}"] = obj
        for obj in await self._client.list_all(PODS, namespace):
            if not obj["metadata"]["name"].startswith("slow"):
                name = obj["metadata"]["name"]
                await self._client.patch(PODS, name, {"status": READY}, namespace, subresource="status")


async def make_fixed_port(client: KubeClient, namespace: str) -> None:
    """Make a Service with a node port that its author has chosen, one that was free."""
    port: JSONObject = {"port": 80}
    body: JSONObject = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "fixed",
            "annotations": {"external-dns.alpha.kubernetes.io/hostname": "x.example"},
        },
        "spec": {"type": "NodePort", "ports": [port], "selector": {"app": "web"}},
    }
    free = await client.create(SERVICES, body, namespace)
    await client.delete(SERVICES, "fixed", namespace)
    port["nodePort"] = free["spec"]["ports"][0]["nodePort"]
    await client.create(SERVICES, body, namespace)


@pytest.fixture
async def shop(client: KubeClient, world: str) -> str:
    """The world with pods, a load balancer and a bound claim."""
    await client.create(PODS, pod("web"), world)
    balancer = {
        "metadata": {"name": "web"},
        "spec": {
            "type": "LoadBalancer",
            "externalIPs": ["192.0.2.7"],
            "ports": [{"port": 80}],
            "selector": {"app": "web"},
        },
    }
    await client.create(SERVICES, {"apiVersion": "v1", "kind": "Service", **balancer}, world)
    await make_fixed_port(client, world)
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": f"{world}-data",
        },
    }
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim}
    await client.create(PERSISTENT_VOLUME_CLAIMS, body, world)
    return world


async def verified(pinnace: Pinnace, backup: str, *flags: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    done = await pinnace("backup", "verify", backup, "--restore", *flags, "-o", "json")
    assert done.out, done.told
    (found,) = json.loads(done.out)
    return (
        done.code,
        {each["check"]: (each["result"], each["details"]) for each in found["checks"]},
        done.told,
    )


async def test_a_trial_reports_the_started_workloads_and_removes_all(
    pinnace: Pinnace, client: KubeClient, shop: str, location: Path
) -> None:
    on_host = pod("on-host", volumes=[{"name": "v", "hostPath": {"path": "/srv"}}])
    for body in (pod("slow"), on_host):
        await client.create(PODS, body, shop)
    assert (await pinnace("backup", "create", shop, "--include-namespaces", shop)).code == 0
    native = [{"spec": {"location": "x", "persistentVolumeName": f"{shop}-data"}}]
    records = location / f"backups/{shop}/{shop}-volumesnapshots.json.gz"
    records.write_bytes(gzip.compress(json.dumps(native).encode()))
    stored = location / f"backups/{shop}/velero-backup.json"
    metadata = json.loads(stored.read_bytes())
    metadata["status"]["volumeSnapshotsAttempted"] = 1
    stored.write_text(json.dumps(metadata))
    before = {resource.name: await client.list_all(resource, shop) for resource in (PODS, SERVICES)}
    node = Node(client, shop)

    async with node.working():
        code, found, err = await verified(pinnace, shop, "--ready-timeout", "15s")

    assert (code, err) == (1, "")
    assert found[f"Pod {shop}/web"] == ("ok", "ready")
    assert found[f"Pod {shop}/slow"] == ("BAD", "phase Pending")
    result, details = found["trial restore"]
    assert (result, details.count("violates PodSecurity")) == ("BAD", 1), details
    assert f"Pod {shop}/on-host" not in found
    fixed = node.seen["services/fixed"]
    assert (fixed["spec"]["type"], fixed["metadata"].get("annotations")) == ("ClusterIP", None)
    result, details = found["trial of native snapshots"]
    assert (result, details.partition(": a trial")[0]) == ("not checked", f"1: {shop}/data")
    service, claim = node.seen["services/web"]["spec"], node.seen["persistentvolumeclaims/data"]["spec"]
    assert (service["type"], "externalIPs" in service) == ("ClusterIP", False)
    assert "volumeName" not in claim
    (name,) = {obj["metadata"]["namespace"] for obj in node.seen.values()}
    assert name.startswith("pinnace-verify-")
    assert "networkpolicies/pinnace-verify" in node.seen
    assert await scratch(client, shop) == []
    assert {resource.name: await client.list_all(resource, shop) for resource in (PODS, SERVICES)} == before
    assert not list((location / "restores").glob("*"))


async def test_an_interrupt_removes_what_was_made(pinnace: Pinnace, client: KubeClient, shop: str) -> None:
    assert (await pinnace("backup", "create", shop, "--include-namespaces", shop)).code == 0
    running = await pinnace.start("backup", "verify", shop, "--restore")

    async def has_begun() -> bool:
        return bool(await scratch(client, shop))

    await eventually(has_begun)
    running.interrupt()
    done = await running.finish()

    assert done.code != 0
    assert await scratch(client, shop) == [], done.err
    original = await client.get(PODS, "web", shop)
    assert "deletionTimestamp" not in original["metadata"]
