"""Polling against a clock that only sleeping moves."""

import pytest

from pinnace.aio.timing import poll
from tests.support.clock import LeapingClock


class Answers:
    """Yes from a given moment on."""

    def __init__(self, timer: LeapingClock, yes_at: float) -> None:
        self.asked_at: list[float] = []
        self._timer = timer
        self._yes_at = yes_at

    async def __call__(self) -> bool:
        self.asked_at.append(self._timer.time)
        return self._timer.time >= self._yes_at


@pytest.mark.parametrize(
    ("yes_at", "answer", "asked_at"),
    [(0, True, [0]), (2, True, [0, 1, 2]), (3.5, True, [0, 1, 2, 3, 3.5]), (9, False, [0, 1, 2, 3, 3.5])],
)
async def test_it_asks_at_once_every_second_and_at_the_deadline(
    yes_at: float, answer: bool, asked_at: list[float]
) -> None:
    timer = LeapingClock()
    answers = Answers(timer, yes_at)

    assert await poll(answers, clock=timer, timeout_seconds=3.5) is answer
    assert answers.asked_at == asked_at


async def test_pauses_double_up_to_the_longest() -> None:
    timer = LeapingClock()
    answers = Answers(timer, 3)

    assert await poll(answers, clock=timer, timeout_seconds=60, first_pause_seconds=0.25)
    assert answers.asked_at == [0, 0.25, 0.75, 1.75, 2.75, 3.75]
