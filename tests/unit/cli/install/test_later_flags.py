"""What the flags of `install` since Velero 1.7 change in what is installed. (docs/spec: BEY 10.2)"""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run

SERVER = ("--provider", "aws", "--bucket", "b", "--no-secret", "--image", "i:1")
AGENT = (*SERVER, "--use-node-agent")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-kubeconfig"))


def made(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """The last object of each kind that a dry run prints."""
    assert run(["install", "--dry-run", "-o", "json", *words]) == 0, capsys.readouterr().err
    return {item["kind"]: item for item in json.loads(capsys.readouterr().out)["items"]}


def pods(workload: dict[str, Any]) -> Any:
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("flag", "argument"),
    [
        ("--garbage-collection-frequency=30m", "--garbage-collection-frequency=30m0s"),
        ("--pod-volume-operation-timeout=2h", "--fs-backup-timeout=2h0m0s"),
        ("--concurrent-backups=3", "--concurrent-backups=3"),
        ("--schedule-skip-immediately", "--schedule-skip-immediately"),
    ],
)
def test_each_flag_of_the_server_becomes_one_argument(
    capsys: pytest.CaptureFixture[str], flag: str, argument: str
) -> None:
    plain = pods(made(capsys, *SERVER)["Deployment"])["containers"][0]["args"]
    given = pods(made(capsys, *SERVER, flag)["Deployment"])["containers"][0]["args"]

    assert given == [*plain, argument]


def test_moving_data_by_default_needs_csi_and_node_agents(capsys: pytest.CaptureFixture[str]) -> None:
    flag = "--default-snapshot-move-data"
    deployment = made(capsys, *AGENT, flag, "--features=EnableCSI")["Deployment"]
    assert flag in pods(deployment)["containers"][0]["args"]

    for words, missing in (
        ([*AGENT, flag], "--features=EnableCSI"),
        ([*AGENT, flag, "--features=NotEnableCSI"], "--features=EnableCSI"),
        ([*SERVER, flag, "--features=EnableCSI"], "--use-node-agent"),
    ):
        assert run(["install", "--dry-run", "-o", "json", *words]) != 0
        assert f"{missing} is required when using {flag}" in capsys.readouterr().err


def test_priority_classes_and_labels_are_those_of_the_pods(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--server-priority-class-name", "high", "--node-agent-priority-class-name", "low"]
    objects = made(capsys, *AGENT, *words, "--pod-labels", "team=a,cost=b")

    for kind, priority in (("Deployment", "high"), ("DaemonSet", "low")):
        template = objects[kind]["spec"]["template"]
        assert template["spec"]["priorityClassName"] == priority
        assert template["metadata"]["labels"].items() >= {"team": "a", "cost": "b"}.items()
        assert "team" not in objects[kind]["spec"]["selector"]["matchLabels"]


def test_an_existing_account_is_used_and_none_is_created(capsys: pytest.CaptureFixture[str]) -> None:
    objects = made(capsys, *AGENT, "--service-account-name", "mine")

    assert objects.keys().isdisjoint({"ServiceAccount", "ClusterRoleBinding"})
    assert [pods(objects[kind])["serviceAccountName"] for kind in ("Deployment", "DaemonSet")] == ["mine"] * 2


def test_the_node_agent_can_be_privileged_with_another_kubelet_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = pods(made(capsys, *AGENT, "--privileged-node-agent", "--kubelet-root-dir", "/k")["DaemonSet"])

    assert spec["containers"][0]["securityContext"]["privileged"] is True
    assert {"name": "host-pods", "hostPath": {"path": "/k/pods"}} in spec["volumes"]
    # Devices are links to below this directory, so it must be at its own path.
    assert {"name": "host-plugins", "hostPath": {"path": "/k/plugins"}} in spec["volumes"]
    mount = {"name": "host-plugins", "mountPath": "/k/plugins", "mountPropagation": "HostToContainer"}
    assert mount in spec["containers"][0]["volumeMounts"]


def test_an_unprivileged_node_agent_does_not_mount_the_plugins_directory(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = pods(made(capsys, *AGENT)["DaemonSet"])

    assert "host-plugins" not in [volume["name"] for volume in spec["volumes"]]


def test_the_config_maps_of_install_become_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "--node-agent-configmap=a",
        "--backup-repository-configmap=b",
        "--repo-maintenance-job-configmap=c",
    )
    objects = made(capsys, *AGENT, *words)

    agent, server = (pods(objects[kind])["containers"][0]["args"] for kind in ("DaemonSet", "Deployment"))
    assert "--node-agent-configmap=a" in agent
    assert "--backup-repository-configmap=b" in server
    assert "--repo-maintenance-job-configmap=c" in server


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((*SERVER, "--pod-labels", "deploy=x"), "--pod-labels cannot set deploy"),
        ((*SERVER, "--service-account-name", "a", "--minimal-rbac"), "and --minimal-rbac at the same time"),
        ((*SERVER, "--service-account-name", "a", "--sa-annotations", "b=c"), "and --sa-annotations"),
        ((*SERVER, "--privileged-node-agent"), "--use-node-agent is required"),
        ((*AGENT, "--pod-labels", "role=x"), "--pod-labels cannot set role"),
        ((*AGENT, "--kubelet-root-dir", "k"), "--kubelet-root-dir must be an absolute path"),
        ((*SERVER, "--garbage-collection-frequency=-1h"), "must be non-negative"),
        ((*SERVER[:-2], "--concurrent-backups=2"), "--image is required when using --concurrent-backups"),
    ],
    ids=["selector", "rights", "annotations", "no agent", "role", "relative", "negative", "no server"],
)
def test_contradictory_flags_are_refused(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], problem: str
) -> None:
    assert run(["install", "--dry-run", *words]) == 1
    assert problem in capsys.readouterr().err
