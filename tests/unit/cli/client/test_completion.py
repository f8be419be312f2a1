"""`completion`: the scripts, and what the program answers to them."""

import shutil
import subprocess
from pathlib import Path

import pytest

from pinnace.cli.program import cli, run

BASH = shutil.which("bash")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def script(capsys: pytest.CaptureFixture[str], shell: str) -> str:
    assert run(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("shell", "registration", "question"),
    [
        ("bash", "complete -o nosort -F _pinnace_completion pinnace", "_PINNACE_COMPLETE=bash_complete $1"),
        ("zsh", "compdef _pinnace_completion pinnace", "_PINNACE_COMPLETE=zsh_complete pinnace"),
        ("fish", "complete --no-files --command pinnace", "env _PINNACE_COMPLETE=fish_complete"),
    ],
)
def test_scripts(capsys: pytest.CaptureFixture[str], shell: str, registration: str, question: str) -> None:
    text = script(capsys, shell)

    assert registration in text
    assert question in text
    assert text.endswith("\n")


@pytest.mark.skipif(BASH is None, reason="there is no bash on this machine")
def test_bash_takes_its_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert BASH is not None
    checks = f"{script(capsys, 'bash')}\ncomplete -p pinnace"
    ran = subprocess.run(
        [BASH, "--norc", "-c", checks], capture_output=True, text=True, timeout=10, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "_pinnace_completion pinnace" in ran.stdout


@pytest.mark.parametrize("words", [[], ["bash", "zsh"]])
def test_exactly_one_shell(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(["completion", *words]) == 1
    assert f"accepts 1 arg(s), received {len(words)}" in capsys.readouterr().err


def test_another_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 1
    assert capsys.readouterr() == ("Invalid shell specified, specify bash, zsh, or fish\n", "")


def completed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, *, shell: str = "bash"
) -> list[str]:
    """What is offered for the last word of a line; an end of a blank begins a new word."""
    words = line.split(" ")
    monkeypatch.setenv("_PINNACE_COMPLETE", f"{shell}_complete")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", words[-1] if shell == "fish" else str(len(words) - 1))
    with pytest.raises(SystemExit) as ended:
        run([])
    assert ended.value.code == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("pinnace backup-", ["backup-location"]),
        ("pinnace schedule ", ["create", "delete", "describe", "get", "pause", "unpause"]),
        ("pinnace -n other schedule d", ["delete", "describe"]),
        ("pinnace delete ", ["backup", "backup-location", "restore", "schedule"]),
        ("pinnace describe sch", ["schedules"]),
        ("pinnace client config ", ["get", "set"]),
        ("pinnace snapshot-location ", ["create", "describe", "get", "set"]),
        ("pinnace plugin get --t", ["--timeout"]),
        ("pinnace schedule create s --schedule @daily --use", ["--use-owner-references-in-backup"]),
        ("pinnace get schedule --show-l", ["--show-labels"]),
        ("pinnace backup describe b --details --c", ["--colorized", "--cacert"]),
    ],
)  # fmt: skip
def test_answers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, line: str, offered: list[str]
) -> None:
    assert sorted(completed(capsys, monkeypatch, line)) == sorted(f"plain,{word}" for word in offered)


def test_every_command_is_offered_but_the_hidden_ones(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    offered = {line.removeprefix("plain,") for line in completed(capsys, monkeypatch, "pinnace ")}

    processes = {"server", "node-agent"}  # listed by the help, and typed by no person
    assert offered == {name for name, (_, help_text) in cli.lazy.items() if help_text} - processes
    assert {"schedule", "backup-location", "plugin", "uninstall", "debug"} <= offered
    assert "server" not in offered


def test_help_texts_where_a_shell_shows_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "pinnace schedule de"
    assert completed(capsys, monkeypatch, line, shell="zsh") == [
        "plain", "delete", "Delete schedules; their backups stay.",
        "plain", "describe", "Describe schedules.",
    ]  # fmt: skip
    assert completed(capsys, monkeypatch, line, shell="fish")[1] == "plain,describe\tDescribe schedules."


def test_a_program_under_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    import click

    from pinnace.cli.client.completion import script as script_for

    text = script_for(click.Context(cli, info_name="my-pinnace.exe"), "bash")
    assert "_MY_PINNACE_EXE_COMPLETE=bash_complete" in text
