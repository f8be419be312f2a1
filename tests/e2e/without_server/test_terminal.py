"""Output on a terminal, into a pipe, and into a closed pipe."""

import os
import re
import signal
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from tests.e2e.without_server.command import Pinnace

ESCAPE = "\x1b"


async def test_a_terminal_gets_a_progress_bar_and_colours(
    pinnace: Pinnace, world: str, client: KubeClient
) -> None:
    target = f"{world}-terminal"
    backup = await pinnace.on_terminal("backup", "create", "b1", "--include-namespaces", world)
    assert backup.code == 0
    assert re.search(r"\r\x1b\[Jbackup [█]{30} (\d+) of \1 items  [^\n]*0:\d\d\r\n", backup.out), backup.out
    assert "Backup b1 Completed: " in backup.out.splitlines()[-1]

    pinnace.environ["PYTHONIOENCODING"] = "ascii"  # a terminal that knows no blocks
    restore = await pinnace.on_terminal(
        *("restore", "create", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )
    assert restore.code == 0
    assert re.search(r"\r\x1b\[Jrestore [#]{30} (\d+) of \1 items  [^\n]*0:\d\d\r\n", restore.out), (
        restore.out
    )
    assert f"{ESCAPE}[32mCompleted{ESCAPE}[0m" in (await pinnace.on_terminal("backup", "describe")).out
    plain = await pinnace.on_terminal("backup", "describe", "--colorized=false")
    assert ESCAPE not in plain.out
    await client.delete(NAMESPACES, target)


async def test_what_doctor_and_diff_say_is_coloured_on_a_terminal(pinnace: Pinnace, world: str) -> None:
    flags = ("--include-namespaces", world)
    assert (await pinnace("backup", "create", "b1", *flags, "--include-resources", "configmaps")).code == 0
    assert (await pinnace("backup", "create", "b2", *flags)).code == 0

    doctor = await pinnace.on_terminal("doctor")
    diff = await pinnace.on_terminal("backup", "diff", "b1", "b2")

    assert f"{ESCAPE}[32mOK      {ESCAPE}[0m kubeconfig" in doctor.out
    assert f"{ESCAPE}[32m+ secrets/" in diff.out
    assert "\\x1b" not in doctor.out + diff.out


@pytest.mark.parametrize("columns", [40, 80, 200])
async def test_no_line_of_progress_wraps(pinnace: Pinnace, world: str, columns: int) -> None:
    pinnace.environ["PYTHONUNBUFFERED"] = "1"
    made = await pinnace.on_terminal("backup", "create", "b1", "--include-namespaces", world, columns=columns)
    assert made.code == 0
    drawn = [line for part in made.out.split("\x1b[J")[1:] for line in part.split("\n")[:1]]
    assert drawn
    assert all(len(line.rstrip("\r\n")) < columns for line in drawn), drawn
    assert ("█" in drawn[-1]) == (columns > 40)


async def test_commands_for_programs_print_no_progress(pinnace: Pinnace, world: str) -> None:
    quiet = await pinnace("backup", "create", "b1", "--include-namespaces", world, "--progress", "none")
    assert (quiet.code, quiet.told, quiet.err.count("\n")) == (0, "", 1)  # only the cluster is named
    named = await pinnace("backup", "create", "b2", "--include-namespaces", world, "-o", "name")
    assert (named.code, named.out) == (0, "backup.velero.io/b2\n")


async def test_a_pipe_gets_plain_text(pinnace: Pinnace, world: str) -> None:
    flags = ("--include-namespaces", world, "--include-resources", "configmaps")
    outcome = await pinnace("backup", "create", "b1", *flags)
    assert len(outcome.lines) == 2
    assert ESCAPE not in outcome.out
    assert "\r" not in outcome.out
    assert ESCAPE not in (await pinnace("backup", "describe", "b1")).out
    assert f"{ESCAPE}[32mCompleted" in (await pinnace("backup", "describe", "b1", "--colorized=true")).out


async def test_a_closed_pipe_ends_the_command_quietly(pinnace: Pinnace, location: Path, world: str) -> None:
    flags = ("--include-namespaces", world)
    outcome, shown = await pinnace.piped_into("head -0", "backup", "create", "b1", *flags)
    assert (outcome.code, outcome.told, shown) == (0, "", "")  # its reader has gone
    assert (location / "backups/b1/velero-backup.json").exists()

    # More than a pipe holds, so that the command is still writing when its reader leaves.
    log = location / "backups/b1/b1-logs.gz"
    log.write_bytes(b"a line of a long log\n" * 100_000)
    outcome, shown = await pinnace.piped_into("head -1", "backup", "logs", "b1")
    assert (outcome.code, outcome.err, shown) == (1, "", "a line of a long log\n")
    for command in (("backup", "get", "-o", "yaml"), ("backup", "describe", "--details")):
        outcome, _ = await pinnace.piped_into("head -0", *command)
        assert (outcome.code, outcome.err) == (1, "")


@pytest.mark.found("row 55")
async def test_an_api_server_that_hangs_is_named_and_so_is_its_return(
    pinnace: Pinnace, world: str, control_plane: ControlPlane
) -> None:
    pid = control_plane.processes["kube-apiserver"].pid
    os.kill(pid, signal.SIGSTOP)
    try:
        running = await pinnace.start(
            *("backup", "create", "b1", "--include-namespaces", world, "--progress", "plain")
        )
        assert running.process.stderr is not None
        said = await running.process.stderr.readuntil(b"waiting up to 5m")
    finally:
        os.kill(pid, signal.SIGCONT)
    made = await running.finish()

    assert re.search(rb"the API server has not answered for \d+ s; ", said)
    assert re.search(r"The API server answers again, after \d+ s\.", made.err), made.err
    assert "Backup b1 Completed: " in made.out
