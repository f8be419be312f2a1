"""The Prometheus metrics of a node agent, under Velero's names. (docs/spec: SRV 8.2, PVL 14)"""

from collections import deque
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from pinnace.server.monitoring.metrics import DURATION_BUCKETS_SECONDS, exposition

KEPT_OPERATIONS: Final = 200
"""How many volumes have series of their own, a dozen each. Those of older volumes are dropped."""

_COUNTERS = {
    f"{prefix}_pod_volume_backup_{name}_count": f"Total number of pod volume backups {text} the queue"
    for prefix in ("restic", "podVolume")
    for name, text in (("enqueue", "put into"), ("dequeue", "taken from"))
}
"""Gauges to the client library, which would add `_total` to the name of a counter."""

_MOVEMENTS: Final = {"Completed": "success", "Failed": "failure", "Canceled": "cancel"}
"""The end of the counter's name, by the last phase of a transfer. (docs/spec: BEY 10.3)"""

_OPERATIONS: Final = ("restic_restic_operation", "podVolume_pod_volume_operation")
"""The name before Velero 1.10, and the name since. (docs/spec: BEY 10.3)"""

_OPERATION_LABELS = ["node", "operation", "backupName", "pod_volume_backup"]


class NodeAgentMetrics:
    """All metrics of the agent of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self.registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self.registry)
        self._counts = {
            name: Gauge(name, text, ["node"], registry=self.registry).labels(node)
            for name, text in _COUNTERS.items()
        }
        self._latencies = [
            Histogram(
                f"{name}_latency_seconds",
                "Time taken to save a pod volume, in seconds",
                _OPERATION_LABELS,
                buckets=DURATION_BUCKETS_SECONDS,
                registry=self.registry,
            )
            for name in _OPERATIONS
        ]
        self._latency_gauges = [
            Gauge(
                f"{name}_latency_seconds_gauge",
                "Time taken to save the last pod volume of its kind, in seconds",
                _OPERATION_LABELS,
                registry=self.registry,
            )
            for name in _OPERATIONS
        ]
        self._moved = {
            (direction, phase): Counter(
                f"podVolume_data_{direction}_{name}",
                f"Total number of {kind} that ended {phase}",
                ["node"],
                registry=self.registry,
            ).labels(node)
            for direction, kind in (("upload", "DataUploads"), ("download", "DataDownloads"))
            for phase, name in _MOVEMENTS.items()
        }
        self._operations: deque[tuple[str, ...]] = deque()

    def exposition(self) -> bytes:
        """The text for `/metrics`."""
        text = exposition(self.registry)
        for name in _COUNTERS:
            text = text.replace(b"# TYPE %b gauge\n" % name.encode(), b"# TYPE %b counter\n" % name.encode())
        return text

    def backup_enqueued(self) -> None:
        """Count a new PodVolumeBackup of this node, which was put into the queue."""
        self._count("enqueue")

    def backup_dequeued(self) -> None:
        """Count a PodVolumeBackup of this node that ended, in any phase."""
        self._count("dequeue")

    def data_moved(self, direction: str, phase: str) -> None:
        """Count a DataUpload or DataDownload of this node that ended in a phase."""
        if counter := self._moved.get((direction, phase)):
            counter.inc()

    def pod_volume_operation(self, operation: str, backup: str, pod_volume: str, seconds: float) -> None:
        """Record how long a Completed PodVolumeBackup took, in whole seconds."""
        labels = (self._node, operation, backup, pod_volume)
        if labels not in self._operations:
            self._operations.append(labels)
        for latency in self._latencies:
            latency.labels(*labels).observe(int(seconds))
        for gauge in self._latency_gauges:
            gauge.labels(*labels).set(int(seconds))
        if len(self._operations) > KEPT_OPERATIONS:
            oldest = self._operations.popleft()
            for metric in (*self._latencies, *self._latency_gauges):
                metric.remove(*oldest)

    def _count(self, name: str) -> None:
        for full_name, count in self._counts.items():
            if full_name.endswith(f"_{name}_count"):
                count.inc()
