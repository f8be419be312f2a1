"""Changes the password of a repository of kopia without a moment at which none opens it. (ADR 126)

The password opens two blobs: `kopia.repository` and `kopia.blobcfg`, which has the retention of blobs. kopia
writes them one after the other, and a repository whose change ends between them opens with no password. A
missing `kopia.blobcfg` is not an error for kopia. So the blobs are written for the new password in a folder,
and then exchanged in the store in this order:

    1. a note with the blobs before and after is written
    2. `kopia.blobcfg` is deleted
    3. `kopia.repository` is written        (until here the old password opens, from here the new one)
    4. `kopia.blobcfg` is written
    5. the note is deleted

A change that ended early is completed or undone by the note. While `kopia.blobcfg` is missing, new blobs get
no retention.
"""

import base64
import binascii
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import msgspec

from pinnace.storage.errors import ObjectNotFound, StorageError
from pinnace.storage.interface import ObjectStore, read_all
from pinnace.storage.open import open_object_store, store_config
from pinnace.volumes.kopia.access import Access
from pinnace.volumes.kopia.places import repository_prefix
from pinnace.volumes.uploader.access import write_private
from pinnace.volumes.uploader.errors import UnexpectedOutput

REPOSITORY: Final = "kopia.repository"
BLOB_CONFIG: Final = "kopia.blobcfg"
NOTE: Final = "pinnace.password-change"
_MOST_BYTES: Final = 1 << 20


class FormatBlobs(msgspec.Struct, frozen=True, kw_only=True):
    """The two blobs that a password opens.

    Attributes:
        blob_config: None where there is none.
    """

    repository: bytes
    blob_config: bytes | None = None

    @classmethod
    def read(cls, folder: Path) -> "FormatBlobs":
        """The blobs in a folder. Raises OSError."""
        config = folder / f"{BLOB_CONFIG}.f"
        return cls(
            repository=(folder / f"{REPOSITORY}.f").read_bytes(),
            blob_config=config.read_bytes() if config.exists() else None,
        )

    def write(self, folder: Path) -> None:
        """Write the blobs into a new folder, as kopia names them. Raises OSError."""
        folder.mkdir(mode=0o700)
        write_private(folder / f"{REPOSITORY}.f", self.repository)
        if self.blob_config is not None:
            write_private(folder / f"{BLOB_CONFIG}.f", self.blob_config)


class StoredBlobs:
    """The format blobs of a repository in its store. Each method raises StorageError."""

    def __init__(self, store: ObjectStore, prefix: str, suffix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._suffix = suffix

    async def read(self) -> FormatBlobs:
        """The blobs as they are."""
        repository = await self._get(REPOSITORY)
        if repository is None:
            raise ObjectNotFound(self._key(REPOSITORY))
        return FormatBlobs(repository=repository, blob_config=await self._get(BLOB_CONFIG))

    async def exchange(self, before: FormatBlobs, after: FormatBlobs) -> None:
        """Put other blobs in the place of those that are there."""
        await self._store.put(self._key(NOTE), _note(before, after))
        await self._store.delete(self._key(BLOB_CONFIG))
        await self._store.put(self._key(REPOSITORY), after.repository)
        await self._put_config(after)
        await self._store.delete(self._key(NOTE))

    async def settle(self) -> None:
        """Complete or undo an exchange that ended early; do nothing if there was none."""
        noted = await self._get(NOTE)
        if noted is None:
            return
        now = await self.read()
        if now.blob_config is None:
            for blobs in _noted(noted):
                if blobs.repository == now.repository:
                    await self._put_config(blobs)
        await self._store.delete(self._key(NOTE))

    async def _put_config(self, blobs: FormatBlobs) -> None:
        if blobs.blob_config is not None:
            await self._store.put(self._key(BLOB_CONFIG), blobs.blob_config)

    async def _get(self, name: str) -> bytes | None:
        try:
            return await read_all(self._store, self._key(name), limit_bytes=_MOST_BYTES)
        except ObjectNotFound:
            return None

    def _key(self, name: str) -> str:
        return f"{self._prefix}{name}{self._suffix}"


@asynccontextmanager
async def stored_blobs(access: Access) -> AsyncIterator[StoredBlobs]:
    """The format blobs of an opened repository. Raises UnexpectedOutput for what the store refuses."""
    opened = access.opened
    location, provider = opened.location, opened.location.spec.provider
    try:
        config = store_config(location, credentials_file=opened.credentials)
        config.pop("prefix", None)
        store = open_object_store(provider, config, environ=opened.inherited)
        try:
            yield StoredBlobs(
                store, repository_prefix(location, opened.repository.namespace), access.storage.blob_suffix
            )
        finally:
            await store.close()
    except StorageError as error:
        raise UnexpectedOutput(f"the format blobs of the repository: {error}") from error


def _note(before: FormatBlobs, after: FormatBlobs) -> bytes:
    return json.dumps([_encoded(before), _encoded(after)]).encode()


def _encoded(blobs: FormatBlobs) -> dict[str, str]:
    known = {REPOSITORY: blobs.repository, BLOB_CONFIG: blobs.blob_config}
    return {name: base64.b64encode(data).decode() for name, data in known.items() if data is not None}


def _noted(note: bytes) -> list[FormatBlobs]:
    """The blobs in a note; none if it cannot be read."""
    try:
        return [
            FormatBlobs(
                repository=base64.b64decode(each[REPOSITORY], validate=True),
                blob_config=base64.b64decode(each[BLOB_CONFIG], validate=True)
                if BLOB_CONFIG in each
                else None,
            )
            for each in json.loads(note)
        ]
    except (ValueError, LookupError, TypeError, binascii.Error, RecursionError):
        return []
