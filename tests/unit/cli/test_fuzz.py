"""Random commands, most of them wrong: each ends with a documented code, one error and nothing unforeseen.

All commands that end by themselves take part, without a cluster and with a folder of backups as location.
"""

import random
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pinnace.cli.errors import ExitCode
from pinnace.cli.main import run
from pinnace.cli.program import cli
from tests.support.stores.indexed_backups import config_map, secret, store

COMMANDS = 300
ENDLESS = ("server", "node-agent", "restic server", "nonadmin server", "hold-volume", "restore-helper")
"""They run until they are stopped, or wait for something."""
HOSTILE = (
    "", " ", ",", "a,", "=", "a=", "=b", "a=b=c", ":", "a:b", ";", "/", "//", ".", "..", "-", "--", "-1", "0",
    "1e3", "9" * 30, "٣", "0x10", "1h", "-1h", "9999999h", "1d2h", "true", "nope", "*", "**", "[", "[a", "{",
    "{}", "a b", "A_B", "a\nb", "a\tb", "\x1b[31m", "\u202e", "a\udcff", '"', '"a', "'", "\\", "$HOME",
    "!!!(", "a in (b", "a notin", "json", "yaml", "jsonpath={.a[0:1:0]}", "jsonpath={", "custom-columns=A:.a",
    "@daily", "* * * * *", "x" * 300, "good", "old", "configmaps", "cm/settings", "shop", "%s", "{0}",
    "~nobody/x", "s3://", "file:///", "\ufeffa",
)  # fmt: skip
SIGNS = ("should not happen", "Traceback", "is not valid UTF-8", "object at 0x")


def leaves(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if not isinstance(command, click.Group):
        if " ".join(words) not in ENDLESS:
            yield words, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, (*words, name))


def random_words(
    chance: random.Random, words: tuple[str, ...], command: click.Command, folder: Path
) -> list[str]:
    """A command with some of its flags and arguments, in any order."""
    rest: list[list[str]] = []
    flags = [param for param in command.params if isinstance(param, click.Option)]
    for param in chance.sample(flags, min(len(flags), chance.randrange(3))):
        flag, value = chance.choice(param.opts), chance.choice(HOSTILE)
        rest.append(chance.choice(([flag, value], [f"{flag}={value}"], [flag])))
    rest += [[chance.choice(("good", chance.choice(HOSTILE)))] for _ in range(chance.randrange(3))]
    if chance.random() < 0.1:
        rest.append([chance.choice(("--nope", "-Z", "--", "--location=", "--help"))])
    if chance.random() < 0.6:
        rest.append(["--location", str(folder)])
    chance.shuffle(rest)
    return [*words, *(word for each in rest for word in each)]


@pytest.mark.found("CF6", "CF7", "CF8", "CF9", "CF10", "CF11", "CF22")
def test_no_random_command_fails_in_a_way_that_nobody_foresaw(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "no-cluster"))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr("sys.stdin", None)
    location = tmp_path / "location"
    for name in ("good", "old"):
        store(location, name, [config_map("settings", currency="EUR"), secret("token", key="x")])
    chance, commands = random.Random(25), list(leaves(cli))

    for _ in range(COMMANDS):
        words = random_words(chance, *chance.choice(commands), location)
        code = run(words)
        shown = capsys.readouterr()
        assert code in (*ExitCode, 0), words
        assert not [sign for sign in SIGNS if sign in shown.err + shown.out], (words, shown.err)
        # A name that is not there is an error of its own, told before the question about the others.
        most = 1 + shown.err.count('" not found')
        assert shown.err.count("An error occurred") <= most, (words, shown.err)
        assert len(shown.err) < 5000, words
        if "Run `" in shown.err and str(location) in words and not {"--", "--location="} & {*words}:
            assert code == ExitCode.INVALID_INPUT, words
