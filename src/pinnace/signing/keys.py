"""Keys: private ones that sign, public ones that check, and a set of those that are trusted.

A public key is written as the base64 of its SubjectPublicKeyInfo, the line that a PEM file has between its
armour; PEM is read too. The library is loaded where there is a key: most locations have none.
"""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import TYPE_CHECKING, Final, Protocol

from pinnace.signing.errors import BadKey

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

MOST_KEYS: Final = 32
"""How many keys may be trusted, so that a check stays short."""
_LEAST_RSA_BITS: Final = 2048
_PEM: Final = re.compile(r"-----BEGIN PUBLIC KEY-----([^-]*)-----END PUBLIC KEY-----")


class SigningKey(Protocol):
    """A private key, wherever it is."""

    @property
    def public(self) -> "PublicKey":
        """Its public key."""
        ...

    async def sign(self, data: bytes) -> bytes:
        """A signature. Raises BadKey: the key cannot be used now."""
        ...


class PublicKey:
    """A public key: Ed25519, ECDSA over P-256 or P-384, or RSA (PSS with SHA-256) of at least 2048 bits.

    Attributes:
        named: type, scheme and public part, as securesystemslib names them.
        id: the key id that it gives.
    """

    def __init__(self, der: bytes) -> None:
        """Args:
        der: the SubjectPublicKeyInfo.

        Raises:
            BadKey: it is no such key.
        """
        from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, padding
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

        try:
            key = load_der_public_key(der)
        except (ValueError, UnsupportedAlgorithm):
            raise BadKey("not a public key: expected the base64 of its SubjectPublicKeyInfo") from None
        self._invalid = InvalidSignature
        self._verify: Callable[[bytes, bytes], None]
        curves: Mapping[str, tuple[str, hashes.HashAlgorithm]] = {
            "secp256r1": ("ecdsa-sha2-nistp256", hashes.SHA256()),
            "secp384r1": ("ecdsa-sha2-nistp384", hashes.SHA384()),
        }
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
        if isinstance(key, Ed25519PublicKey):
            self.named = ("ed25519", "ed25519", key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex())
            self._verify = key.verify
        elif isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in curves:
            scheme, digest = curves[key.curve.name]
            self.named = ("ecdsa", scheme, pem)
            self._verify = lambda sig, data: key.verify(sig, data, ec.ECDSA(digest))
        elif isinstance(key, RSAPublicKey) and key.key_size >= _LEAST_RSA_BITS:
            self.named = ("rsa", "rsassa-pss-sha256", pem)
            pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
            self._verify = lambda sig, data: key.verify(sig, data, pss, hashes.SHA256())
        else:
            raise BadKey(
                "not a key that can be used: expected Ed25519, ECDSA P-256 or P-384, or RSA of 2048 bits"
            )
        self._der = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.id = _key_id(*self.named)

    def __str__(self) -> str:
        """The key on one line, as settings have it."""
        return base64.b64encode(self._der).decode()

    def made(self, signature: bytes, data: bytes) -> bool:
        """Whether this key has made the signature of the data."""
        try:
            self._verify(signature, data)
        except self._invalid:
            return False
        return True


class Ed25519Signer:
    """A private key from a file."""

    def __init__(self, private: "Ed25519PrivateKey") -> None:
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        self._private = private
        self.public = PublicKey(
            private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        )

    @classmethod
    def generate(cls) -> "Ed25519Signer":
        """A new key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def from_pem(cls, pem: bytes) -> "Ed25519Signer":
        """The key of a file in PKCS #8. Raises BadKey; the text has nothing of the file."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            key = load_pem_private_key(pem, password=None)
        except TypeError:
            raise BadKey("the signing key is encrypted; a key without a passphrase is needed") from None
        except (ValueError, UnsupportedAlgorithm):
            raise BadKey("not a private key in PEM (PKCS #8)") from None
        if not isinstance(key, Ed25519PrivateKey):
            raise BadKey("the signing key is not an Ed25519 key; `location sign-key` makes one")
        return cls(key)

    def pem(self) -> bytes:
        """The private key for its file."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    async def sign(self, data: bytes) -> bytes:
        """See SigningKey."""
        return self._private.sign(data)


def parse_keys(text: str) -> tuple[PublicKey, ...]:
    """The public keys of a setting: separated by blanks, lines or commas, or as PEM. Raises BadKey."""
    # Between the armour of a PEM file the base64 is wrapped.
    blocks = _PEM.sub(lambda pem: f" {''.join(pem[1].split())} ", text)
    words = [word for word in re.split(r"[\s,]+", blocks) if word]
    if len(words) > MOST_KEYS:
        raise BadKey(f"{len(words)} keys, which is more than {MOST_KEYS}")
    keys: dict[str, PublicKey] = {}
    for number, word in enumerate(words, start=1):
        try:
            key = PublicKey(base64.b64decode(word, validate=True))
        except binascii.Error:
            raise BadKey(f"key {number} is not base64") from None
        except BadKey as error:
            raise BadKey(f"key {number} is {error}") from None
        keys[key.id] = key
    return tuple(keys.values())


def unique_keys(keys: Iterable[PublicKey]) -> tuple[PublicKey, ...]:
    """The keys, each once."""
    return tuple({key.id: key for key in keys}.values())


def _key_id(keytype: str, scheme: str, public: str) -> str:
    """The id that securesystemslib gives a key: the SHA-256 of its canonical JSON.

    Canonical JSON escapes nothing but the backslash and the quotation mark, which no key has.
    """
    canonical = f'{{"keytype":"{keytype}","keyval":{{"public":"{public}"}},"scheme":"{scheme}"}}'
    return sha256(canonical.encode()).hexdigest()
