"""The limit on requests in flight: fair, never above its cap, and yielding to a busy server."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.kube.client import KubeClient
from pinnace.kube.transport.config import ClusterConfig
from pinnace.kube.transport.limiting import InFlightLimit, RateCap
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.kube.scripted import answer_json, scripted_server


async def test_slots_are_handed_out_in_order() -> None:
    limit = InFlightLimit(1)
    order: list[int] = []

    async def work(number: int) -> None:
        async with limit.slot():
            order.append(number)

    async with asyncio.TaskGroup() as tasks, limit.slot():
        for number in range(5):
            tasks.create_task(work(number))
        await settled()
        assert order == []
    assert order == [0, 1, 2, 3, 4]
    assert limit.in_flight == 0


@pytest.mark.parametrize("granted", [False, True])
async def test_a_cancelled_waiter_leaves_its_place(granted: bool) -> None:
    limit = InFlightLimit(1)

    async def work() -> None:
        async with limit.slot():
            pytest.fail("was cancelled before it could begin")

    async with limit.slot():
        waiter = asyncio.create_task(work())
        await settled()
        if not granted:
            waiter.cancel()
            await asyncio.wait([waiter])
    # With `granted`, the slot is already the waiter's, but it has not run yet.
    waiter.cancel()
    await asyncio.wait([waiter])
    assert waiter.cancelled()
    assert limit.in_flight == 0
    async with limit.slot():
        assert limit.in_flight == 1


async def test_the_limit_grows_only_while_requests_wait_for_it() -> None:
    limit = InFlightLimit(64)
    start = limit.limit
    async with limit.slot() as started:
        for _ in range(100):
            limit.answered(started, comparable=False)
    assert limit.limit == start


async def _fill(limit: InFlightLimit, answers: int) -> None:
    """Answers come while all slots are taken."""
    held = []
    for _ in range(answers):
        while limit.in_flight < limit.limit:
            slot = limit.slot()
            held.append(slot)
            started = await slot.__aenter__()
        limit.answered(started, comparable=False)
    for slot in held:
        await slot.__aexit__(None, None, None)


async def test_a_busy_server_halves_the_limit_once(clock: FakeClock) -> None:
    limit = InFlightLimit(64, clock=clock)
    await _fill(limit, 100)
    assert limit.limit == 64
    clock.turn(1)
    for _ in range(64):
        limit.throttled(started=clock.time - 0.5)
    assert limit.limit == 32
    limit.throttled(started=clock.time + 0.5)
    assert limit.limit == 16
    for _ in range(20):
        clock.turn(1)
        limit.throttled(started=clock.monotonic())
    assert limit.limit == 1


async def test_after_a_429_the_limit_grows_slowly(clock: FakeClock) -> None:
    limit = InFlightLimit(64, clock=clock)
    await _fill(limit, 100)
    limit.throttled(started=0.0)
    await _fill(limit, 31)
    assert limit.limit == 32
    await _fill(limit, 10)
    assert limit.limit == 33


async def test_rising_latency_lowers_the_limit(clock: FakeClock) -> None:
    limit = InFlightLimit(64, clock=clock)
    await _fill(limit, 100)
    for _ in range(20):
        clock.turn(0.05)
        limit.answered(clock.monotonic() - 0.05, comparable=True)
    assert limit.limit == 64
    for _ in range(20):
        clock.turn(3)
        limit.answered(clock.monotonic() - 3, comparable=True)
    assert 1 <= limit.limit < 40


async def test_slow_lists_do_not_lower_the_limit(clock: FakeClock) -> None:
    limit = InFlightLimit(64, clock=clock)
    await _fill(limit, 100)
    for _ in range(20):
        clock.turn(10)
        limit.answered(clock.monotonic() - 10, comparable=False)
    assert limit.limit == 64


async def test_constant_latency_does_not_lower_the_limit(clock: FakeClock) -> None:
    limit = InFlightLimit(64, clock=clock)
    for _ in range(50):
        clock.turn(2)
        limit.answered(clock.monotonic() - 2, comparable=True)
    assert limit.limit == 16


@given(st.integers(1, 80), st.lists(st.sampled_from(["ok", "slow", "busy"]), max_size=200))
async def test_the_limit_stays_within_its_bounds(maximum: int, answers: list[str]) -> None:
    clock = FakeClock()
    limit = InFlightLimit(maximum, clock=clock)
    for answer in answers:
        started = clock.monotonic()
        clock.turn(5 if answer == "slow" else 0.01)
        if answer == "busy":
            limit.throttled(started)
        else:
            limit.answered(started, comparable=True)
        assert 1 <= limit.limit <= maximum


class Waits(FakeClock):
    """A clock that only notes how long was to be slept."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)


async def test_a_cap_lets_a_burst_through_and_then_so_many_a_second() -> None:
    waits = Waits()
    cap = RateCap(4.0, 3, clock=waits)
    for _ in range(6):
        await cap.wait()
    assert waits.seconds == [0.25, 0.5, 0.75]

    waits.turn(0.75)  # the time that these three have waited
    await cap.wait()
    assert waits.seconds[3:] == [0.25]

    waits.turn(3600)
    waits.seconds.clear()
    for _ in range(4):
        await cap.wait()
    assert waits.seconds == [0.25]


async def test_a_client_keeps_to_the_cap() -> None:
    waits = Waits()
    async with scripted_server() as server:
        server.on("GET /version", answer_json({"gitVersion": "v1.34.0"}))
        config = ClusterConfig(server=server.url)
        async with KubeClient(config, rate=RateCap(0.001, 2, clock=waits)) as client:
            for _ in range(4):
                await client.version()

    assert [round(seconds, -2) for seconds in waits.seconds] == [1000, 2000]


@pytest.mark.found("K-F4")
@pytest.mark.parametrize("turns", [0, 1])
@pytest.mark.parametrize("release_first", [False, True])
async def test_a_waiter_cancelled_in_the_turn_of_a_release_is_cancelled(
    turns: int, release_first: bool
) -> None:
    limit = InFlightLimit(1)
    let_go = asyncio.Event()

    async def hold() -> None:
        async with limit.slot():
            await let_go.wait()

    async def wait() -> None:
        async with limit.slot():
            pytest.fail("was cancelled before it could begin")

    holder = asyncio.create_task(hold())
    await settled()
    waiter = asyncio.create_task(wait())
    await settled()
    if release_first:
        let_go.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    waiter.cancel()
    let_go.set()
    await asyncio.wait([holder, waiter])

    assert waiter.cancelled()
    assert limit.in_flight == 0
    async with asyncio.timeout(1), limit.slot():
        assert limit.in_flight == 1


@pytest.mark.found("K-F4")
@given(st.lists(st.tuples(st.sampled_from("wcrtg"), st.integers(0, 3)), max_size=30))
def test_slots_survive_cancellations_in_any_order(steps: list[tuple[str, int]]) -> None:
    """w: wait for a slot, c: cancel, r: release, t: a turn of the loop, g: the limit changes."""

    async def play() -> None:
        limit = InFlightLimit(1)
        held: dict[asyncio.Task[None], asyncio.Event] = {}

        async def work(let_go: asyncio.Event) -> None:
            async with limit.slot():
                assert limit.in_flight <= limit.maximum
                await let_go.wait()

        for step, number in steps:
            tasks = list(held)
            if step == "w":
                let_go = asyncio.Event()
                held[asyncio.create_task(work(let_go))] = let_go
                await asyncio.sleep(0)
            elif step == "c" and tasks:
                tasks[number % len(tasks)].cancel()
            elif step == "r" and tasks:
                held[tasks[number % len(tasks)]].set()
            elif step == "g" and number % 2:
                limit.throttled(float("inf"))
            elif step == "g":
                limit.answered(0.0, comparable=False)
            else:
                await asyncio.sleep(0)
        for let_go in held.values():
            let_go.set()
        outcomes = await asyncio.gather(*held, return_exceptions=True)
        assert all(each is None or isinstance(each, asyncio.CancelledError) for each in outcomes), outcomes
        assert limit.in_flight == 0
        async with asyncio.timeout(1), limit.slot():
            assert limit.in_flight == 1

    asyncio.run(play())
