"""The agent saves the volumes of its node, and takes every PodVolumeBackup to its end."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import AGENT_ANNOTATION, ATTEMPTS_ANNOTATION, NODE_ANNOTATION
from pinnace.controllers.node.pod_volume_backup import EMPTY_MESSAGE
from pinnace.kube.errors import ConnectionFailed, Forbidden
from pinnace.volumes.uploader.errors import (
    AccessError,
    CommandFailed,
    SnapshotMissing,
    UnexpectedOutput,
)
from tests.unit.controllers.fakes import fail_once, key
from tests.unit.controllers.node.world import AGENT, NODE, SNAPSHOT, NodeWorld, waiting

START = "2021-08-11T21:43:26Z"


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    """A pod with a volume."""
    made = NodeWorld(tmp_path)
    made.add_pod()
    made.volume()
    return made


@pytest.mark.spec("PVL-038", "PVL-039", "PVL-040", "CTL-052")
@pytest.mark.parametrize(
    ("node", "phase", "wanted"),
    [
        (NODE, "", True),
        (NODE, "New", True),
        (NODE, "InProgress", False),
        (NODE, "Completed", False),
        (NODE, "Failed", False),
        ("other", "", False),
        ("other", "New", False),
        ("other", "InProgress", False),
        ("", "New", False),
    ],
)
async def test_which_pod_volume_backups_are_taken(
    world: NodeWorld, node: str, phase: str, wanted: bool
) -> None:
    volume_backup = world.add_backup(node=node, phase=phase)

    assert world.backups.is_wanted(volume_backup) is wanted
    await world.save()
    assert bool(world.restic.calls) is wanted


async def test_a_volume_is_saved(world: NodeWorld) -> None:
    world.add_backup()

    status = await world.save()

    assert status == {
        "phase": "Completed",
        "path": str(world.volume()),
        "snapshotID": SNAPSHOT,
        "startTimestamp": START,
        "completionTimestamp": START,
        "progress": {"totalBytes": 10, "bytesDone": 4},
    }
    first = world.cluster.patches[0][2]
    assert first["status"] == {"phase": "InProgress", "startTimestamp": START}
    assert first["metadata"]["annotations"] == {
        NODE_ANNOTATION: NODE,
        AGENT_ANNOTATION: "node-agent-now/2",
        ATTEMPTS_ANNOTATION: "1",
    }


@pytest.mark.spec("PVL-036", "CTL-054")
async def test_an_empty_volume_has_no_snapshot(world: NodeWorld) -> None:
    world.restic.snapshot = ""
    world.add_backup()

    status = await world.save()

    assert (status["phase"], status["message"]) == ("Completed", EMPTY_MESSAGE)
    assert "snapshotID" not in status


COMMAND = "restic backup"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            CommandFailed(COMMAND, exit_code=1, stderr="Fatal: no"),
            "error running restic backup, stderr=Fatal: no: exit status 1",
        ),
        (
            CommandFailed(COMMAND, exit_code=3, stderr="Warning: at least one"),
            "error running restic backup, stderr=Warning: at least one: exit status 3",
        ),
        (
            UnexpectedOutput("unable to find summary in restic backup command output"),
            "error running restic backup, stderr=: unable to find summary in restic backup command output",
        ),
        (
            UnexpectedOutput("error getting snapshot id: expected one matching snapshot, got 0"),
            "error getting snapshot id: expected one matching snapshot, got 0",
        ),
        (
            AccessError("error setting restic cmd env: no storage key"),
            "error setting restic cmd env: no storage key",
        ),
        (ZeroDivisionError(), "unexpected ZeroDivisionError, see the node agent's log"),
    ],
)
@pytest.mark.spec("SRV-015", "PVL-073")
async def test_a_failed_backup_has_its_reason(world: NodeWorld, error: Exception, message: str) -> None:
    world.restic.errors = [error]
    volume_backup = world.add_backup()
    list(world.backups.enqueued(volume_backup))

    status = await world.save()

    assert (status["phase"], status["message"]) == ("Failed", message)
    assert "snapshotID" not in status
    assert status["completionTimestamp"] == START
    assert world.metrics.calls == [("backup_enqueued",), ("backup_dequeued",)]


@pytest.mark.spec("PVL-015", "PVL-016", "CTL-054")
@pytest.mark.parametrize(
    ("volume", "directories", "message"),
    [
        ({"name": "other"}, (), "error getting volume directory name: volume not found in pod"),
        (
            {"name": "data", "persistentVolumeClaim": {"claimName": "none"}},
            (),
            'error getting volume directory name: persistentvolumeclaims "none" not found',
        ),
        (
            {"name": "data", "persistentVolumeClaim": {"claimName": "lost"}},
            (),
            'error getting volume directory name: persistentvolumes "lost-pv" not found',
        ),
        ({"name": "data"}, (), "error getting volume path on host: expected one matching path, got 0"),
        (
            {"name": "data"},
            ("kubernetes.io~empty-dir/data", "kubernetes.io~nfs/data"),
            "error getting volume path on host: expected one matching path, got 2",
        ),
    ],
)
async def test_a_volume_that_cannot_be_found_fails_with_the_reason(
    tmp_path: Path, volume: JSONObject, directories: tuple[str, ...], message: str
) -> None:
    world = NodeWorld(tmp_path)
    world.cluster.add("persistentvolumeclaims", "lost", "shop", spec={"volumeName": "lost-pv"})
    world.add_pod("p", volume)
    for directory in directories:
        world.volume(directory=directory)
    world.add_backup()

    status = await world.save()

    assert (status["phase"], status["message"]) == ("Failed", message)


async def test_a_new_pod_of_the_same_name_is_not_saved(world: NodeWorld) -> None:
    world.cluster.add("pods", "p", "shop")["metadata"]["uid"] = "uid-of-another"
    world.add_backup()

    status = await world.save()

    assert status["phase"] == "Failed"
    assert status["message"].startswith('error getting pod: pod "p" not found')


@pytest.mark.spec("PVL-047", "PVL-048", "CTL-055")
@pytest.mark.parametrize(("newest", "parent"), [({"snapshotID": "1111aaaa"}, "1111aaaa"), ({}, "")])
async def test_the_parent_is_the_newest_snapshot_of_the_claim_in_the_location(
    world: NodeWorld, newest: JSONObject, parent: str
) -> None:
    world.add_backup("t0", claim="c", phase="Completed", startTimestamp=START, snapshotID="0000aaaa")
    world.add_backup("t1", claim="c", phase="Completed", startTimestamp="2021-08-12T00:00:00Z", **newest)
    world.add_backup(
        "t2", claim="c", phase="Failed", startTimestamp="2021-08-13T00:00:00Z", snapshotID="2" * 8
    )
    elsewhere = world.add_backup(
        "t3", claim="c", phase="Completed", startTimestamp="2021-08-14T00:00:00Z", snapshotID="3" * 8
    )
    elsewhere["spec"]["backupStorageLocation"] = "other"
    world.add_backup(claim="c")

    await world.save()

    assert world.restic.calls == [("backup", world.volume(), parent)]


@pytest.mark.spec("AFT-141", "AFT-142", "AFT-143")
@pytest.mark.parametrize(
    ("uploader", "wanted", "parent", "reads_all"),
    [
        ("restic", "none", "", True),
        ("restic", "auto", "0000aaaa", False),
        ("restic", "4444aaaa", "4444aaaa", False),
        ("kopia", "none", "", True),
        ("kopia", "auto", "", False),
        ("kopia", "4444aaaa", "", True),
    ],
)
async def test_the_backup_may_choose_the_parent_or_that_there_is_none(
    world: NodeWorld, uploader: str, wanted: str, parent: str, reads_all: bool
) -> None:
    world.add_backup("t0", claim="c", phase="Completed", startTimestamp=START, snapshotID="0000aaaa")
    made = world.add_backup(claim="c")
    made["spec"] |= {"parentSnapshot": wanted, "uploaderType": uploader}

    assert (await world.save())["phase"] == "Completed"

    (source,) = world.restic.sources
    assert (source.parent, source.reads_all) == (parent, reads_all)


async def test_a_parent_that_is_gone_costs_time_but_no_backup(world: NodeWorld) -> None:
    world.add_backup("t0", claim="c", phase="Completed", startTimestamp=START, snapshotID="0000aaaa")
    world.restic.errors = [SnapshotMissing(COMMAND, exit_code=1, stderr="no matching ID found")]
    world.add_backup(claim="c")

    status = await world.save()

    assert status["phase"] == "Completed"
    assert [parent for _, _, parent in world.restic.calls] == ["0000aaaa", ""]


# --- Nothing stays InProgress -----------------------------------------------------------------------------


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_claim_whose_answer_was_lost_is_carried_out_once(world: NodeWorld, when: str) -> None:
    """Whether it was stored or not: the next pass finds out, and the volume is saved once."""
    setattr(world.cluster, when, fail_once("patch", "podvolumebackups"))
    world.add_backup()

    with pytest.raises(ConnectionFailed):
        await world.save()
    status = await world.save()

    assert status["phase"] == "Completed"
    assert len(world.restic.calls) == 1


async def test_a_pod_that_cannot_be_read_now_is_tried_again(world: NodeWorld) -> None:
    world.cluster.before = fail_once("get", "pods")
    world.add_backup()

    with pytest.raises(ConnectionFailed):
        await world.save()

    assert (await world.save())["phase"] == "Completed"
    assert len(world.restic.calls) == 1


async def test_a_pod_that_may_not_be_read_fails_the_backup(world: NodeWorld) -> None:
    world.cluster.before = fail_once("get", "pods", error=Forbidden(403, message="you may not"))
    world.add_backup()

    status = await world.save()

    assert (status["phase"], status["message"]) == ("Failed", "error getting pod: you may not")


async def test_a_pod_volume_backup_that_another_agent_takes_first_is_left_alone(world: NodeWorld) -> None:
    world.add_backup()

    def taken(*call: str) -> None:
        if call[:2] == ("patch", "podvolumebackups"):
            world.cluster.before = lambda *_: None
            obj = world.cluster.stored("podvolumebackups", "pvb")
            obj["status"]["phase"] = "InProgress"
            obj["metadata"]["resourceVersion"] = "999"

    world.cluster.before = taken
    status = await world.save()

    assert status["phase"] == "InProgress"
    assert world.restic.calls == []


async def test_a_lost_answer_to_the_end_is_repeated(
    world: NodeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def at_once(_seconds: float) -> None:
        return

    patches = 0

    def lose_second(*call: str) -> None:
        nonlocal patches
        patches += call[0] == "patch"
        if call[0] == "patch" and patches == 3:  # claim, progress, end
            raise ConnectionFailed("the connection broke")

    monkeypatch.setattr("pinnace.runtime.durable.asyncio.sleep", at_once)
    world.cluster.before = lose_second
    world.add_backup()

    assert (await world.save())["phase"] == "Completed"


@pytest.mark.parametrize(("holder", "phase"), [(str(AGENT), "Completed"), ("other/1", "InProgress")])
async def test_an_end_that_meets_a_conflict_is_decided_by_what_the_object_is_now(
    world: NodeWorld, holder: str, phase: str
) -> None:
    world.add_backup()
    edits = ["once"]

    def edit(verb: str, plural: str, name: str) -> None:
        if verb == "patch" and edits and "bytesDone" in str(obj := world.cluster.stored(plural, name)):
            edits.pop()
            obj["metadata"]["annotations"][AGENT_ANNOTATION] = holder
            obj["metadata"]["resourceVersion"] = "edited"

    world.cluster.before = edit

    assert (await world.save())["phase"] == phase
    assert world.restic.forgotten == ([] if phase == "Completed" else [SNAPSHOT])
    assert not edits


async def test_an_object_that_is_gone_before_it_begins_is_counted_as_dequeued(world: NodeWorld) -> None:
    await world.backup_reconciler.reconcile(key("gone"))

    assert world.metrics.calls == [("backup_dequeued",)]


async def test_an_end_that_is_refused_is_offered_until_it_is_taken(world: NodeWorld) -> None:
    world.add_backup()

    def refuse(verb: str, *_: str) -> None:
        if verb == "patch" and world.restic.calls:
            raise Forbidden(403, reason="Forbidden", message="no")

    world.cluster.before = refuse
    waits = [await world.backup_reconciler.reconcile(key("pvb")) for _ in range(3)]
    assert [wait.requeue_after_seconds for wait in waits] == [5, 10, 20]
    world.cluster.before = lambda *_: None

    status = await world.save()

    assert (status["phase"], status["snapshotID"]) == ("Completed", SNAPSHOT)
    assert len(world.restic.calls) == 1


async def test_a_deleted_pod_volume_backup_is_cancelled(world: NodeWorld) -> None:
    world.restic.until = asyncio.Event()
    volume_backup = world.add_backup()
    task = asyncio.create_task(world.backup_reconciler.reconcile(key("pvb")))
    await world.restic.working.wait()

    world.cluster.vanish("podvolumebackups", "pvb")
    world.backup_reconciler.deleted(volume_backup)
    await task

    assert world.metrics.calls == [("backup_dequeued",)]


async def test_a_stop_leaves_the_work_to_the_next_agent_and_says_so(world: NodeWorld) -> None:
    world.restic.until = asyncio.Event()
    world.add_backup()
    task = asyncio.create_task(world.backup_reconciler.reconcile(key("pvb")))
    await world.restic.working.wait()

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    status = world.cluster.status("podvolumebackups", "pvb")
    assert status["phase"] == "InProgress"
    assert status["message"].startswith("the node agent was stopped before the podvolumebackup had ended; ")


@pytest.mark.spec("CTL-062")
@pytest.mark.parametrize(
    ("node", "phase", "after"),
    [
        (NODE, "InProgress", "Failed"),
        (NODE, "Accepted", "Failed"),
        (NODE, "Prepared", "Failed"),
        ("other", "InProgress", "InProgress"),
        (NODE, "New", "New"),
        (NODE, "Completed", "Completed"),
    ],
)
async def test_objects_that_an_agent_without_a_name_has_begun_are_failed(
    world: NodeWorld, node: str, phase: str, after: str
) -> None:
    world.add_backup(node=node, phase=phase)

    await world.backups.fail_orphans(world.backup_reconciler)

    status = world.cluster.status("podvolumebackups", "pvb")
    assert status["phase"] == after
    if after == "Failed":
        text = f'get a podvolumebackup with status "{phase}" during the server starting, mark it as "Failed"'
        assert (status["message"], status["completionTimestamp"]) == (text, START)


async def test_an_unreadable_pod_volume_backup_is_failed(world: NodeWorld) -> None:
    world.add_backup()["spec"]["tags"] = "none"

    status = await world.save()

    assert status["phase"] == "Failed"
    assert world.restic.calls == []


@pytest.mark.parametrize("owned", [True, False])
async def test_the_time_of_a_backup_is_counted(world: NodeWorld, owned: bool) -> None:
    volume_backup = world.add_backup()
    if owned:
        owner = {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "owner", "uid": "u"}
        volume_backup["metadata"]["ownerReferences"] = [owner]

    def later(*call: Any) -> None:
        if call[:2] == ("get", "pods") and not world.restic.calls:
            world.clock.turn(90.7)

    world.cluster.before = later
    await world.save()

    name = "velero/owner" if owned else "velero/b1"
    assert world.metrics.calls == [("backup_dequeued",), ("pod_volume_operation", "backup", name, "pvb", 90)]


@pytest.mark.parametrize("named", ["kopia", ""])
async def test_a_volume_is_saved_with_kopia_under_velero_s_path(world: NodeWorld, named: str) -> None:
    volume_backup = world.add_backup()
    volume_backup["spec"] |= {
        "uploaderType": named,
        "repoIdentifier": "",
        "uploaderSettings": {"ParallelFilesUpload": "3"},
    }
    world.restic.new_bytes = 7
    world.restic.lacks = "sockets were not saved"

    status = await world.save()

    assert status["phase"] == "Completed"
    assert status["incrementalBytes"] == 7
    assert status["message"] == "sockets were not saved"
    (place,) = world.restic.repositories
    assert (place.uploader, place.namespace, place.source) == ("kopia", "shop", "shop")
    (source,) = world.restic.sources
    assert source.name == "snapshot-pod-volume/kopia/shop/p/data"
    assert source.tags["snapshot-requester"] == "snapshot-pod-volume"
    assert source.parallel == 3


async def test_an_unknown_uploader_is_an_error_that_says_so(world: NodeWorld) -> None:
    world.add_backup()["spec"]["uploaderType"] = "other"

    status = await world.save()

    assert status["phase"] == "Failed"
    assert status["message"] == "this node agent has restic and kopia, and the uploader asked for is other"
    assert world.restic.calls == []


async def test_work_in_flight_that_a_user_cancels_ends_as_canceled(world: NodeWorld) -> None:
    volume_backup = world.add_backup()
    world.restic.until = asyncio.Event()
    task = asyncio.create_task(world.save())
    await world.restic.working.wait()

    world.backup_reconciler.changed({**volume_backup, "spec": {**volume_backup["spec"], "cancel": True}})
    status = await task

    assert status["phase"] == "Canceled"
    assert status["message"] == "it was canceled, as spec.cancel asks for it"
    assert "completionTimestamp" in status


@pytest.mark.spec("AFT-169")
async def test_a_volume_that_is_saved_has_no_message_of_a_cancel_that_came_too_late(world: NodeWorld) -> None:
    """It would be a warning of the backup that the volume lacks something."""
    world.add_backup()
    world.restic.until = asyncio.Event()
    task = asyncio.create_task(world.save())
    await world.restic.working.wait()
    stored = world.cluster.stored("podvolumebackups", "pvb")
    stored["status"]["message"] = "it was canceled, as its Backup b1 did not wait for it any longer"
    world.restic.until.set()

    status = await task

    assert (status["phase"], status.get("message")) == ("Completed", None)


async def test_work_that_is_canceled_before_it_begins_is_never_begun(world: NodeWorld) -> None:
    world.add_backup()["spec"]["cancel"] = True

    status = await world.save()

    assert status["phase"] == "Canceled"
    assert world.restic.calls == []


@pytest.mark.parametrize("how", ["removed", "replaced", "its pod is being deleted", "its pod has ended"])
async def test_a_volume_that_is_taken_away_while_it_is_saved_fails_and_leaves_no_snapshot(
    world: NodeWorld, how: str
) -> None:
    """kopia does not notice: files that are gone count as deleted by the application."""
    world.add_backup()
    path = world.volume()
    world.restic.until = asyncio.Event()
    saving = asyncio.create_task(world.save())
    await world.restic.working.wait()
    pod = world.cluster.stored("pods", "p", "shop")
    if how == "its pod is being deleted":
        pod["metadata"]["deletionTimestamp"] = "2021-08-11T21:43:26Z"
    elif how == "its pod has ended":
        pod["status"] = {"phase": "Succeeded"}
    else:
        path.rename(path.with_name("deleting~data"))
        if how == "replaced":  # by the directory below a mount
            path.mkdir()
    world.restic.until.set()

    status = await saving

    assert status["phase"] == "Failed"
    assert status["message"].endswith("so that files may be missing")
    assert world.restic.forgotten == [SNAPSHOT]


CSI_VOLUME = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}


@pytest.mark.found("V25")
async def test_a_volume_that_was_unmounted_is_neither_saved_nor_filled(tmp_path: Path) -> None:
    """Its empty directory would count as an empty volume, and what is written there is no data of it."""
    world = NodeWorld(tmp_path)
    world.cluster.add("persistentvolumeclaims", "c", "shop", spec={"volumeName": "pv"})
    world.cluster.add("persistentvolumes", "pv", "", spec={"csi": {"driver": "d"}})
    pod = waiting("restic-wait")
    world.add_pod("p", CSI_VOLUME, spec={"volumes": [CSI_VOLUME], **pod["spec"]}, status=pod["status"])
    volume = world.volume(directory="kubernetes.io~csi/pv/mount")
    world.mounted.remove(volume)
    world.add_backup()
    world.add_restore()

    for status in (await world.save(), await world.fill()):
        assert status["phase"] == "Failed"
        assert f"{volume} is no mount point" in status["message"]
    assert world.restic.calls == []
    assert list(volume.iterdir()) == []

    world.mounted.add(volume)
    world.add_backup("again")
    assert (await world.save("again"))["phase"] == "Completed"
