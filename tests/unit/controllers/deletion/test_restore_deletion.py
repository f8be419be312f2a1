"""Restores with Velero's finalizer: their files go, then they do. (docs/spec: BEY 5.8)"""

import shutil

import pytest

from pinnace.api.objects import JSONObject
from pinnace.controllers.deletion.restore_deletion import FINALIZER, RestoreDeletionReconciler, is_held
from pinnace.runtime.controller import DONE, Result
from pinnace.storage.errors import StorageError
from tests.unit.controllers.fakes import World, key

OTHER = "example.com/keep"
FILES = ("restores/r1/restore-r1-logs.gz", "restores/r1/r1-volumeinfo.json.gz")


def add(world: World, *finalizers: str, deleted: bool = True) -> None:
    world.cluster.add("restores", "r1", spec={"backupName": "b1"})
    metadata = world.cluster.stored("restores", "r1")["metadata"]
    metadata["finalizers"] = list(finalizers)
    if deleted:
        metadata["deletionTimestamp"] = "2021-08-11T21:43:26Z"


def write(world: World, *names: str) -> None:
    for name in names:
        path = world.folder / "bucket-default" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")


def finalizers(world: World) -> list[str]:
    found: list[str] = world.cluster.stored("restores", "r1")["metadata"]["finalizers"]
    return found


@pytest.fixture
def located(world: World) -> World:
    world.add_location()
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"})
    write(world, *FILES, "restores/r10/restore-r10-logs.gz", "backups/b1/velero-backup.json")
    return world


@pytest.mark.spec("BEY-054")
async def test_the_files_of_a_deleted_restore_go_and_then_only_this_finalizer(located: World) -> None:
    add(located, OTHER, FINALIZER)

    assert await RestoreDeletionReconciler(located.scope, located.locations).reconcile(key("r1")) == DONE

    assert finalizers(located) == [OTHER]
    assert located.files() == ["backups/b1/velero-backup.json", "restores/r10/restore-r10-logs.gz"]


@pytest.mark.spec("BEY-054")
@pytest.mark.parametrize("missing", [("backups", "b1"), ("backupstoragelocations", "default")])
async def test_without_the_backup_or_its_location_the_finalizer_is_taken_off(
    located: World, missing: tuple[str, str]
) -> None:
    add(located, FINALIZER)
    located.cluster.vanish(*missing)

    await RestoreDeletionReconciler(located.scope, located.locations).reconcile(key("r1"))

    assert located.cluster.peek("restores", "r1") is None
    assert set(FILES) <= set(located.files())


@pytest.mark.spec("BEY-054")
@pytest.mark.parametrize("trouble", ["unavailable", "read-only"])
async def test_a_location_that_cannot_be_used_keeps_the_finalizer(located: World, trouble: str) -> None:
    add(located, FINALIZER)
    if trouble == "read-only":
        located.cluster.stored("backupstoragelocations", "default")["spec"]["accessMode"] = "ReadOnly"
    else:
        shutil.rmtree(located.folder / "bucket-default")

    with pytest.raises(StorageError):
        await RestoreDeletionReconciler(located.scope, located.locations).reconcile(key("r1"))

    assert finalizers(located) == [FINALIZER]


async def test_a_restore_that_still_runs_is_waited_for(located: World) -> None:
    add(located, FINALIZER)
    reconciler = RestoreDeletionReconciler(located.scope, located.locations, {key("r1")})

    assert await reconciler.reconcile(key("r1")) == Result.after(5.0)

    assert finalizers(located) == [FINALIZER]
    assert set(FILES) <= set(located.files())


@pytest.mark.parametrize(
    ("obj", "held"),
    [
        ({"metadata": {"finalizers": [FINALIZER], "deletionTimestamp": "x"}}, True),
        ({"metadata": {"finalizers": [FINALIZER]}}, False),
        ({"metadata": {"finalizers": [OTHER], "deletionTimestamp": "x"}}, False),
        ({"metadata": {"deletionTimestamp": "x"}}, False),
    ],
    ids=["held", "not deleted", "of another", "none"],
)
def test_only_deleted_restores_with_the_finalizer_are_looked_at(obj: JSONObject, held: bool) -> None:
    assert is_held(obj) is held


async def test_an_untouched_restore_keeps_files_and_finalizer(located: World) -> None:
    add(located, FINALIZER, deleted=False)

    await RestoreDeletionReconciler(located.scope, located.locations).reconcile(key("r1"))

    assert finalizers(located) == [FINALIZER]
    assert set(FILES) <= set(located.files())
