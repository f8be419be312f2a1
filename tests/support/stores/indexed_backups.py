"""Small backups with and without an index, written into a folder as a backup leaves them."""

import asyncio
import gzip
import tarfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import orjson

from pinnace.api.objects import JSONObject
from pinnace.archive.item_index import IndexedItem, IndexParser
from pinnace.archive.tarformat import MemberDirectory
from pinnace.archive.writer import ArchiveWriter
from tests.support.clock import FakeClock

START = datetime(2026, 1, 1, tzinfo=UTC)


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
    async with ArchiveWriter(tarball, clock=FakeClock(now=START), index=index) as writer:
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


def entries(index: Path) -> list[IndexedItem]:
    """What an index says of each item."""
    parser = IndexParser()
    found = [entry for batch in parser.feed(index.read_bytes()) for entry in batch]
    parser.finish()
    return found


def rewrite(tarball: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> None:
    """Rewrite a tarball with each member changed, or left out."""
    buffer = BytesIO()
    with tarfile.open(tarball) as old, tarfile.open(fileobj=buffer, mode="w:gz") as new:
        for member in old:
            source = old.extractfile(member)
            assert source is not None
            changed = change(member.name, source.read())
            if changed is not None:
                member.name, data = changed
                member.size = len(data)
                new.addfile(member, BytesIO(data))
    tarball.write_bytes(buffer.getvalue())
