"""Tenants' locations in the server's sync: slow ones, and ones with too many or invalid files."""

import asyncio
import itertools
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.nonadmin.names import Origin
from pinnace.api.values.durations import Duration
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.sync import backup_sync
from pinnace.controllers.sync import location as location_sync
from pinnace.controllers.sync.backup_sync import BackupSync
from pinnace.controllers.sync.location import Caches
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, SCHEDULES
from pinnace.nonadmin.identity import owner_metadata
from pinnace.runtime.keys import Key
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError
from pinnace.storage.s3 import requests as s3_requests
from pinnace.storage.s3.requests import BucketRequests
from pinnace.store_access.requests import Reply
from tests.support.servers.tenants import unique_id
from tests.unit.controllers.fakes import Cached, World
from tests.unit.controllers.stored import stored_backup

UUID = re.compile("-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")


class SlowLocations(LocationStores):
    """Locations, some of which never answer."""

    slow: frozenset[str] = frozenset()

    @asynccontextmanager
    async def open_location(self, location: BackupStorageLocation) -> AsyncIterator[BackupStore]:
        if location.metadata.name in self.slow:
            await asyncio.Event().wait()
        async with super().open_location(location) as store:
            yield store


class Scene:
    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.locations = SlowLocations(self.world.cluster.client, "velero", folder / "credentials")
        caches = Caches(backups=Cached(self.world, BACKUPS), schedules=Cached(self.world, SCHEDULES))
        self.sync = BackupSync(
            self.world.scope,
            self.locations,
            locations=Cached(self.world, BACKUP_STORAGE_LOCATIONS),
            caches=caches,
            default_location="default",
            period=Duration.minutes(1),
        )

    def add(self, name: str, tenant: str = "") -> None:
        """A location with one backup in it, of that tenant if there is one."""
        self.world.add_location(name)
        if tenant:
            notes = {Origin.LOCATION.namespace_annotation: tenant}
            self.world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, name)["metadata"]["annotations"] = notes
        self.store(name, f"in-{name}", tenant)

    def store(self, location: str, name: str, tenant: str = "") -> None:
        name = unique_id(tenant, name) if tenant else name
        backup = stored_backup(name)
        if tenant:
            backup["metadata"] |= owner_metadata(Origin.BACKUP, name, Key(tenant, "nightly"))
            backup["spec"]["includedNamespaces"] = [tenant]
        directory = self.world.folder / f"bucket-{location}" / "backups" / name
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "velero-backup.json").write_text(json.dumps(backup))

    @property
    def backups(self) -> list[str]:
        """Those made known; of tenants' by what tells them apart."""
        return sorted(UUID.sub("", name) for name in self.world.all_of("backups"))


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_tenants_store_that_never_answers_delays_no_other_tenant(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_sync, "TENANTS_SECONDS", 1.0)  # the honest one needs less
    scene.add("default")
    scene.add("z-admins")
    for number in range(4):
        scene.add(f"a-evil-{number}", "evil")
    scene.add("b-honest", "honest")
    scene.locations.slow = frozenset(f"a-evil-{number}" for number in range(4))

    await scene.sync.run()

    assert scene.backups == ["honest-in-b-honest", "in-default", "in-z-admins"]


async def test_the_other_locations_of_that_tenant_are_synced(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_sync, "TENANT_LOCATION_SECONDS", 1.0)  # the fast one needs less
    scene.add("a-slow", "shop")
    scene.add("b-fast", "shop")
    scene.locations.slow = frozenset({"a-slow"})

    await scene.sync.run()

    assert scene.backups == ["shop-in-b-fast"]


async def test_a_tenant_has_a_limit_for_each_round_and_its_other_locations_come_next(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_sync, "TENANT_LOCATION_SECONDS", 60.0)
    monkeypatch.setattr(backup_sync, "TENANT_SECONDS", 1.0)  # the fast one needs less
    scene.add("a-slow", "shop")
    scene.add("b-fast", "shop")
    scene.locations.slow = frozenset({"a-slow"})

    async with asyncio.timeout(30):
        await scene.sync.run()
        assert scene.backups == []
        await scene.sync.run()

    assert scene.backups == ["shop-in-b-fast"]


async def test_the_locations_that_waited_longest_are_synced_first(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_sync, "TENANTS_SECONDS", 1.0)  # the fast one needs less
    monkeypatch.setattr(backup_sync, "TENANTS_AT_ONCE", 1)
    scene.add("a-slow", "evil")
    scene.add("b-fast", "honest")
    status = {"lastSyncedTime": "2021-08-11T20:00:00Z"}
    scene.world.cluster.stored(BACKUP_STORAGE_LOCATIONS.name, "a-slow")["status"] = status
    scene.locations.slow = frozenset({"a-slow"})

    await scene.sync.run()

    assert scene.backups == ["honest-in-b-fast"]


async def test_the_number_of_backups_from_a_tenants_location_is_limited(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(location_sync, "MAX_BACKUPS_OF_TENANT", 3)
    scene.add("mine", "evil")
    scene.add("default")
    for number in range(6):
        scene.store("mine", f"more-{number}", "evil")
        scene.store("default", f"admins-{number}")

    for _ in range(2):
        await scene.sync.run()
        scene.world.clock.turn(60)

    of_tenant = [name for name in scene.backups if name.startswith("evil-")]
    assert len(of_tenant) == 3
    assert len([name for name in scene.backups if name.startswith("admins")]) == 6
    told = [record for record in caplog.records if "not wholly" in record.message]
    assert len(told) == 1


async def test_a_list_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()

    async def endless(*_: object) -> Reply:
        number = next(count)
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>x/{number}-{each}/</Prefix></CommonPrefixes>" for each in range(3)
        )
        token = f"<NextContinuationToken>{number}</NextContinuationToken>"
        body = f"<R><IsTruncated>true</IsTruncated>{token}{prefixes}</R>"
        return Reply(status=200, headers={}, body=body.encode())

    monkeypatch.setattr(BucketRequests, "_send", endless)
    monkeypatch.setattr(s3_requests, "MAX_LISTED", 10)
    nothing: dict[str, Any] = dict.fromkeys(each.name for each in fields(BucketRequests))
    requests = BucketRequests(**nothing)

    with pytest.raises(StorageError, match="more than 10 names below 'x/'"):
        async for _ in requests.pages("x/", delimiter="/"):
            pass
    assert next(count) == 4


async def test_a_file_that_is_not_a_backup_is_set_aside_with_one_warning_a_day(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add("mine", "evil")
    reads: list[str] = []
    whole = BackupStore.get_metadata

    async def counted(store: BackupStore, backup: str) -> bytes:
        reads.append(backup)
        return await whole(store, backup)

    monkeypatch.setattr(BackupStore, "get_metadata", counted)
    for number in range(5):
        folder = scene.world.folder / "bucket-mine" / "backups" / unique_id("evil", f"forged-{number}")
        folder.mkdir(parents=True)
        (folder / "velero-backup.json").write_text("{")
    for _ in range(2 * 24 * 4):
        await scene.sync.run()
        scene.world.clock.turn(15 * 60)

    told = [record for record in caplog.records if record.message == location_sync.LEFT_OUT]
    assert len(told) == 2 * 5
    # After 1, 2, 4, ... minutes, and then once a day: not with each of 192 passes.
    assert len(reads) < 5 * 14

    reads.clear()
    scene.store("mine", "a-new-one", "evil")
    await scene.sync.run()
    assert "evil-a-new-one" in scene.backups
    assert reads[0] == unique_id("evil", "a-new-one")


async def test_a_corrected_backup_is_made_known(scene: Scene) -> None:
    scene.add("mine", "evil")
    name = unique_id("evil", "fixed")
    folder = scene.world.folder / "bucket-mine" / "backups" / name
    folder.mkdir(parents=True)
    (folder / "velero-backup.json").write_text("{")
    await scene.sync.run()
    scene.store("mine", "fixed", "evil")
    scene.world.clock.turn(60)
    await scene.sync.run()
    assert "evil-fixed" in scene.backups
