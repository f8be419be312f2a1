"""X25519 keys of age: `AGE-SECRET-KEY-1…` and `age1…`."""

from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from pinnace.age import bech32
from pinnace.age.errors import InvalidIdentity, InvalidRecipient, MalformedFile, NoIdentityMatches
from pinnace.age.header import (
    FILE_KEY_BYTES,
    AgeHeader,
    Stanza,
    decode_base64,
    derive,
    encode_base64,
)

_TYPE: Final = "X25519"
_INFO: Final = b"age-encryption.org/v1/X25519"
_KEY_BYTES: Final = 32
_TAG_BYTES: Final = 16
_NONCE: Final = bytes(12)
"""Each wrapping has a key of its own."""
_IDENTITY_PREFIX: Final = "age-secret-key-"


class X25519Recipient(msgspec.Struct, frozen=True):
    """A public key; its holder's files are encrypted to it."""

    public: bytes

    @classmethod
    def parse(cls, text: str) -> "X25519Recipient":
        """The recipient `age1…`. Raises InvalidRecipient."""
        try:
            prefix, public = bech32.decode(text)
        except ValueError as error:
            raise InvalidRecipient(f"recipient {text!r} cannot be read: {error}") from None
        if prefix != "age" or len(public) != _KEY_BYTES or text != text.lower():
            raise InvalidRecipient(f"recipient {text!r} is not a key age1…")
        return cls(public)

    def __str__(self) -> str:
        return bech32.encode("age", self.public)

    def wrap(self, file_key: bytes) -> Stanza:
        """The stanza that the identity of this recipient opens."""
        ephemeral = X25519PrivateKey.generate()
        share = ephemeral.public_key().public_bytes_raw()
        shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(self.public))
        key = derive(shared, salt=share + self.public, info=_INFO)
        body = ChaCha20Poly1305(key).encrypt(_NONCE, file_key, None)
        return Stanza((_TYPE, encode_base64(share).decode()), body)


class X25519Identity:
    """A private key. Its repr shows no part of it."""

    def __init__(self, secret: bytes) -> None:
        self._key = X25519PrivateKey.from_private_bytes(secret)
        self.recipient = X25519Recipient(self._key.public_key().public_bytes_raw())

    @classmethod
    def generate(cls) -> "X25519Identity":
        """A new key."""
        return cls(X25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def parse(cls, text: str) -> "X25519Identity":
        """The identity `AGE-SECRET-KEY-1…`. Raises InvalidIdentity, without the text."""
        try:
            prefix, secret = bech32.decode(text)
        except ValueError as error:
            raise InvalidIdentity(f"an identity AGE-SECRET-KEY-1… cannot be read: {error}") from None
        if prefix != _IDENTITY_PREFIX or len(secret) != _KEY_BYTES or text != text.upper():
            raise InvalidIdentity("an identity is not a key AGE-SECRET-KEY-1…")
        return cls(secret)

    def secret_text(self) -> str:
        """`AGE-SECRET-KEY-1…`, for files and Secrets only."""
        return bech32.encode(_IDENTITY_PREFIX, self._key.private_bytes_raw()).upper()

    def file_key(self, header: AgeHeader) -> bytes:
        """The key of a file.

        Raises:
            MalformedFile: a stanza or the MAC is wrong.
            NoIdentityMatches: the file is not for this identity.
        """
        if len(header.stanzas) > 1 and any(each.arguments[0] == "scrypt" for each in header.stanzas):
            raise MalformedFile("the header has a passphrase beside other recipients")
        for stanza in header.stanzas:
            if stanza.arguments[0] == _TYPE and (file_key := self._unwrap(stanza)) is not None:
                header.check(file_key)
                return file_key
        raise NoIdentityMatches

    def _unwrap(self, stanza: Stanza) -> bytes | None:
        share = decode_base64(stanza.arguments[1].encode()) if len(stanza.arguments) == 2 else b""
        if len(share) != _KEY_BYTES or len(stanza.body) != FILE_KEY_BYTES + _TAG_BYTES:
            raise MalformedFile("the header has a damaged X25519 recipient")
        try:
            shared = self._key.exchange(X25519PublicKey.from_public_bytes(share))
        except ValueError:  # the shared secret is all zero
            raise MalformedFile("the header has an X25519 share that no key makes") from None
        key = derive(shared, salt=share + self.recipient.public, info=_INFO)
        try:
            return ChaCha20Poly1305(key).decrypt(_NONCE, stanza.body, None)
        except InvalidTag:
            return None
