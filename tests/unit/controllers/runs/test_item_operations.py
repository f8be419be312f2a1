"""Backups that wait under a server: steps, restarts, locations that are gone, deletion."""

import base64
import dataclasses
import gzip
from functools import partial
from pathlib import Path

import msgspec
import pytest

from pinnace.age.identities import Identities
from pinnace.age.x25519 import X25519Identity
from pinnace.api.codec import decode, encode
from pinnace.api.labels import IDENTITY_SECRET, ITEM_OPERATIONS
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.backup.request import ServerDefaults
from pinnace.backup.runner import execute_backup
from pinnace.controllers.backup import BackupWork
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler, NotMarked
from pinnace.controllers.item_operations import (
    BackupSteps,
    CannotFollow,
    OperationSettings,
    OperationsReconciler,
    RestoreSteps,
    is_followed,
)
from pinnace.controllers.restore import RestoreWork
from pinnace.controllers.shared.backup_keys import BackupKeys
from pinnace.controllers.shared.runs import BACKUP_RUNS
from pinnace.controllers.shared.settling import Settler
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import BACKUPS, CONFIGMAPS, DELETE_BACKUP_REQUESTS
from pinnace.restore.request import RestoreSettings
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

    def __init__(self, folder: Path, *, recipients: str = "") -> None:
        self.operations = Operations()
        self.world = World(folder)
        self.world.scope = dataclasses.replace(self.world.scope, plugins=self.operations.plugins())
        self.in_flight: set[Key] = set()
        own = {"encryption.recipients": recipients} if recipients else {}
        self.world.add_location(config={"path": str(folder), **own})
        self.work = folder / "work"
        self.work.mkdir(exist_ok=True)

    async def back_up(self) -> Backup:
        """Run the backup, and put it into the cluster as a server would."""
        plugins = self.operations.plugins().operation()
        cluster = two_a_page().add_all(CONFIGMAPS, "ns/a", "ns/b")
        async with self.world.locations.open("default") as store:
            given = prepared(storage_location="default")
            given.metadata.namespace, given.metadata.uid = NAMESPACE, "uid-b1"
            context = run_context(
                store, cluster, discovery_of(), self.work, clock=self.world.clock, plugins=plugins
            )
            keep_key = partial(BackupKeys(self.world.scope).keep, given)
            context = msgspec.structs.replace(context, keep_key=keep_key)
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


IDENTITY = X25519Identity.generate()


@pytest.fixture
async def sealed(tmp_path: Path) -> Scene:
    """A backup that waits, in a location with recipients."""
    made = Scene(tmp_path, recipients=str(IDENTITY.recipient))
    await made.back_up()
    return made


def kept_keys(scene: Scene) -> list[JSONObject]:
    return list(scene.world.cluster.of("secrets"))


async def opened_by_recipient(scene: Scene) -> bytes:
    identities = Identities.parse(IDENTITY.secret_text().encode())
    async with (
        scene.world.locations.open("default", identities=identities) as store,
        store.read_bytes("BackupContents", "b1") as stream,
    ):
        return b"".join([block async for block in stream])


async def test_the_key_of_an_encrypted_backup_is_kept_as_long_as_it_waits(
    sealed: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def served(*_arguments: object, **_options: object) -> Discovery:
        return discovery_of()

    monkeypatch.setattr(Discovery, "load", served)
    (secret,) = kept_keys(sealed)
    kept = base64.b64decode(secret["data"]["key"]).decode()
    assert kept.startswith("AGE-SECRET-KEY-1")
    assert kept != IDENTITY.secret_text()
    assert secret["metadata"]["ownerReferences"] == [
        {"apiVersion": "velero.io/v1", "kind": "Backup", "name": "b1", "uid": "uid-b1"}
    ]
    assert secret["metadata"]["labels"]["velero.io/exclude-from-backup"] == "true"

    sealed.operations.end("op-a")
    assert await sealed.reconcile() == Result.after(10.0)
    assert sealed.status["backupItemOperationsCompleted"] == 1
    sealed.operations.end("op-b")
    assert await sealed.reconcile() == Result.after(0)
    assert len(kept_keys(sealed)) == 1
    assert await sealed.reconcile() == DONE

    assert sealed.status["phase"] == BackupPhase.COMPLETED
    assert kept_keys(sealed) == []
    assert gzip.decompress(await opened_by_recipient(sealed))
    root = sealed.world.folder / "bucket-default/backups/b1"
    plain = {path.name for path in root.iterdir() if not path.read_bytes().startswith(b"age-encryption")}
    assert plain == {"velero-backup.json", "b1-pinnace-keys.json", "b1-pinnace-volumes.json"}


@pytest.mark.parametrize("data", [None, {"key": "AAAA"}, {"key": "?"}, {}], ids=str)
async def test_a_key_that_is_gone_or_changed_ends_the_wait_with_what_was_parked(
    sealed: Scene, data: JSONObject | None
) -> None:
    (secret,) = kept_keys(sealed)
    if data is None:
        sealed.world.cluster.vanish("secrets", secret["metadata"]["name"])
    else:
        sealed.world.cluster.stored("secrets", secret["metadata"]["name"])["data"] = data

    assert await sealed.reconcile() == DONE

    assert sealed.status["phase"] == BackupPhase.PARTIALLY_FAILED
    assert "could not be waited for" in sealed.status["failureReason"]
    assert kept_keys(sealed) == []
    assert gzip.decompress(await opened_by_recipient(sealed))


async def test_an_encrypted_backup_that_was_parked_but_not_patched_before_the_kill_waits_again(
    sealed: Scene,
) -> None:
    obj = sealed.world.cluster.stored("backups", "b1")
    obj["status"] = {"phase": "InProgress", "startTimestamp": obj["status"]["startTimestamp"]}
    obj["metadata"]["annotations"] = {}

    await Settler(sealed.world.scope, sealed.world.locations).settle_orphans()

    assert sealed.status["phase"] == BackupPhase.WAITING_FOR_PLUGIN_OPERATIONS
    notes = sealed.world.cluster.stored("backups", "b1")["metadata"]["annotations"]
    assert notes["pinnace.io/encrypted"] == "true"
    sealed.operations.end("op-a")
    await sealed.reconcile()
    assert sealed.status["backupItemOperationsCompleted"] == 1
    assert len(kept_keys(sealed)) == 1


async def test_deleting_an_encrypted_backup_that_waits_cancels_its_operations(sealed: Scene) -> None:
    deletion = BackupDeletionReconciler(
        sealed.world.scope,
        sealed.world.locations,
        Informer(sealed.world.cluster.client, DELETE_BACKUP_REQUESTS, NAMESPACE),
        running=sealed.in_flight,
    )
    backup = decode(Backup, sealed.world.cluster.stored("backups", "b1"))
    async with sealed.world.locations.open("default") as store:
        plugins = sealed.operations.plugins().operation()
        await deletion._cancel_operations(store, plugins, backup)

    assert sorted(sealed.operations.cancelled) == ["op-a", "op-b"]
    assert kept_keys(sealed) == []


async def test_keys_whose_backup_has_ended_or_is_gone_are_swept(sealed: Scene) -> None:
    keys = BackupKeys(sealed.world.scope)
    for name, phase in (("b2", "InProgress"), ("b3", "Completed"), ("b4", "Failed")):
        uid = f"uid-{name}"
        sealed.world.cluster.add("backups", name, uid=uid, status={"phase": phase})
        await keys.keep(decode(Backup, sealed.world.cluster.stored("backups", name)), "AGE-SECRET-KEY-1")
    gone = prepared()
    gone.metadata.uid = "uid-gone"
    await keys.keep(gone, "AGE-SECRET-KEY-1")

    await keys.sweep()

    left = {each["metadata"]["labels"]["pinnace.io/key-of-backup"] for each in kept_keys(sealed)}
    assert left == {"uid-b1", sealed.world.cluster.stored("backups", "b2")["metadata"]["uid"]}


async def test_a_key_is_kept_before_anything_is_parked(tmp_path: Path) -> None:
    scene = Scene(tmp_path, recipients=str(IDENTITY.recipient))

    async def refused(_backup: Backup, _key: str) -> None:
        assert [name for name in scene.world.files() if not name.endswith("-writer.json")] == []
        raise Forbidden(403, message="no Secrets for you")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(BackupKeys, "keep", lambda _self, backup, key: refused(backup, key))
        backup = await scene.back_up()

    assert backup.status.phase == BackupPhase.FAILED
    assert "no Secrets for you" in backup.status.failure_reason
    assert [name for name in scene.world.files() if name.endswith(".gz")] == []


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


@pytest.mark.parametrize("data", [None, {"key": "?"}])
async def test_a_restore_whose_secret_is_gone_or_changed_cannot_be_followed(
    tmp_path: Path, data: JSONObject | None
) -> None:
    scene = Scene(tmp_path)
    if data is not None:
        scene.world.cluster.add("secrets", "keys", data=data)
    restore = Restore(metadata=ObjectMeta(name="r1", annotations={IDENTITY_SECRET: "keys"}))
    work = RestoreWork(scene.world.scope, scene.world.locations, options=RestoreSettings())
    steps = RestoreSteps(scope=scene.world.scope, work=work, volumes_seconds=1.0)
    async with scene.world.locations.open("default") as store:
        with pytest.raises(CannotFollow, match="names Secret 'keys'"):
            await steps.unlocked(store, restore)
