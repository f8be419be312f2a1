"""Commands without a display of progress say on stderr that the API server is away."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from pinnace.cli.progress.away import saying_when_away
from pinnace.kube.transport.silence import Silence
from tests.support.clock import FrozenClock

pytestmark = pytest.mark.found("row 55")


async def run(clock: FrozenClock, *, is_shown: bool = False) -> None:
    """A request that is answered after 100 seconds."""
    silence = Silence(300, clock.monotonic)
    silence.is_shown = is_shown
    client: Any = SimpleNamespace(silence=silence)
    ended = asyncio.Event()
    silence.sent("get")

    async def sleep(seconds: float) -> None:
        if clock.advance(seconds) and clock.monotonic() == 100:
            silence.answered("get")
        if clock.monotonic() > 105:
            ended.set()
        await asyncio.sleep(0)

    async with saying_when_away(client, sleep=sleep):
        await ended.wait()


async def test_it_is_said_now_and_then_and_that_it_is_over(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(clock)
    assert capsys.readouterr().err.splitlines() == [
        "The API server has not answered for 10 s; waiting up to 5m (--api-timeout).",
        "The API server has not answered for 30 s; waiting up to 5m (--api-timeout).",
        "The API server has not answered for 90 s; waiting up to 5m (--api-timeout).",
        "The API server answers again, after 99 s.",
    ]


async def test_a_display_of_progress_says_it_alone(
    clock: FrozenClock, capsys: pytest.CaptureFixture[str]
) -> None:
    await run(clock, is_shown=True)
    assert capsys.readouterr().err == ""
