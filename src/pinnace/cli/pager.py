"""Shows output that is longer than the screen in a pager, on terminals only.

Pipes and files never get one. `PAGER` names the program, `less` is the default; `PAGER=cat`, an empty one and
`NO_PAGER` turn it off. What fits on the screen is printed as it is.
"""

import io
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final, TextIO, cast

from pinnace.cli.guard import GuardedStream, can_redraw

if TYPE_CHECKING:
    from subprocess import Popen

_DEFAULT: Final = "less"
_LESS_OPTIONS: Final = "FRX"
"""Unless LESS is set, as git does: end on one screen, show colours, leave the text on the terminal."""


def pager_of(environ: Mapping[str, str]) -> str:
    """The command of the pager; empty for none."""
    if environ.get("NO_PAGER"):
        return ""
    command = environ.get("PAGER", _DEFAULT).strip()
    try:
        words = shlex.split(command)
    except ValueError:
        return ""
    is_known = bool(words) and words[0] != "cat" and shutil.which(words[0], path=environ.get("PATH"))
    return command if is_known else ""


@contextmanager
def paged() -> Iterator[None]:
    """Send what is printed inside the context to a pager, if it is longer than the screen.

    A pager that the user quits ends the output, which is no error.
    """
    terminal = sys.stdout
    command = pager_of(os.environ)
    if not command or not isinstance(terminal, GuardedStream) or not can_redraw(terminal.unguarded):
        yield
        return
    pages = _Pages(terminal.unguarded, command, shutil.get_terminal_size().lines)
    sys.stdout = cast(TextIO, GuardedStream(cast(TextIO, pages)))
    try:
        yield
    except BrokenPipeError:
        if not pages.has_begun:
            raise
    finally:
        sys.stdout = terminal
        pages.finish()


class _Pages(io.TextIOBase):
    """Keeps one screen, and starts the pager when there is more."""

    def __init__(self, terminal: TextIO, command: str, room: int) -> None:
        self._terminal = terminal
        self._command = command
        self._room = room
        self._kept: list[str] = []
        self._lines = 0
        self._pager: Popen[bytes] | None = None
        self._sink: TextIO | None = None

    @property
    def encoding(self) -> str:  # type: ignore[override]  # an attribute of the base class that cannot be set
        return self._terminal.encoding

    @property
    def errors(self) -> str | None:  # type: ignore[override]
        return self._terminal.errors

    @property
    def has_begun(self) -> bool:
        """Whether the pager was started."""
        return self._pager is not None

    def isatty(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._sink is None:
            self._kept.append(text)
            self._lines += text.count("\n")
            if self._lines >= self._room:
                self._begin()
        else:
            self._sink.write(text)
        return len(text)

    def flush(self) -> None:
        if self._sink is not None:
            self._sink.flush()

    def _begin(self) -> None:
        import subprocess

        environ = {"LESS": _LESS_OPTIONS, **os.environ}
        try:
            self._pager = subprocess.Popen(  # noqa: S603 - the user's own command, with its options
                ["/bin/sh", "-c", self._command],
                stdin=subprocess.PIPE,
                env=environ,
            )
        except OSError:
            self._sink = self._terminal
        else:
            assert self._pager.stdin is not None
            self._sink = io.TextIOWrapper(
                self._pager.stdin, encoding=self.encoding or "utf-8", errors="backslashreplace"
            )
        self._sink.write("".join(self._kept))
        self._kept.clear()

    def finish(self) -> None:
        """Print what fits on the screen, or wait until the user has quit the pager."""
        if self._pager is None:
            self._terminal.write("".join(self._kept))
            self._terminal.flush()
            self._kept.clear()
            return
        with suppress(BrokenPipeError):
            if self._sink is not None:
                self._sink.close()
        # Ctrl-C is for the pager, which does not end by it.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._pager.wait()
        finally:
            signal.signal(signal.SIGINT, before)
