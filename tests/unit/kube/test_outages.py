"""An API server that goes away and comes back: what is waited out, for how long, and what is not."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden, KubeError, ServerFault, Unauthorized
from pinnace.kube.resources import CONFIGMAPS
from pinnace.kube.transport.retrying import OUTAGE_PAUSE_SECONDS, ThrottledRetryPolicy
from tests.unit.kube.scripted import (
    Answer,
    ScriptedServer,
    Sleeps,
    answer_bytes,
    answer_json,
    answer_status,
    connected,
    drop,
)

COLLECTION = "/api/v1/namespaces/demo/configmaps"
ONE = f"{COLLECTION}/a"
BODY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "demo", "uid": "u-1"},
}


class Outage:
    """A server that is away until so many seconds of the client's clock have gone by, for every request."""

    def __init__(self, server: ScriptedServer, sleeps: Sleeps, answer: Answer) -> None:
        self.until = float("inf")
        self._server = server
        self._sleeps = sleeps
        self._answer = answer

    def guard(self, then: Answer) -> Answer:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await (self._answer if self._sleeps.monotonic() < self.until else then)(request)

        return answer


async def cut(request: web.BaseRequest) -> web.StreamResponse:
    await drop(request)
    return web.Response()


async def html(request: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="<html>", content_type="text/html")


AWAY: dict[str, Answer] = {
    "cut": cut,
    "503": answer_bytes(b"no healthy upstream", code=503),
    "502": answer_bytes(b"bad gateway", code=502),
    "login-page": html,
}
READY = answer_bytes(b"ok")


@pytest.fixture
def sleeps() -> Sleeps:
    return Sleeps()


def with_outage(server: ScriptedServer, sleeps: Sleeps, away: Answer, seconds: float) -> Outage:
    """The server answers one request, then is away for so long."""
    outage = Outage(server, sleeps, away)
    server.on("GET /version", answer_json({"gitVersion": "v1.33.4"}))
    server.on("GET /readyz", outage.guard(READY))
    for call, code in ((f"GET {ONE}", 200), (f"PATCH {ONE}", 200), (f"POST {COLLECTION}", 201)):
        server.on(call, outage.guard(answer_json(BODY, code=code)))
    server.on(f"DELETE {ONE}", outage.guard(answer_json(BODY)))
    outage.until = seconds
    return outage


CALLS: dict[str, Callable[[KubeClient], Any]] = {
    "get": lambda client: client.get(CONFIGMAPS, "a", "demo"),
    "create": lambda client: client.create(CONFIGMAPS, BODY, "demo"),
    "patch": lambda client: client.patch(CONFIGMAPS, "a", {"data": {}}, "demo"),
    "delete": lambda client: client.delete(CONFIGMAPS, "a", "demo"),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("away", AWAY)
@pytest.mark.parametrize("seconds", [3, 45])
async def test_an_outage_is_waited_out(
    server: ScriptedServer, sleeps: Sleeps, call: str, away: str, seconds: float
) -> None:
    with_outage(server, sleeps, AWAY[away], seconds)
    async with connected(server, clock=sleeps) as client:
        await client.version()
        assert await CALLS[call](client) == BODY
    assert seconds <= sleeps.monotonic() < seconds + 2 * OUTAGE_PAUSE_SECONDS


@pytest.mark.parametrize("away", AWAY)
async def test_an_outage_that_lasts_is_given_up_on_after_the_api_timeout(
    server: ScriptedServer, sleeps: Sleeps, away: str
) -> None:
    with_outage(server, sleeps, AWAY[away], float("inf"))
    retry = ThrottledRetryPolicy(patience_seconds=20)
    async with connected(server, clock=sleeps, retry=retry) as client:
        await client.version()
        with pytest.raises(KubeError):
            await client.get(CONFIGMAPS, "a", "demo")
    assert 20 <= sleeps.monotonic() < 20 + OUTAGE_PAUSE_SECONDS


async def test_a_server_that_is_not_there_at_all_is_given_up_on_at_once(
    server: ScriptedServer, sleeps: Sleeps
) -> None:
    with_outage(server, sleeps, cut, float("inf"))
    async with connected(server, clock=sleeps) as client:
        with pytest.raises(ConnectionFailed):
            await client.get(CONFIGMAPS, "a", "demo")
    assert sleeps.monotonic() < 3
    assert "GET /readyz" not in server.calls()


async def test_a_fault_of_one_path_of_a_server_that_is_well_is_final(
    server: ScriptedServer, sleeps: Sleeps
) -> None:
    """As of an API group whose own server is down, for which nothing is to be waited."""
    server.on("GET /version", answer_json({"gitVersion": "v1.33.4"}))
    server.on("GET /readyz", READY)
    server.on(f"GET {ONE}", answer_bytes(b"service unavailable", code=503))
    async with connected(server, clock=sleeps) as client:
        await client.version()
        with pytest.raises(ServerFault, match="503"):
            await client.get(CONFIGMAPS, "a", "demo")
    assert server.calls().count(f"GET {ONE}") == 6
    assert sleeps.monotonic() < 3


@pytest.mark.parametrize(
    ("code", "kind"), [(401, Unauthorized), (403, Forbidden)], ids=["unauthorized", "forbidden"]
)
async def test_a_refusal_of_a_server_that_just_came_up_is_asked_again(
    server: ScriptedServer, sleeps: Sleeps, code: int, kind: type[KubeError]
) -> None:
    """Its caches of roles and service accounts fill after it has begun to answer."""
    refused = answer_status(code, kind.__name__, "RBAC: clusterrole not found")
    server.on("GET /readyz", answer_bytes(b"[-]poststarthook failed", code=500), READY)
    server.on(f"GET {ONE}", answer_json(BODY), AWAY["503"], refused, refused, answer_json(BODY), refused)
    async with connected(server, clock=sleeps) as client:
        await client.get(CONFIGMAPS, "a", "demo")
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY
        with pytest.raises(kind):
            await client.get(CONFIGMAPS, "a", "demo")


async def test_a_refusal_is_final_when_all_is_well(server: ScriptedServer, sleeps: Sleeps) -> None:
    server.on(f"GET {ONE}", answer_json(BODY), answer_status(403, "Forbidden", "no"))
    async with connected(server, clock=sleeps) as client:
        await client.get(CONFIGMAPS, "a", "demo")
        with pytest.raises(Forbidden):
            await client.get(CONFIGMAPS, "a", "demo")
    assert sleeps.delays == []
    assert len(server.seen) == 2


async def test_a_created_object_is_found_when_the_server_is_back(
    server: ScriptedServer, sleeps: Sleeps
) -> None:
    """The first attempt acted; its answer was lost in the outage."""
    stored: list[dict[str, Any]] = []

    async def create(request: web.BaseRequest) -> web.StreamResponse:
        if stored:
            return await answer_status(409, "AlreadyExists", "it exists")(request)
        stored.append(BODY)
        return await cut(request)

    with_outage(server, sleeps, cut, 0)
    server.on(f"POST {COLLECTION}", create)
    async with connected(server, clock=sleeps) as client:
        await client.version()
        assert await client.create(CONFIGMAPS, BODY, "demo") == BODY
    assert len(stored) == 1
    assert [json.loads(seen.body) for seen in server.seen if seen.method == "POST"] == [BODY, BODY]
