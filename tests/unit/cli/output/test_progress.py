"""Progress on a terminal, in a file, for programs, and when its reader has gone."""

import io
import json

import pytest

from pinnace.cli.output.progress import ProgressView, State, detail_lines, main_line, numbers
from pinnace.context import Activity
from tests.support.clock import FrozenClock

BLOCKS = "█░"


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


def test_a_terminal_gets_lines_that_are_redrawn_not_too_often(clock: FrozenClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", stream=stream, clock=clock.monotonic)
    for done in range(100):
        view.update(done, 200)
        clock.advance(0.01)
    view.update(200, 200)
    view.close()
    view.close()

    drawn = stream.getvalue().removesuffix("\n").split("\r\x1b[J")[1:]
    assert len(drawn) == 11
    assert drawn[0] == f"backup {'░' * 30} 0 of 200 items  0:00"
    assert drawn[-1] == f"backup {'█' * 30} 200 of 200 items  200/s  0:01"


def test_all_lines_of_the_last_drawing_are_erased(clock: FrozenClock) -> None:
    stream = Terminal()
    state = State(done=3, total=9, at_least=True, kinds={"pods": (3, 9)}, hooks=("shop/db freeze",))
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock.monotonic)
    view.update(3, 9)
    view.close()
    assert stream.getvalue().split("\x1b[2A\r\x1b[J")[0].split("\n")[1:] == [
        "  pods: 3 of 9",
        "  hook: shop/db freeze",
    ]


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State(done=0, total=0, at_least=True), "0 items so far"),
        (State(done=341, total=1209, at_least=True), "341 of at least 1,209 items"),
        (State(done=2511, total=8), "2,511 of 2,511 items"),
    ],
)
def test_a_lower_bound_is_called_one(state: State, text: str) -> None:
    assert numbers(state) == text


def test_a_lower_bound_fills_no_bar_and_promises_no_time() -> None:
    state = State(done=8, total=8, at_least=True, seconds=10)
    assert "█" not in main_line("backup", state, 80, BLOCKS)
    assert "ETA" not in main_line("backup", State(done=8, total=80, at_least=True, seconds=10), 80, BLOCKS)
    assert main_line("backup", State(done=50, total=100, seconds=10), 80, BLOCKS).endswith(
        "5/s  0:10  ETA 0:10"
    )
    assert "ETA" not in main_line("backup", State(done=50, total=100, seconds=2), 80, BLOCKS)


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 200])
def test_lines_fit_into_the_columns(columns: int) -> None:
    kinds = {f"{'x' * n}.example.com": (n, n) for n in range(300)}
    state = State(done=10**6, total=10**7, seconds=4000, kinds=kinds, upload_bytes=5 << 30)
    lines = [main_line("restore", state, columns, BLOCKS), *detail_lines(state, columns)]
    assert all(len(line) < max(columns, 2) for line in lines)


def test_many_resources_are_counted() -> None:
    lines = detail_lines(
        State(done=0, total=0, kinds={str(n): (0, n) for n in range(9)}, upload_bytes=1536), 80
    )
    assert (lines[0], lines[6], lines[7]) == ("  8: 0 of 8", "  and 3 more resources", "  uploading 1.5 KiB")


def test_a_file_gets_a_line_every_five_seconds(clock: FrozenClock) -> None:
    stream = io.StringIO()
    view = ProgressView("restore", stream=stream, clock=clock.monotonic)
    for done in range(12):
        view.update(done, 5)
        clock.advance(1)
    view.close()
    assert stream.getvalue() == "restore: 5 of 5 items, 0:05\nrestore: 10 of 10 items, 0:10\n"


def test_a_program_gets_json(clock: FrozenClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", form="json", stream=stream, clock=clock.monotonic)
    clock.advance(4)
    view.update(10, 20)
    assert json.loads(stream.getvalue()) == {
        "type": "progress",
        "what": "backup",
        "itemsDone": 10,
        "totalItems": 20,
        "totalIsFinal": True,
        "seconds": 4.0,
        "etaSeconds": 4.0,
        "resources": {},
        "hooks": [],
        "uploadBytes": 0,
    }


def test_none_shows_nothing(clock: FrozenClock) -> None:
    stream = io.StringIO()
    view = ProgressView("backup", form="none", stream=stream, clock=clock.monotonic)
    clock.advance(60)
    view.update(1, 2)
    view.close()
    assert stream.getvalue() == ""


def test_a_reader_that_has_gone_is_not_written_to_again(clock: FrozenClock) -> None:
    stream = Deaf()
    view = ProgressView("backup", stream=stream, clock=clock.monotonic)
    for done in range(5):
        view.update(done, 9)
        clock.advance(1)
    view.close()
    assert stream.tries == 1


def test_a_total_is_final_when_each_list_has_said_how_long_it_is() -> None:
    activity = Activity()
    activity.plan(2)
    activity.begin("pods")
    activity.page("pods", 500, 700, is_only_list=True)
    assert (activity.unknown, activity.kinds) == (1, {"pods": (500, 1200)})
    activity.begin("secrets")
    activity.page("secrets", 500, None, is_only_list=True)
    assert activity.unknown == 1
    activity.end("secrets")
    activity.end("pods")
    assert (activity.unknown, activity.kinds) == (0, {})
