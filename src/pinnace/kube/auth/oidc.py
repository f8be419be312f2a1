"""Kubeconfig's `auth-provider: oidc`: an ID token, renewed at its issuer with a refresh token.

New tokens, and a refresh token that the issuer replaced, stay in memory: the user's kubeconfig is
never written to.
"""

import asyncio
import base64
import binascii
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from urllib.parse import quote_plus

import aiohttp
import msgspec

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kube.errors import ConfigError, NotSent, NotTrusted
from pinnace.kube.transport.credentials import Credentials, basic, bearer
from pinnace.kube.transport.proxy import split_proxy
from pinnace.kube.transport.tls import TLSSettings, build_ssl_context

EXPIRY_MARGIN = timedelta(seconds=10)
"""A token that expires this soon is renewed, as it could expire before the request arrives."""
REFRESH_DEADLINE_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class OIDCSettings:
    """The content of `auth-provider.config`. `origin` is file and entry, for error texts."""

    issuer: str
    client_id: str
    origin: str
    client_secret: str = field(default="", repr=False)
    id_token: str = field(default="", repr=False)
    refresh_token: str = field(default="", repr=False)
    tls: TLSSettings = field(default_factory=TLSSettings)
    proxy: str | None = field(default=None, repr=False)


class _Endpoints(msgspec.Struct):
    token_endpoint: str


class _Tokens(msgspec.Struct):
    id_token: str | None = None
    refresh_token: str | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


class OIDCAuth:
    """An `Authenticator` that holds an ID token and renews it."""

    def __init__(self, settings: OIDCSettings, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._settings = settings
        self._proxy, self._proxy_headers = split_proxy(settings.proxy)
        self._clock = clock
        self._id_token = settings.id_token
        self._refresh_token = settings.refresh_token
        self._expires = _expiry(settings.id_token)
        self._renewed = False
        self._lock = asyncio.Lock()

    def __repr__(self) -> str:
        return f"OIDCAuth(issuer={self._settings.issuer!r})"

    async def credentials(self) -> Credentials:
        """The ID token, renewed if it has expired or is about to.

        Raises:
            ConfigError: if the issuer refuses, or there is nothing to renew it with.
            NotSent: if the issuer cannot be reached, or its answer is invalid; a later try may succeed.
            NotTrusted: if its certificate is not trusted.
        """
        async with self._lock:
            if self._has_expired():
                await self._renew()
            return bearer(self._id_token)

    async def rejected(self, used: Credentials) -> bool:
        """Renews the token, unless another task already did; True if there is a new one."""
        async with self._lock:
            if bearer(self._id_token) == used:
                if not self._refresh_token:
                    return False
                await self._renew()
            return bearer(self._id_token) != used

    def _has_expired(self) -> bool:
        if self._expires is None:
            # An unreadable token of kubeconfig counts as expired; one from the issuer is used until a 401.
            return not self._renewed
        return self._clock.now() >= self._expires - EXPIRY_MARGIN

    async def _renew(self) -> None:
        settings = self._settings
        if not self._refresh_token:
            raise ConfigError(f"{settings.origin}: the id-token has expired and there is no refresh-token")
        _require_https(settings.issuer, f"{settings.origin}: idp-issuer-url")
        context = await asyncio.to_thread(build_ssl_context, settings.tls)
        timeout = aiohttp.ClientTimeout(total=REFRESH_DEADLINE_SECONDS)
        connector = aiohttp.TCPConnector(ssl=context)
        try:
            async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
                endpoint = await self._token_endpoint(session)
                tokens = await self._request_tokens(session, endpoint)
        except TimeoutError as error:
            raise NotSent(f"the identity provider {settings.issuer} did not answer in time") from error
        except aiohttp.ClientConnectorCertificateError as error:
            raise NotTrusted(
                f"cannot reach the identity provider {settings.issuer}: its certificate is not trusted"
            ) from error
        except aiohttp.ClientError as error:
            name = type(error).__name__
            raise NotSent(f"cannot reach the identity provider {settings.issuer}: {name}") from error
        if not tokens.id_token:
            raise NotSent(f"{settings.origin}: the identity provider {settings.issuer} gave no id_token")
        self._id_token = tokens.id_token
        # Some issuers accept a refresh token only once, and send the next one in the answer.
        self._refresh_token = tokens.refresh_token or self._refresh_token
        self._expires = _expiry(tokens.id_token)
        self._renewed = True

    async def _token_endpoint(self, session: aiohttp.ClientSession) -> str:
        settings = self._settings
        url = f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration"
        async with session.get(
            url, proxy=self._proxy, proxy_headers=self._proxy_headers, allow_redirects=False
        ) as response:
            body = await response.read()
        if response.status != 200:
            kind = NotSent if _may_pass(response.status) else ConfigError
            raise kind(f"{settings.origin}: {url} answered with HTTP status {response.status}")
        try:
            endpoint = msgspec.json.decode(body, type=_Endpoints).token_endpoint
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise NotSent(
                f"{settings.origin}: {url} is no OpenID discovery document; a proxy or a login page may have "
                "answered in place of the identity provider"
            ) from error
        _require_https(endpoint, f"{settings.origin}: the token_endpoint of {settings.issuer}")
        return endpoint

    async def _request_tokens(self, session: aiohttp.ClientSession, endpoint: str) -> _Tokens:
        settings = self._settings
        form = {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        # RFC 6749 2.3.1 wants the secret in the header; issuers that read it only from the form
        # refuse that with 400 or 401.
        header = basic(quote_plus(settings.client_id), quote_plus(settings.client_secret)).authorization
        in_form = {"client_id": settings.client_id, "client_secret": settings.client_secret}
        attempts = [({"Authorization": header}, form)] if settings.client_secret else []
        attempts.append(({}, form | {name: value for name, value in in_form.items() if value}))
        status = 0
        for headers, data in attempts:
            async with session.post(
                endpoint,
                data=data,
                headers=headers,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                allow_redirects=False,
            ) as response:
                body = await response.read()
            status = response.status
            if status == 200:
                return self._parse(body)
            if status not in (400, 401):
                break
        kind = NotSent if _may_pass(status) else ConfigError
        raise kind(
            f"{settings.origin}: the identity provider {settings.issuer} refused to renew the token"
            f" (HTTP status {status})"
        )

    def _parse(self, body: bytes) -> _Tokens:
        settings = self._settings
        try:
            return msgspec.json.decode(body, type=_Tokens)
        except (msgspec.DecodeError, UnicodeDecodeError):
            # Without the cause, which could quote a token.
            raise NotSent(
                f"{settings.origin}: the identity provider {settings.issuer} gave no valid answer; "
                "a proxy or a login page may have answered in its place"
            ) from None


def _may_pass(status: int) -> bool:
    """Whether an answer with this status is a temporary failure, or comes from a proxy in between."""
    return status < 400 or status == 429 or status >= 500


def _require_https(url: str, origin: str) -> None:
    if not url.startswith("https://"):
        raise ConfigError(f"{origin} must begin with https://")


def _expiry(id_token: str) -> datetime | None:
    """The `exp` of a JSON Web Token; None (renew it) if it has none. The server checks the signature."""
    parts = id_token.split(".")
    if len(parts) != 3:
        return None
    claims = parts[1]
    with suppress(msgspec.DecodeError, UnicodeDecodeError, binascii.Error, ValueError, OverflowError):
        decoded = base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4))
        seconds = msgspec.json.decode(decoded, type=_Claims).exp
        if seconds is not None:
            return datetime.fromtimestamp(seconds, UTC)
    return None
