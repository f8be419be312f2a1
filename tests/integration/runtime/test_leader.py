"""Leader election with real Leases and short durations."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

from pinnace.aio.clock import SYSTEM_CLOCK, BootClock
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import LEASES
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, LeaseTimes
from pinnace.runtime.lease import written_at
from tests.support.waiting import PATIENCE_SECONDS, eventually


def elector(client: KubeClient, namespace: str, identity: str) -> LeaderElector:
    return LeaderElector(
        client,
        Key(namespace, "server"),
        identity,
        times=LeaseTimes(duration=8, renew_deadline=6, retry_period=0.2),
    )


@asynccontextmanager
async def running(candidate: LeaderElector) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(candidate.run())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


async def leading(candidate: LeaderElector) -> bool:
    async with asyncio.timeout(PATIENCE_SECONDS):
        await candidate.wait_until_leading()
    return candidate.is_leading


async def holder(client: KubeClient, namespace: str) -> str:
    lease = await client.get(LEASES, "server", namespace)
    return str(lease["spec"]["holderIdentity"])


async def test_leadership_passes_on_after_a_death_and_after_a_stop(
    client: KubeClient, namespace: str
) -> None:
    first, second, third = (elector(client, namespace, name) for name in ("first", "second", "third"))
    async with running(first) as killed:
        assert await leading(first)
        async with running(second) as stopped:
            assert not second.is_leading
            killed.cancel()  # as a dead process: the lease is not given back
            assert await leading(second)
            assert await holder(client, namespace) == "second"
            second.stop()
            await stopped
    assert await holder(client, namespace) == ""
    async with running(third):
        assert await leading(third)
    lease = await client.get(LEASES, "server", namespace)
    assert lease["spec"]["leaseTransitions"] == 2


class LateClock(BootClock):
    """The time of day of eight years ago."""

    def now(self) -> datetime:
        return super().now() - timedelta(days=3000)


async def test_the_api_server_notes_each_renewal_by_its_own_clock(client: KubeClient, namespace: str) -> None:
    """By that a candidate knows that a lease expired long ago, whatever the holder's clock said."""
    first = LeaderElector(
        client,
        Key(namespace, "server"),
        "first",
        times=LeaseTimes(duration=8, renew_deadline=6, retry_period=0.2),
        clock=LateClock(),
    )
    async with running(first):
        assert await leading(first)
        begun = written_at(await client.get(LEASES, "server", namespace))
        assert begun is not None
        assert abs(begun - SYSTEM_CLOCK.now()) < timedelta(minutes=1)

        async def is_noted() -> bool:
            noted = written_at(await client.get(LEASES, "server", namespace))
            return noted is not None and noted > begun

        await eventually(is_noted, timeout_seconds=30)


async def test_of_many_that_begin_together_one_wins(client: KubeClient, namespace: str) -> None:
    candidates = [elector(client, namespace, f"candidate-{number}") for number in range(8)]
    tasks = [asyncio.create_task(candidate.run()) for candidate in candidates]
    waits = [asyncio.create_task(candidate.wait_until_leading()) for candidate in candidates]
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)

        async def everyone_has_looked() -> bool:
            return all(candidate.leader for candidate in candidates)

        await eventually(everyone_has_looked)
        leaders = [candidate.identity for candidate in candidates if candidate.is_leading]
        assert leaders == [await holder(client, namespace)]
        assert {candidate.leader for candidate in candidates} == set(leaders)
    finally:
        for task in (*tasks, *waits):
            task.cancel()
        await asyncio.wait((*tasks, *waits))
