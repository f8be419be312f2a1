"""in-toto Statements, version 1: files by their digests, and what is said of them.

(github.com/in-toto/attestation/blob/main/spec/v1/statement.md)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import orjson

from pinnace.signing.envelope import strict_json
from pinnace.signing.errors import BadEnvelope

_TYPE: Final = "https://in-toto.io/Statement/v1"
_HEX_DIGITS: Final = 64


class SignedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a statement.

    Attributes:
        name: of the file; each is there once.
        digest: by algorithm; `sha256` must be there.
    """

    name: str
    digest: Mapping[str, str]
    annotations: Mapping[str, Any] = msgspec.field(default_factory=dict)

    @property
    def sha256(self) -> str:
        """The SHA-256 in lower-case hexadecimal digits."""
        return self.digest["sha256"]


class Statement(msgspec.Struct, frozen=True, kw_only=True):
    """What a signer says about files; fields that are not known are ignored, as the specification says."""

    subject: Sequence[SignedFile]
    predicate_type: str = msgspec.field(name="predicateType")
    predicate: Mapping[str, Any]
    type: str = msgspec.field(name="_type", default=_TYPE)


def encode_statement(statement: Statement) -> bytes:
    """The statement as JSON with sorted keys."""
    return orjson.dumps(msgspec.to_builtins(statement), option=orjson.OPT_SORT_KEYS)


def decode_statement(payload: bytes, predicate_type: str) -> Statement:
    """A statement out of a verified envelope.

    Raises:
        BadEnvelope: it is none, or says something else than `predicate_type`.
    """
    try:
        statement = msgspec.convert(strict_json(payload), Statement)
    except msgspec.ValidationError as error:
        raise BadEnvelope(f"it is no in-toto statement: {error}") from None
    if statement.type != _TYPE:
        raise BadEnvelope(f"its statement is of type {statement.type[:80]!r}")
    if statement.predicate_type != predicate_type:
        raise BadEnvelope(f"it is a {statement.predicate_type[:80]!r} and not a {predicate_type!r}")
    names = {subject.name for subject in statement.subject}
    if len(names) != len(statement.subject):
        raise BadEnvelope("it names a file twice")
    for subject in statement.subject:
        digest = subject.digest.get("sha256", "")
        if len(digest) != _HEX_DIGITS or set(digest) - set("0123456789abcdef"):
            raise BadEnvelope(f"it has no SHA-256 of {subject.name[:80]!r}")
    return statement
