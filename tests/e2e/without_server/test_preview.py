"""Dry runs of restores and backups, compared with the real ones."""

import asyncio
import json
from pathlib import Path

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES
from tests.support.runs.without_server import MakePinnace
from tests.support.stores.indexed_backups import store


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

    assert (said.code, said.err) == (0, "")
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

    assert (said.code, said.err) == (0, "")
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
