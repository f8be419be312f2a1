"""Which calls of a program run side by side, and which alone."""

import asyncio

import pytest

from pinnace.plugins.host.turns import Turns
from tests.support.tasks import settled


class Calls:
    """Calls that run until they are released, by name."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.running: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    def begin(self, name: str, *, suspect: bool = False) -> None:
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._run(name, suspect))

    def end(self, name: str) -> None:
        self._ends[name].set()

    async def _run(self, name: str, suspect: bool) -> None:
        async with self.turns.alone() if suspect else self.turns.together():
            self.running.append(name)
            try:
                await self._ends[name].wait()
            finally:
                self.running.remove(name)


@pytest.mark.found("P1")
async def test_a_suspect_runs_alone_and_the_others_wait() -> None:
    calls = Calls()
    calls.begin("a")
    calls.begin("b")
    await settled()
    assert calls.running == ["a", "b"]
    for suspect in ("s1", "s2"):
        calls.begin(suspect, suspect=True)
    await settled()
    calls.begin("late")
    calls.end("a")
    await settled()
    assert calls.running == ["b"]
    for ending, running in (("b", "s1"), ("s1", "s2"), ("s2", "late")):
        calls.end(ending)
        await settled()
        assert calls.running == [running]
    calls.end("late")
    await asyncio.gather(*calls.tasks.values())


@pytest.mark.found("P1")
@pytest.mark.parametrize("cancelled", ["waits", "runs"])
async def test_a_cancelled_suspect_lets_the_others_go_on(cancelled: str) -> None:
    """Also when it is cancelled in the turn in which it might begin."""
    calls = Calls()
    calls.begin("a")
    await settled()
    calls.begin("suspect", suspect=True)
    await settled()
    calls.begin("next", suspect=True)
    calls.begin("late")
    await settled()
    calls.end("a")
    if cancelled == "runs":
        await settled()
        assert calls.running == ["suspect"]
    else:
        await asyncio.sleep(0)  # the call ends in this turn, and the suspect is woken
    calls.tasks["suspect"].cancel()
    await settled()
    assert calls.running == ["next"]
    calls.end("next")
    await settled()
    assert calls.running == ["late"]
    calls.end("late")
    await asyncio.gather(*calls.tasks.values(), return_exceptions=True)
    assert calls.turns.are_free
