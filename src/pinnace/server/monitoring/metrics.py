"""The Prometheus metrics of the server, under Velero's names. (docs/spec: SRV 8.1, BKP 3.6)

One object owns one registry, so that several servers in a process share no series. Counters of a schedule
exist from the moment it is seen, at zero, so that a rate can be computed from the first backup on; the series
of a schedule are looked up once and kept. The label `schedule` is empty for backups that no schedule made.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)

from pinnace.api import phases
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.notices.codes import Code
from pinnace.storage.newest import Link

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

DURATION_BUCKETS_SECONDS = (60, 300, 600, 900, 1800, 3600, 7200, 10800, 14400)
"""1, 5, 10, 15 and 30 minutes, 1 to 4 hours. (docs/spec: SRV 8.1)"""

_COUNTERS = {
    "backup_attempt": "Total number of attempted backups",
    "backup_success": "Total number of successful backups",
    "backup_partial_failure": "Total number of partially failed backups",
    "backup_failure": "Total number of failed backups",
    "backup_validation_failure": "Total number of backups that failed validation",
    "backup_warning": "Total number of backups that ended with warnings",
    "backup_deletion_attempt": "Total number of attempted backup deletions",
    "backup_deletion_success": "Total number of successful backup deletions",
    "backup_deletion_failure": "Total number of failed backup deletions",
    "restore_attempt": "Total number of attempted restores",
    "restore_validation_failed": "Total number of restores that failed validation",
    "restore_success": "Total number of successful restores",
    "restore_partial_failure": "Total number of partially failed restores",
    "restore_failed": "Total number of failed restores",
    "volume_snapshot_attempt": "Total number of attempted volume snapshots",
    "volume_snapshot_success": "Total number of successful volume snapshots",
    "volume_snapshot_failure": "Total number of failed volume snapshots",
}

_CSI_COUNTERS = {
    "csi_snapshot_attempt": "Total number of attempted CSI volume snapshots",
    "csi_snapshot_success": "Total number of successful CSI volume snapshots",
    "csi_snapshot_failure": "Total number of failed CSI volume snapshots",
}
_MAINTENANCE_COUNTERS = {
    "repo_maintenance_success": "Total number of successful maintenances of a repository",
    "repo_maintenance_failure": "Total number of failed maintenances of a repository",
}

_RUNS_OF_SCHEDULES = {
    "expected": "Whether runs of a schedule are expected. A value of 1 is yes, 0 is paused or not valid",
    "missed": "Whether a schedule has missed a run. A value of 1 is yes, 0 is no",
    "success_deadline_timestamp": "By when a backup of a schedule is to be Completed, Unix time in seconds",
}

KEPT_BACKUPS: Final = 200
"""How many backups have series of their own. Those of older backups are dropped, to limit the memory."""

_WHOLE_BOUND: Final = re.compile(rb'(,|\{)le="([0-9]+)\.0"')
"""Velero's bounds of buckets are `60`, and the client library's `60.0`, which selectors tell apart."""

_BACKUP_OUTCOMES: Final[Mapping[str, str]] = {
    BackupPhase.COMPLETED: "backup_success",
    **dict.fromkeys(phases.FINISHED_IN_PART, "backup_partial_failure"),
    BackupPhase.FAILED: "backup_failure",
    BackupPhase.FAILED_VALIDATION: "backup_validation_failure",
}

_RESTORE_OUTCOMES: Final[Mapping[str, str]] = {
    RestorePhase.COMPLETED: "restore_success",
    **dict.fromkeys(phases.FINISHED_IN_PART, "restore_partial_failure"),
    RestorePhase.FAILED: "restore_failed",
    RestorePhase.FAILED_VALIDATION: "restore_validation_failed",
}

_SEEN_PHASES = frozenset({"", BackupPhase.NEW, "Enabled"})


class _Collected(Protocol):
    def collect(self) -> Iterable[Metric]: ...


@dataclass(frozen=True, slots=True)
class _WithoutCreated:
    """A registry without the `_created` series, which the client library adds and Velero does not have."""

    registry: _Collected

    def collect(self) -> Iterable[Metric]:
        for metric in self.registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def exposition(registry: CollectorRegistry) -> bytes:
    """The text of a registry for `/metrics`, of type `CONTENT_TYPE`."""
    return _WHOLE_BOUND.sub(rb'\1le="\2"', generate_latest(_WithoutCreated(registry)))


class ServerMetrics:
    """All metrics of the server. Its methods are cheap, and ignore phases that they do not know.

    Args:
        leads: whether this server is the one that works, for the gauge that says so.
    """

    def __init__(self, leads: Callable[[], bool] = lambda: False) -> None:
        self.registry = CollectorRegistry()
        Gauge(
            "pinnace_server_leads",
            "Whether this server works. A value of 1 is yes, 0 is a standby, or one that starts or stops",
            registry=self.registry,
        ).set_function(lambda: float(leads()))
        self._counters = {
            name: Counter(f"velero_{name}_total", text, ["schedule"], registry=self.registry)
            for name, text in _COUNTERS.items()
        }
        self._notices = Counter(
            "pinnace_notices_total",
            "Warnings and errors of backups and restores, by their code",
            ["run", "severity", "code"],
            registry=self.registry,
        )
        self._tarball_size = self._gauge("backup_tarball_size_bytes", "Size, in bytes, of a backup")
        self._last_successful = self._gauge(
            "backup_last_successful_timestamp",
            "Last time a backup ran successfully, Unix time in seconds",
        )
        self._last_status = self._gauge(
            "backup_last_status", "Last status of the backup. A value of 1 is success, 0 is failure"
        )
        self._backup_total = Gauge(
            "velero_backup_total", "Current number of existent backups", registry=self.registry
        )
        self._restore_total = Gauge(
            "velero_restore_total", "Current number of existent restores", registry=self.registry
        )
        self._duration = Histogram(
            "velero_backup_duration_seconds",
            "Time taken to complete backup, in seconds",
            ["schedule"],
            buckets=DURATION_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._items_total = self._gauge("backup_items_total", "Number of items of the last backup")
        self._items_errors = self._gauge("backup_items_errors", "Number of errors of the last backup")
        self._csi = {
            name: Counter(f"velero_{name}_total", text, ["schedule", "backupName"], registry=self.registry)
            for name, text in _CSI_COUNTERS.items()
        }
        self._csi_backups: dict[tuple[str, str], None] = {}
        self._location_status = Gauge(
            "velero_backup_location_status_gauge",
            "Status of a backup location. A value of 1 is available, 0 is unavailable",
            ["backup_location_name"],
            registry=self.registry,
        )
        self._newest_signed = Gauge(
            "pinnace_newest_signed_backup",
            "1 for each signed backup that no later one names yet, with the SHA-256 of its manifest",
            ["backup_location_name", "backup", "manifest"],
            registry=self.registry,
        )
        self._vanished_signed = Gauge(
            "pinnace_signed_backups_vanished",
            "Newest signed backups that are gone, and that nobody with the key has removed",
            ["backup_location_name"],
            registry=self.registry,
        )
        self._maintenances = {
            name: Counter(f"velero_{name}_total", text, ["repository_name"], registry=self.registry)
            for name, text in _MAINTENANCE_COUNTERS.items()
        }
        self._maintenance_duration = Histogram(
            "velero_repo_maintenance_duration_seconds",
            "Time taken to maintain a repository, in seconds",
            ["repository_name"],
            buckets=DURATION_BUCKETS_SECONDS,
            registry=self.registry,
        )
        self._verified = Gauge(
            "pinnace_backup_verification_timestamp",
            "When the newest backup of a schedule was last verified, Unix time in seconds",
            ["schedule"],
            registry=self.registry,
        )
        self._sound = Gauge(
            "pinnace_backup_verification_sound",
            "What the last verification of a schedule found. A value of 1 is sound, 0 is not",
            ["schedule"],
            registry=self.registry,
        )
        self._not_verified = Counter(
            "pinnace_backup_not_verified_total",
            "Total number of verifications that looked at the signature only, as the backup is encrypted",
            ["schedule"],
            registry=self.registry,
        )
        self._rules_readable = Gauge(
            "pinnace_retention_rules_readable",
            "Whether the rules of retention of a schedule can be read. A value of 1 is yes, 0 is no",
            ["schedule"],
            registry=self.registry,
        )
        self._rules_waiting = Gauge(
            "pinnace_retention_waiting_deletions",
            "How many deletions by the rules of a schedule wait for a day or a confirmation",
            ["schedule"],
            registry=self.registry,
        )
        self._rules_requested = Counter(
            "pinnace_retention_deletions_requested_total",
            "Total number of deletions that the rules of a schedule have asked for",
            ["schedule"],
            registry=self.registry,
        )
        self._schedule_phase = Gauge(
            "pinnace_schedule_last_backup",
            "The phase of the newest backup of a schedule that has ended: the value is always 1",
            ["schedule", "phase"],
            registry=self.registry,
        )
        self._interval = self._gauge(
            "schedule_expected_interval_seconds", "Time between the next two runs of a schedule, in seconds"
        )
        self._overdue = Gauge(
            "pinnace_schedule_overdue_seconds",
            "For how long a backup of a schedule should have begun, in seconds; 0 if none is due",
            ["schedule"],
            registry=self.registry,
        )
        self._expected, self._missed, self._succeed_by = (
            Gauge(f"pinnace_schedule_{name}", text, ["schedule"], registry=self.registry)
            for name, text in _RUNS_OF_SCHEDULES.items()
        )
        self._messages = Counter(
            "pinnace_messages_total",
            "Messages by the sink that they were for, and whether it took them: sent, or lost",
            ["sink", "result"],
            registry=self.registry,
        )
        self._of_schedule: dict[str, dict[str, Counter]] = {}
        self._gauges = (
            self._tarball_size,
            self._last_successful,
            self._last_status,
            self._items_total,
            self._items_errors,
        )
        self._phases: dict[str, str] = {}
        self._last: dict[str, None] = {}
        self._successes: dict[str, float] = {}
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        GCCollector(registry=self.registry)
        self.init_schedule("")

    def exposition(self) -> bytes:
        """The text for `/metrics`, of type `CONTENT_TYPE`."""
        return exposition(self.registry)

    def init_schedule(self, schedule: str) -> None:
        """Create all counters of a schedule, at zero. Idempotent."""
        self._series(schedule)

    def schedule_seen(self, schedule: str, phase: str) -> None:
        """Create the counters of an added Schedule, unless it failed validation. (docs/spec: SRV-013)"""
        if phase in _SEEN_PHASES:
            self.init_schedule(schedule)

    def backup_refused(self, schedule: str) -> None:
        """Count a run of a schedule whose Backup the API server refused as invalid."""
        self._count(schedule, "backup_validation_failure")

    def schedule_gone(self, schedule: str) -> None:
        """Remove the series of a deleted Schedule. (docs/spec: BEY 10.3)"""
        self.schedule_not_due(schedule)
        self._set_phase(schedule, "")
        self._remove(schedule)

    def schedule_overdue(self, schedule: str, seconds: float) -> None:
        """Record for how long a backup of an existing Schedule should have begun; 0 if none is due."""
        self._overdue.labels(schedule).set(max(0, int(seconds)))

    def schedule_interval(self, schedule: str, seconds: float) -> None:
        """Record the time between the next two runs of a Schedule. (docs/spec/after-1.18.md, 7.10)"""
        self._interval.labels(schedule).set(seconds)

    def schedule_runs(self, schedule: str, *, expected: bool, missed: bool, succeed_by: float | None) -> None:
        """Record how an existing Schedule keeps its times; `succeed_by` is a Unix time. (ADR 129)"""
        self._expected.labels(schedule).set(expected)
        self._missed.labels(schedule).set(missed)
        if succeed_by is None:
            self._succeed_by.remove_by_labels({"schedule": schedule})
        else:
            self._succeed_by.labels(schedule).set(succeed_by)

    def sink_seen(self, sink: str) -> None:
        """Create the counters of a sink of messages, at zero."""
        self.messages_sent(sink, 0, lost=0)

    def sink_gone(self, sink: str) -> None:
        """Remove the series of a sink that no longer exists."""
        self._messages.remove_by_labels({"sink": sink})

    def messages_sent(self, sink: str, count: int, *, lost: int) -> None:
        """Count the messages that a sink took, and those that were given up."""
        self._messages.labels(sink, "sent").inc(count)
        self._messages.labels(sink, "lost").inc(lost)

    def schedule_not_due(self, schedule: str) -> None:
        """Remove the series of a Schedule that no longer exists."""
        for gauge in (
            self._overdue,
            self._interval,
            self._expected,
            self._missed,
            self._succeed_by,
        ):
            gauge.remove_by_labels({"schedule": schedule})

    def newest_backup(
        self,
        schedule: str,
        phase: str,
        *,
        exists: bool,
        items: int | None = None,
        errors: int | None = None,
        size_bytes: int | None = None,
    ) -> None:
        """Record the newest backup of a schedule that has ended, which a former server may have made.

        Args:
            exists: whether the Schedule still exists.
            items, errors, size_bytes: of the backup; None if that is not known, or it did not begin.
        """
        self._set(self._last_status, schedule, 1 if phase == "Completed" else 0)
        self._set_phase(schedule, phase if exists else "")
        for gauge, value in (
            (self._items_total, items),
            (self._items_errors, errors),
            (self._tarball_size, size_bytes),
        ):
            if value is not None:
                self._set(gauge, schedule, value)

    def keep_schedules(self, schedules: Collection[str], backups: Collection[tuple[str, str]]) -> None:
        """Remove the series of all other schedules, and of all other backups.

        Args:
            schedules: the schedules that exist, or have backups.
            backups: schedule and name of all backups.
        """
        for schedule in (self._of_schedule.keys() | self._last.keys()) - {"", *schedules}:
            self.schedule_gone(schedule)
        if "" not in schedules:
            self._forget_last("")
        for backup in self._csi_backups.keys() - set(backups):
            self._csi_gone(backup)

    def backup_verified(self, schedule: str, unix_seconds: float, *, sound: bool) -> None:
        """Record what the last verification of a backup of a schedule found, and when."""
        self._verified.labels(schedule).set(int(unix_seconds))
        self._sound.labels(schedule).set(1 if sound else 0)

    def backup_not_verified(self, schedule: str) -> None:
        """Count a backup of a schedule that is encrypted, and that the server cannot open."""
        self._not_verified.labels(schedule).inc()

    def verification_gone(self, schedule: str) -> None:
        """Remove the series of a Schedule whose backups are no longer verified."""
        for series in (self._verified, self._sound, self._not_verified):
            series.remove_by_labels({"schedule": schedule})

    def retention_passed(self, schedule: str, *, readable: bool, waiting: int) -> None:
        """Record a pass of the rules of retention of a schedule."""
        self._rules_readable.labels(schedule).set(1 if readable else 0)
        self._rules_waiting.labels(schedule).set(waiting)
        self._rules_requested.labels(schedule)

    def retention_requested(self, schedule: str) -> None:
        """Count a deletion that the rules of a schedule have asked for."""
        self._rules_requested.labels(schedule).inc()

    def retention_gone(self, schedule: str) -> None:
        """Remove the series of a Schedule without rules."""
        for series in (self._rules_readable, self._rules_waiting, self._rules_requested):
            series.remove_by_labels({"schedule": schedule})

    def backup_items(self, schedule: str, *, items: int, errors: int, warnings: int) -> None:
        """Record how many items a backup contains, and how many errors and warnings it has."""
        self._set(self._items_total, schedule, items)
        self._set(self._items_errors, schedule, errors)
        if warnings:
            self._count(schedule, "backup_warning")

    def csi_snapshots(self, schedule: str, backup: str, *, attempted: int, completed: int) -> None:
        """Count the CSI snapshots of one backup, if it took any; the difference failed."""
        if attempted <= 0:
            return
        failed = max(0, attempted - completed)
        self._csi_backups[schedule, backup] = None
        for counter, amount in zip(self._csi.values(), (attempted, completed, failed), strict=True):
            counter.labels(schedule, backup).inc(max(0, amount))
        if len(self._csi_backups) > KEPT_BACKUPS:
            self._csi_gone(next(iter(self._csi_backups)))

    def location_status(self, location: str, *, available: bool) -> None:
        """Record what the last check of a BackupStorageLocation found."""
        self._location_status.labels(location).set(1 if available else 0)

    def signed_backups(self, location: str, newest: Sequence[Link], vanished: int) -> None:
        """Record the newest signed backups of a BackupStorageLocation, and how many of them are gone."""
        self._newest_signed.remove_by_labels({"backup_location_name": location})
        for link in newest:
            self._newest_signed.labels(location, link.backup, link.sha256).set(1)
        self._vanished_signed.labels(location).set(vanished)

    def location_gone(self, location: str) -> None:
        """Remove the series of a deleted BackupStorageLocation."""
        for metric in (self._location_status, self._newest_signed, self._vanished_signed):
            metric.remove_by_labels({"backup_location_name": location})

    def repository_maintained(self, repository: str, seconds: float, *, succeeded: bool) -> None:
        """Count a maintenance of a repository, and record how long it took."""
        name = "repo_maintenance_success" if succeeded else "repo_maintenance_failure"
        self._maintenances[name].labels(repository).inc()
        self._maintenance_duration.labels(repository).observe(seconds)

    def repository_gone(self, repository: str) -> None:
        """Remove the series of a deleted BackupRepository."""
        for metric in (*self._maintenances.values(), self._maintenance_duration):
            metric.remove_by_labels({"repository_name": repository})

    def backup_attempted(self, schedule: str) -> None:
        """Count a backup that starts to run."""
        self._count(schedule, "backup_attempt")

    def backup_finished(self, schedule: str, phase: str) -> None:
        """Count a backup by its terminal phase, `FailedValidation` included."""
        self._count_outcome(schedule, _BACKUP_OUTCOMES, phase)
        if phase in _BACKUP_OUTCOMES:
            self._set(self._last_status, schedule, 1 if phase == "Completed" else 0)

    def backup_tarball_size(self, schedule: str, size_bytes: int) -> None:
        """Record the size of the compressed tarball of a run."""
        self._set(self._tarball_size, schedule, size_bytes)

    def backup_duration(self, schedule: str, duration_seconds: float) -> None:
        """Record the whole seconds from start to completion of a run."""
        self._duration.labels(schedule).observe(int(duration_seconds))

    def backup_last_successful(self, schedule: str, unix_seconds: float) -> None:
        """Record when the last Completed backup ended."""
        self._set(self._last_successful, schedule, int(unix_seconds))
        self._successes[schedule] = unix_seconds

    def keep_last_successful(self, schedules: Collection[str], *, since: float) -> None:
        """Remove the times of last successes that are gone. (docs/spec/after-1.18.md, 7.10)

        Args:
            schedules: those with a Completed backup.
            since: a Unix time; the time of a success that is later stays.
        """
        for schedule, ended in list(self._successes.items()):
            if schedule not in schedules and ended < since:
                del self._successes[schedule]
                self._last_successful.remove_by_labels({"schedule": schedule})

    def backups_existing(self, count: int) -> None:
        """Record the number of Backup objects."""
        self._backup_total.set(count)

    def backup_deletion_attempted(self, schedule: str) -> None:
        """Count a deletion that passed its checks."""
        self._count(schedule, "backup_deletion_attempt")

    def backup_deletion_finished(self, schedule: str, *, succeeded: bool) -> None:
        """Count a deletion that ended, with or without errors."""
        self._count(schedule, "backup_deletion_success" if succeeded else "backup_deletion_failure")

    def noticed(self, run: str, severity: str, code: Code) -> None:
        """Count a warning or an error of a `backup` or a `restore`."""
        self._notices.labels(run, severity, code).inc()

    def restore_attempted(self, schedule: str) -> None:
        """Count a Restore that was validated, whether it is valid or not."""
        self._count(schedule, "restore_attempt")

    def restore_finished(self, schedule: str, phase: str) -> None:
        """Count a restore by its terminal phase, `FailedValidation` included."""
        self._count_outcome(schedule, _RESTORE_OUTCOMES, phase)

    def restores_existing(self, count: int) -> None:
        """Record the number of Restore objects."""
        self._restore_total.set(count)

    def volume_snapshots(self, schedule: str, *, attempted: int, completed: int) -> None:
        """Count the native snapshots of one backup; the difference failed."""
        self._count(schedule, "volume_snapshot_attempt", attempted)
        self._count(schedule, "volume_snapshot_success", completed)
        self._count(schedule, "volume_snapshot_failure", max(0, attempted - completed))

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"velero_{name}", text, ["schedule"], registry=self.registry)

    def _series(self, schedule: str) -> dict[str, Counter]:
        series = self._of_schedule.get(schedule)
        if series is None:
            series = {name: counter.labels(schedule) for name, counter in self._counters.items()}
            self._of_schedule[schedule] = series
            for counter in self._csi.values():
                counter.labels(schedule, "")
        return series

    def _count(self, schedule: str, name: str, amount: int = 1) -> None:
        # Anybody may have written the status that the amount is from, and a counter refuses to fall.
        self._series(schedule)[name].inc(max(0, amount))

    def _count_outcome(self, schedule: str, outcomes: Mapping[str, str], phase: str) -> None:
        name = outcomes.get(phase)
        if name is not None:
            self._count(schedule, name)

    def _set(self, gauge: Gauge, schedule: str, value: float) -> None:
        """Set a gauge about the newest backup of a schedule."""
        self._last[schedule] = None
        gauge.labels(schedule).set(value)

    def _set_phase(self, schedule: str, phase: str) -> None:
        """Set the one phase that a schedule has; empty for none."""
        former = self._phases.pop(schedule, "")
        if former and former != phase:
            self._schedule_phase.remove(schedule, former)
        if phase:
            self._phases[schedule] = phase
            self._schedule_phase.labels(schedule, phase).set(1)

    def _forget_last(self, schedule: str) -> None:
        if schedule in self._last:
            del self._last[schedule]
            self._successes.pop(schedule, None)
            for gauge in self._gauges:
                gauge.remove_by_labels({"schedule": schedule})

    def _remove(self, schedule: str) -> None:
        """Remove all series of a schedule that backups and restores have made."""
        self._forget_last(schedule)
        if self._of_schedule.pop(schedule, None) is not None:
            for metric in (*self._counters.values(), self._duration, *self._csi.values()):
                metric.remove_by_labels({"schedule": schedule})
            self._csi_backups = {key: None for key in self._csi_backups if key[0] != schedule}

    def _csi_gone(self, backup: tuple[str, str]) -> None:
        del self._csi_backups[backup]
        for counter in self._csi.values():
            counter.remove(*backup)
