"""Between Python values and the gzip'd JSON of a location's files. (docs/spec: STO 3, 4)

The files may come from a bucket that other users can write to: sizes are limited before anything
is decompressed or parsed, and errors name the key, never the content.
"""

import gzip
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any

import orjson

from pinnace.api.objects import JSONObject
from pinnace.storage.errors import StorageError, UnreadableObject

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


def decompress(data: bytes, *, key: str, limit_bytes: int) -> bytes:
    """Undo gzip; data that is not gzip is returned as it is, as some HTTP layers decompress by themselves.

    Raises:
        UnreadableObject: damaged, cut off, or larger than `limit_bytes`.
    """
    if not data.startswith(_GZIP_MAGIC):
        return data
    output = bytearray()
    while data:
        unpacker = zlib.decompressobj(_GZIP_WINDOW)
        try:
            output += unpacker.decompress(data, limit_bytes - len(output) + 1)
        except zlib.error as error:
            raise UnreadableObject(key, "damaged gzip data") from error
        if len(output) > limit_bytes:
            raise UnreadableObject(key, f"larger than {limit_bytes} bytes")
        if not unpacker.eof:
            raise UnreadableObject(key, "the gzip data is cut off")
        data = unpacker.unused_data.lstrip(b"\0")
    return bytes(output)


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
        """What a further piece of the data holds. Raises UnreadableObject: it is damaged, or no gzip data."""
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


async def decompress_stream(stream: AsyncIterator[bytes], *, key: str) -> AsyncGenerator[bytes, None]:
    """Undo gzip as the data comes, in blocks of limited size; data that is not gzip passes unchanged.

    Raises:
        UnreadableObject: damaged or cut off; what came before has been handed out.
    """
    unpacked: GzipStream | None = None
    is_plain = False
    pending = b""
    async for block in stream:
        pending += block
        if unpacked is None and not is_plain:
            if len(pending) < len(_GZIP_MAGIC):
                continue
            is_plain = not pending.startswith(_GZIP_MAGIC)
            unpacked = None if is_plain else GzipStream(key)
        if unpacked is None:
            yield pending
        else:
            for output in unpacked.feed(pending):
                yield output
        pending = b""
    if pending:
        yield pending
    if unpacked is not None:
        unpacked.finish()


def decode_list(data: bytes, *, key: str) -> list[JSONObject]:
    """The objects of a JSON array; `null` and `{}` are none.

    Raises:
        UnreadableObject: no JSON, or something else than an array of objects.
    """
    value = _loads(data, key)
    if not value:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise UnreadableObject(key, "not a JSON array of objects")
    return value


def decode_object(data: bytes, *, key: str) -> JSONObject:
    """A JSON object; `null` and `[]` are an empty one.

    Raises:
        UnreadableObject: no JSON, or something else than an object.
    """
    value = _loads(data, key)
    if not value:
        return {}
    if not isinstance(value, dict):
        raise UnreadableObject(key, "not a JSON object")
    return value


def _loads(data: bytes, key: str) -> Any:
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UnreadableObject(key, f"not valid JSON: {error.msg}") from None
