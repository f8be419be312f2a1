"""What `install --wait` takes for ready, and what it says when it gives up."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.cli.install.report import Report
from pinnace.installing import wait as install_wait
from pinnace.installing.errors import InstallError
from pinnace.installing.wait import daemon_set_lacks, deployment_lacks, wait_for_workloads
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, KubeError, NotFound
from pinnace.kube.resources import APIResource

NOW = datetime(2021, 8, 11, 12, 0, tzinfo=UTC)
UNAVAILABLE = {
    "type": "Available",
    "status": "False",
    "reason": "MinimumReplicasUnavailable",
    "message": "Deployment does not have minimum availability.",
}


def deployment(*, available_for: float | None, updated: int = 1, observed: int = 1) -> JSONObject:
    """A Deployment that has been available for so many seconds, or is not."""
    condition = dict(UNAVAILABLE)
    if available_for is not None:
        since = NOW - timedelta(seconds=available_for)
        condition = {"type": "Available", "status": "True", "lastTransitionTime": format_time(since)}
    status = {
        "conditions": [condition],
        "replicas": 1,
        "updatedReplicas": updated,
        "observedGeneration": observed,
    }
    return {"metadata": {"generation": 1}, "status": status}


def daemon_set(wanted: int, available: int, *, updated: int | None = None, observed: int = 1) -> JSONObject:
    status = {
        "observedGeneration": observed,
        "desiredNumberScheduled": wanted,
        "numberAvailable": available,
        "updatedNumberScheduled": wanted if updated is None else updated,
    }
    return {"metadata": {"generation": 1}, "status": status}


@pytest.mark.parametrize(
    ("available_for", "lack"),
    [
        (11.5, ""),
        (9.0, "it has just become available"),
        (
            None,
            "0 of 1 pods are available; "
            "MinimumReplicasUnavailable: Deployment does not have minimum availability.",
        ),
    ],
)
def test_a_deployment_is_ready_after_ten_seconds_of_being_available(
    available_for: float | None, lack: str
) -> None:
    assert deployment_lacks(deployment(available_for=available_for), NOW) == lack


def test_a_deployment_that_no_controller_has_processed_is_not_ready() -> None:
    assert deployment_lacks({}, NOW) == "0 of 0 pods are available"


@pytest.mark.parametrize(
    ("changed", "lack"),
    [
        ({"observed": 0}, "no controller has processed it yet"),
        ({"updated": 0}, "the change is under way: 0 of 1 pods are new"),
    ],
)
def test_a_deployment_with_old_pods_is_not_ready(changed: dict[str, int], lack: str) -> None:
    assert deployment_lacks(deployment(available_for=60, **changed), NOW) == lack


@pytest.mark.parametrize(
    ("obj", "lack"),
    [
        (daemon_set(3, 3), ""),
        (daemon_set(3, 2), "2 of 3 pods are available"),
        (daemon_set(3, 3, updated=1), "the change is under way: 1 of 3 pods are new"),
        (daemon_set(0, 0), ""),
        (daemon_set(0, 0, observed=0), "no controller has processed it yet"),
        ({"metadata": {"generation": 1}}, "no controller has processed it yet"),
    ],
)
def test_a_daemon_set_is_ready_when_each_node_has_a_new_pod(obj: JSONObject, lack: str) -> None:
    assert daemon_set_lacks(obj, NOW) == lack


class Cluster:
    """Gives one answer after the other for each object, the last one for ever."""

    def __init__(self, **answers: list[JSONObject | KubeError]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def get(self, _resource: APIResource, name: str, _namespace: str) -> JSONObject:
        self.asked.append(name)
        left = self.answers[name]
        answer = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(answer, KubeError):
            raise answer
        return answer


MADE = [
    {"kind": kind, "metadata": {"name": name, "namespace": "velero"}}
    for kind, name in (("Namespace", "velero"), ("Deployment", "velero"), ("DaemonSet", "node-agent"))
]
GONE = NotFound(404, reason="NotFound", message="gone")


def agent(*answers: dict[str, Any] | KubeError) -> dict[str, list[dict[str, Any] | KubeError]]:
    """Answers about the DaemonSet of the node agent."""
    return {"node-agent": list(answers)}


@pytest.fixture(autouse=True)
def _polls_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(install_wait, "POLL_SECONDS", 0.0)


def short_timeout(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(install_wait, name, 0.2)


async def wait(cluster: Cluster) -> None:
    await wait_for_workloads(cast("KubeClient", cluster), MADE, Report(0))


async def test_each_workload_must_be_ready_five_times_in_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    ready, not_ready = deployment(available_for=60), deployment(available_for=None)
    answers: list[JSONObject | KubeError] = [GONE, ready, ready, ready, ready, not_ready, ready]
    cluster = Cluster(velero=answers, **agent(daemon_set(1, 1)))

    await wait(cluster)

    assert cluster.asked == ["velero"] * 11 + ["node-agent"] * 5
    assert capsys.readouterr().out.splitlines() == [
        "Waiting for Pinnace deployment to be ready.",
        "Waiting for Pinnace node agent daemonset to be ready.",
    ]


@pytest.mark.parametrize(
    ("timeout", "cluster", "text"),
    [
        (
            "DEPLOYMENT_SECONDS",
            Cluster(velero=[GONE]),
            "timed out waiting for the condition: Deployment velero: it does not exist. "
            "`kubectl logs deploy/velero -n velero` may say why",
        ),
        (
            "DAEMON_SET_SECONDS",
            Cluster(velero=[deployment(available_for=60)], **agent(daemon_set(2, 1))),
            "timed out waiting for the condition: DaemonSet node-agent: 1 of 2 pods are available",
        ),
        (
            "DEPLOYMENT_SECONDS",
            Cluster(velero=[Forbidden(403, message="you may not")]),
            "error waiting for Deployment velero: you may not",
        ),
    ],
    ids=["missing", "not ready", "forbidden"],
)
async def test_waiting_ends_with_the_reason_and_names_the_log_only_for_a_deployment(
    timeout: str, cluster: Cluster, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short_timeout(monkeypatch, timeout)
    with pytest.raises(InstallError) as caught:
        await wait(cluster)
    assert str(caught.value) == text
