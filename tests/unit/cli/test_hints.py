"""Commands that messages suggest: they are to be pasted as they are, and find the same objects."""

import shlex
from pathlib import Path

import click
import pytest

from pinnace.cli.connect import pasteable
from pinnace.cli.declaring.global_flags import GlobalFlags
from pinnace.cli.main import run
from pinnace.kube.resources import BACKUPS
from tests.unit.cli.cluster import connected


def said(text: str, flags: GlobalFlags, program: str = "pinnace") -> str:
    """The text as a command that was called with these flags prints it."""
    with click.Context(click.Command("backup"), info_name=program, obj=flags):
        return pasteable(text)


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        ("(`backup index b1` writes one).", GlobalFlags(), "(`pinnace backup index b1` writes one)."),
        ("`backup verify b1`", GlobalFlags(namespace="shop"), "`pinnace backup verify b1 -n shop`"),
        (
            "`backup index b1`",
            GlobalFlags(location="s3://b?x=1&y=2"),
            "`pinnace backup index b1 --location 's3://b?x=1&y=2'`",
        ),
        (
            "`restore logs a` and `restore delete a`",
            GlobalFlags(),
            "`pinnace restore logs a` and `pinnace restore delete a`",
        ),
        ("`restore delete a;$(b)`", GlobalFlags(), "`pinnace restore delete 'a;$(b)'`"),
        ("`kubectl get pods` and `restic unlock`", GlobalFlags(), "`kubectl get pods` and `restic unlock`"),
    ],
)
def test_a_command_in_a_text_gets_the_program_and_the_flags(
    text: str, flags: GlobalFlags, expected: str
) -> None:
    assert said(text, flags) == expected


def test_the_program_is_named_as_the_user_called_it() -> None:
    assert said("`backup verify b1`", GlobalFlags(), "velero") == "`velero backup verify b1`"


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("-n shop backup describe b1", "pinnace backup logs b1 -n shop"),
        ("-n shop restore describe r1", "pinnace restore logs r1 -n shop"),
    ],
)
def test_a_description_names_the_log_of_the_same_object(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: str,
    hint: str,
) -> None:
    from pinnace.kube.resources import RESTORES

    cluster = connected(monkeypatch, tmp_path)
    for resource, name in ((BACKUPS, "b1"), (RESTORES, "r1")):
        cluster.add(resource, name, "shop", spec={}, status={"phase": "Failed"})

    assert run(shlex.split(words)) == 0

    assert hint in capsys.readouterr().out
