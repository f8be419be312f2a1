"""Run a program that is killed when its parent dies: `leash.py PARENT_PID PROGRAM ARG...`.

Linux delivers the signal chosen by PR_SET_PDEATHSIG when the parent is gone for whatever reason, SIGKILL
included, so that a killed test run leaves no servers behind. The setting survives the exec below. A script
of its own rather than `preexec_fn`, which is unsafe in a process with threads. Elsewhere than on Linux
there is no such signal: there the parent's orderly stop is all there is.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent, then become the program."""
    parent_pid, program = int(sys.argv[1]), sys.argv[2]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:
        # The parent died before the line above: no signal will come any more.
        sys.exit("the parent process is gone")
    os.execv(program, sys.argv[2:])  # noqa: S606 - becoming the program is the point


if __name__ == "__main__":
    main()
