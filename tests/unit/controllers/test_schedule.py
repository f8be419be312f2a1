"""Schedules by the clock: what is due, what is made, and that no run is missed or made twice."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.cron import read_schedule
from pinnace.api.values.times import parse_time
from pinnace.api.velero.schedule import SchedulePhase
from pinnace.controllers.schedule import ScheduleReconciler
from pinnace.kube.errors import Conflict, ConnectionFailed, KubeError, status_error
from pinnace.kube.resources import SCHEDULES
from pinnace.runtime.controller import CHANGED, DONE, Result
from pinnace.runtime.keys import Key
from tests.support.cluster.scripted_requests import ignore
from tests.unit.controllers.fakes import BROKEN, NAMESPACE, Cached, World, fail_always, fail_once, key

NOON = datetime(2017, 1, 1, 12, tzinfo=UTC)
CREATED = "2015-12-31T23:30:00Z"
LONG_NAME = "nightly-" * 9
TEMPLATE = {
    "includedNamespaces": ["a", "b"],
    "excludedResources": ["pods"],
    "labelSelector": {"matchLabels": {"app": "x"}},
    "ttl": "1h30m0s",
    "fieldOfTheFuture": {"kept": True},
}


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.queued: list[Key] = []
        self.zone: ZoneInfo = ZoneInfo("UTC")
        self.skip_immediately = False
        self.world.clock.set(NOON)
        self.restart()

    def restart(self) -> None:
        """A new server with nothing in memory."""
        self.reconciler = ScheduleReconciler(
            self.world.scope,
            Cached(self.world, SCHEDULES),
            metrics=self.world.metrics,
            zone=self.zone,
            enqueue=self.queued.append,
            skip_immediately=self.skip_immediately,
        )

    def add(
        self, cron: str, name: str = "name", *, spec: JSONObject | None = None, **status: Any
    ) -> JSONObject:
        self.world.cluster.add(
            "schedules", name, spec={"schedule": cron, "template": TEMPLATE, **(spec or {})}, status=status
        )
        obj = self.world.cluster.stored("schedules", name)
        obj["metadata"]["creationTimestamp"] = CREATED
        return obj

    async def reconcile(self, name: str = "name") -> Result:
        return await self.reconciler.reconcile(key(name))

    def end_backups(self, phase: str = "Completed") -> None:
        """Let all backups there are have a phase, at first a final one."""
        for backup in self.world.all_of("backups").values():
            backup["status"] = {"phase": phase}

    @property
    def status(self) -> JSONObject:
        return self.world.cluster.status("schedules", "name")

    @property
    def backups(self) -> list[str]:
        return sorted(self.world.all_of("backups"))


def ran(last: str | None) -> dict[str, Any]:
    return {"lastBackup": last} if last else {}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(World(tmp_path))


@pytest.mark.spec("CTL-020", "API-015")
@pytest.mark.parametrize("phase", ["", "New", "Enabled"])
@pytest.mark.parametrize("last", [None, "2000-01-01T00:00:00Z"])
async def test_a_run_that_is_due_makes_one_backup(scene: Scene, phase: str, last: str | None) -> None:
    scene.add("@every 5m", phase=phase, **ran(last))

    assert await scene.reconcile() == Result.after(300.001)
    assert await scene.reconcile() == Result.after(300.001)

    assert scene.backups == ["name-20170101120000"]
    marks = scene.world.all_of("backups")["name-20170101120000"]["metadata"]["labels"]
    assert marks == {labels.SCHEDULE_NAME: "name"}
    assert scene.status == {"phase": "Enabled", "lastBackup": "2017-01-01T12:00:00Z"}


@pytest.mark.spec("CTL-018")
async def test_what_is_gone_or_was_refused_already_is_left_alone(scene: Scene) -> None:
    errors = ["Schedule must be a non-empty valid Cron expression"]
    scene.add("", phase="FailedValidation", validationErrors=errors)

    assert await scene.reconcile("nobody") == DONE
    assert await scene.reconcile() == DONE

    assert scene.world.cluster.writes() == []


@pytest.mark.spec("CTL-019", "API-016")
@pytest.mark.parametrize("phase", ["", "New", "Enabled"])
async def test_an_empty_expression_fails_validation(scene: Scene, phase: str) -> None:
    scene.add("", phase=phase)

    assert await scene.reconcile() == DONE

    assert scene.status == {
        "phase": "FailedValidation",
        "validationErrors": ["Schedule must be a non-empty valid Cron expression"],
    }
    assert scene.backups == []


@pytest.mark.parametrize(
    ("cron", "template", "error"),
    [
        ("* * * *", TEMPLATE, "invalid schedule: Expected exactly 5 fields, found 4: * * * *"),
        ("0 0 30 2 *", TEMPLATE, "invalid schedule: it never fires: 0 0 30 2 *"),
        ("@daily", {"ttl": "often"}, "Schedule: spec.template.ttl: "),
        ("@daily", {"ttl": "-1h"}, "spec.template.ttl must not be negative, and is -1h0m0s: "),
        (
            "@daily",
            {"snapshotMoveData": True, "datamover": "theirs"},
            "spec.template.datamover theirs is not known: ",
        ),
    ],
)
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_refused_schedule_is_enabled_when_its_spec_is_corrected(
    scene: Scene, cron: str, template: JSONObject, error: str, restarted: bool
) -> None:
    scene.add(cron, spec={"template": template})
    await scene.reconcile()
    assert scene.status["phase"] == "FailedValidation"
    assert len(scene.status["validationErrors"]) == 1
    assert scene.status["validationErrors"][0].startswith(error)
    await scene.reconciler.poll()
    assert scene.queued == []

    if restarted:
        scene.restart()
    scene.world.edit("schedules", "name", schedule="@every 5m", template=TEMPLATE)
    await scene.reconcile()

    assert scene.status == {"phase": "Enabled", "lastBackup": "2017-01-01T12:00:00Z"}
    assert scene.backups == ["name-20170101120000"]


async def test_another_mistake_has_another_error(scene: Scene) -> None:
    scene.add("nonsense")
    await scene.reconcile()
    scene.world.edit("schedules", "name", schedule="@sometimes")

    await scene.reconcile()

    assert scene.status["validationErrors"] == ["invalid schedule: Unrecognized descriptor: @sometimes"]


@pytest.mark.spec("CTL-021", "API-014")
@pytest.mark.parametrize(
    ("ago", "due"),
    [
        (None, True),
        (timedelta(), False),
        (timedelta(minutes=4, seconds=59), False),
        (timedelta(minutes=5), False),
        (timedelta(minutes=5, milliseconds=500), True),
        (timedelta(hours=5), True),
    ],
)
async def test_an_interval_is_due_when_it_has_passed(scene: Scene, ago: timedelta | None, due: bool) -> None:
    scene.add("@every 5m", phase="Enabled", **ran(None if ago is None else "2017-01-01T12:00:00Z"))
    if ago is not None:
        scene.world.clock.turn(ago)

    await scene.reconciler.poll()
    await scene.reconcile()
    await scene.reconcile()

    assert scene.queued == ([key("name")] if due else [])
    assert len(scene.backups) == (1 if due else 0)


@pytest.mark.parametrize(
    ("created", "made"),
    [("2017-01-01T11:00:00Z", 0), ("2017-01-01T10:59:59Z", 1), ("2016-12-01T00:00:00Z", 1)],
    ids=["not due yet", "due since noon", "missed for weeks"],
)
async def test_a_schedule_that_has_never_run_counts_from_its_creation(
    scene: Scene, created: str, made: int
) -> None:
    """Such as one that another server made and did not get to run."""
    scene.add("@every 1h", phase="Enabled")["metadata"]["creationTimestamp"] = created

    await scene.reconciler.poll()
    await scene.reconcile()

    assert len(scene.queued) == len(scene.backups) == made


@pytest.mark.parametrize("cron", ["@every 0s", "@every -1h", "@every -1ns"])
async def test_an_interval_that_is_not_positive_is_refused(scene: Scene, cron: str) -> None:
    scene.add(cron)

    await scene.reconcile()

    assert scene.status["validationErrors"] == [f"invalid schedule: the interval must be positive: {cron}"]
    assert scene.backups == []


@pytest.mark.parametrize("cron", ["@every 1s", "@every 1ns", "@every 59s"])
async def test_no_interval_makes_more_than_one_backup_a_minute(scene: Scene, cron: str) -> None:
    scene.add(cron)

    for _ in range(181):
        await scene.reconcile()
        scene.end_backups()
        scene.world.clock.turn(1)

    assert scene.backups == [f"name-2017010112{minute}" for minute in ("0000", "0101", "0202")]


@pytest.mark.spec("BEY-064")
@pytest.mark.parametrize("phase", ["", "New", "Queued", "ReadyToStart", "InProgress"])
async def test_a_run_waits_until_the_former_one_has_ended(scene: Scene, phase: str) -> None:
    scene.add("@hourly")
    await scene.reconcile()
    scene.end_backups(phase)
    scene.world.clock.turn(3660)

    assert await scene.reconcile() == Result.after(60.0)
    assert scene.backups == ["name-20170101120000"]

    scene.end_backups("WaitingForPluginOperations")
    await scene.reconcile()
    assert scene.backups == ["name-20170101120000", "name-20170101130100"]


async def test_a_run_begins_beside_the_former_one_where_the_schedule_says_so(scene: Scene) -> None:
    scene.add("@hourly")
    annotate(scene, allow_overlap="true")
    await scene.reconcile()
    scene.end_backups("InProgress")
    scene.world.clock.turn(3660)

    await scene.reconcile()

    assert scene.backups == ["name-20170101120000", "name-20170101130100"]


@pytest.mark.parametrize(
    "error",
    [
        status_error(403, {"message": "exceeded quota: backups"}),
        status_error(422, {"message": "spec.ttl is not allowed here"}),
        status_error(500, {"message": "failed calling webhook: no endpoints"}),
    ],
    ids=["quota", "admission", "webhook without an answer"],
)
async def test_a_backup_that_is_refused_shows_in_the_status_until_one_is_made(
    scene: Scene, error: KubeError
) -> None:
    scene.add("@hourly", phase="Enabled")
    scene.world.cluster.before = fail_always("create", "backups", error=error)

    for _ in range(3):
        assert await scene.reconcile() == Result.after(60.0)
        scene.world.clock.turn(60)
    assert scene.status["phase"] == "FailedValidation"
    [text] = scene.status["validationErrors"]
    assert text == f"the Backup that is due could not be created: {error}"
    refused = scene.world.cluster.writes().count(("patch", "schedules", "name"))
    assert refused == 1
    assert scene.world.metrics.calls.count(("backup_refused", "name")) == 1

    scene.world.cluster.before = ignore
    await scene.reconcile()

    assert scene.backups == ["name-20170101120300"]
    assert (scene.status["phase"], scene.status.get("validationErrors")) == ("Enabled", None)
    assert "lastBackup" in scene.status


async def test_a_new_server_clears_a_refusal_when_a_backup_can_be_made(scene: Scene) -> None:
    scene.add("@hourly", phase="FailedValidation", validationErrors=["the Backup that is due could not …"])
    await scene.reconcile()
    assert (scene.status["phase"], scene.status.get("validationErrors")) == ("Enabled", None)


async def test_an_api_server_that_is_out_of_reach_refuses_nothing(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled")
    scene.world.cluster.before = fail_once("create", "backups")
    with pytest.raises(ConnectionFailed):
        await scene.reconcile()
    assert scene.status == {"phase": "Enabled"}


@pytest.mark.found("L2")
@pytest.mark.parametrize(
    ("cron", "status", "spec", "seconds"),
    [
        ("@every 5m", {"lastBackup": "2017-01-01T11:00:00Z"}, {}, 3300),
        ("@every 5m", {"lastBackup": "2017-01-01T11:58:00Z"}, {}, 0),
        ("@every 1h", {}, {}, 7200),
        ("@every 1h", {}, {"paused": True}, 0),
        ("nonsense", {"lastBackup": "2017-01-01T11:00:00Z"}, {}, 3600),
        ("nonsense", {}, {}, 10800),
        ("nonsense", {}, {"paused": True}, 0),
    ],
    ids=["late", "not due", "never ran", "paused", "no longer valid", "never valid", "invalid and paused"],
)
async def test_how_late_a_schedule_is_can_be_seen(
    scene: Scene, cron: str, status: JSONObject, spec: JSONObject, seconds: int
) -> None:
    schedule = scene.add(cron, spec=spec, **status)
    schedule["metadata"]["creationTimestamp"] = "2017-01-01T09:00:00Z"

    await scene.reconciler.poll()

    assert scene.world.metrics.calls == [("schedule_overdue", "name", seconds)]


# --- Paused and skipped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cron", ["* * * * *", "nonsense"])
async def test_a_paused_schedule_is_left_alone_until_it_is_not(scene: Scene, cron: str) -> None:
    scene.add(cron, phase="Enabled", lastBackup="2017-01-01T10:00:00Z", spec={"paused": True})

    await scene.reconciler.poll()
    assert await scene.reconcile() == DONE
    assert (scene.queued, scene.world.cluster.writes()) == ([], [])

    scene.world.edit("schedules", "name", paused=False)
    await scene.reconcile()
    assert len(scene.backups) == (1 if cron != "nonsense" else 0)


@pytest.mark.spec("BEY-062")
async def test_what_is_due_is_skipped_once_when_the_spec_says_so(scene: Scene) -> None:
    scene.add("0 * * * *", phase="Enabled", lastBackup="2017-01-01T09:00:00Z", spec={"skipImmediately": True})
    scene.world.clock.turn(30 * 60)

    assert await scene.reconcile() == Result.after(30 * 60 + 0.001)

    stored = scene.world.cluster.stored("schedules", "name")
    assert stored["spec"]["skipImmediately"] is False
    assert stored["status"]["lastSkipped"] == "2017-01-01T12:30:00Z"
    scene.restart()
    await scene.reconcile()
    assert scene.backups == []
    scene.world.clock.turn(30 * 60 + 1)
    await scene.reconcile()
    assert scene.backups == ["name-20170101130001"]


@pytest.mark.spec("BEY-063")
@pytest.mark.parametrize("stored", [True, False], ids=["", "definition of Velero 1.6"])
async def test_the_servers_default_skips_what_is_due_of_every_schedule_once(
    scene: Scene, stored: bool
) -> None:
    scene.skip_immediately = True
    scene.restart()
    names = ("one", "two", "three")
    for name in names:
        scene.add("0 * * * *", name, phase="Enabled", lastBackup="2017-01-01T09:00:00Z")

    def prune(*call: str) -> None:
        if not stored and call[:2] == ("patch", "schedules"):
            obj = scene.world.cluster.stored("schedules", call[2])
            obj["spec"].pop("skipImmediately", None)
            obj["status"].pop("lastSkipped", None)

    scene.world.cluster.after = prune
    for _ in range(2):
        for name in names:
            await scene.reconcile(name)
    assert scene.backups == []

    scene.world.clock.turn(3601)
    for name in names:
        await scene.reconcile(name)
    assert scene.backups == sorted(f"{name}-20170101130001" for name in names)


async def test_a_schedule_edited_while_its_run_is_skipped_is_read_again(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled", spec={"skipImmediately": True})
    conflict = Conflict(409, message="changed")
    scene.world.cluster.before = fail_once("patch", "schedules", error=conflict)

    assert await scene.reconcile() == CHANGED
    assert "lastSkipped" not in scene.status


@pytest.mark.spec("AFT-177")
@pytest.mark.parametrize(
    ("cron", "seconds"), [("0 */6 * * *", 21600.0), ("@every 90m", 5400.0), ("0 0 30 2 *", None)]
)
async def test_the_time_between_two_runs_is_a_metric(scene: Scene, cron: str, seconds: float | None) -> None:
    scene.add(cron)

    await scene.reconcile()

    told = [call[1:] for call in scene.world.metrics.calls if call[0] == "schedule_interval"]
    assert told == ([("name", seconds)] if seconds is not None else [])


@pytest.mark.spec("BEY-065", "AFT-005")
async def test_labels_of_the_template_take_the_place_of_those_of_the_schedule(scene: Scene) -> None:
    obj = scene.add("@hourly", spec={"template": {**TEMPLATE, "metadata": {"labels": {"a": "1"}}}})
    obj["metadata"]["labels"] = {"b": "2"}

    await scene.reconcile()

    (backup,) = scene.world.all_of("backups").values()
    assert backup["metadata"]["labels"] == {"a": "1", labels.SCHEDULE_NAME: "name"}
    assert obj["metadata"]["labels"] == {"b": "2"}


TEAM = {labels.NAMESPACE_SELECTOR: "team=a"}
"""A filter, which the annotations of the template do not take away."""


@pytest.mark.spec("AFT-004")
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"annotations": {"a": "1"}}, {**TEAM, "a": "1"}),
        ({"annotations": {labels.NAMESPACE_SELECTOR: "x"}}, {labels.NAMESPACE_SELECTOR: "x"}),
        ({"annotations": {}}, TEAM),
        ({"annotations": None}, {**TEAM, "b": "2"}),
        ({}, {**TEAM, "b": "2"}),
    ],
)
async def test_annotations_of_the_template_take_the_place_of_those_of_the_schedule(
    scene: Scene, given: JSONObject, expected: dict[str, str]
) -> None:
    obj = scene.add("@hourly", spec={"template": {**TEMPLATE, "metadata": given}})
    own = {**TEAM, "b": "2", labels.VERIFY: "@daily", labels.RETENTION: "keepLast: 3"}
    obj["metadata"]["annotations"] = dict(own)

    await scene.reconcile()

    (backup,) = scene.world.all_of("backups").values()
    assert backup["spec"]["ttl"] == "87672h0m0s"  # as long as the rules may keep it
    assert backup["metadata"]["annotations"].pop(labels.OWN_TTL) == TEMPLATE.get("ttl", "")
    assert backup["metadata"].get("annotations", {}) == expected
    assert obj["metadata"]["annotations"] == own


@pytest.mark.spec("CTL-022")
async def test_a_time_of_the_day_is_waited_for(scene: Scene) -> None:
    scene.add("0 9 * * *", phase="Enabled", lastBackup="2017-08-10T12:27:00Z")
    clock = scene.world.clock

    for moment, seconds in [
        ("2017-08-10T12:27", 20 * 3600 + 33 * 60),
        ("2017-08-10T14:27", 18 * 3600 + 33 * 60),
    ]:
        clock.set(datetime.fromisoformat(moment).replace(tzinfo=UTC))
        assert await scene.reconcile() == Result.after(seconds + 0.001)
        assert scene.backups == []
    clock.set(datetime(2017, 8, 11, 9, 1, tzinfo=UTC))
    assert await scene.reconcile() == Result.after(24 * 3600 - 60 + 0.001)
    assert scene.backups == ["name-20170811090100"]
    clock.turn(60)
    assert await scene.reconcile() == Result.after(24 * 3600 - 120 + 0.001)
    assert scene.backups == ["name-20170811090100"]


@pytest.mark.spec("CTL-024", "CTL-064")
@pytest.mark.parametrize(
    ("cron", "last", "due"),
    [
        ("0 0 1 * *", "2021-08-31T10:00", "2021-09-01T00:00"),
        ("0 0 1 * 1", "2021-08-03T10:00", "2021-08-09T00:00"),
        ("0 0 1 * *", "9998-12-31T00:00", None),
    ],
)
def test_the_moment_after_which_a_run_is_due(cron: str, last: str, due: str | None) -> None:
    expected = None if due is None else datetime.fromisoformat(due).replace(tzinfo=UTC)

    assert read_schedule(cron).next(datetime.fromisoformat(last).replace(tzinfo=UTC), UTC) == expected


@pytest.mark.parametrize("last", ["0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z"])
async def test_a_last_backup_before_there_were_clusters_is_none(scene: Scene, last: str) -> None:
    scene.add("0 0 1 1 *", phase="Enabled", lastBackup=last)

    await scene.reconcile()

    assert scene.backups == ["name-20170101120000"]


@pytest.mark.spec("CTL-025", "API-015")
@pytest.mark.parametrize("owned", [True, False, None])
async def test_what_the_backup_takes_from_the_schedule(scene: Scene, owned: bool | None) -> None:
    obj = scene.add("@daily", spec={} if owned is None else {"useOwnerReferencesInBackup": owned})
    obj["metadata"]["labels"] = {"foo": "bar", labels.SCHEDULE_NAME: "forged"}
    obj["metadata"]["annotations"] = {labels.LAST_APPLIED_CONFIGURATION: "{}", "a": "b"}

    await scene.reconcile()

    backup = scene.world.all_of("backups")["name-20170101120000"]
    metadata = backup["metadata"]
    assert metadata["labels"] == {"foo": "bar", labels.SCHEDULE_NAME: "name"}
    assert metadata["annotations"] == {labels.LAST_APPLIED_CONFIGURATION: "{}", "a": "b"}
    assert backup["spec"] == TEMPLATE
    assert "status" not in backup
    owner = {"apiVersion": "velero.io/v1", "kind": "Schedule", "name": "name", "uid": "uid-name"}
    assert metadata.get("ownerReferences") == ([{**owner, "controller": True}] if owned else None)


@pytest.mark.spec("API-015")
async def test_the_name_has_the_local_time(scene: Scene) -> None:
    scene.zone = ZoneInfo("America/New_York")
    scene.restart()
    scene.add("0 9 * * *", phase="Enabled", lastBackup="2017-07-24T14:00:00Z")

    scene.world.clock.set(datetime(2017, 7, 25, 13, 0, tzinfo=UTC))
    await scene.reconcile()
    assert scene.backups == []
    scene.world.clock.set(datetime(2017, 7, 25, 13, 15, tzinfo=UTC))
    await scene.reconcile()
    assert scene.backups == ["name-20170725091500"]


@pytest.mark.spec("API-015")
async def test_the_name_has_the_hour_of_the_day(scene: Scene) -> None:
    scene.add("@every 5h", phase="Enabled", lastBackup="2017-07-25T09:14:00Z")
    scene.world.clock.set(datetime(2017, 7, 25, 14, 15, tzinfo=UTC))

    await scene.reconcile()

    assert scene.backups == ["name-20170725141500"]


async def test_a_long_name_fits_its_label_and_its_counters(scene: Scene) -> None:
    scene.add("@daily", LONG_NAME)

    await scene.reconcile(LONG_NAME)

    (backup,) = scene.world.all_of("backups").values()
    value = labels.label_value(LONG_NAME)
    assert len(value) == 63
    assert backup["metadata"]["labels"] == {labels.SCHEDULE_NAME: value}
    assert backup["metadata"]["name"] == f"{LONG_NAME}-20170101120000"
    assert scene.world.metrics.calls[0] == ("schedule_seen", value, "Enabled")


@pytest.mark.spec("SRV-013")
@pytest.mark.parametrize(
    ("cron", "phase", "seen"),
    [("@daily", "", "Enabled"), ("nonsense", "", ""), ("nonsense", "FailedValidation", "FailedValidation")],
)
async def test_a_schedule_is_reported_to_the_metrics(scene: Scene, cron: str, phase: str, seen: str) -> None:
    scene.add(cron, phase=phase)

    await scene.reconcile()

    assert scene.world.metrics.calls[0] == ("schedule_seen", "name", seen)


# --- Neither missed nor made twice ----------------------------------------------------------------------


def broken_at(scene: Scene, *call: str, took_effect: bool) -> None:
    """The first such call fails, before or after it took effect."""
    hook = fail_once(*call)
    if took_effect:
        scene.world.cluster.after = hook
    else:
        scene.world.cluster.before = hook


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("last", [None, "2017-01-01T10:58:00Z"])
@pytest.mark.parametrize(
    "call",
    [("patch", "schedules"), ("list", "backups"), ("create", "backups"), ("patch", "schedules", "name")],
)
@pytest.mark.parametrize("took_effect", [False, True])
async def test_a_server_that_dies_anywhere_makes_one_backup_for_the_run(
    scene: Scene, call: tuple[str, ...], took_effect: bool, last: str | None, restarted: bool
) -> None:
    phase = "" if call == ("patch", "schedules") else "Enabled"
    scene.add("@hourly", phase=phase, **ran(last))
    broken_at(scene, *call, took_effect=took_effect)

    with pytest.raises(ConnectionFailed):
        await scene.reconcile()
    scene.world.clock.turn(20)
    if restarted:
        scene.restart()
    await scene.reconcile()
    scene.world.clock.turn(20)
    await scene.reconcile()

    (backup,) = scene.backups
    assert backup in ("name-20170101120000", "name-20170101120020")
    moment = f"2017-01-01T12:00:{backup[-2:]}Z"
    assert scene.status == {"phase": "Enabled", "lastBackup": moment}


async def test_a_create_that_takes_effect_late_meets_its_own_name(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled")
    broken_at(scene, "create", took_effect=False)
    with pytest.raises(ConnectionFailed):
        await scene.reconcile()
    scene.world.clock.turn(30)

    await scene.reconcile()

    assert scene.backups == ["name-20170101120000"]
    assert scene.status["lastBackup"] == "2017-01-01T12:00:00Z"


async def test_after_a_long_outage_the_run_has_the_time_of_its_success(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled", lastBackup="2017-01-01T10:30:00Z")
    broken_at(scene, "create", took_effect=False)
    with pytest.raises(ConnectionFailed):
        await scene.reconcile()
    scene.world.clock.turn(3 * 3600)

    await scene.reconcile()
    await scene.reconcile()

    assert scene.backups == ["name-20170101150000"]
    assert scene.status["lastBackup"] == "2017-01-01T15:00:00Z"


async def test_runs_missed_while_no_server_ran_become_one(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled", lastBackup="2016-12-24T10:30:00Z")

    for _ in range(3):
        scene.restart()
        await scene.reconcile()

    assert scene.backups == ["name-20170101120000"]


async def test_a_run_that_was_made_before_a_crash_does_not_swallow_the_next(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled", lastBackup="2017-01-01T10:30:00Z")
    broken_at(scene, "patch", "schedules", took_effect=False)
    with pytest.raises(ConnectionFailed):
        await scene.reconcile()
    scene.world.clock.turn(3600 + 60)
    scene.restart()

    await scene.reconcile()
    assert scene.status["lastBackup"] == "2017-01-01T12:00:00Z"
    scene.end_backups()
    await scene.reconcile()

    assert scene.backups == ["name-20170101120000", "name-20170101130100"]
    assert scene.status["lastBackup"] == "2017-01-01T13:01:00Z"


def annotate(scene: Scene, **notes: str) -> None:
    named = {f"pinnace.io/{name.replace('_', '-')}": value for name, value in notes.items()}
    scene.world.cluster.stored("schedules", "name")["metadata"]["annotations"] = named


async def test_a_run_that_is_due_within_a_window_is_made_at_its_end(scene: Scene) -> None:
    scene.add("45 * * * *", phase="Enabled", lastBackup="2017-01-01T11:00:00Z")
    annotate(scene, not_during="11:30-14:00", verify="@daily")

    assert await scene.reconcile() == Result.after(2 * 3600 + 0.001)
    scene.world.metrics.calls.clear()
    await scene.reconciler.poll()
    assert scene.world.metrics.calls == [("schedule_overdue", "name", 0)]
    assert (scene.backups, scene.queued) == ([], [])

    scene.world.clock.set(datetime(2017, 1, 1, 14, 0, 1, tzinfo=UTC))
    await scene.reconcile()
    assert scene.backups == ["name-20170101140001"]
    made = scene.world.all_of("backups")["name-20170101140001"]
    assert "annotations" not in made["metadata"]  # those of the schedule say nothing about its backups
    assert await scene.reconcile() == Result.after(45 * 60 - 1 + 0.001)


async def test_a_run_that_was_missed_is_left_out_where_the_schedule_says_so(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add("45 * * * *", phase="Enabled", lastBackup="2016-12-31T11:45:00Z")
    annotate(scene, catch_up="none")

    for _ in range(2):
        assert await scene.reconcile() == Result.after(45 * 60 + 0.001)
    assert scene.backups == []
    assert caplog.text.count("Runs that could not begin in time are left out") == 1

    scene.world.clock.turn(45 * 60 + 1)
    await scene.reconcile()
    assert scene.backups == ["name-20170101124501"]


async def test_a_run_that_was_made_before_a_crash_is_not_missed(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add("0 12 * * *", phase="Enabled", lastBackup="2016-12-31T12:00:01Z")
    annotate(scene, catch_up="none")
    scene.world.clock.turn(1)
    broken_at(scene, "patch", "schedules", took_effect=False)
    with pytest.raises(KubeError):
        await scene.reconcile()
    scene.end_backups()
    scene.world.clock.turn(3600)
    scene.restart()

    assert await scene.reconcile() == Result.after(23 * 3600 - 1 + 0.001)

    assert scene.backups == ["name-20170101120001"]
    assert parse_time(scene.status["lastBackup"]) >= NOON
    assert "are left out" not in caplog.text


async def test_an_annotation_that_cannot_be_read_fails_validation_until_it_is_corrected(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled")
    annotate(scene, catch_up="all")

    assert await scene.reconcile() == DONE
    assert scene.status["phase"] == "FailedValidation"
    assert scene.status["validationErrors"] == [
        "annotation pinnace.io/catch-up: 'all' is neither none nor last"
    ]
    assert scene.backups == []

    annotate(scene, catch_up="last")
    await scene.reconcile()
    assert scene.status["phase"] == "Enabled"
    assert scene.backups == ["name-20170101120000"]


@pytest.mark.parametrize(("uid", "at", "counts"), [
    ("same", "2017-01-01T11:50:00Z", True),
    ("same", "2017-01-01T11:44:59Z", False),  # before the run was due
    ("same", "2018-01-01T11:50:00Z", False),
    ("another", "2017-01-01T11:50:00Z", False),  # of another cluster on the bucket
    ("same", "soon", False),
])  # fmt: skip
async def test_a_backup_that_was_asked_for_counts_as_the_run_that_was_due_then(
    scene: Scene, uid: str, at: str, counts: bool
) -> None:
    schedule = scene.add("45 * * * *", phase="Enabled", lastBackup="2017-01-01T11:00:00Z")
    uid = schedule["metadata"]["uid"] if uid == "same" else uid
    marks = {labels.SCHEDULE_NAME: "name"}
    # In the zone of whoever asked; the server's is another.
    scene.world.cluster.add("backups", "name-20170101210000", labels=marks)
    made = scene.world.cluster.stored("backups", "name-20170101210000")
    made["metadata"] |= {
        "creationTimestamp": "2017-01-01T11:50:00Z",
        "annotations": {labels.RUN_REQUESTED: f"{uid} {at}"},
    }
    scene.end_backups()

    await scene.reconcile()

    assert len(scene.backups) == (1 if counts else 2)
    assert scene.status["lastBackup"] == ("2017-01-01T11:50:00Z" if counts else "2017-01-01T12:00:00Z")


@pytest.mark.parametrize(
    ("name", "created"),
    [
        ("name-20170101114459", "2017-01-01T11:44:59Z"),
        ("name-20161231120000", "2017-01-01T12:00:00Z"),
        ("name-20170101115000", "2017-01-01T11:29:59Z"),
        ("name-by-hand", "2017-01-01T12:00:00Z"),
        ("name-20170101120001", "2017-01-01T12:00:00Z"),
    ],
    ids=["of the last run", "found in a location", "of a former schedule", "by hand", "in the future"],
)
async def test_other_backups_of_the_schedule_are_not_the_run(scene: Scene, name: str, created: str) -> None:
    scene.add("45 * * * *", phase="Enabled")["metadata"]["creationTimestamp"] = "2017-01-01T11:30:00Z"
    scene.world.cluster.add("backups", name, labels={labels.SCHEDULE_NAME: "name"})
    scene.world.cluster.stored("backups", name)["metadata"]["creationTimestamp"] = created
    scene.end_backups()

    await scene.reconcile()

    assert scene.backups == sorted(["name-20170101120000", name])


@pytest.mark.parametrize(("owner", "made"), [("name", True), ("another", False), ("", False)])
async def test_a_taken_name_is_skipped_unless_the_backup_is_of_the_schedule(
    scene: Scene, owner: str, made: bool
) -> None:
    scene.add("@hourly", phase="Enabled")

    def take_it(*call: str) -> None:
        """A request of before takes effect after the look for it."""
        if call[:2] == ("create", "backups") and not scene.backups:
            marks = {labels.SCHEDULE_NAME: owner} if owner else {}
            scene.world.cluster.add("backups", "name-20170101120000", labels=marks)

    scene.world.cluster.before = take_it

    result = await scene.reconcile()

    if made:
        assert scene.backups == ["name-20170101120000"]
        assert scene.status["lastBackup"] == "2017-01-01T12:00:00Z"
        return
    assert result == Result.after(1.0)
    assert "lastBackup" not in scene.status
    scene.world.clock.turn(1)
    await scene.reconcile()
    assert scene.backups == ["name-20170101120000", "name-20170101120001"]


async def test_a_schedule_that_is_being_deleted_makes_nothing(scene: Scene) -> None:
    scene.add("@hourly")["metadata"]["deletionTimestamp"] = "2017-01-01T11:59:59Z"

    assert await scene.reconcile() == DONE

    assert scene.world.cluster.writes() == []


async def test_a_schedule_that_was_replaced_runs_for_itself(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled")
    replaced = False

    def replace_it(*call: str) -> None:
        nonlocal replaced
        if call[:2] == ("create", "backups") and not replaced:
            replaced = True
            scene.add("@hourly")["metadata"].update(uid="another", creationTimestamp="2017-01-01T12:00:01Z")

    scene.world.cluster.after = replace_it
    with pytest.raises(KubeError):
        await scene.reconcile()
    assert "lastBackup" not in scene.status

    scene.end_backups()
    scene.world.clock.turn(3605)
    await scene.reconcile()

    assert scene.backups == ["name-20170101120000", "name-20170101130005"]


@pytest.mark.parametrize("error", [Conflict(409, message="changed"), BROKEN])
async def test_a_schedule_edited_meanwhile_is_read_again(scene: Scene, error: KubeError) -> None:
    scene.add("@hourly")
    scene.world.cluster.before = fail_once("patch", "schedules", error=error)

    if isinstance(error, Conflict):
        assert await scene.reconcile() == CHANGED
    else:
        with pytest.raises(ConnectionFailed):
            await scene.reconcile()

    assert scene.backups == []
    await scene.reconcile()
    assert scene.status["phase"] == SchedulePhase.ENABLED
    assert len(scene.backups) == 1


async def test_the_poll_makes_no_request(scene: Scene) -> None:
    scene.add("@hourly", phase="Enabled", lastBackup="2017-01-01T12:00:00Z")
    scene.add("@hourly", "late", phase="Enabled", lastBackup="2017-01-01T10:00:00Z")

    await scene.reconciler.poll()

    assert scene.queued == [Key(NAMESPACE, "late")]
    assert scene.world.cluster.calls == []


async def test_a_template_that_asks_for_what_is_not_supported_is_refused(scene: Scene) -> None:
    scene.add("@hourly", spec={"template": {**TEMPLATE, "volumeGroupSnapshotLabelKey": "p"}})

    assert await scene.reconcile() == DONE

    (error,) = scene.status["validationErrors"]
    assert error.startswith("spec.template.volumeGroupSnapshotLabelKey is not supported")
    assert (scene.status["phase"], scene.backups) == ("FailedValidation", [])


async def test_an_unknown_field_of_a_schedule_is_logged_once(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.add("@hourly")

    for _ in range(3):
        await scene.reconcile()

    assert caplog.text.count("spec.template.fieldOfTheFuture is not a field") == 1
    assert len(scene.backups) == 1


@pytest.mark.found("L4")
@pytest.mark.parametrize("field", ["lastBackup", "lastSkipped"])
async def test_a_last_run_in_the_future_keeps_no_schedule_from_running(
    scene: Scene, field: str, caplog: pytest.LogCaptureFixture
) -> None:
    status: dict[str, Any] = {field: "2017-02-03T12:00:00Z", "phase": "Enabled"}
    scene.add("@every 1m", **status)
    await scene.reconcile()
    scene.world.clock.turn(30)
    await scene.reconcile()
    if field == "lastBackup":
        assert scene.backups == [], "it counts from when that was seen"
        assert caplog.text.count("in the future") == 1
    scene.world.clock.turn(31)
    await scene.reconciler.poll()
    assert scene.queued == [key("name")]
    await scene.reconcile()
    assert len(scene.backups) == 1
    assert scene.status["lastBackup"].startswith("2017-01-01T12:0"), "the status is right again"


@pytest.mark.found("L4")
async def test_a_clock_that_is_a_little_behind_counts_no_run_twice(scene: Scene) -> None:
    scene.add("@every 1m", lastBackup="2017-01-01T12:04:00Z", phase="Enabled")
    scene.world.clock.turn(120)
    await scene.reconcile()
    assert scene.backups == []
