"""Child processes: outputs, deadlines, and that nothing is left."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from pinnace.volumes.restic.errors import command_failed
from pinnace.volumes.uploader.errors import (
    CommandFailed,
    EmptySnapshot,
    FilesUnreadable,
    RepositoryExists,
    RepositoryLocked,
    RepositoryMissing,
    WrongPassword,
)
from pinnace.volumes.uploader.output import Tail
from pinnace.volumes.uploader.processes import Outputs, run
from tests.support.waiting import eventually

IGNORING = (
    "import os, signal, sys, pathlib, subprocess, time\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "pathlib.Path(sys.argv[1]).write_text(f'{os.getpid()} {child.pid} ')\n"
    "time.sleep(600)\n"
)


async def python(
    code: str, *arguments: str, stdout: Tail | None = None, stderr: Tail | None = None, seconds: float = 60.0
) -> int:
    return await run(
        [sys.executable, "-c", code, *arguments],
        environment=dict(os.environ),
        outputs=Outputs(stdout or Tail(100), stderr or Tail(100)),
        deadline_seconds=seconds,
        stop_seconds=0.2,
    )


async def test_outputs_and_exit_code_are_returned() -> None:
    stdout, stderr = Tail(1 << 20), Tail(10)
    code = "import sys; print('x' * 100000); print('complaint', file=sys.stderr); sys.exit(3)"

    assert await python(code, stdout=stdout, stderr=stderr) == 3
    assert len(stdout.data) == 100_001
    assert stderr.text == "complaint"


async def test_only_the_given_environment_is_inherited(tmp_path: Path) -> None:
    stdout = Tail(1000)

    await run(
        [sys.executable, "-c", "import os; print(sorted(os.environ), os.getcwd(), os.read(0, 1))"],
        environment={"ONLY": "this"},
        outputs=Outputs(stdout, Tail(1000)),
        deadline_seconds=60,
        directory=tmp_path,
    )

    assert "'ONLY'" in stdout.text
    assert "HOME" not in stdout.text
    assert stdout.text.endswith(f"{tmp_path} b''")


async def test_a_process_that_ignores_the_signal_is_killed_with_its_children(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    task = asyncio.create_task(python(IGNORING, str(file)))
    await eventually(lambda: _written(file))
    pids = [int(pid) for pid in file.read_text().split()]

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert len(pids) == 2
    await eventually(lambda: _ended(pids))


async def test_a_process_that_takes_too_long_is_ended() -> None:
    before = _children()

    with pytest.raises(TimeoutError):
        await python("import time; time.sleep(600)", seconds=0.05)

    assert _children() == before


async def test_a_process_that_handles_the_signal_may_clean_up(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    # Programs in Go listen also where the shell that started us in the background has SIGINT ignored.
    code = (
        "import os, pathlib, signal, sys, time\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "try:\n"
        "    path.write_text(f'{os.getpid()} ')\n"
        "    while True: time.sleep(0.01)\n"  # one long sleep misses a signal that comes just before it
        "except KeyboardInterrupt:\n"
        "    path.unlink()\n"
    )
    task = asyncio.create_task(
        run(
            [sys.executable, "-c", code, str(file)],
            environment=dict(os.environ),
            outputs=Outputs(Tail(1), Tail(1)),
            deadline_seconds=60,
        )
    )
    await eventually(lambda: _written(file))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not file.exists()


async def test_a_signal_is_a_negative_code() -> None:
    assert await python("import os, signal; os.kill(os.getpid(), signal.SIGTERM)") == -15


@pytest.mark.spec("PVL-053")
@pytest.mark.parametrize(
    ("code", "stderr", "kind"),
    [
        (
            1,
            "Fatal: unable to open config file\nIs there a repository at the following location?\nx",
            RepositoryMissing,
        ),
        (10, "whatever a newer version says", RepositoryMissing),
        (1, "Fatal: create repository at x failed: config file already exists", RepositoryExists),
        (
            1,
            "create key in repository failed: repository master key and config already initialized",
            RepositoryExists,
        ),
        (1, "unable to create lock in backend: repository is already locked by PID 7", RepositoryLocked),
        (11, "", RepositoryLocked),
        (1, "Fatal: wrong password or no key found", WrongPassword),
        (12, "", WrongPassword),
        (1, "Fatal: unable to save snapshot: snapshot is empty", EmptySnapshot),
        (3, "Warning: at least one source file could not be read", CommandFailed),
        (1, "Fatal: anything", CommandFailed),
    ],
)
def test_failures_are_distinguished(code: int, stderr: str, kind: type[CommandFailed]) -> None:
    error = command_failed("restic x", exit_code=code, stdout="out", stderr=stderr)

    assert type(error) is kind
    assert str(error) == f"error running command=restic x, stdout=out, stderr={stderr}: exit status {code}"


@pytest.mark.parametrize(
    "said",
    [
        '{"message_type":"error","error":{"Op":"open","Path":"f","Err":13},"during":"archival","item":"/v/f"}\n',
        "…n the middle of a line that was cut\n",
    ],
    ids=["unreadable file", "cut off"],
)
def test_a_volume_whose_files_cannot_be_read_is_not_an_empty_one(said: str) -> None:
    """restic leaves them out, and then finds that nothing is left."""
    stderr = f"{said}Fatal: unable to save snapshot: snapshot is empty"

    error = command_failed("restic x", exit_code=1, stdout="", stderr=stderr)

    assert type(error) is FilesUnreadable
    assert error.reason == "the files of the volume cannot be read"


async def _written(file: Path) -> bool:
    return _content(file).endswith(" ")


def _content(file: Path) -> str:
    return file.read_text() if file.exists() else ""


def _children() -> str:
    """Ids of this process's children."""
    return Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text()


async def _ended(pids: list[int]) -> bool:
    return not any(_alive(pid) for pid in pids)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.found("Z7")
async def test_an_argument_that_no_program_can_get_is_named() -> None:
    with pytest.raises(OSError, match="a name, a tag or a setting of the volume has a NUL character"):
        await python("pass", "tag=a\0b")
