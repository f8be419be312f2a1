"""The conformance suite on stores of plugins in other processes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pinnace.api.codec import decode
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.client import KubeClient
from pinnace.plugins.installed import InstalledPlugins
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.interface import ObjectStore
from tests.support.stores.conformance import StoreConformance


@pytest.fixture(params=["own program", "compiled program"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


class TestPluginStore(StoreConformance):
    has_conditional_writes = False

    @pytest.fixture
    async def store(self, installed: InstalledPlugins) -> AsyncIterator[ObjectStore]:
        opened = installed.open_store("example.io/memory", {"bucket": "b", "prefix": ""})
        assert opened is not None
        yield opened
        await opened.close()

    @pytest.fixture
    async def missing(self, installed: InstalledPlugins) -> AsyncIterator[ObjectStore]:
        opened = installed.open_store("example.io/memory", {"bucket": "missing", "prefix": ""})
        assert opened is not None
        yield opened
        await opened.close()


def test_other_providers_are_not_opened(installed: InstalledPlugins) -> None:
    assert installed.open_store("aws", {"bucket": "b"}) is None
    assert installed.open_store("example.io/snapshots", {"bucket": "b"}) is None


def location(provider: str, **config: str) -> BackupStorageLocation:
    return decode(
        BackupStorageLocation,
        {
            "metadata": {"name": "default", "namespace": "velero"},
            "spec": {"provider": provider, "config": config, "objectStorage": {"bucket": "b", "prefix": "p"}},
        },
    )


async def test_a_location_of_a_plugins_provider_holds_backups(
    client: KubeClient, installed: InstalledPlugins, tmp_path: Path
) -> None:
    stores = LocationStores(client, "velero", tmp_path / "credentials", plugins=installed)

    async with stores.open_location(location("example.io/memory", marker="m1")) as store:
        await store.validate()
        metadata = encode_metadata(Backup(metadata=ObjectMeta(name="b1")))
        contents = tmp_path / "contents"
        contents.write_bytes(b"x" * 300_000)
        files = BackupFiles(name="b1", metadata=metadata, contents=contents)
        await store.put_backup(files)

        assert await store.list_backups() == ["b1"]
        assert await store.download_contents("b1", tmp_path / "copy") == 300_000
        assert (await store.read_backup("b1")).metadata.name == "b1"
        url = await store.signed_url("BackupLog", "b1")
        assert url == "memory://b/p/backups/b1/b1-logs.gz?ttl=600000000000&marker=m1"
        await store.delete_backup("b1")
        assert await store.list_backups() == []


@pytest.mark.spec("PLG-003")
async def test_a_location_of_an_unknown_provider(
    client: KubeClient, installed: InstalledPlugins, tmp_path: Path
) -> None:
    stores = LocationStores(client, "velero", tmp_path / "credentials", plugins=installed)

    with pytest.raises(StoreConfigError, match=r"unable to locate ObjectStore plugin named velero\.io/x"):
        async with stores.open_location(location("x")):
            pass


async def test_a_location_that_the_plugin_refuses(
    client: KubeClient, installed: InstalledPlugins, tmp_path: Path
) -> None:
    stores = LocationStores(client, "velero", tmp_path / "credentials", plugins=installed)

    async with stores.open_location(location("example.io/memory", fail="yes")) as store:
        with pytest.raises(StoreConfigError, match=r"plugin example\.io/memory: .*config refused"):
            await store.validate()
