"""What is wrong in itself is looked at more and more seldom, and reported once a day."""

from datetime import UTC, datetime, timedelta

import pytest

from pinnace.runtime import set_aside
from pinnace.runtime.set_aside import SetAside

START = datetime(2021, 8, 11, tzinfo=UTC)


def test_each_wait_is_twice_the_last_up_to_a_day() -> None:
    aside: SetAside[str] = SetAside()
    now, waits, reports = START, [], 0
    assert "x" not in aside
    assert not aside.waits("x", now)
    for _ in range(15):
        reports += aside.put("x", now)
        since = now
        while aside.waits("x", now):
            now += timedelta(minutes=1)
        waits.append((now - since).total_seconds() / 60)
    assert waits[:5] == [1, 2, 4, 8, 16]
    assert waits[-1] == 24 * 60
    days = (now - START).days
    assert reports in (days, days + 1)


def test_a_forgotten_object_begins_with_the_shortest_wait() -> None:
    aside: SetAside[str] = SetAside()
    for key in "ab":
        aside.put(key, START)
    aside.forget("a")
    aside.keep_only({"a", "c"})
    assert "a" not in aside
    assert "b" not in aside
    assert aside.put("b", START)


def test_its_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_aside, "MOST", 2)
    aside: SetAside[int] = SetAside()
    assert all(aside.put(number, START) for number in range(3))
    assert [aside.waits(number, START) for number in range(3)] == [True, True, False]
