"""One object with an odd date does not hide the others: dates come out of buckets and from anybody."""

import time
from datetime import UTC, datetime
from typing import Any

import pytest

from pinnace.api.values.relative_times import relative
from pinnace.cli.backup.describe import describe_backup
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import View
from pinnace.cli.output import cells
from pinnace.cli.output.printing import OutputFlags, render_table
from pinnace.cli.output.server_tables import (
    backup_location_table,
    repository_table,
    schedule_table,
)
from pinnace.cli.output.tables import backup_table, restore_table
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.description import DescribedRestore
from pinnace.doctor import schedules
from tests.support.clock import FakeClock

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ODD = (
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+14:00",
    "0000-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z",
    "2026-01-01t00:00:00z",
    "2026-01-01T00:00:00+99:99",
    "soon",
)


def obj(name: str, date: str) -> dict[str, Any]:
    status = {
        "phase": "Completed",
        "expiration": date,
        "startTimestamp": date,
        "completionTimestamp": date,
        "lastBackup": date,
        "lastMaintenanceTime": date,
        "lastValidationTime": date,
        "lastSyncedTime": date,
    }
    spec = {"schedule": "0 3 * * *", "template": {}, "backupName": "b", "ttl": "2562047h47m16s"}
    metadata = {"name": name, "namespace": "velero", "creationTimestamp": "2026-02-01T00:00:00Z"}
    return {"metadata": metadata, "spec": spec, "status": status}


@pytest.mark.found("Z2")
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize(
    "table", [backup_table, restore_table, schedule_table, repository_table, backup_location_table]
)
def test_every_object_is_listed(table: Any, zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        objects = [obj(f"odd-{number}", date) for number, date in enumerate(ODD)]
        lines = render_table(
            [*objects, obj("good", "2026-03-01T00:00:00Z")],
            table(FakeClock(now=NOW)),
            OutputFlags(format=None),
        )
        assert [name for name in (f"odd-{number}" for number in range(len(ODD))) if name not in lines] == []
        assert "good" in lines
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.found("Z2")
@pytest.mark.parametrize("date", ODD)
def test_an_odd_date_is_described_and_judged(date: str) -> None:
    backup = obj("odd", date)
    assert "odd" in describe_backup(backup, DescribedBackup(), View(program="velero"))
    assert "odd" in describe_restore(obj("odd", date), DescribedRestore(), View(program="velero"))
    assert all(finding.text for finding in schedules.judge([obj("odd", date)], [], NOW))
    assert cells.expires({**backup, "status": {}}, NOW) == "292y"
    assert cells.run_time(backup, NOW) in ("0s", "")


@pytest.mark.found("Z2")
def test_what_is_no_time_is_shown_as_it_stands() -> None:
    assert cells.local_time("soon", "") == relative("soon", NOW) == "soon"
    assert relative(None, NOW) == "n/a"
