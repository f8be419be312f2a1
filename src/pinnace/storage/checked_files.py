"""Reads files of a location, those of signed backups only if they are what was signed. (ADR 125)

A file is compared with the digest in the manifest of its backup before its first byte is handed out, so that
nothing of it is decompressed or decoded before. The tarball alone is handed out while it is hashed: whoever
reads it saves it to a file first, and gets the error at its end. A part of a file is not hashed.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from hashlib import sha256
from tempfile import SpooledTemporaryFile
from typing import Final

from pinnace.aio.blocking import in_thread
from pinnace.notices.codes import Code
from pinnace.notices.notice import Coded
from pinnace.signing.envelope import MOST_ENVELOPE_BYTES
from pinnace.signing.errors import SignatureNotTrusted, SigningError
from pinnace.storage.errors import ObjectNotFound, RangesUnsupported, UnreadableObject
from pinnace.storage.interface import READ_SIZE_BYTES, ObjectStore, RangedStore, read_all
from pinnace.storage.layout import Layout
from pinnace.storage.manifest import NOT_SIGNED, Manifest, ManifestFile, read_manifest
from pinnace.storage.own_settings import Signatures

_IN_MEMORY_BYTES: Final = 4 << 20
"""Larger files wait on the disk until their digest is known."""


class SignatureRefused(Coded, UnreadableObject):
    """A backup, or a file of it, is not as a trusted key has signed it."""

    notice_code = Code.SIGNATURE_REFUSED


class CheckedFiles:
    """The files of one location.

    Args:
        signatures: whose signatures are believed; without any nothing is checked, and no manifest read.
    """

    def __init__(self, store: ObjectStore, layout: Layout, signatures: Signatures) -> None:
        self._store = store
        self._layout = layout
        self._signatures = signatures
        self._manifests: dict[str, Manifest | None] = {}
        self._sizes: set[str] = set()

    async def manifest(self, backup: str) -> Manifest | None:
        """The manifest of a backup; None if it has none, and needs none.

        Raises:
            SignatureRefused: there is one that no trusted key has signed, or none though one is required.
        """
        if not self._signatures.trusted:
            return None
        if backup not in self._manifests:
            self._manifests[backup] = await self._read_manifest(backup)
        return self._manifests[backup]

    def forget(self, backup: str) -> None:
        """Read the manifest of a backup again, as its files have been written."""
        self._manifests.pop(backup, None)

    async def _read_manifest(self, backup: str) -> Manifest | None:
        key = self._layout.backup_manifest(backup)
        try:
            envelope = await read_all(self._store, key, limit_bytes=MOST_ENVELOPE_BYTES)
        except ObjectNotFound:
            if not self._signatures.required:
                return None
            metadata = self._layout.backup_metadata(backup)
            if not await self._store.exists(metadata):
                raise ObjectNotFound(metadata) from None
            raise SignatureRefused(
                key,
                f"backup {backup!r} is not signed, and the location takes signed backups only"
                " (requireSignature). Do not restore it before you know who has made it, or who has removed"
                " its manifest",
            ) from None
        except UnreadableObject as error:
            raise SignatureRefused(key, _damaged(backup, error.reason)) from error
        try:
            return read_manifest(envelope, self._signatures.trusted, backup)
        except SignatureNotTrusted as error:
            raise SignatureRefused(
                key,
                f"the manifest of backup {backup!r}: {error}. If its maker is to be trusted, add the public"
                " key to signing.trustedKeys of the location; else keep the backup as evidence and restore"
                " an older one",
            ) from error
        except SigningError as error:
            raise SignatureRefused(key, _damaged(backup, str(error))) from error

    async def expected(self, key: str) -> ManifestFile | None:
        """How a file has to be; None if nobody has signed its backup, or it belongs to none.

        Raises:
            SignatureRefused: the backup is refused, or the file is not one of those that were signed.
            ObjectNotFound: there is no such file, and none was signed.
        """
        backup = key.removeprefix(self._layout.backups).partition("/")[0]
        if not key.startswith(f"{self._layout.backups}{backup}/"):
            return None
        name = key.removeprefix(self._layout.backup_directory(backup))
        if self._layout.signs_for_itself(backup, key):
            return None
        manifest = await self.manifest(backup)
        if manifest is None:
            return None
        if (found := manifest.files.get(name)) is not None:
            return found
        if not await self._store.exists(key):
            raise ObjectNotFound(key)
        raise _unlike(key, NOT_SIGNED)

    async def read(self, key: str, *, limit_bytes: int) -> bytes:
        """A small file, as `read_all`."""
        expected = await self.expected(key)
        try:
            data = await read_all(self._store, key, limit_bytes=limit_bytes)
        except ObjectNotFound:
            if expected is None:
                raise
            raise removed(key) from None
        if expected is not None and sha256(data).hexdigest() != expected.sha256:
            raise _unlike(key, expected)
        return data

    @asynccontextmanager
    async def open(self, key: str, *, at_once: bool = False) -> AsyncIterator[AsyncIterator[bytes]]:
        """A file, as ObjectStore.get.

        Args:
            at_once: hand the bytes out before all of them are checked, and raise at the end.

        Raises:
            SignatureRefused: it is not as it was signed.
        """
        expected = await self.expected(key)
        if expected is None:
            async with self._store.get(key) as stream:
                yield stream
            return
        async with as_signed(key, self._stored(key), expected, at_once=at_once) as stream:
            yield stream

    @asynccontextmanager
    async def _stored(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """A file that was signed: that it is not there is no answer but an attack."""
        async with AsyncExitStack() as stack:
            try:
                stream = await stack.enter_async_context(self._store.get(key))
            except ObjectNotFound:
                raise removed(key) from None
            yield stream

    @asynccontextmanager
    async def open_range(self, key: str, offset: int, length: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """A part of a file, of which the manifest and the size are checked.

        Raises:
            RangesUnsupported: the store can only read whole objects.
            SignatureRefused: the file is not one of those that were signed, or has another size.
        """
        if not isinstance(self._store, RangedStore):
            raise RangesUnsupported(key)
        expected = await self.expected(key)
        if expected is not None and key not in self._sizes:
            try:
                size_bytes = await self._store.size(key)
            except ObjectNotFound:
                raise removed(key) from None
            if size_bytes != expected.size_bytes:
                raise _unlike(key, expected)
            self._sizes.add(key)
        async with self._store.get_range(key, offset, length) as stream:
            yield stream


@asynccontextmanager
async def as_signed(
    key: str,
    opening: AbstractAsyncContextManager[AsyncIterator[bytes]],
    expected: ManifestFile,
    *,
    at_once: bool,
) -> AsyncIterator[AsyncIterator[bytes]]:
    """A file that is compared with what was signed.

    Args:
        at_once: as in CheckedFiles.open().

    Raises:
        SignatureRefused: it is not as it was signed.
    """
    async with opening as stream, aclosing(_checked(key, stream, expected)) as checked:
        if at_once:
            yield checked
            return
        with SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES) as spool:
            async for block in checked:
                await in_thread(spool.write, block)
            spool.seek(0)
            async with aclosing(_blocks(spool)) as blocks:
                yield blocks


async def _checked(
    key: str, stream: AsyncIterator[bytes], expected: ManifestFile
) -> AsyncGenerator[bytes, None]:
    """The blocks of a file. Raises SignatureRefused as soon as it has too many, or at its end."""
    digest, size_bytes = sha256(), 0
    async for block in stream:
        size_bytes += len(block)
        if size_bytes > expected.size_bytes:
            raise _unlike(key, expected)
        await in_thread(digest.update, block)
        yield block
    if digest.hexdigest() != expected.sha256:
        raise _unlike(key, expected)


async def _blocks(file: "SpooledTemporaryFile[bytes]") -> AsyncGenerator[bytes, None]:
    while block := await in_thread(file.read, READ_SIZE_BYTES):
        yield block


def removed(key: str) -> SignatureRefused:
    """The error of a file that was signed and is not there."""
    return SignatureRefused(
        key,
        "it was removed after the backup was signed: get it back from a copy or an older version of the"
        " bucket",
    )


def _unlike(key: str, expected: ManifestFile) -> SignatureRefused:
    if expected == NOT_SIGNED:
        return SignatureRefused(
            key, "it was added after the backup was signed: delete it, or find out who has written it"
        )
    return SignatureRefused(
        key,
        "its content is not what was signed (changed, or of another backup): get it back from a copy or an"
        " older version of the bucket, and restore nothing of it before",
    )


def _damaged(backup: str, reason: str) -> str:
    return (
        f"the manifest of backup {backup!r}: {reason}. Get the backup back from a copy or an older version"
        " of the bucket, or keep it as evidence and restore an older one"
    )
