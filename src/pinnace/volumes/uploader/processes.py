"""Runs a program as a child process with a deadline; no process is ever left. (docs/spec: PVL 8.5)

It runs in a process group of its own. Asked to stop, restic removes its lock from the repository; so it is
asked first (SIGINT, which all versions obey), and killed with all its children when it does not end.
"""

import asyncio
import errno
import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import IOBase
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pinnace.aio.blocking import finish

QUICK_SECONDS: Final = 300.0
"""The deadline of commands that read or write little; restic retries a silent store for 15 minutes."""

LONG_SECONDS: Final = 24 * 3600.0
"""The deadline of commands that go through a whole repository."""

TRANSFER_SECONDS: Final = 7 * 24 * 3600.0
"""The deadline of saving and restoring a volume: a backup or restore gives up much earlier."""

UNDO_SECONDS: Final = 5.0
"""The deadline of removing the snapshot of a cancelled call; the stop of an agent must not take long."""

ANSWER_BYTES: Final = 1 << 22
LIST_BYTES: Final = 64 << 20
"""How much of an output is kept: of an ordinary answer, and of a list of everything in a repository."""

STOP_SECONDS = 10.0
"""How long restic may take to remove its lock before it is killed."""

STDERR_BYTES = 8192
"""How much of the end of standard error is kept."""

_CHUNK_BYTES = 1 << 16
_KILLED_SECONDS = 5.0


Arguments = tuple[str, ...]
"""What one call of a program does: the sub-command first, without the flags that all calls have."""


class OutputConsumer(Protocol):
    """Takes an output as it comes; must be quick."""

    def feed(self, chunk: bytes) -> None: ...


class Outputs(msgspec.Struct, frozen=True):
    """Where the two outputs of a process go, and where its input comes from.

    Attributes:
        stdout: a sink, or an open file that the process itself writes to.
        stdin: an open file; None for an empty input.
    """

    stdout: OutputConsumer | IOBase
    stderr: OutputConsumer
    stdin: IOBase | None = None


async def run(
    line: Sequence[str],
    *,
    environment: Mapping[str, str],
    outputs: Outputs,
    deadline_seconds: float,
    directory: Path | None = None,
    stop_seconds: float = STOP_SECONDS,
) -> int:
    """Run a program to its end and return its exit code; negative for a signal.

    Both outputs are read at once and handed on in parts, so that memory stays flat. Cancelled, it ends the
    process first.

    Args:
        line: program and arguments.
        environment: all of it; nothing is inherited.
        directory: the working directory.
        stop_seconds: what the process gets to clean up before it is killed.

    Raises:
        OSError: it cannot be started.
        TimeoutError: it did not end in time and was ended.
    """
    if any("\0" in word for word in line):
        raise OSError(errno.EINVAL, "a name, a tag or a setting of the volume has a NUL character")
    process = await asyncio.create_subprocess_exec(
        *line,
        env=environment,
        cwd=directory,
        stdin=outputs.stdin.fileno() if outputs.stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=_descriptor(outputs.stdout),
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(deadline_seconds):
            await _drain_both(process, outputs)
            return await process.wait()
    finally:
        if process.returncode is None:
            ending = _end(process, outputs, stop_seconds)
            await finish(ending, limit_seconds=stop_seconds + _KILLED_SECONDS)


async def _drain_both(process: asyncio.subprocess.Process, outputs: Outputs) -> None:
    assert process.stderr is not None
    async with asyncio.TaskGroup() as group:
        if process.stdout is not None and not isinstance(outputs.stdout, IOBase):
            group.create_task(_drain(process.stdout, outputs.stdout))
        group.create_task(_drain(process.stderr, outputs.stderr))


def _descriptor(stdout: OutputConsumer | IOBase) -> int:
    return stdout.fileno() if isinstance(stdout, IOBase) else asyncio.subprocess.PIPE


async def _drain(stream: asyncio.StreamReader, sink: OutputConsumer) -> None:
    while chunk := await stream.read(_CHUNK_BYTES):
        sink.feed(chunk)


async def _end(process: asyncio.subprocess.Process, outputs: Outputs, stop_seconds: float) -> None:
    _signal(process, signal.SIGINT)
    with suppress(TimeoutError):
        async with asyncio.timeout(stop_seconds):
            # Still read: a process that cannot write does not end.
            await _drain_both(process, outputs)
            await process.wait()
    # Also when it has ended by itself: a child of it (rclone, ssh) may not have.
    _signal(process, signal.SIGKILL)
    await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Signal the whole process group, whose id is that of the process; a group that is gone is no error."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
