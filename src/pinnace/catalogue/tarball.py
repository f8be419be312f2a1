"""Reads objects of a backup's tarball as records of its volumes; those that cannot be read are left out."""

import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import orjson

from pinnace.api.objects import JSONObject
from pinnace.archive.errors import ArchiveError
from pinnace.archive.reader import ArchiveIndex
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import ObjectNotFound


class Tarball:
    """The tarball of one backup, which is downloaded when it is first asked for.

    An async context manager, which removes it.

    Args:
        workdir: for the tarball; None for the system's temporary folder.
    """

    def __init__(self, store: BackupStore, backup: str, workdir: Path | None) -> None:
        self._store = store
        self._backup = backup
        self._workdir = workdir
        self._opened = AsyncExitStack()
        self._archive: ArchiveIndex | None = None
        self._is_read = False

    async def __aenter__(self) -> "Tarball":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._opened.aclose()

    async def archive(self) -> ArchiveIndex | None:
        """The tarball; None if the backup has none.

        Raises:
            StorageError: it cannot be fetched.
            ArchiveError: it is damaged.
        """
        if self._is_read:
            return self._archive
        folder = Path(
            self._opened.enter_context(tempfile.TemporaryDirectory(prefix="catalogue-", dir=self._workdir))
        )
        path = folder / "contents.tar.gz"
        try:
            await self._store.download_contents(self._backup, path)
        except ObjectNotFound:
            pass
        else:
            self._archive = self._opened.enter_context(await ArchiveIndex.open(path, folder))
        self._is_read = True
        return self._archive


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
