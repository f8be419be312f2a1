"""The tree of commands: the two forms of each, aliases, help; and `bug`."""

import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from pinnace.api.kinds import KINDS
from pinnace.cli.debug import bug as bug_report
from pinnace.cli.declaring.commands import Group, short_help_of
from pinnace.cli.nouns import NOUNS, noun_of
from pinnace.cli.program import cli, run
from pinnace.cli.short_help import SHORT_HELP


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def command(*words: str) -> click.Command | None:
    found: click.Command | None = cli
    for word in words:
        assert isinstance(found, Group)
        found = found.get_command(click.Context(found), word)
    return found


VERB_FORMS = [
    ("create", "backup", ("backups", "bak")),
    ("create", "restore", ()),
    ("create", "schedule", ()),
    ("create", "backup-location", ()),
    ("create", "snapshot-location", ()),
    ("get", "backups", ("backup", "bak", "backups.velero.io", "Backup")),
    ("get", "restores", ("restore", "rst")),
    ("get", "schedules", ("schedule", "sched")),
    ("get", "backup-locations", ("backup-location", "bsl", "backupstoragelocations.velero.io")),
    ("get", "snapshot-locations", ("snapshot-location", "vsl", "volumesnapshotlocation")),
    ("get", "plugins", ("plugin",)),
    ("get", "repos", ("repo", "backuprepository")),
    ("describe", "backups", ("backup",)),
    ("describe", "restores", ("restore",)),
    ("describe", "schedules", ("schedule",)),
    ("delete", "backup", ("backups",)),
    ("delete", "restore", ("restores",)),
    ("delete", "schedule", ("schedules",)),
    ("delete", "backup-location", ("backup-locations",)),
]


@pytest.mark.parametrize(
    ("verb", "noun", "aliases"), VERB_FORMS, ids=[f"{verb} {noun}" for verb, noun, _ in VERB_FORMS]
)
def test_both_forms_are_one_command(verb: str, noun: str, aliases: tuple[str, ...]) -> None:
    of_noun = command(noun.removesuffix("s"), verb)

    assert of_noun is not None
    for spelling in (noun, *aliases):
        assert command(verb, spelling) is of_noun


def test_the_verb_forms_are_complete() -> None:
    for verb in ("create", "get", "describe", "delete"):
        group = command(verb)
        assert isinstance(group, Group)
        listed = group.list_commands(click.Context(group))
        ours = ["backup-locations", "snapshot-locations"] if verb == "describe" else []
        assert sorted(listed) == sorted([*ours, *(noun for of, noun, _ in VERB_FORMS if of == verb)])
    assert command("describe", "plugins") is None
    assert command("get", "backups.example.com") is None


def test_an_alias_is_in_no_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["get", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "List schedules." in shown
    assert "  schedule " not in shown
    shown = " ".join(shown.split())
    assert (
        "List backups, restores, schedules, backup-locations, snapshot-locations, plugins and repos." in shown
    )


@pytest.mark.found("op-20")
def test_the_short_names_are_those_of_the_definitions() -> None:
    of_api = {short: kind.plural for kind in KINDS for short in kind.short_names}

    for noun, words in NOUNS.items():
        for short in (word for word in words if word in of_api):
            assert noun_of(of_api[short]) == noun_of(short) == noun
    assert {"bak", "rst", "sched", "bsl", "vsl", "nab", "nar", "nabsl"} <= {
        w for ws in NOUNS.values() for w in ws
    }
    assert command("bsl", "get") is command("backup-location", "get")


def leaves(group: Group, *path: str) -> list[tuple[tuple[str, ...], click.Command]]:
    found: list[tuple[tuple[str, ...], click.Command]] = []
    for name in group.list_commands(click.Context(group)):
        sub = group.get_command(click.Context(group), name)
        assert sub is not None, (*path, name)
        found.append(((*path, name), sub))
        if isinstance(sub, Group):
            found += leaves(sub, *path, name)
    return found


ALL = leaves(cli)


@pytest.mark.parametrize(("path", "found"), ALL, ids=[" ".join(path) for path, _ in ALL])
def test_each_command_has_its_help(
    capsys: pytest.CaptureFixture[str], path: tuple[str, ...], found: click.Command
) -> None:
    assert run([*path, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: pinnace {' '.join(path)} [OPTIONS]")
    undocumented = [
        param.opts
        for param in found.params
        if isinstance(param, click.Option) and not param.hidden and not param.help
    ]
    assert undocumented == []


def test_the_command_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["backup"], ["backup", "create"], ["get", "backups"]):
        assert run([*words, "--help"]) == 0
        expected = capsys.readouterr().out
        assert run(["help", *words]) == 0
        assert capsys.readouterr().out == expected
    assert run(["help", "backup", "creat"]) == 1
    assert 'unknown command "creat" for "pinnace backup"' in capsys.readouterr().err
    assert run(["help", "version", "x"]) == 1


@pytest.mark.found("X12")
@pytest.mark.parametrize(
    "words", [[], ["backup"], ["client", "config"], ["nonadmin"], ["restic", "repo"]], ids=str
)
@pytest.mark.parametrize("flags", [[], ["-n", "x"], ["--location", "./b"]], ids=str)
def test_a_group_without_a_command_prints_its_help_and_is_no_error(
    capsys: pytest.CaptureFixture[str], words: list[str], flags: list[str]
) -> None:
    assert run([*words, "--help"]) == 0
    expected = capsys.readouterr()

    for order in ([*words, *flags], [*flags, *words]):
        assert run(order) == 0
        assert capsys.readouterr() == expected


@pytest.mark.found("X12")
def test_an_unknown_command_of_a_group_is_still_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "-n", "x", "creat"]) == 1
    assert 'unknown command "creat" for "pinnace backup"' in capsys.readouterr().err


def test_help_of_a_schedule_explains_cron(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schedule", "create", "--help"]) == 0
    shown = capsys.readouterr().out
    assert "| | | | .----- day of the week (0-6, Sunday is 0)" in shown
    assert "@every 6h" in shown
    assert "'CRON_TZ=Europe/Berlin 0 7 * * *'" in shown


def test_bug(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from pinnace import __version__

    monkeypatch.setattr(bug_report, "_kubectl_version", lambda: "Client Version: v1.30.2")
    assert run(["bug", "--features", "EnableCSI,foo"]) == 0

    shown, warnings = capsys.readouterr()
    assert warnings == ""
    assert "**What steps did you take and what happened?**" in shown
    assert f"- Version: v{__version__}\n- Features: EnableCSI, foo\n" in shown
    assert "- kubectl: Client Version: v1.30.2\n" in shown


class Kubectl:
    """Answers in place of kubectl."""

    def __init__(self, result: subprocess.CompletedProcess[str] | Exception) -> None:
        self.result = result
        self.words: list[str] = []

    def __call__(self, words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        assert options["timeout"] == 5
        self.words = words
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_kubectl_is_asked_for_its_own_version(monkeypatch: pytest.MonkeyPatch) -> None:
    output = "Client Version: v1.30.2\n Kustomize Version: v5\n"
    kubectl = Kubectl(subprocess.CompletedProcess([], 0, output))
    monkeypatch.setattr("shutil.which", lambda _: "/bin/kubectl")
    monkeypatch.setattr("subprocess.run", kubectl)

    found, warnings = bug_report.facts(())

    # With --client: the cluster is not asked.
    assert kubectl.words == ["/bin/kubectl", "version", "--client"]
    assert (found.kubectl, warnings) == ("Client Version: v1.30.2, Kustomize Version: v5", [])
    assert found.features == "none"


@pytest.mark.parametrize(
    ("which", "error", "text"),
    [
        (None, None, "kubectl is not in PATH"),
        ("/bin/kubectl", subprocess.TimeoutExpired("kubectl", 5), "timed out"),
        ("/bin/kubectl", subprocess.CalledProcessError(1, "kubectl"), "non-zero exit status 1"),
        ("/bin/kubectl", PermissionError("no"), "no"),
    ],
)
def test_without_a_working_kubectl_its_version_is_unknown(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    which: str | None,
    error: Exception | None,
    text: str,
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: which)
    if error is not None:
        monkeypatch.setattr("subprocess.run", Kubectl(error))

    assert run(["bug"]) == 0
    shown, warning = capsys.readouterr()
    assert warning.startswith("WARNING: can't get kubectl version: ")
    assert text in warning
    assert "- kubectl: unknown\n" in shown


def test_a_list_of_commands_loads_none_and_shows_what_they_declare() -> None:
    context = click.Context(cli)
    assert {*cli.lazy.values()} <= SHORT_HELP.keys()
    for noun in ("backup", "restore", "schedule", "backup-location", "snapshot-location", "plugin"):
        group = cli.get_command(context, noun)
        assert isinstance(group, Group)

        loaded = {name: group.get_command(context, name) for name in group.list_commands(context)}

        assert group.rows(context) == [(name, short_help_of(each)) for name, each in loaded.items()]
        assert loaded.keys() == {command and command.name for command in loaded.values()}


def test_a_command_without_an_entry_in_the_table_is_loaded_for_its_short_help(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group(name="new", lazy={"ls": "pinnace.cli.browse.ls:ls"})
    monkeypatch.delitem(SHORT_HELP, "pinnace.cli.browse.ls:ls")

    assert group.rows(click.Context(group)) == [("ls", "List what is in a backup.")]
