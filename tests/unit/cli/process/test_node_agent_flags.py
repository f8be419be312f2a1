"""The flags of `node-agent` and `restic server`, as options of the process."""

from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.main import run
from pinnace.server import node_agent
from pinnace.server.node_agent import NodeAgentOptions


@pytest.fixture(autouse=True)
def _environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NODE_NAME", "n1")
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE", "VELERO_SCRATCH_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[NodeAgentOptions]:
    """The options of agents that would have been started."""
    options: list[NodeAgentOptions] = []

    async def record(_config: Any, given: NodeAgentOptions, *, user_agent: str) -> None:
        assert user_agent.startswith("velero-restic-server/v")
        options.append(given)

    monkeypatch.setattr(node_agent, "run_node_agent", record)
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: None)
    monkeypatch.setattr("pinnace.server.monitoring.logging.configure_logging", lambda *_: None)
    return options


@pytest.mark.parametrize("command", [["node-agent"], ["restic", "server"]])
def test_without_flags_the_options_have_their_defaults(
    command: list[str], started: list[NodeAgentOptions]
) -> None:
    assert run([*command, "--features="]) == 0

    assert started == [NodeAgentOptions(namespace="velero", node="n1")]
    assert started[0].pods_directory == Path("/host_pods")
    assert started[0].metrics_address == ":8085"


def test_every_flag_reaches_the_options(
    started: list[NodeAgentOptions], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("VELERO_NAMESPACE", "elsewhere")
    monkeypatch.setenv("VELERO_SCRATCH_DIR", str(tmp_path))
    words = ["--host-pods=/pods", "--metrics-address=:1", "--backup-workers=3", "--restore-workers=2"]

    assert run(["restic", "server", *words, "--log-level=debug", "--log-format=json"]) == 0

    assert started == [
        NodeAgentOptions(
            namespace="elsewhere",
            node="n1",
            pods_directory=Path("/pods"),
            metrics_address=":1",
            backup_workers=3,
            restore_workers=2,
            scratch=tmp_path,
        )
    ]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--backup-workers=0"], "--backup-workers must be at least 1"),
        (["--restore-workers=-1"], "--restore-workers must be at least 1"),
        (["--metrics-address=nowhere"], '--metrics-address: "nowhere" is not an address'),
        (["--log-level=warn"], "--log-level"),
        (["--location=/tmp"], "node agent"),
    ],
)
def test_wrong_values_are_refused(
    words: list[str], problem: str, started: list[NodeAgentOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["node-agent", *words]) != 0
    assert problem in capsys.readouterr().err
    assert started == []


def test_a_missing_name_of_the_node_is_refused(
    started: list[NodeAgentOptions], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NODE_NAME")
    assert run(["node-agent"]) == 1
    assert "An error occurred: the environment variable NODE_NAME is missing" in capsys.readouterr().err
    assert started == []


def test_the_spelling_and_the_flags_of_velero_1_18_start_the_agent(
    started: list[NodeAgentOptions], caplog: pytest.LogCaptureFixture
) -> None:
    words = ["--node-agent-configmap=c", "--data-mover-prepare-timeout=5m", "--resource-timeout=10m"]

    assert run(["node-agent", "server", *words]) == 0

    assert started == [NodeAgentOptions(namespace="velero", node="n1", config_map="c")]
    (record,) = caplog.records
    assert record.getMessage().startswith("--data-mover-prepare-timeout=5m has no effect: ")


def test_another_word_after_node_agent_is_refused(
    started: list[NodeAgentOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["node-agent", "servr"]) == 1

    assert 'unknown command "servr"' in capsys.readouterr().err
    assert started == []
