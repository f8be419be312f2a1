"""A store behind a fence: an open one changes nothing, a closed one lets no write begin."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pinnace.storage.errors import NotLeading
from pinnace.storage.fenced import FencedStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.interface import ObjectStore, RangedStore
from tests.support.fences import TestFence
from tests.support.stores.conformance import RangeConformance, StoreConformance, blocks, content

pytestmark = pytest.mark.found("L3")


class TestConformance(RangeConformance, StoreConformance):
    more_than_a_page = 103

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return FencedStore(FilesystemStore(tmp_path / "store"), TestFence())

    @pytest.fixture
    def missing(self, tmp_path: Path) -> ObjectStore:
        root = tmp_path / "store"
        root.mkdir()
        store = FilesystemStore(root, create=False)
        root.rmdir()
        return FencedStore(store, TestFence())


async def test_a_closed_fence_lets_no_write_begin(tmp_path: Path) -> None:
    inner = FilesystemStore(tmp_path)
    await inner.put("a", b"before")
    fence = TestFence("another leads")
    store = FencedStore(inner, fence)
    with pytest.raises(NotLeading, match="object 'a' was not stored: another leads"):
        await store.put("a", b"after")
    with pytest.raises(NotLeading):
        await store.put("a", blocks(1))
    with pytest.raises(NotLeading):
        await store.put_new("b", b"after")
    with pytest.raises(NotLeading, match="object 'a' was not deleted"):
        await store.delete("a")
    assert await content(store, "a") == b"before"
    assert await store.list_keys("") == ["a"]


async def test_a_fence_that_closes_in_the_middle_of_a_body_stores_nothing(tmp_path: Path) -> None:
    store = FencedStore(FilesystemStore(tmp_path), TestFence(closes_after=3))
    with pytest.raises(NotLeading):
        await store.put("a", blocks(5))
    assert await store.list_keys("") == []


async def test_a_fence_that_closes_at_the_end_of_a_body_stores_nothing(tmp_path: Path) -> None:
    fence = TestFence()

    async def body() -> AsyncIterator[bytes]:
        yield b"all of it"
        fence.closed = "another leads"

    store = FencedStore(FilesystemStore(tmp_path), fence)
    with pytest.raises(NotLeading):
        await store.put("a", body())
    assert await store.list_keys("") == []


def test_a_store_without_ranges_gets_none(tmp_path: Path) -> None:
    class Whole:
        pass

    assert not isinstance(FencedStore(Whole(), TestFence()), RangedStore)  # type: ignore[arg-type]
    assert isinstance(FencedStore(FilesystemStore(tmp_path), TestFence()), RangedStore)
