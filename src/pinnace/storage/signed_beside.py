"""Files that come to a backup after its manifest and are signed by themselves: holds, key files. (ADR 125)

A hold is an envelope of its statement. A key file carries the envelope of its digest as a member, which other
readers ignore. Both statements name `velero-backup.json` by its digest, so that a hold or release of another
backup of the same name is none of this one.
"""

from base64 import b64decode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec
import orjson

from pinnace._version import __version__
from pinnace.api.objects import JSONObject, text
from pinnace.signing.envelope import strict_json, verify
from pinnace.signing.errors import BadEnvelope
from pinnace.signing.keys import PublicKey
from pinnace.signing.statement import SignedFile, Statement, decode_statement, encode_statement
from pinnace.storage.holds import UNREADABLE, Hold

BACKUP_HOLD: Final = "https://pinnace.io/backup-hold/v1"
"""The type of the predicate of a hold, or its release."""
BACKUP_KEYS: Final = "https://pinnace.io/backup-keys/v1"
"""The type of the predicate of a further key file."""
_SIGNATURE: Final = "signature"
_METADATA: Final = "velero-backup.json"


def hold_payload(hold: Hold, backup: str, metadata: bytes) -> bytes:
    """The statement of a hold, to be signed.

    Args:
        metadata: `velero-backup.json` as it is stored.
    """
    predicate = {"backup": backup, "pinnace": __version__, **msgspec.to_builtins(hold)}
    return _statement(BACKUP_HOLD, predicate, metadata)


def read_signed_hold(envelope: bytes, trusted: Iterable[PublicKey], backup: str, metadata: bytes) -> Hold:
    """The hold in an envelope. Raises SigningError: no trusted key has signed it for this backup."""
    predicate = _checked(verify(envelope, trusted).payload, BACKUP_HOLD, backup, metadata)
    try:
        return msgspec.convert(predicate, Hold)
    except msgspec.ValidationError as error:
        raise BadEnvelope(f"it says nothing of a hold: {error}") from None


def unchecked_hold(envelope: bytes) -> Hold:
    """What an envelope says of a hold, whoever has signed it; one that cannot be read counts as a hold."""
    try:
        payload = b64decode(text(strict_json(envelope), "payload"), validate=True)
        predicate = decode_statement(payload, BACKUP_HOLD).predicate
        return msgspec.convert(dict(predicate), Hold).printable()
    except (BadEnvelope, ValueError):
        return Hold(held=True, reason=UNREADABLE)


def keys_payload(key_file: bytes, backup: str, metadata: bytes) -> bytes:
    """The statement of a key file that has no signature yet, to be signed."""
    return _statement(BACKUP_KEYS, {"backup": backup, "keyFile": _digest(_document(key_file))}, metadata)


def with_signature(key_file: bytes, envelope: bytes) -> bytes:
    """The key file with the envelope of its statement."""
    document = {**_document(key_file), _SIGNATURE: orjson.loads(envelope)}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2)


def check_signed_keys(key_file: bytes, trusted: Iterable[PublicKey], backup: str, metadata: bytes) -> None:
    """Check who has signed a key file. Raises SigningError: no trusted key, or not this file."""
    document = _document(key_file)
    envelope = document.pop(_SIGNATURE, None)
    if envelope is None:
        raise BadEnvelope("nobody has signed it")
    predicate = _checked(verify(_encoded(envelope), trusted).payload, BACKUP_KEYS, backup, metadata)
    if text(predicate, "keyFile") != _digest(document):
        raise BadEnvelope("it is not what was signed")


def _statement(kind: str, predicate: JSONObject, metadata: bytes) -> bytes:
    subject = SignedFile(name=_METADATA, digest={"sha256": sha256(metadata).hexdigest()})
    return encode_statement(Statement(subject=[subject], predicate_type=kind, predicate=predicate))


def _checked(payload: bytes, kind: str, backup: str, metadata: bytes) -> JSONObject:
    """The predicate of a statement about this backup. Raises BadEnvelope."""
    statement = decode_statement(payload, kind)
    predicate = dict(statement.predicate)
    named = [(each.name, each.sha256) for each in statement.subject]
    if named != [(_METADATA, sha256(metadata).hexdigest())] or text(predicate, "backup") != backup:
        raise BadEnvelope("it is that of another backup")
    return predicate


def _document(key_file: bytes) -> JSONObject:
    """Raises BadEnvelope."""
    found = strict_json(key_file)
    if not isinstance(found, dict):
        raise BadEnvelope("it is no key file")
    return found


def _digest(document: JSONObject) -> str:
    return sha256(_encoded(document)).hexdigest()


def _encoded(value: object) -> bytes:
    """The JSON of a value, with sorted keys. Raises BadEnvelope: a number or text in it is none of ours."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise BadEnvelope(f"it has a value that no key file has: {error}") from None
