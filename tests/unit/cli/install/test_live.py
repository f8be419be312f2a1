"""What `install` says at its end about the workloads that are in the cluster."""

from pathlib import Path
from typing import Any, cast

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.main import run
from pinnace.installing import sending
from pinnace.installing.live import read_live
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden
from pinnace.kube.resources import DAEMON_SETS, DEPLOYMENTS
from tests.unit.cli.cluster import ServedCluster, connected


def workload(name: str, *images: str) -> JSONObject:
    containers = [{"name": f"c{number}", "image": image} for number, image in enumerate(images)]
    metadata = {"name": name, "namespace": "velero"}
    spec = {"template": {"spec": {"containers": containers}}}
    return {"kind": "Deployment", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("replicas", "stops"), [(0, True), (1, False), (None, False)])
async def test_only_a_deployment_with_0_replicas_is_stopped(replicas: int | None, stops: bool) -> None:
    cluster = ServedCluster()
    cluster.add(DEPLOYMENTS, "velero", spec={} if replicas is None else {"replicas": replicas})

    live = await read_live(cast(KubeClient, cluster), [workload("velero"), {"kind": "Secret"}])

    assert [each["metadata"]["name"] for each in live.stopped()] == (["velero"] if stops else [])


async def test_a_velero_server_that_was_left_as_it_is_is_not_taken_for_the_installed_one() -> None:
    cluster = ServedCluster()
    for name in ("velero", "other"):
        cluster.add(DEPLOYMENTS, name, spec=workload(name, "velero/velero:v1.18.0")["spec"])
    made = [
        workload("velero", "pinnace:1"),
        workload("other", "velero/velero:v1.18.0"),
        workload("gone", "pinnace:1"),
        {"kind": "Secret", "metadata": {"name": "s", "namespace": "velero"}},
    ]

    live = await read_live(cast(KubeClient, cluster), made)

    assert live.foreign() == ["Deployment/velero with velero/velero:v1.18.0"]
    assert live.unread == ['Deployment/gone: deployments.apps "gone" not found']


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    async def established(*_: object) -> None:
        return None

    monkeypatch.setattr(sending.Installer, "_wait_for_crds", established)
    return connected(monkeypatch, tmp_path)


INSTALL = ("install", "--provider", "gcp", "--bucket", "b", "--no-secret", "--image", "pinnace:1")
SCALED = "WARNING: Deployment/velero has 0 replicas, so it does not run. Start it: kubectl -n velero scale"


@pytest.mark.usefixtures("cluster")
def test_an_installation_whose_workloads_are_there_is_installed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(INSTALL) == 0

    assert "Pinnace is installed." in capsys.readouterr().out


@pytest.mark.parametrize(
    "error", [Forbidden(403, message="you may not"), ConnectionFailed("connection lost")], ids=["403", "lost"]
)
def test_workloads_that_cannot_be_read_are_not_called_installed(
    error: Any, cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.refuse("get", "deployments", error)

    assert run([*INSTALL, "--use-node-agent"]) == 0

    shown = capsys.readouterr()
    assert "Pinnace is installed" not in shown.out
    assert (
        "WARNING: everything was sent, but it is not known what runs now: could not read Deployment/velero: "
        f"{error}. `pinnace doctor` looks again; it needs an account that may read them.\n"
    ) in shown.err


def test_a_server_that_is_scaled_to_zero_is_warned_of(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(DEPLOYMENTS, "velero", spec={**workload("velero", "pinnace:1")["spec"], "replicas": 0})

    assert run(INSTALL) == 0

    assert SCALED in capsys.readouterr().err


def test_a_foreign_node_agent_and_a_server_that_cannot_be_read_are_both_named(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.refuse("get", "deployments", Forbidden(403, message="you may not"))
    cluster.add(DAEMON_SETS, "node-agent", spec=workload("node-agent", "velero:1")["spec"])

    assert run([*INSTALL, "--use-node-agent"]) == 0

    shown = capsys.readouterr().out
    assert "Still running: DaemonSet/node-agent with velero:1. Give --apply, too" in shown
    assert "in their place. Could not read Deployment/velero: you may not.\n" in shown


def test_a_node_agent_that_is_left_out_is_not_waited_for(
    cluster: ServedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside one under its former name none is created: waiting for it would end with a timeout."""
    waited: list[str] = []

    async def wait(_client: object, made: list[JSONObject], _observer: object) -> None:
        waited.extend(obj["kind"] for obj in made)

    monkeypatch.setattr(sending, "wait_for_workloads", wait)
    cluster.add(DAEMON_SETS, "restic")

    assert run([*INSTALL, "--use-node-agent", "--wait"]) == 0

    assert "Deployment" in waited
    assert "DaemonSet" not in waited
