"""Walks the members of a decompressed tar stream and copies the wanted ones to a spool file.

Archives are hostile input: nothing is ever written to a path the archive names, every count and size has a
limit, and what is damaged is refused with a text that says where. Runs in a worker thread.
(docs/spec: RST 6, BEY 11.1 row 20)
"""

import threading
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from pinnace.archive.errors import ArchiveError
from pinnace.archive.tarformat import (
    BLOCK_BYTES,
    DIRECTORY_TYPE,
    GNU_LONG_LINK_TYPE,
    GNU_LONG_NAME_TYPE,
    GNU_SPARSE_TYPE,
    HEADER_ONLY_TYPES,
    PAX_GLOBAL_TYPE,
    PAX_TYPE,
    REGULAR_TYPES,
    ZERO_BLOCK,
    Header,
    display,
    parse_header,
    parse_pax,
)

_MAX_EXTENSION_BYTES = 64 * 1024
_MAX_PATH_BYTES = 4096
_RATIO_FROM_BYTES = 64 * 1024 * 1024
"""The ratio of smaller archives is not limited."""


class ArchiveLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits beyond which an archive is refused. The defaults leave a real cluster a factor of ten."""

    max_entries: int = 10_000_000
    max_uncompressed_bytes: int = 256 * 1024**3
    max_item_bytes: int = 16 * 1024**2
    """The API server takes no object beyond about 3 MiB, which escapes can make six times as long."""
    max_ratio: int = 500
    """Uncompressed to compressed size; JSON stored twice reaches about 60, a bomb 1000."""


class Member(NamedTuple):
    """One file or directory; `path` is relative and clean, in parts joined by single slashes."""

    path: str
    is_file: bool
    is_directory: bool
    size_bytes: int


class TarStream:
    """Pulls members out of an iterator of byte chunks.

    Use: for each member of `members()`, call `read()` for its data or nothing to skip it.
    """

    def __init__(
        self, chunks: Iterator[bytes], *, limits: ArchiveLimits, compressed: BinaryIO, stop: threading.Event
    ) -> None:
        self._chunks = chunks
        self._limits = limits
        self._compressed = compressed
        self._stop = stop
        self._buffer = b""
        self._position = 0
        self._total_bytes = 0
        self._unread_bytes = 0
        self._member_bytes = 0

    def members(self) -> Iterator[Member]:
        """Every file, directory, link and device in order; extension headers are folded in.

        Raises:
            ArchiveError: damaged, cut off, a name that leaves the directory, or a limit exceeded.
        """
        entries = 0
        while (block := self._next_header()) is not None:
            header, raw_name = self._with_extensions(block)
            entries += 1
            if entries > self._limits.max_entries:
                raise ArchiveError(f"more than {self._limits.max_entries} entries")
            kind = header.kind
            has_data = kind not in HEADER_ONLY_TYPES
            size_bytes = header.size_bytes if has_data else 0
            is_directory = kind == DIRECTORY_TYPE
            is_file = kind in REGULAR_TYPES and not raw_name.endswith(b"/")
            path = clean_path(raw_name)
            if is_file and size_bytes > self._limits.max_item_bytes:
                raise ArchiveError(
                    f"{path}: {size_bytes} bytes; at most {self._limits.max_item_bytes} are allowed"
                )
            self._member_bytes = size_bytes
            self._unread_bytes = size_bytes + (-size_bytes % BLOCK_BYTES)
            yield Member(path, is_file, is_directory, size_bytes)
            self._skip(self._unread_bytes)
        self._expect_only_zeros()

    @property
    def offset(self) -> int:
        """The offset of the current member's data in the decompressed stream; ask before it is read."""
        return self._total_bytes - len(self._buffer) + self._position

    def read(self) -> bytes:
        """The data of the current member."""
        data = self._take(self._member_bytes)
        self._unread_bytes -= self._member_bytes
        return data

    def _with_extensions(self, block: bytes) -> tuple[Header, bytes]:
        """The next real header, with the long name and size that headers before it announced."""
        long_name: bytes | None = None
        size_bytes: int | None = None
        header = parse_header(block)
        while header.kind in (PAX_TYPE, PAX_GLOBAL_TYPE, GNU_LONG_NAME_TYPE, GNU_LONG_LINK_TYPE):
            data = self._extension(header)
            if header.kind == GNU_LONG_NAME_TYPE:
                long_name = data.split(b"\0", 1)[0]
            elif header.kind == PAX_TYPE:
                records = parse_pax(data)
                long_name = records.get(b"path", long_name)
                size_bytes = _pax_size(records, size_bytes)
            following = self._next_header()
            if following is None:
                if header.kind == PAX_GLOBAL_TYPE:
                    raise ArchiveError("the tar file ends after a global header")
                raise ArchiveError("the tar file ends after a header that announces another one")
            header = parse_header(following)
        if header.kind == GNU_SPARSE_TYPE:
            raise ArchiveError(f"{display(header.name)}: sparse files do not belong in a backup")
        if size_bytes is not None:
            header = Header(header.name, size_bytes, header.kind)
        return header, header.name if long_name is None else long_name

    def _extension(self, header: Header) -> bytes:
        if header.size_bytes > _MAX_EXTENSION_BYTES:
            raise ArchiveError(f"{display(header.name)}: a header of {header.size_bytes} bytes is too large")
        data = self._take(header.size_bytes)
        self._skip(-header.size_bytes % BLOCK_BYTES)
        return data

    def _next_header(self) -> bytes | None:
        """The next block, or None where the zeros begin that end the archive."""
        if self._position >= len(self._buffer) and not self._fill():
            # Every writer ends with zeros; a file cut between two members can only be told by their absence.
            raise ArchiveError("the tar file has no end mark: it is cut off")
        block = self._take(BLOCK_BYTES)
        return None if block == ZERO_BLOCK else block

    def _take(self, size_bytes: int) -> bytes:
        end = self._position + size_bytes
        if end <= len(self._buffer):
            data = self._buffer[self._position : end]
            self._position = end
            return data
        parts = [self._buffer[self._position :]]
        missing = size_bytes - len(parts[0])
        self._position = len(self._buffer)
        while missing:
            if not self._fill():
                raise ArchiveError("the tar file ends inside a member: it is cut off")
            part = self._buffer[:missing]
            self._position = len(part)
            missing -= len(part)
            parts.append(part)
        return b"".join(parts)

    def _skip(self, size_bytes: int) -> None:
        while True:
            step = min(size_bytes, len(self._buffer) - self._position)
            self._position += step
            size_bytes -= step
            if not size_bytes:
                return
            if not self._fill():
                raise ArchiveError("the tar file ends inside a member: it is cut off")

    def _expect_only_zeros(self) -> None:
        while True:
            if self._buffer.count(0, self._position) != len(self._buffer) - self._position:
                raise ArchiveError("data follows the end mark of the tar file")
            self._position = len(self._buffer)
            if not self._fill():
                return

    def _fill(self) -> bool:
        """Load the next chunk; False at the end of the stream."""
        if self._stop.is_set():
            raise ArchiveError("reading was stopped")
        self._buffer, self._position = next(self._chunks, b""), 0
        self._total_bytes += len(self._buffer)
        if self._total_bytes > self._limits.max_uncompressed_bytes:
            raise ArchiveError(f"more than {self._limits.max_uncompressed_bytes} bytes of content")
        if self._total_bytes > _RATIO_FROM_BYTES:
            ratio = self._total_bytes / max(1, self._compressed.tell())
            if ratio > self._limits.max_ratio:
                raise ArchiveError(
                    f"compressed more than {self._limits.max_ratio} times: this is not a backup"
                )
        return bool(self._buffer)


def _pax_size(records: dict[bytes, bytes], size_bytes: int | None) -> int | None:
    if any(key.startswith(b"GNU.sparse.") for key in records):
        raise ArchiveError("sparse files do not belong in a backup")
    text = records.get(b"size")
    if text is None:
        return size_bytes
    if not text.isdigit() or len(text) > 18:
        raise ArchiveError("a PAX header of the tar file has a size that is not a number")
    return int(text)


def clean_path(raw_name: bytes) -> str:
    """A member's name without empty and `.` parts.

    Raises:
        ArchiveError: the name is absolute, leaves the directory, is not UTF-8, or too long.
    """
    if raw_name.startswith(b"/"):
        raise ArchiveError(f"{display(raw_name)}: absolute names are not allowed in a backup")
    if len(raw_name) > _MAX_PATH_BYTES or b"\0" in raw_name:
        raise ArchiveError(f"{display(raw_name)}: not a valid name")
    try:
        name = raw_name.decode()
    except UnicodeDecodeError as error:
        raise ArchiveError(f"{display(raw_name)}: the name is not UTF-8") from error
    # The common case is already clean; the split below costs more than all tests together.
    if "//" not in name and "/." not in name and not name.startswith(".") and not name.endswith("/"):
        return name
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ArchiveError(f"{display(raw_name)}: the name leaves the directory of the backup")
    return "/".join(parts)
