"""What a dead server left InProgress."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from pinnace.api.codec import decode
from pinnace.api.labels import SCHEDULE_NAME
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.controllers.shared import settling
from pinnace.controllers.shared.settling import Settler
from pinnace.csi.movement.uploads import CONTENT
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Invalid
from pinnace.kube.resources import BACKUPS, RESTORES
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StoreUnavailable
from tests.support.cluster.snapshot_crds import kinds
from tests.unit.controllers.fakes import World, fail_always

IN_PROGRESS = {"phase": "InProgress", "startTimestamp": "2021-08-11T21:40:00Z"}
SPEC = {"storageLocation": "default"}


@pytest.fixture
def settler(world: World) -> Settler:
    world.add_location()
    return Settler(world.scope, world.locations)


async def store_backup(world: World, name: str, *, uid: str, phase: BackupPhase) -> None:
    """What the upload of a backup leaves."""
    backup = decode(Backup, world.cluster.stored("backups", name))
    backup.metadata.uid = uid
    backup.status.phase = phase
    backup.status.warnings = 3
    backup.metadata.annotations = {"pinnace.io/size-bytes": "12345", "other": "note"}
    backup.status.completion_timestamp = world.clock.now()
    async with world.locations.open("default") as store:
        await store.put_backup(BackupFiles(name=name, metadata=encode_metadata(backup), contents=None))


@pytest.mark.found("L2")
async def test_a_run_that_was_killed_is_counted_by_the_server_that_fails_it(
    world: World, settler: Settler
) -> None:
    schedule = {SCHEDULE_NAME: "nightly"}
    world.cluster.add("backups", "b1", labels=schedule, spec=SPEC, status=IN_PROGRESS)
    world.cluster.add("restores", "r1", spec={"backupName": "b1", "scheduleName": "s"}, status=IN_PROGRESS)

    await settler.settle_orphans()

    assert set(world.metrics.calls) == {
        ("backup_finished", "nightly", "Failed"),
        ("restore_finished", "s", "Failed"),
    }
    assert len(world.metrics.calls) == 2


@pytest.mark.spec("CTL-062")
async def test_an_orphan_is_failed_with_the_reason(world: World, settler: Settler) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status={**IN_PROGRESS, "progress": {"totalItems": 9}})
    world.cluster.add("restores", "r1", spec={"backupName": "b1"}, status=IN_PROGRESS)
    others = {"New": {}, "Completed": {"phase": "Completed"}, "Deleting": {"phase": "Deleting"}}
    for name, status in others.items():
        world.cluster.add("backups", name, spec=SPEC, status=status)
        world.cluster.add("restores", name, spec={"backupName": "b1"}, status=status)

    await settler.settle_orphans()
    lists = [name for verb, name, _ in world.cluster.calls if verb == "list"]
    assert lists[:2] == ["backups", "restores"]
    transfers = ["datadownloads", "datauploads", "podvolumebackups", "podvolumerestores"]
    assert sorted(lists[2:]) == transfers

    failed = {**IN_PROGRESS, "phase": "Failed", "completionTimestamp": "2021-08-11T21:43:26Z"}
    backup = 'get a backup with status "InProgress" during the server starting, mark it as "Failed"'
    restore = 'get a restore with status "InProgress" during the server starting, mark it as "Failed"'
    assert world.cluster.status("backups", "b1") == {
        **failed,
        "progress": {"totalItems": 9},
        "failureReason": backup,
    }
    assert world.cluster.status("restores", "r1") == {**failed, "failureReason": restore}
    for plural in ("backups", "restores"):
        assert {name: world.cluster.status(plural, name) for name in others} == others


WORK = ("", "New", "Accepted", "Prepared", "InProgress", "Completed", "Failed", "Canceled")


def add_transfers(world: World, plural: str, label: str, run_phase: str, run: JSONObject) -> None:
    uid = run["metadata"]["uid"]
    for phase in WORK:
        name = f"{run_phase}-{phase or 'none'}".lower()
        world.cluster.add(plural, name, labels={label: uid}, spec={}, status={"phase": phase})


@pytest.mark.spec("BEY-013")
async def test_the_transfers_of_an_orphan_are_canceled_and_those_of_others_are_not(
    world: World, settler: Settler
) -> None:
    phases = ("InProgress", "WaitingForPluginOperations", "Finalizing", "Completed", "New")
    for phase in phases:
        backup = world.cluster.add("backups", phase, spec=SPEC, status={"phase": phase})
        for plural in ("datauploads", "podvolumebackups"):
            add_transfers(world, plural, "velero.io/backup-uid", phase, backup)
        restore = world.cluster.add("restores", phase, spec={"backupName": "b"}, status={"phase": phase})
        for plural in ("datadownloads", "podvolumerestores"):
            add_transfers(world, plural, "velero.io/restore-uid", phase, restore)

    await settler.settle_orphans()

    for plural in ("backups", "restores"):
        now = [world.cluster.status(plural, phase)["phase"] for phase in phases]
        assert now == ["Failed", *phases[1:]]
        status = world.cluster.status(plural, "InProgress")
        assert status["failureReason"].startswith("get a ")
        assert status["completionTimestamp"] == "2021-08-11T21:43:26Z"
    for plural in ("datauploads", "podvolumebackups", "datadownloads", "podvolumerestores"):
        canceled = {obj["metadata"]["name"] for obj in world.cluster.of(plural) if obj["spec"].get("cancel")}
        assert canceled == {
            f"inprogress-{phase}" for phase in ("none", "new", "accepted", "prepared", "inprogress")
        }
        message = world.cluster.status(plural, "inprogress-new")["message"]
        assert message.startswith("it was canceled, as its ")


async def test_an_orphan_ends_only_after_its_transfers_were_canceled(world: World, settler: Settler) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    world.cluster.before = fail_always("list", "datauploads", error=ConnectionFailed("no route"))

    with pytest.raises(ConnectionFailed):
        await settler.settle_orphans()

    assert world.cluster.status("backups", "b1")["phase"] == "InProgress"


async def test_only_snapshots_without_an_upload_are_deleted_with_an_orphan(world: World) -> None:
    world.add_location()
    marks = {"velero.io/backup-name": "b1"}
    world.cluster.add("backups", "b1", spec={**SPEC, "snapshotMoveData": True}, status=IN_PROGRESS)
    for name in ("left", "moved"):
        status = {"boundVolumeSnapshotContentName": f"content-{name}"}
        world.cluster.add("volumesnapshots", name, labels=marks, status=status)
        content = {"deletionPolicy": "Retain"}
        world.cluster.add("volumesnapshotcontents", f"content-{name}", spec=content)
    world.cluster.add("datauploads", "u", labels={"velero.io/backup-uid": "uid-b1"}, spec={}, status={})
    world.cluster.stored("datauploads", "u")["metadata"]["annotations"] = {CONTENT: "content-moved"}

    async def served(_: KubeClient) -> SnapshotKinds:
        return kinds()

    await Settler(world.scope, world.locations, ask_kinds=served).settle_orphans()

    names = {name for kind, _, name in world.cluster.objects if kind.startswith("volumesnapshot")}
    assert names == {"moved", "content-moved"}
    # The driver deletes the snapshot with its content.
    released = [patch for kind, name, patch in world.cluster.patches if name == "content-left"]
    assert released[0]["spec"] == {"deletionPolicy": "Delete"}


async def test_only_the_upload_of_a_failed_orphan_is_aborted(
    world: World, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    aborted = list[tuple[str, str, datetime | None]]()

    async def note(_store: BackupStore, backup: str, owner: str, began: datetime | None) -> None:
        aborted.append((backup, owner, began))
        raise StoreUnavailable("no route")  # which is no reason not to start

    monkeypatch.setattr(BackupStore, "abort_interrupted", note)
    for name in ("b1", "stored"):
        world.cluster.add("backups", name, spec=SPEC, status=IN_PROGRESS)
    await store_backup(world, "stored", uid="uid-stored", phase=BackupPhase.COMPLETED)

    await settler.settle_orphans()

    assert aborted == [("b1", "uid-b1", datetime(2021, 8, 11, 21, 40, tzinfo=UTC))]


@pytest.mark.parametrize("phase", [BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED, BackupPhase.FAILED])
async def test_an_orphan_that_was_stored_in_full_takes_its_status_from_the_location(
    world: World, settler: Settler, phase: BackupPhase
) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    await store_backup(world, "b1", uid="uid-b1", phase=phase)

    await settler.settle_orphans()

    status = world.cluster.status("backups", "b1")
    assert (status["phase"], status["warnings"]) == (phase, 3)
    assert "failureReason" not in status
    metadata = world.cluster.stored("backups", "b1")["metadata"]
    assert metadata["annotations"] == {"pinnace.io/size-bytes": "12345"}


@pytest.mark.parametrize(
    ("uid", "phase"),
    [("uid-of-another", BackupPhase.COMPLETED), ("uid-b1", BackupPhase.IN_PROGRESS)],
    ids=["another backup", "no end"],
)
async def test_stored_metadata_counts_only_if_it_is_the_end_of_this_very_backup(
    world: World, settler: Settler, uid: str, phase: BackupPhase
) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    await store_backup(world, "b1", uid=uid, phase=phase)

    await settler.settle_orphans()

    assert world.cluster.status("backups", "b1")["phase"] == "Failed"


async def test_damaged_metadata_and_missing_locations_do_not_keep_a_server_from_starting(
    world: World, settler: Settler, tmp_path: Path
) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    world.cluster.add("backups", "b2", spec={"storageLocation": "gone"}, status=IN_PROGRESS)
    world.cluster.add("backups", "b3", status=IN_PROGRESS)
    (tmp_path / "bucket-default/backups/b1").mkdir(parents=True)
    (tmp_path / "bucket-default/backups/b1/velero-backup.json").write_bytes(b"{")

    await settler.settle_orphans()

    assert {world.cluster.status("backups", name)["phase"] for name in ("b1", "b2", "b3")} == {"Failed"}


async def test_a_location_that_does_not_answer_is_waited_for_a_limited_time(
    world: World, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "STORE_SECONDS", 0.01)
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)

    async def hang(_name: str) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(world.locations, "acquire", hang)
    await settler.settle_orphans()

    assert world.cluster.status("backups", "b1")["phase"] == "Failed"


async def test_locations_that_do_not_answer_are_asked_once_and_side_by_side(
    world: World, settler: Settler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each orphan of each location would keep the server from starting for half a minute."""
    monkeypatch.setattr(settling, "STORE_SECONDS", 0.05)
    for location in range(5):
        for number in range(3):
            spec = {"storageLocation": f"silent-{location}"}
            world.cluster.add("backups", f"b{location}-{number}", spec=spec, status=IN_PROGRESS)
    asked: list[str] = []
    all_asked = asyncio.Event()

    async def hang(name: str) -> None:
        asked.append(name)
        if len(asked) == 5:
            all_asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(world.locations, "acquire", hang)
    async with asyncio.TaskGroup() as group:
        group.create_task(settler.settle_orphans())
        await all_asked.wait()
        # All were asked before the first gave up: no end is known yet.
        assert {world.cluster.status("backups", f"b{each}-0")["phase"] for each in range(5)} == {"InProgress"}

    assert sorted(asked) == [f"silent-{each}" for each in range(5)]
    names = [f"b{location}-{number}" for location in range(5) for number in range(3)]
    assert {world.cluster.status("backups", name)["phase"] for name in names} == {"Failed"}


async def test_an_orphan_that_the_api_server_refuses_to_change_does_not_stop_the_others(
    world: World, settler: Settler
) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    world.cluster.add("backups", "b2", spec=SPEC, status=IN_PROGRESS)
    refusal = Invalid(422, reason="Invalid", message="a webhook says no")
    world.cluster.before = fail_always("patch", "backups", "b1", error=refusal)

    await settler.settle_orphans()

    assert world.cluster.status("backups", "b1") == IN_PROGRESS
    assert world.cluster.status("backups", "b2")["phase"] == "Failed"


async def test_an_api_server_out_of_reach_ends_the_start(world: World, settler: Settler) -> None:
    world.cluster.before = fail_always("list")

    with pytest.raises(ConnectionFailed):
        await settler.settle_orphans()


async def test_an_interrupted_run_is_settled_unless_another_server_owns_it(
    world: World, settler: Settler
) -> None:
    for name in ("ours", "recreated", "ended"):
        world.cluster.add("restores", name, spec={}, status=IN_PROGRESS)
    runs = {
        obj["metadata"]["name"]: decode(Backup, {**obj, "kind": "Backup"})
        for obj in world.cluster.of("restores")
    }
    world.cluster.stored("restores", "recreated")["metadata"]["uid"] = "another"
    world.cluster.stored("restores", "ended")["status"] = {"phase": "Completed"}

    for run in runs.values():
        await settler.settle_interrupted(RESTORES, run)

    assert {name: world.cluster.status("restores", name)["phase"] for name in runs} == {
        "ours": "Failed",
        "recreated": "InProgress",
        "ended": "Completed",
    }


async def test_settling_an_interrupted_run_ends_when_the_api_server_is_gone(
    world: World, settler: Settler
) -> None:
    world.cluster.add("backups", "b1", spec=SPEC, status=IN_PROGRESS)
    run = decode(Backup, world.cluster.stored("backups", "b1"))
    world.cluster.before = fail_always("get")

    await settler.settle_interrupted(BACKUPS, run)

    assert world.cluster.status("backups", "b1") == IN_PROGRESS
