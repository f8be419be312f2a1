"""A server and a node agent among custom resources with odd content, from one seed.

500 objects in the everyday run; `make fuzz`, or PINNACE_ODD_OBJECTS and PINNACE_ODD_SEED, for more and
others. Objects that wait for something which never comes may stay as they are: downloads of what does not
exist, volumes of pods and nodes that do not exist, data movers of others, requests that are refused.
"""

import asyncio
import contextlib
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import APIStatusError, KubeError, NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, NODES, APIResource, velero
from pinnace.nonadmin import manifests
from tests.e2e.server_process import ServerProcess
from tests.support.odd.objects import OddObjects, dated
from tests.support.servers.homes import FINAL, Home, NewServer
from tests.support.servers.self_service import create_object
from tests.support.waiting import eventually

COUNT: Final = int(os.environ.get("PINNACE_ODD_OBJECTS", "500"))
SEED: Final = int(os.environ.get("PINNACE_ODD_SEED", "1"))
PAIRS: Final = 3
PATIENCE_SECONDS: Final = 240.0 + COUNT / 2
AT_ONCE: Final = 8
DEFECT: Final = re.compile(r"Traceback|should not happen|OverflowError|unexpected \w+Error|ended by a defect")

SETTLED: Final = {
    "backups": FINAL | {"Deleting"},
    "restores": FINAL | {"Deleting"},
    "schedules": {"Enabled", "FailedValidation"},
    "deletebackuprequests": {"Processed"},
    "backupstoragelocations": {"Available", "Unavailable"},
    "nonadminbackups": {"New", "BackingOff", "Created", "Deleting"},
    "nonadminrestores": {"New", "BackingOff", "Created", "Deleting"},
    "nonadminbackupstoragelocations": {"New", "BackingOff", "Created", "Deleting"},
}
"""The phases in which an object may be in the end; kinds that may wait for ever are not there."""


@pytest.fixture
async def node_agent(
    client: KubeClient, home: Home, control_plane: ControlPlane, tmp_path: Path
) -> AsyncIterator[ServerProcess]:
    """The node agent of a node without pods."""
    namespace, folder = home.namespace, tmp_path / "agent"
    node = f"node-of-{namespace}"
    await client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    (folder / "pods").mkdir(parents=True)
    agent = ServerProcess(
        folder,
        control_plane.kubeconfig,
        *("-n", namespace, "--host-pods", str(folder / "pods")),
        environ={"NODE_NAME": node},
        role=("node-agent", "server"),
    )
    await agent.start()
    yield agent
    await agent.kill()
    await client.delete(NODES, node)


class Health:
    """Asks /healthz beside each object and each look; `slowest_seconds` is that of the slowest answer."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.slowest_seconds = 0.0

    async def ask(self) -> None:
        began = time.monotonic()
        status, _ = await self._server.page("healthz")
        assert status == 200
        self.slowest_seconds = max(self.slowest_seconds, time.monotonic() - began)


async def store(client: KubeClient, resource: APIResource, obj: JSONObject) -> bool:
    """Create an object with its status; False if the API server refuses it."""
    name, namespace = obj["metadata"]["name"], obj["metadata"]["namespace"]
    try:
        await client.create(resource, obj, namespace)
    except APIStatusError:
        return False
    if status := obj.get("status"):
        with contextlib.suppress(
            APIStatusError
        ):  # the kind has no such subresource, or the status is refused
            await client.patch(resource, name, {"status": status}, namespace, subresource="status")
    return True


async def unsettled(client: KubeClient, resource: APIResource, names: set[str], namespace: str) -> list[str]:
    """The objects that are in no final phase."""
    found = []
    for obj in await client.list_all(resource, namespace):
        name, phase = text(obj, "metadata", "name"), text(obj, "status", "phase")
        if name in names and phase not in SETTLED[resource.name]:
            is_paused = resource.name == "schedules" and obj["spec"].get("paused")
            if not is_paused:
                found.append(f"{resource.name}/{name}: {phase}")
    return found


@pytest.mark.timeout(2 * PATIENCE_SECONDS + 600)
@pytest.mark.found("Z1", "Z2", "Z5")
async def test_a_server_holds_among_odd_objects(
    client: KubeClient,
    home: Home,
    new_server: NewServer,
    node_agent: ServerProcess,
    command: Callable[..., Any],
) -> None:
    namespace, tenant = home.namespace, f"{home.namespace}-tenant"
    for manifest in (*manifests.crds(), *manifests.resources(namespace)):
        await create_object(client, manifest)
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant}})
    server = await new_server(
        *("--features", "NonAdmin", "--concurrent-backups", "2", "--garbage-collection-frequency", "60s")
    )
    await server.ready()
    await node_agent.said("Starting controller")
    health = Health(server)
    accepted: dict[APIResource, set[str]] = {}
    try:
        odd = [(kind_of(obj), obj) for obj in dated(namespace)]
        odd += OddObjects(SEED, namespace=namespace, tenant=tenant).make(COUNT)
        waiting = iter(odd)

        async def create() -> None:
            for resource, obj in waiting:
                if await store(client, resource, obj):
                    accepted.setdefault(resource, set()).add(obj["metadata"]["name"])
                await health.ask()

        pairs = asyncio.create_task(good_pairs(client, home))
        await asyncio.gather(*(create() for _ in range(AT_ONCE)))
        assert sum(map(len, accepted.values())) > COUNT / 2, "the API server refuses what is generated"

        async def left() -> AsyncIterator[str]:
            for resource, names in accepted.items():
                if resource.name in SETTLED:
                    place = tenant if resource.group.startswith("oadp") else namespace
                    for found in await unsettled(client, resource, names, place):
                        yield found

        async def all_settled() -> bool:
            await health.ask()
            async for _ in left():
                return False
            return True

        try:
            await eventually(all_settled, timeout_seconds=PATIENCE_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {[found async for found in left()]}") from error
        await asyncio.wait_for(pairs, PATIENCE_SECONDS)

        for words in (
            *((noun, "get") for noun in ("backup", "restore", "schedule", "backup-location", "repo")),
            *((noun, "describe", "dated-1") for noun in ("backup", "restore", "schedule")),
        ):
            outcome = await command(*words)
            assert (outcome.code, "should not happen" in outcome.err) == (0, False), (words, outcome)
            assert "dated-1" in outcome.out or words[0] == "backup-location"
        outcome = await command("doctor")
        assert "should not happen" not in outcome.err + outcome.out
        assert outcome.code in (0, 1)
    finally:
        for resource in accepted:
            if resource.group.startswith("oadp"):
                await emptied(client, resource, tenant)
        await client.delete(NAMESPACES, tenant)
    assert health.slowest_seconds < 10
    for process in (server, node_agent):
        assert DEFECT.findall(process.log) == []


async def emptied(client: KubeClient, resource: APIResource, namespace: str) -> None:
    """Delete the requests of a tenant, whose finalizers a server removes that is about to end."""
    for obj in await client.list_all(resource, namespace):
        name = obj["metadata"]["name"]
        with contextlib.suppress(NotFound):
            await client.patch(resource, name, {"metadata": {"finalizers": None}}, namespace)
            await client.delete(resource, name, namespace)


def kind_of(obj: JSONObject) -> APIResource:
    """The resource of an object of ours."""
    group, _, version = obj["apiVersion"].partition("/")
    plural = f"{obj['kind'].lower()}s".replace("repositorys", "repositories")
    return APIResource(group=group, version=version, name=plural, kind=obj["kind"], namespaced=True)


async def good_pairs(client: KubeClient, home: Home) -> None:
    """Backups and restores of the config maps of the server's namespace, one after the other."""
    for number in range(PAIRS):
        source, name = f"{home.namespace}-good-{number}", f"good-{number}"
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": source}}
        )
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kept"},
            "data": {"n": str(number)},
        }
        await client.create(CONFIGMAPS, body, source)
        spec: JSONObject = {
            "includedNamespaces": [source],
            "storageLocation": "default",
            "snapshotVolumes": False,
        }
        await create(client, "Backup", name, home.namespace, spec)
        assert (await ended(client, "backups", name, home.namespace))["phase"] == "Completed"
        await client.delete(CONFIGMAPS, "kept", source)
        await create(
            client, "Restore", name, home.namespace, {"backupName": name, "includedNamespaces": [source]}
        )
        assert (await ended(client, "restores", name, home.namespace))["phase"] == "Completed"
        assert (await client.get(CONFIGMAPS, "kept", source))["data"] == {"n": str(number)}
        await client.delete(NAMESPACES, source)


async def create(client: KubeClient, kind: str, name: str, namespace: str, spec: JSONObject) -> None:
    body = {"apiVersion": "velero.io/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}}
    await client.create(velero(f"{kind.lower()}s"), {**body, "spec": spec}, namespace)


async def ended(client: KubeClient, plural: str, name: str, namespace: str) -> JSONObject:
    """The status, once the phase is final."""
    status: JSONObject = {}

    async def check() -> bool:
        try:
            found = await client.get(velero(plural), name, namespace)
        except KubeError:
            return False
        status.update(found.get("status") or {})
        return status.get("phase") in FINAL

    await eventually(check, timeout_seconds=PATIENCE_SECONDS)
    return status
