"""Long output on a terminal goes to a pager, and nothing else does."""

import os
import pty
import sys
import termios
from pathlib import Path

import pytest

from pinnace.cli.pager import pager_of

pytestmark = pytest.mark.found("row 109")

LINES = 24
PROGRAM = """
import sys
from pinnace.cli.guard import guarded_terminal
from pinnace.cli.output.layout import echo_laid_out
from pinnace.cli.pager import paged
with guarded_terminal():
    with paged():
        echo_laid_out("\x1b[32mgreen\x1b[0m\\n", colour=True)
        for number in range(int(sys.argv[1])):
            print(f"line {number} \x07")
print("end")
"""


@pytest.mark.parametrize(
    ("environ", "command"),
    [
        ({}, "less"),
        ({"PAGER": "more -s"}, "more -s"),
        ({"PAGER": "cat"}, ""),
        ({"PAGER": ""}, ""),
        ({"PAGER": "no-such-pager"}, ""),
        ({"PAGER": "'"}, ""),
        ({"NO_PAGER": "1"}, ""),
    ],
)
def test_the_environment_chooses_the_pager(environ: dict[str, str], command: str, tmp_path: Path) -> None:
    for name in ("less", "more", "cat"):
        (tmp_path / name).touch(mode=0o755)
    assert pager_of({**environ, "PATH": str(tmp_path)}) == command


@pytest.fixture
def pager(tmp_path: Path) -> Path:
    """A pager that notes that it ran, shows three lines and quits, as a user does."""
    made = tmp_path / "pager"
    made.write_text(f"#!/bin/sh\necho paged > {tmp_path}/ran\nhead -n 3\n")
    made.chmod(0o755)
    return made


def on_terminal(lines: int, pager: Path) -> tuple[int, str]:
    """The exit code and the output of the program on a terminal of 24 lines."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(PAGER=str(pager), TERM="xterm")
        termios.tcsetwinsize(1, (LINES, 80))
        os.execv(sys.executable, [sys.executable, "-c", PROGRAM, str(lines)])
    shown = b""
    while True:
        try:
            block = os.read(terminal, 65536)
        except OSError:  # Linux says so when the program has ended
            break
        if not block:
            break
        shown += block
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shown.decode()


def test_long_output_is_paged_and_quitting_is_no_error(pager: Path) -> None:
    code, shown = on_terminal(200_000, pager)
    assert (code, (pager.parent / "ran").exists()) == (0, True)
    assert shown.splitlines() == ["\x1b[32mgreen\x1b[0m", "line 0 \\x07", "line 1 \\x07", "end"]


def test_what_fits_on_the_screen_is_printed(pager: Path) -> None:
    code, shown = on_terminal(LINES - 2, pager)
    assert (code, (pager.parent / "ran").exists()) == (0, False)
    assert [line for line in shown.splitlines() if "line" in line] == [
        f"line {number} \\x07" for number in range(LINES - 2)
    ]
