"""The work queue: once each, in order, never two at one key, none lost."""

import asyncio
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pinnace.runtime.errors import QueueShutDown
from pinnace.runtime.queue import RateLimitedQueue
from tests.unit.runtime.fakes import (
    FakeClock,
    settle,
)

KEYS = ("a", "b", "c", "d")


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def queue(fake_clock: FakeClock) -> RateLimitedQueue[str]:
    return RateLimitedQueue(clock=fake_clock)


async def test_first_in_first_out_and_once_each(queue: RateLimitedQueue[str]) -> None:
    for key in ("b", "a", "b", "b", "c"):
        queue.add(key)
    assert len(queue) == 3
    assert [await queue.get() for _ in range(3)] == ["b", "a", "c"]


async def test_a_key_added_while_processed_waits_until_done(queue: RateLimitedQueue[str]) -> None:
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_get_waits_for_a_key(queue: RateLimitedQueue[str]) -> None:
    async with asyncio.TaskGroup() as group:
        getter = group.create_task(queue.get())
        await settle()
        assert not getter.done()
        queue.add("a")
    assert getter.result() == "a"


async def test_a_cancelled_get_loses_no_key(queue: RateLimitedQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await settle()
    queue.add("a")  # wakes the first, which is cancelled before it runs
    first.cancel()
    await settle()
    assert first.cancelled()
    assert second.result() == "a"


async def test_a_getter_cancelled_while_it_waits_is_passed_over(queue: RateLimitedQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await settle()
    first.cancel()
    queue.add("a")
    await settle()
    assert second.result() == "a"
    assert first.cancelled()


async def test_delayed_key_comes_when_it_is_due(queue: RateLimitedQueue[str], fake_clock: FakeClock) -> None:
    queue.add_after("a", 5)
    fake_clock.turn(4.9)
    assert len(queue) == 0
    fake_clock.turn(0.1)
    assert len(queue) == 1
    queue.add_after("b", 0)
    assert [await queue.get() for _ in range(2)] == ["a", "b"]


@pytest.mark.parametrize("delays", [(5, 2), (2, 5)], ids=["later-first", "earlier-first"])
async def test_the_earliest_delay_of_a_key_counts(
    queue: RateLimitedQueue[str], fake_clock: FakeClock, delays: tuple[int, int]
) -> None:
    for delay in delays:
        queue.add_after("a", delay)
    fake_clock.turn(2)
    assert await queue.get() == "a"
    queue.done("a")
    fake_clock.turn(10)
    assert len(queue) == 0


async def test_retry_waits_for_the_longer_of_both_limits(
    queue: RateLimitedQueue[str], fake_clock: FakeClock
) -> None:
    for number in range(100):
        queue.add_rate_limited(f"key-{number}")
    assert fake_clock.pending == pytest.approx([0.005] * 100)
    queue.add_rate_limited("one too many")
    assert fake_clock.pending[-1] == pytest.approx(0.1)
    assert queue.failures("one too many") == 1
    queue.forget("one too many")
    assert queue.failures("one too many") == 0


async def test_shutdown_hands_out_nothing_more(queue: RateLimitedQueue[str], fake_clock: FakeClock) -> None:
    queue.add("waiting")
    queue.add_after("delayed", 1)
    queue.shutdown()
    queue.add("late")
    queue.add_after("later", 1)
    assert queue.is_shut_down
    assert fake_clock.pending == []
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_shutdown_wakes_all_who_wait(queue: RateLimitedQueue[str]) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.shutdown()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [QueueShutDown] * 3


class QueueAgainstModel(RuleBasedStateMachine):
    """The queue and a model made of a list and two sets say the same, whatever is done to them."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = FakeClock()
        self.queue: RateLimitedQueue[str] = RateLimitedQueue(clock=self.clock)
        self.waiting: deque[str] = deque()
        self.processing: set[str] = set()
        self.again: set[str] = set()
        self.delayed: dict[str, float] = {}

    def teardown(self) -> None:
        self.queue.shutdown()
        self.runner.close()

    def model_add(self, key: str) -> None:
        if key in self.processing:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    @rule(key=st.sampled_from(KEYS))
    def add(self, key: str) -> None:
        self.queue.add(key)
        self.model_add(key)

    @rule(key=st.sampled_from(KEYS), delay=st.integers(1, 5))
    def add_after(self, key: str, delay: int) -> None:
        self.queue.add_after(key, delay)
        due = self.clock.time + delay
        self.delayed[key] = min(due, self.delayed.get(key, due))

    @rule(seconds=st.integers(1, 3))
    def pass_time(self, seconds: int) -> None:
        end = self.clock.time + seconds
        for key, due in sorted(self.delayed.items(), key=lambda item: item[1]):
            if due <= end:
                del self.delayed[key]
                self.model_add(key)
        before = list(self.waiting)
        self.clock.turn(seconds)
        # Keys due at the same moment may come in either order: take the queue's.
        order = list(self.queue._waiting)
        assert sorted(order) == sorted(before)
        self.waiting = deque(order)

    @precondition(lambda self: self.waiting)
    @rule()
    def get(self) -> None:
        key = self.runner.run(self.queue.get())
        assert key == self.waiting.popleft()
        assert key not in self.processing
        self.processing.add(key)

    @precondition(lambda self: self.processing)
    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.processing)))
        self.queue.done(key)
        self.processing.discard(key)
        if key in self.again:
            self.again.discard(key)
            self.waiting.append(key)

    @invariant()
    def same_length(self) -> None:
        assert len(self.queue) == len(self.waiting)


QueueAgainstModel.TestCase.settings = settings(stateful_step_count=30)
TestQueueAgainstModel = QueueAgainstModel.TestCase


@given(
    adds=st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 3)), max_size=30),
    workers=st.integers(1, 4),
    turns=st.lists(st.integers(0, 3), min_size=1, max_size=10),
)
def test_workers_never_share_a_key_and_lose_none(
    adds: list[tuple[str, int]], workers: int, turns: list[int]
) -> None:
    async def scenario() -> None:
        queue: RateLimitedQueue[str] = RateLimitedQueue(clock=FakeClock())
        busy: set[str] = set()
        added: dict[str, int] = {}
        seen: dict[str, int] = {}
        lengths = deque(turns)

        async def work() -> None:
            while True:
                try:
                    key = await queue.get()
                except QueueShutDown:
                    return
                assert key not in busy
                busy.add(key)
                seen[key] = added[key]  # a reconcile reads the state as it is now
                await settle(lengths[0])
                lengths.rotate(-1)
                busy.discard(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
            for key, pause in adds:
                added[key] = added.get(key, 0) + 1
                queue.add(key)
                await settle(pause)
            await settle(200)
            queue.shutdown()
        assert seen == added

    asyncio.run(scenario())
