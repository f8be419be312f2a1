"""Progress on a terminal, in a file, and when nobody reads it any more."""

import io

import pytest

from pinnace.cli.output.progress import ProgressView
from tests.support.clock import FrozenClock


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Deaf(Terminal):
    """A pipe whose reader has gone."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0

    def write(self, _text: str) -> int:
        self.tries += 1
        raise BrokenPipeError


def test_a_terminal_gets_one_line_that_is_redrawn_not_too_often(clock: FrozenClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", stream=stream, clock=clock.monotonic)
    for done in range(100):
        view.update(done, 200)
        clock.advance(0.01)
    view.close()
    view.close()

    drawn = stream.getvalue().removesuffix("\n").split("\r\x1b[K")[1:]
    assert len(drawn) == 11
    assert drawn[0] == f"backup {'░' * 30} 0/200 items  0:00"
    assert drawn[-1] == f"backup {'█' * 14}{'░' * 16} 99/200 items  0:01"


def test_a_file_gets_a_line_every_five_seconds(clock: FrozenClock) -> None:
    stream = io.StringIO()
    view = ProgressView("restore", stream=stream, clock=clock.monotonic)
    for done in range(12):
        view.update(done, 5)
        clock.advance(1)
    view.close()
    assert stream.getvalue() == "restore: 5 of 5 items\nrestore: 10 of 10 items\n"


def test_a_narrow_terminal_gets_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    ProgressView("backup", stream=stream).update(1, 2)
    assert stream.getvalue() == f"\r\x1b[Kbackup {'█' * 12}"


def test_a_reader_that_has_gone_ends_the_drawing_not_the_work(clock: FrozenClock) -> None:
    stream = Deaf()
    view = ProgressView("backup", stream=stream, clock=clock.monotonic)
    for done in range(5):
        view.update(done, 5)
        clock.advance(1)
    view.close()
    assert stream.tries == 1
