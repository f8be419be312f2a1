"""Locations that real Velero servers wrote, and backups of ours beside each other."""

import asyncio
import gzip
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from tests.support import golden

START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty location, which all commands of the test use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "location"
    folder.mkdir()
    monkeypatch.setenv("PINNACE_LOCATION", str(folder))
    return folder


@pytest.fixture(params=golden.VERSIONS)
def velero(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bucket of a Velero server as location, which all commands of the test use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    bucket = golden.unpack(request.param, tmp_path)
    monkeypatch.setenv("PINNACE_LOCATION", str(bucket))
    return bucket


def config_map(name: str, namespace: str = "shop", *, version: str = "1", **data: str) -> JSONObject:
    """A config map as the API server stores it."""
    return _object("ConfigMap", name, namespace, version, data)


def secret(name: str, namespace: str = "shop", *, version: str = "1", **data: str) -> JSONObject:
    """A Secret with its values in clear text, which is enough to see whether they are shown."""
    return _object("Secret", name, namespace, version, data)


def _object(kind: str, name: str, namespace: str, version: str, data: Mapping[str, str]) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{name}",
            "resourceVersion": version,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": name},
        },
        "data": dict(data),
    }


def store(folder: Path, name: str, objects: list[JSONObject], *, index: bool = True, day: int = 0) -> Path:
    """Store a finished backup of ours. Returns its directory."""
    directory = folder / "backups" / name
    directory.mkdir(parents=True)
    path = directory / f"{name}-pinnace-index.json.gz"
    listed = asyncio.run(_write(directory / f"{name}.tar.gz", path if index else None, objects))
    started = START + timedelta(days=day)
    backup = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": name, "namespace": "velero"},
        "spec": {"storageLocation": "default"},
        "status": {
            "phase": "Completed",
            "startTimestamp": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "completionTimestamp": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        },
    }
    (directory / "velero-backup.json").write_bytes(orjson.dumps(backup))
    (directory / f"{name}-resource-list.json.gz").write_bytes(gzip.compress(orjson.dumps(listed)))
    return directory


async def _write(tarball: Path, index: Path | None, objects: list[JSONObject]) -> dict[str, list[str]]:
    listed: dict[str, list[str]] = {}
    async with ArchiveWriter(tarball, clock=lambda: START, index=index) as writer:
        for obj in objects:
            metadata = obj["metadata"]
            namespace, name = metadata["namespace"], metadata["name"]
            resource = f"resources/{obj['kind'].lower()}s/"
            heads = [f"{resource}{head}namespaces/{namespace}/" for head in ("v1-preferredversion/", "")]
            directories = [MemberDirectory(head) for head in heads]
            writer.add_copies(directories, f"{name}.json", b"", orjson.dumps(obj))
            await writer.flush_if_full()
            listed.setdefault(f"v1/{obj['kind']}", []).append(f"{namespace}/{name}")
    return listed
