"""The client's verbs, errors, retries and deadlines against a scripted server."""

import asyncio
import json
import zlib
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from aiohttp import web

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import (
    AlreadyExists,
    APIStatusError,
    BadRequest,
    ClientDefect,
    Conflict,
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    Gone,
    Invalid,
    InvalidName,
    InvalidResponse,
    NotFound,
    ServerFault,
    TooManyRequests,
    Unauthorized,
)
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, velero
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from tests.unit.kube.scripted import (
    ONE_TRY,
    ScriptedServer,
    Sleeps,
    answer_bytes,
    answer_cut,
    answer_json,
    answer_status,
    connected,
)

COLLECTION = "/api/v1/namespaces/demo/configmaps"
ONE = f"{COLLECTION}/a"
BODY: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "demo", "uid": "u-1"},
}


async def test_get_and_subresource(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_json(BODY))
    server.on("GET /apis/apps/v1/namespaces/demo/deployments/a/scale", answer_json({"kind": "Scale"}))
    async with connected(server) as client:
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY
        assert await client.get(DEPLOYMENTS, "a", "demo", subresource="scale") == {"kind": "Scale"}


async def test_create_sends_json_as_given(server: ScriptedServer) -> None:
    server.on(f"POST {COLLECTION}", answer_json(BODY, code=201))
    async with connected(server) as client:
        assert await client.create(CONFIGMAPS, BODY, "demo") == BODY
        assert await client.create(CONFIGMAPS, b'{"raw": true}', "demo", dry_run=True) == BODY
        assert json.loads(await client.create_bytes(CONFIGMAPS, b'{"raw": 1}', "demo")) == BODY
    assert [json.loads(seen.body) for seen in server.seen] == [BODY, {"raw": True}, {"raw": 1}]
    assert [seen.query for seen in server.seen] == [{}, {"dryRun": "All"}, {}]
    assert {seen.headers["Content-Type"] for seen in server.seen} == {"application/json"}


async def test_replace_patch_and_delete(server: ScriptedServer) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        server.on(f"{method} {ONE}", answer_json(BODY))
    server.on(f"PATCH {ONE}/status", answer_json(BODY))
    async with connected(server) as client:
        await client.replace(CONFIGMAPS, "a", BODY, "demo")
        await client.patch(CONFIGMAPS, "a", {"data": None}, "demo")
        await client.patch(
            CONFIGMAPS,
            "a",
            {"status": {}},
            "demo",
            subresource="status",
            content_type="application/json-patch+json",
        )
        await client.delete(CONFIGMAPS, "a", "demo", uid="u-1", propagation="Background")
    put, patch, status_patch, delete = server.seen
    assert json.loads(put.body) == BODY
    assert (patch.headers["Content-Type"], json.loads(patch.body)) == (
        "application/merge-patch+json",
        {"data": None},
    )
    assert status_patch.headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(delete.body) == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": "u-1"},
        "propagationPolicy": "Background",
    }


async def test_version(server: ScriptedServer) -> None:
    server.on("GET /version", answer_json({"major": "1", "minor": "33", "gitVersion": "v1.33.4"}))
    async with connected(server) as client:
        version = await client.version()
    assert (version.git_version, version.major, version.minor) == ("v1.33.4", "1", "33")


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", BadRequest),
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (418, "Teapot", APIStatusError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerFault),
        (504, "Timeout", ServerFault),
    ],
)
async def test_each_status_has_its_exception(
    server: ScriptedServer, code: int, reason: str, expected: type[APIStatusError]
) -> None:
    server.on(
        f"POST {COLLECTION}", answer_status(code, reason, "in the server's words", details={"name": "a"})
    )
    async with connected(server, retry=ONE_TRY) as client:
        with pytest.raises(APIStatusError) as caught:
            await client.create(CONFIGMAPS, BODY, "demo")
    assert type(caught.value) is expected
    assert str(caught.value) == caught.value.message == "in the server's words"
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.status["details"] == {"name": "a"}


async def test_an_unknown_body_is_cut(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_bytes(b"no: " + b"x" * 5000, code=403))
    async with connected(server) as client:
        with pytest.raises(Forbidden) as caught:
            await client.get(CONFIGMAPS, "a", "demo")
    assert str(caught.value).startswith("the server answered with HTTP status 403: no: xxx")
    assert len(str(caught.value)) < 250
    assert caught.value.status == {}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_429_is_waited_out_as_long_as_asked(server: ScriptedServer, method: str) -> None:
    path = ONE if method == "GET" else COLLECTION
    busy = answer_status(429, "TooManyRequests", "busy", headers={"Retry-After": "7"})
    server.on(f"{method} {path}", busy, busy, answer_json(BODY))
    sleeps = Sleeps()
    async with connected(server, clock=sleeps) as client:
        assert json.loads(await client.request(method, path)) == BODY
    assert sleeps.delays == [7.0, 7.0]


async def test_jitter_comes_on_top_of_retry_after(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_status(429, headers={"Retry-After": "7"}), answer_json(BODY))
    sleeps = Sleeps()
    async with connected(server, clock=sleeps, jitter=lambda: 0.5) as client:
        await client.get(CONFIGMAPS, "a", "demo")
    assert 7.0 < sleeps.delays[0] < 8.0


async def test_a_server_that_stays_busy_is_given_up_on(server: ScriptedServer) -> None:
    server.on(f"POST {COLLECTION}", answer_status(429, "TooManyRequests", "busy"))
    sleeps = Sleeps()
    async with connected(server, clock=sleeps, retry=ThrottledRetryPolicy(throttled_attempts=4)) as client:
        with pytest.raises(TooManyRequests, match="busy"):
            await client.create(CONFIGMAPS, BODY, "demo")
    assert len(server.seen) == 4
    assert sleeps.delays == [0.1, 0.2, 0.4]


async def test_an_absurd_retry_after_is_not_obeyed(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_status(429, headers={"Retry-After": "86400"}))
    async with connected(server) as client:
        with pytest.raises(TooManyRequests) as caught:
            await client.get(CONFIGMAPS, "a", "demo")
    assert caught.value.retry_after_seconds == 86400.0
    assert len(server.seen) == 1


async def test_retry_after_in_the_status_counts_too(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_status(429, details={"retryAfterSeconds": 3}), answer_json(BODY))
    sleeps = Sleeps()
    async with connected(server, clock=sleeps) as client:
        await client.get(CONFIGMAPS, "a", "demo")
    assert sleeps.delays == [3.0]


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_reads_survive_a_passing_fault(server: ScriptedServer, code: int) -> None:
    server.on(f"GET {ONE}", answer_status(code), answer_bytes(b"bad gateway", code=code), answer_json(BODY))
    async with connected(server) as client:
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY
    assert len(server.seen) == 3


@pytest.mark.parametrize("code", [500, 502, 503, 504])
async def test_writes_that_could_act_twice_are_not_repeated_after_a_fault(
    server: ScriptedServer, code: int
) -> None:
    nameless = {**BODY, "metadata": {"generateName": "a-"}}
    versioned = {"metadata": {"resourceVersion": "7"}, "data": {}}
    for call in (f"POST {COLLECTION}", f"PUT {ONE}", f"PATCH {ONE}"):
        server.on(call, answer_status(code), answer_json(BODY))
    async with connected(server) as client:
        for write in (
            client.create(CONFIGMAPS, nameless, "demo"),
            client.replace(CONFIGMAPS, "a", BODY, "demo"),
            client.patch(CONFIGMAPS, "a", versioned, "demo"),
            client.request("POST", COLLECTION, body=b"{}"),
        ):
            server.scripts[f"POST {COLLECTION}"] = [answer_status(code), answer_json(BODY)]
            with pytest.raises(ServerFault):
                await write
    assert len(server.seen) == 4


async def test_501_is_final_for_reads_too(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_status(501))
    async with connected(server) as client:
        with pytest.raises(ServerFault):
            await client.get(CONFIGMAPS, "a", "demo")
    assert len(server.seen) == 1


async def test_a_read_that_is_cut_is_sent_again(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_cut(b'{"kind":'), answer_json(BODY))
    async with connected(server) as client:
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY
    assert len(server.seen) == 2


async def test_reads_that_are_always_cut_fail(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_cut(b"{}"))
    async with connected(server, retry=ThrottledRetryPolicy(attempts=3)) as client:
        with pytest.raises(ConnectionFailed, match="cut in the middle of an answer"):
            await client.get(CONFIGMAPS, "a", "demo")
    assert len(server.seen) == 3


async def test_a_write_that_could_act_twice_is_not_sent_again_when_cut(server: ScriptedServer) -> None:
    server.on(f"PUT {ONE}", answer_cut(b"{}"), answer_json(BODY))
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed):
            await client.replace(CONFIGMAPS, "a", BODY, "demo")
    assert len(server.seen) == 1


async def test_a_silent_server_meets_the_deadline(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", server.stall())
    async with connected(server, timeout_seconds=0.4, retry=ThrottledRetryPolicy(attempts=2)) as client:
        with pytest.raises(DeadlineExceeded, match="did not answer in time"):
            await client.get(CONFIGMAPS, "a", "demo")
    assert len(server.seen) == 2


async def test_no_connection_is_tried_again_for_writes_too(server: ScriptedServer) -> None:
    sleeps = Sleeps()
    async with KubeClient(
        ClusterConfig(server="http://127.0.0.1:1"), clock=sleeps, jitter=lambda: 0.0
    ) as client:
        with pytest.raises(ConnectionFailed, match=r"cannot reach http://127\.0\.0\.1:1"):
            await client.create(CONFIGMAPS, BODY, "demo")
    assert sleeps.delays == [0.1, 0.2, 0.4, 0.8]


async def test_redirects_are_not_followed(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_bytes(b"", code=302, headers={"Location": f"{server.url}/elsewhere"}))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match=r"HTTP status 302.* login page"):
            await client.get(CONFIGMAPS, "a", "demo")
    assert set(server.calls()) == {f"GET {ONE}"}


@pytest.mark.parametrize("body", [b"", b'{"kind": "Conf', b"[]", b"null"])
async def test_what_is_no_object_is_an_error(server: ScriptedServer, body: bytes) -> None:
    server.on(f"GET {ONE}", answer_bytes(body))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse):
            await client.get(CONFIGMAPS, "a", "demo")


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "%2e%2e", "a%2Fb"])
async def test_names_that_would_lead_elsewhere_are_refused(server: ScriptedServer, name: str) -> None:
    async with connected(server) as client:
        with pytest.raises(InvalidName):
            await client.delete(CONFIGMAPS, name, "demo")
        with pytest.raises(InvalidName):
            await client.delete(CONFIGMAPS, "a", "..")
    assert server.seen == []


async def test_names_are_quoted(server: ScriptedServer) -> None:
    odd = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a?b#c d:e"}}
    server.on("GET /api/v1/namespaces/a?b#c d:e", answer_json(odd))
    async with connected(server) as client:
        assert await client.get(NAMESPACES, "a?b#c d:e") == odd
    assert NAMESPACES.path(name="system:a?b") == "/api/v1/namespaces/system%3Aa%3Fb"


async def test_cancellation_frees_the_slot(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", server.stall(), answer_json(BODY))
    async with connected(server, max_in_flight=1) as client:
        task = asyncio.create_task(client.get(CONFIGMAPS, "a", "demo"))
        await server.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY


async def test_gzip_is_off_unless_asked_for(server: ScriptedServer) -> None:
    big = {**BODY, "data": {"k": "v" * 300_000}}

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body = json.dumps(big).encode()
        if request.headers["Accept-Encoding"] != "gzip":
            return web.Response(body=body, content_type="application/json")
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(body) + packer.flush()
        return web.Response(
            body=packed, headers={"Content-Encoding": "gzip"}, content_type="application/json"
        )

    server.on(f"GET {ONE}", answer)
    async with connected(server) as plain, connected(server, gzip=True) as packed:
        assert await plain.get(CONFIGMAPS, "a", "demo") == big
        assert await packed.get(CONFIGMAPS, "a", "demo") == big
    assert [seen.headers["Accept-Encoding"] for seen in server.seen] == ["identity", "gzip"]


async def test_a_body_that_does_not_unpack_is_a_cut(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_bytes(b"no gzip", headers={"Content-Encoding": "gzip"}))
    async with connected(server, retry=ONE_TRY) as client:
        with pytest.raises(ConnectionFailed):
            await client.get(CONFIGMAPS, "a", "demo")


async def test_connections_are_used_again(server: ScriptedServer) -> None:
    server.on(f"GET {ONE}", answer_json(BODY))
    server.on(f"POST {COLLECTION}", answer_status(409, "AlreadyExists"))
    async with connected(server) as client:
        for _ in range(3):
            await client.get(CONFIGMAPS, "a", "demo")
            with pytest.raises(AlreadyExists):
                await client.create(CONFIGMAPS, BODY, "demo")
    assert len({seen.peer for seen in server.seen}) == 1


async def test_no_more_requests_than_allowed_are_under_way(server: ScriptedServer) -> None:
    at_once = highest = 0
    full = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal at_once, highest
        at_once += 1
        highest = max(highest, at_once)
        if at_once == 3:
            full.set()
        await full.wait()
        at_once -= 1
        return web.json_response(BODY)

    server.on(f"GET {ONE}", answer)
    async with connected(server, max_in_flight=3) as client, asyncio.TaskGroup() as tasks:
        for _ in range(12):
            tasks.create_task(client.get(CONFIGMAPS, "a", "demo"))
    assert len(server.seen) == 12
    assert highest == 3


async def test_the_servers_path_and_our_name_are_kept(server: ScriptedServer) -> None:
    server.on("GET /k8s/clusters/c-1/api/v1/namespaces/demo/configmaps/a", answer_json(BODY))
    config = ClusterConfig(server=f"{server.url}/k8s/clusters/c-1")
    async with connected(server, config=config, user_agent="velero-server/v1 (linux/amd64) abc") as client:
        assert await client.get(CONFIGMAPS, "a", "demo") == BODY
    assert server.seen[0].headers["User-Agent"] == "velero-server/v1 (linux/amd64) abc"


async def test_a_client_must_be_open() -> None:
    with pytest.raises(RuntimeError, match="not open"):
        await KubeClient(ClusterConfig(server="http://127.0.0.1:1")).version()


def test_velero_kinds() -> None:
    backups = velero("backups")
    assert (backups.api_version, backups.kind, backups.group_resource) == (
        "velero.io/v1",
        "Backup",
        "backups.velero.io",
    )
    assert velero("deletebackuprequests").path("velero", "x") == (
        "/apis/velero.io/v1/namespaces/velero/deletebackuprequests/x"
    )


@pytest.mark.found("K-F4", "L3")
async def test_a_defect_of_the_client_is_not_taken_for_odd_content(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> bytes:
        raise ValueError("<Future cancelled> is not in deque")

    async with connected(server) as client:
        monkeypatch.setattr(client._transport, "fetch", broken)
        with pytest.raises(ClientDefect, match=r"POST .*configmaps failed by a defect"):
            await client.create(CONFIGMAPS, BODY, "demo")


@pytest.mark.found("L5")
async def test_the_client_knows_how_far_the_servers_clock_is_from_ours(server: ScriptedServer) -> None:
    behind = format_datetime(datetime.now(UTC) - timedelta(days=30), usegmt=True)
    server.on(f"GET {ONE}", answer_json(BODY, headers={"Date": behind}), answer_json(BODY))
    async with connected(server) as client:
        seen = [client.clock_difference]
        for _ in range(2):
            await client.get(CONFIGMAPS, "a", "demo")
            seen.append(client.clock_difference)
    first, second, third = seen
    assert first is None
    assert second is not None
    assert third is not None
    assert abs(second + timedelta(days=30)) < timedelta(minutes=1)
    assert abs(third) < timedelta(minutes=1)
