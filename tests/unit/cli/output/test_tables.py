"""Tables, times and the printed forms of objects."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml

from pinnace.cli.output import cells
from pinnace.cli.output.printing import OutputFlags, print_objects, render_table, row_of
from pinnace.cli.output.tables import backup_table, restore_table, sort_backups
from tests.support.clock import FakeClock

NOW = datetime(2021, 8, 12, 0, 0, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def backup(name: str, **status: Any) -> dict[str, Any]:
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": name, "creationTimestamp": "2021-08-12T00:00:00Z"},
        "spec": {"storageLocation": "default", "ttl": "0s"},
        "status": status,
    }


def test_backups_are_listed_as_in_the_specification() -> None:
    first = backup(
        "nginx-backup",
        phase="Completed",
        startTimestamp="2021-08-11T21:43:26Z",
        expiration="2021-09-10T21:43:26Z",
    )
    first["spec"]["labelSelector"] = {"matchLabels": {"app": "nginx"}}
    second = backup(
        "b2",
        phase="PartiallyFailed",
        errors=3,
        warnings=1,
        startTimestamp="2021-08-11T21:43:26Z",
        expiration="2021-08-12T05:00:01Z",
    )
    third = backup("b3")
    third["spec"]["storageLocation"] = ""
    table = backup_table(FakeClock(now=NOW))
    expected = (
        "NAME           STATUS            ERRORS   WARNINGS   CREATED                         EXPIRES   "
        "STORAGE LOCATION   SELECTOR\n"
        "nginx-backup   Completed         0        0          2021-08-11 21:43:26 +0000 UTC   29d       "
        "default            app=nginx\n"
        "b2             PartiallyFailed   3        1          2021-08-11 21:43:26 +0000 UTC   5h        "
        "default            <none>\n"
        "b3             New               0        0          <nil>                           n/a       "
        "                   <none>\n"
    )
    assert render_table([first, second, third], table, OutputFlags(format="table")) == expected


@pytest.mark.spec("CLI-013")
def test_backups_sort_by_name_and_schedules_newest_first() -> None:
    def names(*given: str) -> list[str]:
        return [b["metadata"]["name"] for b in sort_backups([backup(name) for name in given])]

    assert names("a", "c", "b") == ["a", "b", "c"]
    runs = ["schedule-20170102030405", "schedule-20170102030406", "schedule-20170102030407"]
    assert names(*runs) == runs[::-1]
    assert names(*runs, "a") == ["a", *runs[::-1]]


@pytest.mark.spec("CLI-014")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"expiration": "2021-08-11T22:00:00Z"}, "2h ago"),
        ({"expiration": "2022-09-16T00:00:00Z"}, "1y"),
        ({"expiration": "2021-08-12T00:00:59Z"}, "59s"),
        ({}, "30d"),
    ],
)
def test_the_expiry_comes_from_the_status_or_the_ttl(given: dict[str, str], shown: str) -> None:
    one = backup("b", **given)
    one["spec"]["ttl"] = "720h0m0s"
    assert cells.expires(one, NOW) == shown


@pytest.mark.spec("CLI-014", "CLI-045")
def test_no_rows_print_nothing() -> None:
    assert render_table([], backup_table(), OutputFlags(format="table")) == ""


@pytest.mark.spec("CLI-014")
def test_a_new_backup_shows_placeholders() -> None:
    new = {
        "metadata": {"name": "b", "creationTimestamp": "2021-08-12T00:00:00Z"},
        "spec": {"ttl": "720h0m0s"},
    }
    row = row_of(new, backup_table(FakeClock(now=NOW + timedelta(seconds=1))), OutputFlags(format=None))
    assert row == ["b", "New", "0", "0", "<nil>", "29d", "", "", "<none>"]


@pytest.mark.spec("CLI-015")
@pytest.mark.parametrize(
    ("noted", "shown"),
    [("1536", "1.5 KiB"), ("0", "0 B"), ("", ""), ("-3", ""), ("1e9", ""), ("9" * 5000, "")],
    ids=["known", "empty", "absent", "negative", "no number", "absurd"],
)
def test_the_size_is_a_column_of_wide_tables(noted: str, shown: str) -> None:
    made = backup("b")
    made["metadata"]["annotations"] = {"pinnace.io/size-bytes": noted}
    header, row = render_table(
        [made], backup_table(FakeClock(now=NOW)), OutputFlags(format="wide")
    ).splitlines()
    assert row[header.index("SIZE") :].startswith(shown or " ")


@pytest.mark.found("X8")
def test_the_columns_do_not_depend_on_who_made_the_backups_of_the_list() -> None:
    """Scripts take columns by their position."""
    ours, theirs = backup("ours"), backup("theirs")
    ours["metadata"]["annotations"] = {"pinnace.io/size-bytes": "1536"}
    columns = "NAME STATUS ERRORS WARNINGS CREATED EXPIRES STORAGE LOCATION SELECTOR"
    for listed in ([theirs], [ours], [ours, theirs]):
        table = render_table(listed, backup_table(FakeClock(now=NOW)), OutputFlags(format=None))
        assert " ".join(table.splitlines()[0].split()) == columns


def test_label_columns_and_all_labels_are_appended() -> None:
    one = backup("b")
    one["metadata"]["labels"] = {"velero.io/storage-location": "default", "a": "b"}
    flags = OutputFlags(format="table", label_columns=("velero.io/storage-location",), show_labels=True)
    header, row = render_table([one], backup_table(), flags).splitlines()
    assert header.split()[-2:] == ["STORAGE-LOCATION", "LABELS"]
    assert row.split()[-2:] == ["default", "a=b,velero.io/storage-location=default"]


@pytest.mark.spec("CLI-016")
def test_one_object_prints_alone_and_several_as_a_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects([backup("one")], backup_table(), OutputFlags(format="json"))
    assert json.loads(capsys.readouterr().out)["kind"] == "Backup"
    print_objects([backup("one"), backup("two")], backup_table(), OutputFlags(format="yaml"))
    listing = yaml.safe_load(capsys.readouterr().out)
    assert listing["kind"] == "BackupList"
    assert [item["kind"] for item in listing["items"]] == ["Backup", "Backup"]


def test_the_name_format_prints_one_name_per_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects([backup("one"), backup("two")], backup_table(), OutputFlags(format="name"))
    assert capsys.readouterr().out == "backup.velero.io/one\nbackup.velero.io/two\n"


def test_a_restore_has_all_columns() -> None:
    running = {
        "metadata": {"name": "r", "creationTimestamp": "2021-08-11T21:43:26Z"},
        "spec": {"backupName": "b"},
        "status": {"phase": "InProgress", "startTimestamp": "2021-08-11T21:43:26Z", "warnings": 2},
    }
    row = row_of(running, restore_table(), OutputFlags(format=None))
    assert row == [
        "r", "b", "InProgress", "2021-08-11 21:43:26 +0000 UTC", "<nil>", "0", "2",
        "2021-08-11 21:43:26 +0000 UTC", "<none>",
    ]  # fmt: skip
