"""A location as a whole: whether it can be used, and what it holds."""

import math
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from pinnace.storage.errors import InvalidLocation, StorageError, StoreConfigError, UnreadableObject
from pinnace.storage.interface import read_all
from pinnace.storage.layout import (
    TOP_LEVEL_DIRECTORIES,
    check_name,
    directory_names,
    invalid_directories_message,
)
from pinnace.storage.location_files import SIGNED_URL_LIFETIME, LocationFiles
from pinnace.storage.object_lock import LOCK_MODE
from pinnace.storage.sealed_files import key_owner

_REPOSITORY_FILES = {"restic": ("config",), "kopia": ("kopia.repository", "kopia.repository.f")}
"""Files that every repository needs to be opened, by uploader. In a folder kopia's names end in `.f`."""


class WholeLocation(LocationFiles):
    """What is asked about a location, not about one backup or restore in it."""

    async def validate(self) -> None:
        """Check that the location can be listed and holds nothing foreign. (docs/spec: STO 7)

        Raises:
            InvalidLocation: there are directories at the root prefix that do not belong there.
            StoreConfigError: object lock is wanted, and the bucket has none.
        """
        if (message := invalid_directories_message(await self._directories())) is not None:
            raise InvalidLocation(message)
        await self.check_object_lock()

    async def check_object_lock(self) -> None:
        """Check that the bucket can hold files if the location asks for it.

        Raises:
            StoreConfigError: it cannot; the text says what to do.
        """
        if self._lock is None:
            return
        bucket = await self.bucket_lock()
        if not bucket.is_enabled:
            raise StoreConfigError(f"config.{LOCK_MODE} is {self._lock.mode}, but {bucket.reason}")

    async def too_short_a_life(self, life: timedelta) -> str:
        """Why a backup that expires so soon is refused: its bucket would hold it longer; empty if it is not.

        Raises:
            StorageError: the bucket cannot be asked.
        """
        if self._lock is None or life >= (default := (await self.bucket_lock()).default):
            return ""
        hours = math.ceil(default / timedelta(hours=1))
        return (
            f"the bucket holds every file for {hours}h, longer than the backup is to live: give it a time to"
            f" live (--ttl) of at least {hours}h, or shorten the bucket's default"
        )

    async def foreign_directories(self) -> list[str]:
        """The directories at the root prefix that do not belong to a location."""
        return [name for name in await self._directories() if name not in TOP_LEVEL_DIRECTORIES]

    async def is_inside_a_backup(self, directory: str = "") -> bool:
        """Whether the metadata of a backup is at the root prefix, or in a directory there."""
        return await self._store.exists(self._layout.stray_metadata(directory))

    async def _directories(self) -> list[str]:
        root = self._layout.root
        return directory_names(root, await self._store.list_prefixes(root))

    @asynccontextmanager
    async def probe(self, token: str) -> AsyncIterator[str]:
        """Write a small file, read it back, and delete it when the context is left.

        Args:
            token: sets the file apart from that of another probe.

        Yields:
            A signed URL of the file; empty if this store signs none.

        Raises:
            StorageError: one of these is not possible.
        """
        key, body = self._layout.probe(token), token.encode()
        self._check_writable("write a file to try it")
        try:
            await self._put(key, body)
            if await read_all(self._store, key, limit_bytes=len(body)) != body:
                raise UnreadableObject(key, "it is not what was written")
            try:
                url = await self._store.signed_url(key, SIGNED_URL_LIFETIME)
            except StorageError:
                url = ""  # some credentials can read and write, and cannot sign
            yield url
        finally:
            await self._store.delete(key)

    async def count_restic_locks(self) -> dict[str, int]:
        """How many locks each restic repository has; those of programs that ended stay until removed."""
        names = await self._names_below(self._layout.restic_repositories)
        counts = [len(await self._store.list_keys(self._layout.restic_locks(name))) for name in names]
        return dict(zip(names, counts, strict=True))

    async def has_repositories(self) -> bool:
        """Whether there is any repository of restic or kopia, by the folder that holds them."""
        return not _REPOSITORY_FILES.keys().isdisjoint(await self._directories())

    async def repository_namespaces(self, uploader: str) -> list[str]:
        """The namespaces that have a repository of restic or kopia, sorted."""
        names = await self._names_below(self._layout.repositories(uploader))
        return [name for name in names if await self.has_repository(uploader, name)]

    async def has_repository(self, uploader: str, namespace: str) -> bool:
        """Whether the file is there that every repository of restic or kopia needs to be opened."""
        prefix = self._layout.repository(uploader, namespace)
        for name in _REPOSITORY_FILES[uploader]:
            if await self._store.exists(f"{prefix}{name}"):
                return True
        return False

    async def has_repository_data(self, uploader: str, namespace: str) -> bool:
        """Whether there is any file where the repository of a namespace is, or was before it was damaged."""
        keys = await self._store.list_keys(self._layout.repository(uploader, namespace))
        # kopia notes in `.shards` how it names its files in a folder; that alone is nothing.
        return any(not key.endswith("/.shards") for key in keys)

    async def list_backups(self) -> list[str]:
        """The names of all directories of backups, sorted, finished or not: ask exists(). (STO 6)"""
        return await self._names_below(self._layout.backups)

    async def backups_without_keys(self) -> tuple[list[str], list[str]]:
        """The finished backups that have no key file: the plain ones, and those that have lost it; sorted.

        The names of their files tell them apart: only an encrypted backup has a list of its data outside.
        """
        files: dict[str, set[str]] = defaultdict(set)
        for key in await self._store.list_keys(self._layout.backups):
            files[key.removeprefix(self._layout.backups).partition("/")[0]].add(key)
        plain: list[str] = []
        keyless: list[str] = []
        for name in sorted(filter(_is_name, files)):
            metadata = self._layout.backup_metadata(name)
            owner = key_owner(self._layout, metadata)
            if owner is None or metadata not in files[name] or any(map(owner.number, files[name])):
                continue
            sealed = {self._layout.plain_list(name), self._layout.backup_details(name)}
            (plain if sealed.isdisjoint(files[name]) else keyless).append(name)
        return plain, keyless

    async def refused_for_no_manifest(self) -> list[str]:
        """The finished backups without a manifest, sorted; none unless the location requires signatures."""
        if not self._signatures.required:
            return []
        keys = set(await self._store.list_keys(self._layout.backups))
        names = {key.removeprefix(self._layout.backups).partition("/")[0] for key in keys}
        return [
            name
            for name in sorted(filter(_is_name, names))
            if self._layout.backup_metadata(name) in keys and self._layout.backup_manifest(name) not in keys
        ]

    async def try_recipients(self) -> None:
        """Wrap a key, which is thrown away, for the recipients and the keys of services of the location.

        Raises:
            KMSError, AgePluginFailed: one of them does not take it.
        """
        await self._sealed.try_recipients()

    async def list_restores(self) -> list[str]:
        """The names of all directories of restores, sorted."""
        return await self._names_below(self._layout.restores)

    async def _names_below(self, parent: str) -> list[str]:
        names = directory_names(parent, await self._store.list_prefixes(parent))
        return [name for name in names if _is_name(name)]


def _is_name(name: str) -> bool:
    """Whether a backup or restore can have the name of a directory in the bucket; others are ignored."""
    try:
        check_name(name)
    except StorageError:
        return False
    return True
