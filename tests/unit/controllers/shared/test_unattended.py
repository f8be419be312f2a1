"""Volumes that wait for a node without an agent."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.controllers.shared.unattended import LOOK_SECONDS, PREPARING_SECONDS, Unattended
from pinnace.kube.errors import ConnectionFailed
from pinnace.kube.resources import POD_VOLUME_RESTORES
from tests.support.clock import LeapingClock
from tests.unit.controllers.fakes import World, fail_always

MARKS = {"name": "node-agent"}
READY = {"conditions": [{"type": "Ready", "status": "True"}]}


class Scene:
    """A restore with one order for the node `n1`."""

    def __init__(self, folder: Path) -> None:
        self.clock = LeapingClock()
        self.world = World(folder, self.clock)
        self.cluster = self.world.cluster
        self.unattended = Unattended(self.world.scope, POD_VOLUME_RESTORES)
        self.cluster.add("podvolumerestores", "r", spec={"volume": "data"}, status={})

    def add_daemon_set(self) -> None:
        self.cluster.add("daemonsets", "node-agent", spec={"selector": {"matchLabels": MARKS}})

    def add_agent(self, node: str, **status: Any) -> None:
        spec = {"nodeName": node}
        self.cluster.add("pods", f"agent-{node}", labels=MARKS, spec=spec, status=status or READY)

    async def look(self, *, later: float = 0.0) -> JSONObject:
        self.clock.time += later
        await self.unattended.look([(self.cluster.stored("podvolumerestores", "r"), "n1")])
        return self.cluster.status("podvolumerestores", "r")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_a_pod_volume_that_an_agent_will_take_is_left_alone(scene: Scene) -> None:
    scene.add_daemon_set()
    scene.add_agent("n1")

    assert await scene.look() == {}
    assert await scene.look(later=PREPARING_SECONDS * 2) == {}


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (None, "no node agent runs on the node n1: the DaemonSet velero/node-agent has no pod there"),
        ({"phase": "Running"}, "the node agent on the node n1 is not ready: see the pod velero/agent-n1"),
    ],
    ids=["no pod", "not ready"],
)
async def test_a_missing_agent_is_reported_at_once_and_fails_the_pod_volume_in_the_end(
    scene: Scene, agent: JSONObject | None, reason: str
) -> None:
    scene.add_daemon_set()
    scene.add_agent("n2")
    if agent is not None:
        scene.add_agent("n1", **agent)

    status = await scene.look()
    assert status["message"].startswith(reason)
    assert "phase" not in status

    status = await scene.look(later=PREPARING_SECONDS)
    assert status["phase"] == "Failed"
    assert status["message"].startswith(f"no node agent took it up within 30 minutes: {reason}")
    assert status["completionTimestamp"]


async def test_an_installation_without_node_agents_is_reported(scene: Scene) -> None:
    status = await scene.look()

    assert status["message"].endswith(
        " has no DaemonSet node-agent: install it (`pinnace install`, with --use-node-agent)"
    )


async def test_the_time_of_an_agent_that_came_back_counts_anew(scene: Scene) -> None:
    scene.add_daemon_set()
    await scene.look()
    scene.add_agent("n1")
    await scene.look(later=LOOK_SECONDS)
    scene.cluster.vanish("pods", "agent-n1")

    status = await scene.look(later=PREPARING_SECONDS)

    assert "phase" not in status


async def test_a_pod_volume_whose_agent_does_not_come_back_fails_in_the_end(scene: Scene) -> None:
    scene.add_daemon_set()
    scene.cluster.stored("podvolumerestores", "r")["status"] = {"phase": "InProgress"}
    reason = "no node agent runs on the node n1: the DaemonSet velero/node-agent has no pod there"

    assert (await scene.look())["message"].startswith(reason)
    status = await scene.look(later=PREPARING_SECONDS)

    assert status["phase"] == "Failed"
    assert status["message"].startswith(f"no node agent went on with it within 30 minutes: {reason}")


@pytest.mark.parametrize("phase", ["InProgress", "Completed"])
async def test_a_pod_volume_is_left_to_agents_that_no_daemon_set_runs(scene: Scene, phase: str) -> None:
    scene.cluster.stored("podvolumerestores", "r")["status"] = {"phase": phase}

    assert await scene.look() == {"phase": phase}
    assert await scene.look(later=PREPARING_SECONDS) == {"phase": phase}


async def test_errors_of_the_api_server_are_passed_over(scene: Scene) -> None:
    error = ConnectionFailed("no route")
    scene.cluster.before = fail_always("get", "daemonsets", error=error)

    assert await scene.look() == {}
