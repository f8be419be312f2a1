"""Parts of a node that need no node: addresses, configuration, control groups, requirements, the relay."""

import asyncio
import itertools
import os
import socket
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

import pytest
import yaml

from hack.cluster.errors import ClusterError, ProgramUnavailable
from hack.cluster.locks import claim_name
from hack.cluster.nodes import cgroups
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.cluster import RELAY
from hack.cluster.nodes.config import NodeConfig
from hack.cluster.nodes.network import MAXIMUM_NODES, SLOTS, TEST_NETWORK, ClusterNetwork
from hack.cluster.processes import ManagedProcess, free_port, run_command

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux only")


def network(slot: int) -> ClusterNetwork:
    network = ClusterNetwork()
    network.slot = slot
    return network


@pytest.mark.parametrize("slot", [0, len(SLOTS) - 1])
def test_address_ranges_do_not_overlap(slot: int) -> None:
    one = network(slot)
    nodes = IPv4Network(f"{one.gateway}/24", strict=False)
    pods = [IPv4Network(one.pod_range(number)) for number in range(1, MAXIMUM_NODES + 1)]
    ranges = [nodes, *pods, IPv4Network(one.service_range)]

    assert all(part.subnet_of(one.range) and part.subnet_of(TEST_NETWORK) for part in ranges)
    assert not any(first.overlaps(second) for first, second in itertools.combinations(ranges, 2))
    addresses = [one.gateway, *(one.node_address(number) for number in range(1, MAXIMUM_NODES + 1))]
    assert len(set(addresses)) == len(addresses)
    assert all(IPv4Address(address) in nodes for address in addresses)
    assert IPv4Address(one.service_address) == IPv4Network(one.service_range)[1]


def test_slots_have_networks_and_interface_names_of_their_own() -> None:
    assert not any(first.overlaps(second) for first, second in itertools.combinations(SLOTS, 2))
    longest = f"{network(len(SLOTS) - 1).name}n{MAXIMUM_NODES}"
    assert len(longest) <= 15, "the kernel takes no longer name"


def test_configuration_names_what_differs() -> None:
    config = NodeConfig(
        name="one-1",
        address="198.18.0.2",
        pod_range="198.18.1.0/24",
        cgroup="pinnace0-1",
        cni_directory=Path("/usr/lib/cni"),
    )

    files = config.files()

    kubelet = yaml.safe_load(files["kubelet.yaml"])
    assert (kubelet["address"], kubelet["cgroupRoot"]) == ("198.18.0.2", "/pinnace0-1")
    assert "198.18.1.0/24" in files["cni/pods.conflist"]
    assert 'bin_dir = "/usr/lib/cni"' in files["containerd.toml"]
    assert {"--hostname-override=one-1", "--node-ip=198.18.0.2"} < set(config.kubelet_argv())


def test_hierarchies_of_both_versions_are_found() -> None:
    mounts = """\
proc /proc proc rw 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
"""
    assert cgroups.hierarchies(mounts) == [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/unified")]


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for a hierarchy of version 2 as its root appears."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    (tmp_path / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [tmp_path])
    return tmp_path


def test_group_is_made_with_controllers_and_removed_with_all_below(hierarchy: Path) -> None:
    cgroups.create("pinnace0-1")
    cgroups.create("pinnace0-1")
    (hierarchy / "pinnace0-1/kubepods/pod1").mkdir(parents=True)
    (hierarchy / "pinnace10-1").mkdir()

    cgroups.remove("pinnace0-*")

    assert (hierarchy / "cgroup.subtree_control").read_text() in ("+memory", "+pids")
    assert [path.name for path in hierarchy.iterdir() if path.is_dir()] == ["pinnace10-1"]


def test_group_in_use_is_an_error(hierarchy: Path) -> None:
    (hierarchy / "pinnace0-1/busy").mkdir(parents=True)
    (hierarchy / "pinnace0-1/busy/process").write_text("")  # stands for a process: rmdir fails

    with pytest.raises(ClusterError, match=r"still in use: .*pinnace0-1"):
        cgroups.remove("pinnace0-*", timeout_seconds=0)


@linux
def test_claimed_name_is_free_again_once_closed() -> None:
    name = f"pinnace-test-{os.getpid()}"
    claim = claim_name(name)
    assert claim is not None
    assert claim_name(name) is None

    claim.close()
    again = claim_name(name)

    assert again is not None
    again.close()


def test_missing_programs_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_requirements, "why_impossible", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(node_requirements, "CNI_DIRECTORIES", ("/nonexistent",))

    with pytest.raises(ProgramUnavailable, match="apt-get install busybox-static containerd container"):
        node_requirements.require()


def test_nodes_need_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(sys, "platform", "linux")

    assert "root" in (node_requirements.why_impossible() or "")
    with pytest.raises(ClusterError, match="root"):
        node_requirements.require()


@linux
def test_a_machine_without_namespaces_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> str:
        raise ClusterError("unshare failed: Operation not permitted")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: name)
    monkeypatch.setattr(node_requirements, "run_command", refused)

    assert "Operation not permitted" in (node_requirements.why_impossible() or "")


def test_command_that_fails_is_quoted() -> None:
    assert run_command(["sh", "-c", "echo said"], timeout_seconds=10) == "said\n"
    with pytest.raises(ClusterError, match="why not"):
        run_command(["sh", "-c", "echo why not >&2; exit 1"], timeout_seconds=10)
    with pytest.raises(ClusterError, match="did not end within"):
        run_command(["sleep", "60"], timeout_seconds=0.05)
    with pytest.raises(ProgramUnavailable, match="`no-such-program` is not in PATH"):
        run_command(["no-such-program"], timeout_seconds=10)


def relay(tmp_path: Path, target_port: int) -> tuple[ManagedProcess, int]:
    port = free_port()
    addresses = ("127.0.0.1", str(port), "127.0.0.1", str(target_port))
    argv = [sys.executable, "-I", "-S", str(RELAY), *addresses]
    process = ManagedProcess("relay", argv, log=tmp_path / "relay.log")

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    process.wait_ready(listens, timeout_seconds=20)
    return process, port


async def test_the_relay_passes_bytes_both_ways_until_both_sides_have_ended(tmp_path: Path) -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())  # not before the client has closed its side
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(shout, "127.0.0.1", 0) as server:
        process, port = await asyncio.to_thread(relay, tmp_path, server.sockets[0].getsockname()[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"said" * 100_000)
        writer.write_eof()
        answer = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        await writer.wait_closed()
        process.stop()

    assert answer == b"SAID" * 100_000


async def test_a_relay_without_listener_ends_the_connection(tmp_path: Path) -> None:
    process, port = await asyncio.to_thread(relay, tmp_path, free_port())
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    assert await asyncio.wait_for(reader.read(), 20) == b""

    writer.close()
    await writer.wait_closed()
    process.stop()
