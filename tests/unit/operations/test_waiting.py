"""Backups that wait for operations of plugins: each look, the end, and what a restart or a foe may do."""

import asyncio
import gzip
import json
import shutil
import zlib
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from pinnace.age.recipients import parse_recipients
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.backup.runner import execute_backup
from pinnace.kube.resources import CONFIGMAPS, DATA_UPLOADS, PODS
from pinnace.operations import outcome_log
from pinnace.operations.finalizing_restores import OperationsChanged
from pinnace.operations.waiting import Following, finalize_backup, wait_for_backup
from pinnace.plugins.installed import NO_PLUGINS
from pinnace.plugins.item_operations import NO_PLUGIN, TIMED_OUT
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.storage.backup_files import encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.encryption import Encryption
from pinnace.storage.errors import BackupExists, StorageError
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from tests.support.clock import START, FakeClock, LeapingClock
from tests.support.plugins.operators import NAME, Operations
from tests.support.runs.backup_runs import Store, prepared
from tests.support.runs.context import run_context
from tests.support.stores.faulty_store import DyingStore, FaultyStore
from tests.support.waiting import eventually
from tests.unit.backup.fakes import discovery_of, read_members, two_a_page

WAITING = BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS
WAITING_PARTLY = BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED


class Lab:
    """A backup with two config maps, for each of which an operation is started."""

    def __init__(self, folder: Path, *post_items: ResourceIdentifier) -> None:
        self.clock = FakeClock()
        self.operations = Operations()
        self.cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b")
        self.store = Store(folder / "store")
        self.plugins = self.operations.plugins(post_items=post_items).operation()
        (folder / "work").mkdir()
        self.context = run_context(
            self.store, self.cluster, discovery_of(), folder / "work", clock=self.clock, plugins=self.plugins
        )

    async def run(self, **spec: object) -> Backup:
        return await execute_backup(prepared(**spec), self.context, actions=self.plugins.backup_actions)

    def following(self) -> Following:
        """A look by another instance of the action, as by a server that was restarted."""
        return Following(store=self.store, plugins=self.operations.plugins().operation(), clock=self.clock)

    async def finalize(self, backup: Backup) -> Backup:
        return await finalize_backup(self.context, backup, actions=self.plugins.backup_actions)

    def file(self) -> list[dict[str, dict[str, object]]]:
        found: list[dict[str, dict[str, object]]] = self.store.unpacked("b1-itemoperations.json.gz")
        return sorted(found, key=lambda one: str(one["spec"]["operationID"]))


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def counts(backup: Backup) -> tuple[int, int, int]:
    status = backup.status
    return (
        status.backup_item_operations_attempted,
        status.backup_item_operations_completed,
        status.backup_item_operations_failed,
    )


async def test_a_backup_with_operations_is_stored_and_waits(lab: Lab) -> None:
    backup = await lab.run()

    assert backup.status.phase == WAITING
    assert backup.status.completion_timestamp is None
    assert counts(backup) == (2, 0, 0)
    assert lab.store.metadata()["status"]["phase"] == "WaitingForPluginOperations"
    first, _ = lab.file()
    assert first == {
        "spec": {
            "backupName": "b1",
            "backupUID": backup.metadata.uid,
            "backupItemAction": NAME,
            "resourceIdentifier": {"Group": "", "Resource": "configmaps", "Namespace": "ns", "Name": "a"},
            "operationID": "op-a",
            "postOperationItems": None,
        },
        "status": {"phase": "InProgress", "created": "2021-08-11T21:43:26Z"},
    }


async def test_a_waiting_backup_is_parked_and_each_of_its_files_is_written_once(tmp_path: Path) -> None:
    changed = ResourceIdentifier(group="", resource="configmaps", namespace="ns", name="a")
    lab = Lab(tmp_path, changed)
    faulty = FaultyStore(FilesystemStore(lab.store.root))
    lab.context = replace(lab.context, store=BackupStore(faulty, Layout(""), location="default"))
    backup = await lab.run()
    assert not await lab.store.exists("b1")  # what a sync, also of a Velero server, looks for
    assert await lab.store.is_taken("b1")
    assert {"b1", "b1.tar.gz"} & set(lab.store.stored()) == {"b1.tar.gz"}
    lab.operations.end("op-a")
    lab.operations.end("op-b")
    backup = await replace(lab.following(), store=lab.context.store).backup(backup)

    await lab.finalize(backup)

    puts = [key for call, key in faulty.calls if call == "put" and "pinnace-" not in key]
    assert sorted(puts) == sorted(
        str(path.relative_to(lab.store.root))
        for path in (lab.store.root / "backups").rglob("*")
        if path.is_file() and "pinnace-" not in path.name
    )
    assert puts[-1] == "backups/b1/velero-backup.json"
    assert "b1-pinnace-volumes.json" not in lab.store.stored()  # it is not encrypted
    assert not (lab.store.root / "backups/b1/pinnace-parked").exists()


async def test_an_encrypted_backup_has_its_plain_list_while_it_waits_and_at_its_end(tmp_path: Path) -> None:
    upload = ResourceIdentifier(group="velero.io", resource="datauploads", namespace="velero", name="u1")
    lab = Lab(tmp_path, upload)
    recipient = parse_recipients("age1zvkyg2lqzraa2lnjvqej32nkuu0ues2s82hzrye869xeexvn73equnujwj")
    lab.store.encrypted(Encryption(recipients=recipient))
    lab.context = replace(lab.context, discovery=discovery_of([CONFIGMAPS, DATA_UPLOADS]))
    spec = {"sourceNamespace": "ns", "sourcePVC": "data"}
    lab.cluster.add(DATA_UPLOADS, "velero/u1", spec=spec, status={"phase": "Completed"})
    backup = await lab.run(included_resources=["configmaps"])
    parked = json.loads(lab.store.file("b1-pinnace-volumes.json").read_bytes())
    for name in ("op-a", "op-b"):
        lab.operations.end(name)

    await lab.finalize(await lab.following().backup(backup))

    empty = {"version": 1, "repositories": [], "csiSnapshots": [], "nativeSnapshots": [], "elsewhere": []}
    assert parked == empty
    # The operations are not those of a data mover, so nobody knows where the data of the DataUpload is.
    assert json.loads(lab.store.file("b1-pinnace-volumes.json").read_bytes()) == {
        **empty,
        "elsewhere": ["moved"],
    }
    assert lab.store.file("b1-resource-list.json.gz").read_bytes().startswith(b"age-encryption.org/v1")


@pytest.mark.parametrize("killed", ["before its files were removed", "after all"])
async def test_a_finalization_whose_end_was_lost_is_known_and_writes_nothing(lab: Lab, killed: str) -> None:
    backup = await lab.run()
    lab.operations.end("op-a")
    lab.operations.end("op-b", error="broken")
    backup = await lab.following().backup(backup)
    parked, kept = lab.store.root / "backups/b1/pinnace-parked", lab.store.root.parent / "kept"
    shutil.copytree(parked, kept)
    lab.clock.turn(60)
    ended = await lab.finalize(backup)
    if killed == "before its files were removed":
        shutil.copytree(kept, parked)
    before = {path: path.stat().st_mtime_ns for path in lab.store.file("").iterdir() if path != parked}
    lab.clock.turn(60)

    assert await lab.finalize(backup) == ended

    assert {path: path.stat().st_mtime_ns for path in lab.store.file("").iterdir()} == before


@pytest.mark.parametrize("after_effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("writes", range(0, 24, 3))
async def test_a_backup_that_an_older_version_left_waiting_is_finished(
    lab: Lab, writes: int, after_effect: bool
) -> None:
    backup = await lab.run()
    directory = lab.store.root / "backups/b1"
    for path in (directory / "pinnace-parked").iterdir():  # older versions had no such folder
        path.rename(directory / path.name)
    (directory / "pinnace-parked").rmdir()
    lab.operations.end("op-a")
    lab.operations.end("op-b")
    dying = DyingStore(FilesystemStore(lab.store.root), writes, after_effect=after_effect)
    killed = replace(lab.following(), store=BackupStore(dying, Layout(""), location="default"))
    with suppress(StorageError):  # a server that is killed
        await killed.backup(backup)

    finalizing = await lab.following().backup(backup)
    ended = await lab.finalize(finalizing)

    assert (finalizing.status.phase, ended.status.phase) == (BackupPhase.FINALIZING, BackupPhase.COMPLETED)
    assert await lab.store.exists("b1")
    assert not (directory / "pinnace-parked").exists()
    assert {"resources/configmaps/namespaces/ns/a.json"} <= read_members(directory / "b1.tar.gz").keys()


async def test_another_backup_of_the_name_that_was_stored_meanwhile_stays(lab: Lab) -> None:
    backup = await lab.run()
    for name in ("op-a", "op-b"):
        lab.operations.end(name)
    backup = await lab.following().backup(backup)
    other = lab.store.root / "backups/b1/velero-backup.json"
    other.write_bytes(encode_metadata(replace(backup, metadata=replace(backup.metadata, uid="another"))))
    before = other.read_bytes()

    with pytest.raises(BackupExists):
        await lab.finalize(backup)

    assert other.read_bytes() == before
    assert not (lab.store.root / "backups/b1/b1.tar.gz").exists()


async def test_a_backup_without_operations_does_not_wait(lab: Lab) -> None:
    backup = await execute_backup(prepared(), lab.context, actions=())

    assert backup.status.phase == BackupPhase.COMPLETED
    assert "b1-itemoperations.json.gz" not in lab.store.stored()


@pytest.mark.spec("BEY-014")
async def test_the_phase_follows_the_operations(lab: Lab) -> None:
    backup = await lab.run()

    assert await lab.following().backup(backup) == backup  # nothing has changed: nothing to patch

    lab.operations.end("op-a", error="disk on fire")
    backup = await lab.following().backup(backup)
    assert backup.status.phase == WAITING_PARTLY
    assert (counts(backup), backup.status.errors) == ((2, 0, 1), 1)

    lab.operations.end("op-b")
    backup = await lab.following().backup(backup)
    assert backup.status.phase == BackupPhase.FINALIZING_PARTIALLY_FAILED
    assert (counts(backup), backup.status.errors) == ((2, 1, 1), 1)


@pytest.mark.spec("BEY-014")
async def test_all_completed_leads_to_finalizing(lab: Lab) -> None:
    backup = await lab.run()
    lab.operations.end("op-a")
    lab.operations.end("op-b")

    backup = await lab.following().backup(backup)

    assert (backup.status.phase, backup.status.errors) == (BackupPhase.FINALIZING, 0)


@pytest.mark.spec("BEY-014")
@pytest.mark.parametrize(("asked", "limit"), [(None, "4h"), (Duration.hours(1), "1h")])
async def test_an_operation_that_takes_too_long_is_cancelled(
    lab: Lab, asked: Duration | None, limit: str
) -> None:
    backup = await lab.run(item_operation_timeout=asked)
    lab.clock.turn(Duration.parse(limit).to_timedelta() - timedelta(seconds=1))
    assert (await lab.following().backup(backup)).status.phase == WAITING

    lab.clock.turn(61)
    backup = await lab.following().backup(backup)

    assert sorted(lab.operations.cancelled) == ["op-a", "op-b"]
    assert backup.status.phase == BackupPhase.FINALIZING_PARTIALLY_FAILED
    assert [one["status"]["error"] for one in lab.file()] == [TIMED_OUT, TIMED_OUT]


@pytest.mark.spec("BEY-016")
async def test_the_error_of_an_operation_names_the_plugin(lab: Lab) -> None:
    backup = await lab.run()
    lab.operations.end("op-a", error="disk on fire")

    await lab.following().backup(backup)

    assert lab.file()[0]["status"]["error"] == f"disk on fire, plugin: {NAME}"


async def test_an_action_that_cannot_answer_is_asked_again(lab: Lab) -> None:
    backup = await lab.run()
    lab.operations.error = ValueError("no network")
    assert await lab.following().backup(backup) == backup

    lab.operations.error = None
    lab.operations.end("op-a")
    assert counts(await lab.following().backup(backup)) == (2, 1, 0)


async def test_an_operation_whose_plugin_is_gone_has_failed(lab: Lab) -> None:
    backup = await lab.run()

    ended = await replace(lab.following(), plugins=NO_PLUGINS.operation()).backup(backup)

    assert ended.status.phase == BackupPhase.FINALIZING_PARTIALLY_FAILED
    assert NO_PLUGIN in str(lab.file()[0]["status"]["error"])


async def test_a_list_of_operations_that_was_changed_is_not_believed(lab: Lab) -> None:
    backup = await lab.run()
    stored = lab.file()
    stored[0]["spec"]["postOperationItems"] = [
        {"Group": "", "Resource": "secrets", "Namespace": "kube-system", "Name": "token"}
    ]
    await lab.store.parked().put_item_operations("b1", stored)

    with pytest.raises(OperationsChanged):
        await lab.following().backup(backup)
    with pytest.raises(OperationsChanged):
        await lab.finalize(backup)
    assert lab.operations.asked == []


@pytest.mark.spec("BEY-015")
async def test_without_items_to_read_again_only_the_metadata_is_written(lab: Lab) -> None:
    backup = await lab.run()
    lab.operations.end("op-a")
    lab.operations.end("op-b")
    backup = await lab.following().backup(backup)
    before = read_members(lab.store.file("b1.tar.gz"))
    file = lab.store.file("velero-backup.json")
    file.write_text(json.dumps(lab.store.metadata() | {"ofAnotherVersion": [1]}))
    lab.clock.turn(60)

    ended = await lab.finalize(backup)

    assert ended.status.phase == BackupPhase.COMPLETED
    assert ended.status.completion_timestamp == START + timedelta(seconds=60)
    assert lab.store.metadata()["status"]["phase"] == "Completed"
    assert lab.store.metadata()["ofAnotherVersion"] == [1]
    assert read_members(lab.store.file("b1.tar.gz")) == before


@pytest.mark.found("V19")
async def test_the_log_of_a_backup_says_what_became_of_each_operation(tmp_path: Path) -> None:
    upload = ResourceIdentifier(group="velero.io", resource="datauploads", namespace="velero", name="b1-x")
    lab = Lab(tmp_path, upload)
    backup = await lab.run()
    before = gzip.decompress((lab.store.file("b1-logs.gz")).read_bytes()).decode()
    lab.operations.end("op-a")
    lab.operations.end("op-b", error="it was canceled, as its node is gone")
    backup = await lab.following().backup(backup)

    await lab.finalize(backup)

    # One gzip member, as some readers silently stop at the end of the first.
    engine = zlib.decompressobj(31)
    log = engine.decompress((lab.store.file("b1-logs.gz")).read_bytes()).decode()
    assert engine.eof
    assert engine.unused_data == b""
    assert log.startswith(before)
    completed, failed = log.removeprefix(before).splitlines()
    assert "level=info" in completed
    assert 'msg="Item operation Completed"' in completed
    assert "level=error" in failed
    assert 'msg="Item operation Failed"' in failed
    assert "it was canceled, as its node is gone" in failed
    for line, name in ((completed, "a"), (failed, "b")):
        assert f"name={name} " in line
        assert f"operation=op-{name}" in line
        assert 'followedBy="datauploads.velero.io velero/b1-x"' in line
        assert "backup=velero/b1" in line


@pytest.mark.parametrize("damage", ["cut off", "too large"])
async def test_a_log_that_is_damaged_or_no_log_is_left_as_it_is(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    backup = await lab.run()
    log = lab.store.file("b1-logs.gz")
    if damage == "cut off":
        log.write_bytes(log.read_bytes()[:-9])
    else:
        monkeypatch.setattr(outcome_log, "_MOST_BYTES", 10)
    before = log.read_bytes()
    lab.operations.end("op-a")
    lab.operations.end("op-b")

    ended = await lab.finalize(await lab.following().backup(backup))

    assert ended.status.phase == BackupPhase.COMPLETED
    assert lab.store.file("b1-logs.gz").read_bytes() == before


@pytest.mark.found("V19")
async def test_a_backup_without_a_log_gets_one_with_the_outcomes(lab: Lab) -> None:
    backup = await lab.run()
    (lab.store.file("b1-logs.gz")).unlink()
    lab.operations.end("op-a")
    lab.operations.end("op-b")

    await lab.finalize(await lab.following().backup(backup))

    log = gzip.decompress((lab.store.file("b1-logs.gz")).read_bytes()).decode()
    assert log.count("Item operation Completed") == 2


async def test_items_are_in_the_backup_as_they_are_when_operations_have_ended(tmp_path: Path) -> None:
    changed = ResourceIdentifier(group="", resource="configmaps", namespace="ns", name="a")
    added = ResourceIdentifier(group="", resource="pods", namespace="ns", name="mover")
    gone = ResourceIdentifier(group="", resource="pods", namespace="ns", name="gone")
    lab = Lab(tmp_path, changed, added, gone)
    backup = await lab.run()
    lab.cluster.add_all(CONFIGMAPS, "ns/a", data={"moved": "yes"}).add_all(CONFIGMAPS, "ns/b")
    lab.cluster.add_all(PODS, "ns/mover")
    lab.operations.end("op-a")
    lab.operations.end("op-b", error="broken")
    backup = await lab.following().backup(backup)

    ended = await lab.finalize(backup)

    assert (ended.status.phase, ended.status.errors) == (BackupPhase.PARTIALLY_FAILED, 1)
    members = read_members(lab.store.file("b1.tar.gz"))
    for directory in ("", "v1-preferredversion/"):
        assert b'"moved"' in members[f"resources/configmaps/{directory}namespaces/ns/a.json"]
        assert b'"moved"' not in members[f"resources/configmaps/{directory}namespaces/ns/b.json"]
        assert f"resources/pods/{directory}namespaces/ns/mover.json" in members
    listed = lab.store.unpacked("b1-resource-list.json.gz")
    assert listed == {"v1/ConfigMap": ["ns/a", "ns/b"], "v1/Pod": ["ns/mover"]}
    index = gzip.decompress((lab.store.file("b1-pinnace-index.json.gz")).read_bytes())
    size = (lab.store.file("b1.tar.gz")).stat().st_size
    assert json.loads(index.splitlines()[-1]) == {"items": 3, "size": size}


@pytest.mark.found("V07")
async def test_what_a_data_upload_says_of_files_is_a_warning_of_the_backup(tmp_path: Path) -> None:
    upload = ResourceIdentifier(group="velero.io", resource="datauploads", namespace="velero", name="u1")
    lab = Lab(tmp_path, upload)
    lab.context = replace(lab.context, discovery=discovery_of([CONFIGMAPS, DATA_UPLOADS]))
    lab.cluster.add(
        DATA_UPLOADS,
        "velero/u1",
        spec={"sourceNamespace": "ns", "sourcePVC": "data"},
        status={"phase": "Completed", "message": "sockets were not saved: s"},
    )
    backup = await lab.run()
    for name in ("op-a", "op-b"):
        lab.operations.end(name)
    before = backup.status.warnings

    ended = await lab.finalize(await lab.following().backup(backup))

    said = "Volume of PersistentVolumeClaim ns/data: sockets were not saved: s"
    assert (ended.status.phase, ended.status.warnings) == (BackupPhase.COMPLETED, before + 1)
    assert lab.store.metadata()["status"]["warnings"] == before + 1
    assert lab.store.unpacked("b1-results.gz")["warnings"]["velero"] == [said]
    log = gzip.decompress((lab.store.file("b1-logs.gz")).read_bytes()).decode()
    assert f'level=warning msg="{said}"' in log.splitlines()[-1]


async def test_a_command_waits_until_operations_have_ended(lab: Lab) -> None:
    shown: list[str] = []
    clock = LeapingClock()

    def end() -> None:
        shown.extend(lab.context.activity.waiting)
        lab.operations.end("op-a" if clock.time < 15 else "op-b")

    clock.on_sleep = end
    backup = await lab.run()

    ended = await wait_for_backup(replace(lab.context, clock=clock), backup, actions=())

    assert (ended.status.phase, counts(ended)) == (BackupPhase.COMPLETED, (2, 2, 0))
    assert clock.time == 20
    assert shown == ["2 of 2 operations of plugins", "1 of 2 operations of plugins"]
    assert lab.context.activity.waiting == []


async def test_an_interrupted_command_cancels_operations_and_leaves_a_finished_backup(lab: Lab) -> None:
    backup = await lab.run()

    async def sleeps() -> bool:
        return bool(lab.clock.pending)

    waiting = asyncio.create_task(wait_for_backup(lab.context, backup, actions=()))
    await eventually(sleeps)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert sorted(lab.operations.cancelled) == ["op-a", "op-b"]
    assert lab.store.metadata()["status"]["phase"] == "PartiallyFailed"


async def test_operations_of_a_backup_that_cannot_be_stored_are_cancelled(lab: Lab) -> None:
    from pinnace.storage.errors import StoreUnavailable

    lab.store.put_error = StoreUnavailable("no route")

    backup = await lab.run()

    assert backup.status.phase == BackupPhase.FAILED
    assert sorted(lab.operations.cancelled) == ["op-a", "op-b"]
