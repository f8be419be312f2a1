"""Reads objects of a backup's tarball as records of its volumes; those that cannot be read are left out."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound


@asynccontextmanager
async def opened_tarball(
    store: BackupStore, backup: str, workdir: Path | None
) -> AsyncIterator[ArchiveIndex | None]:
    """The tarball of a backup, in a temporary folder; None if the backup has none.

    Args:
        workdir: for that folder; None for the system's.

    Raises:
        StorageError: it cannot be fetched.
        ArchiveError: it is damaged.
    """
    with tempfile.TemporaryDirectory(prefix="catalogue-", dir=workdir) as folder:
        path = Path(folder) / "contents.tar.gz"
        try:
            await store.download_contents(backup, path)
        except ObjectNotFound:
            yield None
            return
        with await ArchiveIndex.open(path, Path(folder)) as archive:
            yield archive


@asynccontextmanager
async def opened_file(path: Path | None, workdir: Path) -> AsyncIterator[ArchiveIndex | None]:
    """A tarball that is to be stored; None without one. Raises ArchiveError if it is damaged, OSError."""
    if path is None:
        yield None
        return
    with (
        tempfile.TemporaryDirectory(prefix="catalogue-", dir=workdir) as folder,
        await ArchiveIndex.open(path, Path(folder)) as archive,
    ):
        yield archive


def read_item(archive: ArchiveIndex, group_resource: str, namespace: str, name: str) -> JSONObject | None:
    """Read an object; None if it cannot be read."""
    try:
        obj = orjson.loads(archive.read(group_resource, namespace, name))
    except (ArchiveError, orjson.JSONDecodeError):
        return None
    return obj if isinstance(obj, dict) else None


def stored_objects(archive: ArchiveIndex, group_resource: str) -> Iterator[JSONObject]:
    """The objects of a kind that can be read."""
    for namespace in archive.namespaces(group_resource):
        for name in archive.names(group_resource, namespace):
            if (found := read_item(archive, group_resource, namespace, name)) is not None:
                yield found
