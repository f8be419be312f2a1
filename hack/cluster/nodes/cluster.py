"""A cluster that runs pods: a control plane with a scheduler, and nodes.

with NodeCluster(directory) as cluster:
    cluster.control_plane.kubeconfig ...
    second = cluster.add_node()
"""

import shutil
import socket
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane, Options
from hack.cluster.errors import ClusterError
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.images import base_images
from hack.cluster.nodes.network import MAXIMUM_NODES, ClusterNetwork
from hack.cluster.nodes.node import Node
from hack.cluster.processes import ManagedProcess

RELAY = Path(__file__).with_name("relay.py")
API_PORT = 443  # that of the service `kubernetes`
RELAY_TIMEOUT_SECONDS = 60.0


class NodeCluster:
    """One cluster in one folder. A context manager: started on entry, stopped on exit.

    Once stopped it is not started again; a node can be (`Node.stop`, `boot`, `join`).

    Args:
        directory: the cluster's own folder; made if missing.
        name: names the cluster in the kubeconfig, and its nodes: `<name>-1`, `<name>-2`.
        options: of the control plane; the service range and the scheduler are decided here.
    """

    def __init__(self, directory: Path, *, name: str = "pinnace", options: Options | None = None) -> None:
        self.directory = directory.absolute()
        self.name = name
        self.network = ClusterNetwork()
        self._options = options or Options()
        self._plane: ControlPlane | None = None
        self._relay: ManagedProcess | None = None
        self._nodes: list[Node] = []
        self._images: list[Path] = []

    @property
    def control_plane(self) -> ControlPlane:
        """The running control plane."""
        if self._plane is None:
            raise RuntimeError("the cluster was never started")
        return self._plane

    @property
    def nodes(self) -> Sequence[Node]:
        """The nodes in the order of their addition."""
        return tuple(self._nodes)

    @property
    def processes(self) -> dict[str, ManagedProcess]:
        """All running programs; those of a node are called `<node>/<program>`."""
        programs = self.control_plane.processes
        if self._relay is not None:
            programs["relay"] = self._relay
        for node in self._nodes:
            programs |= {f"{node.name}/{name}": process for name, process in node.processes.items()}
        return programs

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Start the control plane and one node, and return when pods can be scheduled.

        Raises:
            ClusterError: nothing is left running then.
        """
        node_requirements.require()
        binaries.locate([*binaries.CONTROL_PLANE, *binaries.NODE])
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            self.network.open()
            self._plane = ControlPlane(
                self.directory / "control-plane", name=self.name, options=self._plane_options()
            )
            self._images.append(base_images(self.directory / "base-images.tar"))
            node = self._new_node()
            self._start_relay()
            # Node and control plane need each other only at the end.
            with ThreadPoolExecutor(max_workers=1, thread_name_prefix="boot") as beside:
                booted = beside.submit(self._boot, node)
                self._plane.start()
                booted.result()
            node.join(self._plane)
        except BaseException:
            self.stop()
            raise

    def add_node(self) -> Node:
        """Start one more node, with all images that the others have, and return when it is usable.

        Raises:
            ClusterError: the cluster is as it was.
        """
        node = self._new_node()
        try:
            self._boot(node)
            node.join(self.control_plane)
        except BaseException:
            self._nodes.remove(node)
            node.remove()
            raise
        return node

    def remove_node(self, node: Node) -> None:
        """End a node and delete its folder. Its Node object and its pods stay, as for a node that died."""
        self._nodes.remove(node)
        node.remove()

    def load(self, archive: Path) -> None:
        """Import the images of an archive (images.py) into every node, also those to come: keep the file."""
        self._images.append(archive)
        for node in self._nodes:
            node.load(archive)

    def stop(self) -> None:
        """End everything: nodes, control plane, network. Idempotent; the folder stays."""
        for node in reversed(self._nodes):
            node.stop()
        if self._relay is not None:
            self._relay.stop(grace_seconds=0)
            self._relay = None
        if self._plane is not None:
            self._plane.stop(grace_seconds=0)
        self.network.close()

    def remove(self) -> None:
        """End everything and delete the folder."""
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _plane_options(self) -> Options:
        return replace(self._options, service_range=self.network.service_range, scheduler=True)

    def _start_relay(self) -> None:
        listen, target = (self.network.service_address, API_PORT), ("127.0.0.1", self.control_plane.port)
        self._relay = ManagedProcess(
            "relay",
            [sys.executable, "-I", "-S", RELAY, *map(str, (*listen, *target))],
            log=self.directory / "logs" / "relay.log",
        )
        self._relay.wait_ready(lambda: _accepts(listen), timeout_seconds=RELAY_TIMEOUT_SECONDS)

    def _new_node(self) -> Node:
        number = max((node.number for node in self._nodes), default=0) + 1
        if number > MAXIMUM_NODES:
            raise ClusterError(f"a cluster has addresses for {MAXIMUM_NODES} nodes")
        name = f"{self.name}-{number}"
        node = Node(self.directory / "nodes" / name, name=name, number=number, network=self.network)
        self._nodes.append(node)
        return node

    def _boot(self, node: Node) -> None:
        node.boot()
        for archive in self._images:
            node.load(archive)


def _accepts(address: tuple[str, int]) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(address) == 0
