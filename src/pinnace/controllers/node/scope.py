"""The scope that all controllers of a node agent get: cluster, node, metrics."""

import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.kube.client import KubeClient
from pinnace.volumes.pods.mounts import is_mount_point

Direction = Literal["upload", "download"]


class NodeMetrics(Protocol):
    """The counters of a node agent. (docs/spec: PVL 14, SRV 8.2)"""

    def backup_enqueued(self) -> None: ...

    def backup_dequeued(self) -> None: ...

    def data_moved(self, direction: Direction, phase: str) -> None: ...

    def pod_volume_operation(self, operation: str, backup: str, pod_volume: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class AgentName:
    """The name of one agent.

    Attributes:
        pod: of its pod, or of the machine if it runs in none.
        process: distinguishes it from the earlier processes of the same pod.
    """

    pod: str
    process: str

    @classmethod
    def of_this_process(cls) -> "AgentName":
        """A name that no other process has: a pod has its name for a host name."""
        return cls(socket.gethostname(), secrets.token_hex(4))

    def __str__(self) -> str:
        return f"{self.pod}/{self.process}"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScope:
    """The environment of the controllers of one node agent.

    Attributes:
        namespace: the server's; objects elsewhere are not touched.
        node: the name of the node of this agent.
        pods_directory: where the kubelet's directory of pods is mounted.
        agent: written into the objects that the agent works on.
        is_mount_point: whether a directory of this node is the root of a mount; raises OSError.
    """

    client: KubeClient
    namespace: str
    node: str
    pods_directory: Path
    metrics: NodeMetrics
    clock: Clock = SYSTEM_CLOCK
    agent: AgentName = field(default_factory=AgentName.of_this_process)
    is_mount_point: Callable[[Path], bool] = is_mount_point
