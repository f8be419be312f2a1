"""The metrics of a node agent."""

import re

import pytest

from pinnace.server.monitoring.node_metrics import KEPT_OPERATIONS, NodeAgentMetrics

ENQUEUED = "restic_pod_volume_backup_enqueue_count"
DEQUEUED = "restic_pod_volume_backup_dequeue_count"
LATENCY = "restic_restic_operation_latency_seconds"


def samples(metrics: NodeAgentMetrics) -> dict[str, float]:
    """Values by name and labels as they stand in the text, without buckets."""
    found = {}
    for line in metrics.exposition().decode().splitlines():
        if line.startswith("restic_") and "le=" not in line:
            name, labels, value = re.fullmatch(r"(\w+)\{(.*)\} (.*)", line).groups()  # type: ignore[union-attr]
            values = sorted(re.findall(r"\"([^\"]*)\"", labels))
            found[f"{name}{values}"] = float(value)
    return found


def test_counters_begin_at_zero_under_their_names() -> None:
    metrics = NodeAgentMetrics("n1")

    assert samples(metrics) == {f"{ENQUEUED}['n1']": 0, f"{DEQUEUED}['n1']": 0}
    text = metrics.exposition().decode()
    for name in (ENQUEUED, DEQUEUED):
        assert f"# TYPE {name} counter\n" in text
    assert "_created" not in text


@pytest.mark.spec("SRV-015")
def test_pod_volume_backups_move_counters_and_latencies() -> None:
    metrics = NodeAgentMetrics("n1")
    metrics.backup_enqueued()
    metrics.backup_enqueued()
    metrics.backup_dequeued()
    metrics.pod_volume_operation("backup", "velero/b1", "b1-x", 90.7)

    found = samples(metrics)
    of_it = "['b1-x', 'backup', 'n1', 'velero/b1']"
    assert found[f"{ENQUEUED}['n1']"] == 2
    assert found[f"{DEQUEUED}['n1']"] == 1
    assert found[f"{LATENCY}_gauge{of_it}"] == 90
    assert found[f"{LATENCY}_sum{of_it}"] == 90
    assert found[f"{LATENCY}_count{of_it}"] == 1
    buckets = metrics.exposition().decode()
    assert 'le="14400"' in buckets
    assert 'le="60"' in buckets


def test_old_operations_are_dropped() -> None:
    metrics = NodeAgentMetrics("n1")
    for number in range(KEPT_OPERATIONS + 3):
        metrics.pod_volume_operation("backup", "velero/b1", f"b1-{number}", 1)

    gauges = [name for name in samples(metrics) if name.startswith(f"{LATENCY}_gauge")]
    assert len(gauges) == KEPT_OPERATIONS
    assert not any("'b1-0'" in name for name in gauges)


def test_each_metric_also_has_the_name_of_later_versions() -> None:
    metrics = NodeAgentMetrics("n1")
    metrics.backup_enqueued()
    metrics.backup_dequeued()
    metrics.pod_volume_operation("backup", "velero/b1", "b1-x", 90.7)

    text = metrics.exposition().decode()
    former, later = (
        sorted(
            line.removeprefix(prefix)
            for line in text.splitlines()
            if line.startswith(prefix) and "_data_" not in line
        )
        for prefix in ("restic_", "podVolume_")
    )
    assert later == sorted(line.replace("restic_operation", "pod_volume_operation") for line in former)
    assert len(later) > 4


@pytest.mark.found("L11")
def test_moved_data_is_counted_by_how_it_ended() -> None:
    metrics = NodeAgentMetrics("n1")
    metrics.data_moved("upload", "Completed")
    metrics.data_moved("upload", "Canceled")
    metrics.data_moved("download", "Failed")
    metrics.data_moved("download", "Failed")
    metrics.data_moved("download", "InProgress")

    found = dict(
        line.rsplit(" ", 1)
        for line in metrics.exposition().decode().splitlines()
        if line.startswith("podVolume_data_")
    )
    assert found == {
        'podVolume_data_upload_success_total{node="n1"}': "1.0",
        'podVolume_data_upload_failure_total{node="n1"}': "0.0",
        'podVolume_data_upload_cancel_total{node="n1"}': "1.0",
        'podVolume_data_download_success_total{node="n1"}': "0.0",
        'podVolume_data_download_failure_total{node="n1"}': "2.0",
        'podVolume_data_download_cancel_total{node="n1"}': "0.0",
    }
