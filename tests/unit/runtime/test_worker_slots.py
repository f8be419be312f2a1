"""The worker of a run is given back while the run waits long for a store."""

import asyncio

import pytest

from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Lane, RateLimitedQueue, Share
from pinnace.runtime.worker_slots import PATIENCE_SECONDS, QueueWorkerSlot, WorkerSlot
from tests.support.clock import FakeClock
from tests.support.tasks import settled

FIRST, SECOND = Key("velero", "first"), Key("velero", "second")


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def queue() -> RateLimitedQueue[Key]:
    """Of one worker, which the first key has."""
    lane = Lane(worker_shares=(Share("worker", 1),))
    queue: RateLimitedQueue[Key] = RateLimitedQueue(lane_of=lambda _: lane)
    queue.add(FIRST)
    queue.add(SECOND)
    assert await queue.get() == FIRST
    return queue


async def test_a_run_keeps_its_worker_if_the_store_answers_soon(
    queue: RateLimitedQueue[Key], fake_clock: FakeClock
) -> None:
    slot = QueueWorkerSlot(queue, FIRST, clock=fake_clock)
    getter = asyncio.create_task(queue.get())
    with slot.lent():
        fake_clock.turn(PATIENCE_SECONDS - 0.1)
    fake_clock.turn(PATIENCE_SECONDS)
    await slot.take()
    await settled()
    assert not getter.done()
    queue.done(FIRST)
    assert await getter == SECOND


async def test_a_run_gives_its_worker_back_if_the_store_answers_late(
    queue: RateLimitedQueue[Key], fake_clock: FakeClock
) -> None:
    slot = QueueWorkerSlot(queue, FIRST, clock=fake_clock)
    with slot.lent():
        fake_clock.turn(PATIENCE_SECONDS)
        assert await queue.get() == SECOND
        queue.done(SECOND)
    await slot.take()
    queue.add(SECOND)
    slot.give_back()
    assert await queue.get() == SECOND


async def test_a_command_takes_its_worker_again_without_waiting() -> None:
    slot = WorkerSlot()
    with slot.lent():
        slot.give_back()

    taking = slot.take()

    with pytest.raises(StopIteration):  # it ends without a pause
        taking.send(None)
