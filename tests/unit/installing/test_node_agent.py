"""One node agent: the DaemonSet of before Velero 1.10 is replaced, and never gets another one beside it."""

from typing import Any, cast

import pytest

from pinnace.cli.install.report import Report
from pinnace.installing.sending import Installer
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import APIResource

OURS: dict[str, Any] = {"kind": "DaemonSet", "metadata": {"name": "node-agent", "namespace": "velero"}}
VELERO = {"component": "velero"}


class Cluster:
    """A cluster that may have the former DaemonSet."""

    def __init__(self, labels: dict[str, str] | None) -> None:
        self.labels = labels
        self.deleted: list[str] = []

    async def get(self, _resource: APIResource, name: str, _namespace: str) -> dict[str, Any]:
        assert name == "restic"
        if self.labels is None:
            raise NotFound(404, reason="NotFound", message="not found")
        return {"metadata": {"name": name, "labels": self.labels}}

    async def delete(self, _resource: APIResource, name: str, _namespace: str) -> None:
        self.deleted.append(name)


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
    cluster = Cluster(labels)

    installer = Installer(cast("KubeClient", cluster), Report(0), merge=merge)

    assert await installer._replaces(OURS) is made

    assert cluster.deleted == deleted
    assert ("is not created" in capsys.readouterr().err) is not made
