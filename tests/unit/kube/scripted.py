"""A server on loopback that answers as a test tells it to, byte by byte where that matters."""

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy

from pinnace.kube.client import KubeClient
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from tests.support.clock import LeapingClock

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass(frozen=True)
class Seen:
    """One request that came in."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes
    peer: Any
    peer_certificate: Mapping[str, Any] | None

    @property
    def call(self) -> str:
        return f"{self.method} {self.path}"


@dataclass
class ScriptedServer:
    """Answers each `METHOD /path` with the answers set for it in order; the last one is repeated."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    scripts: dict[str, list[Answer]] = field(default_factory=dict)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def on(self, call: str, *answers: Answer) -> None:
        self.scripts[call] = list(answers)

    def calls(self) -> list[str]:
        return [seen.call for seen in self.seen]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        assert transport is not None
        seen = Seen(
            method=request.method,
            path=request.path,
            query=dict(request.query),
            headers=request.headers,
            body=await request.read(),
            peer=transport.get_extra_info("peername"),
            peer_certificate=transport.get_extra_info("peercert"),
        )
        self.seen.append(seen)
        answers = self.scripts.get(seen.call)
        if not answers:
            return web.json_response(status(404, "NotFound", f"no script for {seen.call}"), status=404)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return await answer(request)

    def stall(self) -> Answer:
        """Accepts the request and never answers; `waiting` is set when it has come."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            self.waiting.set()
            await self.stopping.wait()
            return web.Response()

        return answer

    async def hang(self, request: web.BaseRequest) -> None:
        """For `answer_chunks`: sends nothing more until the test ends."""
        await self.stopping.wait()


@asynccontextmanager
async def scripted_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[ScriptedServer]:
    """A running server, by https if given a context."""
    server = ScriptedServer()
    runner = web.ServerRunner(
        web.Server(server.handle, handler_cancellation=True, access_log=None), shutdown_timeout=1.0
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        server.stopping.set()
        await runner.cleanup()


@asynccontextmanager
async def connected(server: ScriptedServer, **options: Any) -> AsyncIterator[KubeClient]:
    """A client of the server that never really sleeps between attempts."""
    config = options.pop("config", None) or ClusterConfig(server=server.url)
    options.setdefault("clock", Sleeps())
    options.setdefault("jitter", lambda: 0.0)
    options.setdefault("timeout_seconds", 5.0)
    async with KubeClient(config, **options) as client:
        yield client


class Sleeps(LeapingClock):
    """A clock that remembers the sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await super().sleep(seconds)


ONE_TRY = ThrottledRetryPolicy(attempts=1, throttled_attempts=1)


def answer_json(document: object, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    return answer_bytes(json.dumps(document).encode(), code=code, headers=headers)


def answer_bytes(body: bytes, *, code: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=body, status=code, headers=headers, content_type="application/json")

    return answer


def answer_status(
    code: int,
    reason: str = "",
    message: str = "",
    *,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Answer:
    return answer_json(status(code, reason, message) | more, code=code, headers=headers)


def answer_cut(body: bytes, *, missing: int = 1000) -> Answer:
    """Promises more bytes than it sends, then drops the connection."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body) + missing
        await response.prepare(request)
        await response.write(body)
        assert request.transport is not None
        request.transport.close()
        return response

    return answer


def answer_chunks(*chunks: bytes, then: Callable[[web.BaseRequest], Awaitable[None]] | None = None) -> Answer:
    """A chunked answer; after it, whatever `then` does."""

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then(request)
        return response

    return answer


async def drop(request: web.BaseRequest) -> None:
    assert request.transport is not None
    request.transport.abort()


def status(code: int, reason: str = "", message: str = "") -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code,
    }


def listing(
    names: list[str],
    *,
    token: str = "",
    remaining: int | None = None,
    version: str = "100",
    kind: str = "ConfigMapList",
) -> dict[str, Any]:
    """A page as the API server writes built-in types: metadata first, items without kind."""
    metadata: dict[str, Any] = {"resourceVersion": version}
    if token:
        metadata["continue"] = token
    if remaining is not None:
        metadata["remainingItemCount"] = remaining
    items = [{"metadata": {"name": name, "namespace": "demo"}, "data": {"key": name}} for name in names]
    return {"kind": kind, "apiVersion": "v1", "metadata": metadata, "items": items}


def event(kind: str, document: Mapping[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": document}).encode() + b"\n"


@dataclass
class TunnelProxy:
    """An HTTP proxy that knows CONNECT only, or refuses everything."""

    refuse: bool = False
    heads: list[bytes] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self.refuse:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.close()
            return
        host, port = head.split()[1].decode().rsplit(":", 1)
        upstream_reader, upstream_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def running_proxy(proxy: TunnelProxy) -> AsyncIterator[str]:
    """Its URL, with a user and a password in it."""
    finished: list[asyncio.Task[None]] = []

    def connected_to(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        finished.append(asyncio.ensure_future(proxy.serve(reader, writer)))

    listener = await asyncio.start_server(connected_to, "127.0.0.1", 0)
    async with listener:
        yield f"http://jane:s3cret@127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    await asyncio.gather(*finished)
