"""Opens the key of a backup by its key files, and what is encrypted to it, wherever both come from."""

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from pinnace.age.errors import AgeError, MalformedFile, NoIdentityMatches, PluginFailed
from pinnace.age.header import MAGIC, is_age
from pinnace.aio.blocking import in_thread
from pinnace.kms.errors import InvalidKMSKey, KMSError
from pinnace.kms.uris import parse_key
from pinnace.storage.encryption import Encryption, kms_entries, open_key_file, open_kms_secret
from pinnace.storage.errors import UnreadableObject
from pinnace.storage.key_errors import AgePluginFailed, EncryptionBroken, IdentityMissing, IdentityRefused
from pinnace.storage.own_settings import KMS_KEYS

if TYPE_CHECKING:  # cryptography is loaded where something is encrypted only
    from pinnace.age.x25519 import X25519Identity

ReadKeyFile = Callable[[str], Awaitable[bytes]]
"""Returns the content of a key file, which may be hostile. Raises StorageError."""


async def open_key(
    encryption: Encryption,
    *,
    title: str,
    backup: str | None,
    files: Sequence[str],
    read: ReadKeyFile,
    key: str,
) -> "X25519Identity":
    """The key of a backup, by the first key file that can be opened.

    Args:
        encryption: its identities and keys of services.
        title: the name of the backup or restore, for messages.
        backup: whose key it has to be; None for any, as a restore has the key of its backup.
        files: the names of the key files, the newest first.
        read: reads one of them.
        key: the file that is to be opened, for messages.

    Raises:
        IdentityMissing, IdentityRefused: no identity was given, or none of them opens it.
        EncryptionBroken: a key file is damaged, or of another backup.
        KMSError: a key of a service does not open it.
        AgePluginFailed: the plugin of an identity does not.
    """
    identities = encryption.identities
    broken: EncryptionBroken | None = None
    failed: AgePluginFailed | None = None
    refused: KMSError | None = None
    for name in files:
        try:
            data = await read(name)
            if identities is not None:
                try:
                    return await open_key_file(data, backup, identities)
                except NoIdentityMatches:
                    pass
                except PluginFailed as error:
                    failed = failed or AgePluginFailed(f"cannot open the key of {title!r}: {error}")
            if (found := await _unwrapped_by_kms(encryption, data, backup)) is not None:
                return found
        except KMSError as error:
            refused = refused or error
        except MalformedFile as error:
            broken = broken or EncryptionBroken(name, str(error))
        except UnreadableObject as error:
            broken = broken or EncryptionBroken(name, error.reason)
    if broken is not None and (identities is not None or encryption.kms_keys):
        raise broken
    if failed is not None:
        raise failed
    if refused is not None and identities is None:
        raise refused
    if identities is None:
        hint = await _hint(files, read)
        raise IdentityMissing(key, f"{title!r} is encrypted, and no identity was given{hint}")
    raise IdentityRefused(key, f"none of the given identities opens the key of {title!r}")


async def _unwrapped_by_kms(
    encryption: Encryption, data: bytes, backup: str | None
) -> "X25519Identity | None":
    """The key in a key file by a key of a service; None if the settings name none of those in the file.

    What else stands in the file may be anybody's, and is not sent anywhere.

    Raises:
        KMSError: none of them opens it.
        MalformedFile: it is damaged or of another backup.
    """
    named = {key.uri for key in encryption.kms_keys}
    entries = [(uri, wrapped) for uri, wrapped in kms_entries(data) if uri in named]
    if not entries or encryption.kms_access is None:
        return None
    from pinnace.kms.wrapping import unwrap

    rights, refused = encryption.kms_access(), list[KMSError]()
    for uri, wrapped in entries:
        try:
            secret = await unwrap(uri, wrapped, rights)
        except KMSError as error:
            refused.append(error)
        else:
            return open_kms_secret(secret, backup)
    raise refused[0]


async def _hint(files: Sequence[str], read: ReadKeyFile) -> str:
    """Which keys of services would open a backup, for a message; empty if none would."""
    found: list[str] = []
    for name in files:
        with suppress(MalformedFile, UnreadableObject, InvalidKMSKey):
            found += [parse_key(uri).uri for uri, _ in kms_entries(await read(name))]
    if not found:
        return ""
    return f"; name the key in {KMS_KEYS} if you have the right to decrypt by {' or '.join(found[:3])}"


async def looked_at(stream: AsyncIterator[bytes]) -> tuple[bool, AsyncGenerator[bytes, None]]:
    """Whether a file begins as an encrypted one, and the whole of it as it is stored."""
    start = b""
    while len(start) < len(MAGIC) and (block := await anext(stream, b"")):
        start += block

    async def whole() -> AsyncGenerator[bytes, None]:
        if start:
            yield start
        async for block in stream:
            yield block

    return is_age(start), whole()


async def unsealed(
    stream: AsyncIterator[bytes], identity: "X25519Identity", key: str
) -> AsyncGenerator[bytes, None]:
    """The content of an encrypted file while it is read.

    Args:
        key: its name, for messages.

    Raises:
        EncryptionBroken: at the damaged place; what came before is authentic.
    """
    from pinnace.age.payload import Unsealing

    unsealing = Unsealing(identity)

    def fed(block: bytes) -> bytes:
        return b"".join(unsealing.feed(block))

    try:
        async for block in stream:
            if content := await in_thread(fed, block):
                yield content
        if content := await in_thread(unsealing.finish):
            yield content
    except AgeError as error:
        raise encryption_broken(key, error) from None


def encryption_broken(key: str, error: AgeError) -> EncryptionBroken:
    """The error of an encrypted file that cannot be decrypted."""
    if isinstance(error, NoIdentityMatches):
        reason = "it is encrypted to another key than that of its backup: somebody has exchanged it"
    else:
        reason = str(error)
    return EncryptionBroken(key, f"{reason}; get it back from a copy or an older version of the bucket")


def exchanged(key: str) -> EncryptionBroken:
    """The error of a plain file of an encrypted backup."""
    return EncryptionBroken(key, "it is not encrypted though its backup is: somebody has exchanged it")
