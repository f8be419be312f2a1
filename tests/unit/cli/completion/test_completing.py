"""Completion: what is offered at the end of a line, and the answers to the scripts of the shells."""

import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from pinnace.cli.completion.answering import _head, answer, split_line
from pinnace.cli.completion.candidates import Candidates, candidates
from pinnace.cli.completion.line import Line, read_line
from pinnace.cli.completion.names import newest, stored_names
from pinnace.cli.completion.scripts import SHELLS, script
from pinnace.cli.declaring.values import CompletionSource
from pinnace.cli.program import cli, run
from pinnace.cli.usage.topics import TOPICS
from pinnace.storage.providers import PROVIDERS, qualified_provider

NAMES = {
    CompletionSource.BACKUPS: [
        "one",
        "two",
        "$(reboot)",
        "`id`",
        "a;b",
        "-rf",
        "x y",
        "tab\tname",
        "\x1b[31mred",
        "a\nb",
    ],
    CompletionSource.RESTORES: ["one-restored"],
    CompletionSource.SCHEDULES: ["daily"],
    CompletionSource.LOCATIONS: ["default", "second"],
    CompletionSource.SNAPSHOT_LOCATIONS: ["aws-1"],
    CompletionSource.NAMESPACES: ["blog", "shop", "shop-copy"],
    CompletionSource.KINDS: ["pods", "secrets", "deployments.apps"],
    CompletionSource.CONTEXTS: ["admin@prod", "arn:aws:eks:eu-1:1:cluster/main"],
    CompletionSource.TENANT_BACKUPS: ["mine"],
    CompletionSource.TENANT_LOCATIONS: ["my-bucket"],
    CompletionSource.REPOSITORIES: ["shop-default-kopia"],
}


RESOURCES = {
    "v1/Secret": ["shop/password", "blog/key"],
    "apps/v1/Deployment": ["shop/web"],
    "storage.k8s.io/v1/StorageClass": ["fast"],
}


def names_of(source: CompletionSource, line: Line) -> Iterable[str]:
    if source in (CompletionSource.STORED, CompletionSource.STORED_WITH_NAMESPACE):
        return stored_names(RESOURCES, source, line)
    return NAMES[source]


def found(line: str) -> Candidates:
    """The words offered for the last word of a line; a blank at its end begins a new word."""
    return candidates(read_line(cli, split_line(line)[1:]), names_of)


def offered(line: str) -> list[str]:
    return [word for word, _ in found(line).words]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pinnace backup-", ["backup-location"]),
        ("pinnace schedule ", ["create", "delete", "describe", "get", "pause", "prune", "run", "unpause"]),
        ("pinnace -n other schedule d", ["delete", "describe"]),
        ("pinnace --location=/b schedule pa", ["pause"]),
        ("pinnace delete ", ["backup", "backup-location", "restore", "schedule"]),
        ("pinnace describe sch", ["schedules"]),
        ("pinnace client config ", ["get", "set"]),
        ("pinnace client config set n", ["namespace="]),
        ("pinnace plugin get --t", ["--timeout"]),
        ("pinnace schedule create s --schedule @daily --use", ["--use-owner-references-in-backup"]),
        ("pinnace get schedule --show-l", ["--show-labels"]),
        ("pinnace backup describe b --details --c", ["--cacert", "--colorized"]),
        ("pinnace backup describe ", ["one", "two"]),
        ("pinnace describe backup one ", ["two"]),
        ("pinnace backup describe --details t", ["two"]),
        ("pinnace backup logs one ", []),
        ("pinnace backup create ", []),
        ("pinnace backup diff one ", ["two"]),
        ("pinnace restore get ", ["one-restored"]),
        ("pinnace schedule pause da", ["daily"]),
        ("pinnace backup-location set ", ["default", "second"]),
        ("pinnace snapshot-location describe ", ["aws-1"]),
        ("pinnace repo get ", ["shop-default-kopia"]),
        ("pinnace nonadmin backup describe ", ["mine"]),
        ("pinnace nonadmin backup create b --storage-location ", ["my-bucket"]),
        ("pinnace restore create --from-backup ", ["one", "two"]),
        ("pinnace restore create --from-backup=t", ["--from-backup=two"]),
        ("pinnace backup create b --storage-location s", ["second"]),
        ("pinnace backup create b --include-namespaces s", ["shop", "shop-copy"]),
        ("pinnace backup create b --include-namespaces shop,", ["shop,blog", "shop,shop-copy"]),
        ("pinnace backup create b --exclude-resources pods,d", ["pods,deployments.apps"]),
        ("pinnace restore create --namespace-mappings b", ["blog:"]),
        ("pinnace backup ls one s", ["secret", "storageclass.storage.k8s.io"]),
        ("pinnace backup ls one secret/", ["secret/key", "secret/password"]),
        ("pinnace backup show one ", ["deployment.apps/", "secret/", "storageclass.storage.k8s.io/"]),
        ("pinnace backup show one -n blog secret/", ["secret/key"]),
        ("pinnace backup show one storageclass.storage.k8s.io/f", ["storageclass.storage.k8s.io/fast"]),
        ("pinnace restore create --from-backup one --object s", ["secret/", "storageclass.storage.k8s.io/"]),
        ("pinnace restore create --from-backup one --object secret/s", ["secret/shop/password"]),
        ("pinnace history d", ["deployment.apps/"]),
        ("pinnace history secret/", ["secret/key", "secret/password"]),
        ("pinnace history -n blog secret/", ["secret/key"]),
        ("pinnace --kubecontext ", ["admin@prod", "arn:aws:eks:eu-1:1:cluster/main"]),
        ("pinnace -n s", ["shop", "shop-copy"]),
        ("pinnace backup get -o ", ["table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns="]),
        ("pinnace get backups -ow", ["-owide"]),
        ("pinnace backup get -o=w", ["-o=wide"]),
        ("pinnace get backups --output=j", ["--output=json", "--output=jsonpath="]),
        ("pinnace backup describe -o ", ["plaintext", "json"]),
        ("pinnace backup show one pods/a -o ", ["yaml", "json"]),
        ("pinnace backup create b --progress p", ["plain"]),
        ("pinnace backup create b --wait=", ["--wait=true", "--wait=false"]),
        ("pinnace backup create b --wait --exit", ["--exit-code"]),
        ("pinnace backup-location create l --access-mode Read", ["ReadOnly", "ReadWrite"]),
        ("pinnace completion ", ["bash", "zsh", "fish"]),
        ("pinnace completion b", ["bash"]),
        ("pinnace help backup l", ["logs", "ls"]),
        ("pinnace help exit", ["exit-codes"]),
        ("pinnace unknown ", []),
        ("pinnace backup get --unknown ", []),
        ("pinnace backup get -- --", []),
        ("pinnace backup create b --ttl ", []),
    ],
)  # fmt: skip
def test_the_words_that_fit_are_offered(line: str, words: list[str]) -> None:
    assert sorted(offered(line)) == sorted(words)


@pytest.mark.parametrize(
    ("line", "paths"),
    [
        ("pinnace --kubeconfig ", CompletionSource.FILES),
        ("pinnace backup describe --cacert=", CompletionSource.FILES),
        ("pinnace backup download one -o ", CompletionSource.FILES),
        ("pinnace install --secret-file ", CompletionSource.FILES),
        ("pinnace --location ", CompletionSource.FOLDERS),
    ],
)
def test_paths_are_left_to_the_shell(line: str, paths: CompletionSource) -> None:
    assert found(line).paths is paths


def test_every_shown_flag_is_offered_once_and_no_hidden_one() -> None:
    flags = offered("pinnace backup create b --")
    assert {"--ttl", "--include-namespaces", "--kubeconfig", "--location"} <= set(flags)
    assert not {"--vmodule", "--logtostderr", "--volume-group-snapshot-label-key"} & set(flags)
    assert "--ttl" not in offered("pinnace backup create b --ttl 1h --")
    assert "--labels" in offered("pinnace backup create b --labels a=b --")


def test_every_command_is_offered_except_processes_and_hidden_ones() -> None:
    processes = {"server", "node-agent"}  # listed by the help, and typed by no person
    hidden = {"restore-helper", "repo-maintenance", "hold-volume", "compare-files"}
    assert set(offered("pinnace ")) == cli.lazy.keys() - processes - hidden
    assert set(offered("pinnace help ")) >= {*TOPICS, "backup", "server"}


def test_every_provider_is_offered_by_its_short_name() -> None:
    words = offered("pinnace install --provider ")

    assert {qualified_provider(word) for word in words} == PROVIDERS.keys()
    assert {"aws", "pinnace.io/filesystem"} < {*words}


def test_names_that_could_mean_something_to_a_shell_or_terminal_are_not_offered() -> None:
    assert offered("pinnace backup describe ") == ["one", "two"]
    assert offered("pinnace restore create --from-backup '$") == []


def test_the_names_are_asked_from_where_the_line_says() -> None:
    asked: list[tuple[CompletionSource, dict[str, str]]] = []

    def names(source: CompletionSource, line: Line) -> list[str]:
        asked.append((source, line.flags))
        return []

    candidates(read_line(cli, ["--location", "/b", "-n=x", "get", "backups", ""]), names)
    candidates(read_line(cli, ["get", "restores", "--kubecontext", "c", ""]), names)
    assert asked == [
        (CompletionSource.BACKUPS, {"global_location": "/b", "global_namespace": "x"}),
        (CompletionSource.RESTORES, {"global_kubecontext": "c"}),
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pinnace ", ["pinnace", ""]),
        ("pinnace back", ["pinnace", "back"]),
        ("pinnace 'a b' c", ["pinnace", "a b", "c"]),
        ("pinnace 'a b", ["pinnace", "a b"]),
        ('pinnace "a ', ["pinnace", "a "]),
        ("pinnace a\\ b\\", ["pinnace", "a b"]),
        ("pinnace --x=a:b #c", ["pinnace", "--x=a:b", "#c"]),
        ("", [""]),
    ],
)
def test_a_line_of_bash_is_divided_as_bash_does(line: str, words: list[str]) -> None:
    assert split_line(line) == words


def test_bash_gets_the_part_of_a_word_that_it_replaces() -> None:
    breaks = " \t\n\"'><=;|&(:"
    assert _head("--output=js", breaks) == "--output="
    assert _head("--kubecontext=arn:aws:e", breaks) == "--kubecontext=arn:aws:"
    assert _head("--output=js", " \t\n") == ""
    line = "pinnace backup get --output=y"
    assert answer(found(line), _head("--output=y", breaks)) == ["words", "yaml\t"]


def test_nothing_is_answered_where_nothing_fits_and_paths_are_one_word() -> None:
    assert answer(Candidates(), "") == []
    assert answer(Candidates(paths=CompletionSource.FILES), "") == ["files"]
    assert answer(found("pinnace schedule de"), "") == [
        "words",
        "delete\tDelete schedules; their backups stay.",
        "describe\tDescribe schedules.",
    ]


def test_a_script_calls_the_program_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        assert run(["completion", shell]) == 0
        text = capsys.readouterr().out
        assert f"pinnace __complete {shell} " in text
        assert text.endswith("\n")
        assert not {"eval", "PROGRAM", "FUNCTION"} & set(shlex.split(text, comments=True, posix=False))
        assert "_my_pinnace_exe_completion" in script(shell, "my-pinnace.exe")
        assert f"my-pinnace.exe __complete {shell} " in script(shell, "my-pinnace.exe")


@pytest.mark.parametrize("words", [[], ["bash", "zsh"]])
def test_completion_needs_exactly_one_shell(capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    assert run(["completion", *words]) == 1
    assert f"accepts 1 arg(s), received {len(words)}" in capsys.readouterr().err


def test_an_unknown_shell_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", "tcsh"]) == 1
    assert capsys.readouterr() == ("Invalid shell specified, specify bash, zsh, or fish\n", "")


def answered(code: str, home: Path) -> str:
    """The output of a process that answers a shell; it must exit with 0 and print no error."""
    ran = subprocess.run(
        [sys.executable, "-c", f"import sys; from pinnace.cli.main import run\n{code}"],
        capture_output=True, text=True, timeout=60, check=False, env={"HOME": str(home), "PATH": ""},
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_modules_that_an_answer_does_not_need_are_not_loaded(tmp_path: Path) -> None:
    shown = answered(
        "run(['__complete', 'zsh', 'backup', 'create', '--ttl'])\n"
        "heavy = {'aiohttp', 'asyncio', 'yaml', 'pycurl', 'botocore', 'pinnace.kube.client'}\n"
        "print(heavy & set(sys.modules))",
        tmp_path,
    )
    assert (
        shown
        == "words\n--ttl\tHow long to keep the backup; if not given as the server says, or 720h\nset()\n"
    )


def test_a_failure_is_silent(tmp_path: Path) -> None:
    lines = (
        ("zsh", "--kubeconfig", "/nowhere", "backup", "get", ""),
        ("zsh", "--kubeconfig", "/nowhere", "--kubecontext", ""),
        ("zsh", "--location", "/nowhere", "backup", "get", ""),
        ("zsh", "--location", "ftp://x", "backup", "get", ""),
        ("csh", "x"),
    )
    # The alarm of one may end the process before the next; then, too, nothing may be printed.
    assert answered(f"for line in {lines!r}:\n    assert run(['__complete', *line]) == 0", tmp_path) == ""


@pytest.mark.parametrize(
    ("backups", "name"),
    [
        (["z-20260101000000", "a-20260301000000", "b-20260201000000", "zz"], "a-20260301000000"),
        (["one", "two", "~x", "x y"], "two"),
        (["$(x)-20270101000000"], None),
    ],
    ids=["by the time in the name", "by name", "none"],
)
def test_the_newest_backup_is_found_by_its_name(backups: list[str], name: str | None) -> None:
    assert newest(backups) == name
