"""Reads the facts that the index of a backup keeps of an item, without decoding all of its JSON. Pure.

The checksum of an item leaves out the values of `metadata.resourceVersion` and `metadata.managedFields`, so
that equal checksums mean an unchanged object. It is computed over the stored bytes: the same object written
with another order of keys has another checksum, and a comparison must then look at the values. Objects as the
API server writes them are scanned; all others are decoded, with the same result, and so are those whose
managedFields a scan cannot delimit. (docs/adr/057, docs/adr/058)
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

import msgspec
import orjson

from pinnace.api.json_memory import most_memory
from pinnace.archive.errors import ArchiveError

# How items of built-in types are stored that no action has touched: the API server's own bytes, with
# apiVersion and kind in front, up to the first element of managedFields. Matching costs a fraction of
# decoding. It cannot go wrong inside of a text: each part is followed by the name of another member, and in
# a text the quotation mark in front of that name would have a backslash. An item with braces in an
# annotation, or with members in another order, such as labels that an action has added at the end, does not
# match. Nor does one with a line break in its labels: the index is made of lines. In a text JSON has none,
# and looking for the quotation mark alone is quicker.
_TEXT = {b"t": rb'"[^"]*+"'}
_match_plain = re.compile(
    rb'\{"apiVersion":(%(t)s),"kind":(%(t)s),"metadata":\{"name":%(t)s,(?:"generateName":%(t)s,)?'
    rb'(?:"namespace":%(t)s,)?"uid":(%(t)s),"resourceVersion":(%(t)s),(?:"generation":\d+,)?'
    rb'"creationTimestamp":%(t)s(?:,"labels":(\{[^{}\n]*+\}))?(?:,"annotations":\{[^{}]*+\})?'
    rb'(?:,"ownerReferences":\[[^\[\]]*+\])?(?:,"finalizers":\[[^\[\]]*+\])?,"managedFields":\[\{' % _TEXT
).match
# Custom resources come with the members of their metadata sorted: these are around managedFields.
_match_sorted = re.compile(
    rb'\{"apiVersion":(%(t)s),"kind":(%(t)s),"metadata":\{(?:"annotations":\{[^{}]*+\},)?'
    rb'"creationTimestamp":%(t)s,(?:"finalizers":\[[^\[\]]*+\],)?(?:"generateName":%(t)s,)?'
    rb'(?:"generation":\d+,)?(?:"labels":(\{[^{}\n]*+\}),)?"managedFields":\[\{' % _TEXT
).match
_match_sorted_end = re.compile(
    rb',"name":%(t)s,(?:"namespace":%(t)s,)?(?:"ownerReferences":\[[^\[\]]*+\],)?'
    rb'"resourceVersion":(%(t)s),"uid":(%(t)s)\}(?:,"[A-Za-z]|\}\Z)' % _TEXT
).match
_VERSION = 4
_VERSION_KEY, _MANAGED_KEY = b'"resourceVersion":', b'"managedFields":'
_BEGIN_OF_LIST = b"[{"
_BRACE = ord("}")
_UNLOCKED_BYTES = 2047
"""Up to this size a hash is computed without releasing the interpreter's lock. Releasing it for a few
microseconds costs the thread that writes the archive up to 5 ms each time while another thread is busy."""
_ONE_CALL_FROM_BYTES = 64 * 1024


MOST_DECODED_BYTES: Final = 64 << 20
"""The most memory of a decoded item: that of the 3 MiB of JSON that API servers take, all of it structure."""

_SMALL_BYTES: Final = 256 * 1024
"""Items up to this size fit always."""


def check_decodable(content: bytes) -> None:
    """Check that an item can be decoded without harm; none that an API server takes is refused.

    Raises:
        ArchiveError: it would take too much memory.
    """
    if len(content) > _SMALL_BYTES and most_memory(content) > MOST_DECODED_BYTES:
        raise ArchiveError(
            f"its {len(content)} bytes of JSON would take more than {MOST_DECODED_BYTES} bytes of memory:"
            " no API server takes such an object"
        )


class ContentFacts(msgspec.Struct, frozen=True, gc=False):
    """The facts of an item's content that the index keeps; all but the checksum as JSON."""

    api_version: bytes
    kind: bytes
    uid: bytes
    resource_version: bytes
    labels: bytes
    checksum: str


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    uid: str | None = None
    labels: dict[str, str] | None = None
    resource_version: msgspec.Raw = msgspec.Raw()
    managed_fields: msgspec.Raw = msgspec.Raw()


class _Head(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_Members = dict[str, msgspec.Raw]
_decode_members = msgspec.json.Decoder(_Members).decode
_decode_head = msgspec.json.Decoder(_Head).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_NO_TEXT, _NO_LABELS = b'""', b"null"
_LEFT_OUT = frozenset({"resourceVersion", "managedFields"})


def facts_of(data: bytes, begin: int = 0, end: int | None = None) -> ContentFacts:
    """The facts of an item's JSON; of other bytes only the checksum, over all of them.

    Args:
        data: has the item between `begin` and `end`, by default from end to end.
    """
    end = len(data) if end is None else end
    plain = _match_plain(data, begin, end)
    if plain is not None:
        # The end of managedFields, and of the metadata. Text in an element can look like it, but is followed
        # neither by the end of the object nor by the name of a member: no letter follows the end of a text.
        managed = plain.end() - len(_BEGIN_OF_LIST)
        rest = _end_of_list(data, managed, end)
        behind = data[rest : min(rest + 4, end)]
        if behind == b"}}" or (behind[:3] == b'},"' and behind[3:].isalpha()):
            version, version_end = plain.span(_VERSION)
            checksum = _hash_behind(data[begin:version] + data[version_end:managed], data, rest, end)
            api_version, kind, uid, resource_version, labels = plain.groups(_NO_LABELS)
            return ContentFacts(api_version, kind, uid, resource_version, labels, checksum)
        return _decoded_facts(data[begin:end])
    facts = _sorted_facts(data, begin, end)
    return facts if facts is not None else _decoded_facts(data[begin:end])


def _sorted_facts(data: bytes, begin: int, end: int) -> ContentFacts | None:
    """The facts of a custom resource as the API server writes it; None if that is not certain."""
    first = _match_sorted(data, begin, end)
    if first is None:
        return None
    managed = first.end() - len(_BEGIN_OF_LIST)
    rest = _end_of_list(data, managed, end)
    last = _match_sorted_end(data, rest, end)
    if last is None:
        return None
    resource_version, uid = last.groups()
    version, version_end = last.span(1)
    checksum = _hash_behind(data[begin:managed] + data[rest:version], data, version_end, end)
    api_version, kind, labels = first.groups(_NO_LABELS)
    return ContentFacts(api_version, kind, uid, resource_version, labels, checksum)


def _end_of_list(data: bytes, begin: int, end: int) -> int:
    """The end of the list of objects that begins at `begin`; `end` if it does not end.

    The result may be too early, inside of a text. Searching for one character takes a tenth of the time that
    two take.
    """
    at = data.find(b"]", begin, end)
    while at >= 0 and data[at - 1] != _BRACE:
        at = data.find(b"]", at + 1, end)
    return at + 1 if at >= 0 else end


def _decoded_facts(content: bytes) -> ContentFacts:
    try:
        head = _decode_head(content)
        metadata = head.metadata
        version = bytes(metadata.resource_version)
        resource_version = orjson.dumps(_decode_text(version)) if version not in (b"", b"null") else _NO_TEXT
        covered = _without_values(content, metadata)
        checksum = _hash(covered if covered is not None else _put_together(content))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _without_facts(_hash(content))
    return ContentFacts(
        orjson.dumps(head.api_version or ""),
        orjson.dumps(head.kind or ""),
        orjson.dumps(metadata.uid or ""),
        resource_version,
        orjson.dumps(metadata.labels or None),
        checksum,
    )


def _without_values(content: bytes, metadata: _Metadata) -> bytes | None:
    """An object without the values of its managedFields and its resourceVersion.

    None if they cannot be found as text: they are written with blanks, or stand elsewhere in the object too.
    """
    for key, value in ((_MANAGED_KEY, metadata.managed_fields), (_VERSION_KEY, metadata.resource_version)):
        member = key + bytes(value)
        if member != key:
            at = content.find(member)
            if at < 0 or content.find(member, at + 1) >= 0:
                return None
            content = content[: at + len(key)] + content[at + len(member) :]
    return content


def _put_together(content: bytes) -> bytes:
    """The same as `_without_values`, put together from the members of an object, without blanks."""
    members = _decode_members(content)
    if "metadata" not in members:
        return _joined(members)
    metadata = _decode_members(members["metadata"])
    kept = {name: b"" if name in _LEFT_OUT else value for name, value in metadata.items()}
    return _joined({**members, "metadata": _joined(kept)})


def _joined(members: Mapping[str, bytes | msgspec.Raw]) -> bytes:
    return b"{%b}" % b",".join([b"%b:%b" % (orjson.dumps(name), value) for name, value in members.items()])


def _without_facts(checksum: str) -> ContentFacts:
    return ContentFacts(_NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_LABELS, checksum)


def facts_of_foreign(content: bytes) -> ContentFacts:
    """Like `facts_of`, for bytes that no API server has checked: the facts are valid JSON."""
    facts = facts_of(content)
    try:
        for text in (facts.api_version, facts.kind, facts.uid, facts.resource_version):
            _decode_text(text)
        if facts.labels != _NO_LABELS:
            _decode_labels(facts.labels)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _without_facts(facts.checksum)
    return facts


def checksum_of(content: bytes) -> str:
    """The checksum of an item's JSON, in hexadecimal."""
    return facts_of(content).checksum


def _hash_behind(head: bytes, data: bytes, begin: int, end: int) -> str:
    """The checksum of `head` and of the part of `data` behind it, which is copied once."""
    stop = begin + _UNLOCKED_BYTES - len(head)
    if end <= stop or stop < begin or end - begin >= _ONE_CALL_FROM_BYTES:
        return _hash(head + data[begin:end])
    made = sha256(head + data[begin:stop])
    while stop < end:
        begin, stop = stop, stop + _UNLOCKED_BYTES
        made.update(data[begin : min(stop, end)])
    return made.hexdigest()


def _hash(data: bytes) -> str:
    length = len(data)
    if length <= _UNLOCKED_BYTES or length >= _ONE_CALL_FROM_BYTES:
        return sha256(data).hexdigest()
    made = sha256(data[:_UNLOCKED_BYTES])
    for begin in range(_UNLOCKED_BYTES, length, _UNLOCKED_BYTES):
        made.update(data[begin : begin + _UNLOCKED_BYTES])
    return made.hexdigest()
