"""The index of a backup: where in the tarball each item lies, and what identifies its content. (docs/adr/057)

A gzip'd file of JSON lines, written and read as a stream:

    {"pinnaceIndex":2}
    {"member":0,"length":104857}                      a span of the tarball; the items in it follow
    ["deployments.apps","v1-preferredversion","shop","web","apps/v1","Deployment",
     "<uid>","<resourceVersion>",{"app":"web"},2345,"<SHA-256>",512]
    …
    {"part":104857,"length":99321}                    the next span, and its items
    …
    {"items":476,"size":503089}                       the end: how many items, and the tarball's size in bytes

A `member` begins with the header of a gzip member; a `part` lies within one, behind a full flush, and is raw
deflate data (RFC 1951). An item's last three fields are its length, its checksum (`content.py`) and its
offset in the decompressed span. In a tarball without flushes, as Velero's are, the member is the whole file.

Format 1 has members only: its tarballs are gzip files of many members. It is read as before.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, NamedTuple

import msgspec
import orjson

from pinnace.api.values.counts import counted
from pinnace.archive.content import ContentFacts, facts_of
from pinnace.archive.deflate import CODEC_ERRORS, new_compressor, new_decompressor
from pinnace.archive.errors import ArchiveError
from pinnace.archive.paths import ITEM_SUFFIX, PREFERRED_SUFFIX, ItemLocation, parse_item_path

FORMAT: Final = 2
_READABLE: Final = (1, FORMAT)
_HEADER: Final = b'{"pinnaceIndex":%d}\n' % FORMAT
_WRITE_FROM_BYTES: Final = 256 * 1024

_MAX_LINE_BYTES: Final = 4 * 1024**2
_MAX_ENTRIES: Final = 10_000_000
_MAX_OFFSET: Final = 1 << 50
_CHECKSUM_DIGITS: Final = 64
_MAX_RATIO: Final = 100
_RATIO_FROM_BYTES: Final = 16 * 1024**2
_INFLATE_BYTES: Final = 1024**2


class Span(NamedTuple):
    """Bytes of the tarball that are decompressed without those before them.

    Attributes:
        is_part: raw deflate data behind a full flush; else it begins with the header of a gzip member.
    """

    offset: int
    length: int
    is_part: bool = False


_Offset = Annotated[int, msgspec.Meta(ge=0, le=_MAX_OFFSET)]
_Checksum = Annotated[str, msgspec.Meta(min_length=_CHECKSUM_DIGITS, max_length=_CHECKSUM_DIGITS)]


class IndexedItem(msgspec.Struct, array_like=True, gc=False):
    """One item of the index. `span` is the part of the tarball that holds it."""

    resource: str
    version_directory: str
    namespace: str
    name: str
    api_version: str
    kind: str
    uid: str
    resource_version: str
    labels: dict[str, str] | None
    size_bytes: _Offset
    checksum: _Checksum
    offset: _Offset
    span: Span = Span(0, 0)

    @property
    def location(self) -> ItemLocation:
        """Its place in the tarball."""
        return ItemLocation(self.resource, self.version_directory, self.namespace, self.name)

    @property
    def is_preferred(self) -> bool:
        """Whether this is the copy in the preferred version, and not a further copy of the same object."""
        return not self.version_directory or self.version_directory.endswith(PREFERRED_SUFFIX)

    @property
    def identity(self) -> tuple[str, str, str]:
        """Resource, namespace and name: equal for the same object in two backups."""
        return self.resource, self.namespace, self.name


def entry_of(location: ItemLocation, content: bytes, facts: ContentFacts, *, offset: int = 0) -> IndexedItem:
    """The entry of an item, made from its content."""
    return IndexedItem(
        *location,
        api_version=orjson.loads(facts.api_version),
        kind=orjson.loads(facts.kind),
        uid=orjson.loads(facts.uid),
        resource_version=orjson.loads(facts.resource_version),
        labels=orjson.loads(facts.labels),
        size_bytes=len(content),
        checksum=facts.checksum,
        offset=offset,
    )


class IndexWriter:
    """Writes an index while the tarball is written. Not safe for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Creates the file, readable by this user only. Raises OSError."""
        self.path = path
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file: BinaryIO = os.fdopen(descriptor, "wb")
        self._compressor = new_compressor()
        self._prefixes: dict[str, bytes | None] = {}
        self._lines: list[bytes] = [_HEADER]
        self._pending_bytes = 0
        self._items = 0

    def begin_span(self, span: Span) -> None:
        """Begin a span of the tarball: the items that are added next lie in it."""
        what = b"part" if span.is_part else b"member"
        self._lines.append(b'{"%b":%d,"length":%d}\n' % (what, span.offset, span.length))

    def add_known(self, directory: str, file: str, facts: ContentFacts, size_bytes: int, offset: int) -> None:
        """Add a file of the tarball; one that is no item is left out. Raises OSError."""
        prefixes = self._prefixes
        prefix = prefixes[directory] if directory in prefixes else self._new_prefix(directory)
        if prefix is None:
            return
        line = b",".join(
            (
                prefix,
                orjson.dumps(file[: -len(ITEM_SUFFIX)]),
                facts.api_version,
                facts.kind,
                facts.uid,
                facts.resource_version,
                facts.labels,
                f'{size_bytes},"{facts.checksum}",{offset}]\n'.encode(),
            )
        )
        self._items += 1
        self._lines.append(line)
        self._pending_bytes += len(line)
        if self._pending_bytes >= _WRITE_FROM_BYTES:
            self._write()

    def add_batch(self, span: Span, batch: bytes, files: Iterable[tuple[str, str, int, int]]) -> None:
        """Add the files of a span: directory, name, offset and size of each in the decompressed batch."""
        self.begin_span(span)
        for directory, file, offset, size_bytes in files:
            facts = facts_of(batch, offset, offset + size_bytes)
            self.add_known(directory, file, facts, size_bytes, offset)

    def _new_prefix(self, directory: str) -> bytes | None:
        """How the lines of a directory's items begin; None if no items are in it."""
        location = parse_item_path(f"{directory}x{ITEM_SUFFIX}")
        prefix = orjson.dumps(location[:3])[:-1] if location is not None else None
        self._prefixes[directory] = prefix
        return prefix

    def close(self, tarball_bytes: int) -> None:
        """Write the end. Raises OSError."""
        self._lines.append(b'{"items":%d,"size":%d}\n' % (self._items, tarball_bytes))
        self._write()
        self._file.write(self._compressor.flush())
        self._file.close()

    def discard(self) -> None:
        """Remove the file."""
        self._file.close()
        self.path.unlink(missing_ok=True)

    def _write(self) -> None:
        self._file.write(self._compressor.compress(b"".join(self._lines)))
        self._lines, self._pending_bytes = [], 0


class DamagedIndex(ArchiveError):
    """The index cannot be used; the tarball may be sound."""


_decode_entry = msgspec.json.Decoder(IndexedItem).decode


class IndexParser:
    """Takes an index apart as it comes in; the file is hostile input.

    Attributes:
        tarball_bytes: the size of the tarball, known at the end.
    """

    def __init__(self) -> None:
        self.tarball_bytes = 0
        self.items = 0
        self._inflater = new_decompressor()
        self._rest = b""
        self._span: Span | None = None
        self._started = self._ended = False
        self._in_bytes = self._out_bytes = 0

    def feed(self, data: bytes) -> Iterator[list[IndexedItem]]:
        """The entries that a further piece of the file completes, some thousand at a time.

        Raises:
            DamagedIndex: the file is not an index of a known format, or exceeds a limit.
        """
        self._in_bytes += len(data)
        is_full = False
        # A full piece says that more may wait inside the decompressor, even with no input left over.
        while data or (is_full and not self._inflater.eof):
            try:
                text = self._inflater.decompress(data, _INFLATE_BYTES)
            except CODEC_ERRORS as error:
                raise DamagedIndex(f"not valid gzip data: {error}") from None
            is_full = len(text) == _INFLATE_BYTES
            self._out_bytes += len(text)
            if self._out_bytes > _RATIO_FROM_BYTES and self._out_bytes > _MAX_RATIO * self._in_bytes:
                raise DamagedIndex(f"compressed more than {_MAX_RATIO} times")
            data = self._inflater.unconsumed_tail
            if self._inflater.eof and self._inflater.unused_data:
                raise DamagedIndex("data follows its end")
            if found := self._take(text):
                yield found

    def finish(self) -> None:
        """Check that the index is complete. Raises DamagedIndex."""
        if not self._ended or not self._inflater.eof:
            raise DamagedIndex("it is cut off")

    def _take(self, text: bytes) -> list[IndexedItem]:
        found: list[IndexedItem] = []
        lines = (self._rest + text).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MAX_LINE_BYTES:
            raise DamagedIndex(f"a line has more than {_MAX_LINE_BYTES} bytes")
        try:
            for line in lines:
                if line[:1] != b"[":
                    self._note(orjson.loads(line))
                    continue
                entry = _decode_entry(line)
                if self._span is None or self._ended:
                    raise DamagedIndex("an item is outside of all parts of the tarball")
                entry.span = self._span
                self.items += 1
                found.append(entry)
        except (msgspec.DecodeError, UnicodeDecodeError, orjson.JSONDecodeError, RecursionError) as error:
            raise DamagedIndex(f"a line is malformed: {error}") from None
        if self.items > _MAX_ENTRIES:
            raise DamagedIndex(f"more than {_MAX_ENTRIES} items")
        return found

    def _note(self, note: Any) -> None:
        if not isinstance(note, dict) or not all(type(value) is int for value in note.values()):
            raise DamagedIndex("a line is neither an item nor a note")
        if not self._started:
            if note.get("pinnaceIndex") not in _READABLE:
                raise DamagedIndex("it is of another format")
            self._started = True
        elif "member" in note or "part" in note:
            is_part = "part" in note
            span = Span(note["part" if is_part else "member"], note.get("length", -1), is_part)
            if not 0 <= span.offset <= _MAX_OFFSET or not 0 <= span.length <= _MAX_OFFSET:
                raise DamagedIndex(f"the place of a part is impossible: {span.offset}, {span.length}")
            self._span = span
        elif "items" in note:
            if note["items"] != self.items:
                raise DamagedIndex(f"it has {counted(self.items, 'item')}, but says {note['items']}")
            self.tarball_bytes, self._ended = note.get("size", -1), True
        else:
            raise DamagedIndex("a line is neither an item nor a note")
