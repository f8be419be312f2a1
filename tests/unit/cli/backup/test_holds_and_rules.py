"""`backup hold`, `backup release`, `backup prune`, and what a location and a server delete meanwhile."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api import labels
from pinnace.api.values.times import format_time
from pinnace.cli.main import run
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, DEPLOYMENTS, NAMESPACES, SCHEDULES
from tests.unit.cli.cluster import ServedCluster, connected

Printed = pytest.CaptureFixture[str]
START = datetime(2026, 1, 1, 3, 0, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A location with backups of a schedule, of a job without one, and of another cluster."""
    found = tmp_path / "location"
    for number in range(1, 6):
        store(found, f"daily-{number}", number, schedule="daily")
        store(found, f"theirs-{number}", number + 100, schedule="daily", cluster="theirs")
        store(found, f"job-{number}", number, job="shop")
    return found


def store(
    folder: Path, name: str, day: int, *, schedule: str = "", cluster: str = "ours", job: str = ""
) -> None:
    marks = {labels.SCHEDULE_NAME: schedule} if schedule else {"job": job}
    directory = folder / "backups" / name
    directory.mkdir(parents=True)
    stored = {
        "kind": "Backup",
        "apiVersion": "velero.io/v1",
        "metadata": {
            "name": name,
            "namespace": "velero",
            "labels": marks,
            "annotations": {labels.SOURCE_CLUSTER_UID: cluster},
        },
        "spec": {"storageLocation": "default"},
        "status": {"phase": "Completed", "startTimestamp": format_time(START + timedelta(days=day))},
    }
    (directory / "velero-backup.json").write_text(json.dumps(stored))


def left(folder: Path) -> set[str]:
    return {path.name for path in (folder / "backups").iterdir() if any(path.iterdir())}


@pytest.fixture(autouse=True)
def _without_a_cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))


def test_each_schedule_of_each_cluster_is_pruned_by_itself(folder: Path, capsys: Printed) -> None:
    everything = left(folder)
    at = ["--location", str(folder), "backup"]
    assert run([*at, "prune", "--keep-last", "2", "--dry-run", "-o", "json"]) == 0
    groups = json.loads(capsys.readouterr().out)
    assert [[each["name"] for each in group["backups"] if each["goes"]] for group in groups] == [
        [],
        ["daily-3", "daily-2", "daily-1"],
        ["theirs-3", "theirs-2", "theirs-1"],
    ]
    assert left(folder) == everything

    assert run([*at, "hold", "daily-1", "--reason", "audit"]) == 0
    assert run([*at, "prune", "--keep-last", "2", "--confirm"]) == 0
    assert everything - left(folder) == {"daily-2", "daily-3", "theirs-1", "theirs-2", "theirs-3"}

    assert run([*at, "prune", "--keep-last", "2", "-l", "job=shop", "--confirm"]) == 0
    assert {name for name in left(folder) if name.startswith("job")} == {"job-4", "job-5"}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ([], "without any, nothing is deleted"),
        (["--keep-failed", "3"], "keep no finished backup"),
        (["--keep-last", "0"], "keep no finished backup"),
        (["--keep-within", "5m"], "--keep-within must be a time"),
        (["--keep-last", "1", "--time-zone", "Mars/Olympus"], "is no time zone"),
        (["--keep-last", "1", "-l", ""], "--selector must not be empty"),
    ],
)
def test_what_keeps_nothing_or_cannot_be_read_is_refused(
    folder: Path, capsys: Printed, words: list[str], error: str
) -> None:
    everything = left(folder)
    assert run(["--location", str(folder), "backup", "prune", "--confirm", *words]) != 0
    assert error in capsys.readouterr().err
    assert left(folder) == everything


def test_a_held_backup_is_not_deleted_from_a_location_until_it_is_released(
    folder: Path, capsys: Printed
) -> None:
    at = ["--location", str(folder), "backup"]
    assert run([*at, "hold", "job-1", "--reason", "audit"]) == 0
    assert run([*at, "hold", "job-1"]) == 0
    assert run([*at, "delete", "job-1", "--confirm", "--force"]) == 1
    assert "backup job-1 is held: audit" in capsys.readouterr().err
    assert run([*at, "describe", "job-1"]) == 0
    assert "Hold:" in capsys.readouterr().out

    assert run([*at, "release", "job-1", "nobody"]) == 1
    assert run([*at, "delete", "job-1", "--confirm"]) == 0
    assert "job-1" not in left(folder)


def test_a_hold_in_the_record_of_a_backup_is_released_beside_it(folder: Path) -> None:
    at = ["--location", str(folder), "backup"]
    record = folder / "backups" / "job-1" / "velero-backup.json"
    stored = json.loads(record.read_text())
    stored["metadata"]["annotations"][labels.HOLD] = ""
    record.write_text(json.dumps(stored))
    before = record.read_bytes()
    assert run([*at, "delete", "job-1", "--confirm"]) == 1
    assert run([*at, "release", "job-1"]) == 0
    assert record.read_bytes() == before
    assert run([*at, "delete", "job-1", "--confirm"]) == 0


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    found = connected(monkeypatch, tmp_path)
    for name in ("kube-system", "velero"):
        found.add(NAMESPACES, name)
    schedule = found.add(SCHEDULES, "daily", spec={"schedule": "@daily", "template": {}})
    schedule["metadata"]["annotations"] = {labels.RETENTION: "keepLast: 2"}
    began = SYSTEM_CLOCK.now() - timedelta(days=40)
    for number in range(1, 16):
        moment = format_time(began + timedelta(days=number))
        backup = found.add(
            BACKUPS,
            f"daily-{number:02}",
            labels={labels.SCHEDULE_NAME: "daily"},
            spec={"storageLocation": "default"},
            status={"phase": "Completed", "startTimestamp": moment, "completionTimestamp": moment},
        )
        backup["metadata"]["creationTimestamp"] = moment
    return found


def test_a_server_s_backup_is_held_and_released_by_its_annotation(
    cluster: ServedCluster, capsys: Printed
) -> None:
    assert run(["backup", "hold", "daily-01", "--reason", "audit"]) == 0
    assert cluster.stored("backups", "daily-01")["metadata"]["annotations"] == {labels.HOLD: "audit"}
    assert run(["backup", "hold", "daily-01"]) == 0
    assert 'Backup "daily-01" is held already: audit' in capsys.readouterr().out
    assert cluster.stored("backups", "daily-01")["metadata"]["annotations"] == {labels.HOLD: "audit"}
    assert run(["backup", "delete", "daily-01", "--confirm"]) == 1
    assert "backup daily-01 is held: audit" in capsys.readouterr().err
    assert cluster.of(DELETE_BACKUP_REQUESTS) == []
    assert run(["backup", "release", "daily-01"]) == 0
    assert run(["backup", "delete", "daily-01", "--confirm"]) == 0

    cluster.stored("backups", "daily-02")["status"]["phase"] = "Deleting"
    assert run(["backup", "hold", "daily-02"]) == 1


def test_prune_with_a_server_asks_for_deletions(cluster: ServedCluster) -> None:
    assert run(["backup", "prune", "--keep-last", "13", "--confirm"]) == 0
    asked = sorted(obj["spec"]["backupName"] for obj in cluster.of(DELETE_BACKUP_REQUESTS))
    assert asked == ["daily-01", "daily-02"]
    notes = [obj["metadata"]["annotations"] for obj in cluster.of(DELETE_BACKUP_REQUESTS)]
    assert notes == [{labels.REMOVAL_REASON: "rule"}] * 2


def test_schedule_prune_shows_and_confirms_what_waits(cluster: ServedCluster, capsys: Printed) -> None:
    assert run(["schedule", "prune", "--dry-run", "-o", "json"]) == 0
    [group] = json.loads(capsys.readouterr().out)
    assert sum(each["waits"] for each in group["backups"]) == 13
    assert group["backups"][0]["keptBy"] == ["keepLast 1 of 2", "keepMinGood 1 of 1"]

    assert run(["schedule", "prune", "daily", "--confirm"]) == 1
    assert "has not announced" in capsys.readouterr().err
    notes = cluster.stored("schedules", "daily")["metadata"]["annotations"]
    notes[labels.RETENTION_ANNOUNCED] = '{"2026-11-28T06:00:00Z": ["x"]}'
    assert run(["schedule", "prune", "daily", "--confirm"]) == 0
    notes = cluster.stored("schedules", "daily")["metadata"]["annotations"]
    assert notes[labels.RETENTION_CONFIRMED] == "2026-11-28T06:00:00Z"
    cluster.add(SCHEDULES, "new", spec={})["metadata"]["annotations"] = {labels.RETENTION: "keepLast: 2"}
    assert run(["schedule", "prune", "new", "--dry-run"]) == 0
    assert "Schedule new has no backups yet." in capsys.readouterr().err
    notes[labels.RETENTION] = "keepLast: x"
    assert run(["schedule", "prune", "daily"]) == 1
    assert "nothing is deleted" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expression", "zone", "kept"),
    [
        ("@daily", "Asia/Tokyo", ["evening"]),
        ("@daily", None, ["evening", "night"]),
        ("CRON_TZ=UTC 0 3 * * *", "Asia/Tokyo", ["evening", "night"]),
        ("@daily", "absent", ["evening", "night"]),
    ],
)
def test_schedule_prune_counts_days_in_the_time_zone_of_the_server(
    cluster: ServedCluster, capsys: Printed, expression: str, zone: str | None, kept: list[str]
) -> None:
    if zone != "absent":
        env = [{"name": "TZ", "value": zone}] if zone else []
        spec = {"template": {"spec": {"containers": [{"name": "velero", "env": env}]}}}
        cluster.add(DEPLOYMENTS, "velero", spec=spec)
    schedule = cluster.add(SCHEDULES, "odd", spec={"schedule": expression, "template": {}})
    schedule["metadata"]["annotations"] = {labels.RETENTION: "keepDaily: 2\nkeepFailed: 0"}
    # 23:00 and 13:00 of the next day in Tokyo; two days in UTC, and one of them is older than both.
    for name, moment in (
        ("old", "2026-01-01T20:00:00Z"),
        ("night", "2026-02-01T16:00:00Z"),
        ("evening", "2026-02-02T14:00:00Z"),
    ):
        made = cluster.add(
            BACKUPS,
            name,
            labels={labels.SCHEDULE_NAME: "odd"},
            spec={"storageLocation": "default"},
            status={"phase": "Completed", "startTimestamp": moment, "completionTimestamp": moment},
        )
        made["metadata"]["creationTimestamp"] = moment

    assert run(["schedule", "prune", "odd", "--dry-run", "-o", "json"]) == 0

    shown = capsys.readouterr()
    [group] = json.loads(shown.out)
    by_day = [each["name"] for each in group["backups"] if "keepDaily" in str(each["keptBy"])]
    assert [name for name in by_day if name != "old"] == kept
    assert ("the time zone of the server is not known" in shown.err) == (zone == "absent")


def test_descriptions_say_what_keeps_a_backup(cluster: ServedCluster, capsys: Printed) -> None:
    assert run(["schedule", "describe", "daily"]) == 0
    described = capsys.readouterr().out
    assert "keepLast 2, keepMinGood 1, keepFailed 3" in described
    assert "keepLast 2 of 2" in described
    assert run(["backup", "describe", "daily-15"]) == 0
    assert "kept: keepLast 1 of 2, keepMinGood 1 of 1" in capsys.readouterr().out
    assert run(["backup", "describe", "daily-01"]) == 0
    assert "goes: no rule keeps it" in capsys.readouterr().out


def test_the_rules_of_a_new_schedule_are_written_into_its_annotation(
    cluster: ServedCluster, capsys: Printed
) -> None:
    words = ["schedule", "create", "s", "--schedule", "@daily"]
    assert run([*words, "--keep-daily", "7", "--keep-within", "30d"]) == 0
    annotations = cluster.stored("schedules", "s")["metadata"]["annotations"]
    assert annotations == {labels.RETENTION: "keepDaily: 7\nkeepWithin: 30d"}
    assert run([*words, "--keep-failed", "7"]) == 1
    assert "keep no finished backup" in capsys.readouterr().err


def test_the_deletion_of_a_schedule_says_what_becomes_of_its_backups(
    cluster: ServedCluster, capsys: Printed
) -> None:
    assert run(["schedule", "delete", "daily", "--confirm"]) == 0
    said = capsys.readouterr().err
    assert "its backups stay for their time to live" in said
    assert "backup prune -l velero.io/schedule-name=daily" in said
    assert len(cluster.of(BACKUPS)) == 15
