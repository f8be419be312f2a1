"""Bearer tokens of Google and Azure: requested once, kept until they are about to expire.

Both clouds use OAuth 2 with JSON answers; gcp/credentials.py and azure/credentials.py make the requests.
"""

import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.store_access.errors import StorageError, StoreConfigError
from pinnace.store_access.json import json_error, json_object
from pinnace.store_access.requests import Reply

REFRESH_BEFORE = timedelta(minutes=5)
"""Tokens are renewed this long before they expire; most last an hour, those of a metadata service less."""

_LONGEST_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A token that authorizes requests until `expires_at`."""

    value: str = field(repr=False)
    expires_at: datetime


TokenSource = Callable[[], Awaitable[Token]]
"""Gets a token over the network; raises StorageError."""


class CachedToken:
    """A token from a source, which is asked again only when the token is about to expire."""

    def __init__(self, source: TokenSource, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._source = source
        self._clock = clock
        self._current: Token | None = None

    async def get(self) -> Token:
        """The token to send now."""
        if self._current is None or self._current.expires_at - self._clock.now() < REFRESH_BEFORE:
            self._current = await self._source()
        return self._current


def token_of(reply: Reply, what: str, *, now: datetime) -> Token:
    """The token in an answer.

    Raises:
        StorageError: a refusal, whose text names error and description only, or no token in it.
    """
    if reply.status != 200:
        raise json_error(what, reply.status, reply.body)
    answer = json_object(reply.body, what)
    value = answer.get("access_token")
    if not isinstance(value, str) or not value:
        raise StorageError(f"{what}: the answer holds no token")
    try:
        seconds = float(answer["expires_in"])  # Azure's metadata service writes it as a text
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{what}: the answer does not say when the token ends") from error
    return Token(value=value, expires_at=now + timedelta(seconds=min(max(seconds, 0), _LONGEST_SECONDS)))


def sign_sha256(private_key: str, data: bytes, what: str) -> bytes:
    """An RSA signature (PKCS #1 v1.5, SHA-256), as both clouds want it.

    Args:
        private_key: PEM, not encrypted.
        what: names the key in the error text.

    Raises:
        StoreConfigError: it is no RSA private key.
    """
    # Imported here: the library is needed only for keys, and takes long to import.
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError):
        key = None  # the library's text may repeat the key
    if not isinstance(key, RSAPrivateKey):
        raise StoreConfigError(f"the private key of {what} is not an RSA key in PEM format without password")
    return key.sign(data, PKCS1v15(), SHA256())


def signed_jwt(
    private_key: str, claims: Mapping[str, Any], what: str, *, header: Mapping[str, str] | None = None
) -> str:
    """A JSON web token signed with RS256. Raises StoreConfigError."""
    head = {"alg": "RS256", "typ": "JWT", **(header or {})}
    content = f"{_encoded(head)}.{_encoded(claims)}"
    return f"{content}.{base64url(sign_sha256(private_key, content.encode(), what))}"


def base64url(data: bytes) -> str:
    """Base64 for URLs without padding, as in tokens."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _encoded(value: Mapping[str, Any]) -> str:
    return base64url(json.dumps(value, separators=(",", ":")).encode())
