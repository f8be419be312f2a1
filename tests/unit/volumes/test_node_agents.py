"""Where node agents run."""

import pytest

from pinnace.doctor.server import read_agents
from pinnace.notices.codes import Code
from pinnace.volumes.agent_settings import named_in
from pinnace.volumes.node_agents import ROLE, NodeAgents
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE

MARKS = {"name": "restic"}


@pytest.fixture
def cluster() -> ScriptedCluster:
    """An installation as those before Velero 1.10, whose only agent is being deleted."""
    made = ScriptedCluster()
    made.add("daemonsets", "restic", spec={"selector": {"matchLabels": MARKS}})
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    pod = made.add("pods", "agent", labels=MARKS, spec={"nodeName": "n1"}, status=status)
    pod["metadata"]["deletionTimestamp"] = "2021-08-11T21:43:26Z"
    return made


async def test_an_agent_that_is_being_deleted_does_not_count(cluster: ScriptedCluster) -> None:
    agents = NodeAgents(cluster.client, NAMESPACE)

    assert "see the pod velero/agent of the DaemonSet velero/restic" in await agents.why_none_on("n1")

    del cluster.stored("pods", "agent")["metadata"]["deletionTimestamp"]
    assert await agents.why_none_on("n1") == ""
    assert "has no pod there" in await agents.why_none_on("n2")


async def test_a_fresh_answer_is_reused(cluster: ScriptedCluster) -> None:
    agents = NodeAgents(cluster.client, NAMESPACE, fresh_seconds=3600.0)
    first = await agents.why_none_on("n1")
    asked = len(cluster.calls)

    assert await agents.why_none_on("n1") == first
    assert len(cluster.calls) == asked


async def test_without_a_daemon_set_an_agent_that_has_worked_is_not_missed() -> None:
    agents = NodeAgents(ScriptedCluster().client, NAMESPACE)

    assert await agents.why_none_on("n1", has_worked=True) == ""
    assert "no DaemonSet node-agent" in await agents.why_none_on("n1")


@pytest.mark.spec("AFT-118")
async def test_some_agent_must_be_ready_wherever_it_is(cluster: ScriptedCluster) -> None:
    agents = NodeAgents(cluster.client, NAMESPACE)
    agent = cluster.stored("pods", "agent")

    assert await agents.why_none() == "none of the pods of the DaemonSet velero/restic is ready"

    del agent["metadata"]["deletionTimestamp"]
    assert await agents.why_none() is None
    agent["metadata"]["labels"] = {}
    found = await agents.why_none()
    assert found is not None
    assert found.code is Code.AGENTS_MISSING
    assert "DaemonSet velero/restic has no pod on any node" in found


@pytest.mark.spec("AFT-118")
async def test_agents_without_a_daemon_set_are_found_by_the_label_of_their_pods() -> None:
    cluster = ScriptedCluster()
    agents = NodeAgents(cluster.client, NAMESPACE)

    found = await agents.why_none()
    assert found is not None
    assert found.code is Code.AGENTS_NOT_INSTALLED

    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    pod = cluster.add("pods", "agent", labels=ROLE, spec={"nodeName": "n1"}, status=status)
    assert await agents.why_none() is None
    assert await agents.why_none_on("n1") == ""

    pod["status"] = {}
    found = await agents.why_none()
    assert found is not None
    assert "node agents in the namespace velero" in found
    assert "see the pod velero/agent" in await agents.why_none_on("n1", has_worked=True)

    expression = {"key": "role", "operator": "In", "values": ["node-agent"]}
    cluster.add("daemonsets", "node-agent", spec={"selector": {"matchExpressions": [expression]}})
    cluster.add("pods", "server", status=status)
    assert await agents.why_none() == "none of the pods of the DaemonSet velero/node-agent is ready"


async def test_the_doctor_and_a_backup_look_for_the_same_agents(cluster: ScriptedCluster) -> None:
    for name, unschedulable in (("n1", False), ("n2", False), ("n3", True)):
        cluster.add("nodes", name, namespace="", spec={"unschedulable": unschedulable})

    facts = await read_agents(cluster.client, NAMESPACE)
    assert (facts.are_installed, facts.nodes, facts.with_agent) == (True, ["n1", "n2"], set())

    del cluster.stored("pods", "agent")["metadata"]["deletionTimestamp"]
    assert (await read_agents(cluster.client, NAMESPACE)).with_agent == {"n1"}
    assert not (await read_agents(ScriptedCluster().client, NAMESPACE)).are_installed


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["node-agent", "server", "--node-agent-configmap=a"], "a"),
        (["--node-agent-configmap", "a", "--log-level=debug"], "a"),
        (["--node-agent-configmap"], ""),
        (["node-agent", "server", "--node-agent-configmaps=a"], ""),
    ],
)
def test_the_config_map_is_named_in_the_arguments(arguments: list[str], name: str) -> None:
    assert named_in(arguments) == name
