"""Runs one command many times in child processes, each of which kills itself at another step of its writing.

A program of its own, started by test_killed_backup.py: forking is only safe where no thread runs. Each child
has the location `<locations>/<n>` and dies by SIGKILL at its n-th step; steps are what a filesystem location
does to the disk. Prints one line a child: `<n> <exit status or negative signal>`. The child that ends by
itself is the last.
"""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pinnace.cli.backup.local
import pinnace.cli.restore.local  # noqa: F401 - likewise
from pinnace.cli.program import run
from pinnace.storage.filesystem import store as filesystem
from pinnace.storage.filesystem.spool import SpooledFile

STEPS = ("open", "write", "publish", "discard")


def dying_at(number: int) -> type[SpooledFile]:
    """A spooled file that kills the process before its n-th step, counted over all files."""
    left = number

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def run_step(*args: Any, **kwargs: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*args, **kwargs)

        return run_step

    return type("Dying", (SpooledFile,), {name: counted(getattr(SpooledFile, name)) for name in STEPS})


def child(number: int, locations: Path, arguments: list[str]) -> int:
    """The command, with its output in a file."""
    setattr(filesystem, "SpooledFile", dying_at(number))  # noqa: B010 - a plain assignment is not typed
    with (
        (locations / f"{number}.out").open("w") as out,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(out),
    ):
        return run(["--location", str(locations / str(number)), *arguments])


def main() -> None:
    """`killed_writes.py <locations> <arguments of the command>...`"""
    locations, arguments = Path(sys.argv[1]), sys.argv[2:]
    for number in range(1, 1000):
        process = os.fork()
        if process == 0:
            os._exit(child(number, locations, arguments))
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        print(number, status, flush=True)
        if status >= 0:
            return


if __name__ == "__main__":
    main()
