"""The files of a restore: written, read and deleted."""

import re
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final

from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore
from pinnace.api.volume_info import RestoredVolumeInfo
from pinnace.storage.documents import StoredObjects
from pinnace.storage.encoding import encode_list
from pinnace.storage.encryption import MOST_KEY_FILE_BYTES
from pinnace.storage.errors import ObjectNotFound, StorageError, UnreadableObject, combined
from pinnace.storage.interface import read_all
from pinnace.storage.location_files import LocationFiles
from pinnace.storage.sealed_files import key_owner
from pinnace.storage.writer_claim import ClaimSubject, WriterClaim

_JOURNAL_SUFFIX: Final = ".json.gz"


class RestoreFiles(LocationFiles):
    """Logs, results and records of restores; a read-only location takes them too. (docs/spec: STO 12)"""

    def claim_of_restore(self, restore: str, *, takes_over: bool) -> AbstractAsyncContextManager[WriterClaim]:
        """A context that holds the claim on the name of a restore for this process; see WriterClaim.on()."""
        key, subject = self._layout.restore_claim(restore), ClaimSubject("restore", restore)
        return self._claim(key, subject, takes_over=takes_over)

    async def has_restore(self, restore: str) -> bool:
        """Whether there is any file of a restore, besides the claim on its name, its journal and its keys."""
        layout = self._layout
        owner = key_owner(layout, layout.restore_metadata(restore))
        aside = (layout.restore_claim(restore), layout.restore_journals(restore, ""))
        keys = await self._store.list_keys(layout.restore_directory(restore))
        return any(not key.startswith(aside) and not (owner and owner.number(key)) for key in keys)

    async def share_key(self, restore: str, backup: str) -> None:
        """Encrypt the files of a restore by the key of its backup, if that has one.

        Raises:
            UnreadableObject: the key cannot be opened.
        """
        layout = self._layout
        owner = key_owner(layout, layout.restore_metadata(restore))
        source = key_owner(layout, layout.backup_metadata(backup))
        assert owner is not None, "their metadata lie in their directories"
        assert source is not None, "their metadata lie in their directories"
        for key in await self._sealed.follow(owner, source):
            content = await read_all(self._store, key, limit_bytes=MOST_KEY_FILE_BYTES)
            await self._put(owner.key_file(source.number(key)), content)

    async def put_restore_log(self, restore: str, log: Path) -> None:
        """Store the gzip'd log of a restore. (docs/spec: STO 4)"""
        await self._put_file(self._layout.target(DownloadTargetKind.RESTORE_LOG, restore), log)

    async def put_restore_results(self, restore: str, results: Mapping[str, Any]) -> None:
        """Store `{"errors": …, "warnings": …}` of a restore, in the form of the JSON file."""
        await self._put_object(DownloadTargetKind.RESTORE_RESULTS, restore, results)

    async def put_restore_outcomes(
        self, restore: str, resource_list: Mapping[str, Any], details: Mapping[str, Any]
    ) -> None:
        """Store the outcome of each object: Velero's resource list, and our details. (BEY 3.5)"""
        await self._put_object(DownloadTargetKind.RESTORE_RESOURCE_LIST, restore, resource_list)
        await self._put_object(DownloadTargetKind.RESTORE_OUTCOMES, restore, details)

    async def put_restore_volume_infos(self, restore: str, infos: Sequence[RestoredVolumeInfo]) -> None:
        """Store which volumes were filled, and from what. (docs/spec: BEY 3.7)"""
        entries = [encode(info) for info in infos]
        await self._put_list(DownloadTargetKind.RESTORE_VOLUME_INFO, restore, entries)

    async def read_restore_item_operations(self, restore: str) -> StoredObjects:
        """The operations of a restore, not checked; none if the file is missing. (docs/spec: BEY 3.8)"""
        return await self._read_list(self._layout.target("RestoreItemOperations", restore))

    async def put_restore_item_operations(
        self, restore: str, operations: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store the progress of the operations of a restore."""
        await self._put_list("RestoreItemOperations", restore, operations)

    async def read_restore_volume_patches(self, restore: str) -> StoredObjects:
        """The settings that volumes of a restore are to get, not checked; none if the file is missing."""
        return await self._read_list(self._layout.target("RestoreVolumePatches", restore))

    async def put_restore_volume_patches(self, restore: str, patches: Sequence[Mapping[str, Any]]) -> None:
        """Store the settings that volumes of a restore are to get when they exist. (ADR 073)"""
        await self._put_list("RestoreVolumePatches", restore, patches)

    async def put_restore_journal(
        self, restore: str, owner: str, number: int, entries: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store the next entries of the journal of a restore that is in progress. (ADR 131)"""
        await self._put(self._layout.restore_journal(restore, owner, number), encode_list(entries))

    async def read_restore_journal(
        self, restore: str, owner: str, *, most: int
    ) -> tuple[list[JSONObject], int]:
        """All entries of a journal in their order, and the number of its last file; 0 if there is none.

        Args:
            most: more entries are an UnreadableObject.
        """
        entries: list[JSONObject] = []
        keys = await self._journal_keys(restore, owner)
        for key in keys:
            entries += await self._read_list(key)
            if len(entries) > most:
                raise UnreadableObject(key, f"the journal has more than {most} entries")
        last = keys[-1].removesuffix(_JOURNAL_SUFFIX).rpartition("-")[2] if keys else "0"
        return entries, int(last)

    async def delete_restore_journal(self, restore: str, owner: str) -> None:
        """Delete the journal of a restore that has ended; nothing there is success."""
        for key in reversed(await self._journal_keys(restore, owner)):
            await self._store.delete(key)

    async def _journal_keys(self, restore: str, owner: str) -> list[str]:
        begin = self._layout.restore_journals(restore, owner)
        number = re.compile(re.escape(begin) + r"[0-9]{6,9}" + re.escape(_JOURNAL_SUFFIX))
        keys = await self._store.list_keys(self._layout.restore_directory(restore))
        found = [key for key in keys if number.fullmatch(key)]
        return sorted(found, key=lambda key: (len(key), key))

    async def put_restore_metadata(self, restore: str, metadata: bytes) -> None:
        """Store the Restore object, for use without a server, where no cluster keeps it."""
        await self._put(self._layout.restore_metadata(restore), metadata)

    async def get_restore_metadata(self, restore: str) -> bytes:
        """The file of put_restore_metadata(); ObjectNotFound where a server ran the restore."""
        return await self._read_metadata(self._layout.restore_metadata(restore))

    async def read_restore(self, restore: str) -> Restore:
        """The Restore object that put_restore_metadata() stored; ObjectNotFound where a server ran it."""
        try:
            return decode(Restore, await self.get_restore_metadata(restore), require_kind=True)
        except DecodeError as error:
            raise UnreadableObject(self._layout.restore_metadata(restore), str(error)) from error

    async def read_restore_results(self, restore: str) -> JSONObject:
        """The results of a restore. Raises ObjectNotFound if there are none."""
        key = self._layout.target(DownloadTargetKind.RESTORE_RESULTS, restore)
        results = await self._read_results(key)
        if results is None:
            raise ObjectNotFound(key)
        return results

    async def delete_restore(self, restore: str) -> None:
        """Delete all files of a restore; nothing there is success. Errors as in delete_backup()."""
        self._check_writable("delete restore")
        errors: list[StorageError] = []
        for key in await self._store.list_keys(self._layout.restore_directory(restore)):
            try:
                await self._store.delete(key)
            except StorageError as error:
                errors.append(error)
        if errors:
            raise combined(errors)
        await self._abort_abandoned(self._layout.restore_directory(restore))
