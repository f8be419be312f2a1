"""Deletions by the rules of a Schedule: what is asked for, what waits, and what every doubt keeps."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.controllers.deletion.retention import RetentionReconciler
from pinnace.kube.errors import ConnectionFailed, Forbidden
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, NAMESPACES, RESTORES, SCHEDULES
from pinnace.runtime.controller import CHANGED, DONE, Result
from pinnace.runtime.keys import Key
from pinnace.storage.holds import Hold
from tests.unit.controllers.fakes import Cached, World, fail_always, fail_once, key

START = datetime(2026, 11, 1, 3, 0, tzinfo=UTC)


class Scene:
    """A schedule `daily` with rules, and its backups `b01`, `b02` and so on, one a day."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queued: list[Key] = []
        world.add_location()
        world.clock.set(datetime(2026, 12, 31, 12, 0, tzinfo=UTC))
        for name in ("kube-system", "velero"):
            world.cluster.add(NAMESPACES.name, name, namespace="")
        self.ours = world.all_of(NAMESPACES.name)["kube-system"]["metadata"]["uid"]
        self.restart()

    def restart(self) -> None:
        world = self.world
        self.reconciler = RetentionReconciler(
            world.scope,
            world.locations,
            Cached(world, SCHEDULES),
            metrics=world.metrics,
            zone=UTC,
            enqueue=self.queued.append,
        )

    def schedule(self, rules: str | None, name: str = "daily", **notes: str) -> JSONObject:
        if rules is not None:
            notes[labels.RETENTION] = rules
        spec = {"schedule": "@daily", "template": {}}
        obj = self.world.cluster.add(SCHEDULES.name, name, spec=spec)
        obj["metadata"]["annotations"] = dict(notes)
        return obj

    def backups(self, count: int, *, first: int = 1, schedule: str = "daily", **more: Any) -> None:
        for number in range(first, first + count):
            self.backup(f"b{number:02}", START + timedelta(days=number), schedule=schedule, **more)

    def backup(
        self,
        name: str,
        began: datetime,
        *,
        schedule: str = "daily",
        cluster: str | None = None,
        **status: Any,
    ) -> JSONObject:
        obj = self.world.cluster.add(
            BACKUPS.name,
            name,
            labels={labels.SCHEDULE_NAME: schedule},
            spec={"storageLocation": status.pop("location", "default")},
            status={
                "phase": "Completed",
                "startTimestamp": format_time(began),
                "completionTimestamp": format_time(began + timedelta(minutes=5)),
                **status,
            },
        )
        obj["metadata"]["creationTimestamp"] = format_time(began)
        obj["metadata"]["annotations"] = {labels.SOURCE_CLUSTER_UID: cluster or self.ours}
        return obj

    async def run(self, name: str = "daily") -> Result:
        return await self.reconciler.reconcile(key(name))

    @property
    def asked(self) -> list[str]:
        found = self.world.all_of(DELETE_BACKUP_REQUESTS.name).values()
        return sorted(obj["spec"]["backupName"] for obj in found)

    def notes(self, name: str = "daily") -> dict[str, str]:
        found: dict[str, str] = self.world.all_of(SCHEDULES.name)[name]["metadata"]["annotations"]
        return found

    @property
    def status(self) -> str:
        return self.notes().get(labels.RETENTION_STATUS, "")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(World(tmp_path))


async def test_what_no_rule_keeps_is_asked_for_once(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(8)
    scene.backups(8, first=11, schedule="daily-db")

    assert await scene.run() == DONE
    assert scene.asked == ["b01", "b02", "b03", "b04", "b05"]
    requests = scene.world.all_of(DELETE_BACKUP_REQUESTS.name).values()
    assert {obj["metadata"]["annotations"][labels.REMOVAL_REASON] for obj in requests} == {"rule"}
    assert scene.status.endswith(" applied")

    scene.restart()  # another server
    writes = len(scene.world.cluster.writes())
    assert await scene.run() == DONE
    assert len(scene.asked) == 5
    assert len(scene.world.cluster.writes()) == writes


async def test_each_location_is_a_group_of_its_own(scene: Scene) -> None:
    scene.world.add_location("other")
    scene.schedule("keepLast: 1")
    scene.backups(2)
    scene.backups(2, first=11, location="other")
    await scene.run()
    assert scene.asked == ["b01", "b11"]


@pytest.mark.parametrize("rules", ["keepLast: 0", "keepLost: 3", "keepLast: [3", "keepLast: -3", ""])
async def test_rules_that_keep_nothing_or_cannot_be_read_delete_nothing(scene: Scene, rules: str) -> None:
    scene.schedule(rules)
    scene.backups(8)
    for _ in range(2):
        assert await scene.run() == DONE
    assert scene.asked == []
    assert " invalid annotation pinnace.io/retention: " in scene.status
    assert len(scene.world.cluster.writes()) == 1
    assert ("retention_passed", "daily", False, 0) in scene.world.metrics.calls


async def test_the_notes_of_a_schedule_go_with_its_rules(scene: Scene) -> None:
    scene.schedule(None, **{labels.RETENTION_STATUS: "x", labels.RETENTION_ANNOUNCED: "{}"})
    scene.backups(8)
    await scene.run()
    assert (scene.asked, scene.notes()) == ([], {})
    assert await scene.run("gone") == DONE


async def test_more_than_ten_wait_for_a_day_that_outlives_a_restart(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(14)
    clock = scene.world.clock

    assert await scene.run() == Result.after(86_401)
    assert scene.asked == []
    assert " waiting 11 backups would go at once" in scene.status
    assert "2027-01-01T12:00:00Z" in scene.status

    clock.turn(23 * 3600)
    scene.restart()
    assert await scene.run() == Result.after(3_601)
    assert scene.asked == []
    clock.turn(3600)
    await scene.run()
    assert scene.asked == [f"b{number:02}" for number in range(1, 12)]
    assert scene.status.endswith(" applied")


async def test_a_confirmation_with_its_time_lets_go_what_was_announced(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(14)
    await scene.run()
    confirm = scene.status.rpartition(": ")[2]
    assert confirm == "2026-12-31T12:00:00Z"

    scene.notes()[labels.RETENTION_CONFIRMED] = "2099-01-01T00:00:00Z"
    await scene.run()
    assert scene.asked == []
    scene.notes()[labels.RETENTION_CONFIRMED] = confirm
    await scene.run()
    assert len(scene.asked) == 11


async def test_a_deletion_that_waits_is_announced_before_anything_is_asked_for(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(8)
    scene.world.cluster.before = fail_once("patch", SCHEDULES.name)
    with pytest.raises(ConnectionFailed):
        await scene.run()
    assert scene.asked == []


@pytest.mark.parametrize("verb", ["create", "get", "list", "patch"])
async def test_a_server_that_dies_anywhere_deletes_once(scene: Scene, verb: str) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(8)
    scene.world.cluster.after = fail_once(verb)
    with pytest.raises(ConnectionFailed):
        await scene.run()
    scene.restart()
    while await scene.run() == CHANGED:
        pass
    assert scene.asked == ["b01", "b02", "b03", "b04", "b05"]


async def test_backups_of_another_cluster_neither_go_nor_push_others_out(scene: Scene) -> None:
    scene.schedule("keepLast: 2")
    scene.backups(3)
    scene.backups(5, first=11, cluster="theirs")
    await scene.run()
    assert scene.asked == ["b01"]


@pytest.mark.parametrize(
    "phase", ["InProgress", "WaitingForPluginOperations", "Finalizing", "New", "Strange"]
)
async def test_a_backup_that_has_not_ended_neither_goes_nor_counts(scene: Scene, phase: str) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(2)
    scene.backup("b09", START + timedelta(days=9), phase=phase)
    scene.backup("b00", START, phase=phase)
    await scene.run()
    assert scene.asked == ["b01"]


async def test_what_is_held_or_restored_from_stays(scene: Scene) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(6)
    scene.world.all_of(BACKUPS.name)["b01"]["metadata"]["annotations"][labels.HOLD] = "legal"
    for name, phase in (("b02", "InProgress"), ("b05", "Completed")):
        spec, status = {"backupName": name}, {"phase": phase}
        scene.world.cluster.add(RESTORES.name, f"r-{name}", spec=spec, status=status)
    async with scene.world.locations.open("default") as store:
        for name, held in (("b03", True), ("b04", False)):
            await store.put_hold(name, Hold.at(START, held=held, reason="audit"))
    await scene.run()
    assert scene.asked == ["b04", "b05"]


async def test_a_backup_whose_deletion_is_asked_for_does_not_count(scene: Scene) -> None:
    """Else the newest would keep no other one, and be gone a moment later."""
    scene.schedule("keepLast: 1")
    scene.backups(3)
    spec, status = {"backupName": "b03"}, {"phase": "New"}
    scene.world.cluster.add(DELETE_BACKUP_REQUESTS.name, "user", spec=spec, status=status)
    await scene.run()
    assert scene.asked == ["b01", "b03"]


async def test_a_deletion_that_ended_with_errors_is_asked_for_again_without_notice(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(14, phase="Deleting")
    scene.backups(3, first=21)
    await scene.run()
    assert len(scene.asked) == 14


@pytest.mark.parametrize(
    "spec", [{"accessMode": "ReadOnly"}, {"config": {"path": "relative"}}, {"provider": "no.such/provider"}]
)
async def test_nothing_is_asked_of_a_location_that_cannot_delete(scene: Scene, spec: JSONObject) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(3)
    scene.world.add_location(**spec)
    assert await scene.run() == DONE
    assert scene.asked == []


@pytest.mark.parametrize("obstacle", ["Unavailable", "gone", "forbidden"])
async def test_nothing_is_asked_of_a_location_that_is_away(scene: Scene, obstacle: str) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(3)
    scene.backup("never-began", START, phase="FailedValidation", startTimestamp=None)
    for number in range(4):
        scene.backup(f"never-{number}", START, phase="FailedValidation", startTimestamp=None)
    location = scene.world.cluster.stored("backupstoragelocations", "default")
    location["status"] = {"phase": "Unavailable"}
    if obstacle == "gone":
        scene.world.cluster.vanish("backupstoragelocations", "default")
    elif obstacle == "forbidden":
        refused = Forbidden(403, reason="Forbidden")
        scene.world.cluster.before = fail_always("get", "backupstoragelocations", error=refused)
    await scene.run()
    # Those that never began are in no location.
    assert scene.asked == ["never-0", "never-1"]


@pytest.mark.parametrize("difference", [timedelta(days=-365), timedelta(days=365), timedelta(minutes=3)])
async def test_nothing_goes_while_the_clocks_differ(scene: Scene, difference: timedelta) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(3)
    scene.world.cluster.clock_difference = difference
    assert await scene.run() == DONE
    assert scene.asked == []


async def test_a_clock_set_back_by_a_year_deletes_nothing(scene: Scene) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(3)
    scene.world.clock.set(datetime(2025, 11, 20, tzinfo=UTC))
    await scene.run()
    assert scene.asked == []
    # And a backup of a clock that was ahead pushes no other one out, then or later.
    scene.world.clock.set(datetime(2026, 12, 31, 12, 0, tzinfo=UTC))
    scene.backup("ahead", datetime(2027, 12, 31, tzinfo=UTC))
    await scene.run()
    assert scene.asked == ["b01", "b02"]


async def test_a_backup_that_changes_meanwhile_is_looked_at_again(scene: Scene) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(2)

    def hold(verb: str, plural: str, name: str) -> None:
        if (verb, plural, name) == ("get", BACKUPS.name, "b01"):
            scene.world.cluster.stored(BACKUPS.name, "b01")["metadata"]["resourceVersion"] = "later"

    scene.world.cluster.before = hold
    await scene.run()
    assert (scene.asked, scene.queued) == ([], [key("daily")])


async def test_schedules_with_rules_are_queued_and_found_by_their_backups(scene: Scene) -> None:
    long_name = "d" * 70
    scene.schedule("keepLast: 1")
    scene.schedule("keepLast: 1", name=long_name)
    scene.schedule(None, name="without")
    await scene.reconciler.enqueue_all()
    assert sorted(each.name for each in scene.queued) == ["daily", long_name]
    assert scene.world.cluster.calls == []
    for name, found in (("daily", [key("daily")]), (long_name, [key(long_name)]), ("without", []), ("x", [])):
        marks = {labels.SCHEDULE_NAME: labels.label_value(name)}
        assert [*scene.reconciler.keys_of_backup({"metadata": {"labels": marks}})] == found
    assert [*scene.reconciler.keys_of_backup({"metadata": {}})] == []


async def test_a_schedule_made_again_under_its_name_announces_again(scene: Scene) -> None:
    scene.schedule("keepLast: 3")
    scene.backups(14)
    await scene.run()
    scene.world.clock.turn(86_400)
    scene.world.cluster.vanish(SCHEDULES.name, "daily")
    scene.schedule("keepLast: 3")
    await scene.run()
    assert scene.asked == []


async def test_a_deletion_that_somebody_asks_for_meanwhile_is_not_asked_for_again(scene: Scene) -> None:
    scene.schedule("keepLast: 1")
    scene.backups(2)

    def ask(verb: str, plural: str, name: str) -> None:
        if (verb, plural, name) == ("get", BACKUPS.name, "b01"):
            backup = scene.world.all_of(BACKUPS.name)["b01"]
            marks = {labels.BACKUP_NAME: "b01", labels.BACKUP_UID: backup["metadata"]["uid"]}
            spec = {"backupName": "b01"}
            scene.world.cluster.add(DELETE_BACKUP_REQUESTS.name, "user", labels=marks, spec=spec)

    scene.world.cluster.before = ask
    await scene.run()
    assert scene.asked == ["b01"]
