"""What the controllers count, and the gauges of all objects there are."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pinnace.api.labels import SCHEDULE_NAME, SIZE_BYTES
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreStatus
from pinnace.backup.request import ServerDefaults
from pinnace.controllers.backup import BackupCensus, BackupWork, last_successes
from pinnace.controllers.restore import RestoreCensus, RestoreWork
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.resources import BACKUPS, RESTORES, SCHEDULES, APIResource
from pinnace.restore.request import RestoreSettings
from pinnace.runtime.informer import Informer
from pinnace.server.monitoring.metrics import ServerMetrics
from tests.unit.controllers.fakes import World

T = datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)


def counted_scope(world: World) -> tuple[Scope, ServerMetrics]:
    metrics = ServerMetrics()
    scope = Scope(
        client=world.cluster.client,
        namespace="velero",
        metrics=metrics,
        workdir=world.folder,
        clock=world.clock,
    )
    return scope, metrics


def moved(metrics: ServerMetrics, schedule: str = "") -> dict[str, float]:
    """Samples that are not zero, but buckets."""
    return {
        sample.name.removeprefix("velero_"): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name.startswith("velero_")
        and sample.value
        and "le" not in sample.labels
        and sample.labels.get("schedule", schedule) == schedule
    }


def backup(phase: BackupPhase, *, attempted: int = 0, completed: int = 0) -> Backup:
    return Backup(
        metadata=ObjectMeta(name="b", labels={SCHEDULE_NAME: "s"}),
        status=BackupStatus(
            phase=phase,
            start_timestamp=T,
            completion_timestamp=T + timedelta(seconds=90),
            volume_snapshots_attempted=attempted,
            volume_snapshots_completed=completed,
        ),
    )


@pytest.fixture
def work(world: World) -> tuple[BackupWork, ServerMetrics]:
    scope, metrics = counted_scope(world)
    return BackupWork(scope, world.locations, defaults=ServerDefaults()), metrics


@pytest.mark.spec("SRV-014")
def test_a_completed_backup_of_a_schedule(work: tuple[BackupWork, ServerMetrics]) -> None:
    backups, metrics = work
    backups.taken(backup(BackupPhase.IN_PROGRESS))
    backups.ended(backup(BackupPhase.COMPLETED))

    assert moved(metrics, "s") == {
        "backup_attempt_total": 1,
        "backup_success_total": 1,
        "backup_last_status": 1,
        "backup_duration_seconds_count": 1,
        "backup_duration_seconds_sum": 90,
        "backup_last_successful_timestamp": (T + timedelta(seconds=90)).timestamp(),
    }


@pytest.mark.spec("SRV-014")
def test_a_partially_failed_backup_with_snapshots(work: tuple[BackupWork, ServerMetrics]) -> None:
    backups, metrics = work
    backups.taken(backup(BackupPhase.IN_PROGRESS))
    backups.ended(backup(BackupPhase.PARTIALLY_FAILED, attempted=3, completed=2))

    assert moved(metrics, "s") == {
        "backup_attempt_total": 1,
        "backup_partial_failure_total": 1,
        "backup_duration_seconds_count": 1,
        "backup_duration_seconds_sum": 90,
        "volume_snapshot_attempt_total": 3,
        "volume_snapshot_success_total": 2,
        "volume_snapshot_failure_total": 1,
    }


def test_an_invalid_backup_is_no_attempt(work: tuple[BackupWork, ServerMetrics]) -> None:
    backups, metrics = work
    invalid = Backup(status=BackupStatus(phase=BackupPhase.FAILED_VALIDATION))
    backups.taken(invalid)
    backups.ended(invalid)

    assert moved(metrics) == {"backup_validation_failure_total": 1}


@pytest.mark.parametrize(
    ("phase", "name"),
    [
        (RestorePhase.COMPLETED, "restore_success_total"),
        (RestorePhase.PARTIALLY_FAILED, "restore_partial_failure_total"),
        (RestorePhase.FAILED, "restore_failed_total"),
        (RestorePhase.FAILED_VALIDATION, "restore_validation_failed_total"),
    ],
)
def test_every_restore_is_an_attempt_of_its_schedule(world: World, phase: RestorePhase, name: str) -> None:
    scope, metrics = counted_scope(world)
    restores = RestoreWork(scope, world.locations, options=RestoreSettings())
    ended = Restore(spec=RestoreSpec(schedule_name="s"), status=RestoreStatus(phase=phase))
    restores.taken(ended)
    restores.ended(ended)

    assert moved(metrics, "s") == {"restore_attempt_total": 1, name: 1}


def stored(phase: str, seconds: int | None, schedule: str = "") -> JSONObject:
    status = {"phase": phase}
    if seconds is not None:
        moment = T + timedelta(seconds=seconds)
        status["completionTimestamp"] = moment.isoformat().replace("+00:00", "Z")
    return {"metadata": {"labels": {SCHEDULE_NAME: schedule} if schedule else {}}, "status": status}


@pytest.mark.spec("CTL-017", "BKP-064")
@pytest.mark.parametrize(
    ("backups", "expected"),
    [
        ([stored("Completed", 0), stored("Completed", 1), stored("Completed", -1)], {"": 1}),
        ([stored("Completed", 0, "s"), stored("Failed", 9, "s")], {"s": 0}),
        (
            [stored(phase, 9, "s") for phase in ("InProgress", "Failed", "PartiallyFailed")]
            + [stored("Completed", None, "s")],
            {},
        ),
        ([stored("Completed", 1), stored("Completed", 2, "s"), stored("Completed", 3, "t")],
         {"": 1, "s": 2, "t": 3}),
        ([{"metadata": {}}], {}),
    ],
    ids=["newest", "a newer failure", "no success", "schedules apart", "no status"],
)  # fmt: skip
def test_the_last_success_of_each_schedule(backups: list[JSONObject], expected: dict[str, int]) -> None:
    assert last_successes(backups) == {
        schedule: T + timedelta(seconds=seconds) for schedule, seconds in expected.items()
    }


class Cached(Informer):
    """A cache with given objects."""

    def __init__(self, world: World, resource: APIResource, objects: list[JSONObject]) -> None:
        super().__init__(world.cluster.client, resource, "velero")
        self._given = objects

    def objects(self) -> list[JSONObject]:
        return self._given


async def test_the_census_counts_what_there_is(world: World) -> None:
    scope, metrics = counted_scope(world)
    backups = [stored("Completed", 0), stored("Failed", 1), stored("New", None)]

    await BackupCensus(scope, Cached(world, BACKUPS, backups), Cached(world, SCHEDULES, [])).resync()
    await RestoreCensus(scope, Cached(world, RESTORES, [{}, {}])).resync()

    assert moved(metrics) == {
        "backup_total": 3,
        "restore_total": 2,
        "backup_last_successful_timestamp": T.timestamp(),
    }


def ended(name: str, phase: str, schedule: str, *, seconds: int, **status: Any) -> JSONObject:
    """A Backup of a schedule, which was created then."""
    metadata = {
        "name": name,
        "creationTimestamp": format_time(T + timedelta(seconds=seconds)),
        "labels": {SCHEDULE_NAME: schedule},
        "annotations": {SIZE_BYTES: "123"},
    }
    return {"metadata": metadata, "status": {"phase": phase, **status}}


@pytest.mark.found("L12", "L2")
@pytest.mark.parametrize(
    ("newest", "status"),
    [
        (ended("b2", "Failed", "nightly", seconds=60, startTimestamp="2021-08-11T21:44:26Z"), 0),
        (ended("b2", "FailedValidation", "nightly", seconds=60), 0),
        (ended("b2", "PartiallyFailed", "nightly", seconds=60, errors=3), 0),
        (ended("b2", "InProgress", "nightly", seconds=60), 1),
        (ended("b2", "Completed", "nightly", seconds=60), 1),
        # It was found in a location now, and is from before the other one.
        (ended("b2", "Failed", "nightly", seconds=60, startTimestamp="2020-08-11T21:44:26Z"), 1),
        # The server's clock was ahead when an earlier one began.
        (ended("b2", "Failed", "nightly", seconds=-60, startTimestamp="2031-08-11T21:44:26Z"), 1),
    ],
    ids=["killed", "refused", "in part", "not ended", "completed", "synced", "clock ahead"],
)
async def test_a_new_server_knows_how_the_newest_backup_of_a_schedule_ended(
    world: World, newest: JSONObject, status: int
) -> None:
    scope, metrics = counted_scope(world)
    backups = [newest, ended("b1", "Completed", "nightly", seconds=0, progress={"itemsBackedUp": 5})]
    schedules = [{"metadata": {"name": "nightly"}}]

    await BackupCensus(scope, Cached(world, BACKUPS, backups), Cached(world, SCHEDULES, schedules)).resync()

    text = metrics.exposition().decode()
    assert f'velero_backup_last_status{{schedule="nightly"}} {status}.0' in text
    phase = "Completed" if status else newest["status"]["phase"]
    assert f'pinnace_schedule_last_backup{{phase="{phase}",schedule="nightly"}} 1.0' in text
    assert 'velero_backup_tarball_size_bytes{schedule="nightly"} 123.0' in text


@pytest.mark.found("O29")
async def test_series_go_with_the_schedule_and_its_last_backup(world: World) -> None:
    scope, metrics = counted_scope(world)
    backups = [ended("b1", "Failed", "nightly", seconds=0)]
    schedules = [{"metadata": {"name": "nightly"}}]
    census = BackupCensus(scope, Cached(world, BACKUPS, backups), Cached(world, SCHEDULES, schedules))
    for gone, left in ((None, True), (schedules, True), (backups, False)):
        if gone is not None:
            gone.clear()
        await census.resync()
        text = metrics.exposition().decode()
        assert ('velero_backup_last_status{schedule="nightly"} 0.0' in text) is left
        assert ('pinnace_schedule_last_backup{phase="Failed",schedule="nightly"}' in text) is (gone is None)
    assert "nightly" not in text


async def test_the_time_of_the_last_success_goes_with_it(world: World) -> None:
    scope, metrics = counted_scope(world)
    done = {"completionTimestamp": format_time(T)}
    kept, gone = (ended(name, "Completed", name, seconds=0, **done) for name in ("kept", "gone"))
    running = ended("run", "InProgress", "new", seconds=1)
    backups = [kept, gone, ended("later", "Failed", "gone", seconds=1), running]
    census = BackupCensus(scope, Cached(world, BACKUPS, backups), Cached(world, SCHEDULES, []))

    def shown() -> set[str]:
        series = re.findall(r'last_successful_timestamp{schedule="(.*?)"}', metrics.exposition().decode())
        return set(series)

    await census.resync()
    assert shown() == {"kept", "gone"}
    backups.remove(gone)
    world.clock.turn(3600.0)
    metrics.backup_last_successful("new", world.clock.now().timestamp())
    await census.resync()

    assert shown() == {"kept", "new"}, "of one only a failure is left; of another the cache lacks the end"
    metrics.backup_last_successful("gone", world.clock.now().timestamp())
    assert shown() == {"kept", "new", "gone"}


@pytest.mark.found("Z5")
def test_numbers_that_nobody_counted_break_no_metric(work: tuple[BackupWork, ServerMetrics]) -> None:
    controller, metrics = work
    run = backup(BackupPhase.COMPLETED, attempted=-4, completed=-5)
    run.status.csi_volume_snapshots_attempted = run.status.csi_volume_snapshots_completed = -1
    run.status.errors = -5
    run.status.completion_timestamp = T - timedelta(days=365)
    controller.ended(run)
    assert moved(metrics, "s")["backup_success_total"] == 1
    metrics.csi_snapshots("s", "b", attempted=1, completed=-1)


@pytest.mark.found("Z1")
def test_a_date_of_one_backup_does_not_hide_the_successes_of_others() -> None:
    def completed(name: str, date: str) -> JSONObject:
        metadata = {"name": name, "labels": {SCHEDULE_NAME: name}}
        return {"metadata": metadata, "status": {"phase": "Completed", "completionTimestamp": date}}

    odd = ["0000-01-01T00:00:00Z", "2021-08-11t21:43:26z", "2021-08-11T21:43:26+99:99"]
    found = last_successes(
        [*(completed(date, date) for date in odd), completed("good", "2021-08-11T21:43:26Z")]
    )
    assert found["good"] == T
