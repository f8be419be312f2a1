"""Deletions that nobody could expect wait for a day, or for a confirmation."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.retention.breaker import (
    MOST_UNANNOUNCED,
    NOTICE,
    digest,
    hold_back,
    read_announced,
    write_announced,
)

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
MANY = [f"d{number:02}" for number in range(MOST_UNANNOUNCED + 1)]


def test_ten_go_and_eleven_wait_for_a_day() -> None:
    assert hold_back(MANY[:10], {}, confirmed=None, now=NOW).go == set(MANY[:10])

    first = hold_back(MANY, {}, confirmed=None, now=NOW)
    assert (first.go, first.wait, first.next_at) == (set(), set(MANY), NOW + NOTICE)

    # A restart reads what the annotation has.
    announced = read_announced(write_announced(first.announced))
    assert announced == first.announced
    early = hold_back(MANY, announced, confirmed=None, now=NOW + NOTICE - timedelta(seconds=1))
    assert early.go == set()
    late = hold_back(MANY, early.announced, confirmed=None, now=NOW + NOTICE)
    assert (late.go, late.wait) == (set(MANY), set())


def test_a_deletion_that_failed_need_not_be_announced_again() -> None:
    announced = dict.fromkeys(MANY, NOW - NOTICE)
    first = hold_back(MANY, announced, confirmed=None, now=NOW)
    assert hold_back(MANY, first.announced, confirmed=None, now=NOW).go == set(MANY)


def test_what_was_announced_goes_and_what_is_new_waits() -> None:
    announced = dict.fromkeys(MANY, NOW - NOTICE)
    new = [f"n{number}" for number in range(11)]
    decision = hold_back([*MANY, *new], announced, confirmed=None, now=NOW)
    assert (decision.go, decision.wait) == (set(MANY), set(new))
    # Their announcement stays until they are gone: a deletion can fail.
    assert decision.announced == announced | dict.fromkeys(new, NOW)


def test_a_backup_that_was_kept_meanwhile_is_announced_again() -> None:
    announced = dict.fromkeys(MANY, NOW - timedelta(hours=23))
    kept_once = hold_back(MANY[1:], announced, confirmed=None, now=NOW)
    assert MANY[0] not in kept_once.announced


@pytest.mark.parametrize(
    ("confirmed", "goes"),
    [(NOW - timedelta(hours=2), False), (NOW - timedelta(hours=1), True), (NOW, True)],
)
def test_a_confirmation_covers_what_was_announced_by_then(confirmed: datetime, goes: bool) -> None:
    announced = dict.fromkeys(MANY, NOW - timedelta(hours=1))
    later_ones = [f"n{number}" for number in range(11)]
    decision = hold_back([*MANY, *later_ones], announced, confirmed=confirmed, now=NOW)
    assert decision.go == (set(MANY) if goes else set())
    assert decision.wait >= set(later_ones)


def test_an_announcement_of_a_clock_that_was_ahead_counts_from_now() -> None:
    announced = dict.fromkeys(MANY, NOW + timedelta(days=365))
    decision = hold_back(MANY, announced, confirmed=None, now=NOW)
    assert (decision.go, set(decision.announced.values())) == (set(), {NOW})


@pytest.mark.parametrize("text", ["", "x", "[]", '{"2026-11-28T06:00:00Z": 1}', '{"soon": ["d00"]}', "{}"])
def test_an_announcement_that_cannot_be_read_lets_all_wait_again(text: str) -> None:
    assert read_announced(text) == {}


def test_thousands_that_wait_fit_into_an_annotation() -> None:
    going = [digest(f"hourly-{number}", "uid") for number in range(20_000)]
    decision = hold_back(going, {}, confirmed=None, now=NOW)
    assert decision.go == set()
    assert len(write_announced(decision.announced)) < 64 << 10
    later_on = hold_back(going, decision.announced, confirmed=None, now=NOW + NOTICE)
    assert later_on.go == decision.announced.keys() == set(going[:2000])


def test_a_backup_made_again_under_its_name_is_another_one() -> None:
    assert digest("b", "1") != digest("b", "2")


passes = st.lists(
    st.tuples(st.integers(min_value=0, max_value=30 * 3600), st.sets(st.integers(0, 40))), max_size=30
)


@given(passes)
def test_more_than_ten_never_go_without_a_day_of_notice(found: list[tuple[int, set[int]]]) -> None:
    now = NOW
    announced: dict[str, datetime] = {}
    seen: dict[str, datetime] = {}
    for seconds, numbers in found:
        now += timedelta(seconds=seconds)
        going = [str(number) for number in sorted(numbers)]
        seen = {each: seen.get(each, now) for each in going}
        decision = hold_back(going, announced, confirmed=None, now=now)
        surprising = [each for each in decision.go if now - seen[each] < NOTICE]
        assert len(surprising) <= MOST_UNANNOUNCED
        assert decision.go | decision.wait == set(going)
        announced = read_announced(write_announced(decision.announced))
