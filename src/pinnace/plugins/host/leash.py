"""Runs a plugin's program so that it dies with this server: a script, `leash.py SERVER_PID PROGRAM ARG...`.

A server that is killed cannot end its children, and compiled plugins do not notice that it has gone. Linux
sends a signal, chosen by PR_SET_PDEATHSIG and kept across an exec, when the thread that started a process
ends. A program of its own, as `preexec_fn` is unsafe in a process with threads, gRPC's above all. Elsewhere
than on Linux programs are started without it.
"""

import ctypes
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

NOT_STARTED = "cannot be started: "
"""Begins what is written to standard error if the program cannot be executed."""

_PR_SET_PDEATHSIG = 1


def leashed(command: Sequence[str | Path]) -> list[str]:
    """The command that runs a program on a leash to this process."""
    plain = [str(part) for part in command]
    if sys.platform != "linux":
        return plain
    # Neither the environment nor what is installed has a say, which also makes it quick to start.
    return [sys.executable, "-I", "-S", __file__, str(os.getpid()), *plain]


def main() -> None:
    """Tie this process to its parent, then become the program."""
    server, program = int(sys.argv[1]), sys.argv[2]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != server:
        sys.exit("the server has gone")  # before the line above: no signal will come any more
    try:
        os.execv(program, sys.argv[2:])  # noqa: S606 - to become the program is what this is for
    except OSError as error:
        sys.exit(f"{NOT_STARTED}{error.strerror}")


if __name__ == "__main__":
    main()
