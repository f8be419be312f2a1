"""Lists ahead: in order, bounded, and stopped with their owner."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from pinnace.backup.collect import ListCall, ListsAhead
from pinnace.kube.errors import ConnectionFailed
from pinnace.kube.pages import Page
from pinnace.kube.resources import CONFIGMAPS, PODS, SECRETS, APIResource
from tests.unit.backup.fakes import FakeCluster


def calls(*resources: APIResource) -> list[ListCall]:
    return [ListCall(resource=resource, namespace="") for resource in resources]


async def names_of(lists: ListsAhead) -> list[list[str]]:
    """The items' names, a list for each listing."""
    found = []
    while (listing := await lists.next()) is not None:
        names = []
        while (page := await listing.next_page()) is not None:
            names += [item.name for item in page.items]
        found.append(names)
    return found


async def test_lists_come_in_order_with_all_their_pages() -> None:
    cluster = FakeCluster(page_size=1).add(PODS, "ns/a", "ns/b").add(SECRETS, "ns/c")
    async with ListsAhead(cluster, calls(PODS, CONFIGMAPS, SECRETS), ahead=2) as lists:
        assert await names_of(lists) == [["a", "b"], [], ["c"]]


@pytest.mark.parametrize("ahead", [0, 1, 3])
async def test_only_a_few_lists_are_begun(ahead: int) -> None:
    cluster = FakeCluster()
    async with ListsAhead(cluster, calls(*[PODS] * 8), ahead=ahead) as lists:
        listing = await lists.next()
        assert listing is not None
        await listing.next_page()
        await asyncio.sleep(0)
        assert len(cluster.calls) == 1 + ahead


async def test_what_lists_ahead_hold_is_known() -> None:
    cluster = FakeCluster(page_size=2).add(SECRETS, "ns/a", "ns/b", "ns/c")
    async with ListsAhead(cluster, calls(PODS, SECRETS)) as lists:
        listing = await lists.next()
        assert listing is not None
        await listing.next_page()
        await asyncio.sleep(0)
        assert lists.known_items == 3


async def test_failure_of_a_list_ahead_comes_out_in_its_turn() -> None:
    cluster = FakeCluster().add(PODS, "ns/a")
    cluster.list_errors["secrets"] = ConnectionFailed("cut")
    async with ListsAhead(cluster, calls(PODS, SECRETS)) as lists:
        first = await lists.next()
        assert first is not None
        assert await first.next_page() is not None
        second = await lists.next()
        assert second is not None
        assert lists.known_items == 0
        with pytest.raises(ConnectionFailed):
            await second.next_page()


async def test_leaving_early_closes_every_list() -> None:
    closed: list[str] = []

    class Endless:
        async def list_pages(
            self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
        ) -> AsyncIterator[Page]:
            try:
                yield Page(items=[], resource_version="1")
                await asyncio.Event().wait()
            finally:
                closed.append(resource.name)

        async def get(
            self, resource: APIResource, name: str, namespace: str | None = None
        ) -> dict[str, object]:
            raise NotImplementedError

    async with ListsAhead(Endless(), calls(PODS, SECRETS, CONFIGMAPS), ahead=2) as lists:
        listing = await lists.next()
        assert listing is not None
        await listing.next_page()
        await asyncio.sleep(0)
    assert sorted(closed) == ["configmaps", "pods", "secrets"]
