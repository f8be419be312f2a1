"""The progress of a restore, and when it is published."""

import asyncio

from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import Conflict
from pinnace.restore.progress import PassCounts, ProgressReporter
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.restore.world import (
    Harness,
    Numbers,
    configmap,
    obj,
)


class StepTimer(FakeClock):
    """Each sleep lasts until the test lets it end."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.asked: list[float] = []
        self._gate = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asked.append(seconds)
        await self._gate.wait()
        self._gate.clear()

    async def step(self) -> None:
        self._gate.set()
        await settled()


async def test_it_is_published_once_a_second_and_only_when_new() -> None:
    progress, numbers, timer = PassCounts(), Numbers(), StepTimer()
    reporter = ProgressReporter(progress, numbers, RunLog(None, fields={}), timer)
    task = asyncio.create_task(reporter.run())
    await asyncio.sleep(0)
    progress.begin_pass(10)

    await timer.step()
    assert numbers.published == []

    for restored in (1, 2, 3):
        progress.item_done(restored)
    await timer.step()
    await timer.step()
    progress.item_done(5)
    await timer.step()

    assert numbers.published == [(10, 3), (11, 5)]
    assert set(timer.asked) == {1.0}
    task.cancel()
    await asyncio.wait([task])


async def test_a_refused_patch_is_logged_and_tried_again() -> None:
    class Refusing(Numbers):
        async def publish(self, total_items: int, items_restored: int) -> None:
            if not self.published:
                self.published.append((0, 0))
                raise Conflict(409, message="modified")
            await super().publish(total_items, items_restored)

    numbers, log = Refusing(), RunLog(None, fields={})
    reporter = ProgressReporter(PassCounts(), numbers, log, StepTimer())

    await reporter.publish(2, 1)
    await reporter.publish(2, 1)
    await reporter.publish(2, 1)

    assert log.warnings == 1
    assert numbers.published == [(0, 0), (2, 1)]


def test_the_estimate_is_what_is_done_and_what_is_to_come() -> None:
    progress = PassCounts()
    progress.begin_pass(10)
    progress.item_done(3)
    assert progress.total == 12
    progress.begin_pass(1)
    progress.item_done(4)
    assert progress.total == 4


async def test_at_the_end_both_numbers_are_the_restored_set(harness: Harness) -> None:
    complete = obj("Pod", "done", "ns-1", status={"phase": "Succeeded"})

    await harness.restore(configmap("a"), configmap("b"), complete)

    assert harness.numbers.published[-1] == (3, 3), "two ConfigMaps and a namespace"
