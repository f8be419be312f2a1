"""CSI snapshots of a backup, with a driver in memory: which ones the storage has in the end."""

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.archive.runlog import RunLog
from pinnace.csi.deletion import StoredSnapshot
from pinnace.csi.objects import TAKE_OVER_SECONDS, TakenSnapshots, delete_csi_snapshots
from pinnace.csi.snapshots import CSIError
from pinnace.kube.errors import Forbidden
from tests.support.clock import ScriptedClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.snapshot_crds import kinds

KINDS = kinds()
FINALIZER = "example.io/has-a-snapshot"
CLAIM: JSONObject = {"metadata": {"name": "data", "namespace": "shop", "uid": "uid-data"}}
VOLUME: JSONObject = {"metadata": {"name": "pv"}, "spec": {"csi": {"driver": "d", "volumeHandle": "v"}}}
SECONDS = 30


class Driver:
    """A snapshot controller and its driver, which act whenever somebody waits.

    Attributes:
        storage: the handles of the existing snapshots.
        binds, makes_handles, finishes: what it does: contents, handles, data that is ready.
    """

    def __init__(self) -> None:
        self.cluster = ScriptedCluster()
        self.storage: set[str] = set()
        self.binds = self.makes_handles = self.finishes = True
        self.waited = 0.0
        self.clock = ScriptedClock(self.sleep)
        spec = BackupSpec(csi_snapshot_timeout=Duration.parse(f"{SECONDS}s"))
        backup = Backup(metadata=ObjectMeta(name="b1", namespace="velero"), spec=spec)
        self.taken = TakenSnapshots(self.cluster.client, KINDS, backup, clock=self.clock)

    def snapshot(self, name: str = "s") -> JSONObject:
        made = self.cluster.add(
            KINDS.snapshots, name, "shop", labels={labels.BACKUP_NAME: "b1"}, spec={"source": {}}
        )
        self.taken.made(made, CLAIM, VOLUME)
        return made

    async def sleep(self, seconds: float) -> None:
        self.waited += seconds
        for snapshot in self.cluster.of(KINDS.snapshots):
            if self.binds and "status" not in snapshot:
                self.bind(snapshot)
        for content in list(self.cluster.of(KINDS.contents)):
            self.look_after(content)

    def bind(self, snapshot: JSONObject) -> None:
        metadata = snapshot["metadata"]
        name = f"content-{metadata['name']}"
        reference = {"namespace": metadata["namespace"], "name": metadata["name"]}
        spec = {"driver": "d", "deletionPolicy": "Delete", "source": {"volumeHandle": "v"}}
        self.cluster.add(
            KINDS.contents, name, finalizers=[FINALIZER], spec={**spec, "volumeSnapshotRef": reference}
        )
        snapshot["status"] = {"boundVolumeSnapshotContentName": name, "readyToUse": self.finishes}

    def look_after(self, content: JSONObject) -> None:
        metadata, spec = content["metadata"], content["spec"]
        handle = (content.get("status") or {}).get("snapshotHandle")
        if metadata.get("deletionTimestamp"):
            if handle and spec["deletionPolicy"] == "Delete":
                self.storage.discard(handle)
            self.cluster.vanish(KINDS.contents, metadata["name"])
        elif not handle and self.makes_handles:
            handle = spec["source"].get("snapshotHandle") or f"handle-{metadata['name']}"
            self.storage |= {handle} if "snapshotHandle" not in spec["source"] else set()
            content["status"] = {"snapshotHandle": handle, "readyToUse": True, "restoreSize": 1 << 30}
            metadata["finalizers"] = [FINALIZER]

    async def settled(self) -> set[str]:
        """Return what the storage has, and demand that no object is left."""
        await self.sleep(1)
        assert self.cluster.of(KINDS.snapshots) == self.cluster.of(KINDS.contents) == []
        return self.storage


@pytest.fixture
def driver() -> Driver:
    return Driver()


async def test_a_snapshot_is_kept_without_its_objects_when_it_has_a_handle(driver: Driver) -> None:
    _, content = await driver.taken.wait_and_keep(driver.snapshot())
    assert content["metadata"]["labels"] == {labels.BACKUP_NAME: "b1"}
    assert content["spec"]["deletionPolicy"] == "Retain"
    assert [body.keys() for _, _, body in driver.cluster.patches] == [{"metadata", "spec"}], "in one write"

    log = RunLog(None, fields={})
    snapshots, contents = await driver.taken.collect(log)
    assert ([each["metadata"]["name"] for each in (*snapshots, *contents)], log.errors) == (
        ["s", "content-s"],
        0,
    )
    assert driver.taken.counts == (1, 1)
    assert driver.taken.has_snapshot("shop", "data")
    assert await driver.taken.remove_objects() == []
    assert await driver.settled() == {"handle-content-s"}


@pytest.mark.parametrize(
    ("binds", "reason"),
    [(False, "does a snapshot controller run"), (True, "content-s has no snapshot handle yet")],
)
async def test_a_snapshot_that_is_not_made_in_time_is_deleted(
    driver: Driver, binds: bool, reason: str
) -> None:
    driver.binds, driver.makes_handles = binds, False
    with pytest.raises(CSIError, match=rf"shop/s was not made within {SECONDS}s: .*{reason}"):
        await driver.taken.wait_and_keep(driver.snapshot())
    assert driver.waited == SECONDS
    assert await driver.settled() == set()


async def test_a_snapshot_that_cannot_be_deleted_then_is_named_as_left(driver: Driver) -> None:
    driver.makes_handles = False
    driver.cluster.refuse("delete", "volumesnapshots", Forbidden(403, message="you may not"))
    with pytest.raises(CSIError, match="its VolumeSnapshot stays until the backup is deleted: you may not"):
        await driver.taken.wait_and_keep(driver.snapshot())


async def test_a_snapshot_that_is_not_ready_is_an_error_and_keeps_its_objects(driver: Driver) -> None:
    driver.finishes, log = False, RunLog(None, fields={})
    await driver.taken.wait_and_keep(driver.snapshot())
    await driver.taken.collect(log)
    assert (log.errors, driver.taken.counts) == (1, (1, 0))
    assert await driver.taken.remove_objects() == []
    assert driver.cluster.names(KINDS.snapshots) == ["s"]


async def test_the_snapshots_of_a_backup_that_was_not_stored_are_deleted_but_those_that_move(
    driver: Driver,
) -> None:
    for name in ("s", "moved"):
        await driver.taken.wait_and_keep(driver.snapshot(name))
    driver.taken.moved("shop", "moved", "du-1")

    assert await driver.taken.discard() == []

    await driver.sleep(1)
    assert driver.storage == {"handle-content-moved"}
    assert driver.cluster.names(KINDS.snapshots) == ["moved"]
    assert driver.taken.counts == (1, 0)


async def test_an_object_of_another_of_that_name_is_not_deleted(driver: Driver) -> None:
    await driver.taken.wait_and_keep(driver.snapshot())
    driver.cluster.stored(KINDS.snapshots, "s", "shop")["metadata"]["uid"] = "another"
    (problem,) = await driver.taken.discard()
    assert problem.startswith("error deleting VolumeSnapshot shop/s: ")
    assert driver.cluster.names(KINDS.snapshots) == ["s"]


async def test_a_stored_snapshot_is_deleted_through_a_content_that_is_made_for_it(driver: Driver) -> None:
    driver.storage = {"h1", "of-others"}
    stored = [StoredSnapshot(driver="d", handle="h1")]
    for _ in range(2):
        errors = await delete_csi_snapshots(
            driver.cluster.client, KINDS, stored, backup="b1", namespace="velero", clock=driver.clock
        )
        assert errors == []
        assert await driver.settled() == {"of-others"}


async def test_the_objects_of_a_backup_are_deleted_with_their_snapshots(driver: Driver) -> None:
    await driver.taken.wait_and_keep(driver.snapshot())
    stored = [StoredSnapshot(driver="d", handle="handle-content-s")]
    errors = await delete_csi_snapshots(
        driver.cluster.client, KINDS, stored, backup="b1", namespace="velero", clock=driver.clock
    )
    assert errors == []
    assert await driver.settled() == set()


async def test_without_its_driver_a_stored_snapshot_is_an_error_that_names_it(driver: Driver) -> None:
    driver.storage, driver.makes_handles = {"h1"}, False
    (error,) = await delete_csi_snapshots(
        driver.cluster.client,
        KINDS,
        [StoredSnapshot(driver="d", handle="h1")],
        backup="b1",
        namespace="velero",
        clock=driver.clock,
    )
    assert "h1" in error
    assert "does the csi-snapshotter of the driver d run in this cluster?" in error
    assert driver.waited == TAKE_OVER_SECONDS
    assert driver.storage == {"h1"}
