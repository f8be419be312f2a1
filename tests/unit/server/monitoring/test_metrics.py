"""The server's metrics: names, labels, zeros and what moves them."""

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pinnace.server.monitoring.metrics import KEPT_BACKUPS, ServerMetrics
from pinnace.storage.newest import Link

COUNTERS = [
    "velero_backup_attempt_total",
    "velero_backup_deletion_attempt_total",
    "velero_backup_deletion_failure_total",
    "velero_backup_deletion_success_total",
    "velero_backup_failure_total",
    "velero_backup_partial_failure_total",
    "velero_backup_success_total",
    "velero_backup_validation_failure_total",
    "velero_backup_warning_total",
    "velero_csi_snapshot_attempt_total",
    "velero_csi_snapshot_failure_total",
    "velero_csi_snapshot_success_total",
    "velero_restore_attempt_total",
    "velero_restore_failed_total",
    "velero_restore_partial_failure_total",
    "velero_restore_success_total",
    "velero_restore_validation_failed_total",
    "velero_volume_snapshot_attempt_total",
    "velero_volume_snapshot_failure_total",
    "velero_volume_snapshot_success_total",
]


def samples(metrics: ServerMetrics) -> dict[tuple[str, str | None], float]:
    """All velero samples but buckets, by name and schedule (None: no such label)."""
    found = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            if sample.name.startswith("velero_") and "le" not in sample.labels:
                found[sample.name, sample.labels.get("schedule")] = sample.value
    return found


def moved(metrics: ServerMetrics) -> dict[tuple[str, str | None], float]:
    return {place: value for place, value in samples(metrics).items() if value}


@pytest.mark.spec("SRV-013")
def test_counters_exist_at_zero_from_the_start_and_for_each_schedule_seen() -> None:
    metrics = ServerMetrics()
    zeros = {(name, ""): 0.0 for name in COUNTERS}
    totals = {("velero_backup_total", None): 0.0, ("velero_restore_total", None): 0.0}
    assert samples(metrics) == zeros | totals
    metrics.schedule_seen("bad", "FailedValidation")
    assert samples(metrics) == zeros | totals
    for phase in ("", "New", "Enabled"):
        metrics.schedule_seen(f"s-{phase}", phase)
        zeros |= {(name, f"s-{phase}"): 0.0 for name in COUNTERS}
    metrics.schedule_seen("s-New", "Enabled")
    assert samples(metrics) == zeros | totals


def test_seeing_a_schedule_again_keeps_its_counts() -> None:
    metrics = ServerMetrics()
    metrics.backup_attempted("s")
    metrics.schedule_seen("s", "Enabled")
    assert moved(metrics) == {("velero_backup_attempt_total", "s"): 1.0}


def test_a_completed_backup_moves_counters_and_gauges() -> None:
    metrics = ServerMetrics()
    metrics.backup_attempted("s")
    metrics.backup_finished("s", "Completed")
    metrics.backup_duration("s", 90.9)
    metrics.backup_last_successful("s", 1628718206.5)
    metrics.backup_tarball_size("s", 12345)
    metrics.volume_snapshots("s", attempted=3, completed=2)
    metrics.backups_existing(7)
    metrics.restores_existing(2)
    assert moved(metrics) == {
        ("velero_backup_attempt_total", "s"): 1,
        ("velero_backup_success_total", "s"): 1,
        ("velero_backup_duration_seconds_sum", "s"): 90,
        ("velero_backup_duration_seconds_count", "s"): 1,
        ("velero_backup_last_successful_timestamp", "s"): 1628718206,
        ("velero_backup_last_status", "s"): 1,
        ("velero_backup_tarball_size_bytes", "s"): 12345,
        ("velero_volume_snapshot_attempt_total", "s"): 3,
        ("velero_volume_snapshot_success_total", "s"): 2,
        ("velero_volume_snapshot_failure_total", "s"): 1,
        ("velero_backup_total", None): 7,
        ("velero_restore_total", None): 2,
    }


@pytest.mark.parametrize(
    ("phase", "backup", "restore"),
    [
        ("Completed", "velero_backup_success_total", "velero_restore_success_total"),
        ("PartiallyFailed", "velero_backup_partial_failure_total", "velero_restore_partial_failure_total"),
        ("Failed", "velero_backup_failure_total", "velero_restore_failed_total"),
        (
            "FailedValidation",
            "velero_backup_validation_failure_total",
            "velero_restore_validation_failed_total",
        ),
    ],
)
def test_each_terminal_phase_increments_one_counter(phase: str, backup: str, restore: str) -> None:
    metrics = ServerMetrics()
    metrics.backup_finished("", phase)
    succeeded = {("velero_backup_last_status", ""): 1} if phase == "Completed" else {}
    assert moved(metrics) == {(backup, ""): 1, **succeeded}
    metrics = ServerMetrics()
    metrics.restore_finished("s", phase)
    assert moved(metrics) == {(restore, "s"): 1}


def test_the_last_status_of_a_schedule_falls_when_its_backup_fails() -> None:
    metrics = ServerMetrics()
    metrics.backup_finished("s", "Completed")
    metrics.backup_finished("s", "PartiallyFailed")
    assert b'velero_backup_last_status{schedule="s"} 0.0' in metrics.exposition()


def test_other_phases_change_no_counter() -> None:
    metrics = ServerMetrics()
    metrics.backup_finished("", "InProgress")
    metrics.restore_finished("", "New")
    assert moved(metrics) == {}


def test_deletions_and_restore_attempts_are_counted() -> None:
    metrics = ServerMetrics()
    metrics.backup_deletion_attempted("s")
    metrics.backup_deletion_finished("s", succeeded=True)
    metrics.backup_deletion_finished("", succeeded=False)
    metrics.restore_attempted("s")
    assert moved(metrics) == {
        ("velero_backup_deletion_attempt_total", "s"): 1,
        ("velero_backup_deletion_success_total", "s"): 1,
        ("velero_backup_deletion_failure_total", ""): 1,
        ("velero_restore_attempt_total", "s"): 1,
    }


@pytest.mark.found("L13")
def test_exposition_has_velero_names_types_and_buckets_only() -> None:
    metrics = ServerMetrics()
    metrics.backup_duration("s", 61)
    text = metrics.exposition().decode()
    assert "_created" not in text
    assert "# TYPE velero_backup_attempt_total counter" in text
    assert "# TYPE velero_backup_total gauge" in text
    assert "python_info" in text
    buckets = {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "velero_backup_duration_seconds_bucket"
    }
    bounds = ["60", "300", "600", "900", "1800", "3600", "7200", "10800", "14400", "+Inf"]
    assert buckets == {bound: float(bound != "60") for bound in bounds}


def test_two_servers_in_a_process_share_no_series() -> None:
    first, second = ServerMetrics(), ServerMetrics()
    first.backup_attempted("")
    assert moved(second) == {}


def later(metrics: ServerMetrics) -> dict[tuple[str, str], float]:
    """The velero samples with another label than the schedule alone, by name and that label."""
    return {
        (
            sample.name.removeprefix("velero_"),
            sample.labels[min(sample.labels.keys() - {"schedule"})],
        ): sample.value
        for family in text_string_to_metric_families(metrics.exposition().decode())
        for sample in family.samples
        if sample.name.startswith("velero_")
        and "le" not in sample.labels
        and sample.labels.keys() - {"schedule"}
        and sample.labels.get("backupName") != ""
    }


def test_the_items_and_findings_of_a_backup_are_counted() -> None:
    metrics = ServerMetrics()
    metrics.backup_items("s", items=7, errors=2, warnings=3)
    metrics.backup_items("s", items=8, errors=0, warnings=0)
    assert moved(metrics) == {
        ("velero_backup_items_total", "s"): 8.0,
        ("velero_backup_warning_total", "s"): 1.0,
    }


def test_csi_snapshots_are_counted_by_backup_and_the_oldest_backups_are_dropped() -> None:
    metrics = ServerMetrics()
    metrics.csi_snapshots("s", "first", attempted=3, completed=1)
    assert later(metrics) == {
        ("csi_snapshot_attempt_total", "first"): 3.0,
        ("csi_snapshot_success_total", "first"): 1.0,
        ("csi_snapshot_failure_total", "first"): 2.0,
    }
    for number in range(KEPT_BACKUPS):
        metrics.csi_snapshots("s", f"b{number}", attempted=1, completed=1)
    assert ("csi_snapshot_attempt_total", "first") not in later(metrics)


def test_the_status_of_a_location_is_removed_with_it() -> None:
    metrics = ServerMetrics()
    metrics.location_status("good", available=True)
    metrics.location_status("bad", available=False)
    assert later(metrics) == {
        ("backup_location_status_gauge", "good"): 1.0,
        ("backup_location_status_gauge", "bad"): 0.0,
    }
    metrics.location_gone("bad")
    metrics.location_gone("unknown")
    assert later(metrics) == {("backup_location_status_gauge", "good"): 1.0}


def test_the_newest_signed_backups_of_a_location_replace_each_other_and_go_with_it() -> None:
    metrics = ServerMetrics()
    for name in ("b1", "b2"):
        metrics.signed_backups("main", [Link(name, "d")], 0)
    labels = {"backup_location_name": "main", "backup": "b2", "manifest": "d"}
    newest = [each for each in metrics.registry.collect() if each.name == "pinnace_newest_signed_backup"]
    assert [sample.labels for sample in newest[0].samples] == [labels]

    metrics.location_gone("main")
    text = generate_latest(metrics.registry).decode()
    assert "pinnace_newest_signed_backup{" not in text
    assert "pinnace_signed_backups_vanished{" not in text


def test_maintenances_are_counted_by_repository() -> None:
    metrics = ServerMetrics()
    metrics.repository_maintained("r", 2.0, succeeded=True)
    metrics.repository_maintained("r", 3.0, succeeded=False)
    assert later(metrics) == {
        ("repo_maintenance_success_total", "r"): 1.0,
        ("repo_maintenance_failure_total", "r"): 1.0,
        ("repo_maintenance_duration_seconds_count", "r"): 2.0,
        ("repo_maintenance_duration_seconds_sum", "r"): 5.0,
    }


def test_the_series_of_a_deleted_schedule_are_removed() -> None:
    metrics = ServerMetrics()
    before = samples(metrics)
    metrics.schedule_seen("s", "Enabled")
    metrics.backup_finished("s", "Completed")
    metrics.backup_duration("s", 1)

    metrics.schedule_gone("s")
    metrics.schedule_gone("unknown")

    assert samples(metrics) == before


@pytest.mark.found("L13")
def test_counters_of_csi_snapshots_begin_at_zero_without_a_backup() -> None:
    metrics = ServerMetrics()
    metrics.schedule_seen("s", "Enabled")
    text = metrics.exposition().decode()
    for name in ("attempt", "success", "failure"):
        for schedule in ("", "s"):
            labels = f'{{backupName="",schedule="{schedule}"}}'
            assert f"velero_csi_snapshot_{name}_total{labels} 0.0" in text


def gauges(metrics: ServerMetrics, schedule: str) -> dict[str, float]:
    """The gauges with a schedule, and the phase of its newest backup."""
    return {
        sample.labels.get("phase", sample.name.removeprefix("velero_")): sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
        if family.type == "gauge" and sample.labels.get("schedule") == schedule
    }


@pytest.mark.found("L12")
def test_the_newest_backup_of_a_former_server_has_series() -> None:
    metrics = ServerMetrics()
    metrics.newest_backup("s", "Completed", exists=True, items=7, errors=0, size_bytes=9)
    assert gauges(metrics, "s") == {
        "backup_last_status": 1,
        "Completed": 1,
        "backup_items_total": 7,
        "backup_items_errors": 0,
        "backup_tarball_size_bytes": 9,
    }
    metrics.newest_backup("s", "FailedValidation", exists=True)
    found = gauges(metrics, "s")
    assert (found["backup_last_status"], found["FailedValidation"]) == (0, 1)
    assert "Completed" not in found
    metrics.newest_backup("s", "Failed", exists=False)
    assert gauges(metrics, "s").keys() == {
        "backup_last_status", "backup_items_total", "backup_items_errors", "backup_tarball_size_bytes",
    }  # fmt: skip


@pytest.mark.found("O29")
def test_what_neither_exists_nor_has_backups_has_no_series() -> None:
    metrics = ServerMetrics()
    untouched = metrics.exposition()
    for schedule in ("", "gone", "kept"):
        metrics.schedule_seen(schedule, "Enabled")
        metrics.newest_backup(schedule, "Failed", exists=True)
        metrics.backup_last_successful(schedule, 1)
        metrics.schedule_overdue(schedule, 5)
        metrics.schedule_interval(schedule, 3600)
        metrics.backup_duration(schedule, 1)
        metrics.csi_snapshots(schedule, "b", attempted=1, completed=1)
    metrics.repository_maintained("r", 1.0, succeeded=True)

    metrics.keep_schedules({"kept", ""}, {("kept", "b")})
    assert gauges(metrics, "gone") == {}
    assert gauges(metrics, "kept").keys() == {
        "backup_last_status",
        "backup_last_successful_timestamp",
        "Failed",
        "pinnace_schedule_overdue_seconds",
        "schedule_expected_interval_seconds",
    }
    assert 'schedule="gone"' not in metrics.exposition().decode()
    assert 'backupName="b",schedule="kept"' in metrics.exposition().decode()
    assert 'backupName="b",schedule=""' not in metrics.exposition().decode()

    metrics.keep_schedules((), ())
    metrics.schedule_gone("")
    metrics.init_schedule("")
    metrics.repository_gone("r")
    ours = [line for line in metrics.exposition().splitlines() if line.startswith((b"velero_", b"pinnace_"))]
    assert ours == [line for line in untouched.splitlines() if line.startswith((b"velero_", b"pinnace_"))]


@pytest.mark.found("L2")
def test_a_server_says_whether_it_leads() -> None:
    leads = False
    metrics = ServerMetrics(leads=lambda: leads)
    assert "pinnace_server_leads 0.0" in metrics.exposition().decode()
    leads = True
    assert "pinnace_server_leads 1.0" in metrics.exposition().decode()
