"""Alert rules and a dashboard for the metrics of the server; `definitions` writes them into the chart."""

from typing import Any, Final

from pinnace.api.objects import JSONObject

RELEASE_NAMESPACE: Final = "RELEASE-NAMESPACE"
"""What the chart replaces by the namespace of the release in the rules."""

_UNPLANNED: Final = 'velero_backup_failure_total{schedule=""}'
_REFUSED: Final = 'velero_backup_validation_failure_total{schedule=""}'
_LAST: Final = 'velero_backup_last_successful_timestamp{schedule!=""}'
_NEWEST: Final = f"max by (namespace, schedule) ({_LAST})"
_DEADLINE: Final = "max by (namespace, schedule) (pinnace_schedule_success_deadline_timestamp)"
"""There for each Schedule that runs, from its creation: nobody waits for one that was deleted or paused."""
_EXPECTED: Final = "max by (namespace, schedule) (pinnace_schedule_expected)"


def _newest_is(phases: str) -> str:
    return f'max by (namespace, schedule, phase) (pinnace_schedule_last_backup{{phase=~"{phases}"}}) > 0'


def rules(namespace: str = RELEASE_NAMESPACE) -> JSONObject:
    """The groups of a PrometheusRule.

    Args:
        namespace: where the server is to be.
    """
    return {
        "groups": [
            {
                "name": "pinnace",
                "rules": [
                    _alert(
                        "PinnaceServerAbsent",
                        f'absent(pinnace_server_leads{{namespace="{namespace}"}} == 1)',
                        "15m",
                        "critical",
                        f"No backup server has led in namespace {namespace} for 15 minutes: no schedule "
                        "runs.",
                    ),
                    _alert(
                        "PinnaceBackupFailed",
                        _newest_is("Failed|FailedValidation"),
                        "",
                        "critical",
                        "The newest backup of schedule {{ $labels.schedule }} is {{ $labels.phase }}. "
                        "`pinnace backup get` names it, and `pinnace backup describe` says why.",
                    ),
                    _alert(
                        "PinnaceUnscheduledBackupFailed",
                        f"sum by (namespace) (increase({_UNPLANNED}[1h]) + increase({_REFUSED}[1h])) > 0",
                        "",
                        "warning",
                        "A backup that no schedule made failed. `pinnace backup get` names it.",
                    ),
                    _alert(
                        "PinnaceBackupPartiallyFailed",
                        _newest_is("PartiallyFailed"),
                        "",
                        "warning",
                        "The newest backup of schedule {{ $labels.schedule }} lacks objects or volumes. "
                        "`pinnace backup describe` names them.",
                    ),
                    _alert(
                        "PinnaceScheduleOverdue",
                        "max by (namespace, schedule) (pinnace_schedule_missed) == 1",
                        "2m",
                        "critical",
                        "A run of schedule {{ $labels.schedule }} was missed: `pinnace schedule get` shows "
                        "since when, and `pinnace doctor` says why.",
                    ),
                    _alert(
                        "PinnaceScheduleInvalid",
                        "max by (namespace, schedule) (pinnace_schedule_overdue_seconds) > 3600 "
                        f"unless on (namespace, schedule) ({_EXPECTED} == 1)",
                        "",
                        "critical",
                        "Schedule {{ $labels.schedule }} is not valid and makes no backups. "
                        "`pinnace schedule describe` says why.",
                    ),
                    _alert(
                        "PinnaceLocationUnavailable",
                        "min by (namespace, backup_location_name) (velero_backup_location_status_gauge) == 0",
                        "10m",
                        "critical",
                        "Backup storage location {{ $labels.backup_location_name }} cannot be used: its "
                        "backups fail. `pinnace backup-location get` says why.",
                    ),
                    _alert(
                        "PinnaceNoRecentBackup",
                        f"(time() - {_DEADLINE} > 0) "
                        f"or (({_NEWEST} - time() > 3600) and on (namespace, schedule) {_EXPECTED})",
                        "",
                        "critical",
                        "Schedule {{ $labels.schedule }} has had no Completed backup for one and a half of "
                        "its intervals, or never, or the time of the last one is in the future, as a clock "
                        "was ahead. `pinnace doctor` says why.",
                    ),
                    _alert(
                        "PinnaceBackupUnsound",
                        "min by (namespace, schedule) (pinnace_backup_verification_sound) == 0",
                        "",
                        "critical",
                        "The newest backup of schedule {{ $labels.schedule }} cannot be relied upon. Its "
                        "annotations say why.",
                    ),
                    _alert(
                        "PinnaceRestoreFailed",
                        "sum by (namespace) (increase(velero_restore_failed_total[1h])) > 0",
                        "",
                        "warning",
                        "A restore failed. `pinnace restore get` names it.",
                    ),
                    _alert(
                        "PinnaceDeletionFailed",
                        "sum by (namespace) (increase(velero_backup_deletion_failure_total[1d])) > 0",
                        "",
                        "warning",
                        "Backups could not be deleted: storage grows. The DeleteBackupRequests say why.",
                    ),
                    _alert(
                        "PinnaceMessagesLost",
                        'sum by (namespace, sink) (increase(pinnace_messages_total{result="lost"}[1h])) > 0',
                        "",
                        "warning",
                        "Messages could not be delivered to {{ $labels.sink }}. The server's log says why.",
                    ),
                    _alert(
                        "PinnaceSnapshotFailed",
                        "sum by (namespace) (increase(velero_volume_snapshot_failure_total[1h])) > 0",
                        "",
                        "warning",
                        "A snapshot of a volume failed. The log of the backup names the volume.",
                    ),
                ],
            }
        ]
    }


def _alert(name: str, expression: str, duration: str, severity: str, text: str) -> JSONObject:
    rule: JSONObject = {"alert": name, "expr": expression}
    if duration:
        rule["for"] = duration
    return {**rule, "labels": {"severity": severity}, "annotations": {"summary": text}}


PANELS: Final = (
    ("Backups", "stat", ("velero_backup_total",)),
    ("Hours since the last Completed backup", "timeseries", (
        "(time() - max by (schedule) (velero_backup_last_successful_timestamp)) / 3600",
    )),
    ("Schedules with a missed run", "timeseries", ("max by (schedule) (pinnace_schedule_missed)",)),
    ("Hours past the time for a Completed backup", "timeseries", (
        "(time() - max by (schedule) (pinnace_schedule_success_deadline_timestamp)) / 3600 > 0",
    )),
    ("Backups a day by outcome", "timeseries", (
        "sum(increase(velero_backup_success_total[1d]))",
        "sum(increase(velero_backup_partial_failure_total[1d]))",
        "sum(increase(velero_backup_failure_total[1d]))",
    )),
    ("Duration, 95th percentile (seconds)", "timeseries", (
        "histogram_quantile(0.95, sum by (le, schedule) (rate(velero_backup_duration_seconds_bucket[1d])))",
    )),
    ("Size of tarballs (bytes)", "timeseries", ("max by (schedule) (velero_backup_tarball_size_bytes)",)),
    ("Restores a day by outcome", "timeseries", (
        "sum(increase(velero_restore_success_total[1d]))",
        "sum(increase(velero_restore_partial_failure_total[1d]))",
        "sum(increase(velero_restore_failed_total[1d]))",
    )),
    ("Snapshots a day by outcome", "timeseries", (
        "sum(increase(velero_volume_snapshot_success_total[1d]))",
        "sum(increase(velero_volume_snapshot_failure_total[1d]))",
    )),
)  # fmt: skip
"""Title, type and queries of each panel."""


def dashboard() -> JSONObject:
    """A Grafana dashboard, two panels in a row; the data source is chosen in Grafana."""
    return {
        "title": "Pinnace",
        "uid": "pinnace",
        "schemaVersion": 39,
        "tags": ["kubernetes", "backup"],
        "time": {"from": "now-14d", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_panel(number, *panel) for number, panel in enumerate(PANELS)],
    }


def _panel(number: int, title: str, kind: str, queries: tuple[str, ...]) -> dict[str, Any]:
    return {
        "id": number + 1,
        "title": title,
        "type": kind,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": 12 * (number % 2), "y": 8 * (number // 2), "w": 12, "h": 8},
        "targets": [{"refId": chr(ord("A") + index), "expr": query} for index, query in enumerate(queries)],
    }
