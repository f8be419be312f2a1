"""The launcher of commands: a forked command does what a process of its own does."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.runs.forked_commands import can_fork, run_forked

PROGRAM = Path(sys.executable).with_name("pinnace")
KUBECONFIG = """
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://127.0.0.1:9"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
users: [{name: u, user: {}}]
current-context: x
"""
COMMANDS = {
    "output": ["version", "--client-only"],
    "long output": ["backup", "create", "--help"],
    "folder and missing backup": ["--location", "bucket", "restore", "create", "--from-backup", "b1"],
    "environment": ["backup", "describe", "none"],
    "mistake": ["backup", "crate"],
    "list": ["--location", "bucket", "backup", "get", "-o", "json"],
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "bucket").mkdir()
    (tmp_path / "config").write_text(KUBECONFIG)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "PAGER": "cat",
        "KUBECONFIG": "config",
        "PINNACE_LOCATION": "bucket",
    }


def _alone(words: list[str], folder: Path, environ: dict[str, str]) -> "subprocess.CompletedProcess[bytes]":
    command = [str(PROGRAM), *words]
    return subprocess.run(command, cwd=folder, env=environ, input=b"", capture_output=True, check=False)


@pytest.mark.parametrize("words", COMMANDS.values(), ids=list(COMMANDS))
async def test_a_fork_ends_and_prints_as_a_process_of_its_own(
    words: list[str], tmp_path: Path, environ: dict[str, str]
) -> None:
    alone = await asyncio.to_thread(_alone, words, tmp_path, environ)

    ended = await run_forked(PROGRAM, words, folder=tmp_path, environ=environ, stdin=b"", limit_seconds=60)

    assert (ended.code, ended.out, ended.err) == (alone.returncode, alone.stdout, alone.stderr)


async def test_commands_run_side_by_side_and_get_their_own_folders_and_words(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    folders = [tmp_path / str(number) for number in range(8)]
    for folder in folders:
        (folder / f"bucket-{folder.name}").mkdir(parents=True)
    runs = [
        run_forked(
            PROGRAM,
            ["--location", f"bucket-{folder.name}", "backup", "describe", f"b{folder.name}"],
            folder=folder,
            environ=environ,
            stdin=b"",
            limit_seconds=60,
        )
        for folder in folders
    ]

    ended = await asyncio.gather(*runs)

    for folder, each in zip(folders, ended, strict=True):
        assert f'"b{folder.name}"'.encode() in each.err, each


async def test_a_question_is_answered_by_standard_input(tmp_path: Path, environ: dict[str, str]) -> None:
    backup = tmp_path / "bucket/backups/b1/velero-backup.json"
    backup.parent.mkdir(parents=True)
    metadata = {"name": "b1", "namespace": "velero"}
    backup.write_text(json.dumps({"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": metadata}))
    words = ["backup", "delete", "b1"]

    kept, deleted = [
        (
            await run_forked(PROGRAM, words, folder=tmp_path, environ=environ, stdin=given, limit_seconds=60),
            backup.exists(),
        )
        for given in (b"n\n", b"y\n")
    ]

    assert (kept[1], deleted[1]) == (True, False), (kept, deleted)


async def test_a_command_that_takes_too_long_is_killed(tmp_path: Path, environ: dict[str, str]) -> None:
    """It tries for seconds to reach its cluster."""
    with pytest.raises(TimeoutError):
        await run_forked(
            PROGRAM,
            ["backup", "create", "b1"],
            folder=tmp_path,
            environ=environ,
            stdin=b"",
            limit_seconds=0.3,
        )


@pytest.mark.parametrize(
    ("environ", "can"),
    [({"HOME": "/"}, True), ({"PYTHONPATH": "/"}, False), ({"PYTHONIOENCODING": ""}, False)],
)
def test_variables_of_the_interpreter_need_a_process_of_its_own(environ: dict[str, str], can: bool) -> None:
    assert can_fork(environ) is can
