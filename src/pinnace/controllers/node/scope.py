"""What the controllers of a node agent are given: the cluster, its node, metrics to count in."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from pinnace.api.values.times import utcnow
from pinnace.kube.client import KubeClient


class NodeMetrics(Protocol):
    """The counters of a node agent. (docs/spec: PVL 14, SRV 8.2)"""

    def backup_enqueued(self) -> None: ...

    def backup_dequeued(self) -> None: ...

    def restic_operation(self, operation: str, backup: str, pod_volume: str, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeScope:
    """What the controllers of one node agent share.

    Attributes:
        namespace: the server's; objects elsewhere are not ours.
        node: the name of our node.
        pods_directory: where the kubelet's directory of pods is mounted.
    """

    client: KubeClient
    namespace: str
    node: str
    pods_directory: Path
    metrics: NodeMetrics
    clock: Callable[[], datetime] = utcnow
