"""When runs begin: windows, runs that were missed, clocks that are set, random times."""

from collections import Counter
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.schedules.due import IN_TIME, NextRun, counted_from, interval_seconds, next_run
from pinnace.api.schedules.rules import CatchUp, ScheduleRules, read_rules
from pinnace.api.schedules.windows import NO_WINDOWS, Windows
from pinnace.api.values.cron import CronError, drawn, read_schedule
from pinnace.api.values.times import CLOCK_DIFFERENCE
from pinnace.api.velero.schedule import Schedule, ScheduleStatus

BERLIN = ZoneInfo("Europe/Berlin")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


def rules(cron: str, windows: str = "", catch_up: str = "last") -> ScheduleRules:
    return ScheduleRules(
        cron=read_schedule(cron),
        windows=Windows(windows) if windows else NO_WINDOWS,
        catch_up=CatchUp(catch_up),
    )


def begins(found: NextRun | None) -> datetime:
    assert found is not None
    return found.begins


@pytest.mark.parametrize(
    ("cron", "windows", "since", "now", "expected"),
    [
        ("0 12 * * *", "08:00-18:00", "06-01T12:00", "06-02T11:00", "06-02T18:00"),
        ("0 12 * * *", "08:00-18:00", "06-01T18:00", "06-02T13:00", "06-02T18:00"),
        # Held up by an earlier backup, into the next window.
        ("0 3 * * *", "08:00-18:00", "06-01T03:00", "06-02T09:00", "06-02T18:00"),
        # A month that ends within a window over midnight, and one without the day.
        ("0 0 31 * *", "22:00-04:00", "05-01T00:00", "05-30T12:00", "05-31T04:00"),
        ("0 0 31 * *", "22:00-04:00", "05-31T04:00", "06-30T12:00", "07-31T04:00"),
        ("CRON_TZ=America/New_York 0 12 * * *", "08:00-18:00", "06-01T12:00", "06-01T12:00", "06-02T00:00"),
        ("CRON_TZ=America/New_York @every 6h", "08:00-18:00", "06-01T12:00", "06-01T12:00", "06-02T00:00"),
        ("@every 6h", "08:00-18:00", "06-01T03:00", "06-01T04:00", "06-01T18:00"),
        # The window of the night in which the clock skips 02:00-03:00, and of that in which it repeats it.
        ("30 1 * * *", "01:00-02:30", "03-28T01:30", "03-29T01:00", "03-29T03:00"),
        ("30 1 * * *", "01:00-03:00", "10-24T01:30", "10-25T01:00", "10-25T03:00"),
    ],
)
def test_a_run_within_a_window_waits_for_its_end(
    cron: str, windows: str, since: str, now: str, expected: str
) -> None:
    former, moment, begin = (at(f"2026-{text}", BERLIN) for text in (since, now, expected))

    assert begins(next_run(rules(cron, windows), former, moment, BERLIN)) == begin


@pytest.mark.parametrize(
    ("cron", "windows", "since", "now", "due", "missed"),
    [
        ("0 3 * * *", "", "06-01T03:00", "06-02T03:10", "06-02T03:00", None),
        ("0 3 * * *", "", "06-01T03:00", "06-02T03:11", "06-03T03:00", "06-02T03:00"),
        ("0 3 * * *", "", "06-01T03:00", "06-20T03:05", "06-20T03:00", "06-02T03:00"),
        ("@every 6h", "", "06-01T03:00", "06-20T04:00", "06-20T09:00", "06-01T09:00"),
        ("* * * * *", "", "2001-06-01T03:00", "06-20T04:00", "06-20T03:50", "2001-06-01T03:01"),
        # Due within a window, its time is the end of that.
        ("0 12 * * *", "08:00-18:00", "06-01T18:00", "06-02T17:00", "06-02T12:00", None),
        ("0 12 * * *", "08:00-18:00", "06-01T18:00", "06-02T18:10", "06-02T12:00", None),
        ("0 12 * * *", "08:00-18:00", "06-01T18:00", "06-02T18:11", "06-03T12:00", "06-02T12:00"),
        ("0 12 * * *", "08:00-18:00", "06-01T18:00", "06-09T17:00", "06-09T12:00", "06-02T12:00"),
        ("0 7 * * *", "08:00-18:00", "06-01T07:00", "06-02T17:00", "06-03T07:00", "06-02T07:00"),
    ],
)
def test_what_could_not_begin_in_time_is_left_out_where_the_schedule_says_so(
    cron: str, windows: str, since: str, now: str, due: str, missed: str | None
) -> None:
    def time(text: str) -> datetime:
        return at(text if text.startswith("20") else f"2026-{text}")

    found = next_run(rules(cron, windows, "none"), time(since), time(now), UTC)

    assert found is not None
    assert (found.due, found.missed) == (time(due), None if missed is None else time(missed))
    kept = next_run(rules(cron, windows), time(since), time(now), UTC)
    assert kept is not None
    assert (kept.due, kept.missed) == (read_schedule(cron).next(time(since), UTC), None)


EXPRESSIONS = st.sampled_from(
    ["0 3 * * *", "*/30 * * * *", "30 2 * * *", "0 0 31 * *", "45 1,14 * * 0", "@every 7h", "@every 25m"]
)
WINDOWS = st.sampled_from(
    [
        "",
        "08:00-18:00",
        "22:00-04:00",
        "01:15-02:45",
        "Sat-Sun 00:00-24:00",
        "Sun 23:00-03:00; Mon 02:30-05:00",
    ]
)
STARTS = st.sampled_from(
    [
        (BERLIN, at("2026-03-27T06:00")),
        (BERLIN, at("2026-10-23T06:00")),
        (LORD_HOWE, at("2026-04-03T00:00")),
        (LORD_HOWE, at("2026-10-02T00:00")),
        (UTC, at("2026-02-27T00:00")),
    ]
)


@given(EXPRESSIONS, WINDOWS, STARTS, st.integers(0, 5 * 1440))
def test_only_the_first_run_that_is_in_time_is_left_after_those_that_were_missed(
    cron: str, windows: str, start: tuple[tzinfo, datetime], minutes: int
) -> None:
    (zone, since), given_rules = start, rules(cron, windows, "none")
    now = since + timedelta(minutes=minutes)
    due = given_rules.cron.next(since, zone)
    while due is not None and now - given_rules.windows.open_from(due, zone) > IN_TIME:
        due = given_rules.cron.next(due, zone)

    found = next_run(given_rules, since, now, zone)

    assert found is not None
    assert found.due == due
    assert found.planned == given_rules.windows.open_from(found.due, zone)
    assert found.begins >= found.planned
    assert found.begins == found.planned or found.begins > now


class Simulated:
    """A Schedule by a clock that the test sets, as the controller carries it out."""

    def __init__(self, given_rules: ScheduleRules, zone: tzinfo, now: datetime) -> None:
        self.rules, self.zone, self.now = given_rules, zone, now
        self.schedule = Schedule(metadata=ObjectMeta(creation_timestamp=now))
        self.runs: list[tuple[datetime, datetime]] = []
        self._ahead: datetime | None = None

    def look(self) -> None:
        last = self.schedule.status.last_backup
        is_ahead = last is not None and last - self.now > CLOCK_DIFFERENCE
        self._ahead = (self._ahead or self.now) if is_ahead else None
        since = counted_from(self.schedule, now=self.now, since=self._ahead)
        found = next_run(self.rules, since, self.now, self.zone)
        assert found is not None
        assert found.due > since
        if self.now > found.begins:
            self.runs.append((found.due, self.now))
            self.schedule = Schedule(
                metadata=self.schedule.metadata,
                status=ScheduleStatus(last_backup=self.now.replace(microsecond=0)),
            )


@given(EXPRESSIONS, WINDOWS, STARTS, st.data())
def test_by_a_clock_that_goes_on_each_run_is_made_once_and_outside_of_windows(
    cron: str, windows: str, start: tuple[tzinfo, datetime], data: st.DataObject
) -> None:
    simulated = Simulated(rules(cron, windows), *start)
    for seconds in data.draw(st.lists(st.integers(1, 9 * 3600), max_size=30)):
        simulated.now += timedelta(seconds=seconds)
        simulated.look()
    end = simulated.rules.windows.open_from(simulated.now, simulated.zone) + timedelta(seconds=1)
    simulated.now = end
    simulated.look()

    assert max(Counter(due for due, _ in simulated.runs).values(), default=1) == 1
    for due, made in simulated.runs:
        assert made >= due
        assert simulated.rules.windows.open_from(made, simulated.zone) == made
    # None is lost: outside of windows, nothing that was due is left.
    made = counted_from(simulated.schedule, now=end)
    following = simulated.rules.cron.next(made, simulated.zone)
    assert following is None or following >= end


@given(EXPRESSIONS, WINDOWS, STARTS, st.lists(st.integers(-3 * 86400, 3 * 86400), max_size=20))
def test_a_clock_that_is_set_to_and_fro_neither_stops_a_schedule_nor_makes_it_run_without_end(
    cron: str, windows: str, start: tuple[tzinfo, datetime], jumps: list[int]
) -> None:
    simulated = Simulated(rules(cron, windows), *start)
    for seconds in jumps:
        simulated.now += timedelta(seconds=seconds)
        before = len(simulated.runs)
        for _ in range(3):
            simulated.look()
        assert len(simulated.runs) <= before + 1  # what was missed is one run
    made = len(simulated.runs)
    for _ in range(2):  # at most two months to the next 31st, and it may wait for the end of a window
        simulated.look()
        last = counted_from(simulated.schedule, now=simulated.now, since=simulated._ahead)
        following = next_run(simulated.rules, last, simulated.now, simulated.zone)
        simulated.now = max(simulated.now, begins(following)) + timedelta(seconds=1)
        simulated.look()
    assert len(simulated.runs) > made


@pytest.mark.parametrize(
    ("windows", "now", "hours"),
    [
        ("", "12:30", 1),
        ("08:00-18:00", "05:30", 1),
        ("08:00-18:00", "06:30", 11),
        ("08:00-18:00", "12:30", 1),
    ],
)
def test_the_interval_is_between_the_times_that_runs_are_planned_for(
    windows: str, now: str, hours: int
) -> None:
    assert interval_seconds(rules("@hourly", windows), at(f"2026-06-01T{now}"), UTC) == hours * 3600


# --- Random times ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "least", "distance"),
    [
        ("@hourly-random", 50, timedelta(hours=1)),
        ("@daily-random", 180, timedelta(days=1)),
        ("@weekly-random", 190, timedelta(days=7)),
        ("@monthly-random", 195, timedelta(days=31)),
        ("@yearly-random", 195, timedelta(days=366)),
        ("@annually-random", 195, timedelta(days=366)),
    ],
)
def test_random_times_are_those_of_a_schedule_and_spread(name: str, least: int, distance: timedelta) -> None:
    seen = set()
    for number in range(200):
        cron = read_schedule(name, f"uid-{number}")
        first = cron.next(at("2026-01-01T00:00"))
        assert first == read_schedule(name, f"uid-{number}").next(at("2026-01-01T00:00"))
        assert first is not None
        second = cron.next(first)
        assert second is not None
        assert timedelta() < second - first <= distance
        seen.add(first)
    assert len(seen) >= least


def test_a_random_time_never_changes() -> None:
    """Kept forever: another one would move the backups of all schedules."""
    assert drawn("@monthly-random", "0f5e2b1c") == "57 18 19 * *"
    zoned = drawn("CRON_TZ=Europe/Berlin @daily-random", "0f5e2b1c")
    assert zoned == f"CRON_TZ=Europe/Berlin {drawn('@daily-random', '0f5e2b1c')}"
    assert drawn("@daily", "0f5e2b1c") == "@daily"
    for text in ("@minutely-random", "5 @daily-random", "@every @daily-random"):
        with pytest.raises(CronError):
            read_schedule(text)


# --- Annotations ----------------------------------------------------------------------------------------


def annotated(cron: str = "@daily", **notes: str) -> dict[str, Any]:
    named = {f"pinnace.io/{name.replace('_', '-')}": value for name, value in notes.items()}
    return {"metadata": {"name": "s", "uid": "u", "annotations": named}, "spec": {"schedule": cron}}


def test_rules_are_read_from_annotations() -> None:
    found, errors = read_rules(annotated(not_during="Mon 08:00-18:00", catch_up="none", allow_overlap="true"))

    assert errors == []
    assert found is not None
    assert (found.windows.text, found.catch_up, found.allows_overlap) == ("Mon 08:00-18:00", "none", True)
    assert read_rules(annotated()) == (ScheduleRules(cron=read_schedule("@daily")), [])


def test_all_that_cannot_be_read_is_named() -> None:
    found, errors = read_rules(annotated("x", not_during="8-18", catch_up="all", allow_overlap="yes"))

    assert found is None
    assert [error.split(":")[0] for error in errors] == [
        "invalid schedule",
        f"annotation {labels.NOT_DURING}",
        f"annotation {labels.CATCH_UP}",
        f"annotation {labels.ALLOW_OVERLAP}",
    ]
