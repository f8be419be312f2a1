"""The tests' own tools."""

import asyncio
from datetime import timedelta

import pytest

from tests.support.clock import START, FrozenClock
from tests.support.tasks import cancel, leftover_tasks
from tests.support.waiting import eventually


async def test_leftover_tasks_are_found_and_ended() -> None:
    forgotten = asyncio.create_task(asyncio.Event().wait())

    found = await leftover_tasks()
    await cancel(found)

    assert found == [forgotten]
    assert forgotten.cancelled()
    assert await leftover_tasks() == []


async def test_tasks_about_to_end_are_no_leftovers() -> None:
    ending = asyncio.create_task(asyncio.sleep(0))

    assert await leftover_tasks() == []
    assert ending.done()


async def test_eventually_asks_until_it_is_so() -> None:
    answers = iter([False, True])

    async def condition() -> bool:
        return next(answers)

    await eventually(condition)

    assert next(answers, None) is None


async def test_eventually_gives_up() -> None:
    async def never() -> bool:
        return False

    with pytest.raises(AssertionError, match="not so within 0 s"):
        await eventually(never, timeout_seconds=0)


def test_clock_moves_only_when_told(clock: FrozenClock) -> None:
    assert clock() == clock() == START
    assert clock.advance(1.5) == START + timedelta(seconds=1.5)
    assert clock.advance(timedelta(minutes=1)) == clock()
    assert clock.monotonic() == 61.5
