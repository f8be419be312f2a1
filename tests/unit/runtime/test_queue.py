"""The work queue: once each, in order, never two at one key, none lost."""

import asyncio
from collections import Counter, deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from pinnace.runtime.backoff import TokenBucket
from pinnace.runtime.errors import QueueShutDown
from pinnace.runtime.queue import Lane, RateLimitedQueue, Share
from tests.support.clock import FakeClock
from tests.support.tasks import settled

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
        await settled()
        assert not getter.done()
        queue.add("a")
    assert getter.result() == "a"


async def test_a_cancelled_get_loses_no_key(queue: RateLimitedQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await settled()
    queue.add("a")  # wakes the first, which is cancelled before it runs
    first.cancel()
    await settled()
    assert first.cancelled()
    assert second.result() == "a"


async def test_a_getter_cancelled_while_it_waits_is_passed_over(queue: RateLimitedQueue[str]) -> None:
    first = asyncio.create_task(queue.get())
    second = asyncio.create_task(queue.get())
    await settled()
    first.cancel()
    queue.add("a")
    await settled()
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


async def test_shutdown_hands_out_nothing_more(queue: RateLimitedQueue[str], fake_clock: FakeClock) -> None:
    queue.add("waiting")
    queue.add_after("delayed", 1)
    queue.shutdown()
    queue.add("late")
    queue.add_after("later", 1)
    assert fake_clock.pending == []
    with pytest.raises(QueueShutDown):
        await queue.get()


async def test_shutdown_wakes_all_who_wait(queue: RateLimitedQueue[str]) -> None:
    getters = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settled()
    queue.shutdown()
    results = await asyncio.gather(*getters, return_exceptions=True)
    assert [type(result) for result in results] == [QueueShutDown] * 3


def by_tenant(key: str) -> Lane:
    """`tenant/location-number`: each tenant two at a time, each location one."""
    tenant, _, rest = key.partition("/")
    location = rest.partition("-")[0]
    return Lane(
        party=tenant, name=location, shares=(Share(f"tenant {tenant}", 2), Share(f"location {location}", 1))
    )


def no_limits(key: str) -> Lane:
    """`tenant/...`, and nothing else counts."""
    return Lane(party=key.partition("/")[0])


async def test_a_flood_of_one_party_delays_another_by_one_key() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=no_limits)
    for number in range(5_000):
        queue.add(f"flood/{number}")
    queue.add("honest/1")
    queue.add("honest/2")
    order = [await queue.get() for _ in range(4)]
    assert order == ["flood/0", "honest/1", "flood/1", "honest/2"]


async def test_lanes_of_one_party_are_served_round_robin() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=lambda key: Lane(name=key[0]))
    for key in ("a1", "a2", "a3", "b1"):
        queue.add(key)
    assert [await queue.get() for _ in range(4)] == ["a1", "b1", "a2", "a3"]


async def test_a_key_whose_share_is_used_up_is_passed_over_until_there_is_room() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=by_tenant)
    for key in ("t/stuck-1", "t/stuck-2", "u/fine-1"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["t/stuck-1", "u/fine-1"]
    getter = asyncio.create_task(queue.get())
    await settled()
    assert not getter.done()
    queue.done("u/fine-1")
    await settled()
    assert not getter.done()
    queue.done("t/stuck-1")
    assert await getter == "t/stuck-2"


async def test_one_end_wakes_all_getters_that_have_a_key_by_it() -> None:
    """The key that ends has two shares, and each of them kept another key waiting."""
    lanes = {
        "both": Lane(name="both", shares=(Share("x", 1), Share("y", 1))),
        "x": Lane(name="x", shares=(Share("x", 1),)),
        "y": Lane(name="y", shares=(Share("y", 1),)),
    }
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=lanes.__getitem__)
    for key in lanes:
        queue.add(key)
    assert await queue.get() == "both"
    getters = [asyncio.create_task(queue.get()) for _ in range(2)]
    await settled()
    queue.done("both")
    await settled()
    assert sorted(getter.result() for getter in getters) == ["x", "y"]


async def test_retries_of_one_party_do_not_use_up_the_rate_of_another(fake_clock: FakeClock) -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(clock=fake_clock, lane_of=no_limits)
    for number in range(1_000):
        queue.add_rate_limited(f"flood/{number}")
    assert fake_clock.pending[-1] == pytest.approx(90)
    queue.add_rate_limited("honest/1")
    assert fake_clock.pending[0] == pytest.approx(0.005)
    fake_clock.turn(0.01)
    assert "honest/1" in [await queue.get() for _ in range(2)]


async def test_the_rates_of_parties_that_rest_are_forgotten(fake_clock: FakeClock) -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(
        clock=fake_clock, lane_of=no_limits, bucket=lambda: TokenBucket(rate_per_second=1, burst=1)
    )
    for number in range(100):
        queue.add_rate_limited(f"tenant-{number}/1")
        fake_clock.turn(2)
    assert len(queue._buckets) == 1


def one_worker(key: str) -> Lane:
    """`location/...`: one worker for all, and two keys of a location under way."""
    location = key.partition("/")[0]
    return Lane(name=location, shares=(Share(location, 2),), worker_shares=(Share("worker", 1),))


async def test_a_key_that_has_released_its_worker_lets_others_begin_up_to_its_other_shares() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=one_worker)
    for key in ("stuck/1", "stuck/2", "stuck/3", "fine/1"):
        queue.add(key)
    assert await queue.get() == "stuck/1"
    getter = asyncio.create_task(queue.get())
    await settled()
    assert not getter.done()
    queue.release("stuck/1")
    queue.release("stuck/1")
    assert await getter == "fine/1"
    queue.done("fine/1")
    assert await queue.get() == "stuck/2"
    queue.release("stuck/2")
    getter = asyncio.create_task(queue.get())
    await settled()
    assert not getter.done()
    queue.done("stuck/1")
    assert await getter == "stuck/3"


async def test_a_worker_that_was_released_is_regained_before_keys_that_wait() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=one_worker)
    for key in ("a/1", "b/1", "c/1"):
        queue.add(key)
    assert await queue.get() == "a/1"
    await queue.regain("a/1")
    queue.release("a/1")
    assert await queue.get() == "b/1"
    regaining, getter = asyncio.create_task(queue.regain("a/1")), asyncio.create_task(queue.get())
    await settled()
    assert not regaining.done()
    queue.done("b/1")
    await settled()
    assert (regaining.done(), getter.done()) == (True, False)
    queue.done("a/1")
    assert await getter == "c/1"


async def test_workers_are_regained_after_a_shutdown_too() -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=one_worker)
    for key in ("a/1", "b/1"):
        queue.add(key)
    assert await queue.get() == "a/1"
    queue.release("a/1")
    assert await queue.get() == "b/1"
    regaining = asyncio.create_task(queue.regain("a/1"))
    await settled()
    queue.shutdown()
    queue.done("b/1")
    await asyncio.wait_for(regaining, timeout=30)


@pytest.mark.parametrize("granted", [False, True], ids=["while it waits", "just when it has it"])
async def test_a_cancelled_wait_for_a_worker_leaves_it_to_others(granted: bool) -> None:
    queue: RateLimitedQueue[str] = RateLimitedQueue(lane_of=one_worker)
    for key in ("a/1", "b/1", "c/1"):
        queue.add(key)
    assert await queue.get() == "a/1"
    queue.release("a/1")
    assert await queue.get() == "b/1"
    regaining = asyncio.create_task(queue.regain("a/1"))
    await settled()
    if granted:
        queue.done("b/1")
    regaining.cancel()
    await settled()
    queue.done("a/1")
    if not granted:
        queue.done("b/1")
    assert await queue.get() == "c/1"
    assert not queue._regaining


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
        order = [
            key for lanes in self.queue._parties.values() for lane in lanes.values() for key in lane.keys
        ]
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


FAIR_KEYS = [
    f"{tenant}/{location}-{number}"
    for tenant, location in (("t", "x"), ("t", "y"), ("t", "z"), ("u", "x"), ("v", "y"))
    for number in range(3)
]


class FairQueueAgainstModel(RuleBasedStateMachine):
    """Sets say what may be handed out; counters say whose turn it may be."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.queue: RateLimitedQueue[str] = RateLimitedQueue(clock=FakeClock(), lane_of=by_tenant)
        self.waiting: list[str] = []
        self.processing: set[str] = set()
        self.again: set[str] = set()
        # For each party that could have been served: how often each other was, since then.
        self.overtaken: dict[str, Counter[str]] = {}

    def teardown(self) -> None:
        self.queue.shutdown()
        self.runner.close()

    def in_use(self) -> Counter[object]:
        return Counter(share.name for key in self.processing for share in by_tenant(key).shares)

    def eligible(self) -> list[str]:
        used = self.in_use()
        return [
            key
            for key in self.waiting
            if all(used[share.name] < share.limit for share in by_tenant(key).shares)
        ]

    @rule(key=st.sampled_from(FAIR_KEYS))
    def add(self, key: str) -> None:
        self.queue.add(key)
        if key in self.processing:
            self.again.add(key)
        elif key not in self.waiting:
            self.waiting.append(key)

    @precondition(lambda self: self.eligible())
    @rule()
    def get(self) -> None:
        before = self.eligible()
        key = self.runner.run(self.queue.get())
        assert key in before
        lane = by_tenant(key)
        assert key == next(each for each in before if by_tenant(each) == lane), "a lane keeps its order"
        for party in {by_tenant(each).party for each in before} - {lane.party}:
            passed = self.overtaken.setdefault(str(party), Counter())
            passed[str(lane.party)] += 1
            assert passed[str(lane.party)] == 1, "a party is served twice while another waits"
        self.overtaken.pop(str(lane.party), None)
        self.waiting.remove(key)
        self.processing.add(key)

    @precondition(lambda self: not self.eligible())
    @rule()
    def get_with_nothing_to_take(self) -> None:
        async def wait() -> bool:
            getter = asyncio.create_task(self.queue.get())
            await settled()
            got = getter.done()
            getter.cancel()
            await settled()
            return got

        assert not self.runner.run(wait())

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
    def shares_are_kept(self) -> None:
        limits = {share.name: share.limit for key in self.processing for share in by_tenant(key).shares}
        assert all(count <= limits[name] for name, count in self.in_use().items())

    @invariant()
    def nothing_is_lost(self) -> None:
        assert len(self.queue) == len(self.waiting)

    @invariant()
    def only_those_that_could_be_served_count_as_overtaken(self) -> None:
        able = {by_tenant(key).party for key in self.eligible()}
        self.overtaken = {party: passed for party, passed in self.overtaken.items() if party in able}


FairQueueAgainstModel.TestCase.settings = settings(stateful_step_count=40)
TestFairQueueAgainstModel = FairQueueAgainstModel.TestCase


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
                for _ in range(lengths[0]):
                    await asyncio.sleep(0)
                lengths.rotate(-1)
                busy.discard(key)
                queue.done(key)

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
            for key, pause in adds:
                added[key] = added.get(key, 0) + 1
                queue.add(key)
                for _ in range(pause):
                    await asyncio.sleep(0)
            await settled()
            queue.shutdown()
        assert seen == added

    asyncio.run(scenario())
