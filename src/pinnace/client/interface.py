"""The interface of backends: custom resources of a server, or the files of a location.

Objects are plain dicts in the shape the API server sends, so that those of newer versions print too.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import first_names
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.client.errors import ClientError


class Backend(Protocol):
    """The objects and files that `get`, `describe`, `logs` and `download` work on."""

    @property
    def title(self) -> str:
        """The place of the objects, as messages name it."""
        ...

    async def why_empty(self, plural: str) -> str:
        """Why there may be no object of a kind, such as a namespace that does not exist; empty if unknown."""
        ...

    async def absence(self) -> str:
        """The reason why new objects wait, such as a missing server; empty if none is known."""
        ...

    async def remark(self) -> str:
        """A warning about the place of the objects, not about one of them; empty without one."""
        ...

    async def object(self, plural: str, name: str) -> JSONObject:
        """One object of a velero.io kind. Raises NoSuchObject. A location has backups and restores."""
        ...

    async def objects(self, plural: str, selector: str = "") -> list[JSONObject]:
        """All objects of a kind that match the label selector. A location has only backups and restores."""
        ...

    async def volumes_of(self, backup: str) -> Sequence[JSONObject]:
        """The PodVolumeBackups of a backup."""
        ...

    async def tarball_bytes(self, backup: str) -> int | None:
        """The size of a backup's tarball; None if this backend cannot ask for it. Raises StorageError."""
        ...

    async def csi_contents_of(self, backup: str) -> Sequence[JSONObject]:
        """The VolumeSnapshotContents of a backup."""
        ...

    def stored_file(
        self, kind: DownloadTargetKind, name: str, options: "DownloadOptions"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stored bytes of a file: an async context manager that yields chunks. Raises FileMissing."""
        ...

    def stored_part(
        self, kind: DownloadTargetKind, name: str, span: tuple[int, int], options: "DownloadOptions"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """A part of a file, given by offset and length. Raises FileMissing or PartsUnsupported."""
        ...


class DownloadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a file is downloaded: deadline and TLS of the signed URL. (docs/spec: CLI 10)"""

    timeout_seconds: float
    ca_cert: str = ""
    insecure: bool = False


class Sink(Protocol):
    """The destination of a file."""

    def write(self, data: bytes, /) -> object: ...


async def fetch(
    backend: Backend, kind: DownloadTargetKind, name: str, options: DownloadOptions, sink: Sink
) -> None:
    """Copy a stored file into `sink`, decompressed unless it is the contents tarball. (docs/spec: CLI 10)"""
    from pinnace.storage.encoding import decompress_stream
    from pinnace.storage.errors import UnreadableObject

    async with backend.stored_file(kind, name, options) as chunks:
        if kind != DownloadTargetKind.BACKUP_CONTENTS:
            # Some HTTP layers have decompressed the file already; then it passes unchanged.
            chunks = decompress_stream(chunks, key=f"{kind.words} of {name}")
        try:
            async for chunk in chunks:
                sink.write(chunk)
        except UnreadableObject as error:
            raise _damaged(kind, name, error.reason) from error


async def fetch_json(backend: Backend, kind: DownloadTargetKind, name: str, options: DownloadOptions) -> Any:
    """A stored JSON file: StoredObjects for a list of objects, the decoded value for any other.

    Raises:
        ClientError: the file cannot be read, or is damaged.
        ValueError: it is not the JSON that it should be, or exceeds a limit.
    """
    from pinnace.storage.documents import document_of
    from pinnace.storage.encoding import read_document
    from pinnace.storage.errors import UnreadableObject

    async with backend.stored_file(kind, name, options) as chunks:
        try:
            return await read_document(chunks, document_of(kind), key=f"{kind.words} of {name}")
        except UnreadableObject as error:
            raise _damaged(kind, name, error.reason) from error


def _damaged(kind: DownloadTargetKind, name: str, reason: str) -> ClientError:
    return ClientError(f"the {kind.words} of {name} cannot be read, the stored file is damaged: {reason}")


_NAMES_SHOWN = 5
_THINGS = {"backupstoragelocations": "backup locations", "volumesnapshotlocations": "snapshot locations"}


def instead_of(name: str, names: Iterable[str], things: str, place: str) -> str:
    """The end of a message that `name` was not found: similar names, else some of all names.

    Args:
        name: the name that was not found.
        names: the names of all objects.
        things: the plural of their resource.
        place: where the objects are.
    """
    known = sorted(set(names))
    things = _THINGS.get(things, things)
    if near := near_names(name, known):
        return did_you_mean(near)
    if not known:
        return f"; there are no {things} in {place}"
    return f"; {place} has {first_names(known, _NAMES_SHOWN)}"
