"""How a parallel run deals test files out to its processes: files that share a cluster with nodes together.

A cluster with a node takes processor time to start, to get images, and while it is idle. Two processes that
each run half of its tests, and then end it, need half of what four with a cluster each need.
"""

from collections.abc import Iterable, Sequence

import pytest

_AGENTS = (
    *("csi", "faults", "held_volumes", "installed", "interruptions", "kopia", "moved_volumes"),
    *("odd_volumes", "resumed_restores", "snapshots_of_nodes", "volumes", "waiting_pods"),
)
SHARING: Sequence[tuple[str, frozenset[str]]] = (
    ("agents on nodes", frozenset(f"tests/integration/node_agent/test_{name}.py" for name in _AGENTS)),
    (
        "nodes",
        frozenset(
            (
                "tests/e2e/deployment/test_another_cluster.py",
                "tests/e2e/deployment/test_deployment.py",
                "tests/e2e/deployment/test_ledger.py",
                "tests/e2e/deployment/test_self_service.py",
                "tests/integration/hooks/test_hooks_on_node.py",
                "tests/integration/node/test_node_tier.py",
                "tests/integration/node/test_nothing_is_left.py",
                "tests/integration/node/test_python_image.py",
                "tests/integration/snapshots/test_csi_on_node.py",
            )
        ),
    ),
)
"""Files whose tests share a cluster with nodes, by the name of their share. Both take about as long."""

LONGEST: Sequence[str] = (
    "tests/integration/scenario/test_paused_leader.py",
    "tests/integration/scenario/test_kills.py",
    "tests/integration/controllers/test_pod_volumes.py",
    "tests/integration/faults/test_backup_store.py",
    "tests/integration/faults/test_killed_backup.py",
    "tests/e2e/test_odd_objects.py",
    "tests/e2e/test_applications.py",
    "tests/integration/hack/test_development.py",
)
"""Files that follow next, so that no process is busy with one at the end, when the others have nothing."""


def share_of(test: str) -> str:
    """The name of the share of a test: its file, unless that shares a cluster with nodes."""
    file = test.partition("::")[0]
    return next((name for name, files in SHARING if file in files), file)


def shares_nodes(item: pytest.Item | None) -> bool:
    """Whether a test belongs to those that share a cluster with nodes."""
    return item is not None and any(share_of(item.nodeid) == name for name, _ in SHARING)


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Sort tests: those that share a cluster with nodes first, then those of the longest files."""
    ranks = {name: rank for rank, name in enumerate((*(name for name, _ in SHARING), *LONGEST))}
    return sorted(items, key=lambda item: ranks.get(share_of(item.nodeid), len(ranks)))
