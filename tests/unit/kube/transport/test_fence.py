"""A client behind a fence sends no write while it is closed, whatever it was doing when it closed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotLeading
from pinnace.kube.resources import CONFIGMAPS
from tests.support.fences import TestFence
from tests.support.tasks import settled
from tests.unit.kube.scripted import ScriptedServer, answer_json, answer_status, connected, scripted_server

COLLECTION = "/api/v1/namespaces/demo/configmaps"
ONE = f"{COLLECTION}/a"
BODY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "demo", "uid": "u-1"},
}


def ignore(_: bytes) -> None:
    """Drop the output of a command."""


WRITES: dict[str, Callable[[KubeClient], Awaitable[object]]] = {
    "create": lambda client: client.create(CONFIGMAPS, BODY, "demo"),
    "create bytes": lambda client: client.create_bytes(CONFIGMAPS, b'{"metadata": {"name": "a"}}', "demo"),
    "replace": lambda client: client.replace(CONFIGMAPS, "a", BODY, "demo"),
    "patch": lambda client: client.patch(CONFIGMAPS, "a", {"data": {}}, "demo"),
    "delete": lambda client: client.delete(CONFIGMAPS, "a", "demo"),
    "any request": lambda client: client.request("POST", COLLECTION),
    "command": lambda client: client.exec(
        "a", "demo", ["date"], container="c", stdout=ignore, stderr=ignore, timeout_seconds=5.0
    ),
}

pytestmark = pytest.mark.found("L3")


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    async with scripted_server() as server:
        server.on(f"GET {ONE}", answer_json(BODY))
        server.on(f"POST {COLLECTION}", answer_json(BODY, code=201))
        for verb in ("PUT", "PATCH", "DELETE"):
            server.on(f"{verb} {ONE}", answer_json(BODY))
        yield server


@pytest.mark.parametrize("write", WRITES)
async def test_no_write_is_sent_while_the_fence_is_closed(server: ScriptedServer, write: str) -> None:
    async with connected(server) as client:
        leading = client.fenced(TestFence("another leads"))
        with pytest.raises(NotLeading, match="was not sent: another leads"):
            await WRITES[write](leading)
        assert server.seen == []
        assert await leading.get(CONFIGMAPS, "a", "demo") == BODY


async def test_the_client_itself_has_no_fence(server: ScriptedServer) -> None:
    async with connected(server) as client:
        client.fenced(TestFence("another leads"))
        assert await client.create(CONFIGMAPS, BODY, "demo") == BODY


async def test_a_fence_that_closes_while_the_client_connects_lets_no_body_through(
    server: ScriptedServer,
) -> None:
    async with connected(server) as client:
        leading = client.fenced(TestFence(closes_after=1))  # the second look is made when it is connected
        with pytest.raises(NotLeading):
            await leading.create(CONFIGMAPS, BODY, "demo")
    assert server.calls() == []


async def test_a_write_is_not_repeated_once_the_fence_is_closed(server: ScriptedServer) -> None:
    fence = TestFence()

    async def busy(request: Any) -> Any:
        fence.closed = "another leads"
        return await answer_status(429, "TooManyRequests")(request)

    server.on(f"PATCH {ONE}", busy)
    async with connected(server) as client:
        with pytest.raises(NotLeading):
            await client.fenced(fence).patch(CONFIGMAPS, "a", {"data": {}}, "demo")
    assert server.calls() == [f"PATCH {ONE}"]


async def test_a_write_waits_while_the_lease_is_in_doubt(server: ScriptedServer) -> None:
    fence = TestFence()
    fence.proven.clear()
    async with connected(server) as client:
        write = asyncio.create_task(client.fenced(fence).create(CONFIGMAPS, BODY, "demo"))
        await client.get(CONFIGMAPS, "a", "demo")
        assert server.calls() == [f"GET {ONE}"]
        fence.proven.set()
        assert await write == BODY


async def test_the_fence_hears_the_date_of_each_answer(server: ScriptedServer) -> None:
    date = "Fri, 27 Nov 2026 02:41:25 GMT"
    server.on(f"GET {ONE}", answer_json(BODY, headers={"Date": date}))
    server.on(f"PATCH {ONE}", answer_status(409, "Conflict"))
    fence = TestFence()
    async with connected(server) as client:
        leading = client.fenced(fence)
        await leading.get(CONFIGMAPS, "a", "demo")
        with pytest.raises(KubeError):
            await leading.patch(CONFIGMAPS, "a", {"metadata": {"resourceVersion": "1"}}, "demo")
    assert fence.dates[0] == date
    assert len(fence.dates) == 2


async def test_writes_that_wait_leave_the_slots_to_the_renewal(server: ScriptedServer) -> None:
    fence = TestFence()
    fence.proven.clear()
    async with connected(server, max_in_flight=1) as client:
        leading = client.fenced(fence)
        writes = [asyncio.create_task(leading.create(CONFIGMAPS, BODY, "demo")) for _ in range(3)]
        await settled()
        async with asyncio.timeout(60):
            await client.replace(CONFIGMAPS, "a", BODY, "demo")
        fence.proven.set()
        assert await asyncio.gather(*writes) == [BODY] * 3
