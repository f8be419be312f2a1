"""The life of a Backup or Restore: who gets it, and that it never stays InProgress."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import cast

import msgspec
import pytest

from pinnace.api.labels import WAITS_FOR
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.namespace_queue import NO_NAMESPACE, NamespaceQueue, Targets
from pinnace.controllers.shared.runs import (
    BACKUP_RUNS,
    RESTORE_RUNS,
    RunDecision,
    RunReconciler,
    RunSteps,
    is_new,
)
from pinnace.controllers.shared.settling import Settler
from pinnace.kube.errors import Conflict, Forbidden, Invalid, KubeError, ServerFault
from pinnace.runtime.controller import DONE, Controller
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from tests.unit.controllers.fakes import BROKEN, World, fail_once, key


class ScriptedWork:
    """Begins every backup and lets it end as `outcome` says; keeps what was planned, run and counted."""

    def __init__(self, world: World) -> None:
        self.outcome: Callable[[Backup], Awaitable[Backup]] = completed
        self.valid = True
        self.planned: list[Backup] = []
        self.caveats: list[str] = []
        self.executed: list[Backup] = []
        self.read: list[JSONObject] = []
        self.targets = NO_NAMESPACE
        self.counted: list[tuple[str, str]] = []
        self._clock = world.clock

    async def plan(self, run: Backup, caveats: Sequence[str] = ()) -> RunDecision[Backup]:
        self.planned.append(run)
        self.caveats.extend(caveats)
        if not self.valid:
            errors = ["no good"]
            status = msgspec.structs.replace(
                run.status, phase=BackupPhase.FAILED_VALIDATION, validation_errors=errors
            )
            return RunDecision(begun=msgspec.structs.replace(run, status=status))
        status = msgspec.structs.replace(
            run.status, phase=BackupPhase.IN_PROGRESS, start_timestamp=self._clock.now()
        )
        begun = msgspec.structs.replace(run, status=status)
        return RunDecision(begun=begun, execute=self._execute, targets=self.targets)

    async def _execute(self, run: Backup, read: JSONObject) -> Backup:
        self.executed.append(run)
        self.read.append(read)
        return await self.outcome(run)

    def taken(self, run: Backup) -> None:
        self.counted.append(("taken", run.status.phase))

    def ended(self, run: Backup) -> None:
        self.counted.append(("ended", run.status.phase))


async def completed(run: Backup) -> Backup:
    return msgspec.structs.replace(
        run, status=msgspec.structs.replace(run.status, phase=BackupPhase.COMPLETED)
    )


class Scene:
    def __init__(self, world: World, *, leads: bool = False, queue: NamespaceQueue | None = None) -> None:
        self.world = world
        self.work = ScriptedWork(world)
        self.running: set[Key] = set()
        self.reconciler = RunReconciler(
            replace(world.scope, leads=leads),
            BACKUP_RUNS,
            self.work,
            Settler(world.scope, world.locations),
            in_flight=self.running,
            queue=queue,
        )

    async def reconcile(self, name: str = "b1") -> None:
        assert await self.reconciler.reconcile(key(name)) == DONE

    @property
    def phase(self) -> str:
        return str(self.status.get("phase"))

    @property
    def status(self) -> dict[str, object]:
        return self.world.cluster.status("backups", "b1")

    @property
    def errors(self) -> list[str]:
        return list(self.world.cluster.status("backups", "b1")["validationErrors"])


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


@pytest.mark.parametrize("status", [None, {"phase": ""}, {"phase": "New"}], ids=["none", "empty", "New"])
async def test_a_new_object_is_taken_to_its_terminal_phase(
    scene: Scene, status: dict[str, str] | None
) -> None:
    obj = scene.world.cluster.add("backups", "b1", spec={}, status=status)
    assert is_new(obj)
    obj["spec"]["ofAnotherVersion"] = [1]

    await scene.reconcile()

    assert scene.work.read[0]["spec"] == {"ofAnotherVersion": [1]}
    assert scene.work.read[0]["status"]["phase"] == "InProgress"
    assert scene.status == {"phase": "Completed", "startTimestamp": "2021-08-11T21:43:26Z"}
    assert scene.work.counted == [("taken", "InProgress"), ("ended", "Completed")]
    assert scene.running == set()


@pytest.mark.found("Z1", "Z5")
async def test_what_a_status_says_before_the_run_is_nobodys_result(scene: Scene) -> None:
    lies = {
        "csiVolumeSnapshotsAttempted": -1,
        "volumeSnapshotsAttempted": 4,
        "failureReason": "old",
        "errors": -5,
        "warnings": 9,
        "validationErrors": ["old"],
        "progress": {"totalItems": -3},
        "startTimestamp": "9999-12-31T23:59:59-12:00",
        "completionTimestamp": "0000-01-01T00:00:00Z",
        "hookStatus": {"hooksAttempted": 7},
    }
    scene.world.cluster.add("backups", "b1", spec={}, status=lies)
    await scene.reconcile()
    assert scene.status == {"phase": "Completed", "startTimestamp": "2021-08-11T21:43:26Z"}


@pytest.mark.spec("BEY-045")
@pytest.mark.parametrize("phase", ["Queued", "ReadyToStart"])
async def test_an_object_that_a_former_server_left_queued_is_taken(scene: Scene, phase: str) -> None:
    obj = scene.world.cluster.add("backups", "b1", spec={}, status={"phase": phase, "queuePosition": 3})
    scene.world.cluster.stored("backups", "b1")["metadata"]["annotations"] = {WAITS_FOR: "another", "a": "b"}
    assert scene.reconciler.concerns(obj)

    await scene.reconcile()

    assert scene.phase == "Completed"
    assert scene.work.read[0]["metadata"]["annotations"] == {"a": "b"}


async def test_a_queue_position_in_the_status_does_not_plan_an_object_anew(world: World) -> None:
    queue = NamespaceQueue(lambda key: None)
    scene = Scene(world, queue=queue)
    assert queue.try_start(key("first"), Backup(), Targets(None))
    scene.work.targets = Targets(None)
    world.cluster.add("backups", "b1", spec={"ttl": "1h0m0s"})
    await scene.reconcile()
    obj = world.cluster.stored("backups", "b1")
    assert (scene.work.executed, scene.running) == ([], set())

    obj["status"] = {"phase": "Queued", "queuePosition": 1}
    assert not scene.reconciler.concerns(obj)
    obj["spec"]["ttl"] = "2h0m0s"
    assert scene.reconciler.concerns(obj)

    queue.remove(key("first"))
    await scene.reconcile()
    assert scene.phase == "Completed"
    obj["status"] = {"phase": "New"}
    assert scene.reconciler.concerns(obj)


@pytest.mark.spec("CTL-004", "BKP-010", "API-010")
@pytest.mark.parametrize("phase", ["FailedValidation", "InProgress", "Completed", "Failed", "Deleting"])
async def test_objects_in_other_phases_are_left_alone(scene: Scene, phase: str) -> None:
    scene.world.cluster.add("backups", "b1", spec={}, status={"phase": phase})

    await scene.reconcile()
    await scene.reconcile("nonexistent")
    await scene.reconciler.reconcile(Key("bad/key", "here"))

    assert scene.world.cluster.writes() == []
    assert scene.work.planned == []


@pytest.mark.spec("CTL-046", "RST-013")
async def test_a_malformed_key_is_dropped(world: World) -> None:
    """It is of no object; restores have the same reconciler, with other work."""
    reconciler = RunReconciler(
        world.scope,
        RESTORE_RUNS,
        cast("RunSteps[Restore]", ScriptedWork(world)),
        Settler(world.scope, world.locations),
        in_flight=set(),
    )

    assert await reconciler.reconcile(Key("a/b", "c")) == DONE

    assert world.cluster.writes() == []


async def test_an_invalid_object_is_failed_and_counted(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    scene.work.valid = False

    await scene.reconcile()

    assert scene.status == {"phase": "FailedValidation", "validationErrors": ["no good"]}
    assert scene.work.counted == [("taken", "FailedValidation"), ("ended", "FailedValidation")]
    assert scene.work.executed == []


async def test_an_object_that_cannot_be_read_is_failed_with_the_reason(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={"ttl": "long"})

    await scene.reconcile()

    assert scene.status["phase"] == "FailedValidation"
    assert "spec.ttl" in str(scene.status["validationErrors"])


async def test_an_object_whose_claim_is_not_valid_is_failed_with_the_reason(
    scene: Scene,
) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    refusal = Invalid(422, reason="Invalid", message="spec.ttl: too long")
    scene.world.cluster.before = fail_once("patch", error=refusal)

    await scene.reconcile()

    assert scene.phase == "FailedValidation"
    assert "spec.ttl: too long" in str(scene.errors)
    assert (scene.work.executed, scene.running) == ([], set())


async def test_an_object_edited_before_the_first_patch_is_read_again(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})

    def edit(verb: str, plural: str, name: str) -> None:
        if verb == "patch" and len(scene.work.planned) == 1:
            obj = scene.world.cluster.stored(plural, name)
            obj["metadata"] |= {"resourceVersion": "99", "labels": {"by": "user"}}

    scene.world.cluster.before = edit
    await scene.reconcile()

    assert [run.metadata.labels for run in scene.work.planned] == [{}, {"by": "user"}]
    assert len(scene.work.executed) == 1
    assert scene.status["phase"] == "Completed"


async def test_an_object_that_another_server_took_is_dropped(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})

    def take(verb: str, plural: str, name: str) -> None:
        if verb == "patch":
            obj = scene.world.cluster.stored(plural, name)
            obj["metadata"]["resourceVersion"] = "99"
            obj["status"] = {"phase": "InProgress", "startTimestamp": "2020-01-01T00:00:00Z"}

    scene.world.cluster.before = take
    await scene.reconcile()

    assert scene.work.executed == []
    assert scene.status == {"phase": "InProgress", "startTimestamp": "2020-01-01T00:00:00Z"}


async def test_two_servers_run_a_backup_once(world: World) -> None:
    first, second = Scene(world), Scene(world)
    world.cluster.add("backups", "b1", spec={})

    await asyncio.gather(first.reconcile(), second.reconcile())

    assert len(first.work.executed) + len(second.work.executed) == 1
    assert first.status["phase"] == "Completed"


@pytest.mark.parametrize("error", [BROKEN, ServerFault(504, message="timeout")], ids=["cut", "504"])
async def test_a_claim_whose_answer_was_lost_is_carried_out_at_the_next_try(
    scene: Scene, error: KubeError
) -> None:
    """It would stay InProgress for as long as this server lives."""
    scene.world.cluster.add("backups", "b1", spec={})
    scene.world.cluster.after = fail_once("patch", error=error)

    with pytest.raises(type(error)):
        await scene.reconcile()
    assert scene.phase == "InProgress"
    assert scene.running == {key("b1")}  # nobody may delete it meanwhile
    await scene.reconcile()

    assert scene.phase == "Completed"
    assert len(scene.work.planned) == 1
    assert scene.running == set()


async def test_a_claim_that_was_lost_on_the_way_is_made_again(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    scene.world.cluster.before = fail_once("patch")

    with pytest.raises(type(BROKEN)):
        await scene.reconcile()
    scene.world.clock.turn(5)
    await scene.reconcile()

    assert scene.status == {"phase": "Completed", "startTimestamp": "2021-08-11T21:43:31Z"}
    assert scene.running == set()


async def test_a_claim_that_arrives_after_the_next_try_began_is_carried_out(scene: Scene) -> None:
    """The first patch was held up on its way, and was stored between the second look and the second patch."""
    cluster = scene.world.cluster
    cluster.add("backups", "b1", spec={})
    cluster.before = fail_once("patch")
    with pytest.raises(type(BROKEN)):
        await scene.reconcile()
    scene.world.clock.turn(5)
    started = "2021-08-11T21:43:26Z"

    def arrive(verb: str, plural: str, name: str) -> None:
        if verb == "patch" and len(scene.work.planned) == 2 and not scene.work.executed:
            obj = cluster.stored(plural, name)
            obj["metadata"]["resourceVersion"] = "99"
            obj["status"] = {"phase": "InProgress", "startTimestamp": started}

    cluster.before = arrive
    await scene.reconcile()

    assert len(scene.work.executed) == 1
    assert scene.status == {"phase": "Completed", "startTimestamp": started}
    assert scene.running == set()


async def test_a_claim_of_a_dead_server_that_is_stored_late_is_settled(world: World) -> None:
    """After the orphans were: the request was still on its way when this server looked for them."""
    scene = Scene(world, leads=True)
    world.add_location()
    obj = world.cluster.add("backups", "b1", spec={"storageLocation": "default"})
    assert scene.reconciler.concerns(obj)
    world.cluster.stored("backups", "b1")["status"] = {"phase": "InProgress"}
    assert scene.reconciler.concerns(world.cluster.stored("backups", "b1"))

    await scene.reconcile()
    await scene.reconcile()

    assert scene.status["phase"] == "Failed"
    assert scene.status["failureReason"] == "the backup was InProgress, but no server worked on it any more"
    assert scene.work.executed == []
    assert len(world.cluster.writes()) == 1
    assert scene.running == set()


async def test_an_object_that_is_planned_when_the_server_stops_is_left_to_the_next_one(scene: Scene) -> None:
    """While it is planned, a run may wait for the worker of another that ends after the stop."""
    scene.world.cluster.add("backups", "b1", spec={})
    controller = Controller("test", scene.reconciler.reconcile)
    scene.reconciler.watch_by(controller, cast(Informer, Behind(scene.world)))
    controller.stop()

    await scene.reconcile()

    assert scene.work.executed == []
    assert scene.world.cluster.writes() == []
    assert scene.running == set()


async def test_an_orphan_that_cannot_be_settled_now_is_tried_again(world: World) -> None:
    """No event shows it again, so that it would stay InProgress until the next start of a server."""
    scene = Scene(world, leads=True)
    world.add_location()
    status = {"phase": "InProgress"}
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"}, status=status)
    world.cluster.before = fail_once("patch", "backups", error=ServerFault(503, message="overloaded"))

    with pytest.raises(ServerFault):
        await scene.reconcile()
    assert scene.phase == "InProgress"
    await scene.reconcile()

    assert scene.phase == "Failed"


async def test_in_progress_objects_are_left_alone_where_another_server_may_work(scene: Scene) -> None:
    obj = scene.world.cluster.add("backups", "b1", spec={}, status={"phase": "InProgress"})

    assert not scene.reconciler.concerns(obj)


class Behind:
    """An informer whose cache is as the cluster was when this was made."""

    def __init__(self, world: World) -> None:
        self._objects = copy.deepcopy(world.all_of("backups"))

    def get(self, wanted: Key) -> JSONObject | None:
        return self._objects.get(wanted.name)

    def add_handlers(self, **_handlers: object) -> None:
        pass


def read_from_cache(scene: Scene) -> None:
    scene.reconciler.watch_by(
        Controller("test", scene.reconciler.reconcile), cast(Informer, Behind(scene.world))
    )


async def test_a_new_object_is_not_read_again(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    read_from_cache(scene)

    await scene.reconcile()

    assert scene.phase == "Completed"
    assert [call for call in scene.world.cluster.calls if call[0] == "get"] == []


async def test_a_new_object_that_the_cache_shows_as_it_was_is_planned_as_it_is(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    read_from_cache(scene)
    scene.world.cluster.add("backups", "b1", spec={"includedNamespaces": ["edited"]})

    await scene.reconcile()

    assert scene.phase == "Completed"
    assert [run.spec.included_namespaces for run in scene.work.executed] == [["edited"]]


async def test_an_object_that_this_server_works_on_is_not_settled(world: World) -> None:
    """Its progress is seen by the watch, so that it is looked at again as soon as it has ended."""
    scene = Scene(world, leads=True)
    world.cluster.add("backups", "b1", spec={})

    await scene.reconcile()
    await scene.reconcile()

    assert scene.phase == "Completed"
    assert len(world.cluster.writes()) == 2


@pytest.mark.parametrize(
    "refusal",
    [
        Forbidden(403, reason="Forbidden", message="no"),
        Conflict(409, reason="Conflict", message="the object has been modified"),
        Invalid(422, reason="Invalid", message="too long"),
    ],
    ids=["403", "409", "422"],
)
async def test_an_end_that_is_refused_is_offered_until_the_api_server_takes_it(
    world: World, refusal: KubeError
) -> None:
    scene = Scene(world, leads=True)
    world.add_location()
    world.cluster.add("backups", "b1", spec={"storageLocation": "default"})

    def refuse(verb: str, *_: str) -> None:
        if verb == "patch" and scene.phase == "InProgress":
            raise refusal

    world.cluster.before = refuse
    waits = [await scene.reconciler.reconcile(key("b1")) for _ in range(9)]
    assert scene.phase == "InProgress"
    assert [wait.requeue_after_seconds for wait in waits] == [5, 10, 20, 40, 80, 160, 300, 300, 300]

    world.cluster.before = lambda *_: None
    await scene.reconcile()

    assert scene.phase == "Completed"
    assert len(scene.work.executed) == 1
    assert scene.work.counted == [("taken", "InProgress"), ("ended", "Completed")]
    world.cluster.stored("backups", "b1")["status"] = {}
    world.cluster.before = refuse
    assert (await scene.reconciler.reconcile(key("b1"))).requeue_after_seconds == 5, "it is another end"


def forbid_the_end(scene: Scene) -> None:
    def forbid(verb: str, *_: str) -> None:
        if verb == "patch" and scene.phase == "InProgress":
            raise Forbidden(403, reason="Forbidden", message="no")

    scene.world.cluster.before = forbid


async def test_a_refused_end_is_not_lost_where_the_cache_is_behind(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    read_from_cache(scene)
    forbid_the_end(scene)
    await scene.reconciler.reconcile(key("b1"))

    scene.world.cluster.before = lambda *_: None
    await scene.reconcile()

    assert scene.phase == "Completed"


async def test_a_refused_end_of_a_deleted_object_is_forgotten(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    forbid_the_end(scene)
    await scene.reconciler.reconcile(key("b1"))

    scene.world.cluster.objects.clear()

    await scene.reconcile()

    assert scene.world.cluster.objects == {}


async def test_a_refused_end_is_not_stored_in_a_new_object_of_the_name(world: World) -> None:
    scene = Scene(world, leads=True)
    world.cluster.add("backups", "b1", spec={})

    forbid_the_end(scene)
    await scene.reconciler.reconcile(key("b1"))
    assert scene.phase == "InProgress"
    world.cluster.before = lambda *_: None
    world.cluster.objects.clear()
    world.cluster.add("backups", "b1", spec={"ttl": "1h0m0s"})
    world.cluster.stored("backups", "b1")["metadata"]["uid"] = "of its successor"

    await scene.reconcile()

    assert scene.phase == "Completed"
    assert len(scene.work.executed) == 2


async def test_a_backup_in_flight_cannot_be_deleted_until_it_has_ended(world: World) -> None:
    """A look at one that has ended must not keep it from being deleted just then."""
    scene = Scene(world, leads=True)
    world.cluster.add("backups", "b1", spec={}, status={"phase": "Completed"})
    seen: list[set[Key]] = []
    world.cluster.before = lambda *_: seen.append(set(scene.running))

    await scene.reconcile()

    assert seen == [set()]


async def test_a_lost_claim_of_a_deleted_object_is_forgotten(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={})
    scene.world.cluster.after = fail_once("patch")
    with pytest.raises(type(BROKEN)):
        await scene.reconcile()

    scene.world.cluster.objects.clear()
    await scene.reconcile()

    assert scene.work.executed == []
    assert scene.running == set()


async def test_a_defect_fails_the_run_and_keeps_its_details_for_the_servers_log(scene: Scene) -> None:
    async def defect(_run: Backup) -> Backup:
        raise LookupError("with a secret in it")

    scene.world.cluster.add("backups", "b1", spec={})
    scene.work.outcome = defect

    await scene.reconcile()

    assert scene.status["phase"] == "Failed"
    assert scene.status["failureReason"] == "unexpected LookupError, see the server's log"
    assert scene.status["completionTimestamp"] == "2021-08-11T21:43:26Z"
    assert scene.work.counted[-1] == ("ended", "Failed")


@pytest.mark.parametrize("error", [None, LookupError("it was ended")], ids=["as such", "as an error"])
async def test_an_interrupted_run_is_settled(scene: Scene, error: Exception | None) -> None:
    begun = asyncio.Event()

    async def hang(run: Backup) -> Backup:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if error is not None:
                raise error from None
            raise
        return run

    scene.world.cluster.add("backups", "b1", spec={})
    scene.work.outcome = hang
    task = asyncio.create_task(scene.reconcile())
    await begun.wait()
    assert scene.running == {key("b1")}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert scene.status["phase"] == "Failed"
    assert scene.status["failureReason"] == "the server was stopped before the backup had ended"
    assert scene.running == set()


async def test_a_deletion_while_it_runs_ends_quietly(scene: Scene) -> None:
    async def deleted(run: Backup) -> Backup:
        scene.world.cluster.objects.clear()
        return await completed(run)

    scene.world.cluster.add("backups", "b1", spec={})
    scene.work.outcome = deleted

    await scene.reconcile()

    assert scene.world.cluster.objects == {}
    assert scene.work.counted[-1] == ("ended", "Completed")


async def test_a_field_that_is_not_supported_fails_the_validation_and_names_it(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={"volumeGroupSnapshotLabelKey": "group"})

    await scene.reconcile()

    assert scene.phase == "FailedValidation"
    (error,) = scene.errors
    assert error.startswith("spec.volumeGroupSnapshotLabelKey is not supported")
    assert "startTimestamp" not in scene.status
    assert scene.work.executed == []
    assert scene.work.counted == [("taken", "FailedValidation"), ("ended", "FailedValidation")]


async def test_a_field_that_is_not_known_is_a_warning_of_the_run(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={"excludedNamespace": ["a"]})

    await scene.reconcile()

    assert scene.phase == "Completed"
    (caveat,) = scene.work.caveats
    assert caveat.startswith("spec.excludedNamespace is not a field that this version knows")


async def test_all_validation_errors_are_reported_at_once(scene: Scene) -> None:
    scene.world.cluster.add("backups", "b1", spec={"volumeGroupSnapshotLabelKey": "group"})
    scene.work.valid = False

    await scene.reconcile()

    first, second = scene.errors
    assert first == "no good"
    assert second.startswith("spec.volumeGroupSnapshotLabelKey")
