"""The Prometheus metrics of a node agent, under Velero's names. (docs/spec: SRV 8.2, PVL 14)"""

from collections import deque
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Gauge,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

from pinnace.server.monitoring.metrics import DURATION_BUCKETS_SECONDS, exposition

KEPT_OPERATIONS: Final = 200
"""Each has a dozen series of its own. Those of the oldest are dropped, so that an agent can run for years."""

_COUNTERS = {
    "restic_pod_volume_backup_enqueue_count": "Total number of pod volume backups put into the queue",
    "restic_pod_volume_backup_dequeue_count": "Total number of pod volume backups taken from the queue",
}
"""Gauges to the client library, which would add `_total` to the name of a counter."""

_OPERATION_LABELS = ["node", "operation", "backupName", "pod_volume_backup"]


class NodeAgentMetrics:
    """All metrics of the agent of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._registry = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._registry)
        self._enqueued, self._dequeued = (
            Gauge(name, text, ["node"], registry=self._registry).labels(node)
            for name, text in _COUNTERS.items()
        )
        self._latency = Histogram(
            "restic_restic_operation_latency_seconds",
            "Time taken to complete restic operations, in seconds",
            _OPERATION_LABELS,
            buckets=DURATION_BUCKETS_SECONDS,
            registry=self._registry,
        )
        self._latency_gauge = Gauge(
            "restic_restic_operation_latency_seconds_gauge",
            "Time taken to complete the last restic operation of its kind, in seconds",
            _OPERATION_LABELS,
            registry=self._registry,
        )
        self._operations: deque[tuple[str, ...]] = deque()

    def exposition(self) -> bytes:
        """The text for `/metrics`."""
        text = exposition(self._registry)
        for name in _COUNTERS:
            text = text.replace(b"# TYPE %b gauge\n" % name.encode(), b"# TYPE %b counter\n" % name.encode())
        return text

    def backup_enqueued(self) -> None:
        """A new PodVolumeBackup of this node was put into the queue."""
        self._enqueued.inc()

    def backup_dequeued(self) -> None:
        """A PodVolumeBackup of this node ended, in whatever way."""
        self._dequeued.inc()

    def restic_operation(self, operation: str, backup: str, pod_volume: str, seconds: float) -> None:
        """Count a Completed PodVolumeBackup; whole seconds are recorded."""
        of_it = (self._node, operation, backup, pod_volume)
        if of_it not in self._operations:
            self._operations.append(of_it)
        self._latency.labels(*of_it).observe(int(seconds))
        self._latency_gauge.labels(*of_it).set(int(seconds))
        if len(self._operations) > KEPT_OPERATIONS:
            oldest = self._operations.popleft()
            self._latency.remove(*oldest)
            self._latency_gauge.remove(*oldest)
