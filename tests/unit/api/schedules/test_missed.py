"""When a run counts as missed, and by when a backup should have succeeded."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.schedules.missed import RunRecord, Timeliness, punctuality
from pinnace.api.schedules.rules import CatchUp, ScheduleRules
from pinnace.api.schedules.windows import Windows
from pinnace.api.values.cron import read_schedule

MONDAY = datetime(2024, 3, 4, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def rules(expression: str, **more: Any) -> ScheduleRules:
    return ScheduleRules(cron=read_schedule(expression), **more)


@pytest.mark.parametrize(
    ("expression", "late", "running", "state"),
    [
        ("0 1 * * *", -HOUR, None, Timeliness.NO),
        ("0 1 * * *", timedelta(), None, Timeliness.NO),
        ("0 1 * * *", 144 * MINUTE, None, Timeliness.NO),
        ("0 1 * * *", 145 * MINUTE, None, Timeliness.MISSED),
        ("*/15 * * * *", 10 * MINUTE, None, Timeliness.NO),
        ("*/15 * * * *", 11 * MINUTE, None, Timeliness.MISSED),
        # the earlier backup takes 3 hours: it began in time
        ("*/15 * * * *", 175 * MINUTE, 180 * MINUTE, Timeliness.RUNNING),
        # one that began after the grace is no excuse
        ("*/15 * * * *", 30 * MINUTE, 5 * MINUTE, Timeliness.MISSED),
        # its start is ahead of our clock
        ("*/15 * * * *", 11 * MINUTE, -HOUR, Timeliness.MISSED),
    ],
)
def test_a_run_is_missed_after_its_grace(
    expression: str, late: timedelta, running: timedelta | None, state: Timeliness
) -> None:
    now = MONDAY + late
    record = RunRecord(
        counted_from=MONDAY - timedelta(seconds=1),
        success_counts_from=MONDAY - DAY,
        running_since=None if running is None else now - running,
    )
    found = punctuality(rules(expression), record, now, UTC)
    assert (found.state, found.due) == (state, MONDAY)


def test_a_schedule_that_has_not_been_due_is_new() -> None:
    record = RunRecord(counted_from=MONDAY, success_counts_from=MONDAY, has_run=False)
    found = punctuality(rules("@weekly"), record, MONDAY + HOUR, UTC)
    assert found.state is Timeliness.NEW
    assert found.succeed_by is not None


@pytest.mark.parametrize(
    ("expression", "success", "deadline"),
    [
        ("0 1 * * *", MONDAY + HOUR, MONDAY + HOUR + 1.5 * DAY + 10 * MINUTE),
        # weekdays alone: nobody is told on Saturday that Friday's success is old
        ("0 1 * * 1-5", MONDAY + 4 * DAY + HOUR, MONDAY + 7.5 * DAY + 10 * MINUTE),
        # a backup that takes 90 minutes of an hour
        ("0 * * * *", MONDAY + 90 * MINUTE, MONDAY + 190 * MINUTE),
    ],
)
def test_a_success_is_due_half_an_interval_after_its_run(
    expression: str, success: datetime, deadline: datetime
) -> None:
    record = RunRecord(counted_from=MONDAY, success_counts_from=success)
    found = punctuality(rules(expression), record, success, UTC)
    assert found.succeed_by == deadline


@given(
    expression=st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 1 * * 1-5", "0 0 29 2 *", "@every 5m"]),
    zone=st.sampled_from([UTC, ZoneInfo("Europe/Berlin"), ZoneInfo("Australia/Lord_Howe")]),
    counted=st.datetimes(datetime(2024, 1, 1), datetime(2026, 1, 1)),
    later=st.timedeltas(timedelta(), timedelta(days=800)),
)
def test_a_missed_run_is_at_least_ten_minutes_late_and_stays_missed(
    expression: str, zone: ZoneInfo, counted: datetime, later: timedelta
) -> None:
    cron, since = rules(expression), counted.replace(tzinfo=UTC)
    record = RunRecord(counted_from=since, success_counts_from=since)
    found = punctuality(cron, record, since + later, zone)
    again = punctuality(cron, record, since + later + HOUR, zone)
    assert found.due is not None
    assert found.succeed_by is not None
    assert found.succeed_by > found.due
    if found.state is Timeliness.MISSED:
        assert since + later - found.due > timedelta(minutes=10)
        assert again.state is Timeliness.MISSED


def test_a_run_that_waits_for_a_window_is_not_missed_and_one_that_is_left_out_is() -> None:
    record = RunRecord(counted_from=MONDAY - MINUTE, success_counts_from=MONDAY)
    windows = Windows("00:00-06:00")
    held = punctuality(rules("0 1 * * *", windows=windows), record, MONDAY + 3 * HOUR, UTC)
    assert (held.state, held.due) == (Timeliness.NO, MONDAY + 5 * HOUR)

    left_out = punctuality(rules("0 1 * * *", catch_up=CatchUp.NONE), record, MONDAY + 3 * HOUR, UTC)
    assert (left_out.missed, left_out.due) == (MONDAY, MONDAY + DAY)


def test_a_running_backup_excuses_no_run_that_may_overlap() -> None:
    now = MONDAY + 30 * MINUTE
    record = RunRecord(counted_from=MONDAY - MINUTE, success_counts_from=MONDAY, running_since=MONDAY - HOUR)
    found = punctuality(rules("*/15 * * * *", allows_overlap=True), record, now, UTC)
    assert found.state is Timeliness.MISSED
