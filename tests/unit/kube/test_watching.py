"""Watches: events, bookmarks, huge lines, and each way in which a stream can end."""

import asyncio
from contextlib import aclosing

import pytest
from aiohttp import web

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import (
    ConnectionFailed,
    DeadlineExceeded,
    Forbidden,
    Gone,
    InvalidResponse,
    ServerFault,
)
from pinnace.kube.resources import CONFIGMAPS
from pinnace.kube.watching import GRACE_SECONDS, WATCH_SECONDS, WatchEvent
from pinnace.runtime import informer
from tests.unit.kube.scripted import (
    ScriptedServer,
    answer_chunks,
    answer_status,
    connected,
    drop,
    event,
    status,
)

WATCH = "GET /api/v1/namespaces/demo/configmaps"
OBJECT = {
    "kind": "ConfigMap",
    "apiVersion": "v1",
    "metadata": {"name": "a", "namespace": "demo", "resourceVersion": "5"},
}


async def _collect(
    client: KubeClient, *, timeout_seconds: int = 60, grace_seconds: float = 60.0
) -> list[WatchEvent]:
    return [
        item
        async for item in client.watch(
            CONFIGMAPS,
            "demo",
            resource_version="4",
            label_selector="a=b",
            timeout_seconds=timeout_seconds,
            grace_seconds=grace_seconds,
        )
    ]


async def test_events_are_yielded_until_the_server_ends_the_watch(server: ScriptedServer) -> None:
    bookmark = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}
    added, rest = event("ADDED", OBJECT), event("DELETED", OBJECT) + event("BOOKMARK", bookmark)
    server.on(WATCH, answer_chunks(added[:10], added[10:] + rest[:7], rest[7:]))
    async with connected(server) as client:
        events = await _collect(client)
    assert events == [
        WatchEvent("ADDED", OBJECT),
        WatchEvent("DELETED", OBJECT),
        WatchEvent("BOOKMARK", bookmark),
    ]
    assert server.seen[0].query == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "resourceVersion": "4",
        "timeoutSeconds": "60",
        "labelSelector": "a=b",
    }


async def test_lines_may_be_huge(server: ScriptedServer) -> None:
    huge = {**OBJECT, "data": {"k": "x" * 3_000_000}}
    server.on(WATCH, answer_chunks(event("ADDED", huge) + event("ADDED", OBJECT)))
    async with connected(server) as client:
        events = await _collect(client)
    assert [len(item.object.get("data", {}).get("k", "")) for item in events] == [3_000_000, 0]


async def test_an_error_event_becomes_its_exception(server: ScriptedServer) -> None:
    gone = status(410, "Expired", "too old resource version")
    server.on(WATCH, answer_chunks(event("ADDED", OBJECT) + event("ERROR", gone)))
    async with (
        connected(server) as client,
        aclosing(client.watch(CONFIGMAPS, "demo", resource_version="4")) as events,
    ):
        assert (await anext(events)).type == "ADDED"
        with pytest.raises(Gone, match="too old resource version"):
            await anext(events)


async def test_an_error_event_of_another_kind(server: ScriptedServer) -> None:
    server.on(WATCH, answer_chunks(event("ERROR", {"kind": "Status", "message": "odd"})))
    async with connected(server) as client:
        with pytest.raises(ServerFault, match="odd"):
            await _collect(client)


@pytest.mark.parametrize(("code", "expected"), [(410, Gone), (403, Forbidden), (503, ServerFault)])
async def test_an_error_status_is_raised_at_once(
    server: ScriptedServer, code: int, expected: type[Exception]
) -> None:
    server.on(WATCH, answer_status(code))
    async with connected(server) as client:
        with pytest.raises(expected):
            await _collect(client)
    assert len(server.seen) == 1


@pytest.mark.parametrize("sent", [b"", event("ADDED", OBJECT), event("ADDED", OBJECT)[:20]])
async def test_a_watch_that_the_server_does_not_end_in_time_is_stalled(
    server: ScriptedServer, sent: bytes
) -> None:
    server.on(WATCH, answer_chunks(sent, then=server.hang) if sent else server.stall())
    async with connected(server) as client:
        with pytest.raises(DeadlineExceeded):
            await _collect(client, timeout_seconds=0, grace_seconds=0.05)


async def test_a_dropped_stream_is_a_failure(server: ScriptedServer) -> None:
    server.on(WATCH, answer_chunks(event("ADDED", OBJECT), then=drop))
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed):
            await _collect(client)


async def test_a_stream_that_ends_within_an_event_is_a_failure(server: ScriptedServer) -> None:
    server.on(WATCH, answer_chunks(event("ADDED", OBJECT) + b'{"type":"ADD'))
    async with connected(server) as client:
        with pytest.raises(ConnectionFailed, match="in the middle of an event"):
            await _collect(client)


def _changed(**change: object) -> bytes:
    return event("MODIFIED", {**OBJECT, **change})


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"<html>\n",
        b"[]\n",
        b"{}\n",
        b'{"type":"ADDED"}\n',
        b'{"object":{}}\n',
        event("RENAMED", OBJECT),
        _changed(kind="Secret"),
        _changed(kind=None),
        _changed(metadata=["a"]),
        _changed(metadata={"name": "a", "namespace": "demo"}),
        _changed(metadata={"name": "a", "namespace": "other", "resourceVersion": "5"}),
        _changed(metadata={"name": 1, "namespace": "demo", "resourceVersion": "5"}),
        event("BOOKMARK", {"kind": "ConfigMap"}),
    ],
)
async def test_what_is_no_event_of_the_resource_is_an_error(server: ScriptedServer, line: bytes) -> None:
    server.on(WATCH, answer_chunks(line))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="A proxy or a login page"):
            await _collect(client)


async def test_an_event_beyond_the_maximum_is_an_error(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.kube.watching.MAXIMUM_LINE_BYTES", 10)
    server.on(WATCH, answer_chunks(b"x" * 11))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="an event of the watch is larger than 10 bytes"):
            await _collect(client)


async def test_a_page_instead_of_events_is_an_error(server: ScriptedServer) -> None:
    async def html(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text="<html>Sign in</html>", content_type="text/html")

    server.on(WATCH, html)
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="content type is text/html"):
            await _collect(client)


async def test_an_object_nested_too_deeply_does_not_end_the_watch(server: ScriptedServer) -> None:
    deep = event("ADDED", OBJECT).replace(
        b'"metadata"', b'"spec": ' + b"[" * 2000 + b"]" * 2000 + b', "metadata"'
    )
    server.on(WATCH, answer_chunks(deep, event("DELETED", OBJECT)))
    async with connected(server) as client:
        first, second = await _collect(client)
    assert first.object["metadata"] == OBJECT["metadata"]
    assert second == WatchEvent("DELETED", OBJECT)


def test_a_stalled_watch_is_found_within_a_minute() -> None:
    longest = WATCH_SECONDS * (1 + informer._WATCH_JITTER) + GRACE_SECONDS
    assert longest < 60


async def test_closing_ends_the_connection(server: ScriptedServer) -> None:
    ended = asyncio.Event()

    async def until_closed(request: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server.on(WATCH, answer_chunks(event("ADDED", OBJECT), then=until_closed))
    async with connected(server) as client:
        async with aclosing(client.watch(CONFIGMAPS, "demo", resource_version="4")) as events:
            assert (await anext(events)).type == "ADDED"
        await asyncio.wait_for(ended.wait(), 30)


async def test_watches_take_no_slots(server: ScriptedServer) -> None:
    server.on(WATCH, answer_chunks(event("ADDED", OBJECT), then=server.hang))
    server.on("GET /healthz", answer_chunks(b"ok"))
    async with (
        connected(server, max_in_flight=1) as client,
        aclosing(client.watch(CONFIGMAPS, "demo", resource_version="4")) as one,
        aclosing(client.watch(CONFIGMAPS, "demo", resource_version="4")) as two,
    ):
        await anext(one)
        await anext(two)
        assert await client.request("GET", "/healthz", accept="text/plain") == b"ok"
