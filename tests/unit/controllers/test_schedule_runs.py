"""What a server notes of the runs of Schedules."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.api.velero.schedule import backup_annotations
from pinnace.controllers.schedule_runs import ScheduleRuns, is_changed
from pinnace.kube.resources import BACKUPS, SCHEDULES
from pinnace.runtime.keys import Key
from pinnace.server.monitoring.metrics import ServerMetrics
from tests.unit.controllers.fakes import Cached, World

NOON = datetime(2024, 3, 4, 12, tzinfo=UTC)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.world = World(folder)
        self.metrics = ServerMetrics()
        object.__setattr__(self.world.scope, "metrics", self.metrics)
        self.world.clock.set(NOON)
        caches = Cached(self.world, SCHEDULES), Cached(self.world, BACKUPS)
        self.runs = ScheduleRuns(self.world.scope, *caches, zone=UTC)

    def schedule(self, expression: str = "0 1 * * *", *, paused: bool = False, last: str = "") -> JSONObject:
        spec = {"schedule": expression, "template": {}, "paused": paused}
        self.world.cluster.add("schedules", "s", spec=spec, status={"lastBackup": last} if last else {})
        made = self.world.cluster.stored("schedules", "s")
        made["metadata"]["creationTimestamp"] = "2024-03-01T00:00:00Z"
        return made

    def backup(self, name: str, phase: str, began: str, ended: str = "") -> None:
        status = {"phase": phase, "startTimestamp": began, "completionTimestamp": ended}
        self.world.cluster.add("backups", name, labels={labels.SCHEDULE_NAME: "s"}, status=status)

    @property
    def notes(self) -> dict[str, str]:
        annotations = self.world.cluster.stored("schedules", "s")["metadata"].get("annotations", {})
        return {name.removeprefix("pinnace.io/"): value for name, value in annotations.items()}

    def series(self) -> dict[str, float]:
        return {
            sample.name.removeprefix("pinnace_schedule_"): sample.value
            for family in self.metrics.registry.collect()
            for sample in family.samples
            if sample.name.startswith("pinnace_schedule_") and sample.labels == {"schedule": "s"}
        }


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_schedule_that_never_succeeded_has_its_series_and_a_deadline_from_its_creation(
    scene: Scene,
) -> None:
    scene.schedule(last="2024-03-04T01:00:00Z")
    scene.backup("s-1", "Failed", "2024-03-04T01:00:00Z", "2024-03-04T01:05:00Z")

    await scene.runs.resync()

    assert scene.notes == {"next-run": "2024-03-05T01:00:00Z", "missed-run": "no"}
    created = datetime(2024, 3, 1, tzinfo=UTC).timestamp()
    found = scene.series()
    # 1 March 01:00 was the first run: its failure, and all since, move nothing.
    assert found == {
        "expected": 1,
        "missed": 0,
        "success_deadline_timestamp": created + 1.5 * 86400 + 600,
    }


async def test_a_missed_run_is_noted_until_a_backup_was_made(scene: Scene) -> None:
    scene.schedule(last="2024-03-03T01:00:00Z")
    await scene.runs.resync()
    assert scene.notes == {"next-run": "2024-03-04T01:00:00Z", "missed-run": "missed 2024-03-04T01:00:00Z"}
    assert scene.series()["missed"] == 1

    scene.world.cluster.stored("schedules", "s")["status"] = {"lastBackup": "2024-03-04T12:00:00Z"}
    scene.backup("s-1", "Completed", "2024-03-04T12:00:00Z", "2024-03-04T12:05:00Z")
    writes = len(scene.world.cluster.writes())
    await scene.runs.resync()
    await scene.runs.resync()

    assert scene.notes == {
        "next-run": "2024-03-05T01:00:00Z",
        "missed-run": "no",
        "last-success": "2024-03-04T12:05:00Z",
    }
    assert scene.series()["missed"] == 0
    assert len(scene.world.cluster.writes()) == writes + 1


async def test_a_run_that_waits_for_the_end_of_a_window_is_not_missed(scene: Scene) -> None:
    made = scene.schedule("0 * * * *", last="2024-03-04T07:00:00Z")
    made["metadata"]["annotations"] = {labels.NOT_DURING: "Mon-Fri 08:00-18:00"}
    scene.backup("s-1", "Completed", "2024-03-04T07:00:00Z", "2024-03-04T07:01:00Z")
    await scene.runs.resync()
    assert (scene.notes["next-run"], scene.notes["missed-run"]) == ("2024-03-04T18:00:00Z", "no")
    assert scene.series()["success_deadline_timestamp"] > datetime(2024, 3, 4, 18, tzinfo=UTC).timestamp()


async def test_a_running_backup_delays_the_next(scene: Scene) -> None:
    scene.schedule("0 * * * *", last="2024-03-04T09:00:00Z")
    scene.backup("s-1", "InProgress", "2024-03-04T09:00:00Z")
    await scene.runs.resync()
    assert scene.notes["missed-run"] == "running"


@pytest.mark.parametrize(
    ("expression", "paused", "note"),
    [("0 1 * * *", True, "paused"), ("nonsense", False, "invalid invalid schedule: ")],
)
async def test_paused_and_invalid_schedules_miss_nothing(
    scene: Scene, expression: str, paused: bool, note: str
) -> None:
    scene.schedule(expression, paused=paused, last="2024-02-01T01:00:00Z")
    await scene.runs.resync()
    assert scene.notes["missed-run"].startswith(note)
    found = scene.series()
    assert (found["expected"], found["missed"]) == (0, 0)
    assert "success_deadline_timestamp" not in found


def test_backups_do_not_get_these_annotations() -> None:
    own = {labels.NEXT_RUN: "x", labels.LAST_SUCCESS: "x", labels.MISSED_RUN: "no", "a": "b"}
    assert backup_annotations({"metadata": {"annotations": own}}) == {"a": "b"}


async def test_a_success_of_a_clock_that_was_ahead_moves_no_deadline(scene: Scene) -> None:
    scene.schedule(last="2024-03-04T01:00:00Z")
    ahead = format_time(NOON + timedelta(days=400))
    scene.backup("s-1", "Completed", ahead, ahead)
    await scene.runs.resync()
    assert scene.series()["success_deadline_timestamp"] < NOON.timestamp()


async def test_a_new_schedule_has_its_notes_before_the_next_look_at_all(scene: Scene) -> None:
    scene.schedule(last="2024-03-04T01:00:00Z")
    scene.backup("s-1", "Completed", "2024-03-04T01:00:00Z", "2024-03-04T01:05:00Z")

    await scene.runs.reconcile(Key("velero", "s"))
    await scene.runs.reconcile(Key("velero", "gone"))

    assert scene.notes == {
        "next-run": "2024-03-05T01:00:00Z",
        "last-success": "2024-03-04T01:05:00Z",
        "missed-run": "no",
    }
    assert scene.series()["expected"] == 1


@pytest.mark.parametrize(
    ("new", "changes"),
    [
        ({"spec": {"schedule": "@daily", "paused": True}}, True),
        ({"status": {"lastBackup": "2024-03-04T01:00:00Z", "phase": "Enabled"}}, True),
        ({"metadata": {"annotations": {labels.NOT_DURING: "08:00-18:00"}}}, True),
        ({"metadata": {"annotations": {labels.NEXT_RUN: "2024-03-04T01:00:00Z"}}}, False),
        ({"status": {"phase": "Enabled"}}, False),
    ],
    ids=["paused", "ran", "window", "our note", "phase"],
)
def test_a_schedule_is_looked_at_when_its_times_may_have_changed(new: JSONObject, changes: bool) -> None:
    old: JSONObject = {"metadata": {}, "spec": {"schedule": "@daily"}, "status": {}}
    assert is_changed(old, {**old, **new}) is changes
