"""Runs a plugin's program so that it ends with this server.

A script: `parent_death.py SERVER_PID PROGRAM ARG...`. A server that is killed cannot end its children, and
compiled plugins do not notice that it is gone. Linux sends a signal, chosen by PR_SET_PDEATHSIG and kept
across an exec, when the thread that started a process ends. This is a separate script because `preexec_fn` is
unsafe in a process with threads, such as those of gRPC. On other systems programs are started without it.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

NOT_STARTED = "cannot be started: "
"""The beginning of the text on standard error if the program cannot be executed."""

_PR_SET_PDEATHSIG = 1


def ended_with_this_process(command: Sequence[str | Path]) -> list[str]:
    """Return the command that runs a program which the kernel ends when this process ends."""
    plain = [str(part) for part in command]
    if sys.platform != "linux":
        return plain
    # Without the environment and installed packages, which also makes the start quick.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *plain]


def main() -> None:
    """Tie this process to its parent, then become the program."""
    server, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        sys.exit("the server is gone")  # it ended before the line above: no signal will come
    try:
        os.execv(program, sys.argv[2:])  # noqa: S606 - replaces this process by the program
    except OSError as error:
        sys.exit(f"{NOT_STARTED}{error.strerror}")


if __name__ == "__main__":
    main()
