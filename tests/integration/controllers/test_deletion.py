"""Deleting backups through a running server."""

import asyncio
import re
from datetime import UTC, timedelta
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import ShiftDate, Stall
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.age.recipients import parse_recipients
from pinnace.age.x25519 import X25519Identity
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.schedules.runs import backup_of
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import parse_time
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.backup.request import ServerDefaults
from pinnace.catalogue.reading import plain_list_of
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, velero
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.holds import Hold
from pinnace.storage.layout import Layout
from pinnace.storage.object_lock import VersionsStore
from pinnace.storage.open import open_object_store
from tests.support.cluster.connect import Connect
from tests.support.servers.sites import Serve, Site, StartProxy, counters, running
from tests.support.waiting import eventually

KEPT = "Backups that have expired are kept for now"


def request_for(backup: dict[str, Any]) -> dict[str, Any]:
    """Labels and spec of a DeleteBackupRequest."""
    name, uid = backup["metadata"]["name"], backup["metadata"]["uid"]
    return {
        "labels": {"velero.io/backup-name": name, "velero.io/backup-uid": uid},
        "spec": {"backupName": name},
    }


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


@pytest.mark.spec("API-030")
@pytest.mark.parametrize("in_bucket", [False, True], ids=["folder", "bucket"])
async def test_a_backup_goes_with_its_restores_and_its_requests(
    site: Site, serve: Serve, request: pytest.FixtureRequest, in_bucket: bool
) -> None:
    if in_bucket:
        bucket: Bucket = request.getfixturevalue("bucket")
        await site.add_bucket(bucket)
        folder = bucket.server.directory / "buckets" / bucket.name
    else:
        folder = await site.add_folder()
    server = await serve()
    await site.create("backups", "b1", spec=site.maps_of())
    backup = await site.reached("backups", "b1", "Completed")
    await site.create("restores", "r1", spec={"backupName": "b1"})
    await site.reached("restores", "r1", "Completed")
    await eventually(lambda: has_no_journal(folder))  # which goes once the end is stored
    # Tarball, index, log, results, five lists and metadata; log, results, resource list, volumes, outcomes.
    assert [len(list(folder.rglob(f"{run}/*"))) for run in ("backups/b1", "restores/r1")] == [10, 5]
    await site.create("deletebackuprequests", "q1", **request_for(backup))

    for plural, name in (("deletebackuprequests", "q1"), ("backups", "b1"), ("restores", "r1")):
        await site.gone(plural, name)

    assert files(folder) == []
    moved = counters(server)
    assert (moved["backup_deletion_attempt"], moved["backup_deletion_success"]) == (1, 1)


async def test_under_object_lock_a_backup_is_restored_synced_and_deleted_when_it_expires(
    site: Site, serve: Serve
) -> None:
    with TemporaryDirectory(dir="/var/tmp") as folder, S3Server(Path(folder), locks=True) as s3:
        bucket, bare = s3.create_bucket("locked", locks=True), s3.create_bucket("bare")
        lock = {**bucket.location_config, "objectLock.mode": "compliance"}
        await site.add_bucket(bucket, config=lock)
        credential = {"name": "cloud-credentials", "key": "cloud"}
        spec = {"provider": "aws", "config": lock, "objectStorage": {"bucket": bare.name}}
        await site.create("backupstoragelocations", "bare", spec={**spec, "credential": credential})
        await serve(backup_sync_period=Duration.seconds(1))
        refused = await site.reached("backupstoragelocations", "bare", "Unavailable")
        assert "is compliance, but bucket 'bare' has no object lock" in refused["status"]["message"]
        await site.create("backups", "b1", spec=site.maps_of(ttl="30s"))
        made = await site.reached("backups", "b1", "Completed")
        await site.create("deletebackuprequests", "q1", **request_for(made))
        until = made["status"]["expiration"]
        held = [f"object lock holds its files until {until}; the deletion is tried again then"]

        async def is_told() -> bool:
            return bool(
                ((await site.get("deletebackuprequests", "q1")).get("status") or {}).get("errors") == held
            )

        await eventually(is_told)
        await site.reached("backups", "b1", "Completed")
        await site.create("restores", "r1", spec={"backupName": "b1"})
        await site.reached("restores", "r1", "Completed")
        await site.create("backups", "b2", spec=site.maps_of())
        other = await site.reached("backups", "b2", "Completed")
        await site.client.delete(velero("backups"), "b2", site.namespace)

        async def is_synced() -> bool:
            try:
                found = await site.get("backups", "b2")
            except NotFound:
                return False
            return bool(found["metadata"]["uid"] != other["metadata"]["uid"])

        await eventually(is_synced)
        for plural, name in (("deletebackuprequests", "q1"), ("backups", "b1"), ("restores", "r1")):
            await site.gone(plural, name)
        config = {"bucket": bucket.name, "credentialsFile": str(s3.credentials_file)}
        store = open_object_store("aws", {**bucket.location_config, **config})
        try:
            assert isinstance(store, VersionsStore)
            assert await store.versions("site/backups/b1/") == []
        finally:
            await store.close()


@pytest.mark.spec("API-030", "API-038")
async def test_a_running_backup_is_not_deleted(
    site: Site, fault_proxy: StartProxy, serve: Serve, control_plane: ControlPlane, connect: Connect
) -> None:
    await site.add_folder()
    proxy = await fault_proxy(control_plane)
    await serve(client=await connect(control_plane, via=proxy))
    held = proxy.rules.add(Stall(), method="GET", path=f"/namespaces/{site.namespace}/configmaps$")
    backup = await site.create("backups", "b1", spec=site.maps_of())
    await held.struck()
    for name in ("older", "newer"):
        await site.create("deletebackuprequests", name, **request_for(backup))
        request = await site.reached("deletebackuprequests", name, "Processed")
        assert request["status"]["errors"] == ["backup is still in progress"]
    await site.gone("deletebackuprequests", "older")
    held.release()

    assert (await site.reached("backups", "b1"))["status"]["phase"] == "Completed"


@pytest.mark.found("L5")
async def test_nothing_expires_while_the_clock_of_the_api_server_is_another(
    site: Site,
    serve: Serve,
    control_plane: ControlPlane,
    connect: Connect,
    fault_proxy: StartProxy,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "pinnace.controllers.deletion.gc")
    folder = await site.add_folder()
    proxy = await fault_proxy(control_plane)
    other_clock = proxy.rules.add(ShiftDate(timedelta(days=-30)))
    client = await connect(control_plane, via=proxy)
    await serve(client=client, log_level="info", gc_frequency=Duration.seconds(0.2))
    await site.create("backups", "b1", spec=site.maps_of())
    await site.reached("backups", "b1", "Completed")
    expired = {"status": {"expiration": "2021-08-11T21:40:00Z"}}
    await site.client.patch(velero("backups"), "b1", expired, site.namespace)
    reads = f"/apis/velero.io/v1/namespaces/{site.namespace}/backups/b1"

    async def looked_at_often() -> bool:
        said = [record for record in caplog.records if record.message == KEPT]
        return bool(said) and proxy.count(method="GET", path=reads) >= 5

    await eventually(looked_at_often)
    said = [record for record in caplog.records if record.message == KEPT]
    assert len(said) == 1
    reason = str(vars(said[0])["fields"]["reason"])
    assert re.fullmatch(
        r"the API server's clock is 25\d{5} seconds behind this server's: set the wrong one by NTP", reason
    )
    requests = await site.client.list_all(velero("deletebackuprequests"), site.namespace)
    assert (requests, (folder / "backups/b1/b1.tar.gz").exists()) == ([], True)

    proxy.rules.remove(other_clock)

    await site.gone("backups", "b1")
    assert files(folder) == []
    assert "Backups expire again: the clocks agree" in caplog.messages


async def test_an_encrypted_backup_is_found_and_expires_without_an_identity(
    site: Site, serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder, now = await site.add_folder(), SYSTEM_CLOCK.now()
    recipients = parse_recipients(str(X25519Identity.generate().recipient))
    (contents := tmp_path / "contents").write_bytes(b"tarball")
    for name, ttl in (("short", timedelta(seconds=20)), ("long", timedelta(days=1))):
        backup = Backup(metadata=ObjectMeta(name=name, namespace=site.namespace))
        backup.status = BackupStatus(
            phase=BackupPhase.COMPLETED,
            start_timestamp=now,
            completion_timestamp=now,
            expiration=(now + ttl).replace(microsecond=0),
        )
        async with BackupStore(FilesystemStore(folder), Layout(""), location="default") as store:
            put = BackupFiles(name=name, metadata=encode_metadata(backup), contents=contents)
            put = msgspec.structs.replace(put, plain_list=await plain_list_of(put, tmp_path))
            await store.encrypted(Encryption(recipients=recipients)).put_backup(put)
    await serve(backup_sync_period=Duration.seconds(1), gc_frequency=Duration.seconds(0.2))

    async def are_found() -> bool:
        found = await site.client.list_all(velero("backups"), site.namespace)
        return {each["metadata"]["name"] for each in found} == {"short", "long"}

    await eventually(are_found)
    await site.gone("backups", "short")

    assert {path.name for path in (folder / "backups").iterdir()} == {"long"}
    await site.reached("backups", "long", "Completed")
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_request_left_in_progress_is_finished_by_the_next_server(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    backup = await site.create(
        "backups",
        "b1",
        spec={"storageLocation": "default"},
        status={"phase": "Deleting", "startTimestamp": "2021-08-11T21:43:26Z"},
    )
    for name in ("backups/b1/b1.tar.gz", "backups/b1/b1-logs.gz"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    await site.create("deletebackuprequests", "q1", **request_for(backup), status={"phase": "InProgress"})
    await serve()

    await site.gone("deletebackuprequests", "q1")
    await site.gone("backups", "b1")

    assert files(folder) == []


async def test_an_invalid_backup_can_be_deleted(site: Site, serve: Serve) -> None:
    await serve()
    await site.create("backups", "b1", spec={"storageLocation": "gone"})
    backup = await site.reached("backups", "b1", "FailedValidation")
    await site.create("deletebackuprequests", "q1", **request_for(backup))

    await site.gone("backups", "b1")
    await site.gone("deletebackuprequests", "q1")

    for plural, name in (("backups", "b1"), ("deletebackuprequests", "q1")):
        with pytest.raises(NotFound):
            await site.get(plural, name)


async def test_what_the_rules_of_a_schedule_do_not_keep_goes_with_its_files(site: Site, serve: Serve) -> None:
    folder = await site.add_folder()
    await serve()
    marks = {"velero.io/schedule-name": "daily"}
    for name in ("b1", "b2", "b3", "b4"):
        await site.create("backups", name, labels=marks, spec=site.maps_of())
        await site.reached("backups", name, "Completed")
    await site.client.patch(velero("backups"), "b1", annotated({labels.HOLD: "audit"}), site.namespace)
    (folder / "backups/b2/b2-pinnace-hold.json").write_bytes(Hold(held=True).encoded())
    rules = {labels.RETENTION: "keepLast: 1"}
    spec = {"schedule": "@yearly", "template": site.maps_of()}
    await site.create("schedules", "daily", annotations=rules, spec=spec)

    await site.gone("backups", "b3")
    backups = await site.client.list_all(velero("backups"), site.namespace)
    assert [backup["metadata"]["name"] for backup in backups] == ["b1", "b2", "b4"]
    assert sorted(path.name for path in (folder / "backups").iterdir()) == ["b1", "b2", "b4"]

    unreadable = annotated({labels.RETENTION: "keepLast: 0"})
    await site.client.patch(velero("schedules"), "daily", unreadable, site.namespace)

    async def refused() -> bool:
        schedule = await site.client.get(velero("schedules"), "daily", site.namespace)
        return " invalid " in schedule["metadata"]["annotations"].get(labels.RETENTION_STATUS, "")

    await eventually(refused)
    request = await site.create("deletebackuprequests", "q1", spec={"backupName": "b1"})
    request = await site.reached("deletebackuprequests", request["metadata"]["name"], "Processed")
    assert request["status"]["errors"] == ["backup b1 is held: audit; `backup release` lets it go"]


async def test_a_hold_counts_for_another_server_until_it_is_released(
    site: Site, serve: Serve, other_namespace: str, tmp_path: Path
) -> None:
    folder = await site.add_folder()
    await serve()
    await site.create("backups", "b1", spec=site.maps_of())
    await site.reached("backups", "b1", "Completed")
    await site.client.patch(velero("backups"), "b1", annotated({labels.HOLD: "audit"}), site.namespace)
    copy = folder / "backups/b1/b1-pinnace-hold.json"
    other = Site(site.client, other_namespace, tmp_path)
    place = {"config": {"path": str(tmp_path)}, "objectStorage": {"bucket": folder.name}}

    await eventually(partial(is_there_or_not, copy, there=True))
    await other.create(
        "backupstoragelocations", "default", spec={"provider": "pinnace.io/filesystem", **place}
    )
    async with running(site.client, other_namespace, tmp_path, backup_sync_period=Duration.seconds(1)):
        await eventually(partial(is_there, other, "b1"))
        await other.create("deletebackuprequests", "q1", spec={"backupName": "b1"})
        refused = await other.reached("deletebackuprequests", "q1", "Processed")
        assert refused["status"]["errors"] == ["backup b1 is held: audit; `backup release` lets it go"]

        await site.client.patch(velero("backups"), "b1", annotated({labels.HOLD: None}), site.namespace)
        await eventually(partial(is_there_or_not, copy, there=False))
        await other.create("deletebackuprequests", "q2", spec={"backupName": "b1"})
        await other.gone("backups", "b1")
    assert files(folder / "backups") == []


async def is_there_or_not(file: Path, *, there: bool) -> bool:
    """Whether a file is there, or is not, as asked."""
    return await asyncio.to_thread(file.exists) == there


def annotated(notes: dict[str, str | None]) -> dict[str, Any]:
    """The patch that sets annotations."""
    return {"metadata": {"annotations": notes}}


@pytest.mark.parametrize("hold", ["60s", "expiration"], ids=["held longer", "held as long as it lives"])
async def test_two_servers_expire_a_held_backup_once_its_lock_has_ended(
    site: Site, serve: Serve, other_namespace: str, tmp_path: Path, hold: str
) -> None:
    """The second server has found it in the bucket, restores it, and is told until when it is held."""
    life = "15s" if hold == "60s" else "40s"
    other = Site(site.client, other_namespace, tmp_path / "other")
    other.folder.mkdir()
    quick: dict[str, Any] = {"gc_frequency": Duration.seconds(0.5), "backup_sync_period": Duration.seconds(1)}
    with TemporaryDirectory(dir="/var/tmp") as folder, S3Server(Path(folder), locks=True) as s3:
        bucket = s3.create_bucket("locked", locks=True)
        lock = {**bucket.location_config, "objectLock.mode": "compliance", "objectLock.until": hold}
        for each in (site, other):
            await each.add_bucket(bucket, config=lock)
        await site.add_maps(color="red")
        await serve(**quick)
        await site.reached("backupstoragelocations", "default", "Available")
        await site.create("backups", "b1", spec=site.maps_of(ttl=life))
        made = await site.reached("backups", "b1", "Completed")
        config = {"bucket": bucket.name, "credentialsFile": str(s3.credentials_file)}
        store = open_object_store("aws", {**bucket.location_config, **config})
        assert isinstance(store, VersionsStore)
        stored = [each for each in await store.versions("site/backups/b1/") if not each.is_marker]
        ends = [end for each in stored if (end := await store.held_until(each)) is not None]
        assert len(ends) == len(stored) - 1  # the claim

        async with running(site.client, other_namespace, other.folder, **quick):
            await eventually(partial(is_there, other, "b1"))
            found = await other.get("backups", "b1")
            assert found["status"]["expiration"] == made["status"]["expiration"]
            names = {site.namespace: other_namespace}
            await other.create("restores", "r1", spec={"backupName": "b1", "namespaceMapping": names})
            restored = await other.reached("restores", "r1")
            assert restored["status"]["phase"] == "Completed"
            for number in range(3):
                copy = await site.client.get(CONFIGMAPS, f"map-{number}", other_namespace)
                assert copy["data"] == {"color": "red"}

            async def both_are_told() -> bool:
                told = [await request_errors(each) for each in (site, other)]
                return all("object lock holds its files until 20" in each for each in told)

            if hold == "60s":  # the time to live ends first, and nobody has to ask
                await eventually(both_are_told)
                assert [
                    each for each in await store.versions("site/backups/b1/") if not each.is_marker
                ] == stored
            for each in (site, other):
                await each.gone("backups", "b1")
            await other.gone("restores", "r1")

        try:
            assert SYSTEM_CLOCK.now() >= max(ends)
            assert await store.versions("site/backups/") == []
        finally:
            await store.close()


async def test_a_backup_of_rules_is_not_held_for_the_ten_years_that_it_lives(
    site: Site, serve: Serve
) -> None:
    """Nobody could undo that in compliance mode: its schedule's own time to live counts."""
    with TemporaryDirectory(dir="/var/tmp") as folder, S3Server(Path(folder), locks=True) as s3:
        bucket = s3.create_bucket("locked", locks=True)
        lock = {**bucket.location_config, "objectLock.mode": "compliance", "objectLock.until": "expiration"}
        await site.add_bucket(bucket, config=lock)
        await serve(defaults=ServerDefaults(backup_ttl=Duration.hours(3)))
        await site.reached("backupstoragelocations", "default", "Available")
        config = {"bucket": bucket.name, "credentialsFile": str(s3.credentials_file)}
        store = open_object_store("aws", {**bucket.location_config, **config})
        assert isinstance(store, VersionsStore)
        try:
            for name, own, hours in (("with-its-own", {"ttl": "2h"}, 2), ("without", {}, 3)):
                spec = {"schedule": "@every 87600h", "template": site.maps_of(**own)}
                rules = {labels.RETENTION: "keepMonthly: 120"}
                schedule = await site.create("schedules", name, annotations=rules, spec=spec)
                made = backup_of(schedule, SYSTEM_CLOCK.now(), UTC)
                await site.client.create(velero("backups"), made, site.namespace)
                backup = await site.reached("backups", made["metadata"]["name"], "Completed")

                started = parse_time(backup["status"]["startTimestamp"])
                assert parse_time(backup["status"]["expiration"]) - started > timedelta(days=3650)
                found = await store.versions(f"site/backups/{made['metadata']['name']}/")
                ends = [await store.held_until(each) for each in found if not each.is_marker]
                assert set(ends) == {started + timedelta(hours=hours), None}  # the claim
        finally:
            await store.close()


async def is_there(site: Site, backup: str) -> bool:
    """Whether a server has made a backup known."""
    found = await site.client.list_all(velero("backups"), site.namespace)
    return backup in {obj["metadata"]["name"] for obj in found}


async def request_errors(site: Site) -> str:
    """What the DeleteBackupRequests say."""
    requests = await site.client.list_all(velero("deletebackuprequests"), site.namespace)
    return " ".join(text for each in requests for text in (each.get("status") or {}).get("errors") or ())


async def has_no_journal(folder: Path) -> bool:
    """Whether no restore of a location can still be resumed."""
    return not await asyncio.to_thread(lambda: list(folder.rglob("*-pinnace-journal-*")))
