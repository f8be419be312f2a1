"""The help: sections of flags, topics, the version."""

import pytest

from pinnace import __version__
from pinnace.cli.main import run
from pinnace.cli.usage.topics import TOPICS


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_flags_stand_in_sections_and_those_of_all_commands_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "backup", "create", "--help")
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[-6:] == ["What", "Where", "Volumes", "Output", "Options", "Connection"]
    assert text.count("--kubeconfig ") == 1
    what, connection = text.index("What:"), text.index("Connection:")
    assert what < text.index("--include-namespaces") < connection < text.index("--kubeconfig")


@pytest.mark.parametrize("topic", ["filters", "locations", "exit-codes", "hooks"])
def test_a_topic_is_explained(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "help", topic)
    assert text == TOPICS[topic]
    assert max(map(len, text.splitlines())) <= 120


def test_the_version_of_the_client(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--version") == f"pinnace v{__version__}\n"


def test_the_processes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    assert "  server " in text
    assert "  node-agent " in text
    assert "restore-helper" not in text
