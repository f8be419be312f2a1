"""Backups and restores read straight from a location, without a server.

A location is not trusted: what does not decode as a Backup or Restore is left out with a warning, and a
directory's name counts, whatever name the file in it claims.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Final

import orjson

from pinnace.age.identities import Identities
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.counts import counted, first_names
from pinnace.api.values.shell_words import argument
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.pod_volume import PodVolumeBackup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.client.caller import Caller
from pinnace.client.errors import (
    ClientError,
    FileMissing,
    InvalidArgument,
    NoSuchObject,
    PartsUnsupported,
    Unrecorded,
)
from pinnace.client.interface import DownloadOptions, instead_of
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import (
    InvalidLocation,
    ObjectNotFound,
    RangesUnsupported,
    StorageError,
    StoreUnavailable,
    UnreadableObject,
)
from pinnace.storage.inner_folders import inner_folder
from pinnace.storage.location_url import location_from_url, location_title
from pinnace.storage.open import open_backup_store

PARALLEL_READS = 16
_NAMES_SHOWN: Final = 10
_BUCKET_LIKE: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^/]+)*/?")
"""A text that may be a bucket and a prefix whose scheme was left out."""
_UNRECORDED: Final = {
    "backups": "such as those of an unfinished or failed backup",
    "restores": "such as those of a restore that a server made or that was killed",
}
"""Why files may be there without a record: only a restore without a server stores one."""


class LocationBackend:
    """Reads the files of one location.

    Attributes:
        location: the location as an object; no cluster has it.
        store: its backups and restores.
    """

    def __init__(
        self, store: BackupStore, location: BackupStorageLocation, caller: Caller | None = None
    ) -> None:
        self.location = location
        self.store = store
        self._caller = caller or Caller()
        self._recorded: dict[str, set[str]] = {}

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        caller: Caller | None = None,
        *,
        namespace: str = "velero",
        create: bool = False,
        identities: Identities | None = None,
    ) -> AsyncIterator["LocationBackend"]:
        """Open the location.

        Args:
            url: a path or URL.
            caller: how messages name the program that calls.
            namespace: where its objects would be, had they a cluster.
            create: a folder that is not there is made by the first write; else it is an error, so that a
                mistyped one does not pass for one without backups. (docs/adr/007)
            identities: open encrypted backups.

        Raises:
            InvalidArgument: the URL names no usable location. The text does not repeat the URL, which
                may contain credentials.
        """
        caller = caller or Caller()
        try:
            location = location_from_url(url, namespace=namespace)
            store = open_backup_store(location, create=create).opened_by(identities)
        except StorageError as error:
            # Texts about a setting that is missing speak of the config of an object, which no URL has.
            lacks_setting = "://" in url and " config" in str(error)
            more = f"; in a URL, as ?NAME=VALUE: see `{caller.program} help locations`"
            if isinstance(error, StoreUnavailable) and _BUCKET_LIKE.fullmatch(url):
                more = f"a bucket is written as s3://{url}, see `{caller.program} help locations`"
                raise InvalidArgument(f"--location: {error}; {more}") from error
            raise InvalidArgument(f"--location: {error}{more if lacks_setting else ''}") from error
        async with store:
            yield cls(store, location, caller)

    @property
    def title(self) -> str:
        """The location as a person names it."""
        return location_title(self.location)

    async def object(self, plural: str, name: str) -> JSONObject:
        try:
            if plural == "backups":
                return _raw(Backup, await self._backup_metadata(name), name)
            return _raw(Restore, await self.store.get_restore_metadata(name), name)
        except ObjectNotFound as error:
            raise await self.not_found(plural, name) from error
        except UnreadableObject as error:
            raise UnreadableMetadata(plural.removesuffix("s"), name, error) from error

    async def _backup_metadata(self, name: str) -> bytes:
        """The metadata of a backup, finished or waiting for operations. Raises ObjectNotFound."""
        try:
            return await self.store.full_metadata(name)
        except ObjectNotFound:
            return await self.store.parked().full_metadata(name)

    async def absence(self) -> str:
        return ""

    async def objects(self, plural: str, selector: str = "") -> list[JSONObject]:
        if plural not in ("backups", "restores"):
            return []  # requests and the like exist only with a server
        return await self._read_all(plural, selector)

    async def remark(self) -> str:
        """A warning about folders that do not belong to backups; no backup is written beside them."""
        foreign = await self.store.foreign_directories()
        if not foreign or not await self.names("backups"):
            return ""  # of a location without backups, `why_empty` says so
        named = first_names(foreign, _NAMES_SHOWN)
        return (
            f"WARNING: {self.title} also holds folders that are not of backups: {named}. They are left"
            " alone, but `backup create` refuses to write among them: give it an empty folder or prefix."
        )

    async def why_empty(self, plural: str) -> str:
        """The folders without readable metadata, or why the location does not look like one of backups.

        Objects whose record was read and did not match the selector are no reason.
        """
        recorded = self._recorded.get(plural, set())
        unread = [name for name in await self.names(plural) if name not in recorded]
        if unread:
            noun = plural.removesuffix("s")
            return (
                f"it has files of {counted(len(unread), noun)} without a readable record,"
                f" {_UNRECORDED[plural]}: {first_names(unread, _NAMES_SHOWN)}"
            )
        if recorded:
            return ""
        if inner := await self.inner_folder():
            return inner
        if foreign := await self._foreign():
            return (
                f"it does not look like a location of backups: {foreign}; if they lie in a folder"
                " or under a prefix, add it to the location"
            )
        if plural == "backups" and not self.location.spec.object_storage.prefix:
            return "if they lie under a prefix, add it to the location" if self._is_bucket else ""
        return ""

    async def _foreign(self) -> str:
        """The content that does not belong into a location; empty without any, or if it cannot be read."""
        try:
            await self.store.validate()
        except InvalidLocation as error:
            return str(error)
        except StorageError:
            return ""
        return ""

    async def inner_folder(self) -> str:
        """What the location is instead, if a folder inside of one was given; else empty."""
        try:
            return await inner_folder(self.store, self.location)
        except StorageError:
            return ""

    @property
    def _is_bucket(self) -> bool:
        return "://" in self.title

    async def not_found(self, plural: str, name: str) -> NoSuchObject:
        """The error for a name that no object has, with the names that there are."""
        noun = plural.removesuffix("s")
        try:
            names = await self.names(plural)
            more = instead_of(name, names, plural, self.title)
        except StorageError:
            names, more = [], ""
        if name in names:
            return Unrecorded(
                f'{plural}.velero.io "{name}" not found; {self.title} has files of that {noun} without its'
                f" record, {_UNRECORDED[plural]}: "
                + self._caller.pasteable(
                    f"`{noun} logs {argument(name)}` shows its log if there is one,"
                    f" and `{noun} delete {argument(name)}` deletes them"
                )
            )
        if inner := await self.inner_folder():
            more += f": {inner}"
        return NoSuchObject(f'{plural}.velero.io "{name}" not found{more}')

    async def names(self, plural: str) -> list[str]:
        """The names of the directories, whether or not their files can be read."""
        store = self.store
        return await (store.list_backups() if plural == "backups" else store.list_restores())

    async def unreadable(self, plural: str, *, besides: Collection[str]) -> list[str]:
        """The names, except those in `besides`, of objects whose metadata exists and cannot be used."""
        found = []
        for name in await self.names(plural):
            if name not in besides:
                try:
                    await self.object(plural, name)
                except UnreadableMetadata:
                    found.append(name)
                except NoSuchObject:
                    pass  # unfinished: it has no metadata yet
        return found

    async def volumes_of(self, backup: str) -> Sequence[JSONObject]:
        volumes = await self.store.read_pod_volume_backups(backup)
        try:
            for volume in volumes:
                decode(PodVolumeBackup, volume)
        except DecodeError as error:
            raise StorageError(str(error)) from error
        return volumes  # as they are stored, with the fields of later versions

    async def tarball_bytes(self, backup: str) -> int | None:
        return await self.store.contents_size(backup)

    async def csi_contents_of(self, backup: str) -> Sequence[JSONObject]:
        contents = await self.store.read_csi_volume_snapshot_contents(backup)
        for content in contents:
            name = (content.get("metadata") or {}).get("name")
            if not isinstance(name, str) or not isinstance(content.get("status"), dict | None):
                raise StorageError("not a list of VolumeSnapshotContents")
        return contents

    async def _read_all(self, plural: str, selector: str) -> list[JSONObject]:
        """Read many metadata files at once. A missing one is left out; a broken one is a warning."""
        try:
            chosen = Selector.parse(selector)
        except ValueError as error:
            raise InvalidArgument(f'couldn\'t parse the selector string "{selector}": {error}') from error
        limit = asyncio.Semaphore(PARALLEL_READS)

        async def read_one(name: str) -> JSONObject | None:
            async with limit:
                try:
                    return await self.object(plural, name)
                except NoSuchObject:
                    return None
                except StorageError as error:
                    self._caller.warn(f"WARNING: {error}")
                    return None

        names = await self.names(plural)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(read_one(name)) for name in names]
        found = [obj for task in tasks if (obj := task.result()) is not None]
        self._recorded[plural] = {obj["metadata"]["name"] for obj in found}
        return [obj for obj in found if chosen.matches(obj["metadata"].get("labels"))]

    def stored_file(
        self, kind: DownloadTargetKind, name: str, options: DownloadOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._opened(self.store.read_bytes(kind, name), options)

    def stored_part(
        self, kind: DownloadTargetKind, name: str, span: tuple[int, int], options: DownloadOptions
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._opened(self.store.read_range(kind, name, *span), options)

    @asynccontextmanager
    async def _opened(
        self, reading: AbstractAsyncContextManager[AsyncIterator[bytes]], options: DownloadOptions
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Begin to read a file within the deadline."""
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(options.timeout_seconds):
                    chunks = await stack.enter_async_context(reading)
            except ObjectNotFound as error:
                raise FileMissing("file not found") from error
            except RangesUnsupported as error:
                raise PartsUnsupported(str(error)) from error
            except TimeoutError as error:
                raise ClientError(
                    f"{self.title} did not answer within {options.timeout_seconds:g} seconds"
                ) from error
            yield chunks


class UnreadableMetadata(StorageError):
    """The metadata of a backup or restore is there and cannot be used."""

    def __init__(self, noun: str, name: str, reason: Exception) -> None:
        super().__init__(f"the metadata of {noun} {name} cannot be read: {reason}")


def _raw(struct: type[Backup | Restore], data: bytes, name: str) -> JSONObject:
    """The object as it is stored, fields of newer versions included, once it is sure to be of the kind.

    Raises:
        UnreadableMetadata: it is not; everything that shows objects may rely on the types in it.
    """
    try:
        decode(struct, data, require_kind=True)
        raw: JSONObject = orjson.loads(data)
    except (DecodeError, orjson.JSONDecodeError) as error:
        raise UnreadableMetadata(struct.__name__.lower(), name, error) from error
    raw["metadata"] = {**(raw.get("metadata") or {}), "name": name}
    return raw


_FIRST_LINE: Final = re.compile(rb'Starting restore of backup [^/"\s]+/([^"\\\s]+)')
_MOST_BYTES: Final = 64 * 1024
"""How much of a log is searched for the line, which is among its first."""


async def backup_of_restore(store: BackupStore, restore: str) -> str | None:
    """Return the backup that a restore was made from, by the log of the restore; None if it is unknown."""
    head = b""
    try:
        async with store.read_text(DownloadTargetKind.RESTORE_LOG, restore) as log:
            async for block in log:
                head += block
                if len(head) >= _MOST_BYTES or _FIRST_LINE.search(head + b" "):
                    break
    except StorageError:
        return None
    found = _FIRST_LINE.search(head[:_MOST_BYTES])
    return found[1].decode(errors="replace") if found else None
