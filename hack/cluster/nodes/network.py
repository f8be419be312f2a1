"""The network of a cluster with nodes: a bridge on the machine, a veth pair a node, and routes.

One cluster takes one slot, a /20 of 198.18.0.0/15, which is reserved for test networks (RFC 2544) and so
hardly used elsewhere. Of slot 0:

    198.18.0.0/24    the nodes; .1 is this machine, where the servers for pods listen
    198.18.1.0/24    the pods of node 1, up to 198.18.14.0/24 for node 14
    198.18.15.0/24   services; .1 is `kubernetes.default`, an address of this machine too

So pods reach the API server by its service address without kube-proxy and without a packet filter: a relay
listens there (relay.py), and the API server itself stays on loopback. There is no default route and no
address translation: no packet of a pod gets out of here.

Slots are claimed by a name that the kernel takes back with the process. What a killed run left (a bridge,
control groups) is removed by the next one that claims a slot.
"""

import contextlib
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path

from hack.cluster.errors import ClusterError
from hack.cluster.locks import claim_name
from hack.cluster.nodes import cgroups
from hack.cluster.processes import run_command

TEST_NETWORK = IPv4Network("198.18.0.0/15")
SLOTS = tuple(TEST_NETWORK.subnets(new_prefix=20))
MAXIMUM_NODES = 14
COMMAND_TIMEOUT_SECONDS = 60.0


class ClusterNetwork:
    """One slot and its bridge, from `open()` to `close()`.

    Node numbers count from 1 and are the caller's to choose.
    """

    def __init__(self) -> None:
        self.slot = -1
        self._claim: socket.socket | None = None
        self._nodes: dict[int, int] = {}

    @property
    def name(self) -> str:
        """Name of the bridge, and first part of every other name here."""
        return _bridge(self.slot)

    @property
    def range(self) -> IPv4Network:
        """Everything of this cluster."""
        return SLOTS[self.slot]

    @property
    def gateway(self) -> str:
        """This machine's address for nodes and pods; an S3 server, for example, can listen on it."""
        return str(self._subnet(0)[1])

    @property
    def service_range(self) -> str:
        """The range of services' addresses."""
        return str(self._subnet(MAXIMUM_NODES + 1))

    @property
    def service_address(self) -> str:
        """The first address for services, always `kubernetes.default`."""
        return str(self._subnet(MAXIMUM_NODES + 1)[1])

    def node_address(self, number: int) -> str:
        """A node's own address."""
        return str(self._subnet(0)[1 + number])

    def pod_range(self, number: int) -> str:
        """The range of addresses of a node's pods."""
        return str(self._subnet(number))

    def open(self) -> None:
        """Claim a slot, clean up after dead runs, and make the bridge.

        Raises:
            ClusterError: no slot is free, or this machine has no bridges; nothing is left then.
        """
        self.slot, self._claim = _claim_slot()
        try:
            _ip("link", "add", "name", self.name, "type", "bridge")
            _ip("address", "add", f"{self.gateway}/24", "dev", self.name)
            _ip("address", "add", f"{self.service_address}/32", "dev", self.name)
            _ip("link", "set", self.name, "up")
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove what was made and give the slot back. Idempotent; the nodes must have ended."""
        if self._claim is None:
            return
        _sweep(self.slot)
        self._claim.close()
        self._claim = None
        self._nodes.clear()

    def attach(self, number: int, pid: int) -> None:
        """Connect the network namespace of a process as a node.

        The pair goes away with the namespace, by itself.
        """
        host_end = f"{self.name}n{number}"
        address = self.node_address(number)
        _ip("link", "add", host_end, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        _ip("link", "set", host_end, "master", self.name, "up")
        _ip("link", "set", "lo", "up", inside=pid)
        _ip("address", "add", f"{address}/24", "dev", "eth0", inside=pid)
        _ip("link", "set", "eth0", "up", inside=pid)
        _ip("route", "add", str(self.range), "via", self.gateway, inside=pid)
        _ip("route", "replace", self.pod_range(number), "via", address, "dev", self.name)
        for other, other_pid in self._nodes.items():
            _ip("route", "replace", self.pod_range(other), "via", self.node_address(other), inside=pid)
            _ip("route", "replace", self.pod_range(number), "via", address, inside=other_pid)
        self._nodes[number] = pid

    def detach(self, number: int) -> None:
        """Forget a node whose namespace has ended. Idempotent."""
        self._nodes.pop(number, None)
        _delete_links([f"{self.name}n{number}"])

    def _subnet(self, index: int) -> IPv4Network:
        first = IPv4Address(int(self.range.network_address) + 256 * index)
        return IPv4Network(f"{first}/24")


def _claim_slot() -> tuple[int, socket.socket]:
    """Claim the first free slot, and clean up all other slots that are free."""
    claimed: tuple[int, socket.socket] | None = None
    for slot in range(len(SLOTS)):
        claim = claim_name(f"pinnace-cluster-slot-{slot}")
        if claim is None:
            continue
        try:
            _sweep(slot)
        except BaseException:
            claim.close()
            raise
        if claimed is None:
            claimed = slot, claim
        else:
            claim.close()
    if claimed is None:
        raise ClusterError(f"all {len(SLOTS)} networks for clusters with nodes are in use on this machine")
    return claimed


def clean_up() -> None:
    """Remove what clusters left whose processes were killed; those that run are not touched."""
    _claim_slot()[1].close()


def _sweep(slot: int) -> None:
    """Remove every interface and control group of a slot."""
    name = _bridge(slot)
    interfaces = Path("/sys/class/net")
    _delete_links([path.name for path in [*interfaces.glob(f"{name}n*"), *interfaces.glob(name)]])
    cgroups.remove(f"{name}-*")


def _delete_links(names: Sequence[str]) -> None:
    for name in names:
        # It may go away with its namespace at any moment.
        with contextlib.suppress(ClusterError):
            _ip("link", "delete", name)


def _bridge(slot: int) -> str:
    return f"pinnace{slot}"


def _ip(*arguments: str, inside: int | None = None) -> None:
    # Not `ip netns exec`, which mounts another /sys and so hides the control groups.
    enter = ["nsenter", f"--net=/proc/{inside}/ns/net"] if inside else []
    run_command([*enter, "ip", *arguments], timeout_seconds=COMMAND_TIMEOUT_SECONDS)
