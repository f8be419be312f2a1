"""Dry runs of restores and backups, compared with the real ones."""

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.errors import ExitCode
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.without_server import MakePinnace
from tests.support.stores.indexed_backups import store
from tests.support.waiting import eventually

VOLUME_SNAPSHOT_CLASSES = APIResource(
    group="snapshot.storage.k8s.io",
    version="v1",
    name="volumesnapshotclasses",
    kind="VolumeSnapshotClass",
    namespaced=False,
)


def config_map(name: str, value: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": value}}


async def test_the_restore_does_what_the_dry_run_said(
    tmp_path: Path, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    pinnace = pinnace_for(str(tmp_path / "location"))
    for name in ("changes", "goes", "stays"):
        await client.create(CONFIGMAPS, config_map(name, "1"), world)
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    await client.patch(CONFIGMAPS, "changes", {"data": {"x": "2"}}, world)
    await client.delete(CONFIGMAPS, "goes", world)
    before = await client.list_all(CONFIGMAPS, world)
    create = ("restore", "create", "r1", "--from-backup", "b1", "--include-resources", "configmaps")

    said = await pinnace(*create, "--dry-run")
    elsewhere = await pinnace(
        *create, "--dry-run=server", "--namespace-mappings", f"{world}:{world}-2", "-o", "json"
    )

    assert (said.code, said.told) == (0, "")
    assert said.lines[0] == "A restore of backup b1 would do this; nothing was changed."
    assert f"  v1/ConfigMap {world}/goes" in said.lines
    assert any(f"v1/ConfigMap {world}/changes: it exists and differs" in line for line in said.lines)
    data = json.loads(elsewhere.out)
    assert data["namespaces"] == [f"{world}-2"]
    assert data["notAsked"] == data["counts"]["created"] - 1, "all but the namespace itself"
    assert await client.list_all(CONFIGMAPS, world) == before
    assert f"{world}-2" not in {each["metadata"]["name"] for each in await client.list_all(NAMESPACES)}
    assert "r1" not in (await pinnace("restore", "get")).out

    foreseen = json.loads((await pinnace(*create, "--dry-run=server", "-o", "json")).out)
    assert (await pinnace(*create)).code == 0
    details = json.loads((await pinnace("restore", "describe", "r1", "--details", "-o", "json")).out)
    assert foreseen["counts"] == {"created": 1, "different": 1, "unchanged": foreseen["counts"]["unchanged"]}
    assert (await client.get(CONFIGMAPS, "goes", world))["data"] == {"x": "1"}
    assert details["phase"] == "Completed"


async def test_a_dry_run_of_what_is_not_there_is_one_clear_error(
    tmp_path: Path, pinnace_for: MakePinnace
) -> None:
    (tmp_path / "location").mkdir()
    pinnace = pinnace_for(str(tmp_path / "location"))

    missing = await pinnace("restore", "create", "--from-backup", "nosuch", "--dry-run")
    wrong = await pinnace("restore", "create", "--from-backup", "nosuch", "--dry-run", "-o", "name")

    assert (missing.code, missing.out) == (1, "")
    assert 'backups.velero.io "nosuch" not found' in missing.err
    assert wrong.code == 2
    assert "a dry run prints text, json or yaml" in wrong.err


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (None, 1, "the restore would fail: backup b1 has no tarball"),
        (b"no gzip", 3, "\n  error reading backup contents: "),
    ],
    ids=["missing", "damaged"],
)
async def test_a_tarball_that_cannot_be_restored_is_foreseen(
    tmp_path: Path, pinnace_for: MakePinnace, content: bytes | None, code: int, said: str
) -> None:
    location = tmp_path / "location"
    directory = await asyncio.to_thread(store, location, "b1", [])
    tarball = directory / "b1.tar.gz"
    tarball.unlink() if content is None else tarball.write_bytes(content)
    pinnace = pinnace_for(str(location))

    foreseen = await pinnace("restore", "create", "--from-backup", "b1", "--dry-run")

    assert foreseen.code == code
    assert said in foreseen.out + foreseen.err


async def test_what_a_backup_would_hold_is_what_it_then_holds(
    tmp_path: Path, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    (tmp_path / "location").mkdir()
    pinnace = pinnace_for(str(tmp_path / "location"))
    create = ("backup", "create", "b1", "--include-namespaces", world)

    said = await pinnace(*create, "--dry-run", "-o", "json")

    assert (said.code, said.told) == (0, "")
    assert list((tmp_path / "location").iterdir()) == []
    assert (await pinnace(*create)).code == 0
    listed = json.loads((await pinnace("backup", "ls", "b1", "-o", "json")).out)
    found: dict[tuple[str, str], int] = {}
    for item in listed:
        place = (item["resource"], item.get("namespace", ""))
        found[place] = found.get(place, 0) + 1
    counted = {(each["resource"], each["namespace"]): each["items"] for each in json.loads(said.out)["items"]}
    assert counted == found


async def test_one_object_comes_back(
    tmp_path: Path, pinnace_for: MakePinnace, world: str, client: KubeClient
) -> None:
    pinnace = pinnace_for(str(tmp_path / "location"))
    for name in ("picked", "left-out"):
        await client.create(CONFIGMAPS, config_map(name, "1"), world)
    assert (await pinnace("backup", "create", "b1", "--include-namespaces", world)).code == 0
    for name in ("picked", "left-out"):
        await client.delete(CONFIGMAPS, name, world)

    typo = await pinnace("restore", "create", "--from-backup", "b1", "--object", f"cm/{world}/pickd")
    assert typo.code == 3
    assert f"the backup does not have cm/{world}/pickd" in typo.err
    picked = await pinnace(
        "restore", "create", "r-picked", "--from-backup", "b1", "--object", f"cm/{world}/picked"
    )
    assert picked.code == 0, picked.err

    names = {each["metadata"]["name"] for each in await client.list_all(CONFIGMAPS, world)}
    assert names & {"picked", "left-out"} == {"picked"}


@pytest.fixture
async def ships(client: KubeClient, world: str) -> AsyncIterator[tuple[APIResource, APIResource]]:
    """Two kinds with definitions and an object each: one of the application, and classes of snapshots."""
    word = f"ship{secrets.token_hex(3)}"
    ship = APIResource(
        group="sea.example.com", version="v1", name=f"{word}s", kind=word.capitalize(), namespaced=True
    )
    kinds = (ship, VOLUME_SNAPSHOT_CLASSES)
    for kind in kinds:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, _definition(kind))
    bodies = ((ship, {"spec": {"masts": 3}}, world), (VOLUME_SNAPSHOT_CLASSES, {"driver": "d.example"}, None))
    for kind, content, namespace in bodies:
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "one"}, **content}
        await eventually(partial(_is_made, client, kind, body, namespace))
    yield kinds
    for kind in kinds:
        with contextlib.suppress(NotFound):
            await client.delete(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource)
    with contextlib.suppress(NotFound):
        await client.delete(NAMESPACES, f"{world}-copy")


def _definition(kind: APIResource) -> JSONObject:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    annotations = {"api-approved.kubernetes.io": "unapproved, for a test"}
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITIONS.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITIONS.kind,
        "metadata": {"name": kind.group_resource, "annotations": annotations},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced" if kind.namespaced else "Cluster",
            "names": {"plural": kind.name, "kind": kind.kind},
            "versions": [{"name": kind.version, "served": True, "storage": True, "schema": schema}],
        },
    }


async def _is_made(client: KubeClient, kind: APIResource, body: JSONObject, namespace: str | None) -> bool:
    try:
        await client.create(kind, body, namespace)
    except NotFound:
        return False
    return True


@pytest.mark.found("R1", "R6", "R9")
async def test_one_application_of_a_whole_backup_comes_back_where_its_definitions_are_missing(
    pinnace: Pinnace, client: KubeClient, world: str, ships: tuple[APIResource, APIResource]
) -> None:
    ship, classes = ships
    assert (await pinnace("backup", "create", "whole")).code in (0, ExitCode.PARTIALLY_FAILED)
    for kind in ships:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, kind.group_resource)
    for kind in ships:
        await eventually(partial(_is_gone, client, kind))
    copy = f"{world}-copy"
    one = ("--from-backup", "whole", "--include-namespaces", world, "--namespace-mappings", f"{world}:{copy}")

    # The value of `--dry-run` is optional, and so is that of the flag after it.
    foreseen = await pinnace(
        "restore", "create", *one, "--dry-run", "--include-cluster-resources", "-o", "json"
    )
    assert foreseen.code == 0, foreseen.err
    assert f"{copy}/one" in foreseen.out
    assert classes.name in foreseen.out

    lacking = await pinnace(
        "restore", "create", "r1", *one, "--exclude-resources", "customresourcedefinitions"
    )
    assert lacking.code == ExitCode.PARTIALLY_FAILED
    (command,) = set(re.findall(r"pinnace (restore create --from-backup whole --object \S+)", lacking.err))
    assert command.endswith(f" customresourcedefinitions/{ship.group_resource}")
    assert (await pinnace(*command.split())).code == 0
    again = await pinnace("restore", "create", "r2", *one, "--exclude-resources", "customresourcedefinitions")
    assert again.code == 0, again.err
    assert (await client.get(ship, "one", copy))["spec"] == {"masts": 3}

    chosen = ("--include-resources", f"{classes.group_resource},customresourcedefinitions")
    restored = await pinnace("restore", "create", "r3", "--from-backup", "whole", *chosen)
    assert restored.code == 0, restored.err
    assert (await client.get(classes, "one"))["driver"] == "d.example"


async def _is_gone(client: KubeClient, kind: APIResource) -> bool:
    return (await Discovery.load(client)).preferred(kind.group_resource) is None
