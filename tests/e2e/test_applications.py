"""Public projects, with nothing written for these tests: backed up, restored into another cluster, compared.

By default one kind of each project, so that the API servers need seconds; with PINNACE_APPLICATIONS=all
every definition and every sample, in a backup of the whole cluster, restored into an empty one.
"""

import asyncio
import contextlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hack.cluster import applications
from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from pinnace.aio.clock import SystemClock
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, APIStatusError, Invalid, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource
from pinnace.restore.definitions import Definitions
from tests.e2e.without_server import command
from tests.e2e.without_server.command import Pinnace

IS_WHOLE = os.environ.get("PINNACE_APPLICATIONS") == "all"
KINDS_OF_A_PROJECT = 10_000 if IS_WHOLE else 1
SAMPLES_OF_A_KIND = 10_000 if IS_WHOLE else 4
SECONDS = 7200 if IS_WHOLE else 300
"""An API server establishes one definition after the other, on a busy machine each in a second."""
_AT_ONCE = 16
_STORED = ("data", "stringData", "binaryData", "rules", "subjects", "roleRef")
"""The members of built-in objects to which neither server adds anything."""

_LEFT_OUT = ("Event", "Lease", "LimitRange", "ResourceQuota")
"""Built-in kinds without samples: those of controllers, and those that refuse other samples."""

Made = dict[tuple[str, str, str], JSONObject]
"""Objects by group-resource, namespace and name."""


class Corpus:
    """The chosen definitions, and the samples of their kinds and of built-in namespaced kinds.

    Attributes:
        samples: by the namespace of their project.
    """

    def __init__(self, discovery: Discovery) -> None:
        self.definitions: list[JSONObject] = []
        self.samples: dict[str, list[JSONObject]] = {}
        tag = secrets.token_hex(3)
        for project, found in json.loads(applications.locate().read_text()).items():
            kinds = self._choose(found["definitions"], found["samples"])
            self.samples[f"{project}-{tag}"] = list(self._samples(found["samples"], kinds, discovery))

    def _choose(self, definitions: list[JSONObject], samples: list[JSONObject]) -> set[tuple[str, str]]:
        """Choose the kinds of a project: those that have samples, and of these the smallest."""
        known = {each["metadata"]["name"] for each in self.definitions}
        shown = {_kind(sample) for sample in samples}
        usable = [
            each
            for each in definitions
            if each["metadata"]["name"] not in known and (IS_WHOLE or _defined(each) in shown)
        ]
        chosen = sorted(usable, key=lambda each: len(json.dumps(each)))[:KINDS_OF_A_PROJECT]
        self.definitions += chosen
        return {_defined(each) for each in chosen}

    def _samples(
        self, samples: Iterable[JSONObject], kinds: set[tuple[str, str]], discovery: Discovery
    ) -> Iterable[JSONObject]:
        taken: dict[tuple[str, str], int] = {}
        for sample in samples:
            kind = _kind(sample)
            builtin = discovery.for_kind(sample["apiVersion"], sample["kind"])
            is_usual = builtin is not None and builtin.namespaced and kind[1] not in _LEFT_OUT
            if sample.get("type") == "kubernetes.io/service-account-token":
                continue  # deleted without its account, and filled by each cluster with a token of its own
            if (kind in kinds or is_usual) and taken.get(kind, 0) < SAMPLES_OF_A_KIND:
                taken[kind] = taken.get(kind, 0) + 1
                yield sample


def _kind(obj: JSONObject) -> tuple[str, str]:
    return obj["apiVersion"].rpartition("/")[0], obj["kind"]


def _defined(definition: JSONObject) -> tuple[str, str]:
    return definition["spec"]["group"], definition["spec"]["names"]["kind"]


async def _in_parallel(work: Iterable[Any]) -> None:
    waiting = iter(list(work))

    async def worker() -> None:
        for each in waiting:
            await each

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(worker())


@contextlib.asynccontextmanager
async def _cleaned(clients: list[KubeClient], corpus: Corpus) -> AsyncIterator[None]:
    """Delete the definitions and namespaces of both clusters at the end, if other tests use these."""
    try:
        yield
    finally:
        kinds = [] if IS_WHOLE else [each["metadata"]["name"] for each in corpus.definitions]
        names = [(CUSTOM_RESOURCE_DEFINITIONS, name) for name in kinds]
        names += [(NAMESPACES, name) for name in ([] if IS_WHOLE else corpus.samples)]

        async def delete(client: KubeClient, resource: APIResource, name: str) -> None:
            with contextlib.suppress(NotFound):
                await client.delete(resource, name)

        await _in_parallel(delete(client, *each) for client in clients for each in names)


async def _define(client: KubeClient, definitions: list[JSONObject]) -> Made:
    """Create the definitions and wait for them; return those that the API server accepts."""
    waiting, made = Definitions(client, SystemClock()), Made()

    async def create(definition: JSONObject) -> None:
        name = definition["metadata"]["name"]
        with contextlib.suppress(Invalid):
            stored = await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
            made[(CUSTOM_RESOURCE_DEFINITIONS.group_resource, "", name)] = stored
            waiting.created(name, CUSTOM_RESOURCE_DEFINITIONS)

    await _in_parallel(map(create, definitions))
    while await waiting.settled():
        assert await waiting.last_look(name for _, _, name in made) == []
    return made


async def _fill(client: KubeClient, corpus: Corpus) -> Made:
    """Create the samples; return those that the API server accepts, as it stores them."""
    discovery, made = await Discovery.load(client), Made()

    async def create(namespace: str, sample: JSONObject) -> None:
        resource = discovery.for_kind(sample["apiVersion"], sample["kind"])
        if resource is None:
            return
        metadata = {"name": sample["metadata"]["name"]}
        for member in ("labels", "annotations"):
            if isinstance(sample["metadata"].get(member), dict):
                metadata[member] = sample["metadata"][member]
        home = namespace if resource.namespaced else ""
        try:
            stored = await client.create(resource, {**sample, "metadata": metadata}, home or None)
        except (APIStatusError, AlreadyExists):
            return  # a sample for another version, or half of one
        made[(resource.group_resource, home, metadata["name"])] = stored

    for namespace in corpus.samples:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, body)
    await _in_parallel(
        create(namespace, sample) for namespace, samples in corpus.samples.items() for sample in samples
    )
    return made


def _is_back(stored: JSONObject, found: JSONObject, *, is_custom: bool) -> bool:
    """Whether a restore brought back an object: of custom kinds all but the status, of others their data.

    Controllers may add labels and annotations, and finish the specs of built-in kinds.
    """
    members = stored.keys() - {"metadata", "status", "apiVersion"} if is_custom else _STORED
    if any(stored.get(member) != found.get(member) for member in members):
        return False
    return all(
        (stored["metadata"].get(member) or {}).items() <= (found["metadata"].get(member) or {}).items()
        for member in ("labels", "annotations")
    )


@pytest.mark.found("R10")
@pytest.mark.timeout(SECONDS)
async def test_public_projects_come_back_in_another_cluster(
    control_plane: ControlPlane,
    second_cluster: ControlPlane,
    client: KubeClient,
    second_client: KubeClient,
    fault_proxy: Callable[[ControlPlane], Awaitable[FaultProxy]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "SECONDS", SECONDS)
    corpus = Corpus(await Discovery.load(client))
    assert len(corpus.samples) >= 10
    location = str(tmp_path)
    async with _cleaned([client, second_client], corpus):
        defined = await _define(client, corpus.definitions)
        made = await _fill(client, corpus)
        assert len(defined) >= (300 if IS_WHOLE else 15)
        assert len({kind for kind, _, _ in made}) >= 20
        assert len(made) >= (1000 if IS_WHOLE else 200)

        proxy = await fault_proxy(control_plane)
        kubeconfig = control_plane.write_kubeconfig(tmp_path / "by-proxy", server=proxy.url)
        source = Pinnace(tmp_path, kubeconfig=kubeconfig, location=location)
        filters = () if IS_WHOLE else ("--include-namespaces", ",".join(corpus.samples))
        began = time.monotonic()
        saved = await source("backup", "create", "b", *filters)
        assert saved.code == 0, saved.err
        between = time.monotonic()
        update = ("--existing-resource-policy", "update", "--dry-run", "-o", "json")
        foreseen = await source("restore", "create", "--from-backup", "b", *update)
        assert foreseen.code == 0, foreseen.err
        counts = json.loads(foreseen.out)["counts"]
        assert counts["unchanged"] > 0.9 * len(made), counts
        assert proxy.count(method="PATCH") <= sum(counts.values()) - counts["unchanged"]
        foreseen_after = time.monotonic()
        target = Pinnace(tmp_path, kubeconfig=second_cluster.kubeconfig, location=location)
        restored = await target("restore", "create", "r", "--from-backup", "b")
        ended = time.monotonic()
        print(saved.out, saved.err, counts, foreseen.err, restored.out, restored.err, sep="\n")
        print(
            f"{len(defined)} definitions, {len(made)} objects: backup {between - began:.0f} s, dry run over"
            f" them {foreseen_after - between:.0f} s, restore {ended - foreseen_after:.0f} s"
        )
        assert restored.code == 0, restored.err
        assert not IS_WHOLE or "definitions to be established" in restored.err

        discovery = await Discovery.load(second_client)
        custom = {_defined(each) for each in corpus.definitions}
        lost: list[str] = []

        async def compare(key: tuple[str, str, str], stored: JSONObject) -> None:
            kind, namespace, name = key
            resource = discovery.preferred(kind)
            assert resource is not None, kind
            try:
                found = await second_client.get(resource, name, namespace or None)
            except NotFound:
                lost.append(f"{'/'.join(key)}: missing")
                return
            is_custom = _kind(stored) in custom or key in defined
            if not _is_back(stored, found, is_custom=is_custom):
                lost.append(f"{'/'.join(key)}: different")

        expected = made | defined if IS_WHOLE else {key: made[key] for key in made if key[1]}
        await _in_parallel(compare(key, stored) for key, stored in expected.items())
        assert lost == []
