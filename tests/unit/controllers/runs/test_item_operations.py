"""Backups that wait under a server: steps, restarts, locations that are gone, deletion."""

import dataclasses
from pathlib import Path

import pytest

from pinnace.api.codec import encode
from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.backup.request import ServerDefaults
from pinnace.backup.runner import execute_backup
from pinnace.controllers.backup import BackupWork
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler, NotMarked
from pinnace.controllers.item_operations import (
    BackupSteps,
    OperationSettings,
    OperationsReconciler,
    is_followed,
)
from pinnace.controllers.shared.runs import BACKUP_RUNS
from pinnace.controllers.shared.settling import Settler
from pinnace.kube.resources import BACKUPS, CONFIGMAPS, DELETE_BACKUP_REQUESTS
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from tests.support.plugins.operators import Operations
from tests.support.runs.backup_runs import prepared
from tests.support.runs.context import run_context
from tests.unit.backup.fakes import discovery_of, two_a_page
from tests.unit.controllers.fakes import NAMESPACE, World, key


class Scene:
    """A server whose backup `b1` has started operations, and waits for them."""

    def __init__(self, folder: Path) -> None:
        self.operations = Operations()
        self.world = World(folder)
        self.world.scope = dataclasses.replace(self.world.scope, plugins=self.operations.plugins())
        self.in_flight: set[Key] = set()
        self.world.add_location()
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)

    async def back_up(self) -> Backup:
        """Run the backup, and put it into the cluster as a server would."""
        plugins = self.operations.plugins().operation()
        cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b")
        async with self.world.locations.open("default") as store:
            context = run_context(
                store, cluster, discovery_of(), self.work, clock=self.world.clock, plugins=plugins
            )
            given = prepared(storage_location="default")
            given.metadata.namespace, given.metadata.uid = NAMESPACE, "uid-b1"
            backup = await execute_backup(given, context, actions=plugins.backup_actions)
        obj = encode(backup)
        self.world.cluster.put(obj, BACKUPS, NAMESPACE)
        return backup

    def reconciler(self) -> OperationsReconciler[Backup]:
        """Another one each time, as after a restart."""
        scope = self.world.scope
        work = BackupWork(scope, self.world.locations, defaults=ServerDefaults())
        return OperationsReconciler(
            scope,
            self.world.locations,
            BACKUP_RUNS,
            BackupSteps(scope=scope, work=work, locations=self.world.locations),
            settings=OperationSettings(poll_seconds=10.0, timeout=Duration.hours(4)),
            in_flight=self.in_flight,
        )

    async def reconcile(self) -> Result:
        return await self.reconciler().reconcile(key("b1"))

    @property
    def status(self) -> JSONObject:
        return self.world.cluster.status("backups", "b1")


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    made = Scene(tmp_path)
    await made.back_up()
    return made


@pytest.mark.spec("BEY-014")
async def test_a_look_without_news_patches_nothing_and_comes_again(scene: Scene) -> None:
    assert await scene.reconcile() == Result.after(10.0)

    assert scene.world.cluster.patches == []
    assert scene.in_flight == set()


async def test_another_server_continues_where_one_was_killed(scene: Scene) -> None:
    scene.operations.end("op-a")
    assert await scene.reconcile() == Result.after(10.0)
    assert scene.status["backupItemOperationsCompleted"] == 1

    scene.operations.end("op-b", error="broken")
    assert await scene.reconcile() == Result.after(0)
    assert scene.status["phase"] == BackupPhase.FINALIZING_PARTIALLY_FAILED


async def test_a_location_that_is_gone_ends_the_wait(scene: Scene) -> None:
    scene.world.cluster.vanish("backupstoragelocations", "default")

    assert await scene.reconcile() == DONE

    assert scene.status["phase"] == BackupPhase.FAILED  # the location has no finished backup
    assert "backup storage location default is gone" in scene.status["failureReason"]
    assert scene.status["completionTimestamp"]


async def test_a_location_that_became_read_only_ends_the_wait(scene: Scene) -> None:
    scene.world.cluster.stored("backupstoragelocations", "default")["spec"]["accessMode"] = "ReadOnly"
    scene.operations.end("op-a")

    assert await scene.reconcile() == DONE

    assert scene.status["phase"] == BackupPhase.FAILED


async def test_a_list_that_was_changed_ends_the_wait_and_calls_no_plugin(scene: Scene) -> None:
    async with scene.world.locations.open("default") as store:
        found = list(await store.parked().read_item_operations("b1"))
        found[0]["spec"]["operationID"] = "op-of-another"
        await store.parked().put_item_operations("b1", found)

    assert await scene.reconcile() == DONE

    assert scene.status["phase"] == BackupPhase.PARTIALLY_FAILED
    assert scene.operations.asked == scene.operations.cancelled == []
    # What was backed up can be restored.
    async with scene.world.locations.open("default") as store:
        assert (await store.read_backup("b1")).status.phase == BackupPhase.PARTIALLY_FAILED
        assert await store.contents_size("b1")
    assert [name for name in scene.world.files() if "pinnace-parked" in name] == []


async def test_what_was_parked_and_is_gone_fails_the_backup(scene: Scene) -> None:
    async with scene.world.locations.open("default") as store:
        await store.discard_parked("b1")

    assert await scene.reconcile() == DONE

    assert scene.status["phase"] == BackupPhase.FAILED


async def test_what_a_velero_server_left_waiting_is_not_touched(scene: Scene) -> None:
    obj = scene.world.cluster.stored("backups", "b1")
    assert is_followed(obj)
    del obj["metadata"]["annotations"][ITEM_OPERATIONS]

    assert not is_followed(obj)
    assert await scene.reconcile() == DONE
    assert scene.world.cluster.patches == []


async def test_a_backup_that_was_stored_but_not_patched_before_the_kill_waits_again(scene: Scene) -> None:
    obj = scene.world.cluster.stored("backups", "b1")
    obj["status"] = {"phase": "InProgress", "startTimestamp": obj["status"]["startTimestamp"]}
    obj["metadata"]["annotations"] = {}

    await Settler(scene.world.scope, scene.world.locations).settle_orphans()

    assert scene.status["phase"] == BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS
    scene.operations.end("op-a")
    await scene.reconcile()
    assert scene.status["backupItemOperationsCompleted"] == 1


async def delete(scene: Scene) -> JSONObject:
    """Ask for the deletion of the backup; the request as it is after a pass, empty if it is done."""
    scene.world.cluster.add("deletebackuprequests", "d1", spec={"backupName": "b1"})
    informer = Informer(scene.world.cluster.client, DELETE_BACKUP_REQUESTS, NAMESPACE)
    deletion = BackupDeletionReconciler(
        scene.world.scope, scene.world.locations, informer, running=scene.in_flight
    )
    await deletion.reconcile(key("d1"))
    return scene.world.cluster.status("deletebackuprequests", "d1")


async def test_deleting_a_waiting_backup_cancels_its_operations(scene: Scene) -> None:
    assert await delete(scene) == {}

    assert sorted(scene.operations.cancelled) == ["op-a", "op-b"]
    assert scene.world.cluster.peek("backups", "b1") is None
    assert [name for name in scene.world.files() if name.startswith("backups/")] == []


async def test_a_deletion_waits_while_the_backup_is_finalized(scene: Scene) -> None:
    scene.in_flight.add(key("b1"))

    with pytest.raises(NotMarked):
        await delete(scene)

    assert scene.world.cluster.peek("backups", "b1") is not None
    assert scene.operations.cancelled == []
