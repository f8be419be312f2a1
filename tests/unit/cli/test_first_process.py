"""The command as the first process of a container, which gets no signal that it has no handler for."""

import os
import shutil
import signal
import subprocess
import sys

import pytest

SECONDS = 20

PROGRAM = """
import sys, time
from unittest import mock
from pinnace.cli import main

def run():
    print("loading", flush=True)
    while True:  # not signal.pause(), which loses a signal that comes just before it
        time.sleep(0.01)

with mock.patch.object(main, "run", run):
    main.main()
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="a process namespace of its own needs root"
)
def test_sigterm_ends_it_while_it_loads() -> None:
    """A server that is still loading has not come to its own handlers."""
    words = ["unshare", "--pid", "--fork", "--kill-child", sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as children:
                os.kill(int(children.read().split()[0]), signal.SIGTERM)
            assert process.wait(SECONDS) == 128 + signal.SIGTERM
        finally:
            process.kill()
