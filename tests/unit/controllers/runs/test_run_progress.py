"""What a run says of itself in its status: what, when, and where the definition drops it."""

import asyncio
from typing import Any

import pytest

from pinnace.api.codec import decode
from pinnace.api.velero.backup import Backup
from pinnace.controllers.run_progress import FIRST_SECONDS, MOST, QUIET_SECONDS, RunProgress, shown
from pinnace.kube.resources import BACKUPS
from pinnace.runs.activity import Activity, Reading
from tests.support.clock import FakeClock
from tests.support.tasks import settled
from tests.unit.controllers.fakes import BROKEN, World, fail_once


@pytest.fixture
def progress(world: World, clock: FakeClock) -> RunProgress:
    world.cluster.add("backups", "b1", spec={}, status={"phase": "InProgress"})
    run = decode(Backup, world.cluster.stored("backups", "b1"))
    return RunProgress(world.cluster.client, BACKUPS, run, "itemsBackedUp", clock)


def status(world: World) -> dict[str, Any]:
    return dict(world.cluster.status("backups", "b1"))


async def test_what_the_run_does_is_written_with_its_numbers(world: World, progress: RunProgress) -> None:
    progress.activity.kinds["pods"] = Reading(done=3, total=7, is_final=True)
    progress.activity.hooks.append("shop/db freeze")
    progress.activity.unknown.add("secrets")

    await progress.publish(9, 4)

    assert status(world) == {
        "phase": "InProgress",
        "progress": {"totalItems": 9, "itemsBackedUp": 4},
        "activity": {
            "resources": [{"name": "pods", "itemsDone": 3, "totalItems": 7, "totalIsFinal": True}],
            "hooks": ["shop/db freeze"],
        },
    }


async def test_an_activity_that_has_ended_is_removed_by_the_next_patch(
    world: World, progress: RunProgress
) -> None:
    progress.activity.hooks.append("shop/db freeze")
    await progress.publish(9, 4)
    progress.activity.hooks.clear()
    await progress.publish(9, 5)

    assert status(world)["activity"] == {"totalIsEstimate": True}


async def test_while_no_item_is_processed_changes_are_written_every_few_seconds(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    async with progress:
        await clock.advance(FIRST_SECONDS)
        await progress.publish(9, 4)
        await clock.advance(QUIET_SECONDS)
        assert len(world.cluster.patches) == 1, "nothing has changed"

        progress.activity.upload_bytes, progress.activity.sent_bytes = 100, 30
        progress.activity.collected = 11
        await clock.advance(QUIET_SECONDS / 2)
        assert len(world.cluster.patches) == 1, "it is too early"
        await clock.advance(QUIET_SECONDS / 2)

    assert status(world)["progress"] == {"totalItems": 11, "itemsBackedUp": 11}
    assert status(world)["activity"] == {"totalIsFinal": True, "uploadBytes": 100, "uploadedBytes": 30}
    assert len(world.cluster.patches) == 2


async def test_numbers_of_the_first_second_are_written_only_if_the_run_goes_on(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    async with progress:
        await progress.publish(9, 4)
        await clock.advance(FIRST_SECONDS / 2)
        assert world.cluster.patches == []
        await clock.advance(QUIET_SECONDS)

    assert status(world)["progress"] == {"totalItems": 9, "itemsBackedUp": 4}


async def test_published_numbers_put_the_next_patch_off(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    async with progress:
        await clock.advance(FIRST_SECONDS)
        for done in range(10):
            await progress.publish(9, done)
            progress.activity.sent_bytes += 1
            await clock.advance(1)

    assert len(world.cluster.patches) == 10


async def test_a_patch_that_fails_between_items_is_tried_again(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    world.cluster.before = fail_once("patch", error=BROKEN)
    async with progress:
        progress.activity.hooks.append("shop/db freeze")
        await clock.advance(QUIET_SECONDS)
        assert "activity" not in status(world)
        await clock.advance(QUIET_SECONDS)

    assert status(world)["activity"] == {"hooks": ["shop/db freeze"]}


async def test_where_the_definition_drops_the_activity_only_numbers_are_written(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    patch = world.cluster.client.patch

    async def pruning(*arguments: Any, **named: Any) -> Any:
        stored = await patch(*arguments, **named)
        stored["status"].pop("activity", None)
        return stored

    world.cluster.client.patch = pruning  # type: ignore[method-assign]
    async with progress:
        await progress.publish(9, 4)
        for step in range(5):
            progress.activity.sent_bytes = step
            await clock.advance(QUIET_SECONDS)
        await progress.publish(9, 5)

    assert [patch for _, _, patch in world.cluster.patches][1]["status"] == {
        "progress": {"totalItems": 9, "itemsBackedUp": 5}
    }
    assert len(world.cluster.patches) == 2


async def test_a_patch_in_flight_is_stored_before_the_run_ends(
    world: World, progress: RunProgress, clock: FakeClock
) -> None:
    patch, going, release = world.cluster.client.patch, asyncio.Event(), asyncio.Event()

    async def slow(*arguments: Any, **named: Any) -> Any:
        going.set()
        await release.wait()
        return await patch(*arguments, **named)

    world.cluster.client.patch = slow  # type: ignore[method-assign]

    async def run() -> None:
        async with progress:
            progress.activity.sent_bytes = 1
            await clock.advance(QUIET_SECONDS)
            await going.wait()

    running = asyncio.create_task(run())
    await going.wait()
    await settled()
    assert not running.done()
    release.set()
    await running

    assert len(world.cluster.patches) == 1


def test_a_status_names_only_the_largest_resources_and_the_first_hooks() -> None:
    activity = Activity(kinds={f"kind-{size}": Reading(total=size) for size in range(30)})
    activity.hooks.extend(f"shop/pod-{number}" for number in range(30))
    said = shown(activity, is_counted=False)

    assert [resource.total_items for resource in said.resources] == list(range(29, 29 - MOST, -1))
    assert said.hooks == [f"shop/pod-{number}" for number in range(MOST)]
    assert not said.total_is_final


@pytest.mark.found("K-F4")
async def test_a_cancellation_at_the_end_of_a_run_is_not_swallowed(progress: RunProgress) -> None:
    async def run() -> None:
        async with progress:
            pass

    task = asyncio.create_task(run())
    await asyncio.sleep(0)  # it waits for the ticker to end
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
