"""How many volumes of a node are worked on at once."""

import asyncio
from pathlib import Path

import pytest

from pinnace.controllers.node import pod_volume_backup, pod_volume_restore
from pinnace.controllers.node.parts import Limits
from tests.support.tasks import settled
from tests.unit.controllers.fakes import key
from tests.unit.controllers.node.world import NodeWorld

HELPER = {"initContainers": [{"name": "restic-wait"}], "volumes": [{"name": "data", "emptyDir": {}}]}
WAITING = {"initContainerStatuses": [{"name": "restic-wait", "state": {"running": {}}}]}


@pytest.fixture
def world(tmp_path: Path) -> NodeWorld:
    """A pod whose volume is to be saved and to be filled."""
    made = NodeWorld(tmp_path)
    made.add_pod(spec=HELPER, status=WAITING)
    made.volume()
    made.add_backup()
    made.add_restore()
    made.restic.until = asyncio.Event()
    return made


def phases(world: NodeWorld) -> tuple[str, str]:
    found = (
        world.cluster.status(kind, name)
        for kind, name in (("podvolumebackups", "pvb"), ("podvolumerestores", "pvr"))
    )
    saved, restored = (status.get("phase", "") for status in found)
    return saved, restored


@pytest.mark.parametrize(
    ("limits", "meanwhile"),
    [(Limits.together(1), ("InProgress", "")), (Limits.of(1, 1), ("InProgress", "InProgress"))],
    ids=["one number for both", "a number for each"],
)
async def test_a_volume_waits_as_new_until_a_slot_is_free(
    world: NodeWorld, limits: Limits, meanwhile: tuple[str, str]
) -> None:
    saving = pod_volume_backup.new_reconciler(world.scope, world.backups, limits.saving)
    restoring = pod_volume_restore.new_reconciler(world.scope, world.restores, limits.restoring)
    assert world.restic.until is not None
    async with asyncio.TaskGroup() as group:
        group.create_task(saving.reconcile(key("pvb")))
        await world.restic.working.wait()
        group.create_task(restoring.reconcile(key("pvr")))
        await settled()
        assert phases(world) == meanwhile
        world.restic.until.set()

    assert phases(world) == ("Completed", "Completed")


async def test_a_volume_that_is_canceled_while_it_waits_is_not_begun(world: NodeWorld) -> None:
    slots = asyncio.Semaphore(1)
    saving = pod_volume_backup.new_reconciler(world.scope, world.backups, slots)
    async with asyncio.TaskGroup() as group:
        await slots.acquire()
        group.create_task(saving.reconcile(key("pvb")))
        await settled()
        obj = world.cluster.stored("podvolumebackups", "pvb")
        obj["spec"]["cancel"] = True
        obj["metadata"]["resourceVersion"] = "999"
        slots.release()

    assert phases(world)[0] == "Canceled"
    assert world.restic.calls == []
