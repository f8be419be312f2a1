"""The help: sections of flags, words for values, examples, topics, the version."""

import re
import shlex

import click
import pytest

from pinnace import __version__
from pinnace.cli.declaring.commands import Group
from pinnace.cli.declaring.sections import flags_of
from pinnace.cli.main import run
from pinnace.cli.nouns import noun_first
from pinnace.cli.program import cli
from pinnace.cli.usage.topics import TOPICS
from tests.support.commands import ALL, EXAMPLES

UNTOUCHED = {"restore-helper", "hold-volume", "repo-maintenance", "compare-files", "restic server"}
"""What only pods run, and no help lists."""


def shown(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_flags_are_listed_in_sections_and_global_ones_once(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "backup", "create", "--help")
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles[-7:] == ["What", "Where", "Volumes", "Output", "Options", "Connection", "Examples"]
    assert text.count("--kubeconfig ") == 1
    what, connection = text.index("What:"), text.index("Connection:")
    assert what < text.index("--include-namespaces") < connection < text.index("--kubeconfig")


def test_the_value_of_a_flag_is_a_word_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    text = " ".join(shown(capsys, "schedule", "create", "--help").split())
    for expected in (
        "--ttl DURATION How long to keep the backup; if not given as the server says, or 720h",
        "--include-namespaces NAMESPACE,... Namespaces to back up, '*' for all.",
        "--selector SELECTOR Back up only objects that match this label selector (such as app=web,tier!=db).",
        "--storage-location LOCATION ",
        "--snapshot-volumes[=true|false] Take snapshots",
        "--location FOLDER|URL ",
        "--schedule CRON ",
    ):
        assert expected in text


@pytest.mark.parametrize("path", ALL)
def test_no_flag_has_the_name_of_a_type_as_its_value(path: str) -> None:
    context = ALL[path]
    types = r"(TEXT|STRING\w*|MAPSTRING\w+|INTEGER|INT|FLOAT|PATH|BOOLEAN|CHOICE|LABELSELECTOR)\b"
    flags = [flag for lines in flags_of(context.command, context).values() for flag, _ in lines]
    assert [flag for flag in flags if re.search(rf" {types}", flag)] == []


@pytest.mark.parametrize("path", ALL)
def test_each_word_in_the_help_of_a_flag_is_filled_in(path: str) -> None:
    context = ALL[path]
    shown = [text for lines in flags_of(context.command, context).values() for _, text in lines]
    assert [text for text in shown if re.search(r"{\w*}", text)] == []


@pytest.mark.parametrize("path", sorted(ALL.keys() - UNTOUCHED))
def test_each_command_has_at_least_three_examples_of_itself(
    path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = shown(capsys, *path.split(), "--help")
    examples = EXAMPLES[noun_first(path.split())]
    assert len(examples) >= 3
    for what, line in examples:
        assert f"  # {what}\n  {line}\n" in text


@pytest.mark.parametrize("path", EXAMPLES)
def test_each_example_is_a_valid_command_line(path: str) -> None:
    for _what, line in EXAMPLES[path]:
        program, *words = shlex.split(re.split(r" [|>] ", line)[0])
        assert program == "pinnace"
        assert parsed(words) == path


def parsed(words: list[str]) -> str:
    """Parse a command line as the program does, without running it. Returns its command's words."""
    context = cli.make_context("pinnace", list(words))
    while isinstance(context.command, Group):
        name, command, rest = context.command.resolve_command(context, context._protected_args + context.args)
        assert command is not None
        context = command.make_context(name, rest, parent=context)
    check_number_of_arguments(context)
    return " ".join(context.command_path.split()[1:])


def check_number_of_arguments(context: click.Context) -> None:
    """As many as the usage says; the commands check it themselves when they run."""
    arguments = [param for param in context.command.params if isinstance(param, click.Argument)]
    given = [word for param in arguments for word in context.params[param.name or ""]]
    places = " ".join(param.metavar or "" for param in arguments)
    words = places.split()
    least = sum(not word.startswith("[") for word in words)
    most = 99 if "..." in places else len(words)
    assert least <= len(given) <= most, context.command_path


def test_each_example_is_of_an_existing_command() -> None:
    assert EXAMPLES.keys() == {noun_first(path.split()) for path in ALL} - UNTOUCHED


@pytest.mark.parametrize("topic", ["filters", "locations", "exit-codes", "hooks"])
def test_help_prints_the_text_of_a_topic(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "help", topic)
    assert text == TOPICS[topic]
    assert max(map(len, text.splitlines())) <= 120


def test_version_flag_prints_the_version_of_the_client(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, "--version") == f"pinnace v{__version__}\n"


def test_help_lists_server_and_node_agent_but_no_helpers(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "--help")
    assert "  server " in text
    assert "  node-agent " in text
    assert "restore-helper" not in text
