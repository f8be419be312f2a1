"""The tests' own tools."""

import asyncio
from datetime import timedelta
from itertools import count

import pytest

from tests.support import tasks
from tests.support.clock import START, FakeClock
from tests.support.tasks import cancel, leftover_tasks, settled
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


async def test_settled_tasks_have_gone_as_far_as_they_can_however_many_turns_that_takes() -> None:
    gate = asyncio.Event()

    async def work() -> str:
        for _ in range(500):
            await asyncio.sleep(0)
        await settled()  # others may call it at the same time
        await gate.wait()
        return "went on"

    working = asyncio.create_task(work())
    await settled()
    assert not working.done()

    gate.set()
    await settled()
    assert working.result() == "went on"


async def test_a_task_that_never_waits_is_not_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "MOST_TURNS", 50)

    async def spin() -> None:
        for _ in count():
            await asyncio.sleep(0)

    spinning = asyncio.create_task(spin())
    with pytest.raises(AssertionError, match="in 50 turns"):
        await settled()
    await cancel([spinning])


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


def test_clock_moves_only_when_told(clock: FakeClock) -> None:
    began = clock.monotonic()
    assert clock.now() == clock.now() == START
    clock.turn(1.5)
    clock.turn(timedelta(minutes=1))
    assert clock.now() == START + timedelta(seconds=61.5)
    assert clock.monotonic() == began + 61.5
    clock.set(START)
    assert (clock.now(), clock.monotonic()) == (START, began + 61.5)
