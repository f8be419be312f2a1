"""The files of a backup in its location, byte by byte. (docs/spec: BKP 14, STO 3)"""

import gzip
import json
import os
import secrets
import subprocess
import tarfile
from collections.abc import AsyncIterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.meta import LabelSelector
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.resources import CLUSTER_ROLES, CONFIGMAPS
from tests.integration.roundtrip.runs import back_up, items
from tests.integration.roundtrip.selection_world import Item, World

NULL_LISTS = ("csi-volumesnapshotcontents", "csi-volumesnapshots", "podvolumebackups", "volumesnapshots")
LONG_NAME = "long." + "n" * 240
TEXT = {"key": '<&>\u2028\u2029 \x7f ünï \U0001f600 \\ " \n\t', "empty": ""}


@pytest.fixture
async def world(client: KubeClient) -> AsyncIterator[World]:
    made = World(f"w{secrets.token_hex(3)}")
    await made.install(client)
    name = {"name": LONG_NAME}
    await client.create(CONFIGMAPS, {"metadata": name, "data": TEXT}, made.namespaces[0])
    await client.create(CLUSTER_ROLES, {"metadata": {"name": f"{made.prefix}:colon"}, "rules": []})
    yield made
    await made.remove(client)
    await client.delete(CLUSTER_ROLES, f"{made.prefix}:colon")


def files(location: Path, backup: str) -> dict[str, bytes]:
    folder = location / "backups" / backup
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def extract(tarball: Path, folder: Path) -> dict[str, bytes]:
    """The files of a tarball as GNU tar extracts them, by path.

    Without the objects of other tests in this cluster whose names make file names of more than 255 bytes.
    """
    folder.mkdir()
    too_long = [path for path in listing(tarball).splitlines() if len(path.rpartition("/")[2]) > 255]
    command = ["tar", "--extract", "--gzip", f"--file={tarball}", f"--directory={folder}"]
    command += [f"--exclude={path}" for path in too_long]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def listing(tarball: Path) -> str:
    """The listing of a tarball by GNU tar."""
    done = subprocess.run(["tar", "-tzf", tarball], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


@pytest.mark.spec("STO-011", "STO-020", "STO-021", "BEY-075")
async def test_the_files_beside_the_tarball_have_the_specified_content(
    control_plane: ControlPlane, world: World, tmp_path: Path
) -> None:
    await back_up(
        *(control_plane, tmp_path, "b1"),
        included_namespaces=[world.namespaces[0], world.namespaces[1]],
        included_resources=["configmaps", "deployments", "namespaces", "pv", "gears"],
        include_cluster_resources=True,
    )

    # What Velero 1.6.3 accepts in a location.
    assert set(os.listdir(tmp_path)) <= {"backups", "restores", "restic", "metadata", "plugins"}
    stored = files(tmp_path, "b1")
    lists = {f"b1-{name}.json.gz" for name in (*NULL_LISTS, "resource-list")}
    assert stored.keys() == {
        *lists,
        "b1-logs.gz",
        "b1-pinnace-index.json.gz",
        "b1-results.gz",
        "b1-volumeinfo.json.gz",
        "b1.tar.gz",
        "velero-backup.json",
    }
    for name, data in stored.items():
        if name.endswith(".gz"):
            assert data[:4] == b"\x1f\x8b\x08\x00", f"{name} is gzip without a file name in its header"
            assert data[4:8] == bytes(4), f"{name} has no time in its header"
    for name in NULL_LISTS:
        assert gzip.decompress(stored[f"b1-{name}.json.gz"]) == b"null\n"

    text = gzip.decompress(stored["b1-resource-list.json.gz"])
    listed = json.loads(text)
    assert text == json.dumps(listed, separators=(",", ":"), sort_keys=True).encode() + b"\n"
    first, second, _ = world.namespaces
    assert listed["apps/v1/Deployment"] == [f"{first}/web"]
    assert listed[f"{world.group}/v1/Gear"] == [f"{second}/wheel"]
    assert listed["v1/Namespace"] == [first, second]
    assert {f"{world.prefix}-plain", f"{world.prefix}-web"} <= set(listed["v1/PersistentVolume"])
    assert all(names == sorted(names) for names in listed.values())
    assert f"{first}/{LONG_NAME}" in listed["v1/ConfigMap"]
    assert sum(map(len, listed.values())) == len(items(tmp_path, "b1"))

    metadata = stored["velero-backup.json"].decode()
    assert metadata.startswith(
        '{\n  "kind": "Backup",\n  "apiVersion": "velero.io/v1",\n  "metadata": {\n    "'
    )
    assert metadata.endswith("\n}")
    decoded = json.loads(metadata)
    assert metadata == json.dumps(decoded, indent=2, ensure_ascii=False)
    assert decoded["spec"]["ttl"] == "720h0m0s"
    assert decoded["spec"]["hooks"] == {}
    status = decoded["status"]
    assert (status["version"], status["formatVersion"], status["phase"]) == (1, "1.1.0", "Completed")
    for name in ("startTimestamp", "completionTimestamp", "expiration"):
        assert datetime.strptime(status[name], "%Y-%m-%dT%H:%M:%SZ")
        assert f'"{name}": "{status[name]}"' in metadata

    log = gzip.decompress(stored["b1-logs.gz"]).decode()
    assert all(line.startswith('time="') and " backup=velero/b1 " in line for line in log.splitlines())


async def test_the_tarball_has_the_specified_layout(
    control_plane: ControlPlane, world: World, tmp_path: Path, client: KubeClient
) -> None:
    await back_up(control_plane, tmp_path, "b1", include_cluster_resources=True)
    tarball = tmp_path / "backups/b1/b1.tar.gz"
    discovery = await Discovery.load(client)

    extracted = extract(tarball, tmp_path / "extracted")
    assert extracted.pop("metadata/version") == b"1.1.0\n"
    with tarfile.open(tarball) as archive:
        entries = archive.getmembers()
    assert entries[0].name == "metadata/version"
    assert {(entry.type, entry.mode, entry.uid, entry.gid) for entry in entries} == {
        (tarfile.REGTYPE, 0o755, 0, 0)
    }
    entries = [entry for entry in entries if len(entry.name.rpartition("/")[2]) <= 255]
    assert {entry.name for entry in entries} == {"metadata/version", *extracted}
    assert len(entries) == 1 + len(extracted)

    names = [entry.name for entry in entries[1:]]
    assert all("-preferredversion/" in versioned for versioned in names[::2])
    for versioned, plain in zip(names[::2], names[1::2], strict=True):
        _, resource, directory, *rest = versioned.split("/")
        assert plain == "/".join(["resources", resource, *rest])
        assert extracted[versioned] == extracted[plain]
        preferred = discovery.preferred(resource)
        assert preferred is not None
        assert directory == f"{preferred.version}-preferredversion"
    await compare_with_cluster(client, discovery, extracted, world)
    assert f"resources/clusterroles.rbac.authorization.k8s.io/cluster/{world.prefix}:colon.json" in extracted
    assert f"resources/configmaps/namespaces/{world.namespaces[0]}/{LONG_NAME}.json" in extracted


def compact(obj: dict[str, Any]) -> str:
    """JSON without a blank too many, with what Go escapes."""
    text = json.dumps(obj, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


async def compare_with_cluster(
    client: KubeClient, discovery: Discovery, extracted: dict[str, bytes], world: World
) -> None:
    """Everything of the world is in there as the API server has it: nothing lost, nothing but JSON."""
    for item in (*world.items, Item("configmaps", world.namespaces[0], LONG_NAME)):
        if item.labels.get("velero.io/exclude-from-backup") == "true":
            continue
        place = f"namespaces/{item.namespace}" if item.namespace else "cluster"
        data = extracted[f"resources/{item.resource}/{place}/{item.name}.json"]
        resource = discovery.preferred(item.resource)
        assert resource is not None
        stored: dict[str, Any] = json.loads(data)
        assert stored == await client.get(resource, item.name, item.namespace or None)
        assert data.decode() == compact(stored)


@pytest.mark.spec("STO-038")
async def test_a_backup_of_nothing_has_all_files(
    control_plane: ControlPlane, tmp_path: Path, client: KubeClient
) -> None:
    await back_up(
        control_plane, tmp_path, "b1", label_selector=LabelSelector(match_labels={"no-such": "label"})
    )

    stored = files(tmp_path, "b1")
    assert gzip.decompress(stored["b1-resource-list.json.gz"]) == b"{}\n"
    for name in NULL_LISTS:
        assert gzip.decompress(stored[f"b1-{name}.json.gz"]) == b"null\n"
    assert listing(tmp_path / "backups/b1/b1.tar.gz") == "metadata/version\n"
    assert json.loads(stored["velero-backup.json"])["status"].get("errors", 0) == 0
