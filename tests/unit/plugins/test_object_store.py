"""A location's store on an object-store plugin of this process."""

from collections.abc import AsyncIterator, Mapping

import pytest

from pinnace.plugins import PluginError
from pinnace.plugins.errors import PluginGone
from pinnace.plugins.object_store import PluginStore
from pinnace.plugins.python.in_process import LocalObjectStore
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreConfigError, StoreUnavailable
from tests.support.plugins.programs import RecordingLog
from tests.support.sample_plugin.stores import MemoryStore
from tests.support.stores.conformance import StoreConformance


async def nothing() -> None:
    """Nothing to release."""


def store_on(plugin: MemoryStore, **config: str) -> PluginStore:
    return PluginStore(LocalObjectStore(plugin, RecordingLog()), {"bucket": "b"} | config, nothing)


class TestConformance(StoreConformance):
    has_conditional_writes = False

    @pytest.fixture
    def store(self) -> PluginStore:
        return store_on(MemoryStore())

    @pytest.fixture
    def missing(self) -> PluginStore:
        return store_on(MemoryStore(), bucket="missing")


async def test_it_is_configured_once_at_the_first_use() -> None:
    class Counting(MemoryStore):
        configs: list[Mapping[str, str]]

        def __init__(self) -> None:
            super().__init__()
            self.configs = []

        async def init(self, config: Mapping[str, str]) -> None:
            self.configs.append(config)

    plugin = Counting()
    store = store_on(plugin, marker="m")
    assert plugin.configs == []
    await store.exists("a")
    await store.list_keys("")

    assert plugin.configs == [{"bucket": "b", "marker": "m"}]


async def test_a_refused_configuration_is_an_error() -> None:
    store = store_on(MemoryStore(), fail="yes")

    with pytest.raises(StoreConfigError, match=r"plugin example\.io/memory: config refused"):
        await store.list_prefixes("")


async def test_deleting_what_is_missing_succeeds_where_the_provider_says_otherwise() -> None:
    class Strict(MemoryStore):
        async def delete_object(self, bucket: str, key: str) -> None:
            if not await self.object_exists(bucket, key):
                raise PluginError("no such object")
            if key == "locked":
                raise PluginError("the object is locked")
            await super().delete_object(bucket, key)

    store = store_on(Strict())
    await store.put("locked", b"x")
    await store.delete("missing")

    with pytest.raises(StorageError, match="the object is locked"):
        await store.delete("locked")


async def test_an_object_that_cannot_be_read_is_not_missing() -> None:
    class Unreadable(MemoryStore):
        async def get_object(self, bucket: str, key: str) -> AsyncIterator[bytes]:
            if key == "a":
                raise PluginError("access\ndenied")
            yield b""

    store = store_on(Unreadable())
    await store.put("a", b"x")

    with pytest.raises(StorageError, match="access denied") as caught:
        async with store.get("a"):
            pass
    assert not isinstance(caught.value, ObjectNotFound)


async def test_a_plugin_that_is_gone_is_an_error_that_may_pass() -> None:
    class Gone(MemoryStore):
        async def object_exists(self, bucket: str, key: str) -> bool:
            raise AssertionError

    class Remote(LocalObjectStore):
        async def object_exists(self, bucket: str, key: str) -> bool:
            raise PluginGone(self.name, "its process ended")

    store = PluginStore(Remote(Gone(), RecordingLog()), {"bucket": "b"}, nothing)
    with pytest.raises(StoreUnavailable, match="its process ended"):
        await store.exists("a")
