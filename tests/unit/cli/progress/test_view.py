"""Progress on a terminal, in a file, for programs, and when its reader has gone."""

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.cli.guard import guarded_terminal
from pinnace.cli.progress.away import Away
from pinnace.cli.progress.lines import detail_lines, main_line, numbers
from pinnace.cli.progress.state import Amount, State, Volume
from pinnace.cli.progress.view import ProgressView
from pinnace.runs.activity import Activity, Reading
from tests.support.clock import FakeClock

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


def test_a_terminal_gets_lines_that_are_redrawn_not_too_often(clock: FakeClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", stream=stream, clock=clock)
    for done in range(100):
        view.update(done, 200)
        clock.turn(0.01)
    view.update(200, 200)
    view.close()
    view.close()

    drawn = stream.getvalue().removesuffix("\n").split("\r\x1b[J")[1:]
    assert len(drawn) == 11
    assert drawn[0] == f"backup {'░' * 30} 0 of 200 items  0:00"
    assert drawn[-1] == f"backup {'█' * 30} 200 of 200 items  200/s  0:01"


def test_a_terminal_that_knows_no_control_characters_gets_plain_lines(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    view = ProgressView("backup", stream=stream, clock=clock)

    view.update(1, 2)
    clock.turn(6)
    view.update(2, 2)
    view.close()

    assert stream.getvalue() == "backup: 2 of 2 items, 0:06\n"


def progress_of(stream: io.StringIO) -> list[Any]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.found("row 98")
def test_numbers_never_go_back(clock: FakeClock) -> None:
    stream = io.StringIO()
    states = iter([(333, 5000), (1, 5000), (1006, 4000), (900, 4000)])
    view = ProgressView(
        "backup",
        form="json",
        details=lambda _d, _t: State(done=(now := next(states))[0], total=now[1], is_estimate=True),
        stream=stream,
        clock=clock,
    )
    for _ in range(4):
        clock.turn(1)
        view.update(0, 0)
    view.finish(1010)

    assert [each["itemsDone"] for each in progress_of(stream)] == [333, 333, 1006, 1006, 1010]
    assert [each["totalIsFinal"] for each in progress_of(stream)] == [False] * 4 + [True]


@pytest.mark.found("row 98")
def test_the_resources_in_flight_do_not_count_as_items(clock: FakeClock) -> None:
    """Filters may leave their objects out, and those of an ended resource are no longer among them."""
    stream = Terminal()
    state = State(done=7, total=4050, kinds={"configmaps": Amount(done=1651, total=4001)})
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock)

    view.update(0, 0)

    assert "7 of 4,050 items" in stream.getvalue().split("\n")[0]


AWAY = Away(seconds=31.2, patience_seconds=300)


def two_states(*, away: Away | None) -> Callable[[int, int], State]:
    """The details of a run whose API server is away at the first look, and back at the second."""
    states = iter([State(done=5, total=9, away=away)])
    return lambda _done, _total: next(states, State(done=6, total=9))


@pytest.mark.found("row 55")
def test_a_terminal_says_that_the_api_server_is_away_and_that_it_is_back(clock: FakeClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", details=two_states(away=AWAY), stream=stream, clock=clock)
    for _ in range(3):
        clock.turn(1)
        view.update(0, 0)
    view.finish(9)

    first, then = stream.getvalue().split("The API server answers again, after 31 s.\n")
    assert first.split("\n")[1].startswith(
        "  the API server has not answered for 31 s; waiting up to 5m\x1b[1A\r\x1b[J"
    )
    assert "has not answered" not in then


@pytest.mark.found("row 55")
@pytest.mark.parametrize(
    ("form", "said"),
    [
        (
            "auto",
            "backup: 5 of 9 items, 0:06, the API server has not answered for 31 s; waiting up to 5m\n"
            "The API server answers again, after 31 s.\n",
        ),
        ("none", ""),
    ],
)
def test_a_file_gets_the_same(clock: FakeClock, form: str, said: str) -> None:
    stream = io.StringIO()
    details = two_states(away=AWAY)
    view = ProgressView("backup", form=form, details=details, stream=stream, clock=clock)
    clock.turn(6)
    view.update(0, 0)
    clock.turn(1)
    view.close()
    assert stream.getvalue() == said


@pytest.mark.found("row 55")
def test_programs_get_it_as_a_number(clock: FakeClock) -> None:
    stream = io.StringIO()
    details = two_states(away=AWAY)
    view = ProgressView("backup", form="json", details=details, stream=stream, clock=clock)
    for _ in range(2):
        clock.turn(1)
        view.update(0, 0)
    assert [each["apiServerSilentSeconds"] for each in progress_of(stream)] == [31.2, 0]


@pytest.mark.parametrize(
    ("away", "text"),
    [
        (Away(seconds=12, patience_seconds=90), "has not answered for 12 s; waiting up to 1m30s"),
        (
            Away(seconds=12, patience_seconds=10),
            "has not answered for 12 s; requests that waited for 10s are given up",
        ),
        (
            Away(seconds=5, patience_seconds=300, is_waited_for=False),
            "has not answered for 5 s; requests that waited for 5m are given up",
        ),
        (
            Away(seconds=12, patience_seconds=300, has_errors=True),
            "has answered with errors only for 12 s; waiting up to 5m",
        ),
    ],
)
def test_the_text_says_how_long_it_is_waited_for(away: Away, text: str) -> None:
    assert away.text == f"the API server {text}"


@pytest.mark.found("row 57")
@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_what_is_printed_does_not_stick_to_what_is_drawn(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    with guarded_terminal():
        view = ProgressView("backup", clock=clock)
        view.update(0, 7)
        print("Backing up to ./big as b1.", file=getattr(sys, name))
        view.finish(7)
        print("Backup b1 Completed.")

    shown = terminal.getvalue()
    assert "\r\x1b[JBacking up to ./big as b1.\nbackup " in shown
    assert shown.endswith(" 7 of 7 items  0:00\nBackup b1 Completed.\n")


def test_all_lines_of_the_last_drawing_are_erased(clock: FakeClock) -> None:
    stream = Terminal()
    state = State(
        done=3, total=9, at_least=True, kinds={"pods": Amount(done=3, total=9)}, hooks=("shop/db freeze",)
    )
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock)
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
        (State(done=8, total=2511, is_estimate=True), "8 of about 2,511 items"),
        (State(done=8, total=8, is_estimate=True), "8 of 8 items"),
    ],
)
def test_a_lower_bound_is_shown_as_at_least(state: State, text: str) -> None:
    assert numbers(state) == text


def test_a_lower_bound_has_no_bar_and_no_remaining_time() -> None:
    state = State(done=8, total=8, at_least=True, seconds=10)
    assert "█" not in main_line("backup", state, 80, BLOCKS)
    assert "ETA" not in main_line("backup", State(done=8, total=80, at_least=True, seconds=10), 80, BLOCKS)
    assert main_line("backup", State(done=50, total=100, seconds=10), 80, BLOCKS).endswith(
        "5/s  0:10  ETA 0:10"
    )
    assert "ETA" not in main_line("backup", State(done=50, total=100, seconds=2), 80, BLOCKS)
    assert State(done=50, total=100, seconds=10, away=AWAY).eta_seconds is None


@pytest.mark.found("row 99")
@pytest.mark.parametrize(
    ("looks", "eta_seconds"),
    [
        pytest.param([(60, 4000), (4, 12000)], 4.0, id="not of the time before the first item"),
        pytest.param([(3, 3)], None, id="not of a single look"),
        pytest.param([(3, 2), (4, 60)], None, id="not of the first three of twenty thousand"),
        pytest.param([(1, 2), (30, 22)], 29967.0, id="but of few items after half a minute"),
        pytest.param([(3, 10000), (4, 10000)], None, id="not of items that were done before the first look"),
    ],
)
def test_the_remaining_time_follows_from_what_was_seen_to_be_done(
    clock: FakeClock, looks: list[tuple[float, int]], eta_seconds: float | None
) -> None:
    stream = io.StringIO()
    view = ProgressView("dry run", form="json", stream=stream, clock=clock)
    for seconds, done in looks:
        clock.turn(seconds)
        view.update(done, 20_000)
    assert progress_of(stream)[-1]["etaSeconds"] == eta_seconds


@pytest.mark.parametrize("columns", [1, 20, 40, 80, 200])
def test_lines_fit_into_the_columns(columns: int) -> None:
    amount = Amount(done=1 << 30, total=5 << 30, rate=1e6)
    state = State(
        done=10**6,
        total=10**7,
        seconds=4000,
        phase="WaitingForPluginOperationsPartiallyFailed",
        kinds={f"{'x' * n}.example.com": Amount(done=n, total=n, at_least=True) for n in range(300)},
        hooks=tuple(f"{'namespace' * n}/pod" for n in range(20)),
        waiting=("volumes of " + "x" * 300,),
        volumes=tuple(Volume(name="v" * n, amount=amount) for n in range(100)),
        volumes_total=100,
        upload=amount,
    )
    lines = [main_line("restore", state, columns, BLOCKS), *detail_lines(state, columns)]
    assert all(len(line) < max(columns, 2) for line in lines)


def test_names_are_cut_before_numbers() -> None:
    amount = Amount(done=1_000, total=20_000, at_least=True, rate=900)
    state = State(
        done=2_882,
        total=9_910,
        at_least=True,
        seconds=3,
        kinds={"csistoragecapacities.storage.k8s.io": amount},
    )
    assert main_line("backup", state, 40, BLOCKS) == "backup 2,882 of at least 9,910 items"
    assert main_line("backup", state, 50, BLOCKS) == "backup 2,882 of at least 9,910 items  961/s  0:03"
    assert detail_lines(state, 40) == ["  csistorag..: 1,000 of at least 20,000"]


def test_a_resource_without_objects_has_no_line() -> None:
    kinds = {"events": Amount(done=0, total=0, at_least=True), "pods": Amount(done=7, total=7)}
    assert detail_lines(State(done=7, total=7, kinds=kinds), 80) == []


@pytest.mark.found("row 97")
def test_a_resource_has_a_line_until_the_lists_of_all_namespaces_are_read() -> None:
    kinds = {"pods": Amount(done=7, total=7, at_least=True, lists=40, lists_done=6)}
    state = State(done=7, total=7, at_least=True, kinds=kinds)
    assert detail_lines(state, 80) == ["  pods: 7 of at least 7, namespace 7 of 40"]
    last = replace(kinds["pods"], lists_done=39)
    assert detail_lines(replace(state, kinds={"pods": last}), 80) == []


def test_narrow_terminals_lose_bars_first_then_rates() -> None:
    volume = Volume(name="shop/db data", amount=Amount(done=1 << 20, total=4 << 20, rate=2048))
    state = State(
        done=1, total=2, volumes=(volume,), volumes_done=1, volumes_total=2, kinds={"pods": volume.amount}
    )
    assert detail_lines(state, 80)[1:] == [
        "  volumes: 1 of 2 done",
        "  shop/db data: █████░░░░░░░░░░░░░░░ 1.0 MiB of 4.0 MiB  2.0 KiB/s",
    ]
    assert detail_lines(state, 50)[2] == "  shop/db data: 1.0 MiB of 4.0 MiB  2.0 KiB/s"
    assert detail_lines(state, 40) == [
        "  pods: 1,048,576 of 4,194,304  2,048/s",
        "  volumes: 1 of 2 done",
        "  shop/db data: 1.0 MiB of 4.0 MiB",
    ]
    assert "█" not in "".join(detail_lines(state, 200, ""))


def test_a_volume_without_progress_shows_what_it_waits_for() -> None:
    waiting = Volume(name="shop/db data", amount=Amount(done=0, total=0))
    told = replace(waiting, waits_for="the pod is not scheduled")
    state = State(done=1, total=2, volumes=(waiting, told), volumes_total=2)
    assert detail_lines(state, 80)[1] == "  shop/db data: waiting for its node agent"
    assert detail_lines(state, 80)[2] == "  shop/db data: the pod is not scheduled"


def test_resources_beyond_six_are_counted() -> None:
    state = State(
        done=0,
        total=0,
        kinds={str(n): Amount(done=0, total=n, at_least=n > 7) for n in range(9)},
        waiting=("volumes of shop/db",),
        upload=Amount(done=512, total=1536),
    )
    lines = detail_lines(state, 30)
    assert (lines[0], lines[1], lines[6]) == ("  8: 0 of at least 8", "  7: 0 of 7", "  and 2 more resources")
    assert lines[7:] == ["  waiting for volumes of shop", "  uploading: 512 B of 1.5 KiB"]


def test_rates_start_when_an_amount_is_first_seen(clock: FakeClock) -> None:
    stream = Terminal()
    done = 100

    def known(items: int, total: int) -> State:
        pods = Amount(done=done, total=1000)
        return State(done=items, total=total, kinds={"pods": pods}, upload=Amount(done=done, total=4000))

    view = ProgressView("backup", details=known, stream=stream, clock=clock)
    view.update(1, 9)
    clock.turn(2)
    done = 500
    view.update(2, 9)

    before, after = stream.getvalue().split("\r\x1b[J")[1:]
    assert before.split("\n")[1] == "  pods: 100 of 1,000"
    assert after.split("\n")[1] == "  pods: 500 of 1,000  200/s"
    assert after.split("\n")[2].removesuffix("\x1b[2A").endswith("500 B of 3.9 KiB  200 B/s")


def test_a_name_cannot_steer_the_terminal(clock: FakeClock) -> None:
    stream = Terminal()
    state = State(done=1, total=2, hooks=("shop/db \x1b[2J\nx",))
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock)
    view.update(1, 2)
    assert "\x1b[2J" not in stream.getvalue()
    assert len(stream.getvalue().split("\n")) == 2


def test_a_terminal_with_only_ascii_gets_plain_bars(clock: FakeClock) -> None:
    class Ascii(Terminal):
        encoding = "ascii"

    stream = Ascii()
    state = State(done=1, total=2, hooks=("shop/db größe",))
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock)
    view.update(1, 2)
    view.finish(2)
    assert "hook: shop/db gr??e" in stream.getvalue()
    assert stream.getvalue().endswith("backup ############################## 2 of 2 items  0:00\n")


def test_an_interrupted_run_keeps_its_last_lower_bound(clock: FakeClock) -> None:
    stream = Terminal()
    state = State(done=3, total=9, at_least=True)
    view = ProgressView("backup", details=lambda _d, _t: state, stream=stream, clock=clock)
    view.update(3, 9)
    view.close()
    assert stream.getvalue().endswith("backup 3 of at least 9 items  0:00\n")


def test_a_file_gets_a_line_every_five_seconds(clock: FakeClock) -> None:
    stream = io.StringIO()
    view = ProgressView("restore", stream=stream, clock=clock)
    for done in range(12):
        view.update(done, 5)
        clock.turn(1)
    view.close()
    assert stream.getvalue() == "restore: 5 of 5 items, 0:05\nrestore: 10 of 10 items, 0:10\n"


def test_json_progress_has_all_numbers(clock: FakeClock) -> None:
    stream = Terminal()
    view = ProgressView("backup", form="json", stream=stream, clock=clock)
    clock.turn(1)
    view.update(1, 21)
    clock.turn(4)
    view.update(11, 21)
    assert progress_of(stream)[-1] == {
        "type": "progress",
        "what": "backup",
        "phase": "",
        "itemsDone": 11,
        "totalItems": 21,
        "totalIsFinal": True,
        "seconds": 5.0,
        "etaSeconds": 4.0,
        "resources": {},
        "hooks": [],
        "waiting": [],
        "volumes": [],
        "volumesDone": 0,
        "volumesTotal": 0,
        "uploadedBytes": 0,
        "uploadBytes": 0,
        "downloadedBytes": 0,
        "apiServerSilentSeconds": 0,
    }
    view.finish(12)
    last = json.loads(stream.getvalue().splitlines()[-1])
    assert (last["itemsDone"], last["totalItems"], last["totalIsFinal"]) == (12, 12, True)


def test_form_none_prints_nothing(clock: FakeClock) -> None:
    stream = io.StringIO()
    view = ProgressView("backup", form="none", stream=stream, clock=clock)
    clock.turn(60)
    view.update(1, 2)
    view.close()
    assert stream.getvalue() == ""


def test_nothing_is_written_after_the_reader_is_gone(clock: FakeClock) -> None:
    stream = Deaf()
    view = ProgressView("backup", stream=stream, clock=clock)
    for done in range(5):
        view.update(done, 9)
        clock.turn(1)
    view.close()
    assert stream.tries == 1


def test_a_total_is_final_when_each_list_has_said_how_long_it_is() -> None:
    activity = Activity()
    activity.plan(["pods", "secrets", "events"])
    activity.begin("pods")
    activity.page("pods", 500, 700, is_only_list=True)
    assert (activity.unknown, activity.kinds["pods"]) == (
        {"secrets", "events"},
        Reading(done=0, total=1200, is_final=True),
    )
    activity.processed("pods", 500)
    activity.begin("secrets")
    activity.page("secrets", 500, None, is_only_list=True)
    assert activity.unknown == {"secrets", "events"}
    activity.counted("events")
    activity.end("secrets")
    assert (activity.unknown, list(activity.kinds)) == (set(), ["pods"])
    assert activity.kinds["pods"].done == 500


def test_lists_of_several_namespaces_add_up() -> None:
    activity = Activity()
    activity.plan(["pods"])
    activity.begin("pods")
    for _ in range(2):
        activity.page("pods", 500, 200, is_only_list=False)
        activity.processed("pods", 500)
        activity.page("pods", 200, 0, is_only_list=False)
        activity.processed("pods", 200)
    assert activity.kinds["pods"] == Reading(done=1400, total=1400, is_final=False)
    assert activity.unknown == {"pods"}


def test_the_upload_never_exceeds_its_total() -> None:
    activity = Activity(upload_bytes=10)
    activity.sent(8)
    activity.sent(8)
    assert activity.sent_bytes == 10
