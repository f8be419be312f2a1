"""Order of start and stop, grace period, failures of parts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import ConnectionFailed
from pinnace.kube.resources import CONFIGMAPS, APIResource
from pinnace.runtime.controller import DONE, Controller, Result, Resync
from pinnace.runtime.errors import CacheSyncTimeout, GracePeriodExceeded, LeadershipLost
from pinnace.runtime.informer import Informer, InformerTimes
from pinnace.runtime.keys import Key
from pinnace.runtime.leader import LeaderElector, LeaseTimes
from pinnace.runtime.manager import Health, Manager, ManagerPhase
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.runtime.fakes import FakeLeases, ScriptedClient, config_map, page

LEASE = Key("velero", "server")


class Service:
    """Notes its start and its end."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note = note

    async def run(self) -> None:
        self.note("service starts")
        try:
            await asyncio.Event().wait()
        finally:
            self.note("service ends")


def phase_of(manager: Manager) -> ManagerPhase:
    return manager.phase


def health_of(manager: Manager) -> Health:
    return manager.health


@asynccontextmanager
async def running(manager: Manager, stop: asyncio.Event) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(manager.run(stop))
    try:
        await settled()
        yield task
    finally:
        task.cancel()
        await asyncio.wait((task,))


def new_informer(clock: FakeClock, client: ScriptedClient | None = None) -> Informer:
    scripted = client or ScriptedClient(lists=[[page(10, config_map("a", 1))]])
    return Informer(scripted.as_client(), CONFIGMAPS, "demo", times=InformerTimes(clock=clock))


def new_elector(leases: FakeLeases, identity: str, clock: FakeClock) -> LeaderElector:
    return LeaderElector(
        leases.client().as_client(), LEASE, identity, clock=clock, times=LeaseTimes(jitter=lambda: 0.0)
    )


async def test_parts_start_and_stop_in_order() -> None:
    clock = FakeClock()
    notes: list[str] = []
    stop = asyncio.Event()
    leases = FakeLeases()
    client = ScriptedClient(lists=[[page(10, config_map("a", 1))]])
    informer = new_informer(clock, client)
    informer.add_handlers(on_add=lambda _obj: notes.append("cache filled"))

    async def prepare() -> None:
        notes.append(f"prepares, synced={informer.synced}")

    gate = asyncio.Event()

    async def reconcile(key: Key) -> Result:
        notes.append(f"reconciles {key}")
        await gate.wait()
        watching, holder = client.open_watches, leases.holder
        notes.append(f"ends work, watches={watching}, lease={holder}")
        return DONE

    manager = Manager(elector=new_elector(leases, "me", clock))
    manager.add_service("probe", Service(notes.append))
    manager.add_informer(informer)
    manager.add_preparation("orphans", prepare)
    controller = Controller("test", reconcile, clock=clock)
    controller.watch(informer)
    manager.add_controller(controller)
    async with running(manager, stop) as task:
        assert health_of(manager).ready
        assert phase_of(manager) is ManagerPhase.RUNNING
        stop.set()
        await settled()
        assert phase_of(manager) is ManagerPhase.STOPPING
        assert not health_of(manager).ready
        gate.set()
        await task
    assert notes == [
        "service starts",
        "cache filled",
        "prepares, synced=True",
        "reconciles demo/a",
        "ends work, watches=1, lease=me",
        "service ends",
    ]
    assert leases.holder == ""
    assert client.open_watches == 0
    assert phase_of(manager) is ManagerPhase.STOPPED


async def test_standby_is_ready_and_touches_nothing() -> None:
    clock = FakeClock()
    leases = FakeLeases()
    client = ScriptedClient()
    stop = asyncio.Event()
    other = asyncio.create_task(new_elector(leases, "other", clock).run())
    await settled()
    manager = Manager(elector=new_elector(leases, "me", clock))
    manager.add_informer(new_informer(clock, client))
    async with running(manager, stop) as task:
        assert phase_of(manager) is ManagerPhase.STANDBY
        assert health_of(manager).ready
        assert client.calls == []
        stop.set()
        await task
    assert leases.holder == "other"
    other.cancel()
    await asyncio.wait((other,))


async def test_work_that_outlasts_the_grace_period_is_cancelled() -> None:
    clock = FakeClock()
    stop = asyncio.Event()
    ended: list[str] = []

    async def reconcile(key: Key) -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(str(key))
        return DONE

    controller = Controller("slow", reconcile, clock=clock)
    controller.enqueue(Key("demo", "a"))
    quick = Controller("quick", resync=Resync(_nothing, 30), clock=clock)
    manager = Manager(grace_period_seconds=0)
    manager.add_controller(controller)
    manager.add_controller(quick)
    async with running(manager, stop) as task:
        stop.set()
        with pytest.raises(GracePeriodExceeded, match="slow"):
            await task
    assert ended == ["demo/a"]


async def _nothing() -> None:
    return None


async def test_loss_of_leadership_cancels_everything_at_once() -> None:
    clock = FakeClock()
    leases = FakeLeases()
    interrupted: list[str] = []
    notes: list[str] = []

    async def reconcile(key: Key) -> Result:
        try:
            await asyncio.Event().wait()
        finally:
            interrupted.append(str(key))
        return DONE

    client = leases.client()
    elector = LeaderElector(
        client.as_client(), LEASE, "me", clock=clock, times=LeaseTimes(jitter=lambda: 0.0)
    )
    manager = Manager(elector=elector)
    manager.add_service("probe", Service(notes.append))
    controller = Controller("test", reconcile, clock=clock)
    controller.enqueue(Key("demo", "a"))
    manager.add_controller(controller)
    async with running(manager, asyncio.Event()) as task:
        client.down = ConnectionFailed("unreachable")
        await clock.advance(51)
        with pytest.raises(LeadershipLost):
            await task
    assert interrupted == ["demo/a"]
    assert notes == ["service starts", "service ends"]


@pytest.mark.found("L3")
async def test_a_lost_lease_is_told_alone_though_other_parts_fail_with_it() -> None:
    clock, leases, endings = FakeClock(), FakeLeases(), []

    class Broken:
        async def run(self) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                raise ValueError("cannot clean up")

    client = leases.client()
    elector = LeaderElector(
        client.as_client(), LEASE, "me", clock=clock, times=LeaseTimes(jitter=lambda: 0.0)
    )
    manager = Manager(elector=elector)
    manager.add_service("probe", Broken())
    task = asyncio.create_task(manager.run(asyncio.Event(), on_ending=lambda: endings.append(clock.time)))
    await settled()
    assert endings == []
    client.down = ConnectionFailed("unreachable")
    await clock.advance(51)
    with pytest.raises(LeadershipLost):
        await task
    assert len(endings) == 1


async def test_a_defect_beside_an_expected_failure_is_told_as_one() -> None:
    class Failing:
        def __init__(self, error: Exception) -> None:
            self.error = error

        async def run(self) -> None:
            raise self.error

    manager = Manager()
    manager.add_service("a", Failing(ConnectionFailed("unreachable")))
    manager.add_service("b", Failing(ValueError("odd")))
    with pytest.raises(BaseExceptionGroup):
        await manager.run(asyncio.Event())

    manager = Manager()
    manager.add_service("a", Failing(ConnectionFailed("first")))
    manager.add_service("b", Failing(OSError("second")))
    with pytest.raises(ConnectionFailed, match="first"):
        await manager.run(asyncio.Event())


async def test_a_lease_that_expired_without_a_timer_running_makes_the_process_unhealthy() -> None:
    clock = FakeClock()
    manager = Manager(elector=new_elector(FakeLeases(), "me", clock))
    async with running(manager, asyncio.Event()):
        assert health_of(manager).live
        clock.time += 60  # the process was frozen: no timer ran
        assert not health_of(manager).live
        assert health_of(manager).detail == "the lease ran out"


async def test_caches_that_do_not_sync_end_the_start() -> None:
    manager = Manager(sync_timeout_seconds=0)
    manager.add_informer(new_informer(FakeClock(), ScriptedClient()))
    with pytest.raises(CacheSyncTimeout, match="configmaps"):
        await manager.run(asyncio.Event())


async def test_a_preparation_that_fails_ends_the_start_with_its_error() -> None:
    async def prepare() -> None:
        raise ConnectionFailed("cannot fail the orphans")

    started: list[str] = []

    async def resync() -> None:
        started.append("controller")

    manager = Manager()
    manager.add_preparation("orphans", prepare)
    manager.add_controller(Controller("test", resync=Resync(resync, 1), clock=FakeClock()))
    with pytest.raises(ConnectionFailed, match="cannot fail the orphans"):
        await manager.run(asyncio.Event())
    assert started == []
    assert phase_of(manager) is ManagerPhase.STOPPED


async def test_a_start_that_fails_releases_the_lease() -> None:
    async def prepare() -> None:
        raise ValueError("the settings are wrong")

    leases = FakeLeases()
    manager = Manager(elector=new_elector(leases, "me", FakeClock()))
    manager.add_preparation("settings", prepare)

    with pytest.raises(ValueError, match="the settings are wrong"):
        await manager.run(asyncio.Event())

    assert leases.writes == 2
    assert leases.holder == ""


async def test_a_stop_during_start_ends_it() -> None:
    stop = asyncio.Event()
    manager = Manager()
    manager.add_informer(new_informer(FakeClock(), ScriptedClient()))
    async with running(manager, stop) as task:
        assert phase_of(manager) is ManagerPhase.SYNCING
        assert not health_of(manager).ready
        stop.set()
        await task


@pytest.mark.parametrize("is_taking", [False, True], ids=["leading", "taking the lease"])
async def test_a_service_that_fails_ends_everything_and_leaves_no_lease(is_taking: bool) -> None:
    """A server that cannot start keeps no other from leading."""
    gate, clock, leases = asyncio.Event(), FakeClock(), FakeLeases()
    client = leases.client()
    create = client.create

    async def unanswered(resource: APIResource, body: JSONObject, namespace: str | None = None) -> JSONObject:
        created = await create(resource, body, namespace)
        if is_taking:
            await asyncio.Event().wait()
        return created

    class Broken:
        async def run(self) -> None:
            await gate.wait()
            raise OSError("address in use")

    async def prepare() -> None:
        await asyncio.Event().wait()

    client.create = unanswered  # type: ignore[method-assign]
    elector = LeaderElector(client.as_client(), LEASE, "me", clock=clock)
    manager = Manager(elector=elector)
    manager.add_service("metrics", Broken())
    manager.add_preparation("orphans", prepare)
    task = asyncio.create_task(manager.run(asyncio.Event()))
    await settled()
    assert (leases.holder, elector.is_leading) == ("me", not is_taking)
    gate.set()
    with pytest.raises(OSError, match="address in use"):
        await task
    assert leases.holder == ""
