"""A reverse proxy in front of an API server or an S3 server, which fails on command.

Clients talk to it as they would to the server: with https where the server has https (same authority), by
HTTP/1.1, with bodies streamed both ways and untouched bytes, so watches, multipart uploads and signatures
work. What fails and when is said by rules (see faults.py):

    async with FaultProxy(Upstream.of_api_server(control_plane)) as proxy:
        control_plane.write_kubeconfig(path, server=proxy.url)
        rule = proxy.rules.add(too_many_requests(), method="POST", path="/configmaps$", times=3)
        ...                                        # the client works against `path`
        assert rule.hits == 3

Requests that ask for another protocol (exec's upgrades) are refused with 501.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from email.utils import format_datetime, parsedate_to_datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self

import aiohttp
from aiohttp import web
from multidict import CIMultiDict
from yarl import URL

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import (
    ActAndRespond,
    CutBeforeRequest,
    CutBody,
    DropResponse,
    ExpireContinue,
    Fault,
    RequestHead,
    Respond,
    Rewrite,
    Rule,
    RuleList,
    ShiftDate,
    Stall,
    expired,
)
from hack.cluster.pki import KeyPair
from hack.cluster.processes import free_port
from hack.cluster.stores.s3 import S3Server

if TYPE_CHECKING:
    from hack.cluster.stores.azure_blob import AzureBlobServer
    from hack.cluster.stores.gcs import GCSServer

CONNECT_TIMEOUT_SECONDS = 10.0
# Longer than any watch; a silent server must not hold a test for ever.
READ_TIMEOUT_SECONDS = 900.0

# They describe one connection, not the message (RFC 9110, 7.6.1).
HOP_BY_HOP = frozenset(
    (
        "connection",
        "expect",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
# Headers that aiohttp's client would add where the real client sent none.
NOT_OURS_TO_ADD = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
# Turns of the loop until a connection that was shut down is closed.
CLOSING_TURNS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """The server behind a proxy.

    Args:
        url: scheme, host and port.
        serving_pair: certificate to serve https with; None serves http.
        context: for TLS to the server, with a client certificate of its own where the server asks for one.
            Used for requests without an Authorization header, as a client's certificate cannot be passed on.
        token_context: the same without a client certificate, for requests that bring their authorization.
    """

    url: str
    serving_pair: KeyPair | None = None
    context: ssl.SSLContext | None = None
    token_context: ssl.SSLContext | None = None

    @classmethod
    def of_api_server(cls, plane: ControlPlane) -> Self:
        """Describe a started control plane. A client without a token is the administrator to it."""
        return cls(
            url=plane.url,
            serving_pair=plane.serving_pair,
            context=plane.client_context(),
            token_context=plane.client_context(with_certificate=False),
        )

    @classmethod
    def of_s3(cls, server: "S3Server | GCSServer | AzureBlobServer") -> Self:
        """Describe an S3 server, or one of another object store."""
        context = server.authority.trust() if server.authority else None
        return cls(url=server.url, serving_pair=server.serving_pair, context=context, token_context=context)


@dataclass(slots=True)
class Exchange:
    """One request that came in; `status` is None as long as no answer was begun, or for ever if cut."""

    head: RequestHead
    headers: Mapping[str, str]
    fault: Fault | None
    status: int | None = None


class FaultProxy:
    """The proxy: an async context manager that listens while it is entered.

    Leaving ends every connection at once, stalled and streaming ones too, and leaves no task behind.

    Attributes:
        url: where it listens, known from the start.
        rules: what goes wrong; add and remove at any time.
        exchanges: everything that was asked, in order of arrival, for assertions.
    """

    def __init__(self, upstream: Upstream, *, seed: int = 0) -> None:
        self.rules = RuleList(seed=seed)
        self.exchanges: list[Exchange] = []
        self._upstream = upstream
        self._port = free_port()
        self.url = f"{'https' if upstream.serving_pair else 'http'}://127.0.0.1:{self._port}"
        self._handlers: set[asyncio.Task[object]] = set()
        self._exit = AsyncExitStack()
        self._sockets: set[socket.socket] = set()
        self._session: aiohttp.ClientSession
        self._token_session: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end_upstream)
            self._session = await stack.enter_async_context(self._new_session(self._upstream.context))
            self._token_session = await stack.enter_async_context(
                self._new_session(self._upstream.token_context)
            )
            server = web.Server(self._handle, handler_cancellation=True, access_log=None)
            runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=0)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            stack.push_async_callback(self._end_handlers)
            await web.TCPSite(runner, "127.0.0.1", self._port, ssl_context=self._serving_context()).start()
            self._exit = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._exit.aclose()

    def count(self, *, method: str = "", path: str = "") -> int:
        """Return the number of requests with this method and exactly this path; empty stands for any."""
        return sum(
            (not method or exchange.head.method == method) and (not path or exchange.head.path == path)
            for exchange in self.exchanges
        )

    @property
    def busy(self) -> bool:
        """Whether a request is in flight; watches and stalled ones are, until their client has gone."""
        return bool(self._handlers)

    async def _end_handlers(self) -> None:
        for task in self._handlers:
            task.cancel()
        await asyncio.gather(*self._handlers, return_exceptions=True)

    async def _end_upstream(self) -> None:
        """End what the sessions forgot: a TLS connection given up in the middle waits for its peer."""
        for connection in self._sockets:
            if connection.fileno() >= 0:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        for _ in range(CLOSING_TURNS):
            await asyncio.sleep(0)

    def _new_socket(self, address: aiohttp.AddrInfoType) -> socket.socket:
        family, kind, protocol, _, _ = address
        connection = socket.socket(family=family, type=kind, proto=protocol)
        self._sockets = {one for one in self._sockets if one.fileno() >= 0} | {connection}
        return connection

    def _new_session(self, context: ssl.SSLContext | None) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                ssl=context if context is not None else True, limit=0, socket_factory=self._new_socket
            ),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=CONNECT_TIMEOUT_SECONDS, sock_read=READ_TIMEOUT_SECONDS
            ),
            auto_decompress=False,
            skip_auto_headers=NOT_OURS_TO_ADD,
        )

    def _serving_context(self) -> ssl.SSLContext | None:
        pair = self._upstream.serving_pair
        if pair is None:
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        return context

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        try:
            head = RequestHead(request.method, request.path, _first_values(request))
            rule = self.rules.choose(head)
            exchange = Exchange(head, request.headers, rule.fault if rule else None)
            self.exchanges.append(exchange)
            return await self._answer(request, exchange, rule)
        finally:
            self._handlers.discard(task)

    async def _answer(
        self, request: web.BaseRequest, exchange: Exchange, rule: Rule | None
    ) -> web.StreamResponse:
        if "Upgrade" in request.headers:
            return _given(exchange, Respond(501, b"this proxy does not switch protocols"))
        match exchange.fault:
            case Respond() as fault:
                return _given(exchange, fault)
            case ExpireContinue() as fault:
                return _given(exchange, expired(fault, exchange.head.query["continue"]))
            case CutBeforeRequest():
                return _cut(request)
        if rule is not None and rule.fault == Stall():
            await rule.released.wait()
        return await self._forward(request, exchange, rule)

    async def _forward(
        self, request: web.BaseRequest, exchange: Exchange, rule: Rule | None
    ) -> web.StreamResponse:
        session = self._token_session if "Authorization" in request.headers else self._session
        try:
            async with session.request(
                request.method,
                URL(self._upstream.url + request.raw_path, encoded=True),
                headers=_end_to_end(request.headers),
                data=request.content if request.body_exists else None,
                allow_redirects=False,
            ) as upstream:
                if isinstance(exchange.fault, DropResponse):
                    await upstream.read()
                    return _cut(request)
                if isinstance(exchange.fault, ActAndRespond):
                    await upstream.read()
                    return _given(exchange, exchange.fault.answer)
                if isinstance(exchange.fault, Rewrite):
                    body = exchange.fault.change(await upstream.read())
                    kind = {"Content-Type": upstream.headers.get("Content-Type", "")}
                    return _given(exchange, Respond(upstream.status, body, kind))
                return await _relay(request, upstream, exchange, rule)
        except aiohttp.ClientError:
            # The server is gone: without a proxy, a client would see a broken connection.
            return _cut(request)


async def _relay(
    request: web.BaseRequest, upstream: aiohttp.ClientResponse, exchange: Exchange, rule: Rule | None
) -> web.StreamResponse:
    """Pass the server's answer on, up to where the fault strikes."""
    headers = _end_to_end(upstream.headers)
    if rule is not None and isinstance(rule.fault, ShiftDate):
        shifted = parsedate_to_datetime(headers["Date"]) + rule.fault.by
        headers["Date"] = format_datetime(shifted, usegmt=True)
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
    exchange.status = upstream.status
    await response.prepare(request)
    fault_at = rule.fault.after_bytes if rule and isinstance(rule.fault, CutBody | Stall) else None
    passed = 0
    async for chunk in _chunks(upstream, fault_at):
        await response.write(chunk)
        passed += len(chunk)
        if rule is not None and passed == fault_at:
            if isinstance(rule.fault, CutBody):
                return _cut_after(request, response)
            await rule.released.wait()
    await response.write_eof()
    return response


async def _chunks(upstream: aiohttp.ClientResponse, split_at: int | None) -> AsyncIterator[bytes]:
    """Yield the body as it comes, with one boundary at exactly `split_at` bytes (an empty chunk for 0)."""
    passed = 0
    if split_at == 0:
        yield b""
    async for chunk in upstream.content.iter_any():
        if split_at is not None and passed < split_at < passed + len(chunk):
            yield chunk[: split_at - passed]
            yield chunk[split_at - passed :]
        else:
            yield chunk
        passed += len(chunk)


def _end_to_end(headers: Mapping[str, str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in HOP_BY_HOP)


def _first_values(request: web.BaseRequest) -> dict[str, str]:
    return {name: request.query[name] for name in request.query}


def _given(exchange: Exchange, fault: Respond) -> web.Response:
    exchange.status = fault.status
    return web.Response(status=fault.status, headers=fault.headers, body=fault.body)


def _cut(request: web.BaseRequest) -> web.Response:
    """Break the connection with a reset; the response is only for the framework."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response()


def _cut_after(request: web.BaseRequest, response: web.StreamResponse) -> web.StreamResponse:
    """Break the connection once the written bytes were sent; the body stays incomplete."""
    if request.transport is not None:
        request.transport.close()
    return response
