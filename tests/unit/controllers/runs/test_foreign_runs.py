"""Backups and Restores in phases of later Velero servers: left alone, then ended."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.controllers.foreign_runs import GRACE_SECONDS, ForeignRuns
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import BACKUPS, RESTORES
from tests.unit.controllers.fakes import Cached, World, fail_always, fail_once

VELERO = {"command": ["/velero"], "args": ["server", "--features="]}
OURS = {"command": ["pinnace"], "args": ["server"]}
UPLOADER = {"command": ["/velero"], "args": ["node-agent", "run"]}


class Scene:
    def __init__(self, world: World) -> None:
        self.world = world
        self.runs = ForeignRuns(
            world.scope,
            backups=Cached(world, BACKUPS),
            restores=Cached(world, RESTORES),
        )

    def pod(self, container: dict[str, Any], phase: str = "Running") -> None:
        self.world.cluster.add("pods", "server", spec={"containers": [container]}, status={"phase": phase})

    async def wait(self, seconds: float) -> None:
        self.world.clock.turn(seconds)
        await self.runs.resync()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(World(tmp_path))


@pytest.mark.parametrize(
    ("plural", "phase", "ended"),
    [
        ("backups", "WaitingForPluginOperations", "PartiallyFailed"),
        ("backups", "FinalizingPartiallyFailed", "PartiallyFailed"),
        ("restores", "WaitingForPluginOperationsPartiallyFailed", "PartiallyFailed"),
        ("restores", "Finalizing", "PartiallyFailed"),
    ],
)
@pytest.mark.parametrize("pod", [None, OURS, UPLOADER], ids=["no pod", "our server", "a node agent"])
async def test_an_object_that_no_velero_server_continues_with_is_ended_after_an_hour(
    scene: Scene, plural: str, phase: str, ended: str, pod: dict[str, Any] | None
) -> None:
    if pod:
        scene.pod(pod)
    scene.world.cluster.add(plural, "left", status={"phase": phase})
    await scene.runs.resync()
    await scene.wait(GRACE_SECONDS - 1)
    assert scene.world.cluster.status(plural, "left") == {"phase": phase}
    await scene.wait(1)
    status = scene.world.cluster.status(plural, "left")
    assert status["phase"] == ended
    assert f"left in phase {phase} by a Velero server of a later version" in status["failureReason"]
    assert status["completionTimestamp"] == "2021-08-11T22:43:26Z"


async def test_an_object_that_this_server_waits_for_is_left_alone(scene: Scene) -> None:
    scene.world.cluster.add("backups", "ours", status={"phase": "WaitingForPluginOperations"})
    stored = scene.world.cluster.stored("backups", "ours")
    stored["metadata"]["annotations"] = {ITEM_OPERATIONS: "a-digest"}

    await scene.runs.resync()
    await scene.wait(10 * GRACE_SECONDS)

    assert scene.world.cluster.writes() == []


async def test_nothing_is_ended_while_a_velero_server_runs(scene: Scene) -> None:
    scene.pod(VELERO)
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing"})
    await scene.runs.resync()
    await scene.wait(10 * GRACE_SECONDS)
    assert scene.world.cluster.writes() == []
    scene.pod(VELERO, phase="Succeeded")
    await scene.wait(60)
    assert scene.world.cluster.status("backups", "left")["phase"] == "PartiallyFailed"


async def test_a_change_of_the_object_begins_the_hour_anew(scene: Scene) -> None:
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing", "errors": 2})
    await scene.runs.resync()
    await scene.wait(GRACE_SECONDS - 1)
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing", "errors": 1})
    await scene.wait(1)
    await scene.wait(GRACE_SECONDS - 1)
    assert scene.world.cluster.writes() == []
    await scene.wait(1)
    assert scene.world.cluster.status("backups", "left")["phase"] == "PartiallyFailed"


async def test_where_pods_may_not_be_read_nothing_is_ended(scene: Scene) -> None:
    denied = Forbidden(403, reason="Forbidden", message="you may not")
    scene.world.cluster.before = fail_always("list", "pods", error=denied)
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing"})
    await scene.runs.resync()
    await scene.wait(GRACE_SECONDS)
    assert scene.world.cluster.writes() == []


async def test_an_object_that_changes_at_the_last_moment_is_left_alone(scene: Scene) -> None:
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing"})
    await scene.runs.resync()

    def change(verb: str, *_: str) -> None:
        if verb == "patch":
            scene.world.cluster.add("backups", "left", status={"phase": "InProgress"})

    scene.world.cluster.before = change
    await scene.wait(GRACE_SECONDS)
    assert scene.world.cluster.status("backups", "left") == {"phase": "InProgress"}


@pytest.mark.parametrize(
    "phase", ["", "New", "Queued", "ReadyToStart", "InProgress", "Completed", "Deleting"]
)
async def test_objects_in_other_phases_are_left_alone(scene: Scene, phase: str) -> None:
    scene.world.cluster.before = fail_once("list", "pods")
    scene.world.cluster.add("backups", "b", status={"phase": phase})
    await scene.runs.resync()
    await scene.wait(GRACE_SECONDS)
    assert scene.world.cluster.calls == []


async def test_a_foreign_object_is_logged_once(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.world.cluster.add("backups", "left", status={"phase": "Finalizing"})
    for _ in range(3):
        await scene.wait(60)
    told = [each for each in caplog.messages if "a phase of a Velero server of a later version" in each]
    assert len(told) == 1
