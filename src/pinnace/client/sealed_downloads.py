"""Decrypts what the signed URL of an encrypted file gives. (docs/adr/124)

A module of its own, since few files are encrypted.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from pinnace.api.velero.download_request import OF_RESTORES, DownloadTargetKind
from pinnace.client.errors import ClientError
from pinnace.storage.encryption import Encryption
from pinnace.storage.key_opening import exchanged, looked_at, open_key, unsealed

ReaderEncryption = Callable[[], Encryption]
"""Returns the identities and keys of services of the user; called when an encrypted file is read."""


@asynccontextmanager
async def decrypted(
    opening: AbstractAsyncContextManager[AsyncIterator[bytes]],
    kind: DownloadTargetKind,
    name: str,
    key_files: Sequence[str],
    encryption: ReaderEncryption,
) -> AsyncIterator[AsyncIterator[bytes]]:
    """The content of a file, decrypted if it is encrypted.

    Args:
        opening: the file as it is stored.
        name: of its backup or restore.
        key_files: those of its backup, as the server has sent them; none if it is plain.

    Raises:
        UnreadableObject: on entering, if no identity opens it, or it is plain though there are key files; at
            the damaged place of a file that is damaged.
        ClientError: it is encrypted, and the server sends no key files.
    """
    title = f"{kind.words} of {name}"
    async with opening as stream:
        is_sealed, stored = await looked_at(stream)
        if not is_sealed:
            if key_files:
                raise exchanged(title)
            yield stored
            return
        if not key_files:
            raise ClientError(
                f"the {title} is encrypted, and the server does not send the key files of its backup, as"
                " servers of Velero and of older versions do not: read it with --location URL"
            )
        contents = [each.encode() for each in key_files]

        async def read(number: str) -> bytes:
            return contents[int(number)]

        identity = await open_key(
            encryption(),
            title=name,
            backup=None if kind in OF_RESTORES else name,
            files=[str(number) for number in range(len(contents))],
            read=read,
            key=title,
        )
        async with aclosing(unsealed(stored, identity, title)) as content:
            yield content
