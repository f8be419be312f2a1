"""Reads from an item's JSON, without decoding all of it, what the index of a backup says of it. Pure.

The checksum of an item leaves out the values of `metadata.resourceVersion` and `metadata.managedFields`, so
that equal checksums mean an unchanged object. It is computed over the stored bytes: the same object written
with another order of keys has another checksum, and a comparison must then look at the values. (docs/adr/057)
"""

import re
from hashlib import sha256
from typing import NamedTuple

import msgspec
import orjson
from msgspec import UNSET, UnsetType

_TEXT = rb'[^"\\\x00-\x1f]*'
# How items of built-in types are stored that no action has touched: the API server's own bytes, with
# apiVersion and kind in front. Matching costs a fraction of decoding.
_PLAIN = re.compile(
    rb'\{"apiVersion":("%(t)s"),"kind":("%(t)s"),"metadata":\{"name":"%(t)s",(?:"generateName":"%(t)s",)?'
    rb'(?:"namespace":"%(t)s",)?"uid":("%(t)s"),"resourceVersion":("%(t)s"),(?:"generation":\d+,)?'
    rb'"creationTimestamp":"%(t)s"(?:,"labels":(\{[^{}\\\x00-\x1f]*\}))?'
    rb'(?=,"(?:annotations|ownerReferences|finalizers|managedFields)":|\})' % {b"t": _TEXT}
)
_MANAGED_FIELDS = b'"managedFields":'
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


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    uid: str | None = None
    resource_version: str | None = None
    labels: dict[str, str] | None = None
    managed_fields: msgspec.Raw | UnsetType = UNSET


class _Head(msgspec.Struct, rename="camel", gc=False):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_NO_TEXT, _NO_LABELS = b'""', b"null"
_NO_METADATA = _Metadata()


def facts_of(content: bytes) -> Facts:
    """The facts of an item's JSON; of other bytes only the checksum, over all of them."""
    plain = _PLAIN.match(content)
    if plain is not None:
        api_version, kind, uid, version, labels = plain.groups()
        begin, end = plain.span(4)
        return Facts(
            api_version, kind, uid, version, labels or _NO_LABELS, _plain_checksum(content, begin, end)
        )
    try:
        head = _decode_head(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Facts(_NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_TEXT, _NO_LABELS, _hash(content))
    metadata = head.metadata or _NO_METADATA
    return Facts(
        orjson.dumps(head.api_version or ""),
        orjson.dumps(head.kind or ""),
        orjson.dumps(metadata.uid or ""),
        orjson.dumps(metadata.resource_version or ""),
        orjson.dumps(metadata.labels) if metadata.labels else _NO_LABELS,
        _checksum(content, metadata),
    )


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


def _plain_checksum(content: bytes, begin: int, end: int) -> str:
    # No array is inside of managedFields, so that the first end of one is its end.
    managed = content.find(b'"managedFields":[{', end)
    managed_end = content.find(b"}]", managed) + 2 if managed > 0 else 0
    if managed_end > 2:
        return _hash(b"%b%b%b" % (content[:begin], content[end:managed], content[managed_end:]))
    return _hash(content[:begin] + content[end:])


def _checksum(content: bytes, metadata: _Metadata) -> str:
    start = max(0, content.find(b'"metadata"'))
    if metadata.managed_fields is not UNSET:
        content = _without(content, bytes(metadata.managed_fields), _MANAGED_FIELDS, start)
    if metadata.resource_version:
        version = orjson.dumps(metadata.resource_version)
        content = _without(content, version, b'"resourceVersion":', start)
    return _hash(content)


def _without(content: bytes, value: bytes, key: bytes, start: int) -> bytes:
    """The content without a member's value, if it is found as programs write it: without blanks."""
    at = content.find(key + value, start)
    return content if at < 0 else content[: at + len(key)] + content[at + len(key) + len(value) :]


def _hash(data: bytes) -> str:
    if len(data) <= _UNLOCKED_BYTES or len(data) >= _ONE_CALL_FROM_BYTES:
        return sha256(data).hexdigest()
    made = sha256()
    for begin in range(0, len(data), _UNLOCKED_BYTES):
        made.update(data[begin : begin + _UNLOCKED_BYTES])
    return made.hexdigest()
