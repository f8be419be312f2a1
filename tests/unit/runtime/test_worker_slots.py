"""The worker of a run is given back while the run waits long for a store."""

import pytest

from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Lane, RateLimitedQueue, Share
from pinnace.runtime.worker_slots import PATIENCE_SECONDS, QueueWorkerSlot, WorkerSlot
from tests.unit.runtime.fakes import FakeClock

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


async def test_a_store_that_answers_soon_changes_no_order(
    queue: RateLimitedQueue[Key], fake_clock: FakeClock
) -> None:
    slot = QueueWorkerSlot(queue, FIRST, clock=fake_clock)
    with slot.lent():
        fake_clock.turn(PATIENCE_SECONDS - 0.1)
    fake_clock.turn(PATIENCE_SECONDS)
    await slot.take()
    queue.done(FIRST)
    assert await queue.get() == SECOND


async def test_a_store_that_keeps_a_run_waiting_does_not_keep_the_worker(
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


async def test_the_worker_of_a_command_is_there_at_once_though_it_was_given_back() -> None:
    slot = WorkerSlot()
    with slot.lent():
        slot.give_back()

    taking = slot.take()

    with pytest.raises(StopIteration):  # it ends without a pause
        taking.send(None)
