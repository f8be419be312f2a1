"""Authentication of a request: the interface, and the methods that need no other program or server.

An `Authenticator` is asked before each request, and is told when the server rejected its credentials.
Exec plugins and OIDC, which must run or call something, have modules of their own.
"""

import asyncio
import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kube.errors import ConfigError

TOKEN_FILE_REREAD_SECONDS = 60.0
"""A token file of this age is read again; the kubelet rotates projected tokens well before they expire."""


class ClientCertificate(msgspec.Struct, frozen=True):
    """A certificate and its private key, both PEM. Never shown."""

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "ClientCertificate(...)"


class Credentials(msgspec.Struct, frozen=True):
    """What one request carries: the value of the Authorization header ("" for none), and perhaps a
    client certificate that goes before the configured one."""

    authorization: str = ""
    certificate: ClientCertificate | None = None

    def __repr__(self) -> str:
        return "Credentials(...)"


ANONYMOUS = Credentials()


class Impersonation(msgspec.Struct, frozen=True, kw_only=True):
    """The user to act as, if the server lets us."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)


class Authenticator(Protocol):
    """Provides credentials and renews them. Safe to call from many tasks at once."""

    async def credentials(self) -> Credentials:
        """The credentials for the next request, renewed first if they are known to have expired.

        Raises:
            ConfigError: if there are no credentials.
        """
        ...

    async def rejected(self, used: Credentials) -> bool:
        """Handle a 401 to these credentials; return True if there are newer ones to try."""
        ...


def bearer(token: str) -> Credentials:
    """Credentials of a bearer token."""
    return Credentials(f"Bearer {token}")


def basic(username: str, password: str) -> Credentials:
    """Credentials of HTTP basic authentication."""
    encoded = base64.b64encode(f"{username}:{password}".encode()).decode("ascii")
    return Credentials(f"Basic {encoded}")


class StaticAuth(msgspec.Struct, frozen=True):
    """Credentials that never change: a token, a user and password, or nothing beside the certificate."""

    fixed: Credentials = ANONYMOUS

    async def credentials(self) -> Credentials:
        """The same credentials each time."""
        return self.fixed

    async def rejected(self, used: Credentials) -> bool:
        """Return False: there are no newer credentials."""
        return False


class TokenFileAuth:
    """A bearer token in a file that another program rotates.

    Read again once a minute and after a 401. While the file cannot be read, the last good token stays
    in use: a rotation in progress must not end a running backup.

    Args:
        path: the file.
        fallback: the token to use as long as the file was never readable.
        clock: its monotonic time counts.
    """

    def __init__(self, path: Path, *, fallback: str = "", clock: Clock = SYSTEM_CLOCK) -> None:
        self._path = path
        self._clock = clock
        self._current = bearer(fallback) if fallback else None
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"TokenFileAuth({str(self._path)!r})"

    async def credentials(self) -> Credentials:
        """The file's token, at most a minute old.

        Raises:
            ConfigError: if no token could ever be read.
        """
        if self._current is not None and not self._is_stale():
            return self._current
        async with self._lock:
            if self._current is None or self._is_stale():
                await self._read()
        if self._current is None:
            raise ConfigError(f"{self._path}: holds no token")
        return self._current

    async def rejected(self, used: Credentials) -> bool:
        """Reads the file at once; True if it now holds another token than the rejected one."""
        async with self._lock:
            if self._current == used:
                await self._read()
            return self._current is not None and self._current != used

    def _is_stale(self) -> bool:
        return self._read_at is None or self._clock.monotonic() - self._read_at >= TOKEN_FILE_REREAD_SECONDS

    async def _read(self) -> None:
        try:
            token = (await asyncio.to_thread(self._path.read_text, encoding="utf-8")).strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._current is None:
                reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
                # The cause is left out: a decoding error carries the bytes it failed on.
                raise ConfigError(f"{self._path}: cannot read the token: {reason}") from None
            token = ""
        if token:
            self._current = bearer(token)
        self._read_at = self._clock.monotonic()
