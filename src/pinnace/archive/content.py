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
from typing import NamedTuple

import msgspec
import orjson

_TEXT = rb'[^"\\\x00-\x1f]*'
# How items of built-in types are stored that no action has touched: the API server's own bytes, with
# apiVersion and kind in front. Matching costs a fraction of decoding.
_match_plain = re.compile(
    rb'\{"apiVersion":("%(t)s"),"kind":("%(t)s"),"metadata":\{"name":"%(t)s",(?:"generateName":"%(t)s",)?'
    rb'(?:"namespace":"%(t)s",)?"uid":("%(t)s"),"resourceVersion":("%(t)s"),(?:"generation":\d+,)?'
    rb'"creationTimestamp":"%(t)s"(?:,"labels":(\{[^{}\\\x00-\x1f]*\}))?'
    rb'(?=,"(?:annotations|ownerReferences|finalizers|managedFields)":|\})' % {b"t": _TEXT}
).match
_MANAGED_KEY = b'"managedFields":'
_MANAGED_LIST = _MANAGED_KEY + b"[{"
_END_OF_METADATA = ord("}")
_UNLOCKED_BYTES = 2047
"""Up to here a hash is computed without giving up the interpreter's lock. Giving it up for a few microseconds
costs the thread that writes the archive up to 5 ms each time while another one is busy."""
_ONE_CALL_FROM_BYTES = 64 * 1024


class Facts(NamedTuple):
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


def facts_of(content: bytes) -> Facts:
    """The facts of an item's JSON; of other bytes only the checksum, over all of them."""
    plain = _match_plain(content)
    if plain is not None:
        checksum = _plain_checksum(content, *plain.span(4), plain.end())
        if checksum is not None:
            api_version, kind, uid, version, labels = plain.groups(_NO_LABELS)
            return Facts(api_version, kind, uid, version, labels, checksum)
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
        return Facts(_NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_LABELS, _hash(content))


def facts_of_foreign(content: bytes) -> Facts:
    """Like `facts_of`, for bytes that no API server has checked: the facts are valid JSON."""
    facts = facts_of(content)
    try:
        for text in facts[:4]:
            msgspec.json.decode(text, type=str)
        if facts.labels != _NO_LABELS:
            _decode_labels(facts.labels)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Facts(_NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_LABELS, facts.checksum)
    return facts


def checksum_of(content: bytes) -> str:
    """The checksum of an item's JSON, in hexadecimal."""
    return facts_of(content).checksum


def _plain_checksum(content: bytes, begin: int, end: int, rest: int) -> str | None:
    """The checksum of a plain object; None if only decoding can say where its managedFields begin and end.

    Args:
        begin, end: of the resourceVersion's value.
        rest: where the members of its metadata begin that follow the labels.
    """
    managed = content.find(_MANAGED_LIST, rest)
    if managed < 0 or content[rest] == _END_OF_METADATA:
        return _hash(content[:begin] + content[end:])
    # If the metadata ended before this place, its end would be seen: behind an object or an array.
    # Annotations may hold text that looks like it, such as an applied configuration.
    between = content[rest:managed]
    if b"]}" in between or b"}}" in between:
        return None
    # managedFields is the last member of the metadata. Text inside of it can look like its end, but no letter
    # follows the quotation mark at the end of a text.
    managed_end = content.find(b"}]}", managed) + 2
    behind = content[managed_end : managed_end + 4]
    if managed_end < 2 or not (behind == b"}}" or (behind[:3] == b'},"' and behind[3:].isalpha())):
        return None
    value = managed + len(_MANAGED_KEY)
    return _hash(b"%b%b%b" % (content[:begin], content[end:value], content[managed_end:]))


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
    made = sha256()
    for begin in range(0, length, _UNLOCKED_BYTES):
        made.update(data[begin : begin + _UNLOCKED_BYTES])
    return made.hexdigest()
