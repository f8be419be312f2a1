"""`notify test`, and messages of runs without a server, to sinks on loopback."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.cli.common.telling import ToldRun
from pinnace.cli.main import run
from pinnace.kube.resources import SECRETS
from pinnace.messages.settings import parse_messages
from tests.support.servers.webhooks import Hooks, document, listening
from tests.unit.cli.cluster import ServedCluster, connected


@pytest.fixture
def hooks() -> Iterator[Hooks]:
    with listening() as made:
        yield made


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


def test_a_test_message_goes_to_the_sinks_of_the_secrets(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, hooks: Hooks
) -> None:
    encoded = base64.b64encode(document(hooks).encode()).decode()
    labels = {"pinnace.io/messages": "true"}
    cluster.add(SECRETS, "messages", labels=labels, data={"messages.yaml": encoded})

    assert run(["notify", "test"]) == 0
    assert capsys.readouterr().out == "hook: sent\nhc: sent\n"
    assert sorted(path for path, _ in hooks.got) == ["/ok", "/ping"]
    assert run(["notify", "test", "nobody"]) == 1
    assert "there is no sink nobody; there are hc, hook" in capsys.readouterr().err


def test_a_sink_that_refuses_is_named_and_the_code_is_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, hooks: Hooks
) -> None:
    file = tmp_path / "messages.yaml"
    file.write_text(document(hooks, "/bad/s3cr3t"))
    assert run(["notify", "test", "--messages-file", str(file), "-o", "json"]) == 1
    hook, hc = json.loads(capsys.readouterr().out)
    assert (hook["sink"], hook["sent"], hc["sent"]) == ("hook", False, True)
    assert "status 500" in hook["error"]
    assert "s3cr3t" not in hook["error"]


def test_without_any_sink_it_says_where_it_looked(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["notify", "test"]) == 1
    assert "no Secret in namespace velero has the label pinnace.io/messages=true" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot read the messages file"),
        ("sinks: 3", "cannot be used: the document.sinks must be a list"),
        ("sinks: [{name: a, ping: {url: 'http://a/{schedule}'}}]", "which only a server replaces"),
    ],
)
def test_a_wrong_file_is_refused_before_the_run(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, said: str
) -> None:
    file = tmp_path / "messages.yaml"
    if content is not None:
        file.write_text(content)
    words = ["--location", str(tmp_path / "b"), "backup", "create", "b", "--messages-file", str(file)]
    assert run(words) != 0
    assert said in capsys.readouterr().err
    assert not (tmp_path / "b").exists()


def test_with_a_server_the_file_is_refused(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["backup", "create", "b", "--messages-file", "f"]) == 1
    assert "--messages-file goes with --location" in capsys.readouterr().err
    assert cluster.writes() == []


def test_a_backup_that_cannot_begin_is_told_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    file = tmp_path / "messages.yaml"
    file.write_text(document(hooks))
    words = ["--location", str(tmp_path / "b"), "backup", "create", "nightly", "--messages-file", str(file)]
    assert run(words) != 0
    assert [path for path, _ in hooks.got] == ["/ping/start", "/ping/fail", "/ok"]
    event = json.loads(hooks.got[-1][1])
    assert (event["type"], event["subject"]) == ("io.pinnace.failure.problem", "Backup nightly")
    assert event["data"]["text"]


def test_a_restore_that_cannot_be_resumed_is_told_of(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, hooks: Hooks, cluster: ServedCluster
) -> None:
    file = tmp_path / "messages.yaml"
    file.write_text(document(hooks))
    words = ["--location", str(tmp_path / "b"), "restore", "resume", "again", "--messages-file", str(file)]
    (tmp_path / "b").mkdir()
    assert run(words) != 0
    assert "there is no restore named again" in capsys.readouterr().err
    assert hooks.paths == ["/ping/start", "/ping/fail", "/ok"]
    assert json.loads(hooks.got[-1][1])["subject"] == "Restore again"


def test_with_a_server_a_resumption_takes_no_file(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    assert run(["restore", "resume", "again", "--messages-file", "f"]) == 1
    assert "--messages-file goes with --location" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("phase", "paths"),
    [
        (BackupPhase.COMPLETED, ["/ping/start", "/ping"]),
        (BackupPhase.PARTIALLY_FAILED, ["/ping/start", "/ping/fail", "/ok"]),
    ],
)
async def test_the_end_of_a_run_is_told(hooks: Hooks, phase: BackupPhase, paths: list[str]) -> None:
    backup = Backup()
    backup.metadata.name = "b"
    async with ToldRun(parse_messages(document(hooks)), backup, "here") as told:
        backup.status.phase = phase
        told.ended(backup)
    assert [path for path, _ in hooks.got] == paths


async def test_sinks_that_refuse_change_nothing_but_a_warning(
    capsys: pytest.CaptureFixture[str], hooks: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pinnace.messages.once._PAUSES_SECONDS", (0.0, 0.0))
    backup = Backup()
    backup.metadata.name = "b"
    async with ToldRun(parse_messages(document(hooks, "/bad")), backup, "here") as told:
        backup.status.phase = BackupPhase.FAILED
        told.ended(backup)
    assert [path for path, _ in hooks.got].count("/bad") == 3
    assert "WARNING: sink hook was not told of problem" in capsys.readouterr().err


async def test_an_interrupted_run_is_no_failure(hooks: Hooks) -> None:
    backup = Backup()
    with pytest.raises(KeyboardInterrupt):
        async with ToldRun(parse_messages(document(hooks)), backup, "here"):
            raise KeyboardInterrupt
    assert not [path for path, _ in hooks.got if path != "/ping/start"]
