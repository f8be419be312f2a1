"""One node agent: the DaemonSet of before Velero 1.10 is replaced, and never gets another one beside it."""

from typing import Any

import pytest

from pinnace.cli.install.report import Report
from pinnace.installing.sending import Installer
from pinnace.kube.resources import DAEMON_SETS
from tests.support.cluster.scripted_cluster import ScriptedCluster

OURS: dict[str, Any] = {"kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"}}
VELERO = {"component": "velero"}


@pytest.mark.parametrize(
    ("labels", "merge", "made", "deleted"),
    [
        (None, False, True, []),
        (None, True, True, []),
        (VELERO, True, True, ["restic"]),
        (VELERO, False, False, []),
        ({"app": "another"}, True, False, []),
    ],
    ids=["none", "none, apply", "former, apply", "former", "of another program"],
)
async def test_the_former_node_agent_is_replaced_only_by_apply_and_if_it_is_labelled(
    labels: dict[str, str] | None,
    merge: bool,
    made: bool,
    deleted: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = ScriptedCluster()
    if labels is not None:
        cluster.add(DAEMON_SETS, "restic", labels=labels)

    installer = Installer(cluster.client, Report(0), merge=merge)

    assert await installer._replaces(OURS) is made

    assert [name for _, _, name, _ in cluster.deleted] == deleted
    assert ("is not created" in capsys.readouterr().err) is not made
