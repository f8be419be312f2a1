"""The payload of an age file: sealed and opened chunk by chunk, and by ranges.

A chunk has 64 KiB of plaintext and a tag. Its nonce has its number and whether it is the last, so that chunks
cannot be moved, left out or added. Only the last chunk shows that a file was cut between two chunks: whoever
reads ranges opens that one, too.
"""

import os
from collections.abc import Iterator
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from pinnace.age.errors import MalformedFile
from pinnace.age.header import FILE_KEY_BYTES, AgeHeader, derive, parse_header, write_header
from pinnace.age.sizes import CHUNK_BYTES, NONCE_BYTES, SEALED_BYTES, TAG_BYTES
from pinnace.age.x25519 import X25519Identity, X25519Recipient

_DAMAGED: Final = "its content was changed, moved or cut off after it was encrypted"


class Sealing:
    """Encrypts a stream to a recipient. The pieces that the calls return are the file."""

    def __init__(self, recipient: X25519Recipient) -> None:
        file_key, nonce = os.urandom(FILE_KEY_BYTES), os.urandom(NONCE_BYTES)
        self._pieces = [write_header([recipient.wrap(file_key)], file_key) + nonce]
        self._cipher = _cipher(file_key, nonce)
        self._number = 0
        self._held = bytearray()

    def feed(self, data: bytes) -> bytes:
        """Encrypt a further piece; a chunk is held back until it is known not to be the last."""
        self._held += data
        whole = max(0, len(self._held) - 1) // CHUNK_BYTES * CHUNK_BYTES
        with memoryview(self._held) as held:
            for start in range(0, whole, CHUNK_BYTES):
                self._seal(held[start : start + CHUNK_BYTES], last=False)
        del self._held[:whole]
        return self._taken()

    def finish(self) -> bytes:
        """Encrypt the last chunk."""
        self._seal(self._held, last=True)
        return self._taken()

    def _seal(self, chunk: bytearray | memoryview, *, last: bool) -> None:
        self._pieces.append(self._cipher.encrypt(_nonce(self._number, last=last), chunk, None))
        self._number += 1

    def _taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


class Chunks(msgspec.Struct, frozen=True):
    """Opens single chunks of one file, whose header was checked.

    Attributes:
        start: where the payload's chunks begin in the file.
    """

    cipher: ChaCha20Poly1305
    start: int

    @classmethod
    def after_header(cls, data: bytes, identity: X25519Identity) -> "Chunks | None":
        """Of a file that starts so; None if more data is needed.

        Raises:
            MalformedFile: it is no age file, damaged or beyond the limits.
            NoIdentityMatches: the file is not for this identity.
        """
        header = parse_header(data)
        if header is None or len(data) < header.length + NONCE_BYTES:
            return None
        return cls.of_file_key(identity.file_key(header), data, header)

    @classmethod
    def of_file_key(cls, file_key: bytes, data: bytes, header: AgeHeader) -> "Chunks":
        """Of a file that starts so, with the nonce, and has this key."""
        start = header.length + NONCE_BYTES
        return cls(_cipher(file_key, data[header.length : start]), start)

    def last(self, stored_bytes: int) -> int:
        """The number of the last chunk of a file of this size. Raises MalformedFile."""
        count, rest = divmod(stored_bytes - self.start, SEALED_BYTES)
        if stored_bytes - self.start < TAG_BYTES or (rest and rest <= TAG_BYTES and count):
            raise MalformedFile(_DAMAGED)
        return count if rest else count - 1

    def plain_bytes(self, stored_bytes: int) -> int:
        """The size of the content of a file of this size. Raises MalformedFile."""
        return stored_bytes - self.start - (self.last(stored_bytes) + 1) * TAG_BYTES

    def place(self, number: int) -> int:
        """Where a chunk begins in the file."""
        return self.start + number * SEALED_BYTES

    def open(self, number: int, sealed: bytes | memoryview, *, last: bool) -> bytes:
        """The plaintext of a chunk. Raises MalformedFile."""
        try:
            chunk = self.cipher.decrypt(_nonce(number, last=last), sealed, None)
        except InvalidTag:
            raise MalformedFile(_DAMAGED) from None
        if not chunk and number:
            raise MalformedFile("it ends with an empty chunk, which no program writes")
        return chunk


class Unsealing:
    """Decrypts a stream; what comes out is authentic, and complete once finish() has returned."""

    def __init__(self, identity: X25519Identity) -> None:
        self._identity = identity
        self._chunks: Chunks | None = None
        self._number = 0
        self._held = bytearray()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The content of a further piece.

        Raises:
            MalformedFile: it is no age file, damaged or beyond the limits.
            NoIdentityMatches: the file is not for this identity.
        """
        self._held += data
        if self._chunks is None:
            self._chunks = Chunks.after_header(bytes(self._held), self._identity)
            if self._chunks is None:
                return
            del self._held[: self._chunks.start]
        whole = max(0, len(self._held) - 1) // SEALED_BYTES * SEALED_BYTES
        ready = bytes(self._held[:whole])
        del self._held[:whole]
        for start in range(0, whole, SEALED_BYTES):
            yield self._open(self._chunks, memoryview(ready)[start : start + SEALED_BYTES], last=False)

    def finish(self) -> bytes:
        """The content of the last chunk. Raises MalformedFile: the file is cut off, or longer than it was."""
        if self._chunks is None:
            raise MalformedFile("it is cut off in its header")
        return self._open(self._chunks, memoryview(bytes(self._held)), last=True)

    def _open(self, chunks: Chunks, sealed: memoryview, *, last: bool) -> bytes:
        chunk = chunks.open(self._number, sealed, last=last)
        self._number += 1
        return chunk


def _cipher(file_key: bytes, nonce: bytes) -> ChaCha20Poly1305:
    return ChaCha20Poly1305(derive(file_key, salt=nonce, info=b"payload"))


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + (b"\x01" if last else b"\x00")
