"""DSSE envelopes: a payload, its type, and signatures of both. (github.com/secure-systems-lab/dsse)"""

import base64
import binascii
import json
from collections.abc import Iterable
from typing import Any, Final

import msgspec
import orjson

from pinnace.signing.errors import BadEnvelope, SignatureNotTrusted
from pinnace.signing.keys import PublicKey, SigningKey

IN_TOTO: Final = "application/vnd.in-toto+json"
MOST_ENVELOPE_BYTES: Final = 1 << 20
"""A manifest of a dozen files has 5 KiB."""
_MOST_SIGNATURES: Final = 8
_MOST_LEVELS: Final = 16


class _Signature(msgspec.Struct, frozen=True):
    sig: str
    keyid: str = ""


class _Envelope(msgspec.Struct, frozen=True, rename="camel"):
    payload: str
    payload_type: str
    signatures: list[_Signature]


class Verified(msgspec.Struct, frozen=True):
    """A payload that a trusted key has signed.

    Attributes:
        key: that key.
    """

    payload: bytes
    key: PublicKey


def pae(payload_type: str, payload: bytes) -> bytes:
    """The bytes that are signed: the pre-authentication encoding of DSSE 1."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


async def sign(payload: bytes, signer: SigningKey, payload_type: str = IN_TOTO) -> bytes:
    """The envelope of a payload as JSON. Raises BadKey: the key cannot be used now."""
    signature = await signer.sign(pae(payload_type, payload))
    return orjson.dumps(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": [
                {"keyid": signer.public.id, "sig": base64.b64encode(signature).decode()},
            ],
        }
    )


def verify(envelope: bytes, trusted: Iterable[PublicKey], payload_type: str = IN_TOTO) -> Verified:
    """The payload of an envelope, of which nothing is decoded before a trusted key's signature was found.

    Each signature is tried with each key: its key id is a hint that nobody has signed, and one signature of
    a trusted key suffices, whoever else has signed.

    Raises:
        BadEnvelope: it is no envelope of this type, or exceeds a limit.
        SignatureNotTrusted: no trusted key has signed it.
    """
    if len(envelope) > MOST_ENVELOPE_BYTES:
        raise BadEnvelope(f"it has more than {MOST_ENVELOPE_BYTES} bytes")
    try:
        read = msgspec.convert(strict_json(envelope), _Envelope)
    except msgspec.ValidationError as error:
        raise BadEnvelope(f"it is no DSSE envelope: {error}") from None
    if read.payload_type != payload_type:
        raise BadEnvelope(f"its payload is of type {read.payload_type[:80]!r} and not {payload_type!r}")
    if len(read.signatures) > _MOST_SIGNATURES:
        raise BadEnvelope(f"it has more than {_MOST_SIGNATURES} signatures")
    payload = _base64(read.payload)
    signed = pae(payload_type, payload)
    signatures = [_base64(each.sig) for each in read.signatures]
    for key in trusted:
        if any(key.made(signature, signed) for signature in signatures):
            return Verified(payload, key)
    claimed = " ".join(each.keyid[:16] or "-" for each in read.signatures) or "none"
    raise SignatureNotTrusted(
        f"no trusted key has signed it, or it was changed since (it names these keys: {claimed})"
    )


def strict_json(data: bytes) -> Any:
    """The value of a JSON text that every reader reads alike: no key twice, no deep nesting.

    Raises:
        BadEnvelope: it is none.
    """
    try:
        value = json.loads(data.decode(), object_pairs_hook=_once, parse_constant=_refused_constant)
    except RecursionError:
        raise BadEnvelope(f"its JSON has more than {_MOST_LEVELS} levels") from None
    except ValueError as error:
        raise BadEnvelope(f"it is not valid JSON: {str(error)[:120]}") from None
    _check_levels(value)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _refused_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _check_levels(value: Any) -> None:
    level, deep = [value], 0
    while level:
        deep += 1
        if deep > _MOST_LEVELS:
            raise BadEnvelope(f"its JSON has more than {_MOST_LEVELS} levels")
        level = [
            child
            for parent in level
            for child in (
                parent.values() if isinstance(parent, dict) else parent if isinstance(parent, list) else ()
            )
        ]


def _base64(text: str) -> bytes:
    """The bytes of standard or URL-safe base64, as DSSE allows both; one text for the same bytes only."""
    standard = text.replace("-", "+").replace("_", "/")
    try:
        data = base64.b64decode(standard, validate=True)
    except (binascii.Error, ValueError):
        raise BadEnvelope("it has a field that is not base64") from None
    if base64.b64encode(data).decode() != standard:
        raise BadEnvelope("it has a field that is not base64 in its canonical form")
    return data
