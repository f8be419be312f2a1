"""Opens websockets to an API server, for commands in containers.

Separate from `connection`, whose library does not support them well; imported when first needed.
"""

import asyncio
import ssl
from collections.abc import Sequence
from types import TracebackType

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pinnace.kube.errors import (
    SUSPECTS,
    ConnectionFailed,
    DeadlineExceeded,
    InvalidResponse,
    KubeError,
    NotSent,
    NotTrusted,
    error_from_body,
)
from pinnace.kube.transport.proxy import split_proxy
from pinnace.kube.transport.requests import APIRequest, retry_after_seconds
from pinnace.kube.transport.timeouts import CONNECT_SECONDS

HEARTBEAT_SECONDS = 30.0
"""A websocket that is silent for this long gets a ping, and has half of this time to answer it."""
MAXIMUM_MESSAGE_BYTES = 2**20
"""API servers send 32 KiB at a time."""


class Upgrades:
    """Makes the websockets of one client.

    Args:
        server: base URL.
        proxy: as in `ClusterConfig`.
        server_name: the name to request and check, if it is not the host of the URL.
    """

    def __init__(self, server: str, *, proxy: str | None, server_name: str) -> None:
        self._server = server
        self._proxy, self._proxy_headers = split_proxy(proxy)
        self._server_name = server_name or None
        self._session = aiohttp.ClientSession(
            # Each on its own connection: an idle one could be closing already.
            connector=aiohttp.TCPConnector(limit=0, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            middlewares=(self._once,),
            timeout=aiohttp.ClientTimeout(sock_connect=CONNECT_SECONDS),
            trust_env=False,
        )

    async def close(self) -> None:
        """Drop all open websockets."""
        await self._session.close()

    async def open(
        self,
        request: APIRequest,
        protocols: Sequence[str],
        *,
        headers: Sequence[tuple[str, str]],
        context: ssl.SSLContext | None,
    ) -> aiohttp.ClientWebSocketResponse:
        """A websocket that speaks one of the protocols, or none of them; the caller closes it.

        Args:
            request: `timeout_seconds` limits the time to connect, not the time it stays open.
            headers: including the credentials.
            context: the TLS settings, for https.

        Raises:
            APIStatusError, ConnectionFailed: the upgrade failed; the text is the server's.
        """
        with _translated(self._server):
            async with asyncio.timeout(request.timeout_seconds):
                return await self._session.ws_connect(
                    URL(self._server + request.path, encoded=True),
                    protocols=protocols,
                    headers=CIMultiDict(headers),
                    heartbeat=HEARTBEAT_SECONDS,
                    max_msg_size=MAXIMUM_MESSAGE_BYTES,
                    ssl=context if context is not None else True,
                    server_hostname=self._server_name,
                    proxy=self._proxy,
                    proxy_headers=self._proxy_headers,
                )

    async def _once(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keep the HTTP library from sending an upgrade twice: the command must not start twice.

        Redirects are not followed either; and the body of a refusal is read, which the library would drop.
        """
        with _translated(self._server):
            response = await handler(request)
            if response.status == 101:
                return response
            raise await _error(response)


async def _error(response: aiohttp.ClientResponse) -> KubeError:
    try:
        body = await response.read()
    finally:
        response.close()
    if 200 <= response.status < 300:
        return InvalidResponse(
            f"a websocket was requested, and the answer is HTTP status {response.status}. {SUSPECTS}"
        )
    wait_seconds = retry_after_seconds(response.headers.get("Retry-After", ""))
    return error_from_body(response.status, body, path=response.url.path, retry_after_seconds=wait_seconds)


class _translated:  # noqa: N801 - used like a function
    """Turns the HTTP library's errors into those of `kube.errors`."""

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
    """Our error for the library's. Its texts are not used: they may quote URLs with passwords."""
    match error:
        case aiohttp.ClientConnectorCertificateError():
            reason = getattr(error.certificate_error, "verify_message", "") or "verification failed"
            return NotTrusted(f"the certificate of {server} is not trusted: {reason}")
        case aiohttp.ClientSSLError() if isinstance(getattr(error, "os_error", None), ssl.SSLEOFError):
            # The connection broke during the TLS handshake.
            return NotSent(f"cannot reach {server}: the connection was closed")
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
