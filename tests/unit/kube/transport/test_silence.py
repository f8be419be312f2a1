"""How long an API server has been silent, for displays."""

import pytest

from pinnace.kube.errors import ConnectionFailed, status_error
from pinnace.kube.transport.silence import Silence
from tests.support.clock import FakeClock

THROTTLED = status_error(429, {"kind": "Status", "message": "too many"})
BROKEN = status_error(500, {"kind": "Status", "message": "etcdserver: no leader"})


def test_nothing_is_silent_that_was_not_asked(clock: FakeClock) -> None:
    silence = Silence(300, clock)
    clock.turn(60)
    assert silence.seconds == 0
    silence.sent("a")
    silence.ended("a")
    assert silence.seconds == 0


def test_the_oldest_request_without_an_answer_counts(clock: FakeClock) -> None:
    silence = Silence(300, clock)
    silence.sent("a")
    clock.turn(7)
    silence.sent("b")
    clock.turn(5)
    silence.failed("a", ConnectionFailed("refused"))
    silence.sent("a")
    assert silence.seconds == 12
    silence.ended("a")
    assert silence.seconds == 12, "giving up is no answer"


@pytest.mark.found("row 56")
def test_a_server_is_still_away_when_a_request_is_given_up(clock: FakeClock) -> None:
    silence = Silence(15, clock)
    silence.sent("a")
    clock.turn(18)
    silence.failed("a", ConnectionFailed("no answer"))
    silence.ended("a")
    clock.turn(60)
    assert (silence.seconds, silence.is_waited_for) == (18, False)

    silence.sent("b")
    clock.turn(2)
    assert (silence.seconds, silence.is_waited_for) == (80, True)
    silence.answered("b")
    assert silence.seconds == 0


def test_an_answer_to_any_request_ends_the_silence(clock: FakeClock) -> None:
    silence = Silence(300, clock)
    silence.sent("slow")
    clock.turn(20)
    silence.sent("quick")
    silence.answered("quick")
    assert silence.seconds == 0
    clock.turn(4)
    assert silence.seconds == 4


def test_a_refusal_is_an_answer_and_the_pause_after_it_is_not_the_servers(clock: FakeClock) -> None:
    silence = Silence(300, clock)
    silence.sent("a")
    silence.failed("a", THROTTLED)
    clock.turn(60)
    assert silence.seconds == 0
    silence.sent("a")
    clock.turn(3)
    assert silence.seconds == 3


def test_a_fault_of_the_server_is_no_answer_but_is_told_from_none(clock: FakeClock) -> None:
    silence = Silence(300, clock)
    silence.sent("a")
    silence.failed("a", BROKEN)
    clock.turn(30)
    assert (silence.seconds, silence.has_errors) == (30, True)
    silence.answered("a")
    assert (silence.seconds, silence.has_errors) == (0, False)
