"""Object lock of Azure and Google Cloud Storage against servers that are scripted by their documentation.

The golden requests are those of "Put Blob", "Put Block List", "Get Container Properties", "List Blobs" and
"Delete Blob" (learn.microsoft.com/rest/api/storageservices), and of "Objects: insert", "Objects: get",
"Objects: delete" and "Buckets: get" (cloud.google.com/storage/docs/json_api/v1). The services themselves are
not in the tests. (docs/adr/127)
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pinnace.aio.clock import Clock
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.storage.azure.config import parse_azure_config
from pinnace.storage.azure.store import AzureStore
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupLocked, StorageError, StoreConfigError
from pinnace.storage.gcs.config import parse_gcs_config
from pinnace.storage.gcs.store import GCSStore
from pinnace.storage.http_store import HTTPStore
from pinnace.storage.layout import Layout
from pinnace.storage.object_lock import LockMode, ObjectLock, ObjectVersion, Retention
from pinnace.store_access.requests import RequestPolicy
from tests.support.clock import FakeClock
from tests.support.stores.conformance import blocks
from tests.support.stores.locking_clouds import (
    LockingCloud,
    azure_settings,
    gcs_settings,
    locking_azure,
    locking_gcs,
    related,
)

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
UNTIL = NOW + timedelta(days=30)
QUICK = RequestPolicy(attempts=2, base_seconds=0.0, request_seconds=10.0)
LARGE = b"a tarball of parts " * 600_000


@dataclass(frozen=True)
class Service:
    """One service: how it is scripted, and how its store is opened."""

    name: str
    serve: Callable[[Clock], AbstractAsyncContextManager[LockingCloud]]
    open: Callable[[LockingCloud, Clock], HTTPStore]


def _azure(cloud: LockingCloud, clock: Clock) -> HTTPStore:
    config, environ = azure_settings(cloud)
    return AzureStore(
        parse_azure_config({"bucket": "c", **config}), environ=environ, policy=QUICK, clock=clock
    )


def _gcs(cloud: LockingCloud, clock: Clock) -> HTTPStore:
    config, environ = gcs_settings(cloud)
    return GCSStore(parse_gcs_config({"bucket": "b", **config}), environ=environ, policy=QUICK, clock=clock)


AZURE, GCS = Service("azure", locking_azure, _azure), Service("gcs", locking_gcs, _gcs)


@dataclass
class Scene:
    """A service that runs, and its store."""

    service: Service
    cloud: LockingCloud
    clock: FakeClock
    store: HTTPStore

    def backups(self, lock: ObjectLock | None) -> BackupStore:
        return BackupStore(self.store, Layout("p/"), location="l", clock=self.clock).locked(lock)


@pytest.fixture(params=[AZURE, GCS], ids=lambda service: service.name)
async def scene(request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    service: Service = request.param
    clock = FakeClock(now=NOW)
    async with service.serve(clock) as cloud:
        store = service.open(cloud, clock)
        yield Scene(service, cloud, clock, store)
        await store.close()


def files_of(folder: Path, contents: bytes) -> BackupFiles:
    status = BackupStatus(start_timestamp=NOW, expiration=UNTIL)
    backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero", uid="u1"), status=status)
    tarball = folder / "tarball"
    tarball.write_bytes(contents)
    return BackupFiles(
        name="b1",
        owner="u1",
        metadata=encode_metadata(backup),
        contents=tarball,
        expiration=UNTIL,
        results={},
    )


@pytest.mark.parametrize("contents", [b"small", LARGE], ids=["in one request", "in parts"])
async def test_a_backup_is_held_until_it_expires_and_deleted_for_good_then(
    scene: Scene, contents: bytes, tmp_path: Path
) -> None:
    store = scene.backups(ObjectLock(mode=LockMode.COMPLIANCE))
    await store.validate()
    await store.put_backup(files_of(tmp_path, contents))
    held = {each.key.rpartition("/")[2]: each.until for each in scene.cloud.objects}
    assert held.pop("b1-pinnace-writer.json") is None
    assert set(held.values()) == {UNTIL}
    assert {"b1.tar.gz", "velero-backup.json"} <= held.keys()
    before = list(scene.cloud.objects)

    with pytest.raises(BackupLocked, match="object lock holds its files until 2026-12-28T06:00:00Z"):
        await store.delete_backup("b1")

    assert scene.cloud.objects == before
    assert await store.download_contents("b1", tmp_path / "out") == len(contents)
    scene.clock.set(UNTIL + timedelta(seconds=1))
    await store.delete_backup("b1")
    assert scene.cloud.objects == []


async def test_former_versions_that_were_hidden_are_held_and_deleted_too(
    scene: Scene, tmp_path: Path
) -> None:
    store = scene.backups(ObjectLock(mode=LockMode.GOVERNANCE, period=timedelta(hours=1)))
    await store.put_backup(files_of(tmp_path, b"small"))
    for key in await scene.store.list_keys("p/"):
        await scene.store.delete(key)
    assert not await store.exists("b1")

    with pytest.raises(BackupLocked, match="until 2026-11-28T07:00:00Z"):
        await store.delete_backup("b1")
    scene.clock.set(NOW + timedelta(hours=2))
    await store.delete_backup("b1")
    assert scene.cloud.objects == []


async def test_a_store_refuses_a_version_whose_end_it_does_not_say(scene: Scene) -> None:
    await scene.store.put("p/k", b"data")
    [version] = await scene.store.versions("p/")
    assert await scene.store.held_until(version) is None
    scene.cloud.objects[0].until = UNTIL  # since the last look

    with pytest.raises(BackupLocked, match="says no end"):
        await scene.store.delete_version(version)

    missing = ObjectVersion(key="p/nothing", version="1")
    assert await scene.store.held_until(missing) is None
    await scene.store.delete_version(missing)


async def test_a_bucket_without_object_lock_is_refused(scene: Scene) -> None:
    scene.cloud.locks = False
    store = scene.backups(ObjectLock(mode=LockMode.GOVERNANCE))
    with pytest.raises(StoreConfigError, match=r"objectLock.mode is governance, but .* has no object lock"):
        await store.validate()


async def test_a_store_that_accepts_a_retention_and_keeps_none_is_an_error(scene: Scene) -> None:
    scene.cloud.ignores = True
    with pytest.raises(StorageError, match="the store holds it not at all: it ignores object lock"):
        await scene.store.put_locked("k", b"data", Retention(mode=LockMode.COMPLIANCE, until=UNTIL))


async def test_the_retention_policy_of_a_bucket_of_google_cloud_is_its_default() -> None:
    clock = FakeClock(now=NOW)
    async with locking_gcs(clock) as cloud:
        cloud.default_seconds = 5400
        store = _gcs(cloud, clock)
        found = await store.bucket_lock()
        backups = BackupStore(store, Layout("p/"), location="l", clock=clock)
        refused = await backups.locked(ObjectLock(mode=LockMode.GOVERNANCE)).too_short_a_life(
            timedelta(hours=1)
        )
        await store.close()
    assert (found.is_enabled, found.default) == (True, timedelta(minutes=90))
    assert "--ttl) of at least 2h" in refused


@pytest.mark.parametrize(
    ("mode", "azure", "google"),
    [(LockMode.GOVERNANCE, "unlocked", "Unlocked"), (LockMode.COMPLIANCE, "locked", "Locked")],
)
async def test_the_requests_are_those_of_the_documentation(
    scene: Scene, mode: LockMode, azure: str, google: str
) -> None:
    retention = Retention(mode=mode, until=UNTIL)
    await scene.store.bucket_lock()
    await scene.store.put_locked("p/small", b"data", retention)
    await scene.store.put_locked("p/large", blocks(12), retention)
    versions = await scene.store.versions("p/")
    await scene.store.held_until(versions[0])

    lines = [f"{each.method} {each.path} {sorted(each.query.items())}" for each in scene.cloud.asked]
    asked = dict(zip(lines, scene.cloud.asked, strict=True))
    version = versions[0].version
    if scene.service is AZURE:
        policy = {
            "x-ms-immutability-policy-until-date": "Mon, 28 Dec 2026 06:00:00 GMT",
            "x-ms-immutability-policy-mode": azure,
        }
        whole = asked["PUT /c/p/small []"]
        listed = asked["PUT /c/p/large [('comp', 'blocklist')]"]
        parts = [each for line, each in asked.items() if "('comp', 'block')" in line]
        for each in (whole, listed):
            assert policy.items() <= each.headers.items()
            assert each.headers["x-ms-version"] >= "2020-06-12"
        assert whole.headers["x-ms-blob-type"] == "BlockBlob"
        assert len(parts) > 1
        assert all("x-ms-immutability-policy-mode" not in each.headers for each in parts)
        assert "HEAD /c [('restype', 'container')]" in asked
        listing = [("comp", "list"), ("include", "versions"), ("prefix", "p/"), ("restype", "container")]
        assert f"GET /c {listing}" in asked
        assert f"HEAD /c/p/large [('versionid', '{version}')]" in asked
        return
    stored = {"mode": google, "retainUntilTime": "2026-12-28T06:00:00Z"}
    whole = asked["POST /upload/storage/v1/b/b/o [('name', 'p/small'), ('uploadType', 'multipart')]"]
    assert related(whole) == ({"name": "p/small", "retention": stored}, b"data")
    begun = asked["POST /upload/storage/v1/b/b/o [('name', 'p/large'), ('uploadType', 'resumable')]"]
    assert begun.json == {"name": "p/large", "retention": stored}
    assert begun.headers["Content-Type"] == "application/json"
    assert begun.headers["x-upload-content-type"] == "application/octet-stream"
    assert "GET /storage/v1/b/b [('fields', 'name,objectRetention,retentionPolicy')]" in asked
    fields = "kind,items(name,generation),nextPageToken"
    assert f"GET /storage/v1/b/b/o {[('fields', fields), ('prefix', 'p/'), ('versions', 'true')]}" in asked
    assert f"GET /storage/v1/b/b/o/p/large [('generation', '{version}')]" in asked
