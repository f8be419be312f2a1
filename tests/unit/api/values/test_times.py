"""Timestamps in the form of the API."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.values.times import format_time, parse_time, utcnow


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
    assert utcnow().tzinfo is UTC
