"""Which Backups expire, and that their deletion is asked for once."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.controllers.deletion.gc import GCReconciler
from pinnace.kube.errors import ConnectionFailed, Forbidden, KubeError, NotFound
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS
from pinnace.runtime.controller import DONE
from pinnace.runtime.keys import Key
from pinnace.storage.holds import Hold
from tests.unit.controllers.fakes import BROKEN, Cached, World, fail_always, fail_once, key

NOW = "2021-08-11T21:43:26Z"
PAST = "2021-08-11T21:43:25Z"
FUTURE = "2021-08-11T21:43:27Z"
LONG_NAME = "b" * 70


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.running: set[Key] = set()
        self.queued: list[Key] = []
        self.reconciler = GCReconciler(
            world.scope,
            world.locations,
            Cached(world, BACKUPS),
            running=self.running,
            enqueue=self.queued.append,
        )

    def add(self, name: str = "b1", *, expiration: str | None = PAST, phase: str = "Completed") -> None:
        status = {"phase": phase, "startTimestamp": "2021-07-11T21:43:26Z"}
        if expiration:
            status["expiration"] = expiration
        self.world.cluster.add("backups", name, labels={}, spec={"storageLocation": "default"}, status=status)

    def request(self, phase: str | None, *, backup: str = "b1", uid: str = "uid-b1") -> None:
        marks = {labels.BACKUP_NAME: backup, labels.BACKUP_UID: uid}
        status: dict[str, Any] = {} if phase is None else {"status": {"phase": phase}}
        self.world.cluster.add(DELETE_BACKUP_REQUESTS.name, f"old-{phase}-{uid}", labels=marks, **status)

    @property
    def created(self) -> list[dict[str, Any]]:
        names = [name for verb, plural, name in self.world.cluster.calls if verb == "create"]
        assert all(
            plural == DELETE_BACKUP_REQUESTS.name or verb == "patch"
            for verb, plural, _ in self.world.cluster.writes()
        )
        return [self.world.all_of(DELETE_BACKUP_REQUESTS.name)[name] for name in names]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    world = World(tmp_path)
    world.add_location()
    return Scene(world)


@pytest.mark.spec("CTL-026")
@pytest.mark.parametrize("expiration", [None, FUTURE])
async def test_a_backup_that_has_not_expired_is_left_alone(scene: Scene, expiration: str | None) -> None:
    scene.add(expiration=expiration)

    assert await scene.reconciler.reconcile(key("b1")) == DONE
    assert await scene.reconciler.reconcile(key("nobody")) == DONE

    assert scene.created == []


@pytest.mark.spec("CTL-026")
@pytest.mark.parametrize("name", ["b1", LONG_NAME], ids=["short", "long"])
@pytest.mark.parametrize("mode", [None, "ReadWrite"])
@pytest.mark.parametrize("expiration", [PAST, NOW])
async def test_the_deletion_of_an_expired_backup_is_asked_for_once(
    scene: Scene, expiration: str, mode: str | None, name: str
) -> None:
    scene.world.add_location(**({"accessMode": mode} if mode else {}))
    scene.add(name, expiration=expiration)

    for _ in range(3):
        assert await scene.reconciler.reconcile(key(name)) == DONE

    (request,) = scene.created
    assert request["metadata"]["generateName"] == f"{name}-"
    assert request["metadata"]["labels"] == {
        labels.BACKUP_NAME: labels.label_value(name),
        labels.BACKUP_UID: f"uid-{name[:20]}",
    }
    assert request["metadata"]["annotations"] == {labels.REMOVAL_REASON: "expiry"}
    assert request["spec"] == {"backupName": name}
    assert "status" not in request


@pytest.mark.parametrize(
    "phase", ["", "New", "FailedValidation", "InProgress", "PartiallyFailed", "Failed", "Deleting"]
)
async def test_expired_backups_of_every_phase_are_deleted(scene: Scene, phase: str) -> None:
    scene.add(phase=phase)

    await scene.reconciler.reconcile(key("b1"))

    assert len(scene.created) == 1


async def test_a_backup_that_this_server_is_making_is_waited_for(scene: Scene) -> None:
    scene.add(phase="InProgress")
    scene.running.add(key("b1"))
    await scene.reconciler.reconcile(key("b1"))
    assert scene.created == []

    scene.add(phase="Completed")
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.created) == 1


@pytest.mark.spec("BEY-066")
async def test_a_label_says_what_keeps_an_expired_backup(scene: Scene) -> None:
    cluster = scene.world.cluster

    def label() -> str | None:
        found: str | None = cluster.stored("backups", "b1")["metadata"]["labels"].get("velero.io/gc-failure")
        return found

    scene.add(expiration=FUTURE)
    cluster.stored("backups", "b1")["metadata"]["labels"]["a"] = "b"
    await scene.reconciler.reconcile(key("b1"))
    assert (cluster.writes(), label()) == ([], None)

    cluster.stored("backups", "b1")["status"]["expiration"] = PAST
    location = cluster.stored("backupstoragelocations", "default")
    cluster.vanish("backupstoragelocations", "default")
    for _ in range(2):
        await scene.reconciler.reconcile(key("b1"))
    assert label() == "BSLNotFound"
    assert len(cluster.writes()) == 1

    location = cluster.put(location)
    cluster.before = fail_once("get", "backupstoragelocations", error=Forbidden(403, reason="Forbidden"))
    await scene.reconciler.reconcile(key("b1"))
    assert label() == "BSLCannotGet"

    location["spec"]["accessMode"] = "ReadOnly"
    await scene.reconciler.reconcile(key("b1"))
    assert label() == "BSLReadOnly"

    location["spec"]["accessMode"] = "ReadWrite"
    location["status"] = {"phase": "Unavailable"}
    await scene.reconciler.reconcile(key("b1"))
    assert label() == "BSLUnavailable"
    assert scene.world.all_of(DELETE_BACKUP_REQUESTS.name) == {}

    location["status"] = {"phase": "Available"}
    await scene.reconciler.reconcile(key("b1"))
    assert label() is None
    assert cluster.stored("backups", "b1")["metadata"]["labels"] == {"a": "b"}
    [request] = scene.world.all_of(DELETE_BACKUP_REQUESTS.name).values()
    # One that is New is enough; a Processed one has ended, and the backup is still there.
    await scene.reconciler.reconcile(key("b1"))
    request["status"] = {"phase": "Processed"}
    assert len(scene.world.all_of(DELETE_BACKUP_REQUESTS.name)) == 1
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.world.all_of(DELETE_BACKUP_REQUESTS.name)) == 2


@pytest.mark.spec("CTL-026")
async def test_nothing_is_asked_of_a_read_only_location(scene: Scene) -> None:
    scene.world.add_location(accessMode="ReadOnly")
    scene.add()

    assert await scene.reconciler.reconcile(key("b1")) == DONE

    assert scene.created == []


@pytest.mark.spec("CTL-026")
@pytest.mark.parametrize(
    ("phases", "asked"),
    [
        (["Processed"], True),
        (["Processed", "InProgress"], False),
        (["New"], False),
        ([None], False),
        ([""], False),
    ],
)
async def test_a_request_that_is_worked_on_is_enough(
    scene: Scene, phases: list[str | None], asked: bool
) -> None:
    scene.add()
    scene.request("New", uid="of-a-former-backup")
    scene.request("New", backup="another")
    for phase in phases:
        scene.request(phase)

    await scene.reconciler.reconcile(key("b1"))

    assert len(scene.created) == (1 if asked else 0)


@pytest.mark.found("L7")
@pytest.mark.spec("CTL-026")
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NotFound(404, message="not found"), "its storage location does not exist"),
        (Forbidden(403, message="you may not"), "its storage location cannot be read"),
    ],
)
async def test_without_its_location_it_is_kept_which_is_said_once(
    scene: Scene, error: KubeError, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Each pass over all Backups looks again, and nothing between them does."""
    scene.add()
    scene.world.cluster.before = fail_always("get", "backupstoragelocations", error=error)

    for _ in range(3):
        assert await scene.reconciler.reconcile(key("b1")) == DONE

    assert scene.created == []
    assert caplog.text.count(text) == 1
    scene.world.cluster.before = lambda *_: None
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.created) == 1


@pytest.mark.found("L7")
@pytest.mark.parametrize("spec", [{}, {"storageLocation": "gone"}, {"storageLocation": "default"}])
async def test_a_backup_that_never_began_needs_no_location(scene: Scene, spec: dict[str, Any]) -> None:
    status = {"phase": "FailedValidation", "expiration": PAST}
    scene.world.cluster.add("backups", "b1", spec=spec, status=status)

    await scene.reconciler.reconcile(key("b1"))

    assert len(scene.created) == 1


@pytest.mark.spec("CTL-026")
@pytest.mark.parametrize("error", [BROKEN, Forbidden(403, message="no")])
@pytest.mark.parametrize("verb", ["get", "list", "create"])
async def test_an_error_of_the_api_server_is_raised(scene: Scene, verb: str, error: KubeError) -> None:
    scene.add()
    scene.world.cluster.before = fail_always(verb, error=error)

    with pytest.raises(type(error)):
        await scene.reconciler.reconcile(key("b1"))


@pytest.mark.parametrize("verb", ["get", "list", "create"])
async def test_a_server_that_dies_anywhere_leaves_one_request(scene: Scene, verb: str) -> None:
    scene.add()
    scene.world.cluster.after = fail_once(verb)

    with pytest.raises(ConnectionFailed):
        await scene.reconciler.reconcile(key("b1"))
    await scene.reconciler.reconcile(key("b1"))

    assert len(scene.created) == 1


async def test_a_backup_that_is_being_deleted_or_cannot_be_read_is_left_alone(scene: Scene) -> None:
    scene.add()
    scene.world.cluster.stored("backups", "b1")["metadata"]["deletionTimestamp"] = NOW
    scene.add("b2")
    scene.world.cluster.stored("backups", "b2")["spec"]["ttl"] = "often"

    await scene.reconciler.reconcile(key("b1"))
    await scene.reconciler.reconcile(key("b2"))

    assert scene.created == []


async def test_only_what_has_expired_is_queued_and_without_a_request(scene: Scene) -> None:
    scene.add("b1")
    scene.add("b2", expiration=FUTURE)
    scene.add("b3", expiration=None)
    scene.add("b4")
    scene.world.cluster.stored("backups", "b4")["spec"]["ttl"] = "often"

    await scene.reconciler.enqueue_expired()
    assert scene.queued == [key("b1")]
    scene.world.clock.turn(1)
    await scene.reconciler.enqueue_expired()

    assert scene.queued == [key("b1"), key("b1"), key("b2")]
    assert scene.world.cluster.calls == []


@pytest.mark.found("L5")
@pytest.mark.parametrize("difference", [timedelta(days=-30), timedelta(minutes=3)])
async def test_nothing_expires_while_the_clocks_differ(
    scene: Scene, difference: timedelta, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add("b1")
    scene.add("b2")
    scene.world.cluster.clock_difference = difference
    for name in ("b1", "b2"):
        assert await scene.reconciler.reconcile(key(name)) == DONE
    assert scene.created == []
    assert caplog.text.count("Backups that have expired are kept for now") == 1

    scene.world.cluster.clock_difference = timedelta(seconds=5)
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.created) == 1


@pytest.mark.parametrize("phase", ["Completed", "FailedValidation"])
async def test_a_held_backup_does_not_expire(scene: Scene, phase: str) -> None:
    scene.add(phase=phase)
    backup = scene.world.cluster.stored("backups", "b1")
    backup["metadata"]["annotations"] = {labels.HOLD: ""}
    if phase != "Completed":
        del backup["status"]["startTimestamp"]
    await scene.reconciler.reconcile(key("b1"))
    assert scene.created == []

    del backup["metadata"]["annotations"][labels.HOLD]
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.created) == 1


async def test_a_hold_beside_the_files_keeps_an_expired_backup(scene: Scene) -> None:
    scene.add()
    async with scene.world.locations.open("default") as store:
        await store.put_hold("b1", Hold(held=True, reason="audit"))
        await scene.reconciler.reconcile(key("b1"))
        assert scene.created == []

        await store.delete_hold("b1")
    await scene.reconciler.reconcile(key("b1"))
    assert len(scene.created) == 1
