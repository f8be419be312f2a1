"""Durations against Go's text form."""

import copy
import pickle
from datetime import timedelta

import pytest
from hypothesis import given

from pinnace.api.values.durations import Duration
from tests.unit.api.strategies import durations

MILLISECOND = 1_000_000
SECOND = 1_000 * MILLISECOND


@pytest.mark.spec("API-036")
@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1500 * MILLISECOND, "1.5s"),
        (0, "0s"),
        (90 * SECOND, "1m30s"),
        (720 * 3600 * SECOND, "720h0m0s"),
    ],
)
def test_written_as_the_api_says(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (1, "1ns"),
        (1_100, "1.1µs"),
        (2_200_000, "2.2ms"),
        (100 * MILLISECOND, "100ms"),
        (3_300_000_000, "3.3s"),
        (3600 * SECOND, "1h0m0s"),
        (60 * SECOND, "1m0s"),
        (245 * SECOND + MILLISECOND, "4m5.001s"),
        (-1500 * MILLISECOND, "-1.5s"),
        (-1, "-1ns"),
        (2**63 - 1, "2562047h47m16.854775807s"),
    ],
)
def test_written_in_gos_form(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("-0", 0),
        ("5s", 5 * SECOND),
        ("+5s", 5 * SECOND),
        ("1h30m", 5400 * SECOND),
        ("5.s", 5 * SECOND),
        (".5s", 500 * MILLISECOND),
        ("1.5h", 5400 * SECOND),
        ("10.5s4m", 250 * SECOND + 500 * MILLISECOND),
        ("-2m3.4s", -123_400 * MILLISECOND),
        ("1us2\u00b5s3\u03bcs4ns", 6_004),
        ("0.1000000000000000000001h", 360 * SECOND),
    ],
)
def test_read(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'time: invalid duration ""'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("5", 'time: missing unit in duration "5"'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("\x1b[2J", 'time: invalid duration "\\x1b[2J"'),
        ("1h\x1b]0;x\x07", 'time: unknown unit "h\\x1b]" in duration "1h\\x1b]0;x\\x07"'),
        ("1h ", 'time: unknown unit "h " in duration "1h "'),
        ("٣s", 'time: invalid duration "٣s"'),
        ("10000000h", 'time: invalid duration "10000000h"'),
        ("9" * 1000 + "h", f'time: invalid duration "{"9" * 32}..."'),
    ],
)
def test_refused_with_the_text_users_know(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=r"^time:") as caught:
        Duration.parse(text)
    assert str(caught.value) == problem


@given(durations)
def test_reading_inverts_writing(duration: Duration) -> None:
    assert Duration.parse(str(duration)) == duration


@given(durations, durations)
def test_ordered_and_hashed_as_their_length(one: Duration, other: Duration) -> None:
    assert (one < other) == (one.nanoseconds < other.nanoseconds)
    assert (one >= other) == (one.nanoseconds >= other.nanoseconds)
    assert len({one, other, Duration(one.nanoseconds)}) == len({one.nanoseconds, other.nanoseconds})


def test_built_from_common_units() -> None:
    assert Duration.seconds(1.5) == Duration.parse("1.5s")
    assert Duration.minutes(90) == Duration.parse("1h30m")
    assert Duration.hours(720).total_seconds() == 720 * 3600
    assert Duration.seconds(-90).to_timedelta() == timedelta(seconds=-90)
    assert Duration(-1).to_timedelta() == timedelta(0)


def test_true_when_not_zero() -> None:
    assert not Duration()
    assert Duration(-1)


def test_immutable_and_copied_with_its_struct() -> None:
    duration = Duration.hours(1)
    with pytest.raises(AttributeError):
        duration._nanoseconds = 1
    with pytest.raises(AttributeError):
        del duration._nanoseconds
    assert copy.deepcopy(duration) == duration
    assert pickle.loads(pickle.dumps(duration)) == duration


def test_not_equal_to_other_types_and_too_long_refused() -> None:
    assert Duration(1) != 1
    assert repr(Duration.seconds(90)) == "Duration.parse('1m30s')"
    with pytest.raises(ValueError, match="64 bits"):
        Duration(2**63)
    with pytest.raises(TypeError):
        _ = Duration(1) < 1
