"""Data of volumes under object lock: a bucket of a real S3 server that holds every file."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import parse_time
from pinnace.kube.resources import DATA_UPLOADS, PERSISTENT_VOLUME_CLAIMS
from pinnace.storage.object_lock import ObjectVersion
from pinnace.storage.open import open_object_store
from pinnace.storage.s3.store import S3Store
from tests.support.cluster.csi_cluster import CLASS, CSICluster
from tests.support.cluster.pods import busybox_pod
from tests.support.servers.sites import running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import PATIENCE_SECONDS, eventually

LIFE_SECONDS = 100
_FILES = FILES.replace("chmod 600 one; chmod 4755", "chmod 755").replace("chown 1234:5678 deep/er", ":")
"""Those that the driver of the tests keeps as they are in its snapshots."""


@pytest.fixture
async def held_bucket(node_cluster: NodeCluster) -> AsyncIterator[Bucket]:
    """A bucket with object lock on a server that nodes reach."""
    # In the folder of temporary files, as the memory that tests use otherwise may lack extended attributes.
    with TemporaryDirectory(dir="/var/tmp") as folder:
        server = S3Server(Path(folder), locks=True, address=node_cluster.network.gateway)
        await asyncio.to_thread(server.start)
        try:
            yield await asyncio.to_thread(server.create_bucket, "held", locks=True)
        finally:
            await asyncio.to_thread(server.remove)


@pytest.fixture
async def held_store(held_bucket: Bucket) -> AsyncIterator[S3Store]:
    """The same bucket, to look into."""
    settings = {"bucket": held_bucket.name, "credentialsFile": str(held_bucket.server.credentials_file)}
    store = open_object_store("aws", {**held_bucket.location_config, **settings})
    assert isinstance(store, S3Store)
    yield store
    await store.close()


async def test_moved_data_is_held_restored_and_let_go_when_its_backup_expires(
    csi_storage: CSICluster, quiet_stage: Stage, held_bucket: Bucket, held_store: S3Store
) -> None:
    stage, store = quiet_stage, held_store
    lock = {**held_bucket.location_config, "objectLock.mode": "compliance"}
    await stage.site.add_bucket(held_bucket, "held", config=lock)
    options = {
        "features": frozenset({"EnableCSI"}),
        "operation_poll_seconds": 1.0,
        "gc_frequency": Duration.seconds(1),
    }
    async with running(stage.client, stage.site.namespace, stage.folder, **options):
        await stage.site.reached("backupstoragelocations", "held", "Available")
        await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(), stage.app)
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
        await stage.run_pod(busybox_pod("p", mounts={"data": "/data"}, volumes=volumes))
        await stage.fill("p", _FILES)
        before = await stage.content("p", "data")
        with stage.agent():
            ttl = f"{LIFE_SECONDS}s"
            await stage.begin_backup(storageLocation="held", ttl=ttl, snapshotMoveData=True)
            backup = await stage.site.reached("backups", "b")

            assert backup["status"]["phase"] == "Completed", backup["status"]
            [upload] = await stage.client.list_all(DATA_UPLOADS, stage.site.namespace)
            assert upload["status"]["phase"] == "Completed"
            stored = await versions_of(store, "site/backups/b/")
            files = [each for each in stored if "-pinnace-writer" not in each.key]
            assert len({each.key for each in files}) == len(files) > 10, "each file was written once"
            assert {await store.held_until(each) for each in files} == {expiration(backup)}
            saved = await versions_of(store, "site/kopia/")
            packs = [each for each in saved if each.key.rpartition("/")[2].startswith("p")]
            assert packs
            for pack in packs:
                end = await store.held_until(pack)
                assert end is not None
                assert timedelta(hours=719) < end - SYSTEM_CLOCK.now() < timedelta(hours=721)

            await stage.delete_app()
            restore = await stage.restore()

            assert restore["status"]["phase"] == "Completed", restore["status"]
            await stage.pod("p")
            assert await stage.content("p", "data") == before
            await stage.delete_pod("p")  # the kubelet gives its volume back while the driver runs

            async def is_gone() -> bool:
                found = await stage.client.list_all(stage.kind("backups"), stage.site.namespace)
                return found == []

            await eventually(is_gone, timeout_seconds=LIFE_SECONDS + PATIENCE_SECONDS)

        async def has_no_file() -> bool:
            return await store.versions("site/backups/") == []

        await eventually(has_no_file)
        assert packs == [each for each in await versions_of(store, "site/kopia/") if each in packs]


def expiration(backup: JSONObject) -> datetime:
    """The end of a backup's time to live."""
    return parse_time(backup["status"]["expiration"])


async def versions_of(store: S3Store, prefix: str) -> list[ObjectVersion]:
    """The versions that have content."""
    return [each for each in await store.versions(prefix) if not each.is_marker]


def new_claim() -> dict[str, object]:
    """A claim of the class of the CSI driver."""
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Mi"}},
        "storageClassName": CLASS,
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"}, "spec": spec}
