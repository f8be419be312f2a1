"""Timestamps in the form of the API."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.values.times import (
    EARLIEST,
    LATEST,
    format_time,
    http_date,
    in_zone,
    known_time,
    later,
    parse_time,
)


def test_written_in_utc_without_fractions() -> None:
    paris = timezone(timedelta(hours=2))
    moment = datetime(2021, 8, 11, 23, 43, 26, 999_999, tzinfo=paris)
    assert format_time(moment) == "2021-08-11T21:43:26Z"


def test_time_without_zone_refused() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        format_time(datetime(2021, 8, 11))


@pytest.mark.parametrize(
    "text", ["2021-08-11T21:43:26Z", "2021-08-11T23:43:26+02:00", "2021-08-11T21:43:26.0Z"]
)
def test_read_into_utc(text: str) -> None:
    moment = parse_time(text)
    assert moment == datetime(2021, 8, 11, 21, 43, 26, tzinfo=UTC)
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    "text", ["", "2021-08-11", "20210811T214326Z", "2021-08-11T21:43:26", "2021-13-11T21:43:26Z"]
)
def test_other_forms_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"RFC 3339|month"):
        parse_time(text)


@given(st.datetimes(timezones=st.just(UTC)))
def test_reading_inverts_writing(moment: datetime) -> None:
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


def test_now_is_aware() -> None:
    assert SYSTEM_CLOCK.now().tzinfo is UTC


ODD = {
    "9999-12-31T23:59:59-12:00": LATEST,
    "0001-01-01T00:00:00+14:00": EARLIEST,
    "0000-01-01T00:00:00Z": EARLIEST,
    "0000-02-29T23:59:59.9+14:00": EARLIEST,
}


@pytest.mark.found("Z1", "Z2")
@pytest.mark.parametrize("text", ODD)
def test_a_date_outside_the_calendar_is_at_its_end(text: str) -> None:
    assert parse_time(text) == known_time(text) == ODD[text]
    assert parse_time(format_time(parse_time(text))) == ODD[text]


@pytest.mark.found("Z1")
@pytest.mark.parametrize("hours", [-12, 14])
def test_a_date_is_written_within_the_calendar(hours: int) -> None:
    zone = timezone(timedelta(hours=hours))
    for moment in (datetime.min, datetime.max):
        written = format_time(moment.replace(tzinfo=zone))
        assert EARLIEST <= parse_time(written) <= LATEST


@pytest.mark.parametrize(
    "text",
    ["0000-13-01T00:00:00Z", "2021-08-11t21:43:26z", "2021-08-11T21:43:26+99:99", "soon", "", None, 5, {}],
)
def test_anything_else_is_no_known_time(text: object) -> None:
    assert known_time(text) is None


@pytest.mark.found("Z1")
def test_periods_and_zones_end_with_the_calendar() -> None:
    century = timedelta(days=36_500)
    assert (later(LATEST, century), later(EARLIEST, -century)) == (LATEST, EARLIEST)
    assert later(EARLIEST, century) == EARLIEST + century
    for moment in (EARLIEST, LATEST):
        for hours in (-12, 0, 14):
            shown = in_zone(moment, timezone(timedelta(hours=hours)))
            assert abs(moment - shown) <= timedelta(days=2)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z"),  # (RFC 9110: 5.6.7)
        ("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z"),
        ("Sun, 06 Nov 1994 08:49:37 +0200", "1994-11-06T06:49:37Z"),
        ("Sun, 06 anF 1994 08:49:37 GMT", None),
        ("Sun, 36 Nov 1994 08:49:37 GMT", None),
        ("Sun, 06 Nov 1994 28:49:37 GMT", None),
        ("2026-11-27T18:19:39Z", None),
        ("", None),
    ],
)
def test_the_date_of_an_answer(text: str, moment: str | None) -> None:
    read = http_date(text)

    assert (None if read is None else format_time(read)) == moment
