"""The header of an age file: read strictly and within limits, as the file may be anybody's; and written."""

import base64
import hmac
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from pinnace.age.errors import MalformedFile

MAGIC: Final = b"age-encryption.org/v1\n"
MOST_HEADER_BYTES: Final = 64 << 10
MOST_STANZAS: Final = 64
FILE_KEY_BYTES: Final = 16
COLUMNS: Final = 64
"""Of a full line of base64."""
_ARGUMENTS: Final = re.compile(rb"-> ([\x21-\x7e]+(?: [\x21-\x7e]+)*)")
_MAC_LINE: Final = re.compile(rb"--- ([A-Za-z0-9+/]{43})")


class Stanza(msgspec.Struct, frozen=True):
    """One wrapping of the file key.

    Attributes:
        arguments: the type, and what belongs to it.
        body: decoded.
    """

    arguments: tuple[str, ...]
    body: bytes


class AgeHeader(msgspec.Struct, frozen=True):
    """A parsed header, whose MAC is not checked before the file key is known.

    Attributes:
        length: bytes from the start of the file to the payload.
    """

    stanzas: tuple[Stanza, ...]
    signed: bytes
    mac: bytes
    length: int

    def check(self, file_key: bytes) -> None:
        """Raise MalformedFile if the header is not the one that was made with the file key."""
        if not hmac.compare_digest(_mac(file_key, self.signed), self.mac):
            raise MalformedFile("the header was changed after the file was encrypted")


def is_age(start: bytes) -> bool:
    """Whether a file that starts so is an age file, not armored."""
    return start.startswith(MAGIC)


def parse_header(data: bytes) -> AgeHeader | None:
    """The header at the start of a file; None if more data is needed. Raises MalformedFile."""
    if not data.startswith(MAGIC[: len(data)]):
        raise MalformedFile("it is not an age file")
    stanzas: list[Stanza] = []
    lines = _Lines(data, len(MAGIC))
    while (line := lines.next()) is not None:
        if mac := _MAC_LINE.fullmatch(line):
            if not stanzas:
                raise MalformedFile("the header names no recipient")
            signed = data[: lines.position - len(line) - 1] + b"---"
            return AgeHeader(tuple(stanzas), signed, decode_base64(mac[1]), lines.position)
        arguments = parse_arguments(line)
        if len(stanzas) == MOST_STANZAS:
            raise MalformedFile(f"the header has more than {MOST_STANZAS} recipients")
        body = _read_body(lines)
        if body is None:
            break
        stanzas.append(Stanza(arguments, body))
    if len(data) >= MOST_HEADER_BYTES:
        raise MalformedFile(f"the header has more than {MOST_HEADER_BYTES} bytes")
    return None


def write_header(stanzas: Sequence[Stanza], file_key: bytes) -> bytes:
    """The bytes of a header of the stanzas."""
    signed = MAGIC + b"".join(map(write_stanza, stanzas)) + b"---"
    return signed + b" " + encode_base64(_mac(file_key, signed)) + b"\n"


def write_stanza(stanza: Stanza) -> bytes:
    """The lines of a stanza."""
    body = encode_base64(stanza.body)
    lines = [body[start : start + COLUMNS] for start in range(0, len(body) + 1, COLUMNS)]
    return b"-> " + " ".join(stanza.arguments).encode() + b"\n" + b"\n".join(lines) + b"\n"


def parse_arguments(line: bytes) -> tuple[str, ...]:
    """The type and the arguments in the first line of a stanza. Raises MalformedFile."""
    opening = _ARGUMENTS.fullmatch(line)
    if opening is None:
        raise MalformedFile("the header has a line that does not belong there")
    return tuple(opening[1].decode("ascii").split(" "))


def encode_base64(data: bytes) -> bytes:
    """Base64 without padding."""
    return base64.b64encode(data).rstrip(b"=")


def decode_base64(text: bytes) -> bytes:
    """The only data that has this text without padding. Raises MalformedFile."""
    try:
        data = base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
    except ValueError:
        raise MalformedFile("the header has damaged base64") from None
    if encode_base64(data) != text:
        raise MalformedFile("the header has base64 that is not canonical")
    return data


def derive(key: bytes, *, salt: bytes, info: bytes) -> bytes:
    """32 bytes by HKDF-SHA-256, the first block of its output. (RFC 5869)"""
    return hmac.digest(hmac.digest(salt or bytes(32), key, "sha256"), info + b"\1", "sha256")


def _mac(file_key: bytes, signed: bytes) -> bytes:
    return hmac.digest(derive(file_key, salt=b"", info=b"header"), signed, "sha256")


class _Lines:
    """The whole lines of what came of a header; None once a line is not complete."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data = data
        self.position = position

    def next(self) -> bytes | None:
        end = self._data.find(b"\n", self.position, MOST_HEADER_BYTES)
        if end < 0:
            return None
        line = self._data[self.position : end]
        self.position = end + 1
        return line


def _read_body(lines: _Lines) -> bytes | None:
    """The body of a stanza: full lines, and a shorter one at the end. None if more data is needed."""
    encoded: list[bytes] = []
    while (line := lines.next()) is not None:
        if len(line) > COLUMNS:
            raise MalformedFile("the header has a line that is too long")
        encoded.append(line)
        if len(line) < COLUMNS:
            return decode_base64(b"".join(encoded))
    return None
