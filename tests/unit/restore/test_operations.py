"""Restores whose actions start operations, and items that wait for their additional items."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.restore import Restore
from pinnace.archive.runlog import RunLog
from pinnace.kube.discovery import Discovery
from pinnace.operations.finalizing_restores import finalize_restore
from pinnace.operations.outcome_log import log_outcomes
from pinnace.operations.waiting import Following
from pinnace.plugins.protocols import ResourceIdentifier, RestoreItemOutput
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.additional import AdditionalItems
from tests.support.clock import LeapingClock
from tests.support.plugins.operators import CopyOnRestore, Operations
from tests.support.runs.context import run_context
from tests.unit.restore.stage import Stage
from tests.unit.restore.world import configmap, discovery, world_of

CLAIM = ResourceIdentifier(group="", resource="configmaps", namespace="ns-1", name="a")
GONE = ResourceIdentifier(group="", resource="configmaps", namespace="ns-1", name="gone")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    made = Stage(tmp_path)
    yield made
    await made.store.close()


async def test_a_restore_with_operations_waits_and_then_ends(stage: Stage) -> None:
    operations = Operations()
    stage.plugins = operations.plugins()
    await stage.put_backup(configmap("a"), configmap("b"))

    restore = await stage.restore()

    assert restore.status.phase == RestorePhase.WAITING_FOR_PLUGIN_OPERATIONS
    assert (restore.status.completion_timestamp, restore.status.restore_item_operations_attempted) == (
        None,
        2,
    )
    first = min(await stage.store.read_restore_item_operations("restore-1"), key=str)
    assert first["spec"]["restoreName"] == "restore-1"
    assert first["spec"]["resourceIdentifier"]["Name"] in ("a", "b")
    assert "postOperationItems" not in first["spec"]

    operations.end("op-a")
    operations.end("op-b", error="broken")
    following = Following(store=stage.store, plugins=operations.plugins().operation(), clock=stage.clock)
    restore = await following.restore(restore)

    assert restore.status.phase == RestorePhase.FINALIZING_PARTIALLY_FAILED
    status = (await finalize_restore(stage.world, stage.store, restore, stage.clock.now())).status  # type: ignore[arg-type]
    assert (status.phase, status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    assert (status.restore_item_operations_completed, status.restore_item_operations_failed) == (1, 1)
    assert status.completion_timestamp == stage.clock.now()
    told = (await stage.results())["errors"]["namespaces"]["ns-1"]
    assert told == ["operation op-b for configmaps ns-1/b: broken, plugin: example.io/copy"]


@pytest.mark.found("V19")
@pytest.mark.parametrize("is_changed", [False, True])
async def test_the_log_of_a_restore_says_what_became_of_each_operation(
    stage: Stage, is_changed: bool
) -> None:
    operations = Operations()
    stage.plugins = operations.plugins()
    await stage.put_backup(configmap("a"), configmap("b"))
    restore = await stage.restore()
    before = await stage.log()
    operations.end("op-a")
    operations.end("op-b", error="broken")
    plugins = operations.plugins().operation()
    restore = await Following(store=stage.store, plugins=plugins, clock=stage.clock).restore(restore)
    if is_changed:  # by whoever may write to the bucket
        await stage.store.put_restore_item_operations("restore-1", [])

    context = run_context(stage.store, None, Discovery(()), stage.workdir, clock=stage.clock, plugins=plugins)
    await log_outcomes(context, restore)

    log = await stage.log()
    assert log.startswith(before)
    added = sorted(log.removeprefix(before).splitlines())
    if is_changed:
        assert added == []
    else:
        completed, failed = sorted(added, key=lambda line: "Failed" in line)
        assert 'msg="Item operation Completed"' in completed
        assert "operation=op-a" in completed
        assert 'msg="Item operation Failed"' in failed
        assert "broken" in failed


async def test_operations_of_a_restore_that_failed_are_cancelled(stage: Stage) -> None:
    operations = Operations()
    stage.plugins = operations.plugins()
    await stage.put_backup(configmap("a"))
    stage.fail_reopening = True

    restore = await stage.restore()

    assert restore.status.phase == RestorePhase.FAILED
    assert operations.cancelled == ["op-a"]


class Kinds:
    """What is known of kinds: namespaces keep their names."""

    class Filters:
        def target_namespace(self, namespace: str) -> str:
            return namespace

    discovery = discovery()
    filters = Filters()


async def wait(operations: Operations, timeout: timedelta | None = None) -> tuple[str, float]:
    """Why the additional items are not ready, and the seconds that it took."""
    world = world_of()
    world.put(configmap("a"))
    timer = LeapingClock()
    target = TargetCluster(
        client=world, log=RunLog(None, fields={}), clock=timer, terminating_timeout_seconds=1
    )
    items = AdditionalItems(
        target=target, restore=Restore(metadata=ObjectMeta(name="r")), timeout_seconds=600.0
    )
    output = RestoreItemOutput(
        item={},
        additional_items=[CLAIM, GONE],
        wait_for_additional_items=True,
        additional_items_ready_timeout=timeout,
    )
    action = CopyOnRestore(operations, "pods", waits=True)
    return await items.wait(action, output, Kinds()), timer.time  # type: ignore[arg-type]


@pytest.mark.spec("BEY-051")
async def test_an_item_is_restored_when_its_additional_items_are_ready() -> None:
    operations = Operations()
    asked: list[Sequence[ResourceIdentifier]] = []

    def ready(items: Sequence[ResourceIdentifier]) -> bool:
        asked.append(items)
        return len(asked) == 3

    operations.ready = ready
    assert await wait(operations) == ("", 2.0)
    assert [list(items) for items in asked] == [[CLAIM]] * 3  # only what is in the cluster


@pytest.mark.spec("BEY-051")
@pytest.mark.parametrize(("timeout", "seconds"), [(timedelta(seconds=2), 2.0), (None, 600.0)])
async def test_additional_items_that_are_never_ready_are_an_error(
    timeout: timedelta | None, seconds: float
) -> None:
    operations = Operations()
    operations.ready = lambda items: False

    problem, took = await wait(operations, timeout)

    assert f"were not ready within {seconds:g}s" in problem
    assert took == seconds


@pytest.mark.spec("BEY-051")
async def test_an_item_whose_additional_items_are_not_ready_is_restored_with_an_error(stage: Stage) -> None:
    def broken(items: Sequence[ResourceIdentifier]) -> bool:
        raise ValueError("no idea")

    operations = Operations()
    operations.ready = broken
    stage.plugins = operations.plugins(waits=True)
    await stage.put_backup(configmap("a"))

    restore = await stage.restore()

    assert restore.status.phase == RestorePhase.WAITING_FOR_PLUGIN_OPERATIONS_PARTIALLY_FAILED
    assert restore.status.errors == 1
    assert stage.world.created_of("configmaps") == ["ns-1/a"]
