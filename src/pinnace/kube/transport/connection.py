"""Sends one request to one API server once: connection, credentials, headers, and mapping of errors.

Nothing is repeated here, except once after a 401 with renewed credentials. `retrying` adds retries and
limits.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec
import pycurl

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.aio.fence import Fence, FenceClosed
from pinnace.api.values.times import http_date
from pinnace.kube.errors import (
    SUSPECTS,
    ConfigError,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidResponse,
    KubeError,
    NotSent,
    NotTrusted,
    Unauthorized,
    error_from_body,
)
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.credentials import ClientCertificate, Credentials, Impersonation, TokenFileAuth
from pinnace.kube.transport.curl import (
    ClientClosed,
    Transfer,
    TransferFailed,
    Transfers,
    new_handle,
    trust_all,
    trust_the_system,
)
from pinnace.kube.transport.requests import JSON, SUCCESS, APIRequest, retry_after_seconds
from pinnace.kube.transport.timeouts import CONNECT_SECONDS
from pinnace.kube.transport.tls import build_ssl_context, check_certificates, pem_certificates
from pinnace.store_access import tracing

if TYPE_CHECKING:
    from aiohttp import ClientWebSocketResponse

    from pinnace.kube.transport.websocket import Upgrades

KEEP_ALIVE_SECONDS = 30
"""Go's servers close idle connections after 90 s; below that, no request is sent into a closing one."""

# What a header name may hold beside letters and digits (RFC 7230); the rest is percent-encoded.
_HEADER_NAME_CHARACTERS = "!#$&'*+-.^_`|~"
_FORBIDDEN_IN_HEADERS = frozenset("\r\n\0")


class Transport:
    """The connections to one API server; an async context manager.

    Args:
        config: the server, and the user to authenticate as.
        user_agent: the User-Agent header.
        gzip: let the server compress its answers; worthwhile below about 400 Mbit/s.
    """

    def __init__(self, config: ClusterConfig, *, user_agent: str, gzip: bool) -> None:
        self._config = config
        self._base_headers = _base_headers(user_agent, config.impersonation, gzip=gzip)
        self._target = _Target.of(config)
        self._transfers: Transfers | None = None
        self._upgrades: Upgrades | None = None
        self.dates = Dates()
        self._checked: ClientCertificate | None = None

    @property
    def is_token_rotated(self) -> bool:
        """Whether the token is in a file that another program renews, such as the kubelet."""
        return isinstance(self._config.auth, TokenFileAuth)

    @property
    def server(self) -> str:
        """The server's base URL, for error texts."""
        return self._config.server

    async def __aenter__(self) -> Self:
        self._check_certificates(None)
        self._transfers = Transfers()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        transfers, self._transfers = self._transfers, None
        upgrades, self._upgrades = self._upgrades, None
        if transfers is not None:
            transfers.close()
        if upgrades is not None:
            await upgrades.close()

    async def fetch(self, request: APIRequest) -> bytes:
        """Return the body of a successful answer.

        Raises:
            APIStatusError, ConnectionFailed: the request failed.
            FenceClosed: it was not sent.
        """
        async with self._open(request, is_streamed=False) as answer:
            return await answer.body()

    @asynccontextmanager
    async def open(self, request: APIRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """Yield the parts of a successful answer as they arrive; unread parts are dropped at the end.

        Raises:
            APIStatusError, ConnectionFailed: the request failed; the latter while reading, too.
        """
        async with self._open(request, is_streamed=True) as answer:
            yield answer.chunks()

    @asynccontextmanager
    async def _open(self, request: APIRequest, *, is_streamed: bool) -> AsyncIterator["_Answer"]:
        auth = self._config.auth
        credentials = await auth.credentials()
        transfer = await self._start(request, credentials, is_streamed)
        try:
            try:
                answer = await self._answered(transfer, request, credentials)
            except Unauthorized:
                if not await auth.rejected(credentials):
                    raise
                transfer.close()
                credentials = await auth.credentials()
                transfer = await self._start(request, credentials, is_streamed)
                answer = await self._answered(transfer, request, credentials)
            yield answer
        finally:
            transfer.close()

    async def _answered(self, transfer: Transfer, request: APIRequest, credentials: Credentials) -> "_Answer":
        """The answer once its status and headers are there. Raises as `_Answer.check`."""
        answer = _Answer(
            transfer,
            self.server,
            is_proxied=self._config.proxy is not None,
            user=self._config.user,
            dates=self.dates,
        )
        if not tracing.traces():
            await answer.check(request)
            return answer
        traced = tracing.TracedRequest(request.method, self.server + request.path)
        traced.sent(self._headers(request, credentials))
        try:
            await answer.check(request)
        except ConnectionFailed as error:
            if not transfer.status:
                traced.failed(error)
            raise
        finally:
            if transfer.status:
                traced.answered(transfer.status, transfer.headers.items())
        return answer

    async def upgrade(self, request: APIRequest, protocols: Sequence[str]) -> "ClientWebSocketResponse":
        """A websocket that speaks one of the protocols, or none of them; the caller closes it.

        Args:
            request: `timeout_seconds` limits the time to connect, not the time it stays open.

        Raises:
            APIStatusError, ConnectionFailed: the upgrade failed; the text is the server's.
            FenceClosed: the request was not sent.
        """
        auth = self._config.auth
        credentials = await auth.credentials()
        try:
            return await self._upgrade(request, protocols, credentials)
        except Unauthorized:
            if not await auth.rejected(credentials):
                raise
        return await self._upgrade(request, protocols, await auth.credentials())

    async def _upgrade(
        self, request: APIRequest, protocols: Sequence[str], credentials: Credentials
    ) -> "ClientWebSocketResponse":
        if self._transfers is None:
            raise RuntimeError("the client is not open; use it with 'async with'")
        if self._upgrades is None:
            # Imported here: most runs execute no command, and the library takes long to import.
            from pinnace.kube.transport.websocket import Upgrades

            self._upgrades = Upgrades(
                self.server, proxy=self._config.proxy, server_name=self._config.tls.server_name
            )
        context = None
        if self._target.is_https:
            context = await asyncio.to_thread(build_ssl_context, self._config.tls, credentials.certificate)
        headers = self._headers(request, credentials)
        request.check_fence()
        if not tracing.traces():
            return await self._upgrades.open(request, protocols, headers=headers, context=context)
        traced = tracing.TracedRequest(request.method, self.server + request.path)
        traced.sent(headers)
        try:
            opened = await self._upgrades.open(request, protocols, headers=headers, context=context)
        except KubeError as error:
            traced.failed(error)
            raise
        traced.answered(101, ())
        return opened

    async def _start(self, request: APIRequest, credentials: Credentials, is_streamed: bool) -> Transfer:
        if self._transfers is None:
            raise RuntimeError("the client is not open; use it with 'async with'")
        self._check_certificates(credentials.certificate)
        request.check_fence()
        handle = new_handle(self._config.proxy)
        self._describe_connection(handle, credentials.certificate or self._config.tls.certificate)
        self._describe_request(handle, request, credentials)
        return self._transfers.start(
            handle,
            is_streamed=is_streamed,
            timeout_seconds=request.timeout_seconds,
            stall_seconds=request.stall_seconds,
        )

    def _check_certificates(self, certificate: ClientCertificate | None) -> None:
        """Load them once with Python: libcurl refuses unusable ones too, but does not say which file.

        Raises:
            ConfigError: a certificate or key cannot be used.
        """
        if self._target.is_https and (certificate or _NONE) != self._checked:
            check_certificates(self._config.tls, certificate)
            self._checked = certificate or _NONE

    def _describe_connection(self, handle: Any, certificate: ClientCertificate | None) -> None:
        """Set the options that transfers must have in common to share a connection."""
        handle.setopt(pycurl.CONNECTTIMEOUT_MS, int(CONNECT_SECONDS * 1000))
        handle.setopt(pycurl.MAXAGE_CONN, KEEP_ALIVE_SECONDS)
        if self._target.is_https:
            self._describe_tls(handle, certificate)

    def _describe_tls(self, handle: Any, certificate: ClientCertificate | None) -> None:
        setopt, tls = handle.setopt, self._config.tls
        if self._target.connect_to:
            setopt(pycurl.CONNECT_TO, [self._target.connect_to])
        if tls.insecure:
            trust_all(handle)
        elif tls.ca is None:
            trust_the_system(handle)
        else:
            handle.unsetopt(pycurl.CAPATH)
            setopt(pycurl.CAINFO_BLOB, pem_certificates(tls.ca))
        if certificate is not None:
            setopt(pycurl.SSLCERT_BLOB, certificate.certificate)
            setopt(pycurl.SSLKEY_BLOB, certificate.key)
            # The empty password keeps OpenSSL from asking for one on the terminal.
            setopt(pycurl.KEYPASSWD, "")

    def _describe_request(self, handle: Any, request: APIRequest, credentials: Credentials) -> None:
        setopt = handle.setopt
        setopt(pycurl.URL, self._target.url + request.path)
        # Decompress any encoding that libcurl knows; `Accept-Encoding` is set by us.
        setopt(pycurl.ACCEPT_ENCODING, "")
        headers = self._headers(request, credentials)
        if self._target.connect_to:
            headers.append(("Host", self._target.host))
        lines = [_line(name, value) for name, value in headers]
        if request.body is not None:
            lines.append(b"Expect:")
            setopt(pycurl.POST, 1)
            setopt(pycurl.POSTFIELDSIZE, len(request.body))
            # Not as POSTFIELDS: libcurl sends those again, on a new connection, when a kept one is cut before
            # an answer, though the server may have acted. A body it has read cannot be read again.
            setopt(pycurl.READFUNCTION, _body_reader(request.body, request.fence))
        if request.method != ("GET" if request.body is None else "POST"):
            setopt(pycurl.CUSTOMREQUEST, request.method)
        setopt(pycurl.HTTPHEADER, lines)

    def _headers(self, request: APIRequest, credentials: Credentials) -> list[tuple[str, str]]:
        headers = [*self._base_headers, ("Accept", request.accept)]
        if credentials.authorization:
            headers.append(("Authorization", credentials.authorization))
        if request.body is not None:
            headers.append(("Content-Type", request.content_type))
        return headers


def _body_reader(body: bytes, fence: Fence | None) -> Callable[[int], bytes | int]:
    """Gives libcurl the body, which it asks for when it is connected; the fence is checked once more then."""
    read = BytesIO(body).read
    if fence is None:
        return read

    def checked(size: int) -> bytes | int:
        try:
            fence.check()
        except FenceClosed:
            abort: int = pycurl.READFUNC_ABORT
            return abort
        return read(size)

    return checked


class Dates:
    """By how much the API server's clock differs from ours, by the Date of its answers.

    Attributes:
        difference: positive if it is ahead; None before the first answer that has a Date.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.difference: timedelta | None = None
        self._clock = clock
        self._last = ""

    def heard(self, date: str) -> None:
        """Take note of the Date of an answer that has just come."""
        if date == self._last:  # it changes once a second
            return
        self._last = date
        if (moment := http_date(date)) is not None:
            self.difference = moment - self._clock.now()


class _Answer:
    """The answer to one request; reading it raises the errors of `kube.errors`."""

    def __init__(
        self, transfer: Transfer, server: str, *, is_proxied: bool, user: str, dates: "Dates"
    ) -> None:
        self._transfer = transfer
        self._dates = dates
        self._user = user
        self._server = server
        self._is_proxied = is_proxied

    async def check(self, request: APIRequest) -> None:
        """Wait for status and headers.

        Raises:
            APIStatusError: the server refused the request.
            InvalidResponse: an API server does not answer such a request like this.
            ConnectionFailed: there is no answer.
        """
        try:
            await self._transfer.head()
        except TransferFailed as error:
            if error.code == pycurl.E_ABORTED_BY_CALLBACK and not isinstance(error, ClientClosed):
                raise FenceClosed("it was closed while the client connected") from error
            raise _connection_error(error, self._server, self._is_proxied) from error
        status, headers = self._transfer.status, self._transfer.headers
        date = headers.get("date", "")
        self._dates.heard(date)
        if request.fence is not None:
            request.fence.heard(date)
        if not 200 <= status < 300:
            refused = error_from_body(
                status,
                await self.body(),
                path=request.path,
                retry_after_seconds=retry_after_seconds(headers.get("retry-after", "")),
            )
            raise self._with_user(refused) if isinstance(refused, Unauthorized) else refused
        problem = _not_as_asked(request, status, headers.get("content-type", ""))
        if problem:
            raise InvalidResponse(
                f"the answer to {request.shown} is not an API server's: {problem}. {SUSPECTS}"
            )

    def _with_user(self, error: Unauthorized) -> Unauthorized:
        """The error, naming the user whose credentials were refused; the server's own text is one word."""
        if not self._user:
            return error
        text = (
            f"{error.message}: {self._server} does not accept the credentials of {self._user}; a token or "
            "certificate may have expired: sign in again"
        )
        return Unauthorized(error.code, reason=error.reason, message=text, status=error.status)

    async def body(self) -> bytes:
        """The whole body. Raises ConnectionFailed."""
        try:
            return await self._transfer.body()
        except TransferFailed as error:
            raise _connection_error(error, self._server, self._is_proxied) from error

    async def chunks(self) -> AsyncIterator[bytes]:
        """The parts of the body as they arrive. Raises ConnectionFailed."""
        try:
            async for chunk in self._transfer.chunks():
                yield chunk
        except TransferFailed as error:
            raise _connection_error(error, self._server, self._is_proxied) from error


def _not_as_asked(request: APIRequest, status: int, content_type: str) -> str:
    """The mistake in the status or content type of a success; "" if there is none."""
    if status not in SUCCESS.get(request.method, SUCCESS["GET"]):
        return f"HTTP status {status} is not how a {request.method} succeeds"
    if request.accept.startswith(JSON) and content_type.partition(";")[0].strip().lower() != JSON:
        shown = content_type[:100] or "none"
        return f"its content type is {shown}, not {JSON}"
    return ""


_NONE = ClientCertificate(b"", b"")
"""Means that no certificate but the configured one is used."""


class _Target(msgspec.Struct, frozen=True):
    """Where requests go: `url` has the name that TLS checks, `connect_to` the real address if it differs."""

    url: str
    host: str
    connect_to: str
    is_https: bool

    @classmethod
    def of(cls, config: ClusterConfig) -> Self:
        parts = urlsplit(config.server)
        name = config.tls.server_name
        is_https = parts.scheme == "https"
        if not is_https or not name or name == parts.hostname:
            return cls(config.server, parts.netloc, "", is_https)
        port = parts.port or 443
        shown = f"[{name}]" if ":" in name else name
        real = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        url = urlunsplit(parts._replace(netloc=f"{shown}:{port}"))
        return cls(url, parts.netloc, f"{shown}:{port}:{real}:{port}", is_https)


_UNTRUSTED = frozenset(
    {pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE, pycurl.E_SSL_ISSUER_ERROR}
)
_NO_TLS = frozenset({pycurl.E_SSL_CONNECT_ERROR, pycurl.E_SSL_CERTPROBLEM, pycurl.E_SSL_CIPHER})


def _connection_error(error: TransferFailed, server: str, is_proxied: bool) -> ConnectionFailed:
    """Our error for the library's. The library's texts name hosts only where they are repeated here."""
    reason = os.strerror(error.os_error) if error.os_error else error.text
    code = error.code
    if code in _UNTRUSTED:
        return NotTrusted(f"the certificate of {server} is not trusted: {error.text}")
    if code == pycurl.E_SSL_CONNECT_ERROR and not _is_refusal(error.text):
        # The connection broke during the TLS handshake, as when a server is killed or starts.
        return NotSent(f"cannot reach {server}: {reason}")
    if code in _NO_TLS:
        return NotTrusted(f"no TLS connection to {server}: {error.text}{_no_tls_hint(error.text)}")
    if code == pycurl.E_COULDNT_RESOLVE_PROXY:
        return NotSent(f"cannot reach the proxy to {server}: its name cannot be resolved")
    if error.proxy_status and not 200 <= error.proxy_status < 300:
        return NotSent(f"the proxy to {server} refused: HTTP status {error.proxy_status}")
    if code == pycurl.E_COULDNT_RESOLVE_HOST:
        return NotSent(f"cannot reach {server}: its name cannot be resolved")
    if code == pycurl.E_COULDNT_CONNECT:
        return NotSent(f"cannot reach {'the proxy to ' if is_proxied else ''}{server}: {reason}")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if not error.was_connected:
            return NotSent(f"cannot reach {server}: no connection within {CONNECT_SECONDS:g} seconds")
        return DeadlineExceeded(f"{server} did not answer in time")
    if code in (pycurl.E_GOT_NOTHING, pycurl.E_SEND_FAIL_REWIND):
        return ConnectionFailed(f"{server} closed the connection without an answer")
    if code in (pycurl.E_PARTIAL_FILE, pycurl.E_BAD_CONTENT_ENCODING):
        return ConnectionFailed(f"the connection to {server} was cut in the middle of an answer")
    if code in (pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR):
        return ConnectionFailed(f"the connection to {server} was lost: {reason}")
    return ConnectionFailed(f"no valid HTTP answer from {server} ({reason})")


def _no_tls_hint(text: str) -> str:
    """The advice where the other side answered, but not in TLS."""
    if "wrong version number" in text or "record layer failure" in text or "packet length too long" in text:
        return "; the server at this port speaks no TLS: is it http:// and not https://?"
    return ""


def _is_refusal(text: str) -> bool:
    """Whether one side refused the handshake for good: OpenSSL then names its reason."""
    return "SSL routines" in text and "unexpected eof" not in text


def _base_headers(
    user_agent: str, impersonation: Impersonation | None, *, gzip: bool
) -> tuple[tuple[str, str], ...]:
    headers = [("User-Agent", user_agent), ("Accept-Encoding", "gzip" if gzip else "identity")]
    if impersonation is not None:
        headers.append(("Impersonate-User", impersonation.user))
        if impersonation.uid:
            headers.append(("Impersonate-Uid", impersonation.uid))
        headers += (("Impersonate-Group", group) for group in impersonation.groups)
        for key, values in impersonation.extra.items():
            name = f"Impersonate-Extra-{quote(key.lower(), safe=_HEADER_NAME_CHARACTERS)}"
            headers += ((name, value) for value in values)
    return tuple(headers)


def _line(name: str, value: str) -> bytes:
    """One header for libcurl, in UTF-8 as Go's clients send it.

    Raises:
        ConfigError: the value has a line break, or is not valid text; the error does not quote it.
    """
    if _FORBIDDEN_IN_HEADERS & set(value):
        raise ConfigError(f"the value for the header {name} holds a line break")
    # The semicolon tells libcurl to send the header although it is empty.
    try:
        return (f"{name}: {value}" if value else f"{name};").encode()
    except UnicodeEncodeError:
        raise ConfigError(f"the value for the header {name} is not valid text") from None
