"""Lists over several pages: order, read-ahead, and every way in which a page can fail."""

import asyncio
import json
from contextlib import aclosing

import pytest
from aiohttp import web

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import ConnectionFailed, DeadlineExceeded, Gone, InvalidResponse, ServerFault
from pinnace.kube.lists.listing import MAXIMUM_RESTARTS
from pinnace.kube.lists.pages import Page
from pinnace.kube.resources import CONFIGMAPS
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from tests.unit.kube.scripted import (
    ScriptedServer,
    answer_bytes,
    answer_chunks,
    answer_cut,
    answer_json,
    answer_status,
    connected,
    listing,
)

LIST = "GET /api/v1/namespaces/demo/configmaps"


def _names(pages: list[Page]) -> list[list[str]]:
    return [[item.name for item in page.items] for page in pages]


@pytest.mark.parametrize("prefetch", [0, 1, 3])
async def test_pages_come_in_order(server: ScriptedServer, prefetch: int) -> None:
    server.on(
        LIST,
        answer_json(listing(["a", "b"], token="t1", remaining=3)),
        answer_json(listing(["c", "d"], token="t2", remaining=1)),
        answer_json(listing(["e"])),
    )
    async with connected(server) as client:
        pages = [
            page
            async for page in client.list_pages(
                CONFIGMAPS,
                "demo",
                label_selector="a in (b,c)",
                field_selector="x=y",
                limit=2,
                prefetch=prefetch,
            )
        ]
    assert _names(pages) == [["a", "b"], ["c", "d"], ["e"]]
    assert [page.remaining for page in pages] == [3, 1, None]
    assert not any(page.restarted for page in pages)
    assert [seen.query.get("continue", "") for seen in server.seen] == ["", "t1", "t2"]
    for seen in server.seen:
        assert (seen.query["labelSelector"], seen.query["fieldSelector"], seen.query["limit"]) == (
            "a in (b,c)",
            "x=y",
            "2",
        )


async def test_one_page_is_one_request(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"])))
    async with connected(server) as client:
        assert _names([page async for page in client.list_pages(CONFIGMAPS, "demo")]) == [["a"]]
    assert [seen.query for seen in server.seen] == [{"limit": "500"}]


async def test_the_next_page_is_asked_for_before_this_one_is_handed_out(server: ScriptedServer) -> None:
    asked = asyncio.Event()

    async def second(request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        return web.json_response(listing(["b"]))

    server.on(LIST, answer_json(listing(["a"], token="t1")), second)
    async with connected(server) as client, aclosing(client.list_pages(CONFIGMAPS, "demo")) as pages:
        first = await anext(pages)
        await asyncio.wait_for(asked.wait(), 30)
        assert first.items[0].name == "a"
        assert (await anext(pages)).items[0].name == "b"


async def test_leaving_early_ends_the_read_ahead(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"], token="t1")), server.stall())
    async with connected(server) as client, aclosing(client.list_pages(CONFIGMAPS, "demo")) as pages:
        await anext(pages)
        await server.waiting.wait()
    # That no task is left is checked by the fixture around all tests.
    assert len(server.seen) == 2


async def test_a_cancelled_list_leaves_nothing_behind(server: ScriptedServer) -> None:
    server.on(LIST, server.stall())
    async with connected(server) as client:
        task = asyncio.create_task(client.list_all(CONFIGMAPS, "demo"))
        await server.waiting.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_410_with_an_offer_continues_in_a_newer_state(server: ScriptedServer) -> None:
    server.on(
        LIST,
        answer_json(listing(["a"], token="old")),
        answer_status(410, "Expired", "too old", metadata={"continue": "newer"}),
        answer_json(listing(["b"], version="200")),
    )
    async with connected(server) as client:
        pages = [page async for page in client.list_pages(CONFIGMAPS, "demo")]
    assert _names(pages) == [["a"], ["b"]]
    assert [page.restarted for page in pages] == [False, False]
    assert [seen.query.get("continue", "") for seen in server.seen] == ["", "old", "newer"]


async def test_410_without_an_offer_begins_anew(server: ScriptedServer) -> None:
    server.on(
        LIST,
        answer_json(listing(["a"], token="old")),
        answer_status(410, "Expired", "too old"),
        answer_json(listing(["a", "b"], token="new")),
        answer_json(listing(["c"])),
    )
    async with connected(server) as client:
        pages = [page async for page in client.list_pages(CONFIGMAPS, "demo")]
    assert _names(pages) == [["a"], ["a", "b"], ["c"]]
    assert [page.restarted for page in pages] == [False, True, False]


async def test_a_list_for_a_watch_is_never_of_two_moments(server: ScriptedServer) -> None:
    server.on(
        LIST,
        answer_json(listing(["a"], token="old", version="100")),
        answer_status(410, "Expired", "too old", metadata={"continue": "newer"}),
        answer_json(listing(["b"], token="new", version="200")),
        answer_json(listing(["c"], version="200")),
    )
    async with connected(server) as client:
        items, version = await client.list_with_version(CONFIGMAPS, "demo")
    assert [item["metadata"]["name"] for item in items] == ["b", "c"]
    assert version == "200"
    assert {(item["apiVersion"], item["kind"]) for item in items} == {("v1", "ConfigMap")}


@pytest.mark.found("K-F10")
@pytest.mark.parametrize("offer", [None, {"continue": "newer"}], ids=["no offer", "offer"])
async def test_a_list_that_always_expires_is_read_without_pages(
    server: ScriptedServer, offer: dict[str, str] | None
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if "continue" in request.query:
            return await answer_status(410, "Expired", "too old", metadata=offer)(request)
        if "limit" in request.query:
            return await answer_json(listing(["a"], token="old"))(request)
        return await answer_json(listing(["a", "b", "c"]))(request)

    server.on(LIST, answer)
    async with connected(server) as client:
        pages = [page async for page in client.list_pages(CONFIGMAPS, "demo", limit=1)]
    assert _names(pages)[-1] == ["a", "b", "c"]
    assert pages[-1].restarted
    assert sum("continue" in seen.query for seen in server.seen) == MAXIMUM_RESTARTS + 1
    assert "limit" not in server.seen[-1].query


@pytest.mark.found("K-F9")
async def test_a_page_that_says_that_more_follows_and_not_where_is_fetched_again(
    server: ScriptedServer,
) -> None:
    server.on(LIST, answer_json(listing(["a"], remaining=2)), answer_json(listing(["a", "b", "c"])))
    async with connected(server) as client:
        found = await client.list_all(CONFIGMAPS, "demo")
    assert [item["metadata"]["name"] for item in found] == ["a", "b", "c"]


@pytest.mark.found("K-F9")
async def test_a_list_that_is_never_complete_is_an_error(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"], remaining=158)))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="158 objects follow, and not where"):
            await client.list_all(CONFIGMAPS, "demo")


@pytest.mark.found("K-F9")
async def test_a_page_that_names_itself_as_the_next_one_is_an_error(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"], token="t1")))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse, match="names itself"):
            await client.list_all(CONFIGMAPS, "demo")


async def test_410_on_the_first_page_is_final(server: ScriptedServer) -> None:
    server.on(LIST, answer_status(410, "Expired", "too old"))
    async with connected(server) as client:
        with pytest.raises(Gone):
            await client.list_all(CONFIGMAPS, "demo")
    assert len(server.seen) == 1


async def test_a_page_cut_on_the_way_is_fetched_again(server: ScriptedServer) -> None:
    page = json.dumps(listing(["b"])).encode()
    server.on(
        LIST,
        answer_json(listing(["a"], token="t1")),
        answer_cut(page[:60]),
        answer_status(503),
        answer_bytes(page),
    )
    async with connected(server) as client:
        pages = [page async for page in client.list_pages(CONFIGMAPS, "demo")]
    assert _names(pages) == [["a"], ["b"]]


async def test_pages_always_cut_fail_the_list(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"], token="t1")), answer_cut(b'{"kind"'))
    async with connected(server, retry=ThrottledRetryPolicy(attempts=2)) as client:
        with pytest.raises(ConnectionFailed):
            await client.list_all(CONFIGMAPS, "demo")
    # The server says that it is ready, so that one more attempt is the last.
    assert server.calls().count(LIST) == 4
    assert server.calls().count("GET /readyz") == 2


async def test_a_failing_page_comes_after_the_good_ones(server: ScriptedServer) -> None:
    server.on(
        LIST, answer_json(listing(["a"], token="t1")), answer_status(500, "InternalError", "etcd is gone")
    )
    async with connected(server) as client, aclosing(client.list_pages(CONFIGMAPS, "demo")) as pages:
        assert _names([await anext(pages)]) == [["a"]]
        with pytest.raises(ServerFault, match="etcd is gone"):
            await anext(pages)


@pytest.mark.parametrize("cut_at", [1, 40, 90, -1])
async def test_a_cut_that_http_does_not_show_is_an_error(server: ScriptedServer, cut_at: int) -> None:
    whole = json.dumps(listing(["a", "b"], token="t1")).encode()
    server.on(LIST, answer_bytes(whole[:cut_at]))
    async with connected(server) as client:
        with pytest.raises(InvalidResponse):
            await client.list_all(CONFIGMAPS, "demo")


async def test_a_page_that_stalls_half_way_meets_the_deadline(server: ScriptedServer) -> None:
    server.on(LIST, answer_chunks(b'{"kind":"ConfigMapList",', then=server.hang))
    async with connected(server, timeout_seconds=0.4, retry=ThrottledRetryPolicy(attempts=2)) as client:
        with pytest.raises(DeadlineExceeded):
            await client.list_all(CONFIGMAPS, "demo")
    assert len(server.seen) == 2


async def test_sorted_lists_of_custom_resources_page_too(server: ScriptedServer) -> None:
    first = json.dumps(listing(["a"], token="t1"), sort_keys=True).encode()
    odd = json.dumps(listing(["b"], token="t2") | {"extra": {"deep": {}}}, sort_keys=True).encode()
    server.on(LIST, answer_bytes(first), answer_bytes(odd), answer_json(listing(["c"])))
    async with connected(server) as client:
        items = await client.list_all(CONFIGMAPS, "demo")
    assert [item["metadata"]["name"] for item in items] == ["a", "b", "c"]


async def test_all_namespaces(server: ScriptedServer) -> None:
    server.on("GET /api/v1/configmaps", answer_json(listing([])))
    async with connected(server) as client:
        assert await client.list_all(CONFIGMAPS, limit=0) == []
    assert server.seen[0].query == {}


async def test_objects_of_a_version_are_counted_by_a_page_of_one(server: ScriptedServer) -> None:
    server.on(LIST, answer_json(listing(["a"], token="t1", remaining=476)))
    async with connected(server) as client:
        assert await client.count(CONFIGMAPS, "demo", resource_version="77") == 477
    [seen] = server.seen
    assert seen.query == {"limit": "1", "resourceVersion": "77", "resourceVersionMatch": "Exact"}


@pytest.mark.parametrize(
    ("page", "count"),
    [
        (listing(["a"]), 1),
        (listing(["a", "b"]), 2),
        pytest.param(listing([], token="t1", remaining=4), 5, id="the-one-cut-out"),
        pytest.param(listing(["a"], token="t1"), None, id="not-told"),
    ],
)
async def test_a_count_is_what_the_page_says(
    server: ScriptedServer, page: JSONObject, count: int | None
) -> None:
    server.on(LIST, answer_json(page))
    async with connected(server) as client:
        assert await client.count(CONFIGMAPS, "demo", resource_version="77") == count
