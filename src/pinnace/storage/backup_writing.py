"""Writes and deletes the files of a backup, in the order that makes it exist as a whole or not at all."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from pinnace.aio.blocking import finish, in_thread
from pinnace.api.codec import encode
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.volume_info import BackupVolumeInfo
from pinnace.storage.backup_files import BackupFiles, StoredFile, stored_bytes
from pinnace.storage.backup_reading import BackupReading
from pinnace.storage.errors import BackupExists, ClaimLost, StorageError, combined
from pinnace.storage.location_files import StoredUnchecked
from pinnace.storage.patience import Patience, impatient
from pinnace.storage.together import together
from pinnace.storage.writer_claim import ClaimSubject, WriterClaim, owner_of, writer_of

_logger = logging.getLogger(__name__)

_UNDO_SECONDS = 120.0
_CLOCKS_DIFFER = timedelta(minutes=5)
"""By how much the clocks of a server and of a store may differ."""


class BackupWriting(BackupReading):
    """Stores, finishes and deletes backups, under claims on their names."""

    async def put_backup(
        self,
        files: BackupFiles,
        *,
        sent: Callable[[int], None] | None = None,
        patience: Patience | None = None,
        claim: WriterClaim | None = None,
    ) -> None:
        """Store a backup: log, then tarball and side files, then the metadata that makes it exist.

        Everything is encoded before anything is stored, and each file's size is asked for before the metadata
        is stored. A failure or cancellation removes what was stored, except the log, which helps to find out
        why; a log that cannot be stored is only reported to the process's own log. Without metadata only the
        log is stored. Of several processes that write a backup of one name at once, one succeeds and the
        others change nothing.

        Args:
            sent: called with the size in bytes of each block of the large files that the store takes, and
                with the negative size of what it took of a file that is sent again.
            patience: with a store that is away; None for none. A file is not sent again before the claim was
                read and is still this process's.
            claim: on the name of this backup, if the caller has it and renews it; None takes it here.

        Raises:
            ReadOnlyLocation: the location is read-only.
            BackupExists: a finished backup of this name exists; it was not changed.
            BackupBeingWritten: another process writes a backup of this name.
            ClaimLost: another process took over, as this one did not renew its claim in time.
        """
        patience, sent = patience or impatient(), sent or (lambda _: None)
        if claim is not None:
            await self._put_unless_exists(files, _Upload(claim, patience, sent))
            return
        async with self.claim_of_backup(files.name, owner=files.owner, patience=patience) as own:
            await own.hold(self._put_unless_exists(files, _Upload(own, patience, sent)))

    def claim_of_backup(
        self, backup: str, *, owner: str = "", patience: Patience | None = None
    ) -> AbstractAsyncContextManager[WriterClaim]:
        """A context that holds the claim on the name of a backup for this process; see WriterClaim.on().

        Raises:
            ReadOnlyLocation: the location is read-only.
        """
        self._check_writable(f"write backup {backup}")
        key, subject = self._layout.writer_claim(backup), ClaimSubject("backup", backup, owner)
        return WriterClaim.on(self._store, key, subject, clock=self._clock, patience=patience)

    async def writer_of_backup(self, backup: str) -> str:
        """The process that has the claim on the name of a backup; empty for none. Raises StorageError."""
        return await writer_of(self._store, self._layout.writer_claim(backup))

    async def _put_unless_exists(self, files: BackupFiles, upload: "_Upload") -> None:
        """Store a backup under the claim on its name. Raises BackupExists."""
        if await upload.patience.insist(lambda: self.exists(files.name)):
            raise BackupExists(files.name)
        if upload.claim.was_abandoned:
            await self._abort_uploads(self._layout.backup_directory(files.name))
        await self._put_claimed(files, upload)

    async def abort_interrupted(self, backup: str, owner: str, began: datetime | None) -> None:
        """Abort the uploads of a run that died while it wrote a backup; its parts cost until somebody does.

        Nothing is touched unless the claim on the name is that run's: another process may write a backup of
        this name now, and would have taken the claim over.

        Args:
            owner: the uid of its Backup.
            began: when the run did; uploads that are older are left alone.

        Raises:
            StorageError: the claim cannot be read.
        """
        if self._read_only or not owner:
            return
        if await owner_of(self._store, self._layout.writer_claim(backup)) == owner:
            since = began - _CLOCKS_DIFFER if began is not None else None
            await self._abort_uploads(self._layout.backup_directory(backup), since=since)

    async def _put_claimed(self, files: BackupFiles, upload: "_Upload") -> None:
        """Store a backup as put_backup() says, with the claim on its name."""
        try:
            side_files = await in_thread(files.encoded, self._layout)
        except StorageError:
            await self._put_log(files, upload)
            raise
        await self._put_log(files, upload)
        if files.metadata is None:
            return
        whole_files = {
            self._layout.target(kind, files.name): path
            for kind, path in (
                (DownloadTargetKind.BACKUP_CONTENTS, files.contents),
                (DownloadTargetKind.ITEM_INDEX, files.index),
            )
            if path is not None
        }
        try:
            await together(
                *(
                    upload.insist(partial(self._put_file, key, path, upload.sent))
                    for key, path in whole_files.items()
                ),
                *(upload.insist(partial(self._put, key, body)) for key, body in side_files.items()),
            )
            await upload.patience.insist(upload.claim.check)
            await upload.insist(partial(self._put_metadata, files.name, files.metadata))
        except BaseException as error:  # whatever it was: an unfinished backup must not stay; passed on
            await self._undo(files.name, [*whole_files, *side_files], upload.claim, error)
            raise

    async def _put_log(self, files: BackupFiles, upload: "_Upload") -> None:
        if files.log is None:
            return
        try:
            key = self._layout.target(DownloadTargetKind.BACKUP_LOG, files.name)
            await upload.insist(partial(self._put_file, key, files.log, upload.sent))
        except StorageError as error:
            _logger.warning("The log of backup %s could not be stored: %s", files.name, error)

    async def _put_metadata(self, backup: str, metadata: bytes) -> StoredFile:
        key = self._layout.backup_metadata(backup)
        try:
            return await self._put(key, metadata)
        except StoredUnchecked as error:
            # The put itself succeeded. Deleting the file would hardly succeed where asking for its size did
            # not, and a finished backup would stay that is reported as Failed.
            _logger.warning("The metadata of backup %s was stored, but not checked: %s", backup, error)
            return stored_bytes(key, metadata)

    async def _undo(self, backup: str, keys: list[str], claim: WriterClaim, cause: BaseException) -> None:
        """Remove an unfinished backup, unless its files belong to another process, or may belong to one.

        Raises what went wrong together with a StorageError as the cause.
        """

        async def remove() -> list[StorageError]:
            try:
                await claim.check()
            except ClaimLost:
                return []
            except StorageError as error:
                return [error]
            return await self._delete_all(backup, keys)

        try:
            errors = await finish(remove(), limit_seconds=_UNDO_SECONDS)
        except TimeoutError:
            errors = [StorageError(f"removing unfinished backup {backup!r} took too long")]
        if errors and isinstance(cause, StorageError):
            raise combined([cause, *errors]) from cause

    async def _delete_all(self, backup: str, keys: list[str]) -> list[StorageError]:
        """Delete a backup's metadata and then `keys`; all are tried, unless the metadata has to stay.

        A backup that still has its metadata looks finished, and therefore must stay complete.
        """
        errors: list[StorageError] = []
        metadata_key = self._layout.backup_metadata(backup)
        for key in (metadata_key, *(key for key in keys if key != metadata_key)):
            try:
                await self._store.delete(key)
            except StorageError as error:
                errors.append(error)
                if key == metadata_key:
                    break
        return errors

    async def delete_backup(self, backup: str) -> None:
        """Delete all files of a backup, known or not; nothing there is success. (docs/spec: STO 6, BEY 11.1)

        Raises:
            ReadOnlyLocation: the location is read-only.
            StorageError: `[a, c]` if several deletions failed; can be tried again.
        """
        self._check_writable("delete backup")
        keys = await self._store.list_keys(self._layout.backup_directory(backup))
        if errors := await self._delete_all(backup, keys):
            raise combined(errors)
        await self._abort_abandoned(self._layout.backup_directory(backup))

    async def put_backup_log(self, backup: str, log: Path) -> None:
        """Store the gzip'd log of a backup in place of the former one."""
        self._check_writable(f"write the log of backup {backup}")
        await self._put_file(self._layout.target(DownloadTargetKind.BACKUP_LOG, backup), log)

    async def put_index(self, backup: str, index: Path) -> None:
        """Store the index of a finished backup that has none, or a damaged one."""
        self._check_writable(f"write the index of backup {backup}")
        await self._put_file(self._layout.target(DownloadTargetKind.ITEM_INDEX, backup), index)

    async def put_volume_infos(self, backup: str, infos: Sequence[BackupVolumeInfo]) -> None:
        """Store what became of the volumes of a backup, which is finished only after them."""
        self._check_writable(f"write backup {backup}")
        await self._put_list("BackupVolumeInfos", backup, [encode(info) for info in infos])

    async def put_item_operations(self, backup: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """Store the progress of the operations of a backup, which is finished only after them."""
        self._check_writable(f"write backup {backup}")
        await self._put_list("BackupItemOperations", backup, operations)

    async def finish_backup(
        self,
        backup: str,
        metadata: bytes,
        *,
        contents: Path | None = None,
        index: Path | None = None,
        resource_list: Mapping[str, Sequence[str]] | None = None,
        results: Mapping[str, Any] | None = None,
    ) -> None:
        """Store a backup's final metadata, after the files that have changed since it was stored.

        Each file takes the place of its former version as a whole: a backup that is not finished stays as it
        was, and can be finished again.
        """
        self._check_writable(f"write backup {backup}")
        target = self._layout.target
        if contents is not None:
            # Of a process that died here before.
            await self._abort_uploads(self._layout.backup_directory(backup))
            await self._put_file(target(DownloadTargetKind.BACKUP_CONTENTS, backup), contents)
        if index is not None:
            await self._put_file(target(DownloadTargetKind.ITEM_INDEX, backup), index)
        if resource_list is not None:
            await self._put_object(DownloadTargetKind.BACKUP_RESOURCE_LIST, backup, resource_list)
        if results is not None:
            await self._put_object("BackupResults", backup, results)
        await self._put_metadata(backup, metadata)


class _Upload(msgspec.Struct, frozen=True):
    """The upload of one backup: its claim, its patience, and who is told how much was sent.

    Attributes:
        stored: what has been stored of the backup, in the order of its ends.
    """

    claim: WriterClaim
    patience: Patience
    sent: Callable[[int], None]
    stored: list[StoredFile] = msgspec.field(default_factory=list)

    async def insist(self, put: Callable[[], Awaitable[StoredFile]]) -> None:
        """Store one file. While the store was away, another process may have taken the claim over."""
        self.stored.append(await self.patience.insist(put, before_again=self.claim.check))
