"""The order and the outcome of a whole run: existence, counts, phase, upload, cancellation."""

import asyncio
import gzip
from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.labels import SIZE_BYTES
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.api.velero.snapshots import VolumeSnapshot, VolumeSnapshotSpec, VolumeSnapshotStatus
from pinnace.archive.errors import ArchiveWriteError
from pinnace.archive.writer import ArchiveWriter
from pinnace.backup.collaborators import BackupCollaborators
from pinnace.backup.runner import execute_backup
from pinnace.kube.errors import status_error
from pinnace.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from pinnace.plugins.builtin.backup.pod import PodAction
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.protocols import BackupItemAction, ResourceIdentifier
from pinnace.runs.context import ReopenedStore, RunContext
from pinnace.storage.errors import StoreUnavailable
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.patience import Patience
from tests.support.clock import START, FakeClock, HurriedClock, TickingClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.runs.backup_runs import FakeSnapshots, Store, bound_pod, prepared
from tests.support.runs.context import run_context
from tests.support.runs.worker_slots import RecordedSlot
from tests.unit.backup.fakes import (
    FakeAction,
    discovery_of,
    read_members,
    run_backup,
    two_a_page,
)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


ALL_FILES = [
    "b1-csi-volumesnapshotcontents.json.gz",
    "b1-csi-volumesnapshots.json.gz",
    "b1-logs.gz",
    "b1-pinnace-index.json.gz",
    "b1-podvolumebackups.json.gz",
    "b1-resource-list.json.gz",
    "b1-results.gz",
    "b1-volumesnapshots.json.gz",
    "b1.tar.gz",
    "velero-backup.json",
]


async def execute(
    cluster: ScriptedCluster,
    store: Store,
    workdir: Path,
    *,
    actions: Sequence[BackupItemAction] = (),
    **rest: Any,
) -> Backup:
    given = rest.pop("backup", None) or prepared()
    done = await execute_backup(
        given,
        run_context(
            store,
            cluster,
            discovery_of(),
            workdir,
            clock=rest.pop("clock", FakeClock()),
            **{name: rest.pop(name) for name in list(rest) if name in RunContext.__struct_fields__},
        ),
        actions=actions,
        **rest,
    )
    assert left_in(workdir) == []
    assert given.status.phase == BackupPhase.IN_PROGRESS
    return done


def left_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


def log_text(store: Store) -> str:
    return gzip.decompress((store.root / "backups/b1/b1-logs.gz").read_bytes()).decode()


async def test_completed_backup_leaves_all_its_files(store: Store, workdir: Path) -> None:
    sizes: list[int] = []
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b")
    done = await execute(cluster, store, workdir, on_tarball=sizes.append)
    assert done.status.phase == BackupPhase.COMPLETED
    assert done.status.completion_timestamp == START
    assert store.stored() == ALL_FILES
    tarball = store.root / "backups/b1/b1.tar.gz"
    assert "resources/configmaps/namespaces/ns/a.json" in read_members(tarball)
    assert sizes == [tarball.stat().st_size]
    assert store.metadata()["metadata"]["annotations"][SIZE_BYTES] == str(sizes[0])
    assert done.metadata.annotations[SIZE_BYTES] == str(sizes[0])
    status = store.metadata()["status"]
    assert status["phase"] == "Completed"
    assert status["progress"] == {"totalItems": 2, "itemsBackedUp": 2}
    assert store.unpacked("b1-resource-list.json.gz") == {"v1/ConfigMap": ["ns/a", "ns/b"]}
    assert store.unpacked("b1-volumesnapshots.json.gz") is None


@pytest.mark.found("op-61")
async def test_a_backup_of_which_no_list_could_be_read_is_failed(store: Store, workdir: Path) -> None:
    """An account without rights: PartiallyFailed would be something that can be restored."""
    cluster = two_a_page().add_all(NAMESPACES, "ns").add_all(SECRETS, "ns/a")
    listed = [resource.group_resource for resource in discovery_of().resources]
    for name in listed:
        cluster.refuse("list", name, status_error(403, {"message": f"{name}: you may not"}))
    backup = prepared(included_namespaces=["ns"])

    done = await execute(cluster, store, workdir, backup=backup)

    assert done.status.phase == BackupPhase.FAILED
    assert " kinds could be listed; the first error: " in done.status.failure_reason
    assert done.status.failure_reason.endswith(": you may not")
    assert store.metadata()["status"]["phase"] == "Failed"
    cluster.relent("secrets")
    less = await execute(cluster, Store(workdir.parent / "other"), workdir, backup=backup)
    assert less.status.phase == BackupPhase.PARTIALLY_FAILED


async def test_the_worker_is_needed_from_the_first_read_of_the_cluster_to_the_tarball(
    store: Store, workdir: Path
) -> None:
    slot = RecordedSlot()

    async def progress(_total: int, _done: int) -> None:
        slot.events.append("progress")

    await execute(
        two_a_page().add_all(CONFIGMAPS, "ns/a"),
        store,
        workdir,
        worker_slot=slot,
        progress=progress,
        clock=TickingClock(),
        on_tarball=lambda _: slot.events.append("tarball"),
    )
    assert [event for event, _ in groupby(slot.events)] == [
        "lent",
        "taken",
        "progress",
        "given back",
        "tarball",
    ]


async def test_fields_of_other_versions_are_in_the_stored_backup(store: Store, workdir: Path) -> None:
    read = {"spec": {"compression": "zstd"}, "status": {"phase": "InProgress", "seal": {"by": "x"}}}
    await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir, read=read)
    stored = store.metadata()
    assert stored["spec"]["compression"] == "zstd"
    assert (stored["status"]["phase"], stored["status"]["seal"]) == ("Completed", {"by": "x"})


async def test_error_lines_make_it_partially_failed(store: Store, workdir: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a")
    cluster.refuse("list", "pods", status_error(403, {"message": "forbidden"}))
    done = await execute(cluster, store, workdir)
    assert (done.status.phase, done.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    assert store.metadata()["status"]["errors"] == 1


@pytest.mark.spec("API-012")
async def test_the_counts_are_those_of_the_log(store: Store, workdir: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a")
    # Two errors: pods that may not be listed, a namespace that is not there. A warning: a pattern in vain.
    cluster.refuse("list", "pods", status_error(403, {"message": "forbidden"}))
    done = await execute(cluster, store, workdir, backup=prepared(included_namespaces=["ns", "nowhere-*"]))
    counts = (done.status.phase, done.status.errors, done.status.warnings)
    assert counts == (BackupPhase.PARTIALLY_FAILED, 2, 1)
    status = store.metadata()["status"]
    assert (status["phase"], status["errors"], status["warnings"]) == ("PartiallyFailed", 2, 1)


@pytest.mark.spec("API-012", "BKP-012")
async def test_existing_backup_is_not_touched(store: Store, workdir: Path) -> None:
    await execute(two_a_page(), store, workdir)
    before = store.metadata()
    done = await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir)
    assert done.status.phase == BackupPhase.FAILED
    assert done.status.completion_timestamp == START
    assert done.status.failure_reason == "backup already exists in object storage"
    assert done.status.errors == 1
    assert store.metadata() == before


@pytest.mark.spec("BKP-012")
async def test_failing_existence_check_uploads_nothing(store: Store, workdir: Path) -> None:
    store.exists_error = StoreUnavailable("no route")
    done = await execute(two_a_page(), store, workdir)
    assert (done.status.phase, done.status.completion_timestamp) == (BackupPhase.FAILED, START)
    assert "no route" in done.status.failure_reason
    assert store.stored() == []


async def test_a_backup_that_its_bucket_would_hold_beyond_its_end_is_refused(
    store: Store, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[timedelta] = []

    async def too_short_a_life(life: timedelta) -> str:
        asked.append(life)
        return "the bucket holds every file for 30 days"

    monkeypatch.setattr(store, "too_short_a_life", too_short_a_life)
    backup = prepared()
    backup.status.expiration = START + timedelta(days=1)

    done = await execute(two_a_page(), store, workdir, backup=backup)

    assert asked == [timedelta(days=1)]
    assert (done.status.phase, store.stored()) == (BackupPhase.FAILED, [])
    assert done.status.failure_reason == "the bucket holds every file for 30 days"


@pytest.mark.spec("BKP-042", "BKP-066")
async def test_fatal_error_is_uploaded_with_what_there_is(store: Store, workdir: Path) -> None:
    action = FakeAction(selector_error=status_error(403, {"message": "bindings are forbidden"}))
    cluster = two_a_page().add_all(NAMESPACES, "ns-1").add_all(CONFIGMAPS, "ns-1/a")
    backup = prepared(included_namespaces=["ns-1"])
    done = await execute(cluster, store, workdir, actions=[action], backup=backup)
    assert done.status.phase == BackupPhase.FAILED
    assert done.status.errors == 1
    assert done.status.progress is None
    assert store.stored() == ALL_FILES
    assert list(read_members(store.root / "backups/b1/b1.tar.gz")) == ["metadata/version"]
    assert store.unpacked("b1-resource-list.json.gz") == {}
    assert store.metadata()["status"]["phase"] == "Failed"
    assert "bindings are forbidden" in log_text(store)


async def test_defect_in_the_engine_fails_the_backup(
    store: Store, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = two_a_page()

    def broken(*_: str) -> None:
        raise ZeroDivisionError("a defect")

    cluster.before = broken
    done = await execute(cluster, store, workdir)
    assert (done.status.phase, done.status.failure_reason) == (BackupPhase.FAILED, "a defect")
    assert "a defect" in log_text(store)


async def test_full_disk_leaves_only_the_log(
    store: Store, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(self: ArchiveWriter) -> None:
        self.discard()
        raise ArchiveWriteError("writing contents.tar.gz: No space left on device")

    monkeypatch.setattr(ArchiveWriter, "close", full)
    done = await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir)
    assert done.status.phase == BackupPhase.FAILED
    assert "No space left on device" in done.status.failure_reason
    assert store.stored() == ["b1-logs.gz"]
    assert "No space left on device" in log_text(store)


@pytest.mark.spec("API-012")
async def test_failing_upload_changes_the_phase_only(store: Store, workdir: Path) -> None:
    store.put_error = StoreUnavailable("bucket is gone")
    done = await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir)
    assert (done.status.phase, done.status.errors) == (BackupPhase.FAILED, 0)
    assert done.status.failure_reason == "error uploading backup: bucket is gone"
    assert store.stored() == []


@pytest.mark.found("L6")
async def test_an_upload_waits_for_a_store_that_is_away(store: Store, workdir: Path) -> None:
    store.put_error = StoreUnavailable("bucket is gone")

    def back_again(_: str) -> None:
        store.put_error = None

    patience = Patience(back_again, clock=HurriedClock())
    done = await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir, patience=patience)
    assert done.status.phase == BackupPhase.COMPLETED
    assert store.stored() == ALL_FILES


async def test_store_is_opened_again_for_the_upload(store: Store, workdir: Path, tmp_path: Path) -> None:
    fresh = Store(tmp_path / "fresh")

    async def reopen() -> ReopenedStore:
        return ReopenedStore(fresh)

    done = await execute(two_a_page(), store, workdir, reopen_store=reopen)
    assert done.status.phase == BackupPhase.COMPLETED
    assert (store.stored(), fresh.stored()) == ([], ALL_FILES)
    assert (store.closed, fresh.closed) == (False, True)


@pytest.mark.found("E-F2")
async def test_a_backup_whose_location_was_moved_is_stored_nowhere(
    store: Store, workdir: Path, tmp_path: Path
) -> None:
    elsewhere = Store(tmp_path / "elsewhere")

    async def reopen() -> ReopenedStore:
        return ReopenedStore(elsewhere, "it was moved")

    done = await execute(two_a_page(), store, workdir, reopen_store=reopen)
    assert (done.status.phase, done.status.failure_reason) == (
        BackupPhase.FAILED,
        "error uploading backup: it was moved. Back up again",
    )
    assert (store.stored(), elsewhere.stored()) == ([], [])
    assert elsewhere.closed


async def test_a_store_that_cannot_be_opened_again_fails_the_backup(store: Store, workdir: Path) -> None:
    async def reopen() -> ReopenedStore:
        raise StoreUnavailable("credentials have expired")

    done = await execute(two_a_page(), store, workdir, reopen_store=reopen)
    assert done.status.phase == BackupPhase.FAILED
    assert store.stored() == []


async def test_without_room_for_temporary_files_the_backup_fails(store: Store, tmp_path: Path) -> None:
    done = await execute_backup(
        prepared(),
        run_context(store, two_a_page(), discovery_of(), tmp_path / "absent", clock=FakeClock()),
        actions=[],
    )
    assert (done.status.phase, done.status.completion_timestamp) == (BackupPhase.FAILED, START)
    assert "temporary files" in done.status.failure_reason


def record(phase: str) -> VolumeSnapshot:
    return VolumeSnapshot(spec=VolumeSnapshotSpec(), status=VolumeSnapshotStatus(phase=phase))


@pytest.mark.spec("BKP-055")
async def test_snapshots_are_counted_and_stored(store: Store, workdir: Path) -> None:
    snapshots = FakeSnapshots(RuntimeError("no quota"))
    snapshots.snapshots = [record("Failed")]
    done = await execute(
        bound_pod(),
        store,
        workdir,
        backup=prepared(volume_snapshot_locations=["default"]),
        actions=[PodAction(), PersistentVolumeAction()],
        collaborators=BackupCollaborators(snapshots=snapshots),
    )
    status = done.status
    assert (status.volume_snapshots_attempted, status.volume_snapshots_completed) == (1, 0)
    assert (status.phase, status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    assert list(read_members(store.root / "backups/b1/b1.tar.gz")) == ["metadata/version"]
    assert len(store.unpacked("b1-volumesnapshots.json.gz")) == 1


async def test_cancelled_backup_leaves_nothing(store: Store, workdir: Path) -> None:
    started, never = asyncio.Event(), asyncio.Event()

    class Stuck(FakeAction):
        async def execute(
            self, item: JSONObject, backup: Backup
        ) -> tuple[JSONObject, Sequence[ResourceIdentifier]]:
            started.set()
            await never.wait()
            return item, ()

    task = asyncio.create_task(execute(two_a_page().add_all(PODS, "ns/p"), store, workdir, actions=[Stuck()]))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (store.stored(), left_in(workdir)) == ([], [])


async def test_cancelled_upload_leaves_nothing_that_looks_finished(
    store: Store, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, never = asyncio.Event(), asyncio.Event()
    put = FilesystemStore.put

    async def stuck(self: FilesystemStore, key: str, body: Any) -> None:
        if key.endswith("velero-backup.json"):
            reached.set()
            await never.wait()
        await put(self, key, body)

    monkeypatch.setattr(FilesystemStore, "put", stuck)
    task = asyncio.create_task(execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.stored() == ["b1-logs.gz"]
    assert left_in(workdir) == []


@pytest.mark.found("P6")
async def test_progress_is_reported_at_most_once_a_second(tmp_path: Path) -> None:
    cluster = ScriptedCluster(page_size=1).add_all(CONFIGMAPS, *(f"ns/{number}" for number in range(6)))
    outcome = await run_backup(tmp_path, cluster, clock=FakeClock())
    assert [each.items_backed_up for each in outcome.progress] == [1, 6], "the last number is always told"

    outcome = await run_backup(tmp_path, cluster, clock=TickingClock())
    done = [progress.items_backed_up for progress in outcome.progress]
    assert len(done) > 1
    assert done == sorted(set(done))
    assert outcome.progress[-1].total_items == 6


@pytest.mark.found("row 98")
async def test_progress_of_lists_that_are_read_side_by_side_never_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.archive.writer.BATCH_BYTES", 1)  # each item waits for the one before
    cluster = ScriptedCluster(page_size=7)
    for kind in (CONFIGMAPS, SECRETS, SERVICE_ACCOUNTS, DEPLOYMENTS):
        cluster.add_all(kind, *(f"ns/{number}" for number in range(40)))

    outcome = await run_backup(tmp_path, cluster, clock=TickingClock())

    done = [progress.items_backed_up for progress in outcome.progress]
    assert done == sorted(done)
    assert len(done) > 10
    assert (done[-1], outcome.progress[-1].total_items) == (160, 160)


async def test_failing_progress_is_a_warning(store: Store, workdir: Path) -> None:
    async def sink(total: int, done: int) -> None:
        raise status_error(409, {"message": "conflict"})

    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a")
    done = await execute(cluster, store, workdir, progress=sink, clock=TickingClock())
    assert (done.status.phase, done.status.warnings) == (BackupPhase.COMPLETED, 1)


async def test_log_has_the_backup_in_every_line(store: Store, workdir: Path) -> None:
    await execute(two_a_page().add_all(CONFIGMAPS, "ns/a"), store, workdir)
    lines = log_text(store).splitlines()
    assert lines
    assert all(" backup=velero/b1 " in line for line in lines)
    async with store.read_bytes(DownloadTargetKind.BACKUP_LOG, "b1") as stream:
        assert b"".join([block async for block in stream])[:2] == b"\x1f\x8b"


async def test_caveats_are_counted_and_stand_in_the_log(store: Store, workdir: Path) -> None:
    cluster = two_a_page().add_all(CONFIGMAPS, "ns/a")

    done = await execute(cluster, store, workdir, caveats=["spec.x is not known", "spec.y is not known"])

    assert (done.status.phase, done.status.warnings) == (BackupPhase.COMPLETED, 2)
    assert store.metadata()["status"]["warnings"] == 2
    assert "spec.y is not known" in log_text(store)
