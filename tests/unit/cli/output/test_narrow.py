"""Tables and texts that fit into the columns of a terminal."""

from typing import Any

import pytest

from pinnace.cli.output.narrow import narrowed, wrapped
from pinnace.cli.output.printing import OutputFlags, render_table
from pinnace.cli.output.server_tables import backup_location_table
from pinnace.cli.output.tables import backup_table, restore_table
from tests.support.clock import START, FakeClock

FLAGS = OutputFlags(format="table")
BEGUN = "2021-08-11T20:00:00Z"


def a_run(name: str, **changes: Any) -> dict[str, Any]:
    status = {"phase": "PartiallyFailed", "errors": 3, "startTimestamp": BEGUN, "completionTimestamp": BEGUN}
    spec = {"storageLocation": "default", "backupName": "nightly-20210811"}
    return {
        "metadata": {"name": name, "creationTimestamp": BEGUN},
        "spec": spec,
        "status": {**status, **changes},
    }


@pytest.mark.found("row 101")
@pytest.mark.parametrize("table", [backup_table, restore_table])
@pytest.mark.parametrize("columns", [40, 80, 100, 120])
def test_a_row_is_one_line_on_a_narrow_terminal(table: Any, columns: int) -> None:
    made = table(FakeClock())
    runs = [a_run("nightly-20210811020000"), a_run("b")]

    header, *rows = render_table(runs, made, FLAGS, room=columns).splitlines()

    assert max(map(len, (header, *rows))) <= columns
    assert header.split()[:1] == ["NAME"]
    assert "STATUS" in header
    assert ("ERRORS" in header) == (columns >= 80)
    assert len(rows) == 2


@pytest.mark.found("row 101")
def test_a_pipe_gets_the_whole_table_with_times(capsys: pytest.CaptureFixture[str]) -> None:
    whole = render_table([a_run("b")], backup_table(FakeClock()), FLAGS)
    assert "2021-08-11 20:00:00 +0000 UTC" in whole
    assert whole.splitlines()[0].split()[-1] == "SELECTOR"


def test_times_become_ages_before_a_column_is_left_out() -> None:
    columns = [["NAME", "b"], ["CREATED", "2021-08-11 20:00:00 +0000 UTC"], ["SELECTOR", "<none>"]]
    assert narrowed(columns, 80, ("SELECTOR",), START) == columns
    assert narrowed(columns, 30, ("SELECTOR",), START) == [
        ["NAME", "b"],
        ["CREATED", "1h ago"],
        ["SELECTOR", "<none>"],
    ]
    assert narrowed(columns, 20, ("SELECTOR",), START) == [["NAME", "b"], ["CREATED", "1h ago"]]
    assert narrowed(columns, 3, ("SELECTOR",), START) == [["NAME", "b"], ["CREATED", "1h ago"]]


@pytest.mark.parametrize("columns", [60, 80])
def test_a_message_is_cut(columns: int) -> None:
    location = {
        "metadata": {"name": "default"},
        "spec": {"provider": "aws", "objectStorage": {"bucket": "lab"}},
        "status": {"phase": "Unavailable", "message": "no answer in time, " * 20},
    }
    rows = render_table([location], backup_location_table(FakeClock()), FLAGS, room=columns).splitlines()
    assert [len(row) <= columns for row in rows] == [True, True]
    assert rows[1].endswith("..")


@pytest.mark.found("row 103")
@pytest.mark.parametrize("phase", ["Queued", "FailedValidation"])
def test_on_a_terminal_a_run_that_has_not_begun_has_the_time_of_its_object(phase: str) -> None:
    waiting = a_run("b", phase=phase, startTimestamp=None)
    table = backup_table(FakeClock())
    assert "2021-08-11 20:00:00 +0000 UTC" in render_table([waiting], table, FLAGS, room=300)
    assert "<nil>" in render_table([waiting], table, FLAGS)


@pytest.mark.found("row 102")
def test_text_wraps_between_words_only() -> None:
    text = (
        "the server can use default, but it cannot be reached from here: https://store.example.com/a-bucket"
    )
    lines = wrapped(text, 10, 50).split("\n")
    assert " ".join(line.strip() for line in lines) == text
    assert all(line.startswith(" " * 10) for line in lines[1:])
    assert max(len(line) for line in lines[:-1]) <= 50
    assert wrapped(text, 10, None) == wrapped(text, 10, 25) == text
