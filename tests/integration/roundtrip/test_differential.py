"""Random worlds, backed up and restored in every way there is, each way's backups by each other too.

The command without a server and a server must do the same to the last field. With PINNACE_TEST_VELERO, the
path of a Velero program of 1.10 or later, that program's server is a third way; it needs no plugin beside it.
PINNACE_TEST_WORLDS is the number of worlds, PINNACE_TEST_FIRST_WORLD the first of them. All of them share one
cluster and the servers, and all that differs is told at the end.
"""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.controllers.sync import backup_sync
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import NAMESPACES
from tests.integration.roundtrip.runs import items, read_items
from tests.support.cluster.connect import Connect
from tests.support.runs.random_worlds import PREFIX, RESOURCES, backup_spec, changed, objects_of, restore_spec
from tests.support.runs.sides import VELERO, CommandSide, ServerSide, Side, define, velero_server
from tests.support.servers.sites import Site, running

FIRST = int(os.environ.get("PINNACE_TEST_FIRST_WORLD", "0"))
WORLDS = range(FIRST, FIRST + int(os.environ.get("PINNACE_TEST_WORLDS", "1")))
AT_ONCE = 6
BACKUPS, RESTORES = 4, 2
PROGRAM = os.environ.get(VELERO, "")


@pytest.fixture
def plane(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The shared cluster; beside Velero one of its own, which has Velero's definitions."""
    if not PROGRAM:
        yield request.getfixturevalue("control_plane")
        return
    made = ControlPlane(tmp_path_factory.mktemp("cluster-differential"), name="differential")
    made.start()
    yield made
    made.remove()


@pytest.fixture
async def ways(
    plane: ControlPlane, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[list[Side]]:
    """All ways, over one folder."""
    monkeypatch.setattr(backup_sync, "PERIOD_SECONDS", 0.2)
    client = await connect(plane)
    await define(client, PROGRAM)
    site = Site(client, await _new_namespace(client), tmp_path)
    folder = await site.add_folder(backupSyncPeriod="1s", default=True)
    made: list[Side] = [CommandSide(plane, folder), ServerSide(site, "server")]
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(client, site.namespace, tmp_path))
        if PROGRAM:
            other = Site(client, await _new_namespace(client), tmp_path)
            await stack.enter_async_context(velero_server(PROGRAM, plane, other, folder, tmp_path))
            made.append(ServerSide(other, "velero"))
        yield made


@pytest.mark.timeout(300 * len(WORLDS))
async def test_every_way_makes_the_same_backups_and_restores_those_of_every_other_to_the_same(
    ways: list[Side], plane: ControlPlane, connect: Connect, tmp_path: Path
) -> None:
    client, slots = await connect(plane), asyncio.Semaphore(AT_ONCE)
    discovery = await Discovery.load(client)

    async def differences(seed: int) -> list[Any]:
        async with slots:
            world = World(client, discovery, ways, tmp_path / "bucket-default", seed)
            await world.compare()
            print(f"world {seed}: {world.backups} backups, {world.restores} restores")
            return world.different

    found = await asyncio.gather(*map(differences, WORLDS))
    assert [each for different in found for each in different] == []


@pytest.mark.skipif(not PROGRAM, reason=f"{VELERO} names no Velero program")
async def test_a_velero_server_keeps_what_schedules_of_ours_say_and_ours_goes_on_with_them(
    plane: ControlPlane, connect: Connect, tmp_path: Path
) -> None:
    client = await connect(plane)
    await define(client, PROGRAM)
    site = Site(client, await _new_namespace(client), tmp_path)
    notes = {labels.NOT_DURING: "08:00-18:00", labels.CATCH_UP: "none", labels.ALLOW_OVERLAP: "true"}
    expressions = {"held": "CRON_TZ=Europe/Berlin 0 3 * * *", "drawn": "@daily-random"}

    async with velero_server(PROGRAM, plane, site, tmp_path / "bucket-default", tmp_path):
        for name, expression in expressions.items():
            spec = {"schedule": expression, "template": {}}
            await site.create("schedules", name, spec=spec, annotations=notes)
        await site.reached("schedules", "held", "Enabled")
        await site.reached("schedules", "drawn", "FailedValidation")

    async with running(client, site.namespace, tmp_path):
        for name, expression in expressions.items():
            found = await site.reached("schedules", name, "Enabled")
            assert found["spec"]["schedule"] == expression
            assert found["metadata"]["annotations"].items() >= notes.items()


class World:
    """Two namespaces of random objects, and what each way makes of them.

    Attributes:
        different: what is not the same, each with what was asked for.
        backups, restores: how many were made.
    """

    def __init__(
        self, client: KubeClient, discovery: Discovery, ways: list[Side], folder: Path, seed: int
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._ways = ways
        self._folder = folder
        self._seed = seed
        self._random = Random(seed)
        self.different: list[Any] = []
        self.backups = self.restores = 0

    async def compare(self) -> None:
        """Make all backups and restores."""
        namespaces = [await _new_namespace(self._client) for _ in range(2)]
        objects = [obj for namespace in namespaces for obj in objects_of(self._random, namespace, 12)]
        await _create(self._client, self._discovery, objects)
        for number in range(BACKUPS):
            spec, name = backup_spec(self._random, namespaces), f"b{self._seed}-{number}"
            made = {way.name: await way.back_up(f"{name}-{way.name}", spec) for way in self._ways}
            self.backups += len(made)
            if len({status["phase"] for status in made.values()}) > 1:
                self.different.append((name, spec, made))
                continue
            first, *others = (_of_the_world(self._folder, f"{name}-{way}", namespaces) for way in made)
            for way, other in zip(list(made)[1:], others, strict=True):
                if other != first:
                    same = {path for path in first if other.get(path) == first[path]}
                    self.different.append(
                        (f"{name}-{way}", spec, sorted((first.keys() | other.keys()) - same))
                    )
            if number < RESTORES:
                await self._restore_all(objects, spec, name)

    async def _restore_all(self, world: list[JSONObject], spec: JSONObject, backup: str) -> None:
        """Restore the backup of each way by each way, into a namespace of its own with the same objects."""
        random, source = self._random, spec["includedNamespaces"][0]
        of_source = [obj for obj in world if obj["metadata"]["namespace"] == source]
        there = random.sample(of_source, 4)
        wanted, state = restore_spec(random), random.getstate()
        results: dict[str, tuple[str, list[JSONObject]]] = {}
        for maker in self._ways:
            for way in self._ways:
                random.setstate(state)
                target = await _new_namespace(self._client)
                objects = [changed(random, obj, target) for obj in there]
                await _create(self._client, self._discovery, objects)
                more = {"backupName": f"{backup}-{maker.name}", "includedNamespaces": [source]}
                mapped = {"namespaceMapping": {source: target}, "restorePVs": False}
                status = await way.restore(f"r-{target}", {**wanted, **more, **mapped})
                found = await _objects(self._client, self._discovery, target)
                results[f"{maker.name} by {way.name}"] = (status["phase"], found)
                self.restores += 1
        phase, objects = next(iter(results.values()))
        assert len(objects) >= len(there)
        for name, (other_phase, found) in results.items():
            pairs = _differences(found, objects)
            if other_phase != phase or pairs:
                self.different.append((f"{backup}, {name}", wanted, spec, other_phase, phase, pairs))


async def _new_namespace(client: KubeClient) -> str:
    name = f"world-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


async def _create(client: KubeClient, discovery: Discovery, objects: list[JSONObject]) -> None:
    by_kind = {(each.api_version, each.kind): each for each in discovery.resources}
    for obj in objects:
        resource = by_kind[obj["apiVersion"], obj["kind"]]
        await client.create(resource, obj, obj["metadata"]["namespace"])


def _of_the_world(folder: Path, backup: str, namespaces: list[str]) -> dict[str, JSONObject]:
    """The world's objects in the tarball, by their path."""
    items(folder, backup)  # none is there twice
    return {
        "/".join(item): _settled(obj)
        for item, obj in read_items(folder, backup).items()
        if item[0] in RESOURCES and item[1] in namespaces and item[2].startswith(PREFIX)
    }


def _settled(obj: JSONObject) -> JSONObject:
    """A Deployment without what its controller writes; any other object as it is."""
    if obj["kind"] != "Deployment":
        return obj
    notes = {key: each for key, each in (obj["metadata"].get("annotations") or {}).items()
             if key != "deployment.kubernetes.io/revision"}  # fmt: skip
    mine = {
        key: each for key, each in obj["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {**{k: v for k, v in obj.items() if k != "status"}, "metadata": {**mine, "annotations": notes}}


async def _objects(client: KubeClient, discovery: Discovery, namespace: str) -> list[JSONObject]:
    """The objects of a namespace without what differs by nature, and with a word for the namespace."""
    found = []
    for resource in discovery.resources:
        if resource.group_resource not in RESOURCES:
            continue
        for obj in await client.list_all(resource, namespace):
            if obj["metadata"]["name"].startswith(PREFIX):
                found.append(_plain(_settled({**obj, "kind": resource.kind}), namespace))
    return sorted(found, key=lambda obj: (obj["kind"], obj["metadata"]["name"]))


def _differences(found: list[JSONObject], expected: list[JSONObject]) -> list[tuple[JSONObject, JSONObject]]:
    """The pairs of objects that differ; {} stands for one that is missing."""
    by_name = [{(obj["kind"], obj["metadata"]["name"]): obj for obj in each} for each in (found, expected)]
    pairs = [tuple(each.get(name, {}) for each in by_name) for name in by_name[0] | by_name[1]]
    return [(one, other) for one, other in pairs if one != other]


def _plain(obj: JSONObject, namespace: str) -> JSONObject:
    kept = json.loads(json.dumps({key: value for key, value in obj.items() if key != "status"}))
    metadata = kept["metadata"]
    for name in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"):
        metadata.pop(name, None)
    labels = metadata.get("labels") or {}
    metadata["labels"] = {
        key: "" if key in ("velero.io/restore-name", "velero.io/backup-name") else value
        for key, value in labels.items()
    }
    if kept["kind"] == "Service" and kept["spec"].get("clusterIP") != "None":
        for name in ("clusterIP", "clusterIPs"):
            kept["spec"].pop(name, None)
    plain: JSONObject = json.loads(json.dumps(kept).replace(namespace, "NAMESPACE"))
    return plain
