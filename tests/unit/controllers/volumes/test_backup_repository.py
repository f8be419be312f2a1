"""Repositories are made, tried again, unlocked and pruned; each at its time, with the right words."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from pinnace.api import labels
from pinnace.api.values.durations import Duration
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.backup_repository import (
    RepositoryReconciler,
    is_displaced,
    is_ready,
)
from pinnace.controllers.repository_maintenance import MaintenanceReconciler
from pinnace.controllers.shared.repository_presence import RepositoryPresence
from pinnace.kube.errors import ConnectionFailed
from pinnace.runtime.cache import Cache
from pinnace.runtime.controller import CHANGED, DONE
from pinnace.volumes.repositories import Repositories
from pinnace.volumes.restic.errors import command_failed
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.locks import RepositoryLocks
from tests.support.clock import ScriptedClock
from tests.support.tasks import settled
from tests.unit.controllers.fakes import NAMESPACE, World, fail_once, key

PLURAL = "backuprepositories"
MISSING = "Fatal: x\nIs there a repository at the following location?\ny"
LOCKED = "repository is already locked exclusively by PID 7"
NOW = "2021-08-11T21:43:26Z"


def failure(stderr: str) -> UploaderError:
    return command_failed("restic x", exit_code=1, stdout="", stderr=stderr)


class FakeRestic:
    """Attributes:
    calls: what was asked for, in order.
    fails: errors by operation.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.places: set[Repository] = set()
        self.fails: dict[str, UploaderError] = {}
        self.during: Callable[[str], None] = lambda _operation: None

    async def connect(self, repository: Repository) -> None:
        self._do("connect", repository)

    async def init(self, repository: Repository) -> None:
        self._do("init", repository)

    async def unlock(self, repository: Repository) -> None:
        self._do("unlock", repository)

    async def maintain(self, repository: Repository) -> None:
        self._do("maintain", repository)

    def _do(self, operation: str, repository: Repository) -> None:
        self.calls.append(operation)
        self.places.add(repository)
        self.during(operation)
        if operation in self.fails:
            raise self.fails[operation]


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.restic = FakeRestic()
        self.locks = RepositoryLocks()
        self.region = ""
        self.asked: list[str] = []
        self.making = RepositoryReconciler(
            world.scope,
            RepositoryPresence(world.locations),
            self.restic,
            self.locks,
            frequency=Duration(),
            find_region=self._find_region,
        )
        self.maintaining = MaintenanceReconciler(world.scope, self.restic, self.locks)

    async def _find_region(self, location: BackupStorageLocation) -> str:
        self.asked.append(location.spec.object_storage.bucket)
        return self.region

    def add(
        self,
        *,
        identifier: str = "",
        frequency: str = "0s",
        location: str = "default",
        requested: bool = True,
        **status: Any,
    ) -> None:
        marks = {labels.VOLUME_NAMESPACE: "shop", labels.STORAGE_LOCATION: location}
        spec = {
            "volumeNamespace": "shop",
            "backupStorageLocation": location,
            "resticIdentifier": identifier,
            "maintenanceFrequency": frequency,
        }
        self.world.cluster.add(PLURAL, "repo", labels=marks, spec=spec, status=status)
        if requested:  # by a backup
            metadata = self.world.cluster.stored(PLURAL, "repo")["metadata"]
            metadata["annotations"] = {labels.INITIALIZE_REPOSITORY: "true"}

    async def reconcile(self) -> None:
        """One pass of both, as a resync makes it."""
        for reconciler in (self.making, self.maintaining):
            assert await reconciler.reconcile(key("repo")) == DONE

    def mount(self) -> None:
        """Make sure that the location is there."""
        (self.world.folder / "bucket-default").mkdir(exist_ok=True)

    @property
    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = self.world.cluster.stored(PLURAL, "repo")["spec"]
        return spec

    @property
    def status(self) -> dict[str, Any]:
        return self.world.cluster.status(PLURAL, "repo")

    def patches(self) -> int:
        return sum(call[0] == "patch" for call in self.world.cluster.calls)


@pytest.fixture
def scene(world: World) -> Scene:
    world.add_location()
    return Scene(world)


@pytest.mark.spec("CTL-057", "AFT-176")
@pytest.mark.parametrize("phase", ["", "New"])
@pytest.mark.parametrize("written", [{}, {"repositoryType": ""}, {"repositoryType": "restic"}])
async def test_a_new_repository_is_opened(
    scene: Scene, phase: str, written: dict[str, str], world: World
) -> None:
    scene.add(phase=phase)
    scene.spec.update(written)

    await scene.making.reconcile(key("repo"))

    identifier = f"{world.folder}/bucket-default/restic/shop"
    assert scene.spec["resticIdentifier"] == identifier
    assert scene.spec["maintenanceFrequency"] == "168h0m0s"
    assert scene.status == {"phase": "Ready", "lastMaintenanceTime": NOW}
    assert scene.restic.calls == ["connect"]
    assert {place.uploader for place in scene.restic.places} == {"restic"}
    assert scene.restic.places == {Repository(identifier=identifier, location="default", namespace="shop")}


async def test_the_series_of_a_repository_that_is_gone_are_dropped(scene: Scene, world: World) -> None:
    await scene.reconcile()

    assert world.metrics.calls == [("repository_gone", "repo")]


@pytest.mark.spec("CTL-057", "PVL-053")
async def test_a_missing_repository_is_made(scene: Scene) -> None:
    scene.add()
    scene.restic.fails["connect"] = failure(MISSING)
    scene.mount()

    await scene.making.reconcile(key("repo"))

    assert scene.restic.calls == ["connect", "init"]
    assert scene.status["phase"] == "Ready"


@pytest.mark.parametrize("phase", ["New", "NotReady"])
async def test_a_repository_that_no_backup_has_asked_for_is_not_made(scene: Scene, phase: str) -> None:
    scene.add(requested=False, phase=phase)
    scene.restic.fails["connect"] = failure(MISSING)
    scene.mount()

    await scene.making.reconcile(key("repo"))

    assert "init" not in scene.restic.calls
    assert scene.status["phase"] == "NotReady"
    assert scene.status["message"].startswith("there is no repository, and only a backup makes one: ")


@pytest.mark.spec("CTL-057", "PVL-053")
@pytest.mark.parametrize(
    ("fails", "calls"),
    [
        ({"connect": failure(LOCKED)}, ["connect"]),
        ({"connect": failure(MISSING), "init": failure("no room")}, ["connect", "init"]),
    ],
)
async def test_other_errors_make_a_repository_not_ready(
    scene: Scene, fails: dict[str, UploaderError], calls: list[str]
) -> None:
    scene.add()
    scene.restic.fails = fails
    scene.mount()

    await scene.making.reconcile(key("repo"))

    assert scene.restic.calls == calls
    assert scene.status == {"phase": "NotReady", "message": str(fails[calls[-1]])}


@pytest.mark.spec("CTL-057", "PVL-056")
async def test_a_repository_without_location_recovers_when_there_is_one(scene: Scene, world: World) -> None:
    scene.add(location="other")

    await scene.reconcile()
    assert scene.status == {
        "phase": "NotReady",
        "message": 'backupstoragelocations.velero.io "other" not found',
    }
    assert scene.spec["maintenanceFrequency"] == "168h0m0s"
    assert scene.restic.calls == []

    world.add_location("other")
    await scene.reconcile()
    assert scene.status["phase"] == "Ready"
    assert "message" not in scene.status


@pytest.mark.found("E-F2")
@pytest.mark.parametrize("phase", ["New", "NotReady", "Ready"])
async def test_the_repository_of_a_deleted_location_is_deleted(
    scene: Scene, world: World, phase: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add(location="gone", phase=phase, lastMaintenanceTime="2021-08-11T21:00:00Z")
    if phase == "New":  # a backup, or a restore, waits for an answer
        await scene.reconcile()
        assert scene.status["phase"] == "NotReady"
        assert "not found" in scene.status["message"]

    await scene.reconcile()
    assert world.cluster.peek(PLURAL, "repo") is None
    assert scene.restic.calls in ([], ["connect"])
    told = len(caplog.records)
    await scene.reconcile()
    assert len(caplog.records) == told


async def test_a_problem_is_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.add()
    scene.restic.fails["connect"] = failure("wrong password")
    for _ in range(3):
        await scene.reconcile()
    assert caplog.messages.count("Repository is not ready") == 1


@pytest.mark.parametrize("was_ready", [False, True])
async def test_no_repository_is_made_where_the_location_is_missing(scene: Scene, was_ready: bool) -> None:
    if was_ready:
        scene.add(identifier="/x/shop", phase="NotReady", lastMaintenanceTime=NOW)
    else:
        scene.add()
    scene.restic.fails["connect"] = failure(MISSING)
    folder = scene.world.folder / "bucket-default"
    if folder.exists():
        folder.rmdir()

    await scene.making.reconcile(key("repo"))

    assert "init" not in scene.restic.calls
    assert scene.status["phase"] == "NotReady"
    assert f"the directory {folder} does not exist" in scene.status["message"]


async def test_a_repository_that_was_never_ready_follows_its_location(scene: Scene, world: World) -> None:
    scene.add()
    scene.restic.fails["connect"] = failure("no such bucket")
    await scene.reconcile()

    world.cluster.stored("backupstoragelocations", "default")["spec"]["objectStorage"]["bucket"] = "right"
    scene.restic.fails.clear()
    await scene.reconcile()

    assert scene.spec["resticIdentifier"] == f"{world.folder}/right/restic/shop"
    assert scene.status["phase"] == "Ready"


async def test_a_repository_that_was_ready_keeps_its_identifier(scene: Scene) -> None:
    scene.add(identifier="/old/shop", phase="NotReady", message="m", lastMaintenanceTime=NOW)

    await scene.making.reconcile(key("repo"))

    assert scene.restic.calls == ["unlock", "connect"]
    assert scene.spec["resticIdentifier"] == "/old/shop"
    assert scene.status == {"phase": "Ready", "lastMaintenanceTime": NOW}


async def test_an_unchanged_repository_is_not_written_again(scene: Scene) -> None:
    scene.add()
    scene.restic.fails["connect"] = failure(LOCKED)
    await scene.reconcile()
    before = scene.patches()

    await scene.reconcile()

    assert scene.patches() == before
    assert scene.restic.calls == ["connect", "unlock", "connect"]


@pytest.mark.parametrize(("region", "host"), [("eu-central-1", "s3-eu-central-1"), ("", "s3")])
async def test_the_region_of_a_bucket_of_aws_is_asked_for(
    scene: Scene, region: str, host: str, world: World
) -> None:
    world.add_location("cloud", provider="aws", config={"region": "elsewhere"})
    scene.region = region
    scene.add(location="cloud")

    await scene.making.reconcile(key("repo"))

    assert scene.asked == ["bucket-cloud"]
    assert scene.spec["resticIdentifier"] == f"s3:{host}.amazonaws.com/bucket-cloud/restic/shop"


async def test_an_error_that_may_pass_does_not_change_the_repository(scene: Scene, world: World) -> None:
    scene.add()
    world.cluster.before = fail_once("get", "backupstoragelocations")

    with pytest.raises(ConnectionFailed):
        await scene.making.reconcile(key("repo"))
    assert scene.status == {}

    await scene.making.reconcile(key("repo"))
    assert scene.status["phase"] == "Ready"


@pytest.mark.spec("CTL-057", "PVL-054")
async def test_a_repository_that_is_due_is_pruned(scene: Scene) -> None:
    scene.add(
        identifier="/x/shop", frequency="168h0m0s", phase="Ready", lastMaintenanceTime="2021-08-03T21:43:26Z"
    )

    await scene.reconcile()

    assert scene.restic.calls == ["unlock", "maintain"]
    done = {"result": "Succeeded", "startTimestamp": NOW, "completeTimestamp": NOW}
    assert scene.status == {"phase": "Ready", "lastMaintenanceTime": NOW, "recentMaintenance": [done]}


@pytest.mark.parametrize(
    ("age", "message", "due"),
    [
        (timedelta(hours=167), "", False),
        (timedelta(hours=168), "", False),
        (timedelta(hours=168, seconds=1), "", True),
        (timedelta(hours=23), "prune failed", False),
        (timedelta(hours=25), "prune failed", True),
        (None, "", True),
    ],
)
async def test_a_repository_is_due_after_its_period_or_a_failure(
    scene: Scene, age: timedelta | None, message: str, due: bool, world: World
) -> None:
    last = (world.clock.now() - age).strftime("%Y-%m-%dT%H:%M:%SZ") if age is not None else None
    scene.add(identifier="/x/shop", phase="Ready", message=message, lastMaintenanceTime=last)

    await scene.reconcile()

    assert ("maintain" in scene.restic.calls) is due
    assert scene.restic.calls[0] == "unlock"


@pytest.mark.spec("CTL-057", "PVL-055")
async def test_a_failed_prune_leaves_a_repository_ready_and_the_next_one_removes_the_message(
    scene: Scene, world: World
) -> None:
    scene.add(identifier="/x/shop", phase="Ready")
    scene.restic.fails["maintain"] = failure(LOCKED)

    await scene.reconcile()
    message = str(failure(LOCKED))
    failed = {"result": "Failed", "startTimestamp": NOW, "completeTimestamp": NOW, "message": message}
    assert scene.status == {
        "phase": "Ready",
        "message": message,
        "lastMaintenanceTime": NOW,
        "recentMaintenance": [failed],
    }

    scene.restic.fails.clear()
    world.clock.turn(timedelta(days=8))
    await scene.reconcile()
    assert "message" not in scene.status
    assert scene.status["lastMaintenanceTime"] == "2021-08-19T21:43:26Z"

    for _ in range(30):
        world.clock.turn(timedelta(days=8))
        await scene.reconcile()
    assert len(scene.status["recentMaintenance"]) == 25


async def test_the_time_of_maintenance_is_that_of_its_beginning(scene: Scene, world: World) -> None:
    scene.add(identifier="/x/shop", phase="Ready")

    def take_hours(operation: str) -> None:
        if operation == "maintain":
            world.clock.turn(timedelta(hours=2))

    scene.restic.during = take_hours

    await scene.reconcile()

    assert scene.status["lastMaintenanceTime"] == NOW


async def test_stale_locks_that_cannot_be_removed_stop_nothing(scene: Scene) -> None:
    scene.add(identifier="/x/shop", phase="Ready")
    scene.restic.fails["unlock"] = failure("no way")

    await scene.reconcile()

    assert scene.restic.calls == ["unlock", "maintain"]
    assert "message" not in scene.status


@pytest.mark.parametrize("operation", ["unlock", "maintain"])
@pytest.mark.parametrize("said", [MISSING, "wrong password or no key found"])
async def test_a_repository_that_cannot_be_opened_any_more_is_not_ready(
    scene: Scene, operation: str, said: str
) -> None:
    scene.add(identifier="/x/shop", phase="Ready")
    scene.restic.fails[operation] = failure(said)

    await scene.reconcile()

    assert (scene.status["phase"], scene.status["message"]) == ("NotReady", str(failure(said)))


MOVES = {
    "created again": lambda location: location["metadata"].update(uid="another"),
    "bucket": lambda location: location["spec"]["objectStorage"].update(bucket="right"),
    "prefix": lambda location: location["spec"]["objectStorage"].update(prefix="deeper"),
    "folder": lambda location: location["spec"]["config"].update(path="/elsewhere"),
}


@pytest.mark.found("E-F2")
@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
async def test_a_repository_whose_location_is_in_another_place_begins_again(
    scene: Scene, world: World, move: Callable[[dict[str, Any]], None]
) -> None:
    scene.add()
    await scene.reconcile()
    location = world.cluster.stored("backupstoragelocations", "default")
    cache = {key("default"): location}
    assert scene.status["phase"] == "Ready"
    assert not is_displaced(world.cluster.stored(PLURAL, "repo"), cast(Cache, cache))
    scene.restic.calls.clear()
    scene.restic.fails["connect"] = failure(MISSING)

    move(location)
    assert is_displaced(world.cluster.stored(PLURAL, "repo"), cast(Cache, cache))
    await scene.reconcile()

    assert scene.restic.calls == ["connect"]
    assert scene.status["phase"] == "NotReady"
    assert "only a backup makes one" in scene.status["message"]
    found = location["spec"]["config"]["path"] + "/" + location["spec"]["objectStorage"]["bucket"]
    prefix = location["spec"]["objectStorage"].get("prefix", "")
    assert scene.spec["resticIdentifier"] == "/".join(part for part in (found, prefix, "restic/shop") if part)


@pytest.mark.found("E-F2")
async def test_a_change_of_a_location_that_moves_nothing_leaves_the_repository_alone(
    scene: Scene, world: World
) -> None:
    scene.add()
    await scene.reconcile()
    location = world.cluster.stored("backupstoragelocations", "default")
    location["spec"]["accessMode"] = "ReadOnly"
    location["spec"]["credential"] = {"name": "other", "key": "cloud"}
    before = scene.patches()

    await scene.reconcile()

    assert scene.patches() == before
    assert scene.status["phase"] == "Ready"


@pytest.mark.found("E-F2")
async def test_a_repository_without_a_place_is_adopted_as_it_is(scene: Scene) -> None:
    scene.add(identifier="/old/shop", phase="Ready", lastMaintenanceTime=NOW)
    before = dict(scene.status)

    await scene.making.reconcile(key("repo"))

    assert scene.restic.calls == []
    assert scene.spec["resticIdentifier"] == "/old/shop"
    assert scene.status == before
    annotations = scene.world.cluster.stored(PLURAL, "repo")["metadata"]["annotations"]
    assert annotations[labels.REPOSITORY_PLACE].startswith("uid=uid-default provider=")


@pytest.mark.found("E-F2")
async def test_a_request_that_comes_during_a_pass_is_not_overwritten(scene: Scene) -> None:
    """The server looks at a moved location while the next backup asks for its repository."""
    scene.mount()
    scene.add(requested=False)
    scene.restic.fails["connect"] = failure(MISSING)
    asked: list[str] = []

    def ask(operation: str) -> None:
        if operation == "connect" and not asked:
            asked.append(operation)
            metadata = {"annotations": {labels.INITIALIZE_REPOSITORY: "b2"}}
            obj = scene.world.cluster.stored(PLURAL, "repo")
            metadata["annotations"] |= obj["metadata"].get("annotations", {})
            scene.world.cluster.change(PLURAL, "repo", metadata={**obj["metadata"], **metadata})

    scene.restic.during = ask

    assert await scene.making.reconcile(key("repo")) == CHANGED
    assert await scene.making.reconcile(key("repo")) == DONE

    assert scene.status["phase"] == "Ready"
    assert scene.restic.calls == ["connect", "connect", "init"]


@pytest.mark.found("V28")
async def test_the_backups_whose_data_is_gone_are_named(
    scene: Scene, world: World, caplog: pytest.LogCaptureFixture
) -> None:
    scene.mount()
    scene.add()
    scene.restic.fails["connect"] = failure(MISSING)
    volumes: list[tuple[str, str, str, str]] = [
        ("lost-2", "shop", "default", "1a"),
        ("lost-1", "shop", "default", "2b"),
        ("of-another-namespace", "bank", "default", "3c"),
        ("elsewhere", "shop", "other", "4d"),
        ("saved-nothing", "shop", "default", ""),
    ]
    for number, (backup, namespace, location, snapshot) in enumerate(volumes):
        spec = {"pod": {"namespace": namespace}, "backupStorageLocation": location, "uploaderType": "restic"}
        own = {labels.BACKUP_NAME: backup}
        world.cluster.add(
            "podvolumebackups", f"v{number}", labels=own, spec=spec, status={"snapshotID": snapshot}
        )
    kopia = {"pod": {"namespace": "shop"}, "backupStorageLocation": "default", "uploaderType": "kopia"}
    world.cluster.add("podvolumebackups", "k", spec=kopia, status={"snapshotID": "5e"})
    of_deleted = {"pod": {"namespace": "shop"}, "backupStorageLocation": "default"}
    own = {labels.BACKUP_NAME: "deleted"}
    world.cluster.add("podvolumebackups", "d", labels=own, spec=of_deleted, status={"snapshotID": "6f"})
    for backup in {each[0] for each in volumes}:
        world.cluster.add("backups", backup)

    await scene.making.reconcile(key("repo"))

    assert scene.status["phase"] == "Ready"
    annotations = world.cluster.stored(PLURAL, "repo")["metadata"]["annotations"]
    assert annotations[labels.LOST_BACKUPS] == "lost-1, lost-2"
    [told] = [message for message in caplog.messages if "is gone" in message]
    assert told == (
        "the restic repository of namespace shop was not in location default any more, and a new one was"
        " created: the data of the volumes of these backups is gone: lost-1, lost-2"
    )


async def test_a_deleted_repository_is_made_anew_for_the_next_backup_only(scene: Scene) -> None:
    scene.mount()
    scene.add(identifier="/x/shop", phase="Ready", lastMaintenanceTime=NOW)
    for operation in ("unlock", "connect"):
        scene.restic.fails[operation] = failure(MISSING)

    for _ in range(2):
        await scene.reconcile()
    assert scene.status["phase"] == "NotReady"
    assert "only a backup makes one" in scene.status["message"]
    assert "init" not in scene.restic.calls

    async def sleep(_seconds: float) -> None:
        assert scene.status["phase"] == "New"
        scene.restic.fails.pop("unlock", None)
        await scene.reconcile()

    repositories = Repositories(scene.world.cluster.client, NAMESPACE, clock=ScriptedClock(sleep))
    made = await repositories.ensure("shop", "default", backup="b1")

    assert made.status.phase == "Ready"
    assert "init" in scene.restic.calls


@pytest.mark.spec("KOP-005")
@pytest.mark.parametrize("left", ["snapshots", "keys", "data/0a", "."])
async def test_no_repository_is_made_over_what_is_left_of_one(scene: Scene, world: World, left: str) -> None:
    scene.mount()
    folder = world.folder / "bucket-default/restic/shop" / left
    folder.mkdir(parents=True)
    (folder / "0a").write_bytes(b"encrypted")
    scene.add(identifier="/x/shop", phase="NotReady", lastMaintenanceTime=NOW)
    scene.restic.fails["connect"] = failure(MISSING)

    await scene.reconcile()

    assert "init" not in scene.restic.calls
    assert "it is damaged, and nothing is made over it" in scene.status["message"]


async def test_nothing_is_written_to_a_read_only_location(scene: Scene, world: World) -> None:
    world.add_location("archive", accessMode="ReadOnly")
    scene.add(identifier="/x/shop", location="archive", phase="Ready")

    await scene.reconcile()

    assert scene.restic.calls == []


@pytest.mark.spec("PVL-057")
async def test_a_prune_waits_for_those_who_share_the_repository(scene: Scene) -> None:
    scene.add(identifier="/x/shop", phase="Ready")
    async with scene.locks.shared("repo"):
        task = asyncio.create_task(scene.maintaining.reconcile(key("repo")))
        await settled()
        assert scene.restic.calls == ["unlock"]
    await task

    assert scene.restic.calls == ["unlock", "maintain"]


async def test_a_repository_that_is_gone_or_cannot_be_read_is_left_alone(scene: Scene) -> None:
    await scene.reconcile()
    scene.add(frequency="often")
    await scene.reconcile()

    assert scene.restic.calls == []
    assert scene.patches() == 0


@pytest.mark.parametrize(
    ("phase", "ready"), [("Ready", True), ("NotReady", False), ("New", False), ("", False)]
)
def test_only_ready_repositories_are_maintained(phase: str, ready: bool) -> None:
    assert is_ready({"status": {"phase": phase}}) is ready
    assert not is_ready({})


async def test_a_kopia_repository_is_made_and_maintained_each_hour(scene: Scene) -> None:
    scene.mount()
    scene.add(requested=True)
    scene.world.cluster.stored(PLURAL, "repo")["spec"]["repositoryType"] = "kopia"
    scene.restic.fails["connect"] = failure(MISSING)

    await scene.reconcile()

    assert scene.status["phase"] == "Ready"
    assert {(place.uploader, place.identifier, place.namespace) for place in scene.restic.places} == {
        ("kopia", "", "shop")
    }
    spec = scene.world.cluster.stored(PLURAL, "repo")["spec"]
    assert spec["resticIdentifier"] == ""
    assert spec["maintenanceFrequency"] == "1h0m0s"


@pytest.mark.found("Z7")
async def test_a_repository_of_an_unknown_type_says_so(scene: Scene, world: World) -> None:
    scene.add()
    world.cluster.stored(PLURAL, "repo")["spec"]["repositoryType"] = "borg"
    assert await scene.making.reconcile(key("repo")) == DONE
    status = world.cluster.status(PLURAL, "repo")
    assert status["phase"] == "NotReady"
    assert status["message"] == "spec.repositoryType is 'borg': it can be kopia or restic"
    assert scene.restic.calls == []


@pytest.mark.found("Z1")
@pytest.mark.parametrize(
    "last", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+14:00", "2031-01-01T00:00:00Z"]
)
async def test_an_odd_date_ends_no_maintenance(scene: Scene, last: str) -> None:
    scene.add(identifier="/x/shop", frequency="1h0m0s", phase="Ready", lastMaintenanceTime=last)
    await scene.reconcile()
    assert "maintain" in scene.restic.calls
