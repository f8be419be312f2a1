"""Signals end a server in order."""

import asyncio
import logging
import os
import signal

import pytest

from pinnace.aio.racing import unless_stopped
from pinnace.server.signals import stop_on_signals


async def delivered() -> None:
    """Return when the signals that were sent before have been handled: the loop handles them in order."""
    last, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, last.set)
    os.kill(os.getpid(), signal.SIGUSR1)
    await last.wait()
    loop.remove_signal_handler(signal.SIGUSR1)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_sets_the_event_once(signum: signal.Signals, caplog: pytest.LogCaptureFixture) -> None:
    stop = asyncio.Event()
    with caplog.at_level(logging.INFO), stop_on_signals(stop):
        os.kill(os.getpid(), signum)
        await stop.wait()
        os.kill(os.getpid(), signum)
        await delivered()

    assert caplog.messages == [f"Received signal {signum.name}, shutting down"]


async def test_the_first_signal_begins_the_stop() -> None:
    stop, begun = asyncio.Event(), []
    with stop_on_signals(stop, on_stop=lambda: begun.append(True)):
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        await delivered()
    assert begun == [True]


async def test_handlers_are_removed_at_the_end() -> None:
    with stop_on_signals(asyncio.Event()):
        pass

    assert not asyncio.get_running_loop().remove_signal_handler(signal.SIGTERM)


async def test_work_before_the_stop_gives_its_result() -> None:
    async def work() -> int:
        return 7

    assert await unless_stopped(asyncio.Event(), work()) == 7


async def test_work_is_cancelled_by_the_stop() -> None:
    stop = asyncio.Event()
    cleaned = []

    async def work() -> int:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)
        return 7

    assert await unless_stopped(stop, work()) is None
    assert cleaned == [True]


async def test_failures_of_the_work_are_raised() -> None:
    async def work() -> int:
        raise LookupError

    with pytest.raises(LookupError):
        await unless_stopped(asyncio.Event(), work())
