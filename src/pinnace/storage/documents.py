"""Reads the JSON files of a location block by block, within limits that hold before anything is built. Pure.

A location may belong to somebody else, and JSON grows: a file of 120 KB can hold 41 million empty objects,
which take 4 GB once they are decoded. So no file is decoded as a whole. There are two forms of files:

    ListDocument    an array of objects, such as PodVolumeBackups. Each object is cut out of the stream,
                    checked, and kept as text; `StoredObjects` decodes one at a time.
    TreeDocument    any other JSON, such as a resource list. It is built value by value, while the memory of
                    the values is counted. Runs of texts, which make up most of it, are decoded together.

Both take decompressed blocks, raise DocumentError at the block that exceeds a limit, and return their value
at the end. (docs/adr/077)
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import Enum, auto
from sys import getsizeof
from typing import Any, Final, TypeVar, overload

import msgspec

from pinnace.api.json_memory import ARRAY_BYTES, ELEMENT_BYTES, MEMBER_BYTES, OBJECT_BYTES, TEXT_BYTES
from pinnace.api.objects import JSONObject
from pinnace.api.velero.download_request import DownloadTargetKind

T = TypeVar("T")

MOST_OBJECTS: Final = 25_000
"""The most objects of a list: more than twice the PodVolumeBackups that are made known of one backup."""

MOST_LIST_BYTES: Final = 32 << 20
"""The most JSON of a list, which stays in memory; 10,000 PodVolumeBackups of Velero have 22 MB."""

MOST_OBJECT_BYTES: Final = 3 << 19
"""The most JSON of one object of a list: 1.5 MiB, the largest object that etcd takes."""

MOST_BRACKETS: Final = 4_000_000
"""The most brackets of a list, which take time and, decoded, memory; a PodVolumeBackup of Velero has 110."""

MOST_PARTS: Final = 1_000_000
"""The most parts of a tree, a run of texts being one: each takes a microsecond."""

MOST_TREE_BYTES: Final = 128 << 20
"""The most memory of a tree: the names of 1,000,000 objects, of 75 characters each."""

MOST_RESULTS_BYTES: Final = 40 << 20
"""The most memory of the warnings and errors of a run: 130,000 of 250 characters. Pinnace keeps 20,000."""

MOST_TEXT_BYTES: Final = 4 << 20
"""The longest single text of a tree; an error text that holds a whole object is shorter."""

_WORD_BYTES: Final = 400
"""The longest number; the largest of JavaScript, written out, has 309 digits."""

MOST_FILE_BYTES: Final = 256 << 20
"""The most JSON of a tree, whatever becomes of it: blanks take time, and no memory."""

_DEEPEST: Final = 200

_BLANK: Final = rb"[ \t\n\r]*+"
_TEXT: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_blanks = re.compile(_BLANK).match
_no_list = re.compile(rb"(?:null|\{%b\})%b\Z" % (_BLANK, _BLANK)).match
_maybe_no_list = re.compile(rb"(?:n?u?l?l?|\{%b\}?)%b\Z" % (_BLANK, _BLANK)).match
_to_bracket = re.compile(rb'[^"{}\[\]]*+(?:%b[^"{}\[\]]*+)*+' % _TEXT, re.DOTALL).match
_text = re.compile(_TEXT, re.DOTALL).match
_texts = re.compile(rb"(?:%b%b,%b)++" % (_TEXT, _BLANK, _BLANK), re.DOTALL).match
_word = re.compile(rb"[-+.0-9A-Za-z]++").match

_decode = msgspec.json.Decoder().decode
_decode_object = msgspec.json.Decoder(dict[str, Any]).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_texts = msgspec.json.Decoder(list[str]).decode
_QUOTE, _COMMA, _COLON = b'",:'
_OPEN_OBJECT, _CLOSE_OBJECT, _OPEN_ARRAY, _CLOSE_ARRAY = b"{}[]"
_BRACKETS: Final = (b"{", b"}", b"[", b"]")
_OPENING: Final = frozenset(b"{[")
_PUNCTUATION: Final = frozenset(b"{}[],:")
_BEGIN_OF_JSON: Final = frozenset(b'"{-0123456789')


class DocumentError(ValueError):
    """A file is not what it should be, or exceeds a limit; the text says why, without a value of the file."""


class StoredObjects(Sequence[JSONObject]):
    """The objects of a list. Each is decoded again whenever it is asked for."""

    def __init__(self, texts: Sequence[bytes] = ()) -> None:
        """Args:
        texts: JSON of one object each, known to be valid.
        """
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    @overload
    def __getitem__(self, index: int) -> JSONObject: ...
    @overload
    def __getitem__(self, index: slice) -> "StoredObjects": ...
    def __getitem__(self, index: int | slice) -> "JSONObject | StoredObjects":
        if isinstance(index, slice):
            return StoredObjects(self._texts[index])
        return _decode_object(self._texts[index])

    def __iter__(self) -> Iterator[JSONObject]:
        return map(_decode_object, self._texts)


class ListDocument:
    """An array of objects; `null` and `{}` are an empty one."""

    def __init__(self, *, most_objects: int = MOST_OBJECTS, most_bytes: int = MOST_LIST_BYTES) -> None:
        self._most_objects = most_objects
        self._most_bytes = most_bytes
        self._read_bytes = 0
        self._texts: list[bytes] = []
        self._is_begun = self._is_ended = False
        # The end of the last block that is still needed; within an object it begins with that object.
        self._rest = b""
        self._scanned = 0
        self._depth = 0
        self._brackets = 0

    def feed(self, block: bytes) -> None:
        """Take a block. Raises DocumentError."""
        self._read_bytes += len(block)
        if self._read_bytes > self._most_bytes:
            raise DocumentError(f"larger than {self._most_bytes} bytes")
        self._brackets += sum(map(block.count, _BRACKETS))
        if self._brackets > MOST_BRACKETS:
            raise DocumentError(f"more than {MOST_BRACKETS} brackets are in it")
        data = self._rest + block
        begin, at = 0, self._scanned
        while True:
            if not self._depth:
                at = self._find_object(data, at)
                begin = at
                if not self._depth:
                    break
            at = _end(_to_bracket, data, at)
            if at == len(data) or data[at] == _QUOTE:
                break
            self._depth += 1 if data[at] in _OPENING else -1
            at += 1
            if self._depth == 1:
                self._add(data[begin:at])
                self._depth = 0
        self._rest, self._scanned = data[begin:], at - begin
        if len(self._rest) > MOST_OBJECT_BYTES:
            raise DocumentError(f"an object in it is larger than {MOST_OBJECT_BYTES} bytes")

    def finish(self) -> StoredObjects:
        """Return the objects, after the last block. Raises DocumentError."""
        if not self._is_ended and (self._is_begun or not _no_list(self._rest)):
            raise DocumentError("not valid JSON: it ends too early")
        return StoredObjects(self._texts)

    def _find_object(self, data: bytes, at: int) -> int:
        """Go to the next object and set the depth to 1; without one, return what is still needed."""
        at = _end(_blanks, data, at)
        if not self._is_begun:
            if data[at : at + 1] != b"[":
                if not _maybe_no_list(data, at):
                    is_json = data[at] in _BEGIN_OF_JSON
                    raise DocumentError("not a JSON array of objects" if is_json else "not valid JSON")
                return at
            self._is_begun = True
            at = _end(_blanks, data, at + 1)
        if self._is_ended:
            if at < len(data):
                raise DocumentError("not valid JSON: something follows its end")
            return at
        first = at
        if self._texts and data[at : at + 1] == b",":
            at = _end(_blanks, data, at + 1)
        if at == len(data):
            return first
        if data[at] == _CLOSE_ARRAY and first == at:
            self._is_ended = True
            return self._find_object(data, at + 1)
        if data[at] != _OPEN_OBJECT or (self._texts and first == at):
            is_json = not self._texts or first != at
            raise DocumentError("not a JSON array of objects" if is_json else "not valid JSON")
        self._depth = 1
        return at

    def _add(self, text: bytes) -> None:
        if len(self._texts) == self._most_objects:
            raise DocumentError(f"more than {self._most_objects} objects")
        _decoded(_decode_object, text)
        self._texts.append(text)


_LISTS: Final = frozenset(
    {
        DownloadTargetKind.BACKUP_VOLUME_SNAPSHOTS,
        DownloadTargetKind.BACKUP_VOLUME_INFOS,
        DownloadTargetKind.BACKUP_ITEM_OPERATIONS,
        DownloadTargetKind.CSI_SNAPSHOTS,
        DownloadTargetKind.CSI_CONTENTS,
        DownloadTargetKind.RESTORE_VOLUME_INFO,
        DownloadTargetKind.RESTORE_ITEM_OPERATIONS,
    }
)
_RESULTS: Final = frozenset({DownloadTargetKind.BACKUP_RESULTS, DownloadTargetKind.RESTORE_RESULTS})


def document_of(kind: DownloadTargetKind) -> "ListDocument | TreeDocument":
    """The reader of a JSON file of a backup or restore."""
    if kind in _LISTS:
        return ListDocument()
    return TreeDocument(most_bytes=MOST_RESULTS_BYTES if kind in _RESULTS else MOST_TREE_BYTES)


class _Expected(Enum):
    """The tokens that may come next in a tree."""

    VALUE = auto()
    FIRST_VALUE = auto()
    KEY = auto()
    FIRST_KEY = auto()
    COLON = auto()
    SEPARATOR = auto()
    NOTHING = auto()


class TreeDocument:
    """Any JSON, within the memory that its values may take."""

    def __init__(self, *, most_bytes: int = MOST_TREE_BYTES) -> None:
        self._most_bytes = most_bytes
        self._read_bytes = 0
        self._memory_bytes = 0
        self._parts = 0
        self._rest = b""
        self._expected = _Expected.VALUE
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str] = []
        self._value: Any = None
        self._is_plain = True

    def feed(self, block: bytes) -> None:
        """Take a block. Raises DocumentError."""
        self._read_bytes += len(block)
        if self._read_bytes > MOST_FILE_BYTES:
            raise DocumentError(f"larger than {MOST_FILE_BYTES} bytes")
        data = self._rest + block
        try:
            self._rest = data[self._take(data, is_last=False) :]
            if len(self._rest) > MOST_TEXT_BYTES:
                raise DocumentError(f"a text in it is longer than {MOST_TEXT_BYTES} bytes")
        except DocumentError:
            # The error refers to this document, perhaps for long: what was built must not stay with it.
            self._value, self._rest = None, b""
            self._open.clear()
            raise

    def finish(self) -> Any:
        """Return the value, after the last block. Raises DocumentError."""
        rest = self._rest[self._take(self._rest, is_last=True) :]
        if rest or self._expected is not _Expected.NOTHING:
            raise DocumentError("not valid JSON: it ends too early")
        return self._value

    def _take(self, data: bytes, *, is_last: bool) -> int:
        """Take the values that are complete; returns where the rest begins."""
        at = 0
        while True:
            at = begin = _end(_blanks, data, at)
            if begin == len(data):
                return begin
            char, expected = data[begin], self._expected
            self._parts += 1
            if self._parts > MOST_PARTS:
                raise DocumentError(f"more than {MOST_PARTS} values, keys and brackets are in it")
            if char == _QUOTE and expected is not _Expected.SEPARATOR:
                at = self._take_text(data, begin)
                if at == begin:
                    return begin
            elif char in _PUNCTUATION:
                self._punctuate(char)
                at = begin + 1
            else:
                found = _word(data, begin)
                if found is None or expected not in _VALUES:
                    raise DocumentError("not valid JSON")
                at = found.end()
                if at - begin > _WORD_BYTES:
                    raise DocumentError(f"a number in it has more than {_WORD_BYTES} digits")
                if at == len(data) and not is_last:
                    return begin
                value = _decoded(_decode, found[0])
                self._count(getsizeof(value))
                self._put(value)

    def _take_text(self, data: bytes, begin: int) -> int:
        """Take the text at `begin`, or a run of them; returns where it ends, `begin` if it does not end."""
        values = self._open[-1] if self._open and self._expected in _VALUES else None
        if isinstance(values, list):
            if self._is_plain and (end := self._take_plain_texts(values, data, begin)):
                return end
            if run := _texts(data, begin):
                found = _decoded(_decode_texts, b"[%b]" % run[0].rstrip()[:-1])
                self._count(sum(map(getsizeof, found)) + ELEMENT_BYTES * len(found))
                values += found
                self._expected = _Expected.VALUE
                return run.end()
        text = _text(data, begin)
        if text is None:
            return begin
        value = _decoded(_decode_text, text[0])
        self._count(getsizeof(value))
        if self._expected in _VALUES:
            self._put(value)
        elif self._expected in _KEYS:
            self._keys.append(value)
            self._expected = _Expected.COLON
        else:
            raise DocumentError("not valid JSON")
        return text.end()

    def _take_plain_texts(self, values: list[Any], data: bytes, begin: int) -> int:
        """Take a run of texts without escapes, as names are, four times as quickly; returns 0 if it is none.

        After one that is none the document is read the other way: a search that fails is not repeated.
        """
        end = data.find(b"]", begin)
        is_last = end >= 0
        if not is_last:
            end = data.rfind(b'",', begin) + 1
            if not end:
                return 0  # a single text, which is cut off
        # Outside of texts there is an even number of quotation marks on either side.
        if data.find(b"\\", begin, end) < 0 and data.count(b'"', begin, end) % 2 == 0:
            part = b"[%b]" % data[begin:end]
            try:
                found = _decode_texts(part)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass  # not only texts, or no JSON; reading it the other way says which
            else:
                sizes = len(part) + TEXT_BYTES * len(found) if part.isascii() else sum(map(getsizeof, found))
                self._count(sizes + ELEMENT_BYTES * len(found))
                values += found
                self._expected = _Expected.SEPARATOR if is_last else _Expected.VALUE
                return end if is_last else end + 1
        self._is_plain = False
        return 0

    def _punctuate(self, char: int) -> None:
        expected, top = self._expected, self._open[-1] if self._open else None
        if char in _OPENING and expected in _VALUES:
            if len(self._open) == _DEEPEST:
                raise DocumentError(f"nested more than {_DEEPEST} levels deep")
            is_object = char == _OPEN_OBJECT
            self._count(OBJECT_BYTES if is_object else ARRAY_BYTES)
            made: dict[str, Any] | list[Any] = {} if is_object else []
            self._put(made)
            self._open.append(made)
            self._expected = _Expected.FIRST_KEY if is_object else _Expected.FIRST_VALUE
        elif char == _COLON and expected is _Expected.COLON:
            self._expected = _Expected.VALUE
        elif char == _COMMA and expected is _Expected.SEPARATOR:
            self._expected = _Expected.KEY if isinstance(top, dict) else _Expected.VALUE
        elif (char == _CLOSE_OBJECT and isinstance(top, dict) and expected in _END_OF_OBJECT) or (
            char == _CLOSE_ARRAY and isinstance(top, list) and expected in _END_OF_ARRAY
        ):
            self._open.pop()
            self._expected = _Expected.SEPARATOR if self._open else _Expected.NOTHING
        else:
            raise DocumentError("not valid JSON")

    def _put(self, value: Any) -> None:
        """Add a value to the innermost object or array."""
        if not self._open:
            self._value, self._expected = value, _Expected.NOTHING
            return
        top = self._open[-1]
        if isinstance(top, dict):
            self._count(MEMBER_BYTES)
            top[self._keys.pop()] = value
        else:
            self._count(ELEMENT_BYTES)
            top.append(value)
        self._expected = _Expected.SEPARATOR

    def _count(self, memory_bytes: int) -> None:
        self._memory_bytes += memory_bytes
        if self._memory_bytes > self._most_bytes:
            raise DocumentError(f"its content takes more than {self._most_bytes} bytes of memory")


def object_of(value: object) -> JSONObject:
    """A JSON object; what is empty, such as `null`, is an empty one. Raises DocumentError."""
    if not value:
        return {}
    if not isinstance(value, dict):
        raise DocumentError("not a JSON object")
    return value


_VALUES: Final = frozenset({_Expected.VALUE, _Expected.FIRST_VALUE})
_KEYS: Final = frozenset({_Expected.KEY, _Expected.FIRST_KEY})
_END_OF_OBJECT: Final = frozenset({_Expected.SEPARATOR, _Expected.FIRST_KEY})
_END_OF_ARRAY: Final = frozenset({_Expected.SEPARATOR, _Expected.FIRST_VALUE})


def _end(match: Callable[[bytes, int], re.Match[bytes] | None], data: bytes, at: int) -> int:
    """The end of a match of a pattern that also matches nothing."""
    found = match(data, at)
    return at if found is None else found.end()


def _decoded(decode: Callable[[bytes], T], text: bytes) -> T:
    try:
        return decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, ValueError) as error:
        # A text of the parser's own; it has positions, and no content.
        raise DocumentError(f"not valid JSON: {error}") from None
