"""Commands without a display of progress say on stderr that the API server is away."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pinnace.cli.progress.away import saying_when_away
from pinnace.kube.transport.silence import Silence
from tests.support.clock import LeapingClock

pytestmark = pytest.mark.found("row 55")


async def run(*, is_shown: bool = False) -> None:
    """A request that is answered after 100 seconds."""
    clock = LeapingClock()
    silence = Silence(300, clock)
    silence.is_shown = is_shown
    client: Any = SimpleNamespace(silence=silence)
    ended = asyncio.Event()
    silence.sent("get")

    def look() -> None:
        if clock.time == 100:
            silence.answered("get")
        if clock.time > 105:
            ended.set()

    clock.on_sleep = look
    async with saying_when_away(client, clock=clock):
        await ended.wait()


async def test_it_is_said_now_and_then_and_that_it_is_over(capsys: pytest.CaptureFixture[str]) -> None:
    await run()
    assert capsys.readouterr().err.splitlines() == [
        "The API server has not answered for 10 s; waiting up to 5m (--api-timeout).",
        "The API server has not answered for 30 s; waiting up to 5m (--api-timeout).",
        "The API server has not answered for 90 s; waiting up to 5m (--api-timeout).",
        "The API server answers again, after 99 s.",
    ]


async def test_a_display_of_progress_says_it_alone(capsys: pytest.CaptureFixture[str]) -> None:
    await run(is_shown=True)
    assert capsys.readouterr().err == ""
