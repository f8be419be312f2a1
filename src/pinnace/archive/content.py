"""Reads from an item's JSON, without decoding all of it, what the index of a backup says of it. Pure.

The checksum of an item leaves out the values of `metadata.resourceVersion` and `metadata.managedFields`, so
that equal checksums mean an unchanged object. It is computed over the stored bytes: the same object written
with another order of keys has another checksum, and a comparison must then look at the values. Objects as the
API server writes them are scanned; all others, and those of which a scan cannot say where managedFields
begins and ends, are decoded, with the same result. (docs/adr/057, docs/adr/058)
"""

import re
from collections.abc import Mapping
from hashlib import sha256

import msgspec
import orjson

_TEXT = rb'"[^"]*"'
# How items of built-in types are stored that no action has touched: the API server's own bytes, with
# apiVersion and kind in front. Matching costs a fraction of decoding. Texts end at the next quotation mark:
# what matches is only used if it has no backslash.
_match_plain = re.compile(
    rb'\{"apiVersion":(%(t)s),"kind":(%(t)s),"metadata":\{"name":%(t)s,(?:"generateName":%(t)s,)?'
    rb'(?:"namespace":%(t)s,)?"uid":(%(t)s),"resourceVersion":(%(t)s),(?:"generation":\d+,)?'
    rb'"creationTimestamp":%(t)s(?:,"labels":(\{[^{}]*\}))?'
    rb'(?=,"(?:annotations":\{|(?:ownerReferences|finalizers|managedFields)":\[)|\})' % {b"t": _TEXT}
).match
# Between the labels and managedFields: the end of the metadata, or a member that the API server writes
# elsewhere, such as labels that an action has added. Annotations may hold text that looks like it.
_find_other = re.compile(rb'[\]}](?:\}|,"(?!(?:ownerReferences|finalizers|managedFields)":\[))').search
_VERSION, _LABELS = 4, 5
_MANAGED_KEY = b'"managedFields":'
_MANAGED_LIST = _MANAGED_KEY + b"[{"
_END_OF_METADATA = ord("}")
_END_OF_LIST = b"}]"
_UNLOCKED_BYTES = 2047
"""Up to here a hash is computed without giving up the interpreter's lock. Giving it up for a few microseconds
costs the thread that writes the archive up to 5 ms each time while another one is busy."""
_ONE_CALL_FROM_BYTES = 64 * 1024


class Facts(msgspec.Struct, frozen=True, gc=False):
    """What the index keeps of an item's content; all but the checksum as JSON."""

    api_version: bytes
    kind: bytes
    uid: bytes
    resource_version: bytes
    labels: bytes
    checksum: str


_Members = dict[str, msgspec.Raw]
_decode_members = msgspec.json.Decoder(_Members).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_NO_TEXT, _NO_LABELS = b'""', b"null"
_LEFT_OUT = frozenset({"resourceVersion", "managedFields"})


def facts_of(data: bytes, begin: int = 0, end: int | None = None) -> Facts:
    """The facts of an item's JSON; of other bytes only the checksum, over all of them.

    Args:
        data: has the item between `begin` and `end`, by default from end to end.
    """
    end = len(data) if end is None else end
    plain = _match_plain(data, begin, end)
    if plain is not None and (checksum := _plain_checksum(data, plain, begin, end)) is not None:
        api_version, kind, uid, version, labels = plain.groups(_NO_LABELS)
        return Facts(api_version, kind, uid, version, labels, checksum)
    return _decoded_facts(data[begin:end])


def _decoded_facts(content: bytes) -> Facts:
    try:
        members = _decode_members(content)
        metadata = _decode_members(members["metadata"]) if "metadata" in members else {}
        return Facts(
            _text(members, "apiVersion"),
            _text(members, "kind"),
            _text(metadata, "uid"),
            _text(metadata, "resourceVersion"),
            _labels(metadata),
            _checksum(members, metadata),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _without_facts(_hash(content))


def _without_facts(checksum: str) -> Facts:
    return Facts(_NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_LABELS, checksum)


def facts_of_foreign(content: bytes) -> Facts:
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


def _plain_checksum(data: bytes, plain: re.Match[bytes], begin: int, end: int) -> str | None:
    """The checksum of a plain object; None if only decoding can say what it has, and where.

    Args:
        plain: its beginning up to the labels.
        begin, end: of the object in `data`.
    """
    version, version_end = plain.span(_VERSION)
    rest = plain.end()
    labels = plain[_LABELS]
    # An odd number of quotation marks: what looks like the end of the labels is inside of a text.
    if data.find(b"\\", begin, rest) >= 0 or (labels is not None and labels.count(b'"') % 2):
        return None
    if data[rest] == _END_OF_METADATA:
        return _hash(data[begin:version] + data[version_end:end])
    managed = data.find(_MANAGED_LIST, rest, end)
    if managed < 0 or _find_other(data, rest, managed) is not None:
        return None
    # The end of its elements. Text in one of them can look like it, but is not followed by the end of the
    # object or the name of its next member: no letter follows the quotation mark at the end of a text.
    managed_end = data.find(_END_OF_LIST, managed, end) + len(_END_OF_LIST)
    behind = data[managed_end : min(managed_end + 4, end)]
    if managed_end < managed or not (behind == b"}}" or (behind[:3] == b'},"' and behind[3:].isalpha())):
        return None
    value = managed + len(_MANAGED_KEY)
    return _hash(b"".join((data[begin:version], data[version_end:value], data[managed_end:end])))


def _text(members: _Members, name: str) -> bytes:
    """A member that is text, as JSON. Raises msgspec.DecodeError if it is something else."""
    value = bytes(members.get(name, b"null"))
    return orjson.dumps(_decode_text(value)) if value != b"null" else _NO_TEXT


def _labels(metadata: _Members) -> bytes:
    """The labels, as JSON. Raises msgspec.DecodeError if a value is not text."""
    value = bytes(metadata.get("labels", b"null"))
    labels = _decode_labels(value) if value != b"null" else None
    return orjson.dumps(labels) if labels else _NO_LABELS


def _checksum(members: _Members, metadata: _Members) -> str:
    """The same as of a plain object: members are put together as programs write them, without blanks."""
    kept = {name: b"" if name in _LEFT_OUT else value for name, value in metadata.items()}
    return _hash(_joined({**members, "metadata": _joined(kept)} if "metadata" in members else members))


def _joined(members: Mapping[str, bytes | msgspec.Raw]) -> bytes:
    return b"{%b}" % b",".join([b"%b:%b" % (orjson.dumps(name), value) for name, value in members.items()])


def _hash(data: bytes) -> str:
    length = len(data)
    if length <= _UNLOCKED_BYTES or length >= _ONE_CALL_FROM_BYTES:
        return sha256(data).hexdigest()
    made = sha256(data[:_UNLOCKED_BYTES])
    for begin in range(_UNLOCKED_BYTES, length, _UNLOCKED_BYTES):
        made.update(data[begin : begin + _UNLOCKED_BYTES])
    return made.hexdigest()
