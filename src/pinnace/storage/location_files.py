"""The files of one location: opened, written so that each is checked, and read within limits.

Not here: which files a backup or restore has, and their order.
"""

import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from pinnace.age.identities import Identities
from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence
from pinnace.api.json_memory import most_memory
from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.storage.backup_files import CountedFile, StoredFile, stored_bytes
from pinnace.storage.checked_files import CheckedFiles
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
from pinnace.storage.encryption import MOST_KEY_FILE_BYTES, Encryption
from pinnace.storage.errors import (
    NotLeading,
    ObjectNotFound,
    ReadOnlyLocation,
    StorageError,
    StoreConfigError,
    StoreUnavailable,
    UnreadableObject,
)
from pinnace.storage.fenced import FencedStore
from pinnace.storage.interface import Body, ObjectStore, UploadsStore, read_all
from pinnace.storage.layout import Layout
from pinnace.storage.manifest import NOT_SIGNED
from pinnace.storage.object_lock import LOCK_MODE, BucketLock, LockingStore, ObjectLock, Retention
from pinnace.storage.own_settings import Signatures
from pinnace.storage.patience import Patience
from pinnace.storage.sealed_files import SealedFiles, key_owner
from pinnace.storage.writer_claim import (
    HELD_RENEWAL_SECONDS,
    ClaimSubject,
    WriterClaim,
)

T = TypeVar("T")

_logger = logging.getLogger(__name__)

_NO_LOCKING = "stores of this provider hold no objects"
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


class StoredUnchecked(StoreUnavailable):
    """A file was stored, but the store did not answer when it was asked for its size."""


class LocationFiles:
    """The store of a location under its layout. An async context manager that closes its store."""

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
        self._signatures = Signatures()
        self._clock = clock
        self._files = CheckedFiles(store, layout, self._signatures)
        self._sealed = SealedFiles(store, layout, Encryption())
        self._lock: ObjectLock | None = None
        self._bucket: BucketLock | None = None

    def locked(self, lock: ObjectLock | None) -> Self:
        """This location, whose finished backups are held so long from now on."""
        self._lock = lock
        return self

    def fenced(self, fence: Fence | None) -> Self:
        """This location, with writes that pass the fence, if there is one."""
        if fence is not None:
            self._store = FencedStore(self._store, fence)
            self._files = CheckedFiles(self._store, self._layout, self._signatures)
            self._sealed = self._sealed.over(self._store)
        return self

    def opened_by(self, identities: Identities | None) -> Self:
        """This location, whose encrypted backups are opened by the identities, if there are any."""
        if identities is not None:
            self._sealed = self._sealed.opened_by(identities)
        return self

    def encrypted(self, encryption: Encryption) -> Self:
        """This location, whose backups are encrypted and decrypted so; without it, neither is done."""
        self._sealed = SealedFiles(self._store, self._layout, encryption)
        return self

    def signed(self, signatures: Signatures) -> Self:
        """This location, whose backups are signed and checked so; without it, neither is done."""
        self._signatures = signatures
        self._files = CheckedFiles(self._store, self._layout, signatures)
        return self

    @property
    def read_only(self) -> bool:
        """Whether backups cannot be written or deleted here."""
        return self._read_only

    @property
    def encrypts(self) -> bool:
        """Whether backups that are made here are encrypted."""
        return self._sealed.encrypts

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Release the connections of the store."""
        await self._store.close()

    def object_key(self, kind: str, name: str) -> str:
        """The key of a download target. Raises StorageError for an unknown kind. (docs/spec: STO 9)"""
        return self._layout.target(kind, name)

    async def signed_url(self, kind: str, name: str, *, ttl: timedelta = SIGNED_URL_LIFETIME) -> str:
        """A URL of a download target; whether it exists shows when it is used. (docs/spec: STO 9)

        The digest of a signed file follows as a fragment, which no client sends: whoever reads by the URL can
        compare it. A file that a signed backup does not have gets a digest that no content has.

        Raises:
            SignatureRefused: the manifest of the backup does not have the file, or is refused itself.
        """
        key = self.object_key(kind, name)
        try:
            expected = await self._files.expected(key)
        except ObjectNotFound:
            expected = NOT_SIGNED
        url = await self._store.signed_url(key, ttl)
        return url if expected is None else f"{url}{expected.fragment}"

    async def key_files(self, kind: str, name: str) -> list[str]:
        """The key files that open a download target, the newest first; none if it is plain.

        The newest has a place whatever its size, further ones as long as all have less than 128 KiB.

        Raises:
            UnreadableObject: one is larger than key files are, or no text.
        """
        owner = key_owner(self._layout, self.object_key(kind, name))
        assert owner is not None, "download targets lie in directories of backups and restores"
        found, left_bytes = list[str](), MOST_KEY_FILE_BYTES
        for key in await self._sealed.key_files(owner):
            content = await read_all(self._store, key, limit_bytes=MOST_KEY_FILE_BYTES)
            left_bytes -= len(content)
            if found and left_bytes < 0:
                break
            try:
                found.append(content.decode())
            except UnicodeDecodeError:
                raise UnreadableObject(key, "it is no text") from None
        return found

    def read_bytes(self, kind: str, name: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The content of a download target, decrypted.

        Raises:
            ObjectNotFound: on entering, if there is none.
            UnreadableObject: on entering, if no identity opens it; or where it is damaged.
        """
        at_once = kind == DownloadTargetKind.BACKUP_CONTENTS
        return self._sealed.open(self._files, self.object_key(kind, name), at_once=at_once)

    def read_range(
        self, kind: str, name: str, offset: int, length: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A part of the content of a download target.

        Raises:
            RangesUnsupported: the store can only read whole objects.
            ObjectNotFound: as read_bytes().
        """
        return self._sealed.open_range(self._files, self.object_key(kind, name), offset, length)

    @asynccontextmanager
    async def read_text(self, kind: str, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """A download target such as a log, decompressed while it is read."""
        async with (
            self.read_bytes(kind, name) as stream,
            aclosing(decompress_stream(stream, key=self.object_key(kind, name))) as text,
        ):
            yield text

    async def _read_metadata(self, key: str) -> bytes:
        data = await self._files.read(key, limit_bytes=self._limits.metadata_bytes)
        self._check_memory(key, data)
        return data

    def _check_memory(self, key: str, metadata: bytes) -> None:
        """Raise UnreadableObject for metadata that would take too much memory."""
        most = self._limits.metadata_memory_bytes
        if most_memory(metadata) > most:
            raise UnreadableObject(key, f"its content takes more than {most} bytes of memory")

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
            async with self._sealed.open(self._files, key) as stream:
                return await read_document(stream, document, key=key)
        except ObjectNotFound:
            return None
        except DocumentError as error:
            raise UnreadableObject(key, str(error)) from None

    async def _put_file(
        self,
        key: str,
        path: Path,
        report: Callable[[int], None] | None = None,
        *,
        as_it_is: bool = False,
        retention: Retention | None = None,
    ) -> StoredFile:
        """Store a file, encrypted if its backup is.

        Args:
            report: called with the sizes of what was read, and the negative sum if it must be read again.
            as_it_is: the file was encrypted before.
        """
        sent = CountedFile(path, report, None if as_it_is else await self._sealed.sealing(key))
        try:
            try:
                await self._store_body(key, sent, retention)
            finally:
                await sent.aclose()
            await self._check_size(key, sent.size_bytes)
        except StorageError:
            if report is not None:
                report(-sent.read_bytes)
            raise
        return sent.stored(key)

    async def _put(self, key: str, body: bytes, *, retention: Retention | None = None) -> StoredFile:
        if (sealing := await self._sealed.sealing(key)) is not None:
            body = await in_thread(lambda: sealing.feed(body) + sealing.finish())
        await self._store_body(key, body, retention)
        await self._check_size(key, len(body))
        return stored_bytes(key, body)

    async def _store_body(self, key: str, body: Body, retention: Retention | None) -> None:
        if retention is None:
            await self._store.put(key, body)
        elif isinstance(self._store, LockingStore):
            await self._store.put_locked(key, body, retention)
        else:
            raise StoreConfigError(f"{LOCK_MODE}: {_NO_LOCKING}")

    async def bucket_lock(self) -> BucketLock:
        """What the bucket has of object lock, asked for once. Raises StorageError."""
        if self._bucket is None:
            if isinstance(self._store, LockingStore):
                self._bucket = await self._store.bucket_lock()
            else:
                self._bucket = BucketLock(is_enabled=False, reason=_NO_LOCKING)
        return self._bucket

    @asynccontextmanager
    async def _claim(
        self,
        key: str,
        subject: ClaimSubject,
        *,
        takes_over: bool = True,
        patience: Patience | None = None,
    ) -> AsyncIterator[WriterClaim]:
        """See WriterClaim.on()."""
        if await self._is_locked():
            subject = msgspec.structs.replace(subject, renewal_seconds=HELD_RENEWAL_SECONDS)
        async with WriterClaim.on(
            self._store,
            key,
            subject,
            clock=self._clock,
            takes_over=takes_over,
            patience=patience,
        ) as claim:
            yield claim

    async def _is_locked(self) -> bool:
        """Whether files are held here, by the location's settings or by the bucket's default."""
        if self._lock is not None:
            return True
        try:
            return (await self.bucket_lock()).default > timedelta()
        except NotLeading:
            raise
        except StorageError as error:  # a right that nothing else needs
            _logger.debug("Cannot tell whether the bucket holds files by default: %s", error)
            return False

    async def _put_list(self, kind: str, name: str, entries: Sequence[Any]) -> StoredFile:
        return await self._put(self._layout.target(kind, name), await in_thread(encode_list, entries))

    async def _put_object(self, kind: str, name: str, content: Mapping[str, Any]) -> StoredFile:
        return await self._put(self._layout.target(kind, name), await in_thread(encode_object, content))

    async def _check_size(self, key: str, sent_bytes: int) -> None:
        """Check that a file is there as it was sent, whatever a put has said. Raises StorageError."""
        try:
            found = await self._store.size(key)
        except ObjectNotFound:
            raise StorageError(f"{key!r} was stored, but the location does not have it") from None
        except StoreUnavailable as error:
            raise StoredUnchecked(str(error)) from error
        if found != sent_bytes:
            raise StorageError(f"{key!r} has {found} bytes in the location, but {sent_bytes} were sent")

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

    async def _abort_abandoned(self, directory: str) -> None:
        """Abort the uploads in a directory that no living process can still be at."""
        await self._abort_uploads(directory, before=self._clock.now() - _LONGEST_UPLOAD)

    def _check_signs(self, what: str) -> None:
        """Raise StoreConfigError if what is to be written would not be believed here for want of a key."""
        if self._signatures.required and self._signatures.key is None:
            raise StoreConfigError(
                f"{what} cannot be written: the location takes signed backups only"
                " (requireSignature), and has no key to sign with (signing.keySecret, signing.keyFile or"
                " signing.signer)"
            )

    def _check_writable(self, action: str) -> None:
        if self._read_only:
            raise ReadOnlyLocation(action, self._location)
