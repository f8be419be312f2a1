"""Decrypts what the signed URL of an encrypted file gives. (docs/adr/124)

A module of its own, since few files are encrypted.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

import msgspec

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.client.errors import ClientError
from pinnace.storage.encryption import Encryption
from pinnace.storage.key_opening import exchanged, looked_at, open_key, unsealed

ReaderEncryption = Callable[[], Encryption]
"""Returns the identities and keys of services of the user; called when an encrypted file is read."""


class KeyFilesOf(msgspec.Struct, frozen=True):
    """The key files of a file, as the server has sent them.

    Attributes:
        name: of its backup or restore, for messages.
        backup: whose key files they have to be; None for a restore, which has those of its backup.
        contents: the newest first; none if it is plain.
    """

    name: str
    backup: str | None
    contents: Sequence[str]


@asynccontextmanager
async def decrypted(
    opening: AbstractAsyncContextManager[AsyncIterator[bytes]],
    kind: DownloadTargetKind,
    keys: KeyFilesOf,
    encryption: ReaderEncryption,
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The content of a file, decrypted if it is encrypted.

    Args:
        opening: the file as it is stored.

    Raises:
        UnreadableObject: on entering, if no identity opens it, or it is plain though there are key files; at
            the damaged place of a file that is damaged.
        ClientError: it is encrypted, and the server sends no key files.
    """
    title = f"{kind.words} of {keys.name}"
    async with opening as stream:
        is_sealed, stored = await looked_at(stream)
        if not is_sealed:
            if keys.contents:
                raise exchanged(title)
            yield stored
            return
        if not keys.contents:
            raise ClientError(
                f"the {title} is encrypted, and the server does not send the key files of its backup, as"
                " servers of Velero and of older versions do not: read it with --location URL"
            )

        async def read(number: str) -> bytes:
            return keys.contents[int(number)].encode()

        identity = await open_key(
            encryption(),
            title=keys.name,
            backup=keys.backup,
            files=[str(number) for number in range(len(keys.contents))],
            read=read,
            key=title,
        )
        async with aclosing(unsealed(stored, identity, title)) as content:
            yield content
