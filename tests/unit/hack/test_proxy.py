"""The proxy in front of a small server in the same process, which records its requests."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

import aiohttp
import pytest
from aiohttp import web
from yarl import URL

from hack.cluster.faults import (
    CutBeforeRequest,
    CutBody,
    DropResponse,
    ShiftDate,
    Stall,
    too_many_requests,
)
from hack.cluster.processes import free_port
from hack.cluster.proxy import FaultProxy, Upstream

BODY = bytes(range(256)) * 1024  # 256 KiB: more than one chunk


class Origin:
    """The server behind: echoes uploads, serves BODY, streams without end, and records its requests."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.headers: dict[str, str] = {}
        self.more = asyncio.Event()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.raw_path}")
        self.headers = dict(request.headers)
        match request.path:
            case "/body":
                return web.Response(body=BODY, headers={"X-Answer": "42"})
            case "/gzip":
                packed = gzip.compress(BODY)
                return web.Response(body=packed, headers={"Content-Encoding": "gzip"})
            case "/stream":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"first\n")
                await self.more.wait()
                await response.write(b"second\n")
                return response
        return web.Response(body=await request.read(), status=201)


@pytest.fixture
def origin() -> Origin:
    return Origin()


@pytest.fixture
async def proxy(origin: Origin) -> AsyncIterator[FaultProxy]:
    runner = web.ServerRunner(web.Server(origin.handle, access_log=None), shutdown_timeout=0)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    async with FaultProxy(Upstream(url=f"http://127.0.0.1:{port}")) as running:
        yield running
    origin.more.set()
    await runner.cleanup()


@pytest.fixture
async def http(proxy: FaultProxy) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(proxy.url, timeout=aiohttp.ClientTimeout(total=20)) as session:
        yield session


async def test_without_a_fault_everything_is_passed_on(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    async with http.get("/body") as answer:
        assert await answer.read() == BODY
        assert answer.headers["X-Answer"] == "42"
    odd = URL(f"{proxy.url}/a%2Fb/%7Ec?x=1&y=%20", encoded=True)
    async with http.put(odd, data=BODY) as answer:
        assert (answer.status, await answer.read()) == (201, BODY)

    assert origin.seen[-1] == "PUT /a%2Fb/%7Ec?x=1&y=%20"
    assert [exchange.status for exchange in proxy.exchanges] == [200, 201]
    assert proxy.exchanges[1].head.query == {"x": "1", "y": " "}
    assert proxy.count(method="PUT") == 1


async def test_keeps_the_host_header_that_signatures_cover(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    async with http.get("/body") as answer:
        await answer.read()

    assert f"http://{origin.headers['Host']}" == proxy.url


async def test_streams_both_ways_without_waiting_for_the_end(
    http: aiohttp.ClientSession, origin: Origin
) -> None:
    async def upload() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async with http.post("/echo", data=upload()) as answer:
        assert await answer.read() == b"one two"
    async with http.get("/stream") as answer:
        assert await answer.content.readline() == b"first\n"
        origin.more.set()
        assert await answer.content.read() == b"second\n"


async def test_answers_in_the_servers_place(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    proxy.rules.add(too_many_requests(retry_after_seconds=3), times=1)

    async with http.post("/x", data=BODY) as answer:
        assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
        assert (await answer.json())["reason"] == "TooManyRequests"
    async with http.post("/x", data=b"y") as answer:
        assert answer.status == 201

    assert origin.seen == ["POST /x"]


async def test_cut_before_request_keeps_it_from_the_server(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    proxy.rules.add(CutBeforeRequest())

    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post("/x", data=b"y")

    assert origin.seen == []
    assert proxy.exchanges[0].status is None


async def test_dropped_response_comes_after_the_server_acted(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    proxy.rules.add(DropResponse())

    with pytest.raises(aiohttp.ClientConnectionError):
        await http.post("/x", data=b"y")

    assert origin.seen == ["POST /x"]


async def test_a_shifted_date_changes_nothing_else(proxy: FaultProxy, http: aiohttp.ClientSession) -> None:
    proxy.rules.add(ShiftDate(timedelta(days=3)))

    async with http.get("/body") as answer:
        moment = parsedate_to_datetime(answer.headers["Date"])
        assert await answer.read() == BODY

    assert timedelta(days=2) < moment - datetime.now(UTC) < timedelta(days=4)


@pytest.mark.parametrize("path", ["/body", "/gzip", "/stream"], ids=["sized", "compressed", "chunked"])
@pytest.mark.parametrize("after_bytes", [0, 4])
async def test_a_cut_body_has_exactly_the_given_length(
    proxy: FaultProxy, http: aiohttp.ClientSession, path: str, after_bytes: int
) -> None:
    proxy.rules.add(CutBody(after_bytes))

    async with http.get(path, auto_decompress=False) as answer:
        assert answer.status == 200
        assert len(await answer.content.readexactly(after_bytes)) == after_bytes
        with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientConnectionError)):
            await answer.content.readexactly(1)


async def test_stall_before_the_request_waits_for_release(
    proxy: FaultProxy, http: aiohttp.ClientSession, origin: Origin
) -> None:
    rule = proxy.rules.add(Stall())

    async with asyncio.TaskGroup() as group:
        pending = group.create_task(http.post("/x", data=b"y"))
        await rule.struck()
        assert origin.seen == []
        rule.release()

    assert (await pending).status == 201


async def test_stall_in_the_body_waits_for_release(proxy: FaultProxy, http: aiohttp.ClientSession) -> None:
    rule = proxy.rules.add(Stall(after_bytes=1000))

    async with http.get("/body") as answer:
        assert await answer.content.readexactly(1000) == BODY[:1000]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await answer.content.readexactly(1)
        rule.release()
        assert await answer.content.read() == BODY[1000:]


async def test_leaving_ends_stalled_requests(origin: Origin) -> None:
    async with FaultProxy(Upstream(url=f"http://127.0.0.1:{free_port()}")) as proxy:
        rule = proxy.rules.add(Stall())
        async with aiohttp.ClientSession(proxy.url) as http:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(_failure_of(http, "/x"))
                await rule.struck()
                await proxy.__aexit__(None, None, None)
            assert isinstance(task.result(), aiohttp.ClientConnectionError)


async def test_server_that_is_gone_looks_like_a_broken_connection() -> None:
    async with (
        FaultProxy(Upstream(url=f"http://127.0.0.1:{free_port()}")) as proxy,
        aiohttp.ClientSession(proxy.url) as http,
    ):
        assert isinstance(await _failure_of(http, "/x"), aiohttp.ClientConnectionError)


async def test_upgrade_is_refused(http: aiohttp.ClientSession) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError, match="501"):
        await http.ws_connect("/exec")


async def _failure_of(http: aiohttp.ClientSession, path: str) -> aiohttp.ClientError | None:
    try:
        await http.post(path, data=b"y")
    except aiohttp.ClientError as error:
        return error
    return None
