"""A cluster with a node leaves nothing on the machine, whether it is stopped or killed."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from hack.cluster.nodes import cgroups
from hack.cluster.nodes import network as node_network
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.init import KERNEL_PARAMETERS
from hack.cluster.nodes.node import Node
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PODS, SERVICE_ACCOUNTS
from tests.support.cluster.connect import Connect
from tests.support.cluster.pods import busybox_pod, run_pod

END_SECONDS = 120.0
# Prints the network's name, the node's first process and every child, then waits to be killed.
RUN_A_CLUSTER = """
import sys, time
from pathlib import Path
from hack.cluster.nodes.cluster import NodeCluster
with NodeCluster(Path(sys.argv[1]), name="doomed") as cluster:
    pids = [cluster.nodes[0].pid, *(process.pid for process in cluster.processes.values())]
    print(cluster.network.name, *pids, flush=True)
    time.sleep(600)  # killed
"""


@contextmanager
def watched(pids: list[int]) -> Iterator[list[int]]:
    """Descriptors of processes, which cannot be confused with later ones of the same number."""
    descriptors = [os.pidfd_open(pid) for pid in pids]
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def ended(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], END_SECONDS)[0])


def processes_of(node: Node) -> list[int]:
    """Programs and shims, which share the node's process namespace, and the containers below them."""
    namespace = os.readlink(f"/proc/{node.pid}/ns/pid")
    found: set[int] = set()
    for process in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in found or os.readlink(process / "ns/pid") == namespace:
                found.add(int(process.name))
        except OSError:  # it has ended since
            continue
    return sorted(found)


def interfaces(network: str) -> list[str]:
    names = os.listdir("/sys/class/net")
    return [name for name in names if name == network or name.startswith(f"{network}n")]


def mounts() -> str:
    return Path("/proc/self/mounts").read_text()


def kernel_parameters() -> dict[str, str]:
    return {name: Path("/proc/sys", name).read_text() for name in KERNEL_PARAMETERS}


async def start_a_pod(client: KubeClient) -> None:
    await client.create(
        SERVICE_ACCOUNTS,
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "pod"}},
        "default",
    )
    await run_pod(client, "default", busybox_pod("running", serviceAccountName="pod"))


@pytest.mark.usefixtures("node_cluster")  # two clusters side by side
async def test_nothing_is_left_after_a_stop(tmp_path: Path, connect: Connect) -> None:
    before = kernel_parameters()
    with ExitStack() as stack:
        cluster = stack.enter_context(NodeCluster(tmp_path / "cluster", name="brief"))
        network = cluster.network.name
        client = await connect(cluster.control_plane)
        await start_a_pod(client)
        inside = processes_of(cluster.nodes[0])
        assert len(inside) >= 6, "init, containerd, kubelet, shim, sandbox, container"
        assert interfaces(network)
        assert cgroups.groups(f"{network}-*")
        assert (await client.get(PODS, "running", "default"))["status"]["phase"] == "Running"
        with watched(inside) as descriptors:
            stack.close()
            assert all(map(ended, descriptors))

    assert interfaces(network) == []
    assert cgroups.groups(f"{network}-*") == []
    assert str(tmp_path) not in mounts()
    assert kernel_parameters() == before


@pytest.mark.usefixtures("node_cluster")
def test_nothing_is_left_after_a_kill(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """The kernel ends every process; what it keeps goes with the next start (here: its first step)."""
    with subprocess.Popen(
        [sys.executable, "-c", RUN_A_CLUSTER, str(tmp_path / "cluster")],
        stdout=subprocess.PIPE,
        text=True,
        cwd=pytestconfig.rootpath,
    ) as run:
        assert run.stdout is not None
        network, *pids = run.stdout.readline().split()
        with watched([int(pid) for pid in pids]) as descriptors:
            os.kill(run.pid, signal.SIGKILL)

            assert all(map(ended, descriptors))

    node_network.clean_up()
    assert interfaces(network) == []
    assert cgroups.groups(f"{network}-*") == []
    assert str(tmp_path) not in mounts()


def test_clean_up_spares_what_runs(node_cluster: NodeCluster) -> None:
    node_network.clean_up()

    assert len(interfaces(node_cluster.network.name)) >= 2
    assert node_cluster.control_plane.get("/readyz")[0] == 200
