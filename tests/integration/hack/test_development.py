"""`python -m hack.cluster`: a cluster that runs on after the command that started it."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster import binaries, development
from hack.cluster.nodes import requirements as node_requirements

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> Iterator[Command]:
    """Run a command with a state folder of its own, but with the programs that are built already."""
    assets = tmp_path / "assets"
    assets.mkdir()
    programs = [*binaries.CONTROL_PLANE, *binaries.S3_SERVER]
    if node_requirements.why_impossible() is None:
        programs += binaries.NODE
    for name, program in binaries.locate(programs).items():
        (assets / name).symlink_to(program)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    monkeypatch.setenv("PINNACE_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [sys.executable, "-m", "hack.cluster", *arguments]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=200, check=False, cwd=pytestconfig.rootpath
        )

    yield run
    run("down")


def ended(pidfd: int, *, within_seconds: float = 20) -> bool:
    return bool(select.select([pidfd], [], [], within_seconds)[0])


@pytest.mark.cluster
@pytest.mark.store
def test_a_development_cluster_starts_serves_and_stops(command: Command, tmp_path: Path) -> None:
    assert command("status").returncode == 1
    assert command("down").stdout == "no development cluster was running\n"

    started = command("up")
    assert started.returncode == 0, started.stderr
    kubeconfig = tmp_path / "cache" / "dev-cluster" / "cluster" / "kubeconfig"
    assert f"export KUBECONFIG={kubeconfig}\n" in started.stdout
    state = development.status()
    assert state is not None
    assert command("up").stdout == started.stdout, "a second time is harmless"
    assert all(size_bytes > 2**20 for size_bytes in development.memory_bytes(state).values())
    assert "runs without a node; stop it first" in command("up", "--node").stderr
    assert command("serve").stderr.startswith("[cluster] a development cluster runs already")

    descriptors = [os.pidfd_open(pid) for pid in (state.supervisor, *state.processes.values())]
    assert command("down").stdout == "development cluster stopped\n"
    assert all(ended(descriptor, within_seconds=0) for descriptor in descriptors)
    assert not kubeconfig.exists()
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.cluster
@pytest.mark.store
def test_servers_end_with_a_killed_supervisor(command: Command) -> None:
    assert command("up").returncode == 0
    state = development.status()
    assert state is not None
    descriptors = [os.pidfd_open(pid) for pid in state.processes.values()]

    os.kill(state.supervisor, signal.SIGKILL)

    assert all(ended(descriptor) for descriptor in descriptors)
    assert development.status() is None
    assert command("status").returncode == 1
    for descriptor in descriptors:
        os.close(descriptor)


@pytest.mark.cluster
@pytest.mark.node
@pytest.mark.store
def test_a_development_cluster_with_a_node_runs_pods(command: Command) -> None:
    if reason := node_requirements.why_impossible():
        pytest.skip(reason)
    started = command("up", "--node")
    assert started.returncode == 0, started.stderr
    assert "export NO_PROXY=" in started.stdout

    state = development.status()
    assert state is not None
    assert state.nodes == ["pinnace-dev-1"]
    assert "Nodes       pinnace-dev-1\n" in command("status").stdout
    assert development.memory_bytes(state)["pinnace-dev-1/kubelet"] > 10 * 2**20, "not that of nsenter"
    assert command("up").stdout == started.stdout, "a second time is harmless, and nothing is taken away"
    descriptors = [os.pidfd_open(pid) for pid in state.processes.values()]

    assert command("down").returncode == 0

    assert all(ended(descriptor, within_seconds=0) for descriptor in descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
