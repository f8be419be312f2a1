"""Reads all items of a tarball on disk in one pass, and writes the index of a tarball without one.

Runs in worker threads; the tarball is hostile input, under the limits of `archive.scan`.
"""

import threading
from array import array
from bisect import bisect_right
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from pinnace.archive.content import ContentFacts, facts_of_foreign
from pinnace.archive.deflate import (
    CODEC_ERRORS,
    FLUSH_MARK,
    GZIP_MAGIC,
    INPUT_CHUNK_BYTES,
    OUTPUT_CHUNK_BYTES,
    WINDOW_BYTES,
    Decompressor,
    new_decompressor,
)
from pinnace.archive.errors import ArchiveError
from pinnace.archive.item_index import IndexWriter, Span
from pinnace.archive.paths import ITEM_SUFFIX, ItemLocation, item_head, item_scope, parse_item_path
from pinnace.archive.scan import ArchiveLimits, TarStream

_MAX_PENDING = 10_000
"""The most items that wait for the end of their span. A tarball of Velero is a single span."""

_TRIAL_BYTES: Final = INPUT_CHUNK_BYTES
"""As much as is decompressed on trial behind a flush mark. Beyond the window nothing refers back to it."""
_MARK_BEGIN: Final = len(FLUSH_MARK) - 1


class ItemStart(NamedTuple):
    """Where an item begins.

    Attributes:
        span: the span that holds its first byte. The length goes to the beginning of the span that holds its
            last byte, whose own end is not known yet: 0 for an item within one span.
        offset: in the decompressed span.
    """

    span: Span
    offset: int


_Found = tuple[ItemLocation, ContentFacts, int, int]
"""An item: its place, its facts, its size and its offset in the decompressed tarball."""


class _Trial(NamedTuple):
    """The place behind a flush mark, and what comes out of the data there without that before it."""

    offset: int
    text: bytes | None

    def is_beginning_of(self, content: bytes) -> bool:
        """Whether the content that comes with the data before it is the same, as far as it can refer back."""
        if self.text is None:
            return False
        length = min(len(self.text), len(content))
        return self.text[:length] == content[:length] and length >= min(len(content), WINDOW_BYTES)


class _Spans:
    """The decompressed content of a tarball, and where its spans begin in both forms.

    A part, which begins at a full flush, is found by the mark of the flush. As the mark may be chance, and
    other flushes have it too, the beginning of what follows is decompressed by itself and compared.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.starts = array("Q")
        self.compressed = array("Q")
        self.parts = bytearray()
        self._consumed = 0
        self._position = 0
        self._trials = 0

    def chunks(self) -> Iterator[bytes]:
        """The decompressed content. Raises ArchiveError."""
        data = self._file.read(INPUT_CHUNK_BYTES)
        if not data:
            raise ArchiveError("the file is empty, not a gzip file")
        while data:
            self._begin(self._consumed, is_part=False)
            data = yield from self._member(data)
            while True:
                kept = data.lstrip(b"\0")
                self._consumed += len(data) - len(kept)
                data = kept or self._file.read(INPUT_CHUNK_BYTES)
                if kept or not data:
                    break
            if not data.startswith(GZIP_MAGIC[: len(data)]):
                raise ArchiveError("the gzip stream is followed by data that is not gzip")
        self._begin(self._consumed, is_part=False)  # the end of the last

    def _member(self, data: bytes) -> Generator[bytes, None, bytes]:
        """The content of one gzip member. Returns the data behind it."""
        engine = new_decompressor()
        before, trial = b"", None
        is_full = is_marked = False
        while not engine.eof:
            if is_marked and not is_full:
                data = self._at_least(_TRIAL_BYTES, data)
                trial, is_marked = self._try(data), False
            # A full chunk says that more may wait inside the decompressor, even with no input left over.
            if not data and not is_full:
                data = self._at_least(1, data)
                if not data:
                    raise ArchiveError("the gzip stream ends too early: the file is cut off")
            # No further than to the next mark; nothing beyond it until all before it has come out.
            mark = self._end_of_mark(before, data) if not is_marked else 0
            end = len(data) if mark is None else mark
            chunk = _decompressed(engine, data[:end])
            is_full = len(chunk) == OUTPUT_CHUNK_BYTES
            rest = engine.unused_data if engine.eof else engine.unconsumed_tail
            is_marked = mark is not None and not rest
            used = end - len(rest)
            before = (before + data[max(0, used - _MARK_BEGIN) : used])[-_MARK_BEGIN:]
            data = rest + data[end:]
            self._consumed += used
            if trial is not None and (chunk or engine.eof):
                if trial.is_beginning_of(chunk):
                    self._begin(trial.offset, is_part=True)
                trial = None
            if chunk:
                self._position += len(chunk)
                yield chunk
        return data

    def _end_of_mark(self, before: bytes, data: bytes) -> int | None:
        """Where the first flush mark in the data ends, which may begin before it; None without one to try.

        All trials together take no longer than everything else, however many marks a hostile file has.
        """
        if self._trials * _TRIAL_BYTES > self._consumed + self._position:
            return None
        mark = (before + data).find(FLUSH_MARK)
        return mark + len(FLUSH_MARK) - len(before) if mark >= 0 else None

    def _try(self, data: bytes) -> _Trial:
        self._trials += 1
        try:
            text = new_decompressor(raw=True).decompress(data[:_TRIAL_BYTES], _TRIAL_BYTES)
        except CODEC_ERRORS:
            return _Trial(self._consumed, None)
        return _Trial(self._consumed, text)

    def _at_least(self, size_bytes: int, data: bytes) -> bytes:
        """The data, with more from the file if it is shorter; all that is left if that is less."""
        while len(data) < size_bytes and (more := self._file.read(INPUT_CHUNK_BYTES)):
            data += more
        return data

    def _begin(self, offset: int, *, is_part: bool) -> None:
        self.starts.append(self._position)
        self.compressed.append(offset)
        self.parts.append(is_part)

    def span(self, number: int, end: int) -> Span:
        """The span of a number, up to an offset in the tarball."""
        begin = self.compressed[number]
        return Span(begin, end - begin, bool(self.parts[number]))

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """The numbers of the spans that hold a part of the decompressed content; the last may be open."""
        first = bisect_right(self.starts, begin) - 1
        last = bisect_right(self.starts, max(begin, end - 1)) - 1
        return first, last


def _decompressed(engine: Decompressor, data: bytes) -> bytes:
    try:
        return engine.decompress(data, OUTPUT_CHUNK_BYTES)
    except CODEC_ERRORS as error:
        raise ArchiveError(f"not a valid gzip file: {error}") from None


def items_of_tarball(
    path: Path, *, limits: ArchiveLimits | None = None, all_copies: bool = False
) -> Iterator[tuple[ItemLocation, bytes]]:
    """Every item with its content, in the order of the tarball.

    An item that is stored twice, under its version and without one, comes once, under its version. In the
    tarballs of old servers no item has a version.

    Args:
        path: the tarball.
        limits: what it may hold.
        all_copies: the copies without version come too.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
    """
    with_versions = False
    with path.open("rb") as file:
        for location, content, _ in _scan(_Spans(file), file, limits):
            with_versions = with_versions or bool(location.version_directory)
            if all_copies or location.version_directory:
                yield location, content
    if with_versions or all_copies:
        return
    with path.open("rb") as file:
        for location, content, _ in _scan(_Spans(file), file, limits):
            yield location, content


def placed_items(
    path: Path, *, limits: ArchiveLimits | None = None, begins: list[int] | None = None
) -> Iterator[tuple[ItemLocation, bytes, ItemStart]]:
    """Every item with its content and where it lies; all copies, in the order of the tarball.

    Args:
        path: the tarball.
        limits: what it may hold.
        begins: takes the offsets in the tarball where its spans begin, and last its size.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
    """
    with path.open("rb") as file:
        spans = _Spans(file)
        for location, content, offset in _scan(spans, file, limits):
            first, last = spans.place(offset, offset + len(content))
            span = spans.span(first, spans.compressed[last])
            yield location, content, ItemStart(span, offset - spans.starts[first])
        if begins is not None:
            begins.extend(spans.compressed)


def has_versions(path: Path, *, limits: ArchiveLimits | None = None) -> bool:
    """Whether items are stored under their versions, beside a copy without one, as Velero does since 1.5.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
    """
    items = items_of_tarball(path, limits=limits, all_copies=True)
    return any(location.version_directory for location, _ in items)


def _scan(
    spans: _Spans, file: BinaryIO, limits: ArchiveLimits | None
) -> Iterator[tuple[ItemLocation, bytes, int]]:
    """Items with their content and their offset in the decompressed tarball."""
    stream = TarStream(
        spans.chunks(), limits=limits or ArchiveLimits(), compressed=file, stop=threading.Event()
    )
    for member in stream.members():
        location = parse_item_path(member.path) if member.is_file else None
        if location is not None:
            offset = stream.offset
            yield location, stream.read(), offset


def write_index(tarball: Path, index: Path, *, limits: ArchiveLimits | None = None) -> int:
    """Write the index of a tarball. Returns the number of its items.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
        OSError: the index cannot be written.
    """
    versions = has_versions(tarball, limits=limits)
    size_bytes = tarball.stat().st_size
    count = 0
    writer = IndexWriter(index)
    try:
        with tarball.open("rb") as file:
            spans = _Spans(file)
            pending: list[_Found] = []
            output = _Placed(writer, spans, size_bytes)
            for location, content, offset in _scan(spans, file, limits):
                if versions and not location.version_directory:
                    continue
                count += 1
                pending.append((location, facts_of_foreign(content), len(content), offset))
                if len(pending) >= _MAX_PENDING or output.can_write:
                    pending = output.write(pending, all_of_them=len(pending) >= _MAX_PENDING)
            output.write(pending, all_of_them=True)
        writer.close(size_bytes)
    except BaseException:  # cancellation too: half an index must not stay; passed on
        writer.discard()
        raise
    return count


class _Placed:
    """Writes items under the spans that hold them."""

    def __init__(self, writer: IndexWriter, spans: _Spans, size_bytes: int) -> None:
        self._writer = writer
        self._spans = spans
        self._size_bytes = size_bytes
        self._span: Span | None = None
        self._written = 0

    @property
    def can_write(self) -> bool:
        """Whether a span has ended since the last call of `write`."""
        return len(self._spans.starts) > self._written

    def write(self, items: list[_Found], *, all_of_them: bool) -> list[_Found]:
        """Write the items whose spans have ended, or all. Returns the others."""
        spans, left = self._spans, []
        for item in items:
            location, facts, size_bytes, offset = item
            first, last = spans.place(offset, offset + size_bytes)
            if not all_of_them and last + 1 >= len(spans.compressed):
                left.append(item)
                continue
            # A span that goes on is taken to the end of the file: what comes after it is not looked at.
            end = spans.compressed[last + 1] if last + 1 < len(spans.compressed) else self._size_bytes
            span = spans.span(first, end)
            if span != self._span:
                self._writer.begin_span(span)
                self._span = span
            directory = item_head(location.group_resource, location.version_directory) + item_scope(
                location.namespace
            )
            self._writer.add_known(
                directory, location.name + ITEM_SUFFIX, facts, size_bytes, offset - spans.starts[first]
            )
        self._written = len(spans.starts)
        return left
