"""Watches: events, bookmarks, huge lines, and each way in which a stream can end."""

import asyncio
from contextlib import aclosing

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from pinnace.kube.watching import LineSplitter, WatchEvent
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
OBJECT = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a", "resourceVersion": "5"}}


async def _collect(client: KubeClient, *, inactivity_seconds: float = 60.0) -> list[WatchEvent]:
    return [
        item
        async for item in client.watch(
            CONFIGMAPS,
            "demo",
            resource_version="4",
            label_selector="a=b",
            timeout_seconds=60,
            inactivity_seconds=inactivity_seconds,
        )
    ]


async def test_events_come_and_the_servers_end_is_ours(server: ScriptedServer) -> None:
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


async def test_silence_is_a_failure(server: ScriptedServer) -> None:
    server.on(WATCH, answer_chunks(event("ADDED", OBJECT), then=server.hang))
    async with connected(server) as client:
        with pytest.raises(DeadlineExceeded):
            await _collect(client, inactivity_seconds=0.05)


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


@pytest.mark.parametrize("line", [b"nonsense\n", b"[]\n", b"{}\n", b'{"type":"ADDED"}\n', b'{"object":{}}\n'])
async def test_what_is_no_event_is_an_error(server: ScriptedServer, line: bytes) -> None:
    server.on(WATCH, answer_chunks(line))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse):
            await _collect(client)


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
        await asyncio.wait_for(ended.wait(), 5)


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


def test_lines_beyond_the_maximum_are_refused() -> None:
    splitter = LineSplitter(maximum_bytes=10)
    assert list(splitter.feed(b"12345")) == []
    with pytest.raises(InvalidResponse, match="larger than 10 bytes"):
        list(splitter.feed(b"678901"))


@given(st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line)), st.data())
def test_lines_do_not_depend_on_where_chunks_end(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    splitter, found, start = LineSplitter(), list[bytes](), 0
    while start < len(stream):
        size = data.draw(st.integers(1, 30))
        found += splitter.feed(stream[start : start + size])
        start += size
    assert found == lines
    assert not splitter.has_rest
