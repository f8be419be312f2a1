"""Between Python values and the gzip'd JSON of a location's files. (docs/spec: STO 3, 4)

The files may come from a bucket that other users can write to: they are read in blocks, `documents` limits
what is made of them, and errors name the key, never the content.
"""

import gzip
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

import orjson

from pinnace.aio.blocking import in_thread
from pinnace.storage.errors import StorageError, UnreadableObject

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_GZIP_MAGIC = b"\x1f\x8b"
_LEVEL = 6
_GZIP_WINDOW = 31  # zlib's number for the largest window in a gzip wrapper
_BLOCK_BYTES = 1 << 20


def compress(data: bytes) -> bytes:
    """gzip without file name and time, so that equal content gives equal files."""
    return gzip.compress(data, compresslevel=_LEVEL, mtime=0)


def encode_list(items: Sequence[Mapping[str, Any]]) -> bytes:
    """Compressed JSON of a list; an empty one is `null`. (docs/spec: STO 3)"""
    return compress(_dumps(list(items) or None))


def encode_object(value: Mapping[str, Any]) -> bytes:
    """Compressed JSON of an object with sorted keys; an empty one is `{}`."""
    return compress(_dumps(dict(value)))


def _dumps(value: object) -> bytes:
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE | orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise StorageError(f"cannot encode a file of the location: {error}") from error


class GzipStream:
    """Undoes gzip as the data comes, in blocks of limited size; several members are one after the other.

    Args:
        key: what is read, for errors.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._is_empty = True
        self._unpacker: zlib._Decompress | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content of a further piece. Raises UnreadableObject: it is damaged, or no gzip data."""
        if self._unpacker is None and not self._is_empty:
            data = data.lstrip(b"\0")  # padding between or behind members
        while data:
            self._is_empty = False
            self._unpacker = self._unpacker or zlib.decompressobj(_GZIP_WINDOW)
            try:
                output = self._unpacker.decompress(data, _BLOCK_BYTES)
            except zlib.error as error:
                raise UnreadableObject(self._key, "damaged gzip data") from error
            data = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                data, self._unpacker = self._unpacker.unused_data.lstrip(b"\0"), None
            if output:
                yield output

    def finish(self) -> None:
        """Check that all of it came. Raises UnreadableObject."""
        if self._unpacker is not None or self._is_empty:
            raise UnreadableObject(self._key, "the gzip data is cut off")


class Unpacker:
    """Undoes gzip as the data comes; data that is not gzip passes unchanged: some HTTP layers undo it before.

    Args:
        key: what is read, for errors.
        may_be_plain: data that is not gzip passes; else it is an error.
    """

    def __init__(self, key: str, *, may_be_plain: bool = True) -> None:
        self._key = key
        self._may_be_plain = may_be_plain
        self._pending = b""
        self._gzip: GzipStream | None = None
        self._is_plain = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content of a further piece in limited blocks. Raises UnreadableObject: it is damaged."""
        data, self._pending = self._pending + data, b""
        if self._gzip is None and not self._is_plain:
            if len(data) < len(_GZIP_MAGIC):
                self._pending = data
                return
            self._is_plain = not data.startswith(_GZIP_MAGIC)
            if self._is_plain and not self._may_be_plain:
                raise UnreadableObject(self._key, "not valid gzip data")
            self._gzip = None if self._is_plain else GzipStream(self._key)
        if self._gzip is not None:
            yield from self._gzip.feed(data)
        elif data:
            yield data

    def finish(self) -> Iterator[bytes]:
        """The rest. Raises UnreadableObject: the data is cut off."""
        if self._gzip is None and not self._is_plain and not self._may_be_plain:
            raise UnreadableObject(self._key, "the gzip data is cut off")
        if self._pending:
            yield self._pending
        if self._gzip is not None:
            self._gzip.finish()


async def decompress_stream(stream: AsyncIterator[bytes], *, key: str) -> AsyncGenerator[bytes, None]:
    """Undo gzip as the data comes, in blocks of limited size; data that is not gzip passes unchanged.

    Raises:
        UnreadableObject: damaged or cut off; what came before has been handed out.
    """
    unpacker = Unpacker(key)
    async for block in stream:
        for output in unpacker.feed(block):
            yield output
    for output in unpacker.finish():
        yield output


class Document(Protocol[T_co]):
    """A file that is read block by block; see `documents`. Its methods raise DocumentError."""

    def feed(self, block: bytes, /) -> None:
        """Take a block."""
        ...

    def finish(self) -> T_co:
        """Return what is in the file, after the last block."""
        ...


async def read_document(
    stream: AsyncIterator[bytes], document: Document[T], *, key: str, may_be_plain: bool = True
) -> T:
    """The content of a stored file. The stream is left at the block that exceeds a limit.

    Args:
        key: what is read, for errors.
        may_be_plain: see Unpacker.

    Raises:
        UnreadableObject: the gzip data is damaged or cut off.
        DocumentError: the content is not what it should be, or exceeds a limit.
    """
    unpacker = Unpacker(key, may_be_plain=may_be_plain)

    def feed(outputs: Iterator[bytes]) -> None:
        for output in outputs:
            document.feed(output)

    async for block in stream:
        await in_thread(feed, unpacker.feed(block))
    await in_thread(feed, unpacker.finish())
    return await in_thread(document.finish)
