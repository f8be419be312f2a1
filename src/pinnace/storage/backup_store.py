"""Backups and restores in one location: the only code that knows the keys and the order of writing them.

A backup exists when its `velero-backup.json` does, so that file is written last and deleted first: whenever
a process dies, a backup either is complete or does not exist. Velero writes it earlier and takes it back on
failure; the result is the same where nothing dies. (docs/spec: STO 5, 6)
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec
import orjson

from pinnace.aio.blocking import finish, in_thread
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence
from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.json_memory import most_memory
from pinnace.api.objects import JSONObject, names_by_kind
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.snapshots import VolumeSnapshot, decode_snapshots
from pinnace.api.volume_info import BackupVolumeInfo, RestoredVolumeInfo
from pinnace.storage.backup_files import BackupFiles, CountedFile
from pinnace.storage.documents import (
    MOST_LIST_BYTES,
    MOST_RESULTS_BYTES,
    DocumentError,
    ListDocument,
    StoredObjects,
    TreeDocument,
    object_of,
)
from pinnace.storage.encoding import Document, decompress_stream, encode_list, encode_object, read_document
from pinnace.storage.errors import (
    BackupExists,
    ClaimLost,
    InvalidLocation,
    NotLeading,
    ObjectNotFound,
    RangesUnsupported,
    ReadOnlyLocation,
    StorageError,
    StoreUnavailable,
    UnreadableObject,
    combined,
)
from pinnace.storage.fenced import FencedStore
from pinnace.storage.interface import (
    ObjectStore,
    RangedStore,
    UploadsStore,
    VersionedStore,
    read_all,
    save_stream,
)
from pinnace.storage.layout import (
    TOP_LEVEL_DIRECTORIES,
    Layout,
    check_name,
    directory_names,
    invalid_directories_message,
)
from pinnace.storage.patience import Patience, impatient
from pinnace.storage.together import together
from pinnace.storage.writer_claim import ClaimSubject, WriterClaim, owner_of, writer_of

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_REPOSITORY_FILES = {"restic": ("config",), "kopia": ("kopia.repository", "kopia.repository.f")}
"""Files that every repository needs to be opened, by uploader. In a folder kopia's names end in `.f`."""

_UNDO_SECONDS = 120.0
_CLOCKS_DIFFER = timedelta(minutes=5)
"""By how much the clocks of a server and of a store may differ."""
_LONGEST_UPLOAD = timedelta(hours=1)
"""An unfinished upload that was begun so long ago counts as abandoned where its backup is deleted."""
SIGNED_URL_LIFETIME = timedelta(minutes=10)
"""How long a signed URL can be used. (docs/spec: STO 9)"""


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a file is taken into memory; a location is not trusted. Streams have no limit.

    Attributes:
        metadata_bytes: the Backup or Restore object as stored: what etcd takes, and room for the indentation.
        metadata_memory_bytes: that object decoded; four are decoded at once where backups are made known.
        list_bytes: the JSON of every list of objects.
    """

    metadata_bytes: int = 4 << 20
    metadata_memory_bytes: int = 16 << 20
    list_bytes: int = MOST_LIST_BYTES


class BackupStore:
    """The backups and restores of one location. An async context manager that closes its store.

    All methods raise StorageError kinds only. Names of backups and restores are checked before they become
    part of a key.
    """

    def __init__(
        self,
        store: ObjectStore,
        layout: Layout,
        *,
        location: str,
        read_only: bool = False,
        limits: ReadLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Args:
        store: closed by close().
        layout: the location's root prefix.
        location: name of the location, for messages.
        read_only: refuse to write or delete backups and to delete restores; logs and results of restores are
            written, as Velero does. (docs/spec: STO 12)
        limits: for reading.
        clock: of writers' claims.
        """
        self._store = store
        self._layout = layout
        self._location = location
        self._read_only = read_only
        self._limits = limits or ReadLimits()
        self._clock = clock

    def fenced(self, fence: Fence | None) -> Self:
        """This location, with writes that pass the fence, if there is one."""
        if fence is not None:
            self._store = FencedStore(self._store, fence)
        return self

    @property
    def read_only(self) -> bool:
        """Whether backups cannot be written or deleted here."""
        return self._read_only

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections of the store."""
        await self._store.close()

    # --- The location as a whole ------------------------------------------------------------------------

    async def validate(self) -> None:
        """Check that the location can be listed and holds nothing foreign. (docs/spec: STO 7)

        Raises:
            InvalidLocation: there are directories at the root prefix that do not belong there.
        """
        if (message := invalid_directories_message(await self._directories())) is not None:
            raise InvalidLocation(message)

    async def foreign_directories(self) -> list[str]:
        """The directories at the root prefix that do not belong to a location."""
        return [name for name in await self._directories() if name not in TOP_LEVEL_DIRECTORIES]

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

    async def list_restores(self) -> list[str]:
        """The names of all directories of restores, sorted."""
        return await self._names_below(self._layout.restores)

    async def _names_below(self, parent: str) -> list[str]:
        names = directory_names(parent, await self._store.list_prefixes(parent))
        return [name for name in names if _is_name(name)]

    # --- Writing backups --------------------------------------------------------------------------------

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

    async def _abort_uploads(
        self, directory: str, *, since: datetime | None = None, before: datetime | None = None
    ) -> None:
        """Abort the unfinished uploads in a directory; a store that cannot is no reason to warn."""
        if not isinstance(self._store, UploadsStore):
            return
        try:
            aborted = await self._store.abort_uploads(directory, since=since, before=before)
        except NotLeading:
            raise
        except StorageError as error:
            _logger.debug("Unfinished uploads below %s stay: %s", directory, error)
            return
        if aborted:
            _logger.info("Aborted %d unfinished uploads below %s", aborted, directory)

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

    async def _put_file(self, key: str, path: Path, report: Callable[[int], None] | None = None) -> None:
        sent = CountedFile(path, report)
        try:
            try:
                await self._store.put(key, sent)
            finally:
                await sent.aclose()
            await self._check_size(key, sent.size_bytes)
        except StorageError:
            if report is not None:
                report(-sent.size_bytes)
            raise

    async def _put(self, key: str, body: bytes) -> None:
        await self._store.put(key, body)
        await self._check_size(key, len(body))

    async def _put_metadata(self, backup: str, metadata: bytes) -> None:
        try:
            await self._put(self._layout.backup_metadata(backup), metadata)
        except _NotConfirmed as error:
            # The put itself succeeded. Deleting the file would hardly succeed where asking for its size did
            # not, and a finished backup would stay that is reported as Failed.
            _logger.warning("The metadata of backup %s was stored, but not checked: %s", backup, error)

    async def _check_size(self, key: str, sent_bytes: int) -> None:
        """Check that a file is there as it was sent, whatever a put has said. Raises StorageError."""
        try:
            found = await self._store.size(key)
        except ObjectNotFound:
            raise StorageError(f"{key!r} was stored, but the location does not have it") from None
        except StoreUnavailable as error:
            raise _NotConfirmed(str(error)) from error
        if found != sent_bytes:
            raise StorageError(f"{key!r} has {found} bytes in the location, but {sent_bytes} were sent")

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
        before = self._clock.now() - _LONGEST_UPLOAD
        await self._abort_uploads(self._layout.backup_directory(backup), before=before)

    # --- Reading backups --------------------------------------------------------------------------------

    async def exists(self, backup: str) -> bool:
        """Whether the backup is finished: its metadata is there. (docs/spec: STO 6)"""
        return await self._store.exists(self._layout.backup_metadata(backup))

    async def get_metadata(self, backup: str) -> bytes:
        """`velero-backup.json` as it is stored. Raises ObjectNotFound if there is no such backup."""
        return await self._read_metadata(self._layout.backup_metadata(backup))

    async def metadata_version(self, backup: str) -> str:
        """The version of the metadata file; empty if the store has no versions. Raises ObjectNotFound."""
        if not isinstance(self._store, VersionedStore):
            return ""
        return await self._store.version(self._layout.backup_metadata(backup))

    async def _read_metadata(self, key: str) -> bytes:
        data = await read_all(self._store, key, limit_bytes=self._limits.metadata_bytes)
        if most_memory(data) > self._limits.metadata_memory_bytes:
            most = self._limits.metadata_memory_bytes
            raise UnreadableObject(key, f"its content takes more than {most} bytes of memory")
        return data

    async def read_backup(self, backup: str) -> Backup:
        """The Backup object. Raises UnreadableObject if it is of another kind or damaged."""
        try:
            return decode(Backup, await self.get_metadata(backup), require_kind=True)
        except DecodeError as error:
            raise UnreadableObject(self._layout.backup_metadata(backup), str(error)) from error

    async def read_raw_backup(self, backup: str) -> JSONObject:
        """The Backup as it is stored, with fields of other versions. Raises UnreadableObject."""
        key = self._layout.backup_metadata(backup)
        data = await self.get_metadata(backup)
        try:
            return object_of(orjson.loads(data))
        except ValueError as error:
            raise UnreadableObject(key, f"not valid JSON: {error}") from None

    async def download_contents(self, backup: str, path: Path) -> int:
        """Save the tarball to a private file and return its size; a failure leaves no file."""
        async with self.read_bytes(DownloadTargetKind.BACKUP_CONTENTS, backup) as stream:
            return await save_stream(stream, path)

    async def contents_size(self, backup: str) -> int:
        """The size of the tarball in bytes. Raises ObjectNotFound."""
        return await self._store.size(self._layout.target(DownloadTargetKind.BACKUP_CONTENTS, backup))

    async def put_backup_log(self, backup: str, log: Path) -> None:
        """Store the gzip'd log of a backup in place of the former one."""
        self._check_writable(f"write the log of backup {backup}")
        await self._put_file(self._layout.target(DownloadTargetKind.BACKUP_LOG, backup), log)

    async def put_index(self, backup: str, index: Path) -> None:
        """Store the index of a finished backup that has none, or a damaged one."""
        self._check_writable(f"write the index of backup {backup}")
        await self._put_file(self._layout.target(DownloadTargetKind.ITEM_INDEX, backup), index)

    async def read_snapshots(self, backup: str) -> list[VolumeSnapshot]:
        """The records of native snapshots; none if the file is missing, as in old backups."""
        key = self._layout.target(DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS, backup)
        found = await self._read_list(key)
        try:
            return await in_thread(decode_snapshots, found)
        except DecodeError as error:
            raise UnreadableObject(key, str(error)) from error

    async def read_pod_volume_backups(self, backup: str) -> StoredObjects:
        """The PodVolumeBackups; none if the file is missing. `kind` may be missing in each."""
        return await self._read_list(self._layout.pod_volume_backups(backup))

    async def read_csi_volume_snapshot_contents(self, backup: str) -> StoredObjects:
        """The CSI VolumeSnapshotContents; none if the file is missing."""
        return await self._read_list(self._layout.target("CSIBackupVolumeSnapshotContents", backup))

    async def read_volume_infos(self, backup: str) -> list[BackupVolumeInfo]:
        """The records of volumes by Velero 1.13 and later; none if the file is missing. (BEY 3.6)"""
        key = self._layout.target("BackupVolumeInfos", backup)
        found = await self._read_list(key)
        try:
            return await in_thread(_volume_infos, found)
        except DecodeError as error:
            raise UnreadableObject(key, str(error)) from error

    async def put_volume_infos(self, backup: str, infos: Sequence[BackupVolumeInfo]) -> None:
        """Store what became of the volumes of a backup, which is finished only after them."""
        self._check_writable(f"write backup {backup}")
        body = await in_thread(encode_list, [encode(info) for info in infos])
        await self._put(self._layout.target("BackupVolumeInfos", backup), body)

    async def read_item_operations(self, backup: str) -> StoredObjects:
        """The operations of Velero 1.11 and later, not checked; none if the file is missing. (BEY 3.8)"""
        return await self._read_list(self._layout.target("BackupItemOperations", backup))

    async def put_item_operations(self, backup: str, operations: Sequence[Mapping[str, Any]]) -> None:
        """Store the progress of the operations of a backup, which is finished only after them."""
        self._check_writable(f"write backup {backup}")
        body = await in_thread(encode_list, operations)
        await self._put(self._layout.target("BackupItemOperations", backup), body)

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
            body = await in_thread(encode_object, resource_list)
            await self._put(target(DownloadTargetKind.BACKUP_RESOURCE_LIST, backup), body)
        if results is not None:
            await self._put(target("BackupResults", backup), await in_thread(encode_object, results))
        await self._put_metadata(backup, metadata)

    async def read_resource_list(self, backup: str) -> dict[str, list[str]]:
        """`<apiVersion>/<kind>` to names of what was backed up; empty if the file is missing."""
        key = self._layout.target(DownloadTargetKind.BACKUP_RESOURCE_LIST, backup)
        found = await self._read(key, TreeDocument())
        try:
            return names_by_kind(found)
        except ValueError as error:
            raise UnreadableObject(key, str(error)) from None

    async def read_backup_results(self, backup: str) -> JSONObject | None:
        """`{"warnings": …, "errors": …}` as later Velero stores it; None if the file is missing."""
        return await self._read_results(self._layout.target("BackupResults", backup))

    async def _read_results(self, key: str) -> JSONObject | None:
        found = await self._read(key, TreeDocument(most_bytes=MOST_RESULTS_BYTES))
        try:
            return None if found is None else object_of(found)
        except DocumentError as error:
            raise UnreadableObject(key, str(error)) from None

    async def _read_list(self, key: str) -> StoredObjects:
        document = ListDocument(most_bytes=self._limits.list_bytes)
        return await self._read(key, document) or StoredObjects()

    async def _read(self, key: str, document: Document[T]) -> T | None:
        """A side file, None if it is missing."""
        try:
            async with self._store.get(key) as stream:
                return await read_document(stream, document, key=key)
        except ObjectNotFound:
            return None
        except DocumentError as error:
            raise UnreadableObject(key, str(error)) from None

    # --- Downloads --------------------------------------------------------------------------------------

    def object_key(self, kind: str, name: str) -> str:
        """The key of a download target. Raises StorageError for an unknown kind. (docs/spec: STO 9)"""
        return self._layout.target(kind, name)

    async def signed_url(self, kind: str, name: str, *, ttl: timedelta = SIGNED_URL_LIFETIME) -> str:
        """A URL of a download target; whether it exists shows when it is used. (docs/spec: STO 9)"""
        return await self._store.signed_url(self.object_key(kind, name), ttl)

    def read_bytes(self, kind: str, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stored bytes of a download target; raises ObjectNotFound on entering."""
        return self._store.get(self.object_key(kind, name))

    def read_range(
        self, kind: str, name: str, offset: int, length: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A part of the stored bytes of a download target.

        Raises:
            RangesUnsupported: the store can only read whole objects.
            ObjectNotFound: as read_bytes().
        """
        if not isinstance(self._store, RangedStore):
            raise RangesUnsupported(self.object_key(kind, name))
        return self._store.get_range(self.object_key(kind, name), offset, length)

    @asynccontextmanager
    async def read_text(self, kind: str, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """A download target such as a log, decompressed while it is read."""
        async with (
            self.read_bytes(kind, name) as stream,
            aclosing(decompress_stream(stream, key=self.object_key(kind, name))) as text,
        ):
            yield text

    # --- Restores ---------------------------------------------------------------------------------------

    def claim_of_restore(self, restore: str, *, takes_over: bool) -> AbstractAsyncContextManager[WriterClaim]:
        """A context that holds the claim on the name of a restore for this process; see WriterClaim.on()."""
        key, subject = self._layout.restore_claim(restore), ClaimSubject("restore", restore)
        return WriterClaim.on(self._store, key, subject, clock=self._clock, takes_over=takes_over)

    async def has_restore(self, restore: str) -> bool:
        """Whether there is any file of a restore, besides the claim on its name."""
        keys = await self._store.list_keys(self._layout.restore_directory(restore))
        return any(key != self._layout.restore_claim(restore) for key in keys)

    async def put_restore_log(self, restore: str, log: Path) -> None:
        """Store the gzip'd log of a restore. (docs/spec: STO 4)"""
        await self._put_file(self._layout.target(DownloadTargetKind.RESTORE_LOG, restore), log)

    async def put_restore_results(self, restore: str, results: Mapping[str, Any]) -> None:
        """Store `{"errors": …, "warnings": …}` of a restore, in the form of the JSON file."""
        body = await in_thread(encode_object, results)
        await self._put(self._layout.target(DownloadTargetKind.RESTORE_RESULTS, restore), body)

    async def put_restore_outcomes(
        self, restore: str, resource_list: Mapping[str, Any], details: Mapping[str, Any]
    ) -> None:
        """Store the outcome of each object: Velero's resource list, and our details. (BEY 3.5)"""
        for kind, content in (
            (DownloadTargetKind.RESTORE_RESOURCE_LIST, resource_list),
            (DownloadTargetKind.RESTORE_OUTCOMES, details),
        ):
            body = await in_thread(encode_object, content)
            await self._put(self._layout.target(kind, restore), body)

    async def put_restore_volume_infos(self, restore: str, infos: Sequence[RestoredVolumeInfo]) -> None:
        """Store which volumes were filled, and from what. (docs/spec: BEY 3.7)"""
        body = await in_thread(encode_list, [encode(info) for info in infos])
        await self._put(self._layout.target(DownloadTargetKind.RESTORE_VOLUME_INFO, restore), body)

    async def read_restore_item_operations(self, restore: str) -> StoredObjects:
        """The operations of a restore, not checked; none if the file is missing. (docs/spec: BEY 3.8)"""
        return await self._read_list(self._layout.target("RestoreItemOperations", restore))

    async def put_restore_item_operations(
        self, restore: str, operations: Sequence[Mapping[str, Any]]
    ) -> None:
        """Store the progress of the operations of a restore."""
        body = await in_thread(encode_list, operations)
        await self._put(self._layout.target("RestoreItemOperations", restore), body)

    async def read_restore_volume_patches(self, restore: str) -> StoredObjects:
        """The settings that volumes of a restore are to get, not checked; none if the file is missing."""
        return await self._read_list(self._layout.target("RestoreVolumePatches", restore))

    async def put_restore_volume_patches(self, restore: str, patches: Sequence[Mapping[str, Any]]) -> None:
        """Store the settings that volumes of a restore are to get when they exist. (ADR 073)"""
        body = await in_thread(encode_list, patches)
        await self._put(self._layout.target("RestoreVolumePatches", restore), body)

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
        before = self._clock.now() - _LONGEST_UPLOAD
        await self._abort_uploads(self._layout.restore_directory(restore), before=before)

    def _check_writable(self, action: str) -> None:
        if self._read_only:
            raise ReadOnlyLocation(action, self._location)


class _Upload(msgspec.Struct, frozen=True):
    """The upload of one backup: its claim, its patience, and who is told how much was sent."""

    claim: WriterClaim
    patience: Patience
    sent: Callable[[int], None]

    async def insist(self, put: Callable[[], Awaitable[None]]) -> None:
        """Store one file. While the store was away, another process may have taken the claim over."""
        await self.patience.insist(put, before_again=self.claim.check)


class _NotConfirmed(StoreUnavailable):
    """A file was stored, but the store did not answer when it was asked for its size."""


def _volume_infos(found: StoredObjects) -> list[BackupVolumeInfo]:
    return [decode(BackupVolumeInfo, each) for each in found]


def _is_name(name: str) -> bool:
    """Whether a backup or restore can have the name of a directory in the bucket; others are ignored."""
    try:
        check_name(name)
    except StorageError:
        return False
    return True
