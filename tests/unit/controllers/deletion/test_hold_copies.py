"""Holds of Backups are copied into the location, and taken away with the hold, but never somebody else's."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.velero.backup import Backup
from pinnace.controllers.deletion.backup_deletion import BackupDeletionReconciler
from pinnace.controllers.deletion.gc import GCReconciler
from pinnace.controllers.deletion.hold_copies import HoldCopies
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, NAMESPACES
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.errors import StorageError
from pinnace.storage.holds import Hold
from tests.unit.controllers.fakes import NAMESPACE, Cached, World, key

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)


class Scene:
    """A finished backup `b1` in a location."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queued: list[Key] = []
        world.add_location()
        world.clock.set(NOW)
        for name in ("kube-system", NAMESPACE):
            world.cluster.add(NAMESPACES.name, name, namespace="")
        uid = world.all_of(NAMESPACES.name)["kube-system"]["metadata"]["uid"]
        self.holder = f"{uid}/{NAMESPACE}"
        status = {
            "phase": "Completed",
            "startTimestamp": "2026-11-01T06:00:00Z",
            "expiration": "2026-11-27T06:00:00Z",
        }
        world.cluster.add("backups", "b1", labels={}, spec={"storageLocation": "default"}, status=status)
        self.copies = HoldCopies(
            world.scope, world.locations, Cached(world, BACKUPS), enqueue=self.queued.append
        )

    async def store(self, **notes: str) -> None:
        """Store the backup, with these annotations in its record."""
        backup = decode(Backup, self.world.cluster.stored("backups", "b1"))
        backup.metadata.annotations = dict(notes)
        contents = self.world.folder / "contents.tar.gz"
        contents.write_bytes(b"tarball")
        async with self.world.locations.open("default") as store:
            await store.put_backup(
                BackupFiles(name="b1", metadata=encode_metadata(backup), contents=contents)
            )

    @property
    def notes(self) -> dict[str, str]:
        """The annotations of the Backup."""
        metadata = self.world.cluster.stored("backups", "b1")["metadata"]
        found: dict[str, str] = metadata.setdefault("annotations", {})
        return found

    async def hold(self) -> Hold | None:
        async with self.world.locations.open("default") as store:
            return await store.read_hold("b1")

    async def put(self, hold: Hold) -> None:
        async with self.world.locations.open("default") as store:
            await store.put_hold("b1", hold)

    async def run(self) -> Result:
        return await self.copies.reconcile(key("b1"))


@pytest.fixture
async def scene(tmp_path: Path) -> Scene:
    found = Scene(World(tmp_path))
    await found.store()
    return found


async def test_a_hold_is_copied_once_and_its_copy_goes_with_it(scene: Scene) -> None:
    scene.notes[labels.HOLD] = "audit"
    await scene.copies.enqueue_all()
    assert scene.queued == [key("b1")]
    assert await scene.run() == DONE
    mine = Hold.at(NOW, held=True, reason="audit", holder=scene.holder)
    assert await scene.hold() == mine
    assert scene.notes[labels.HOLD_COPIED] == "audit"
    writes = len(scene.world.cluster.writes())
    await scene.run()
    assert len(scene.world.cluster.writes()) == writes

    scene.notes[labels.HOLD] = "another reason"
    await scene.run()
    assert await scene.hold() == Hold.at(NOW, held=True, reason="another reason", holder=scene.holder)

    del scene.notes[labels.HOLD]
    await scene.run()
    assert await scene.hold() is None
    assert labels.HOLD_COPIED not in scene.notes


@pytest.mark.parametrize("holder", ["", "another-cluster/velero"])
async def test_a_hold_of_somebody_else_is_neither_replaced_nor_deleted(scene: Scene, holder: str) -> None:
    theirs = Hold.at(NOW, held=True, reason="theirs", holder=holder)
    await scene.put(theirs)
    await scene.run()  # without an annotation of ours
    scene.notes[labels.HOLD] = "ours"
    await scene.run()
    assert await scene.hold() == theirs
    assert labels.HOLD_COPIED not in scene.notes  # it is copied once theirs is gone

    scene.notes[labels.HOLD_COPIED] = "ours"
    del scene.notes[labels.HOLD]
    await scene.run()
    assert await scene.hold() == theirs
    assert labels.HOLD_COPIED not in scene.notes


@pytest.mark.parametrize("beside", [None, Hold.at(NOW, held=False)], ids=["no file", "a release"])
async def test_a_hold_that_the_stored_record_has_needs_no_copy(tmp_path: Path, beside: Hold | None) -> None:
    """Every cluster on the bucket has found it there: each copy would outlive a release by the others."""
    scene = Scene(World(tmp_path))
    await scene.store(**{labels.HOLD: "of the template"})
    scene.notes[labels.HOLD] = "of the template"
    if beside is not None:
        await scene.put(beside)
    await scene.run()
    assert await scene.hold() == beside
    assert scene.notes[labels.HOLD_COPIED] == "of the template"


async def test_a_backup_whose_record_cannot_be_read_is_held_too(scene: Scene) -> None:
    [record] = scene.world.folder.rglob("velero-backup.json")
    record.write_text("{")
    scene.notes[labels.HOLD] = "evidence"
    await scene.run()
    found = await scene.hold()
    assert found is not None
    assert found.reason == "evidence"


async def test_a_new_hold_replaces_a_release_beside_the_files(scene: Scene) -> None:
    await scene.put(Hold.at(NOW, held=False))
    scene.notes[labels.HOLD] = "since then"
    await scene.run()
    found = await scene.hold()
    assert found is not None
    assert found.reason == "since then"


@pytest.mark.parametrize("what", ["read-only", "unfinished", "not stored", "no identity"])
async def test_where_nothing_can_be_copied_nothing_is_noted(tmp_path: Path, what: str) -> None:
    scene = Scene(World(tmp_path))
    if what != "not stored":
        await scene.store()
    scene.notes[labels.HOLD] = "audit"
    if what == "read-only":
        scene.world.add_location(accessMode="ReadOnly")
    elif what == "unfinished":
        scene.world.cluster.stored("backups", "b1")["status"]["phase"] = "InProgress"
    elif what == "no identity":
        scene.world.cluster.vanish(NAMESPACES.name, "kube-system", namespace="")

    assert await scene.run() == DONE

    assert labels.HOLD_COPIED not in scene.notes
    assert await scene.hold() is None


async def test_a_location_that_cannot_be_written_now_is_an_error_that_is_tried_again(scene: Scene) -> None:
    scene.notes[labels.HOLD] = "audit"
    (scene.world.folder / "bucket-default").rename(scene.world.folder / "away")
    with pytest.raises(StorageError):
        await scene.run()
    (scene.world.folder / "away").rename(scene.world.folder / "bucket-default")
    await scene.run()
    assert scene.notes[labels.HOLD_COPIED] == "audit"


@pytest.mark.parametrize("ours", [True, False], ids=["released here", "held by somebody else"])
async def test_a_released_copy_keeps_nothing_while_it_waits_to_be_deleted(scene: Scene, ours: bool) -> None:
    holder = scene.holder if ours else "another-cluster/velero"
    await scene.put(Hold.at(NOW, held=True, reason="audit", holder=holder))
    scene.notes[labels.HOLD_COPIED] = "audit"
    world = scene.world
    expired = GCReconciler(
        world.scope, world.locations, Cached(world, BACKUPS), running=set(), enqueue=scene.queued.append
    )
    await expired.reconcile(key("b1"))
    assert len(world.all_of(DELETE_BACKUP_REQUESTS.name)) == int(ours)

    marks = {labels.BACKUP_NAME: "b1", labels.BACKUP_UID: "uid-b1"}
    world.cluster.add(DELETE_BACKUP_REQUESTS.name, "q1", labels=marks, spec={"backupName": "b1"})
    requests = Cached(world, DELETE_BACKUP_REQUESTS)
    deletion = BackupDeletionReconciler(world.scope, world.locations, requests, running=set())
    await deletion.reconcile(key("q1"))

    left = [name for name in world.files() if name.startswith("backups/b1/")]
    assert bool(left) != ours


async def test_a_hold_that_is_found_again_without_its_note_still_holds(scene: Scene) -> None:
    """Its Backup was deleted and found in the location: nobody has released it."""
    await scene.put(Hold.at(NOW, held=True, reason="audit", holder=scene.holder))
    world = scene.world
    expired = GCReconciler(
        world.scope, world.locations, Cached(world, BACKUPS), running=set(), enqueue=scene.queued.append
    )
    await expired.reconcile(key("b1"))
    await scene.run()
    assert world.all_of(DELETE_BACKUP_REQUESTS.name) == {}
    assert await scene.hold() is not None
