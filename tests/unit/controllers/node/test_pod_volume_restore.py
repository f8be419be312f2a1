"""The agent fills the volumes of pods that wait for it, and tells them."""

import asyncio
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import NODE_ANNOTATION
from pinnace.controllers.shared.waiting_pods import is_waiting
from pinnace.kube.errors import KubeError
from pinnace.runtime.keys import Key
from pinnace.volumes.uploader.errors import AccessError, CommandFailed, InvalidSnapshot
from tests.unit.controllers.fakes import key
from tests.unit.controllers.node.world import NODE, RESTORE_UID, SNAPSHOT, NodeWorld, waiting


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    """A pod that waits for its volume."""
    made = NodeWorld(tmp_path)
    made.add_pod(**waiting("restic-wait"))
    made.volume()
    return made


@pytest.mark.spec("PVL-041", "PVL-042", "PVL-044", "CTL-056")
@pytest.mark.parametrize(
    ("pod", "runs"),
    [
        (waiting("restic-wait"), True),
        (waiting("first", "restic-wait"), True),
        (waiting("first", "restic-wait", running="first"), False),
        (waiting("restic-wait", running=""), False),
        (waiting("first", "restic-wait", statuses=1), False),
        (waiting("other", running="other"), False),
        ({}, False),
    ],
    ids=["first", "second", "not-yet", "waits-itself", "one-status", "none", "empty"],
)
def test_a_pod_waits_while_its_init_container_runs(world: NodeWorld, pod: JSONObject, runs: bool) -> None:
    assert is_waiting(pod) is runs
    world.add_pod("q", **pod)
    assert world.restores.is_wanted(world.add_restore("of-q", pod="q")) is runs


@pytest.mark.spec("PVL-041", "CTL-056")
@pytest.mark.parametrize("phase", ["InProgress", "Completed", "Failed"])
async def test_a_restore_that_has_begun_is_not_begun_again(world: NodeWorld, phase: str) -> None:
    volume_restore = world.add_restore(phase=phase)

    assert not world.restores.is_wanted(volume_restore)
    await world.fill()
    assert world.restic.calls == []


@pytest.mark.spec("PVL-041", "CTL-056")
async def test_pods_of_other_nodes_and_pods_that_end_are_not_restored(world: NodeWorld) -> None:
    world.add_pod("far", here=False, **waiting("restic-wait"))
    ending = world.add_pod("ending", **waiting("restic-wait"))
    ending["metadata"]["deletionTimestamp"] = "2021-08-11T21:43:26Z"
    replaced = world.add_pod("replaced", **waiting("restic-wait"))
    replaced["metadata"]["uid"] = "another"
    for name in ("far", "ending", "unknown", "replaced"):
        assert not world.restores.is_wanted(world.add_restore(f"of-{name}", pod=name)), name


@pytest.mark.spec("PVL-043", "CTL-056")
def test_which_pod_volume_restores_a_pod_wakes(world: NodeWorld) -> None:
    pod = world.add_pod("p", **waiting("restic-wait"))
    world.add_restore("pvr-1")
    world.add_restore("pvr-2", phase="New")
    world.add_restore("pvr-3", phase="InProgress")
    world.add_restore("pvr-4", pod="other")

    assert list(world.restores.keys_of_waiting(pod)) == [Key("velero", "pvr-1"), Key("velero", "pvr-2")]


@pytest.mark.spec("PVL-046", "CTL-056")
async def test_a_volume_is_filled_and_marked(world: NodeWorld) -> None:
    (world.volume() / ".velero").mkdir()
    (world.volume() / ".velero" / "uid-of-an-earlier-restore").touch()
    world.add_restore()

    status = await world.fill()

    assert status["phase"] == "Completed"
    assert status["completionTimestamp"] == status["startTimestamp"] == "2021-08-11T21:43:26Z"
    assert status["progress"] == {"totalBytes": 10, "bytesDone": 4}
    assert world.restic.calls == [("restore", world.volume(), SNAPSHOT)]
    assert [path.name for path in (world.volume() / ".velero").iterdir()] == [RESTORE_UID]


async def test_the_size_is_known_from_the_backup(world: NodeWorld) -> None:
    world.add_restore("first")
    await world.fill("first")
    world.add_backup("pvb", phase="Completed", snapshotID=SNAPSHOT, progress={"totalBytes": 77})
    world.add_restore("second")
    await world.fill("second")
    elsewhere = world.add_restore("third")
    elsewhere["spec"]["backupStorageLocation"] = "other"
    await world.fill("third")

    assert world.restic.sizes == [0, 77, 0]


@pytest.mark.parametrize("made_by_velero", [False, True])
async def test_a_volume_that_was_migrated_to_csi_is_filled_one_level_deeper(
    world: NodeWorld, made_by_velero: bool
) -> None:
    """Its content is one level deeper than its persistent volume says, and so are Velero's snapshots."""
    mount = world.volume(directory="kubernetes.io~csi/data/mount")
    (mount.parent / "vol_data.json").write_text("notes of the kubelet")
    (world.volume()).rmdir()
    world.restic.files = {"vol_data.json"} if made_by_velero else set()
    world.add_restore()

    assert (await world.fill())["phase"] == "Completed"

    looked, restored = world.restic.calls
    assert looked == ("has", Path("vol_data.json"), SNAPSHOT)
    assert restored == ("restore", mount, SNAPSHOT)
    assert (mount / ".velero" / RESTORE_UID).exists()


RESTIC = "error restoring volume: error running restic restore, cmd="


@pytest.mark.spec("PVL-045", "CTL-056")
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            CommandFailed("restic restore x", exit_code=1, stdout="out", stderr="err"),
            f"{RESTIC}restic restore x, stdout=out, stderr=err: exit status 1",
        ),
        (
            InvalidSnapshot("-x"),
            f"{RESTIC}restic restore, stdout=, stderr=: '-x' is not the id of a snapshot",
        ),
        (
            AccessError("error getting backup storage location: it is gone"),
            "error getting backup storage location: it is gone",
        ),
    ],
)
async def test_a_failed_restore_writes_no_done_file(world: NodeWorld, error: Exception, message: str) -> None:
    world.restic.errors = [error]
    world.add_restore()

    status = await world.fill()

    assert (status["phase"], status["message"]) == ("Failed", message)
    assert not (world.volume() / ".velero").exists()


async def test_a_missing_volume_fails_with_the_reason(world: NodeWorld) -> None:
    world.add_pod("q", **waiting("restic-wait"))
    world.add_restore("of-q", pod="q")
    world.add_restore("of-p", volume="none")

    assert (await world.fill("of-q"))["message"] == (
        "error restoring volume: error identifying path of volume: expected one matching path, got 0"
    )
    assert (await world.fill("of-p"))["message"] == (
        "error getting volume directory name: volume not found in pod"
    )


async def test_a_done_file_that_cannot_be_written_fails_the_restore(world: NodeWorld) -> None:
    world.add_restore()["metadata"]["ownerReferences"] = []

    status = await world.fill()

    assert status["phase"] == "Failed"
    assert status["message"].startswith("error restoring volume: error writing done file: ")


async def test_a_deleted_pod_ends_its_pod_volume_restores(world: NodeWorld) -> None:
    """Before it was filled, and while."""
    gone = world.add_pod("gone", **waiting("restic-wait"))
    world.add_restore("of-gone", pod="gone")
    world.seen_pods.discard(gone)
    assert (await world.fill("of-gone")).get("phase", "") == "", "it is still known to the API server"
    world.cluster.vanish("pods", "gone", "shop")

    status = await world.fill("of-gone")

    assert (status["phase"], status["message"]) == (
        "Failed",
        "the pod shop/gone was deleted before its volume was restored",
    )

    world.restic.until = asyncio.Event()
    volume_restore = world.add_restore()
    task = asyncio.create_task(world.restore_reconciler.reconcile(key("pvr")))
    await world.restic.working.wait()
    world.restore_reconciler.give_up(volume_restore["metadata"]["uid"], "the pod is gone")
    await task
    assert world.cluster.status("podvolumerestores", "pvr")["message"] == "the pod is gone"


async def test_an_unknown_pod_is_tried_again_while_the_api_server_is_away(world: NodeWorld) -> None:
    """Nothing is known then; the key is tried again."""
    world.add_restore("lost", pod="unknown")

    def away(*call: str) -> None:
        if call[:2] == ("get", "pods"):
            raise KubeError("away")

    world.cluster.before = away
    with pytest.raises(KubeError, match="away"):
        await world.fill("lost")
    assert world.cluster.status("podvolumerestores", "lost").get("phase", "") == ""


@pytest.mark.spec("CTL-062")
@pytest.mark.parametrize(
    ("pod", "noted", "phase", "after"),
    [
        ("p", NODE, "InProgress", "Failed"),
        ("p", None, "InProgress", "Failed"),
        ("p", None, "Accepted", "Failed"),
        ("p", None, "Prepared", "Failed"),
        ("gone", NODE, "InProgress", "Failed"),
        ("gone", None, "InProgress", "InProgress"),
        ("far", "other", "InProgress", "InProgress"),
        ("p", NODE, "New", "New"),
        ("p", NODE, "Completed", "Completed"),
    ],
)
async def test_objects_that_an_agent_without_a_name_has_begun_are_failed(
    world: NodeWorld, pod: str, noted: str | None, phase: str, after: str
) -> None:
    volume_restore = world.add_restore(pod=pod, phase=phase)
    if noted:
        volume_restore["metadata"]["annotations"] = {NODE_ANNOTATION: noted}

    await world.restores.fail_orphans(world.restore_reconciler)

    status = world.cluster.status("podvolumerestores", "pvr")
    assert status["phase"] == after
    if after == "Failed":
        assert status["message"].startswith(f'get a podvolumerestore with status "{phase}"')


async def test_a_volume_that_is_unmounted_while_it_is_filled_fails(world: NodeWorld) -> None:
    """The rest of the data went to the disk of the node, below the mount."""
    world.add_pod(**waiting("restic-wait"))
    path = world.volume()
    world.add_restore()
    world.restic.until = asyncio.Event()
    filling = asyncio.create_task(world.fill())
    await world.restic.working.wait()
    path.rename(path.with_name("unmounted"))
    path.mkdir()
    world.restic.until.set()

    status = await filling

    assert status["phase"] == "Failed"
    assert status["message"].startswith("the volume was taken away from its node during the transfer")
    assert list(path.iterdir()) == [], "nothing tells the pod to start"
