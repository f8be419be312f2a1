"""Where the commands find backups and restores: custom resources of a server, or a location read directly.

Objects are plain dicts in the shape the API server sends, so that those of newer versions print too.
"""

import io
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, BinaryIO, Protocol

from pinnace.api.download_request import DownloadTargetKind
from pinnace.api.objects import JSONObject
from pinnace.cli.errors import CommandError
from pinnace.cli.settings import Settings

GZIP_MAGIC = b"\x1f\x8b"


class NotFound(CommandError):
    """No object of that name; the text is the API server's."""


class FileMissing(CommandError):
    """The object exists, the file of it does not."""


class Backend(Protocol):
    """What `get`, `describe`, `logs` and `download` need to know."""

    async def object(self, plural: str, name: str) -> JSONObject:
        """One object of a velero.io kind. Raises NotFound. A location has backups and restores."""
        ...

    async def objects(self, plural: str, selector: str = "") -> list[JSONObject]:
        """All objects of a kind that match the label selector text; none of a kind that a location lacks."""
        ...

    async def volumes_of(self, backup: str) -> list[JSONObject]:
        """The PodVolumeBackups of a backup."""
        ...

    async def csi_contents_of(self, backup: str) -> list[JSONObject]:
        """The VolumeSnapshotContents of a backup."""
        ...

    def stored_file(
        self, kind: DownloadTargetKind, name: str, options: "DownloadOptions"
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The stored bytes of a file: an async context manager that yields chunks. Raises FileMissing."""
        ...


class DownloadOptions:
    """How a file is fetched: deadline and TLS of the signed URL. (docs/spec: CLI 10)"""

    __slots__ = ("ca_cert", "insecure", "timeout_seconds")

    def __init__(self, *, timeout_seconds: float, ca_cert: str = "", insecure: bool = False) -> None:
        self.timeout_seconds = timeout_seconds
        self.ca_cert = ca_cert
        self.insecure = insecure


@asynccontextmanager
async def open_backend(settings: Settings) -> AsyncIterator[Backend]:
    """The backend that the settings ask for."""
    if settings.location is not None:
        from pinnace.cli.backend.location import LocationBackend

        async with LocationBackend.open(settings.location) as local:
            yield local
    else:
        from pinnace.cli.backend.server import ServerBackend
        from pinnace.cli.connect import open_cluster

        async with open_cluster(settings) as client:
            yield ServerBackend(client, settings.namespace)


async def fetch(
    backend: Backend, kind: DownloadTargetKind, name: str, options: DownloadOptions, sink: BinaryIO
) -> None:
    """Copy a stored file into `sink`, decompressed unless it is the contents tarball. (docs/spec: CLI 10)"""
    import zlib

    raw = kind == DownloadTargetKind.BACKUP_CONTENTS
    async with backend.stored_file(kind, name, options) as chunks:
        inflater = None
        first = True
        async for chunk in chunks:
            if first and chunk:
                first = False
                # Some HTTP layers have undone the compression already: the magic says.
                inflater = None if raw or not chunk.startswith(GZIP_MAGIC) else zlib.decompressobj(wbits=31)
            try:
                sink.write(inflater.decompress(chunk) if inflater else chunk)
            except zlib.error as error:
                raise CommandError(f"{kind} of {name} is damaged: {error}") from error
        if inflater is not None:
            if not inflater.eof:
                raise CommandError(f"{kind} of {name} ends early: the stored file is damaged")
            sink.write(inflater.flush())


async def fetch_json(backend: Backend, kind: DownloadTargetKind, name: str, options: DownloadOptions) -> Any:
    """A stored JSON file, decoded. Raises CommandError, or ValueError when it is no JSON."""
    import orjson

    buffer = io.BytesIO()
    await fetch(backend, kind, name, options, buffer)
    return orjson.loads(buffer.getvalue())
