"""The generic controller: retries, resync, stop."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import CONFIGMAPS
from pinnace.runtime.controller import CHANGED, DONE, USUAL_CONFLICTS, Controller, Result, Resync
from pinnace.runtime.errors import CacheSyncTimeout
from pinnace.runtime.informer import Informer, InformerTimes
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import RateLimitedQueue
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.runtime.fakes import ScriptedClient, config_map, event, page

KEY = Key("demo", "a")


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    try:
        await settled()
        yield task
    finally:
        controller.stop()
        await settled()
        task.cancel()
        await asyncio.wait((task,))


class Scripted:
    """A reconcile function that fails as often as told and keeps the times of its calls."""

    def __init__(self, clock: FakeClock, failures: int = 0) -> None:
        self.clock = clock
        self.failures = failures
        self.times: list[float] = []

    async def __call__(self, key: Key) -> Result:
        self.times.append(self.clock.time)
        if self.failures:
            self.failures -= 1
            raise ValueError("something about this object is strange")
        return DONE

    @property
    def waits(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.times, self.times[1:], strict=False)]


@pytest.mark.spec("CTL-001")
async def test_failures_are_retried_with_growing_delays_and_success_forgets_them(
    fake_clock: FakeClock,
) -> None:
    reconcile = Scripted(fake_clock, failures=3)
    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller):
        controller.enqueue(KEY)
        await fake_clock.advance(1)
        assert reconcile.waits == pytest.approx([0.005, 0.010, 0.020])
        reconcile.times.clear()
        reconcile.failures = 1
        controller.enqueue(KEY)
        await fake_clock.advance(1)
        assert reconcile.waits == pytest.approx([0.005])


@pytest.mark.spec("CTL-001")
async def test_the_nineteenth_failure_and_later_wait_a_thousand_seconds(fake_clock: FakeClock) -> None:
    reconcile = Scripted(fake_clock, failures=21)
    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller):
        controller.enqueue(KEY)
        await fake_clock.advance(6000)
        assert reconcile.waits[16:20] == pytest.approx([327.68, 655.36, 1000, 1000])


@pytest.mark.spec("CTL-002")
async def test_a_key_is_handled_once_however_often_it_was_added(fake_clock: FakeClock) -> None:
    gate = asyncio.Event()
    handled: list[Key] = []

    async def reconcile(key: Key) -> Result:
        handled.append(key)
        await gate.wait()
        return DONE

    controller = Controller("test", reconcile, workers=3, clock=fake_clock)
    for _ in range(5):
        controller.enqueue(KEY)
    async with running(controller):
        assert handled == [KEY]
        for _ in range(3):  # while being handled, with two workers idle
            controller.enqueue(KEY)
        await settled()
        assert handled == [KEY]
        gate.set()
        await settled()
        assert handled == [KEY, KEY]


@pytest.mark.spec("CTL-003")
async def test_resync_runs_at_start_and_one_period_after_its_end(fake_clock: FakeClock) -> None:
    began: list[float] = []
    start = fake_clock.time

    async def resync() -> None:
        began.append(fake_clock.time - start)
        if len(began) == 2:
            raise OSError("the second run fails, after a while")
        done = asyncio.Event()
        fake_clock.call_later(45, done.set)  # longer than the period
        await done.wait()

    controller = Controller("test", resync=Resync(resync, 30), clock=fake_clock)
    async with running(controller):
        assert began == [0]
        await fake_clock.advance(200)
        assert began == [0, 75, 105, 180]


async def test_result_can_ask_for_another_look(fake_clock: FakeClock) -> None:
    times: list[float] = []

    async def reconcile(key: Key) -> Result:
        times.append(fake_clock.time)
        return Result.after(60) if len(times) < 3 else DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller):
        controller.enqueue(KEY)
        await fake_clock.advance(1000)
    assert [time - times[0] for time in times] == [0, 60, 120]


async def test_error_is_logged_once_with_controller_and_key(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    controller = Controller("test", Scripted(fake_clock, failures=1), clock=fake_clock)
    async with running(controller):
        controller.enqueue(KEY)
        await fake_clock.advance(1)
    (record,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    fields = record.__dict__["fields"]
    assert (fields["controller"], fields["key"]) == ("test", "demo/a")
    assert str(fields["error"]) == "something about this object is strange"


async def test_cancellation_from_inside_a_reconcile_does_not_end_the_worker(fake_clock: FakeClock) -> None:
    calls = 0

    async def reconcile(key: Key) -> Result:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise asyncio.CancelledError
        return DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller):
        controller.enqueue(KEY)
        await fake_clock.advance(1)
        assert calls == 2


async def test_stop_ends_work_in_flight_and_starts_nothing_more(fake_clock: FakeClock) -> None:
    gate = asyncio.Event()
    ended: list[Key] = []

    async def reconcile(key: Key) -> Result:
        await gate.wait()
        ended.append(key)
        return DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller) as task:
        controller.enqueue(KEY)
        controller.enqueue(Key("demo", "waits"))
        await settled()
        controller.stop()
        await settled()
        assert not task.done()
        gate.set()
        await task
    assert ended == [KEY]


async def test_cancelling_interrupts_work_in_flight(fake_clock: FakeClock) -> None:
    interrupted = False

    async def reconcile(key: Key) -> Result:
        nonlocal interrupted
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            interrupted = True
            raise
        return DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller) as task:
        controller.enqueue(KEY)
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert interrupted


async def test_watch_maps_and_filters_changes(fake_clock: FakeClock) -> None:
    client = ScriptedClient(
        lists=[[page(10, config_map("a", 1), config_map("ignored", 2))]],
        watches=[[event("DELETED", config_map("a", 11)), event("MODIFIED", config_map("ignored", 12))]],
    )
    informer = Informer(client.as_client(), CONFIGMAPS, "demo", times=InformerTimes(clock=fake_clock))
    reconcile_keys: list[Key] = []

    async def reconcile(key: Key) -> Result:
        reconcile_keys.append(key)
        return DONE

    def waiting_for(obj: JSONObject) -> list[Key]:
        return [Key("other", f"waits-for-{obj['metadata']['name']}")]

    controller = Controller("test", reconcile, clock=fake_clock)
    controller.watch(
        informer,
        keys=waiting_for,
        predicate=lambda obj: obj["metadata"]["name"] != "ignored",
        on_add=False,
        on_delete=True,
    )
    following = asyncio.create_task(informer.run())
    async with running(controller):
        assert reconcile_keys == [Key("other", "waits-for-a")]
    following.cancel()
    await asyncio.wait((following,))


async def test_caches_that_do_not_sync_end_the_controller(fake_clock: FakeClock) -> None:
    informer = Informer(ScriptedClient().as_client(), CONFIGMAPS, times=InformerTimes(clock=fake_clock))
    controller = Controller("test", Scripted(fake_clock), clock=fake_clock)
    controller.wait_for(informer)
    with pytest.raises(CacheSyncTimeout, match="configmaps"):
        await controller.run(sync_timeout_seconds=0)


async def _nothing() -> None:
    return None


async def test_impossible_settings_are_refused(fake_clock: FakeClock) -> None:
    with pytest.raises(ValueError, match="needs a reconcile or a resync function"):
        Controller("test")
    with pytest.raises(ValueError, match="needs a period"):
        Controller("test", resync=Resync(_nothing, 0))
    with pytest.raises(ValueError, match="at least one worker"):
        Controller("test", Scripted(fake_clock), workers=0)


async def test_keys_added_to_a_queue_that_was_given_are_looked_at(fake_clock: FakeClock) -> None:
    """An empty queue is false; taken for none at all, it would never be read."""
    queue: RateLimitedQueue[Key] = RateLimitedQueue(clock=fake_clock)
    reconcile = Scripted(fake_clock)
    async with running(Controller("test", reconcile, clock=fake_clock, queue=queue)):
        queue.add(KEY)
        await settled()
        assert len(reconcile.times) == 1


@pytest.mark.found("K-F4", "L3")
async def test_a_cancellation_that_became_another_error_ends_the_worker(fake_clock: FakeClock) -> None:
    async def reconcile(key: Key) -> Result:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("<Future cancelled> is not in deque") from None
        return DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    async with running(controller) as task:
        controller.enqueue(KEY)
        await settled()
        task.cancel()
        await settled()
        assert task.cancelled()


async def test_conflicts_without_end_are_tried_less_and_less_often_with_a_warning(
    fake_clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    """A server that answers 409 to every patch was asked as fast as it answered, without a word."""
    times: list[float] = []

    async def reconcile(_: Key) -> Result:
        times.append(fake_clock.time)
        return CHANGED if len(times) < USUAL_CONFLICTS + 3 else DONE

    controller = Controller("test", reconcile, clock=fake_clock)
    controller.enqueue(KEY)
    async with running(controller):
        await fake_clock.advance(0.004)
        assert len(times) == 1
        await fake_clock.advance(1000.0)

    assert times[-1] - times[-2] > 1.0
    assert len(times) == USUAL_CONFLICTS + 3
    assert [each.getMessage()[:45] for each in caplog.records if each.levelno == logging.WARNING] == [
        "The API server refuses each write with a conf"
    ] * 2
