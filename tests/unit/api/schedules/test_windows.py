"""Windows that keep runs from beginning, compared with a look at the clock minute by minute."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pinnace.api.schedules.windows import WindowError, Windows

BERLIN = ZoneInfo("Europe/Berlin")
MINUTE = timedelta(minutes=1)
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone).astimezone(UTC)


CHANGES = st.sampled_from(
    [
        (UTC, at("2026-01-31T12:00")),
        (BERLIN, at("2026-03-28T20:00")),
        (BERLIN, at("2026-10-24T20:00")),
        (ZoneInfo("Australia/Lord_Howe"), at("2026-04-04T08:00")),
        (ZoneInfo("Australia/Lord_Howe"), at("2026-10-03T08:00")),
        (ZoneInfo("America/St_Johns"), at("2010-11-06T20:00")),  # over midnight
        (ZoneInfo("Africa/Casablanca"), at("2026-02-14T20:00")),
        (ZoneInfo("Pacific/Apia"), at("2011-12-29T20:00")),  # the 30th did not exist
    ]
)


def clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


@st.composite
def windows(draw: st.DrawFn) -> str:
    """Windows, half of them with weekdays."""
    written = []
    for _ in range(draw(st.integers(1, 3))):
        begin, end = draw(st.integers(0, 1439)), draw(st.integers(0, 1440))
        assume(begin != end)
        days = draw(st.sampled_from(["", "Sat-Sun ", "Fri-Mon ", "Sun ", "Mon-Fri "]))
        written.append(f"{days}{clock(begin)}-{clock(end)}")
    return "; ".join(written)


def shows_a_time_within(text: str, moment: datetime, zone: tzinfo) -> bool:
    """The rule itself, for windows as `windows` draws them."""
    wall = moment.astimezone(zone)
    minute = wall.hour * 60 + wall.minute
    for window in text.split("; "):
        days, _, span = window.rpartition(" ")
        first, _, last = days.partition("-")
        begin, end = (int(time[:2]) * 60 + int(time[3:]) for time in span.split("-"))

        def has(day: int, first: str = first, last: str = last) -> bool:
            if not first:
                return True
            low = DAY_NAMES.index(first)
            return (day - low) % 7 <= (DAY_NAMES.index(last or first) - low) % 7

        today, yesterday = has(wall.weekday()), has((wall.weekday() - 1) % 7)
        if begin < end and today and begin <= minute < end:
            return True
        if begin > end and ((today and minute >= begin) or (yesterday and minute < end)):
            return True
    return False


@given(windows(), CHANGES, st.integers(0, 24 * 3600))
def test_a_window_holds_whenever_the_clock_shows_a_time_in_it(
    text: str, where: tuple[tzinfo, datetime], seconds: int
) -> None:
    zone, start = where
    moment = start + timedelta(seconds=seconds)
    try:
        read = Windows(text)
    except WindowError:
        assume(False)

    opens, since = read.open_from(moment, zone), read.closed_since(moment, zone)

    assert since <= moment <= opens
    assert not shows_a_time_within(text, opens, zone)
    if not shows_a_time_within(text, moment, zone):
        assert opens == since == moment
        return
    assert opens > moment
    assert not shows_a_time_within(text, since - MINUTE, zone)
    minute = since
    while minute < opens:
        assert shows_a_time_within(text, minute, zone)
        minute += MINUTE


@pytest.mark.parametrize(
    ("text", "moment", "opens"),
    [
        ("08:00-18:00", "2026-06-01T12:00:30", "2026-06-01T18:00"),
        ("08:00-18:00", "2026-06-01T18:00", "2026-06-01T18:00"),
        ("Mon-Fri 08:00-18:00", "2026-06-06T12:00", "2026-06-06T12:00"),
        ("22:00-04:00", "2026-06-30T23:00", "2026-07-01T04:00"),
        ("Sun 22:00-04:00", "2026-05-31T23:00", "2026-06-01T04:00"),  # Sunday's goes into Monday
        ("Sun 22:00-04:00", "2026-05-31T03:00", "2026-05-31T03:00"),
        ("Sat,Sun 00:00-24:00; Mon 00:00-06:00", "2026-06-06T01:00", "2026-06-08T06:00"),
        ("fri-mon 00:00 - 24:00;", "2026-06-05T01:00", "2026-06-09T00:00"),
        ("01:00-02:30", "2026-03-29T01:59", "2026-03-29T03:00"),  # the clock skips 02:00-03:00
        ("02:10-02:50", "2026-03-29T01:59", "2026-03-29T01:59"),
    ],
)
def test_a_moment_within_a_window_waits_for_its_end(text: str, moment: str, opens: str) -> None:
    assert Windows(text).open_from(at(moment, BERLIN), BERLIN) == at(opens, BERLIN)


def test_a_clock_that_is_set_forward_into_a_window_begins_it() -> None:
    since = Windows("02:30-05:00").closed_since(at("2026-03-29T04:00", BERLIN), BERLIN)

    assert since == at("2026-03-29T03:00", BERLIN)


def test_a_window_is_longer_when_the_clock_is_set_back_in_it() -> None:
    opens = Windows("01:00-04:00").open_from(at("2026-10-25T01:00", BERLIN), BERLIN)

    assert opens - at("2026-10-25T01:00", BERLIN) == timedelta(hours=4)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("8-18", "'8-18' is no window: write it as in 'Mon-Fri 08:00-18:00' or '22:00-04:00'"),
        (
            "Montag 08:00-18:00",
            "'montag' in 'Montag 08:00-18:00' is no weekday: write Mon, Tue-Thu or Sat,Sun",
        ),
        ("Mon-Tue-Wed 08:00-18:00", "no weekday"),
        ("08:00-24:01", "a day is 00:00-24:00"),
        ("24:00-08:00", "a day is 00:00-24:00"),
        ("08:60-09:00", "a day is 00:00-24:00"),
        ("08:00-08:00", "has no length; the whole day is 00:00-24:00"),
        ("00:00-12:00; 12:00-24:00", "leaves a run no time to begin"),
        ("٠٨:00-18:00", "is no window"),
        ("08:00-09:00;" * 400, "must not be longer than 4096 characters"),
    ],
)
def test_windows_that_cannot_be_meant_are_refused(text: str, error: str) -> None:
    with pytest.raises(WindowError) as refused:
        Windows(text)
    assert error in str(refused.value)
