"""The one interface of all object stores, and small helpers to feed and drain its streams.

A store holds immutable byte strings under keys such as `prefix/backups/b1/b1.tar.gz`. It knows nothing
about backups: `backup_store` does. The contract below is kept by every adapter and proved by one
conformance suite (tests/support/stores/conformance.py).
"""

import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Generator
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from io import FileIO
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.aio.temporary import problem_text
from pinnace.storage.errors import StorageError, UnreadableObject

Body = AsyncIterable[bytes] | bytes

READ_SIZE_BYTES = 1 << 20
"""Files are read in blocks of this size: one hop into a worker thread each, so neither tiny nor huge."""

DELETE_ATTEMPTS = 3
"""How often a deletion is sent that is answered with success though the object is still there."""
MAX_LISTED = 500_000
"""Names in one list, all kept in memory; many times what an honest location holds. A store can be
anyone's."""


class ListPage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a listing, in the order of the service (ascending)."""

    keys: list[str]
    prefixes: list[str]


class ObjectStore(Protocol):
    """A bucket, container or directory.

    Keys are non-empty, use `/` between segments, do not begin or end with `/`, and have no empty, `.` or `..`
    segment; others raise StorageError where they would be created or read. All methods may be called
    concurrently and from any task of one event loop. Every method raises only StorageError and its kinds
    (besides cancellation, and what a caller's own stream raises), has a deadline for each network request
    and retries transient faults itself, a bounded number of times.

    An answer of success is believed when it is the service's and fits to what was asked: a put returns when
    the store has proved by a sum or a size that it has the object. Others, such as a login page with status
    200, are tried again and then StoreUnavailable. (docs/adr/012)

    A bucket, container or directory that is not there is such an error of every method that looks into it:
    never an empty list, a missing object or a deletion that succeeded. Backups are deleted from a cluster
    when their location no longer lists them. (docs/adr/007)
    """

    async def put(self, key: str, body: Body) -> None:
        """Store `body` under `key`, replacing what is there.

        The object appears complete or not at all, and an object that was there before is replaced as a whole
        or stays. A put that is refused, or whose stream raises, stores nothing. After StoreUnavailable and
        cancellation the whole new object may be there, as the answer of the service may have been lost;
        nothing is in flight any more, and no unfinished upload is left. It is not deleted here, because it
        may be the former object or one that another process has stored meanwhile. The stream is read once,
        in constant memory, whatever its length; its own exceptions come through unchanged. The caller closes
        it.
        """
        ...

    async def put_new(self, key: str, data: bytes) -> bool:
        """Store a small object unless there is one under `key`, and return whether it was stored.

        Of several callers at once only one stores its object where the service has conditional writes, as
        S3, GCS, Azure and directories have. Elsewhere the last one does, so read it back before relying on
        it. An object whose answer was lost may be there after StoreUnavailable, or after False.
        """
        ...

    def get(self, key: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open `key` for reading; iterate to get its bytes in blocks, leave the context to release it.

        Raises (on entering):
            ObjectNotFound: there is no such object.
        """
        ...

    async def exists(self, key: str) -> bool:
        """Whether `key` can be read. Only 'not found' is False; any other failure raises."""
        ...

    async def size(self, key: str) -> int:
        """How many bytes `key` has.

        Raises:
            ObjectNotFound: there is no such object.
        """
        ...

    async def list_prefixes(self, prefix: str) -> list[str]:
        """The common prefixes up to the next `/` of all keys that begin with `prefix`, sorted.

        `prefix` is empty or ends with `/`. Each answer begins with `prefix` and ends with `/`. All pages are
        read. Nothing there is an empty list; a list that may lack something is an error.
        """
        ...

    async def list_keys(self, prefix: str) -> list[str]:
        """All keys that begin with `prefix`, in descending order.

        Descending so that a pseudo-directory kept as an object (`b1/`) is deleted after its content.
        (docs/spec: STO 6) `prefix` is empty or ends with `/`, which keeps `b1/` from matching `b10/...`.
        """
        ...

    async def delete(self, key: str) -> None:
        """Delete `key`; that it does not exist is success. Takes every key that list_keys returns."""
        ...

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """A URL that reads `key` without credentials until `ttl` has passed; existence is not checked."""
        ...

    async def close(self) -> None:
        """Release connections. Can be called twice; nothing else may be called afterwards."""
        ...


@runtime_checkable
class RangedStore(Protocol):
    """A store that can also read a part of an object; those of plugins cannot."""

    def get_range(
        self, key: str, offset: int, length: int
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Open `length` bytes of `key` from `offset` on, as `ObjectStore.get` does.

        Fewer bytes come only where the object ends.

        Raises (on entering):
            ObjectNotFound: there is no such object.
            StorageError: `offset` is not inside of the object.
        """
        ...


@runtime_checkable
class VersionedStore(Protocol):
    """A store that can say whether an object has changed; those of plugins cannot."""

    async def version(self, key: str) -> str:
        """A version that changes whenever the object does, such as its ETag; empty if the service has none.

        Raises:
            ObjectNotFound: there is no such object.
        """
        ...


@runtime_checkable
class UploadsStore(Protocol):
    """A store that keeps the parts of an upload whose process died until somebody aborts it, as S3 does.

    Azure and GCS drop such parts by themselves after a week.
    """

    async def abort_uploads(
        self, prefix: str, *, since: datetime | None = None, before: datetime | None = None
    ) -> int:
        """Abort unfinished uploads of keys that begin with `prefix`, and return how many there were.

        Args:
            prefix: ends with `/`.
            since, before: only uploads that were begun in this time, by the store's clock; None has no limit.
                With a limit, uploads without a date from the store stay.

        Raises:
            StorageError: the store cannot list uploads, or one could not be aborted.
        """
        ...


def check_range(offset: int, length: int) -> None:
    """Raise StorageError for a part that no object can have."""
    if offset < 0 or length <= 0:
        raise StorageError(f"invalid range of {length} bytes from {offset} on")


def check_key(key: str) -> None:
    """Raise StorageError for a key that is not as ObjectStore says."""
    if "\0" in key or any(segment in ("", ".", "..") for segment in key.split("/")):
        raise StorageError(f"invalid key {key!r}")


def check_prefix(prefix: str) -> None:
    """Raise StorageError for a prefix to list that is not as ObjectStore says."""
    if not prefix:
        return
    if not prefix.endswith("/"):
        raise StorageError(f"invalid prefix {prefix!r}: it must end with '/'")
    check_key(prefix[:-1])


async def stream_file(
    path: Path,
    through: Callable[[bytes], bytes] = lambda block: block,
    end: Callable[[], bytes] = lambda: b"",
) -> AsyncGenerator[bytes, None]:
    """The bytes of a local file in blocks, read in a worker thread; made to be given to `put`.

    Args:
        through: called in that thread with each block; returns what is handed out for it.
        end: called after the last block; returns what follows.

    Raises:
        StorageError: the file cannot be opened or read.
    """
    blocks = _file_blocks(path, through, end)
    try:
        while block := await in_thread(next, blocks, b""):
            yield block
    except OSError as error:
        raise StorageError(f"cannot read {path.name}: {problem_text(path.parent, error)}") from error
    finally:
        await in_thread(blocks.close)


def _file_blocks(
    path: Path, through: Callable[[bytes], bytes], end: Callable[[], bytes]
) -> Generator[bytes, None, None]:
    with path.open("rb", buffering=0) as file:
        while block := file.read(READ_SIZE_BYTES):
            if made := through(block):
                yield made
        if made := end():
            yield made


async def save_stream(stream: AsyncIterable[bytes], path: Path) -> int:
    """Write a stream to a private file (mode 0600) and return its size; a failure leaves no file behind.

    Raises:
        StorageError: the file cannot be written.
    """
    file = _Sink(path)
    size_bytes = 0
    complete = False
    try:
        await in_thread(file.write, b"")
        async for block in stream:
            size_bytes += len(block)
            await in_thread(file.write, block)
        complete = True
    finally:
        await in_thread(file.close, keep=complete)
    return size_bytes


class _Sink:
    """A file that is opened by the first write, in the thread that writes: nothing can get lost between."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: FileIO | None = None

    def write(self, block: bytes) -> None:
        try:
            if self._file is None:
                self._file = FileIO(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
            remaining = memoryview(block)
            while remaining:
                remaining = remaining[self._file.write(remaining) :]
        except OSError as error:
            raise StorageError(
                f"cannot write {self._path.name}: {problem_text(self._path.parent, error)}"
            ) from error

    def close(self, *, keep: bool) -> None:
        if self._file is not None:
            self._file.close()
            if not keep:
                self._path.unlink(missing_ok=True)


async def read_all(store: ObjectStore, key: str, *, limit_bytes: int) -> bytes:
    """The whole object in memory.

    Raises:
        ObjectNotFound: there is no such object.
        UnreadableObject: it is larger than `limit_bytes`; a bucket's owner is not trusted with our memory.
    """
    async with store.get(key) as stream:
        return await within(stream, key, limit_bytes=limit_bytes)


async def within(stream: AsyncIterable[bytes], key: str, *, limit_bytes: int) -> bytes:
    """The whole of a stream in memory. Raises UnreadableObject: it is larger than `limit_bytes`."""
    blocks: list[bytes] = []
    size_bytes = 0
    async for block in stream:
        size_bytes += len(block)
        if size_bytes > limit_bytes:
            raise UnreadableObject(key, f"larger than {limit_bytes} bytes")
        blocks.append(block)
    return b"".join(blocks)
