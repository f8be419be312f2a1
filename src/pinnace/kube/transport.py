"""One request to one API server, once: connection, credentials, headers, and errors made our own.

Nothing is tried again here, save once after a 401 with renewed credentials. Retries and limits are
stacked on top of it (`retrying`).
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pinnace.kube.auth import ClientCertificate, Credentials, Impersonation
from pinnace.kube.config import ClusterConfig
from pinnace.kube.errors import (
    APIStatusError,
    ConnectionFailed,
    DeadlineExceeded,
    Unauthorized,
    error_from_body,
)
from pinnace.kube.proxy import split_proxy
from pinnace.kube.requests import Request
from pinnace.kube.tls import build_ssl_context

CONNECT_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 30.0
"""Below the 90 s after which Go's servers close idle connections: a request must not meet the closing."""
READ_BUFFER_BYTES = 2**20
"""Pages are megabytes; a small buffer pauses and resumes the socket many times for each."""
HEARTBEAT_SECONDS = 30.0
"""A websocket that is silent for so long is asked for a sign of life, for which it has half as long again."""
MAXIMUM_MESSAGE_BYTES = 2**20
"""Of a websocket; API servers send 32 KiB at a time."""

# What a header name may hold beside letters and digits (RFC 7230); the rest is percent-encoded.
_HEADER_NAME_CHARACTERS = "!#$&'*+-.^_`|~"

T = TypeVar("T")


class NotSent(ConnectionFailed):
    """The connection was never made: the server cannot have acted."""


class NotTrusted(ConnectionFailed):
    """TLS refused, by us or by the server; trying again does not help."""


class Transport:
    """The connections to one API server; an async context manager.

    Args:
        config: where and as whom.
        user_agent: what we call ourselves.
        gzip: let the server compress; pays below about 400 Mbit/s.
    """

    def __init__(self, config: ClusterConfig, *, user_agent: str, gzip: bool) -> None:
        self._config = config
        self._base_headers = _base_headers(user_agent, config.impersonation, gzip=gzip)
        self._proxy, self._proxy_headers = split_proxy(config.proxy)
        self._session: aiohttp.ClientSession | None = None
        self._upgrades: aiohttp.ClientSession | None = None
        self._context: ssl.SSLContext | None = None
        self._own_context: tuple[ClientCertificate, ssl.SSLContext] | None = None

    @property
    def server(self) -> str:
        """The server's base URL, for error texts."""
        return self._config.server

    async def __aenter__(self) -> Self:
        if self._config.server.startswith("https:"):
            self._context = await asyncio.to_thread(build_ssl_context, self._config.tls)
        self._session = aiohttp.ClientSession(
            # How much goes on at once is the limiter's business; watches are not counted at all.
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BUFFER_BYTES,
            trust_env=False,
        )
        self._upgrades = aiohttp.ClientSession(
            # Each on a connection of its own: one that had been idle might be closing already.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(self._once,),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
            trust_env=False,
        )
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        upgrades, self._upgrades = self._upgrades, None
        try:
            if session is not None:
                await session.close()
        finally:
            if upgrades is not None:
                await upgrades.close()

    async def fetch(self, request: Request) -> bytes:
        """The body of a successful answer.

        Raises:
            APIStatusError, ConnectionFailed: what went wrong.
        """
        async with self.open(request) as response:
            with _translated(self.server):
                return await response.read()

    @asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[aiohttp.ClientResponse]:
        """A successful answer whose body is still to be read; closed at the end.

        The caller wraps its reading in `reading()`, so that errors on the way become ours.
        """
        response = await self._authenticated(partial(self._send, request))
        try:
            yield response
        finally:
            # Without effect after a whole body was read; else the connection is of no more use.
            response.close()

    def reading(self) -> "_translated":
        """A context in which errors of the HTTP library become ours."""
        return _translated(self.server)

    async def upgrade(self, request: Request, protocols: Sequence[str]) -> aiohttp.ClientWebSocketResponse:
        """A websocket that speaks one of the protocols, or none of them; the caller closes it.

        Args:
            request: `timeout_seconds` is for the connection to be made, not for its life.

        Raises:
            APIStatusError, ConnectionFailed: there is none; the server's own words.
        """
        return await self._authenticated(partial(self._upgrade, request, protocols))

    async def _authenticated(self, send: Callable[[Credentials], Awaitable[T]]) -> T:
        credentials = await self._config.auth.credentials()
        try:
            return await send(credentials)
        except Unauthorized:
            if not await self._config.auth.rejected(credentials):
                raise
        return await send(await self._config.auth.credentials())

    async def _send(self, request: Request, credentials: Credentials) -> aiohttp.ClientResponse:
        timeout = aiohttp.ClientTimeout(
            total=request.timeout_seconds, sock_connect=CONNECT_SECONDS, sock_read=request.stall_seconds
        )
        context = await self._ssl_context(credentials.certificate)
        with _translated(self.server):
            response = await _opened(self._session).request(
                request.method,
                self._url(request),
                data=request.body,
                headers=self._headers(request, credentials),
                timeout=timeout,
                ssl=context if context is not None else True,
                server_hostname=self._config.tls.server_name or None,
                proxy=self._proxy,
                proxy_headers=self._proxy_headers,
                # A redirect could take the credentials elsewhere; API servers do not redirect.
                allow_redirects=False,
            )
            if 200 <= response.status < 300:
                return response
            raise await _error(response)

    async def _upgrade(
        self, request: Request, protocols: Sequence[str], credentials: Credentials
    ) -> aiohttp.ClientWebSocketResponse:
        context = await self._ssl_context(credentials.certificate)
        with _translated(self.server):
            async with asyncio.timeout(request.timeout_seconds):
                return await _opened(self._upgrades).ws_connect(
                    self._url(request),
                    protocols=protocols,
                    headers=self._headers(request, credentials),
                    heartbeat=HEARTBEAT_SECONDS,
                    max_msg_size=MAXIMUM_MESSAGE_BYTES,
                    ssl=context if context is not None else True,
                    server_hostname=self._config.tls.server_name or None,
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers,
                )

    async def _once(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keeps the HTTP library from sending an upgrade twice: what it starts must not start twice.

        Nor are redirects followed; and a refusal is read, which the library would throw away.
        """
        with _translated(self.server):
            response = await handler(request)
            if response.status == 101:
                return response
            raise await _error(response)

    def _url(self, request: Request) -> URL:
        return URL(self._config.server + request.path, encoded=True)

    def _headers(self, request: Request, credentials: Credentials) -> CIMultiDict[str]:
        headers = self._base_headers.copy()
        headers["Accept"] = request.accept
        if credentials.authorization:
            headers["Authorization"] = credentials.authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        return headers

    async def _ssl_context(self, certificate: ClientCertificate | None) -> ssl.SSLContext | None:
        if self._context is None or certificate is None:
            return self._context
        if self._own_context is None or self._own_context[0] != certificate:
            context = await asyncio.to_thread(build_ssl_context, self._config.tls, certificate)
            # Connections belong to their context, so that none made with the old one is used again.
            self._own_context = (certificate, context)
        return self._own_context[1]


def _opened(session: aiohttp.ClientSession | None) -> aiohttp.ClientSession:
    if session is None:
        raise RuntimeError("the client is not open; use it with 'async with'")
    return session


async def _error(response: aiohttp.ClientResponse) -> APIStatusError:
    try:
        body = await response.read()
    finally:
        response.close()
    return error_from_body(response.status, body, retry_after_seconds=_retry_after(response.headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    # The date form of RFC 7231 is never used by API servers.
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


class _translated:  # noqa: N801 - used like a function
    """Turns the HTTP library's errors into ours; a class, for it is entered for every request."""

    __slots__ = ("_server",)

    def __init__(self, server: str) -> None:
        self._server = server

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, aiohttp.ClientError | TimeoutError | OSError):
            raise _connection_error(error, self._server) from error


def _connection_error(error: Exception, server: str) -> ConnectionFailed:
    """Ours for the library's. Texts are made here: the library's may quote URLs with passwords."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "verification failed"
            return NotTrusted(f"the certificate of {server} is not trusted: {reason}")
        case aiohttp.ClientSSLError():
            return NotTrusted(f"no TLS connection to {server}: {_os_reason(error)}")
        case aiohttp.ClientProxyConnectionError():
            return NotSent(f"cannot reach the proxy to {server}: {_os_reason(error)}")
        case aiohttp.ClientConnectorDNSError():
            return NotSent(f"cannot reach {server}: its name cannot be resolved")
        case aiohttp.ClientConnectorError():
            return NotSent(f"cannot reach {server}: {_os_reason(error)}")
        case aiohttp.ClientHttpProxyError():
            return NotSent(f"the proxy to {server} refused: HTTP status {error.status}")
        case aiohttp.ConnectionTimeoutError():
            return NotSent(f"cannot reach {server}: no connection within {CONNECT_SECONDS:g} seconds")
        case TimeoutError():
            return DeadlineExceeded(f"{server} did not answer in time")
        case aiohttp.ServerDisconnectedError():
            return ConnectionFailed(f"{server} closed the connection without an answer")
        case aiohttp.ClientPayloadError():
            return ConnectionFailed(f"the connection to {server} was cut in the middle of an answer")
        case OSError():
            return ConnectionFailed(f"the connection to {server} was lost: {_os_reason(error)}")
        case _:
            return ConnectionFailed(f"no valid HTTP answer from {server} ({type(error).__name__})")


def _os_reason(error: BaseException) -> str:
    cause = getattr(error, "os_error", error)
    return getattr(cause, "strerror", None) or type(cause).__name__


def _base_headers(user_agent: str, impersonation: Impersonation | None, *, gzip: bool) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict()
    headers["User-Agent"] = user_agent
    headers["Accept-Encoding"] = "gzip" if gzip else "identity"
    if impersonation is not None:
        headers["Impersonate-User"] = impersonation.user
        if impersonation.uid:
            headers["Impersonate-Uid"] = impersonation.uid
        for group in impersonation.groups:
            headers.add("Impersonate-Group", group)
        for key, values in impersonation.extra.items():
            for value in values:
                headers.add(f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_NAME_CHARACTERS)}", value)
    return headers
