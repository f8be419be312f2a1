"""Leader election: records are pure; electors run against fake Leases and a clock turned by hand."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from pinnace.api.values.times import format_time
from pinnace.kube.errors import ConnectionFailed
from pinnace.runtime.errors import LeadershipLost
from pinnace.runtime.leader import LeaderElector, LeaderState, LeaseTimes
from pinnace.runtime.lease import LeaseRecord, ObservedLease, held_spec, micro_time, released_spec
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.runtime.fakes import LEASE, NOW, FakeLeases, campaign, elector


def record(holder: str, *, duration: float = 15, renewed: str = "r1", transitions: int = 0) -> LeaseRecord:
    return LeaseRecord(
        holder=holder,
        duration_seconds=duration,
        acquire_time="a1",
        renew_time=renewed,
        transitions=transitions,
    )


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def leases() -> FakeLeases:
    return FakeLeases()


def leads(candidate: LeaderElector) -> bool:
    return candidate.is_leading


def test_record_of_an_empty_lease() -> None:
    assert LeaseRecord.of({}, default_duration_seconds=15) == LeaseRecord(
        holder="", duration_seconds=15, acquire_time="", renew_time="", transitions=0
    )


def test_a_lease_counts_as_held_from_when_it_was_seen_to_change() -> None:
    seen = ObservedLease(record("other"), 100.0)
    assert seen.is_held(114.9)
    assert not seen.is_held(115.0)
    assert seen.after(record("other"), 110.0) == seen
    assert seen.after(record("other", renewed="r2"), 110.0).is_held(124.9)
    assert not ObservedLease(record(""), 100.0).is_held(100.0)


def test_renewing_keeps_the_time_of_acquiring_and_taking_counts_a_transition() -> None:
    taken = held_spec(record("other", transitions=3), "me", 15.0, NOW)
    assert taken == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2021-08-11T21:43:26.000005Z",
        "renewTime": "2021-08-11T21:43:26.000005Z",
        "leaseTransitions": 4,
    }
    renewed = held_spec(record("me", transitions=4), "me", 15.0, NOW)
    assert (renewed["acquireTime"], renewed["leaseTransitions"]) == ("a1", 4)
    assert held_spec(None, "me", 15.0, NOW)["leaseTransitions"] == 0
    released = released_spec(record("me", transitions=4), NOW)
    assert (released["holderIdentity"], released["leaseTransitions"]) == ("", 4)


def test_micro_time_is_utc_with_six_digits() -> None:
    east = timezone(timedelta(hours=2))
    assert micro_time(datetime(2021, 8, 11, 2, 0, tzinfo=east)) == "2021-08-11T00:00:00.000000Z"


async def test_one_leads_and_the_other_waits_until_it_stops(
    leases: FakeLeases, fake_clock: FakeClock
) -> None:
    first, second = (elector(leases.client(), name, fake_clock) for name in ("first", "second"))
    async with campaign(first) as leading, campaign(second):
        assert leads(first)
        assert second.state is LeaderState.STANDBY
        await fake_clock.advance(60)
        assert leads(first)
        assert not leads(second)
        assert second.leader == "first"
        first.stop()
        await leading
        assert first.state is LeaderState.RELEASED
        assert leases.holder == ""
        await fake_clock.advance(2)
        assert leads(second)
        assert leases.lease is not None
        assert leases.lease["spec"]["leaseTransitions"] == 1


async def test_a_dead_leader_is_followed_after_the_lease_ran_out(
    leases: FakeLeases, fake_clock: FakeClock
) -> None:
    first, second = (elector(leases.client(), name, fake_clock) for name in ("first", "second"))
    async with campaign(first):
        await fake_clock.advance(10)
    async with campaign(second):  # the first was killed: its lease says "first" still
        assert leases.holder == "first"
        await fake_clock.advance(14)
        assert not leads(second)
        await fake_clock.advance(2)
        assert leads(second)
        assert leases.holder == "second"


async def test_a_leader_cut_off_gives_up_before_another_may_begin(
    leases: FakeLeases, fake_clock: FakeClock
) -> None:
    cut_off = leases.client()
    first, second = elector(cut_off, "first", fake_clock), elector(leases.client(), "second", fake_clock)
    async with campaign(first) as leading, campaign(second):
        await fake_clock.advance(5)
        cut_off.down = ConnectionFailed("unreachable")
        for _ in range(200):
            await fake_clock.advance(0.1)
            assert not (leads(second) and not leading.done())
        assert leads(second)
        with pytest.raises(LeadershipLost, match="velero/server was not renewed for 10 s"):
            await leading
        assert first.state is LeaderState.LOST
        assert not leads(first)


async def test_a_short_outage_costs_nothing(leases: FakeLeases, fake_clock: FakeClock) -> None:
    client = leases.client()
    candidate = elector(client, "first", fake_clock)
    async with campaign(candidate) as task:
        client.down = ConnectionFailed("unreachable")
        await fake_clock.advance(7)
        client.down = None
        await fake_clock.advance(30)
        assert leads(candidate)
        assert not task.done()


async def test_a_lease_is_renewed_without_a_look_at_it(leases: FakeLeases, fake_clock: FakeClock) -> None:
    client = leases.client()
    async with campaign(elector(client, "first", fake_clock)):
        await fake_clock.advance(60)

        assert leases.lease is not None
        assert leases.lease["spec"]["renewTime"] == micro_time(fake_clock.now())
        assert client.looks == 1


async def test_a_lease_whose_labels_change_is_kept(leases: FakeLeases, fake_clock: FakeClock) -> None:
    candidate = elector(leases.client(), "first", fake_clock)
    async with campaign(candidate) as task:
        assert leases.lease is not None
        leases.store({**leases.lease, "metadata": {**leases.lease["metadata"], "labels": {"x": "y"}}})
        await fake_clock.advance(30)
        assert leads(candidate)
        assert not task.done()
        assert leases.lease["metadata"]["labels"] == {"x": "y"}


async def test_a_lease_taken_by_another_is_lost_at_once(leases: FakeLeases, fake_clock: FakeClock) -> None:
    candidate = elector(leases.client(), "first", fake_clock)
    async with campaign(candidate) as task:
        assert leases.lease is not None
        leases.store({**leases.lease, "spec": {**leases.lease["spec"], "holderIdentity": "thief"}})
        await fake_clock.advance(2)
        with pytest.raises(LeadershipLost, match="held by thief"):
            await task


async def test_two_that_try_together_do_not_both_win(leases: FakeLeases, fake_clock: FakeClock) -> None:
    leases.store({"metadata": {"name": "server"}, "spec": {"holderIdentity": ""}})
    client = leases.client()
    candidate = elector(client, "slow", fake_clock)

    def another_is_faster() -> None:
        client.before_replace = lambda: None
        body: dict[str, Any] = {"metadata": {"name": "server"}, "spec": {"holderIdentity": "fast"}}
        leases.store(body)

    client.before_replace = another_is_faster
    async with campaign(candidate):
        assert not leads(candidate)
        assert leases.holder == "fast"


async def test_stop_before_leading_leaves_the_lease_alone(leases: FakeLeases, fake_clock: FakeClock) -> None:
    first, second = (elector(leases.client(), name, fake_clock) for name in ("first", "second"))
    async with campaign(first), campaign(second) as waiting:
        writes = leases.writes
        second.stop()
        await waiting
        assert leases.writes == writes
        assert leases.holder == "first"


async def test_release_that_fails_only_leaves_the_lease_to_run_out(
    leases: FakeLeases, fake_clock: FakeClock
) -> None:
    client = leases.client()
    candidate = elector(client, "first", fake_clock)
    async with campaign(candidate) as task:
        client.down = ConnectionFailed("unreachable")
        candidate.stop()
        await task
        assert leases.holder == "first"
        assert candidate.state is LeaderState.RELEASED


@pytest.mark.parametrize(
    ("lease", "renew", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 9)], ids=["lease", "renew", "jitter"]
)
def test_durations_that_would_let_two_lead_are_refused(lease: float, renew: float, retry: float) -> None:
    with pytest.raises(ValueError, match="lease duration > renew deadline"):
        LeaseTimes(duration=lease, renew_deadline=renew, retry_period=retry)


async def test_an_outage_of_45_seconds_does_not_end_a_leader_with_the_usual_times() -> None:
    """Runs wait such an outage out: their server must be there when it is over."""
    clock, client = FakeClock(), FakeLeases().client()
    candidate = LeaderElector(
        client.as_client(), LEASE, "me", times=LeaseTimes(jitter=lambda: 0.0), clock=clock
    )
    running = asyncio.create_task(candidate.run())
    await settled()
    client.down = ConnectionFailed("unreachable")
    await clock.advance(45)
    assert leads(candidate)
    client.down = None
    await clock.advance(45)
    assert leads(candidate)
    client.down = ConnectionFailed("unreachable")
    await clock.advance(51)
    with pytest.raises(LeadershipLost):
        await running


async def test_an_answer_that_names_another_holder_wins_nothing(fake_clock: FakeClock) -> None:
    """What a proxy answers from its memory: the object is a Lease of that name, and the write is lost."""
    leases = FakeLeases()
    client = leases.client()
    stale = {
        "metadata": {"name": "server", "namespace": "velero", "resourceVersion": "1"},
        "spec": {"holderIdentity": ""},
    }

    async def remembered(*_: Any, **__: Any) -> dict[str, Any]:
        return stale

    client.create = remembered  # type: ignore[method-assign]
    candidate = elector(client, "me", fake_clock)
    running = asyncio.create_task(candidate.run())
    await settled()
    assert not leads(candidate)
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running


def left(leases: FakeLeases, seconds: float, *, renewed: str = "2031-01-01T00:00:00.000000Z") -> str:
    """A lease of a dead holder that was written so long ago; returns the Date of the API server's answers.

    Args:
        renewed: by the clock of the holder, which may be wrong.
    """
    spec = held_spec(None, "dead", 15.0, NOW)
    leases.store({"metadata": {"name": "server"}, "spec": {**spec, "renewTime": renewed}})
    assert leases.lease is not None
    older = {"manager": "kubectl", "time": "2020-08-11T21:43:26Z"}
    written = format_time(NOW - timedelta(seconds=seconds))
    leases.lease["metadata"]["managedFields"] = [older, {"manager": "pinnace", "time": written}, {}]
    return f"{NOW:%a, %d %b %Y %H:%M:%S} GMT"


@pytest.mark.parametrize("seconds", [136, 40 * 86400])
async def test_a_lease_that_expired_long_ago_is_not_waited_for_again(
    leases: FakeLeases, fake_clock: FakeClock, seconds: float
) -> None:
    client = leases.client()
    client.date = left(leases, seconds)
    candidate = elector(client, "new", fake_clock)
    async with campaign(candidate):
        await fake_clock.advance(5)
        assert not leads(candidate)  # a living holder would renew it in this time
        await fake_clock.advance(2)
        assert leads(candidate)
        assert leases.holder == "new"


@pytest.mark.parametrize("case", ["expired lately", "no date", "not noted"])
async def test_a_lease_whose_end_is_not_long_ago_or_unknown_is_waited_for(
    leases: FakeLeases, fake_clock: FakeClock, case: str
) -> None:
    client = leases.client()
    client.date = left(leases, 134 if case == "expired lately" else 999, renewed="2011-01-01T00:00:00Z")
    assert leases.lease is not None
    if case == "no date":
        client.date = ""
    if case == "not noted":
        del leases.lease["metadata"]["managedFields"]
    candidate = elector(client, "new", fake_clock)
    async with campaign(candidate):
        await fake_clock.advance(14)
        assert not leads(candidate)
        await fake_clock.advance(3)
        assert leads(candidate)


async def test_a_leader_that_lives_keeps_its_lease_whatever_the_clocks_say(
    leases: FakeLeases, fake_clock: FakeClock
) -> None:
    first, client = elector(leases.client(), "first", fake_clock), leases.client()
    second = elector(client, "second", fake_clock)
    async with campaign(first), campaign(second):
        for _ in range(60):
            assert leases.lease is not None
            written = format_time(NOW - timedelta(hours=1))  # of an API server whose clock is an hour behind
            leases.lease["metadata"]["managedFields"] = [{"time": written}]
            client.date = f"{NOW:%a, %d %b %Y %H:%M:%S} GMT"
            await fake_clock.advance(1)
            assert leads(first)
            assert not leads(second)
