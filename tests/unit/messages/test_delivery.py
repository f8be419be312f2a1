"""Tries, back-offs, limits: by a clock that moves on request."""

import asyncio
from collections.abc import Sequence

import pytest

from pinnace.messages.delivery import GIVEN_UP_SECONDS, MOST_AN_HOUR, Delivery, SinkFacts
from pinnace.messages.errors import SinkError
from pinnace.messages.ledger import Ledger
from pinnace.messages.problem import Cause, Notification, Problem, Signal, Topic
from tests.support.clock import FakeClock


class Ear:
    """A sink that hears, or refuses."""

    batch = 1
    takes_runs = False
    refresh_seconds: float | None = None

    def __init__(self) -> None:
        self.heard: list[Notification] = []
        self.attempts = 0
        self.refuses, self.reason = False, "it is shut"
        self.hangs = False

    async def send(self, messages: Sequence[Notification]) -> None:
        self.attempts += 1
        if self.hangs:
            await asyncio.Event().wait()
        if self.refuses:
            raise SinkError(self.reason)
        self.heard += messages


def problems(count: int = 1) -> SinkFacts:
    found = [
        Problem(
            topic=Topic(kind="Schedule", namespace="velero", name=f"s-{number}"),
            cause=Cause.FAILURE,
            since=float(number),
        )
        for number in range(count)
    ]
    return SinkFacts(problems={each.key: each for each in found})


class Stage:
    def __init__(self) -> None:
        self.clock, self.ear, self.saved = FakeClock(), Ear(), 0
        self.restart()

    def restart(self, ledger: Ledger | None = None) -> None:
        self.ledger = ledger or Ledger(since=0.0)
        self.delivery = Delivery(self.ear, self.ledger, self._save, cluster="prod", clock=self.clock)

    async def _save(self, _ledger: Ledger) -> None:
        self.saved += 1

    async def run(self, facts: SinkFacts, seconds: float) -> int:
        """Look as often as the delivery asks for; returns how many were lost."""
        lost, until = 0, self.clock.monotonic() + seconds
        while self.clock.monotonic() < until:
            outcome = await self.delivery.look(facts)
            lost += outcome.lost
            self.clock.turn(max(outcome.again_seconds, 0.001))
        return lost


@pytest.fixture
def stage() -> Stage:
    return Stage()


async def test_a_sink_that_comes_back_hears_the_message_once(stage: Stage) -> None:
    stage.ear.refuses = True
    assert await stage.run(problems(), 1800) == 0
    tries = stage.ear.attempts
    assert 5 <= tries <= 20
    assert (stage.ledger.failure, stage.saved) == ("it is shut", 1)  # for the doctor, and not at each try
    stage.ear.refuses = False
    await stage.run(problems(), 1800)
    assert [each.signal for each in stage.ear.heard] == [Signal.PROBLEM]
    assert (stage.ledger.failure, stage.ledger.failing_since, stage.saved) == ("", 0.0, 2)


async def test_the_time_since_when_a_sink_takes_nothing_outlives_other_reasons_and_its_server(
    stage: Stage,
) -> None:
    stage.ear.refuses = True
    began = stage.clock.now().timestamp()
    await stage.run(problems(), 60)
    stage.restart(stage.ledger)
    stage.ear.reason = "it is shut for good"
    await stage.run(problems(), 600)

    assert (stage.ledger.failure, stage.ledger.failing_since) == ("it is shut for good", began)


async def test_after_an_hour_a_message_is_lost_and_counted_once(stage: Stage) -> None:
    stage.ear.refuses = True
    assert await stage.run(problems(3), GIVEN_UP_SECONDS * 3) == 3
    tries = stage.ear.attempts
    stage.ear.refuses = False
    await stage.run(problems(3), 600)
    assert stage.ear.attempts == tries  # told or given up: nothing is due
    await stage.run(SinkFacts(problems={}), 600)
    assert [each.signal for each in stage.ear.heard] == [Signal.RECOVERY] * 3


async def test_a_sink_that_was_away_hears_the_present_state(stage: Stage) -> None:
    stage.ear.refuses = True
    await stage.run(problems(), 600)
    await stage.run(SinkFacts(problems={}), 600)
    stage.ear.refuses = False
    await stage.run(SinkFacts(problems={}), 600)
    assert stage.ear.heard == []


async def test_a_server_that_starts_again_repeats_nothing_and_loses_nothing(stage: Stage) -> None:
    await stage.run(problems(1), 60)
    stage.restart(stage.ledger)
    await stage.run(problems(2), 60)
    assert [each.topic.name for each in stage.ear.heard] == ["s-0", "s-1"]


async def test_a_sink_has_a_share_of_messages_an_hour(stage: Stage) -> None:
    await stage.run(problems(200), 3500)
    assert len(stage.ear.heard) == MOST_AN_HOUR
    await stage.run(problems(200), 3600)
    assert len(stage.ear.heard) == 2 * MOST_AN_HOUR


async def test_a_sink_that_refreshes_hears_what_goes_on_and_its_end(stage: Stage) -> None:
    stage.ear.refresh_seconds, stage.ear.batch = 300.0, 500
    await stage.run(problems(2), 1790)
    assert len(stage.ear.heard) == 2 * 6
    assert stage.saved == 1
    stage.ear.heard.clear()
    await stage.run(SinkFacts(problems={}), 1800)
    assert [each.signal for each in stage.ear.heard] == [Signal.RECOVERY] * 2


async def test_an_attempt_that_hangs_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pinnace.messages.delivery.ATTEMPT_SECONDS", 0.01)
    stage.ear.hangs = True
    outcome = await stage.delivery.look(problems())
    assert outcome.error.startswith("no answer within")
    assert outcome.again_seconds > 0
