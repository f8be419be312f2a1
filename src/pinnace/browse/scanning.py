"""Reads all items of a tarball on disk in one pass, and writes the index of a tarball without one.

Runs in worker threads; the tarball is hostile input, under the limits of `archive.scan`.
"""

import threading
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from pinnace.archive.content import Facts, facts_of_foreign
from pinnace.archive.deflate import (
    CODEC_ERRORS,
    GZIP_MAGIC,
    INPUT_CHUNK_BYTES,
    OUTPUT_CHUNK_BYTES,
    new_decompressor,
)
from pinnace.archive.errors import ArchiveError
from pinnace.archive.item_index import IndexWriter, Span
from pinnace.archive.paths import ITEM_SUFFIX, ItemLocation, item_head, item_scope, parse_item_path
from pinnace.archive.scan import ArchiveLimits, TarStream

_MAX_PENDING = 10_000
"""The most items that wait for the end of their gzip member. A tarball of Velero is a single member."""


class Place(NamedTuple):
    """Where an item begins: the offset of its gzip member, and its own in the decompressed member."""

    member: int
    offset: int


_Found = tuple[ItemLocation, Facts, int, int]
"""An item: its place, its facts, its size and its offset in the decompressed tarball."""


class _Members:
    """The decompressed content of a tarball, and where its gzip members begin in both forms."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.starts = array("Q")
        self.compressed = array("Q")
        self.position = 0
        self.ended = False

    def chunks(self) -> Iterator[bytes]:
        data, consumed = self._file.read(INPUT_CHUNK_BYTES), 0
        if not data:
            raise ArchiveError("the file is empty, not a gzip file")
        while data:
            self.starts.append(self.position)
            self.compressed.append(consumed)
            engine = new_decompressor()
            is_full = False
            while not engine.eof:
                # A full chunk says that more may wait inside the decompressor, even with no input left over.
                if not data and not is_full:
                    data = self._file.read(INPUT_CHUNK_BYTES)
                    if not data:
                        raise ArchiveError("the gzip stream ends too early: the file is cut off")
                before = len(data)
                try:
                    chunk = engine.decompress(data, OUTPUT_CHUNK_BYTES)
                except CODEC_ERRORS as error:
                    raise ArchiveError(f"not a valid gzip file: {error}") from None
                is_full = len(chunk) == OUTPUT_CHUNK_BYTES
                data = engine.unused_data if engine.eof else engine.unconsumed_tail
                consumed += before - len(data)
                if chunk:
                    self.position += len(chunk)
                    yield chunk
            while True:
                kept = data.lstrip(b"\0")
                consumed += len(data) - len(kept)
                data = kept or self._file.read(INPUT_CHUNK_BYTES)
                if kept or not data:
                    break
            if not data.startswith(GZIP_MAGIC[: len(data)]):
                raise ArchiveError("the gzip stream is followed by data that is not gzip")
        self.compressed.append(consumed)
        self.starts.append(self.position)
        self.ended = True

    def place(self, begin: int, end: int) -> tuple[int, int]:
        """The numbers of the members that hold a part of the decompressed content; the last may be open."""
        first = bisect_right(self.starts, begin) - 1
        last = bisect_right(self.starts, max(begin, end - 1)) - 1
        return first, last


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
        for location, content, _ in _scan(_Members(file), file, limits):
            with_versions = with_versions or bool(location.version_directory)
            if all_copies or location.version_directory:
                yield location, content
    if with_versions or all_copies:
        return
    with path.open("rb") as file:
        for location, content, _ in _scan(_Members(file), file, limits):
            yield location, content


def placed_items(
    path: Path, *, limits: ArchiveLimits | None = None
) -> Iterator[tuple[ItemLocation, bytes, Place]]:
    """Every item with its content and where it lies; all copies, in the order of the tarball.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
    """
    with path.open("rb") as file:
        members = _Members(file)
        for location, content, offset in _scan(members, file, limits):
            first, _ = members.place(offset, offset + len(content))
            yield location, content, Place(members.compressed[first], offset - members.starts[first])


def has_versions(path: Path, *, limits: ArchiveLimits | None = None) -> bool:
    """Whether items are stored under their versions, beside a copy without one, as Velero does since 1.5.

    Raises:
        ArchiveError: the tarball is damaged, cut off or hostile.
    """
    items = items_of_tarball(path, limits=limits, all_copies=True)
    return any(location.version_directory for location, _ in items)


def _scan(
    members: _Members, file: BinaryIO, limits: ArchiveLimits | None
) -> Iterator[tuple[ItemLocation, bytes, int]]:
    """Items with their content and their offset in the decompressed tarball."""
    stream = TarStream(
        members.chunks(), limits=limits or ArchiveLimits(), compressed=file, stop=threading.Event()
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
            members = _Members(file)
            pending: list[_Found] = []
            output = _Placed(writer, members, size_bytes)
            for location, content, offset in _scan(members, file, limits):
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
    """Writes items under the gzip members that hold them."""

    def __init__(self, writer: IndexWriter, members: _Members, size_bytes: int) -> None:
        self._writer = writer
        self._members = members
        self._size_bytes = size_bytes
        self._span: Span | None = None
        self._written = 0

    @property
    def can_write(self) -> bool:
        """Whether a member has ended since the last call of `write`."""
        return len(self._members.starts) > self._written

    def write(self, items: list[_Found], *, all_of_them: bool) -> list[_Found]:
        """Write the items whose members have ended, or all. Returns the others."""
        members, left = self._members, []
        for item in items:
            location, facts, size_bytes, offset = item
            first, last = members.place(offset, offset + size_bytes)
            if not all_of_them and last + 1 >= len(members.compressed):
                left.append(item)
                continue
            begin = members.compressed[first]
            # A member that goes on is taken to the end of the file: what comes after it is not looked at.
            end = members.compressed[last + 1] if last + 1 < len(members.compressed) else self._size_bytes
            span = Span(begin, end - begin)
            if span != self._span:
                self._writer.begin_member(span)
                self._span = span
            directory = item_head(location.group_resource, location.version_directory) + item_scope(
                location.namespace
            )
            self._writer.add_known(
                directory, location.name + ITEM_SUFFIX, facts, size_bytes, offset - members.starts[first]
            )
        self._written = len(members.starts)
        return left
