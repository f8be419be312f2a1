"""Reads and writes encrypted files of a location: all whose names end in `.gz`, of backups with a key file.

A backup has a key of its own, an age identity. Its key files, `<backup>-pinnace-keys.json` and further ones
with numbers, hold it wrapped for the recipients; the newest that can be opened counts. The files of a restore
have a copy of the key files of its backup. (docs/adr/124)
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from pinnace.age.errors import AgeError, PluginFailed
from pinnace.age.header import is_age
from pinnace.age.identities import Identities
from pinnace.age.sizes import CHUNK_BYTES, OWN_HEAD_BYTES, SEALED_BYTES, content_size
from pinnace.aio.blocking import in_thread
from pinnace.storage.checked_files import CheckedFiles
from pinnace.storage.encryption import (
    MOST_KEY_FILE_BYTES,
    Encryption,
    key_file,
    kms_secret,
)
from pinnace.storage.errors import RangesUnsupported
from pinnace.storage.interface import ObjectStore, read_all
from pinnace.storage.key_errors import AgePluginFailed, EncryptionBroken
from pinnace.storage.key_opening import encryption_broken, exchanged, looked_at, open_key, unsealed
from pinnace.storage.layout import Layout
from pinnace.storage.together import both

if TYPE_CHECKING:  # cryptography is loaded where something is encrypted only
    from pinnace.age.payload import Chunks, Sealing
    from pinnace.age.x25519 import X25519Identity

_MOST_KEY_FILES: Final = 100
"""Of one backup; each is tried at most once."""
_CHUNKS_AT_ONCE: Final = 16


class KeyOwner(msgspec.Struct, frozen=True):
    """The backup or restore that a file belongs to.

    Attributes:
        directory: of its files.
        key_files: the key files' keys up to the number.
        backup: whose key it has; None if any is right, as that of a restore.
    """

    name: str
    directory: str
    key_files: str
    backup: str | None

    def key_file(self, number: int = 1) -> str:
        """The key of a key file; the first has no number."""
        return f"{self.key_files}{'' if number == 1 else f'.{number}'}.json"

    def number(self, key: str) -> int:
        """The number of a key file; 0 for other files."""
        found = re.fullmatch(re.escape(self.key_files) + r"(?:\.([1-9][0-9]{0,3}))?\.json", key)
        return int(found[1] or 1) if found else 0


class SealedFiles:
    """The files of one location, plain ones too."""

    def __init__(self, store: ObjectStore, layout: Layout, encryption: Encryption) -> None:
        self._store = store
        self._layout = layout
        self._encryption = encryption
        self._identities: dict[str, X25519Identity | None] = {}
        self._opened_files: dict[str, list[str]] = {}
        self._chunks: dict[str, tuple[Chunks, int]] = {}
        self._whole = set[str]()

    def over(self, store: ObjectStore) -> "SealedFiles":
        """The same over another store."""
        return SealedFiles(store, self._layout, self._encryption)

    def opened_by(self, identities: Identities) -> "SealedFiles":
        """The same with identities that open backups."""
        encryption = msgspec.structs.replace(self._encryption, identities=identities)
        return SealedFiles(self._store, self._layout, encryption)

    @property
    def encrypts(self) -> bool:
        """Whether backups that are made are encrypted."""
        return self._encryption.encrypts

    @property
    def hides_details(self) -> bool:
        """Whether the metadata of backups that are made have a plain part only."""
        return self._encryption.hides_details

    def may_open(self, key: str) -> bool:
        """Whether an encrypted file may be opened, as far as this is known without a request."""
        owner = self._owner(key)
        return self._encryption.is_used or (owner is not None and owner.directory in self._identities)

    async def new_key(self, owner: KeyOwner) -> "tuple[X25519Identity, bytes] | None":
        """Make a key for a backup that begins, and the content of its key file; None for a plain one.

        Files of the backup are encrypted from now on.

        Raises:
            KMSError: a key management service does not wrap it.
            AgePluginFailed: the plugin of a recipient does not.
        """
        if not self._encryption.encrypts:
            self._identities.pop(owner.directory, None)
            return None
        from pinnace.age.x25519 import X25519Identity

        identity = X25519Identity.generate()
        content = await self._wrapped(identity, owner)
        self._identities[owner.directory] = identity
        return identity, content

    async def try_recipients(self) -> None:
        """Wrap a key that nobody uses. Raises KMSError, AgePluginFailed: one of the keys does not take it."""
        from pinnace.age.x25519 import X25519Identity

        await self._wrapped(X25519Identity.generate(), KeyOwner("a trial", "", "", None))

    async def _wrapped(self, identity: "X25519Identity", owner: KeyOwner) -> bytes:
        """A key file for the recipients and the keys of services of the location."""
        wrapped = await self._wrapped_by_kms(kms_secret(identity, owner.name))
        try:
            return await key_file(identity, owner.name, self._encryption.recipients, wrapped)
        except PluginFailed as error:
            raise AgePluginFailed(f"cannot wrap the key of {owner.name!r}: {error}") from error

    async def _wrapped_by_kms(self, secret: bytes) -> dict[str, bytes]:
        keys, access = self._encryption.kms_keys, self._encryption.kms_access
        if not keys or access is None:
            return {}
        from pinnace.kms.wrapping import wrap

        rights = access()
        wrapped = await asyncio.gather(*(wrap(key.uri, secret, rights) for key in keys))
        return dict(zip((key.uri for key in keys), wrapped, strict=True))

    async def rewrapped(self, owner: KeyOwner) -> tuple[str, bytes] | None:
        """The next key file of a backup or restore, for the recipients of the location; None if it is plain.

        Raises:
            UnreadableObject: its key cannot be opened.
        """
        files = await self.key_files(owner)
        if not files:
            return None
        identity = await self._identity(owner, owner.key_file())
        assert identity is not None, "it has key files"
        content = await self._wrapped(identity, owner)
        return owner.key_file(owner.number(files[0]) + 1), content

    async def follow(self, owner: KeyOwner, former: KeyOwner) -> list[str]:
        """Encrypt the files of one owner by the key of another.

        Returns:
            The keys of the key files of the other; none if it is plain, and where nobody has an identity,
            nor makes encrypted backups.

        Raises:
            UnreadableObject: the key cannot be opened.
        """
        if not (former.directory in self._identities or self._encryption.is_used):
            return []
        identity = await self._identity(former, former.key_file())
        if identity is None:
            return []
        self._identities[owner.directory] = identity
        if former.directory not in self._opened_files:
            self._opened_files[former.directory] = await self.key_files(former)
        return self._opened_files[former.directory]

    def know(self, owner: KeyOwner, identity: "X25519Identity") -> None:
        """Open the files of a backup by its own key, whatever its key files say."""
        self._identities[owner.directory] = identity

    async def require_key(self, key: str, *, is_marked: bool) -> None:
        """Check that the identity for an encrypted file is known.

        Args:
            is_marked: its backup says that it is encrypted. Without this and without identities nothing is
                asked of the store: a file that is encrypted all the same is refused when it is read.

        Raises:
            IdentityMissing, IdentityRefused, EncryptionBroken: it is not.
        """
        owner = self._owner(key)
        if owner is not None and (is_marked or self._encryption.is_used):
            await self._identity(owner, key)

    async def is_encrypted(self, key: str) -> bool:
        """Whether an encrypted file is expected at a key. No identity is needed. Raises StorageError."""
        owner = self._owner(key)
        return owner is not None and await self._has_key(owner)

    async def key_files(self, owner: KeyOwner) -> list[str]:
        """The keys of the key files of a backup or restore, the newest first."""
        keys = [key for key in await self._store.list_keys(owner.directory) if owner.number(key)]
        return sorted(keys, key=owner.number, reverse=True)[:_MOST_KEY_FILES]

    async def sealing(self, key: str) -> "Sealing | None":
        """What encrypts a file that is to be written; None if it is plain.

        Raises:
            IdentityMissing, IdentityRefused: its backup is encrypted, and its key cannot be opened.
        """
        owner = self._owner(key)
        if owner is None or not (owner.directory in self._identities or self._encryption.is_used):
            return None
        identity = await self._identity(owner, key)
        if identity is None:
            return None
        from pinnace.age.payload import Sealing

        return Sealing(identity.recipient)

    @asynccontextmanager
    async def open(
        self, files: CheckedFiles, key: str, *, at_once: bool = False
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content of a file, decrypted while it is read.

        Args:
            files: the stored files.
            at_once: see CheckedFiles.open().

        Raises:
            ObjectNotFound: there is no such file.
            IdentityMissing, IdentityRefused: on entering.
            EncryptionBroken: on entering or at the damaged place; what came before is authentic.
        """
        async with AsyncExitStack() as stack:
            stream = await stack.enter_async_context(files.open(key, at_once=at_once))
            owner = self._owner(key)
            if owner is None:
                yield stream
                return
            is_sealed, stored = await looked_at(stream)
            identity = await self._identity_of_read(owner, key, encrypted=is_sealed)
            if identity is not None:
                stored = unsealed(stored, identity, key)
            yield await stack.enter_async_context(aclosing(stored))

    @asynccontextmanager
    async def open_range(
        self, files: CheckedFiles, key: str, offset: int, length: int
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """A part of the content of a file. Its header and its last chunk are read once, and checked.

        Raises:
            RangesUnsupported: the store reads whole objects only, or another program encrypted the file.
            Others as `open`.
        """
        owner, found = self._owner(key), None
        if owner is not None and (owner.directory in self._identities or self._encryption.is_used):
            found = await self._opened_chunks(files, owner, key)
        if found is None:
            async with files.open_range(key, offset, length) as stream:
                yield stream
            return
        chunks, size_bytes = found
        if offset >= chunks.plain_bytes(size_bytes):
            raise EncryptionBroken(key, f"it has no content from byte {offset} on")
        first, final = offset // CHUNK_BYTES, chunks.last(size_bytes)
        last = min((offset + length - 1) // CHUNK_BYTES, final)
        place = chunks.place(first)
        wanted = min(chunks.place(last + 1), size_bytes) - place
        async with AsyncExitStack() as stack:
            opening = stack.enter_async_context(files.open_range(key, place, wanted))
            if last == final or key in self._whole:
                stream = await opening
            else:
                stream, _ = await both(opening, self._check_end(files, key, chunks, size_bytes))
            opened = _opened_range(stream, key, chunks, first, final)
            cut = _cut(opened, offset - first * CHUNK_BYTES, length)
            yield await stack.enter_async_context(aclosing(cut))

    async def content_bytes(self, key: str) -> int:
        """The size of the content of a file. No identity is needed. Raises ObjectNotFound."""
        size_bytes, owner = await self._store.size(key), self._owner(key)
        if owner is None or not await self._has_key(owner):
            return size_bytes
        return content_size(size_bytes)

    async def _has_key(self, owner: KeyOwner) -> bool:
        if (known := self._identities.get(owner.directory, owner)) is not owner:
            return known is not None
        return bool(await self.key_files(owner))

    async def _opened_chunks(
        self, files: CheckedFiles, owner: KeyOwner, key: str
    ) -> "tuple[Chunks, int] | None":
        """The chunks of a file and its size; None if it is plain, and has to be.

        The requests for the key and for the file are made at once, as a command that reads one object waits
        for each of them.
        """
        if (known := self._chunks.get(key)) is not None:
            return known
        if owner.directory in self._identities and self._identities[owner.directory] is None:
            return None
        identity, (head, size_bytes) = await both(
            self._identity(owner, key),
            both(_range(files, key, 0, OWN_HEAD_BYTES), self._stored_bytes(files, key)),
        )
        if identity is None:
            if is_age(head):
                raise _key_gone(owner, key)
            return None
        from pinnace.age.payload import Chunks

        try:
            chunks = Chunks.after_header(head, identity)
            if chunks is None:
                raise RangesUnsupported(key)
            chunks.last(size_bytes)
        except AgeError as error:
            raise encryption_broken(key, error) from None
        self._chunks[key] = chunks, size_bytes
        return chunks, size_bytes

    async def _stored_bytes(self, files: CheckedFiles, key: str) -> int:
        """The size of a file as it is stored, which is compared with that which was signed. (CheckedFiles)"""
        expected = await files.expected(key)
        return await self._store.size(key) if expected is None else expected.size_bytes

    async def _check_end(self, files: CheckedFiles, key: str, chunks: "Chunks", size_bytes: int) -> None:
        """Check by its last chunk, once, that a file is whole. Raises EncryptionBroken."""
        last = chunks.last(size_bytes)
        place = chunks.place(last)
        sealed = await _range(files, key, place, size_bytes - place)
        try:
            chunks.open(last, sealed, last=True)
        except AgeError as error:
            raise encryption_broken(key, error) from None
        self._whole.add(key)

    async def _identity_of_read(
        self, owner: KeyOwner, key: str, *, encrypted: bool
    ) -> "X25519Identity | None":
        """The identity for a file that is read; None if it is plain, and has to be."""
        if not encrypted and not (owner.directory in self._identities or self._encryption.is_used):
            return None
        if not encrypted:
            if await self._has_key(owner):
                raise exchanged(key)
            return None
        identity = await self._identity(owner, key)
        if identity is None:
            raise _key_gone(owner, key)
        return identity

    async def _identity(self, owner: KeyOwner, key: str) -> "X25519Identity | None":
        """The key of a backup or restore; None if it has none, and is plain."""
        if owner.directory not in self._identities:
            files = self._opened_files[owner.directory] = await self.key_files(owner)
            self._identities[owner.directory] = await self._opened(owner, files, key) if files else None
        return self._identities[owner.directory]

    async def _opened(self, owner: KeyOwner, files: list[str], key: str) -> "X25519Identity":
        def read(name: str) -> Awaitable[bytes]:
            return read_all(self._store, name, limit_bytes=MOST_KEY_FILE_BYTES)

        return await open_key(
            self._encryption, title=owner.name, backup=owner.backup, files=files, read=read, key=key
        )

    def _owner(self, key: str) -> KeyOwner | None:
        """The owner of a file that may be encrypted; None for others."""
        if not key.endswith(".gz"):
            return None
        return key_owner(self._layout, key)


def _key_gone(owner: KeyOwner, key: str) -> EncryptionBroken:
    return EncryptionBroken(
        key,
        f"it is encrypted, and its key file {owner.key_file()!r} is gone: get that back from a copy or an"
        " older version of the bucket",
    )


def key_owner(layout: Layout, key: str) -> KeyOwner | None:
    """The backup or restore with a key in its directory, parked or not."""
    directory = f"{key.rpartition('/')[0]}/"
    for parent, before in ((layout.backups, ""), (layout.restores, "restore-")):
        if directory != parent and directory.startswith(parent):
            name = directory.removeprefix(parent).partition("/")[0]
            backup = name if parent == layout.backups else None
            return KeyOwner(name, directory, f"{directory}{before}{name}-pinnace-keys", backup)
    return None


async def _opened_range(
    stream: AsyncIterator[bytes], key: str, chunks: "Chunks", number: int, last: int
) -> AsyncGenerator[bytes, None]:
    """The content of whole chunks, from that with the number on."""
    held = bytearray()

    def opened(ready: bytes, number: int) -> Iterator[bytes]:
        for place in range(0, len(ready), SEALED_BYTES):
            piece = ready[place : place + SEALED_BYTES]
            yield chunks.open(number, piece, last=number == last)
            number += 1

    def joined(ready: bytes, number: int) -> bytes:
        return b"".join(opened(ready, number))

    try:
        async for block in stream:
            held += block
            whole = len(held) // SEALED_BYTES
            if whole >= _CHUNKS_AT_ONCE:
                ready = bytes(held[: whole * SEALED_BYTES])
                del held[: len(ready)]
                yield await in_thread(joined, ready, number)
                number += whole
        if held:
            yield await in_thread(joined, bytes(held), number)
    except AgeError as error:
        raise encryption_broken(key, error) from None


async def _cut(stream: AsyncGenerator[bytes, None], skipped: int, length: int) -> AsyncGenerator[bytes, None]:
    async with aclosing(stream):
        async for block in stream:
            content = block[skipped : skipped + length]
            skipped, length = max(0, skipped - len(block)), length - len(content)
            if content:
                yield content


async def _range(files: CheckedFiles, key: str, offset: int, length: int) -> bytes:
    async with files.open_range(key, offset, length) as stream:
        return b"".join([block async for block in stream])
