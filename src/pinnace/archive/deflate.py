"""The gzip codec: isal where there is a wheel for it, the standard library's zlib elsewhere.

isal at level 2 is 4.8 times as fast as zlib at its default level and gives files 4 % larger; the level of
the fallback is chosen for speed too. The gzip header carries no name and time 0, so that equal content
gives equal bytes. (docs/spec: STO 3)
"""

import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol, cast

from pinnace.archive.errors import ArchiveError

try:
    from isal import igzip_lib, isal_zlib
except ImportError:  # no wheel for this machine
    isal_zlib = None  # type: ignore[assignment]
    CODEC_ERRORS: tuple[type[Exception], ...] = (zlib.error,)
else:
    CODEC_ERRORS = (zlib.error, cast("type[Exception]", igzip_lib.IsalError))

_GZIP_WINDOW = 31
"""Window bits that ask for a gzip wrapper, so that length and checksum are checked."""
_RAW_WINDOW = -15
"""Window bits that ask for no wrapper, and for the largest window."""

_ISAL_LEVEL = 2
_ZLIB_LEVEL = 2

GZIP_MAGIC = b"\x1f\x8b"
"""The first two bytes of a gzip member."""

SYNC_FLUSH: Final = zlib.Z_SYNC_FLUSH
"""The data so far can be decompressed; what follows refers back to it."""
FULL_FLUSH: Final = zlib.Z_FULL_FLUSH
"""As SYNC_FLUSH, but what follows refers to nothing before it, and can be decompressed by itself."""
FLUSH_MARK: Final = b"\0\0\xff\xff"
"""The end of what either flush puts out: the length of an empty stored block. It occurs elsewhere too."""
WINDOW_BYTES: Final = 32 * 1024
"""How far back compressed data can refer to decompressed data (RFC 1951)."""

INPUT_CHUNK_BYTES = 64 * 1024
OUTPUT_CHUNK_BYTES = 1024 * 1024
"""Upper bound of what one step of inflating may produce, so that a bomb cannot fill the memory."""


class Compressor(Protocol):
    """The two methods that zlib's and isal's compression objects share."""

    def compress(self, data: bytes | memoryview, /) -> bytes: ...

    def flush(self, mode: int = ..., /) -> bytes:
        """The compressed data that is left; without a mode the end of the data too."""
        ...


def new_compressor(*, use_isal: bool = True) -> Compressor:
    """A compressor that writes one gzip member."""
    if isal_zlib is not None and use_isal:
        compressor: Compressor = isal_zlib.compressobj(_ISAL_LEVEL, isal_zlib.DEFLATED, _GZIP_WINDOW)
        return compressor
    return zlib.compressobj(_ZLIB_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)


def inflate(source: BinaryIO, *, use_isal: bool = True) -> Iterator[bytes]:
    """Yield the decompressed content of a gzip file in chunks of at most `OUTPUT_CHUNK_BYTES`.

    Several gzip members in a row are one stream; zero bytes after the last one are padding.

    Raises:
        ArchiveError: not gzip, damaged, cut off, or followed by something else.
    """
    try:
        yield from _inflate_members(source, use_isal=use_isal)
    except CODEC_ERRORS as error:
        raise ArchiveError(f"not a valid gzip file: {error}") from error


def _inflate_members(source: BinaryIO, *, use_isal: bool) -> Iterator[bytes]:
    data = source.read(INPUT_CHUNK_BYTES)
    if not data:
        raise ArchiveError("the file is empty, not a gzip file")
    while data:
        engine = new_decompressor(use_isal=use_isal)
        while not engine.eof:
            chunk = engine.decompress(data, OUTPUT_CHUNK_BYTES)
            if chunk:
                yield chunk
            data = engine.unconsumed_tail
            # A full chunk says that more may wait inside the decompressor, even with no input left over.
            if not engine.eof and not data and len(chunk) < OUTPUT_CHUNK_BYTES:
                data = source.read(INPUT_CHUNK_BYTES)
                if not data:
                    raise ArchiveError("the gzip stream ends too early: the file is cut off")
        data = _next_member(engine.unused_data, source)


def _next_member(rest: bytes, source: BinaryIO) -> bytes:
    """The data that follows a gzip member: the start of the next one, or nothing (padding is dropped)."""
    while True:
        rest = rest.lstrip(b"\0")
        if rest:
            break
        rest = source.read(INPUT_CHUNK_BYTES)
        if not rest:
            return b""
    if len(rest) < 2:
        rest += source.read(INPUT_CHUNK_BYTES)
    if rest[:2] != GZIP_MAGIC:
        raise ArchiveError("the gzip stream is followed by data that is not gzip")
    return rest


class Decompressor(Protocol):
    """The members that zlib's and isal's decompression objects share."""

    @property
    def eof(self) -> bool: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def new_decompressor(*, raw: bool = False, use_isal: bool = True) -> Decompressor:
    """A decompressor of one gzip member; its methods raise `CODEC_ERRORS`.

    Args:
        raw: begin behind a full flush within a member instead; nothing checks length and checksum then.
        use_isal: whether isal is taken if it is there.
    """
    window = _RAW_WINDOW if raw else _GZIP_WINDOW
    if isal_zlib is not None and use_isal:
        engine: Decompressor = isal_zlib.decompressobj(window)
        return engine
    return zlib.decompressobj(window)
