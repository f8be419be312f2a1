"""What a sink is told: once, grouped, and after a restart nothing twice."""

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.messages.ledger import GROUP_SECONDS, REPEAT_SECONDS, Ledger
from pinnace.messages.problem import Cause, Problem, RunStage, Signal, Topic

NIGHTLY = Topic(kind="Schedule", namespace="velero", name="nightly", schedule="nightly")
SINGLE = Topic(kind="Backup", namespace="velero", name="b")


def failed(backup: str = "nightly-1", *, since: float = 100.0) -> dict[str, Problem]:
    problem = Problem(topic=NIGHTLY, cause=Cause.FAILURE, occasion=backup, since=since)
    return {problem.key: problem}


def single(since: float) -> dict[str, Problem]:
    problem = Problem(topic=SINGLE, cause=Cause.FAILURE, since=since, passes=False)
    return {problem.key: problem}


class Listener:
    """Is told at once whatever is due."""

    def __init__(self, since: float = 0.0) -> None:
        self.ledger = Ledger(since=since)
        self.heard: list[tuple[float, Signal, str]] = []
        self.ids: list[str] = []

    def at(self, now: float, problems: dict[str, Problem]) -> list[Signal]:
        found = self.ledger.due(problems, "prod", now)
        for message in found:
            self.ledger.note(message, problems, now)
            self.heard.append((now, message.signal, message.occasion))
            self.ids.append(message.id)
        self.ledger.keep(problems, [], now)
        return [message.signal for message in found]

    def restart(self) -> None:
        self.ledger = msgspec.json.decode(msgspec.json.encode(self.ledger), type=Ledger)


def test_a_problem_and_its_end_are_told_once_also_after_restarts() -> None:
    told = Listener()
    assert told.at(1000, failed()) == [Signal.PROBLEM]
    told.restart()
    assert told.at(1030, failed()) == []
    assert told.at(1000 + REPEAT_SECONDS * 2, failed()) == []
    told.restart()
    assert told.at(1060 + REPEAT_SECONDS * 2, {}) == [Signal.RECOVERY]
    told.restart()
    assert told.at(2000 + REPEAT_SECONDS * 2, {}) == []
    assert told.ledger.told == {}
    assert len(set(told.ids)) == 2


def test_another_failed_run_is_told_after_a_while() -> None:
    told = Listener()
    told.at(0, failed("nightly-1"))
    assert told.at(REPEAT_SECONDS - 1, failed("nightly-2", since=200)) == []
    assert told.at(REPEAT_SECONDS, failed("nightly-3", since=300)) == [Signal.PROBLEM]
    assert told.heard[-1][2] == "nightly-3"


def test_what_flaps_every_minute_is_told_every_five() -> None:
    told = Listener()
    for minute in range(60):
        told.at(minute * 60.0, failed(f"nightly-{minute}", since=minute) if minute % 2 else {})
    assert len(told.heard) <= 60 / 5 + 1
    times = [at for at, _, _ in told.heard]
    assert all(later - earlier >= GROUP_SECONDS for earlier, later in pairwise(times))


def test_what_failed_before_the_sink_was_there_and_never_ends_is_not_told() -> None:
    told = Listener(since=500)
    assert told.at(501, single(since=499)) == []
    assert told.at(502, single(since=501)) == [Signal.PROBLEM]
    told.restart()
    assert told.at(2000, {}) == []  # it was deleted: nothing recovered
    assert told.ledger.told == {}


def test_a_time_from_a_clock_that_was_ahead_silences_nobody() -> None:
    told = Listener()
    told.at(10**9, failed())
    assert told.at(1000, {}) == [Signal.RECOVERY]


@pytest.mark.parametrize("restarts", [False, True])
def test_each_stage_of_a_run_is_told_once(restarts: bool) -> None:
    ledger, heard = Ledger(since=10), []
    for run, signal, since in (
        ("old", Signal.OK, 5),
        ("n-1", Signal.START, 20),
        ("n-1", Signal.START, 20),
        ("n-1", Signal.FAIL, 30),
        ("n-1", Signal.FAIL, 30),
        ("n-2", Signal.OK, 50),
    ):
        stages = [RunStage(topic=NIGHTLY, run=run, signal=signal, since=since)]
        for message in ledger.due_stages(stages, "prod", 60):
            ledger.note(message, {}, 60)
            heard.append((message.occasion, message.signal))
        if restarts:
            ledger = msgspec.json.decode(msgspec.json.encode(ledger), type=Ledger)
    assert heard == [("n-1", Signal.START), ("n-1", Signal.FAIL), ("n-2", Signal.OK)]


@given(st.lists(st.tuples(st.integers(1, 4000), st.booleans()), max_size=60))
def test_whatever_happens_problem_and_recovery_alternate(steps: list[tuple[int, bool]]) -> None:
    told, now, is_bad = Listener(), 0.0, False
    for seconds, is_bad in steps:
        now += seconds
        told.at(now, failed(since=now) if is_bad else {})
        told.restart()
    told.at(now + GROUP_SECONDS + 1, failed(since=now) if is_bad else {})
    signals = [signal for _, signal, _ in told.heard]
    assert signals == [Signal.PROBLEM, Signal.RECOVERY] * (len(signals) // 2) + [Signal.PROBLEM] * (
        len(signals) % 2
    )
    assert bool(signals and signals[-1] is Signal.PROBLEM) == is_bad
