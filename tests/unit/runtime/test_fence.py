"""The fence of a leader closes by time, by loss and by doubt, and opens again only by a renewal."""

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pinnace.aio.clock import BootClock
from pinnace.aio.fence import FenceClosed
from pinnace.runtime.fence import LeaseFence
from pinnace.runtime.leader import LeaderState
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.runtime.fakes import FakeLeases, campaign, elector

pytestmark = pytest.mark.found("L3")

START = datetime(2026, 11, 27, 2, 0, tzinfo=UTC)


def date(seconds: float) -> str:
    return format_datetime(START + timedelta(seconds=seconds), usegmt=True)


class Asked:
    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def fence(clock: FakeClock, asked: Asked) -> LeaseFence:
    made = LeaseFence(clock, asked)
    made.renewed(clock.time, lasts_seconds=14, date=date(0))
    return made


async def test_it_is_closed_before_the_lease_is_taken(clock: FakeClock) -> None:
    fence = LeaseFence(clock, Asked())
    assert not fence.is_open
    with pytest.raises(FenceClosed, match="does not lead"):
        await fence.passed()


async def test_it_closes_when_the_time_is_up_and_asks_for_a_renewal(
    fence: LeaseFence, clock: FakeClock, asked: Asked
) -> None:
    clock.turn(13.9)
    await fence.passed()
    assert asked.times == 0
    clock.turn(0.1)
    with pytest.raises(FenceClosed, match="not renewed in time"):
        await fence.passed()
    assert asked.times == 1


async def test_after_a_loss_it_stays_closed(fence: LeaseFence) -> None:
    fence.close("another leads")
    with pytest.raises(FenceClosed, match="another leads"):
        await fence.passed()
    fence.heard(date(100))
    with pytest.raises(FenceClosed, match="another leads"):
        fence.check()


@pytest.mark.parametrize("is_lost", [True, False])
async def test_a_date_by_which_the_time_is_up_makes_writes_wait_for_the_lease(
    fence: LeaseFence, clock: FakeClock, asked: Asked, is_lost: bool
) -> None:
    fence.heard(date(13))
    await fence.passed()
    fence.heard(date(14))  # our clock stood still
    assert asked.times == 1
    waiting = asyncio.create_task(fence.passed())
    await settled()
    assert not waiting.done()
    with pytest.raises(FenceClosed, match="being found out"):
        fence.check()

    if is_lost:
        fence.close("another leads")
        with pytest.raises(FenceClosed, match="another leads"):
            await waiting
    else:
        fence.renewed(clock.time, lasts_seconds=14, date=date(15))
        await waiting
        fence.check()


async def test_a_renewal_that_began_before_the_pause_does_not_settle_the_doubt(
    fence: LeaseFence, clock: FakeClock
) -> None:
    began = clock.time
    clock.turn(1)
    fence.heard(date(60))
    fence.renewed(began, lasts_seconds=14, date=date(2))
    assert not fence.is_open
    fence.renewed(clock.time, lasts_seconds=14, date=date(61))
    assert fence.is_open


async def test_servers_whose_clocks_differ_do_not_close_it_for_good(
    fence: LeaseFence, clock: FakeClock
) -> None:
    for second in range(3):
        fence.heard(date(300 + second))
        assert not fence.is_open, "a renewal is asked for"
        fence.renewed(clock.time, lasts_seconds=14, date=date(second))
        assert fence.is_open


@pytest.mark.parametrize("odd", ["", "yesterday", "Fri, 99 Nov 2026 02:41:25 GMT"])
async def test_an_answer_without_a_proper_date_changes_nothing(fence: LeaseFence, odd: str) -> None:
    fence.heard(odd)
    assert fence.is_open


async def test_a_leader_that_was_paused_writes_nothing_though_its_timers_stood_still(
    clock: FakeClock,
) -> None:
    leases = FakeLeases()
    candidate = elector(leases.client(), "me", clock)
    async with campaign(candidate) as task:
        assert candidate.fence.is_open
        clock.turn(15)  # no task runs meanwhile
        with pytest.raises(FenceClosed):
            candidate.fence.check()
        await settled()
        assert candidate.state is LeaderState.LOST, "a refused write wakes the candidate at once"
        assert task.done()


async def test_the_fence_closes_when_the_lease_is_released(clock: FakeClock) -> None:
    candidate = elector(FakeLeases().client(), "me", clock)
    async with campaign(candidate):
        candidate.stop()
        await settled()
        assert candidate.state is LeaderState.RELEASED
        assert not candidate.fence.is_open


async def test_the_clock_of_a_lease_counts_suspensions_and_is_read_each_time() -> None:
    before = time.clock_gettime(time.CLOCK_BOOTTIME)
    assert before <= BootClock().monotonic() <= time.clock_gettime(time.CLOCK_BOOTTIME)
