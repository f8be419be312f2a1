"""SIGINT and SIGTERM end a server in order. (docs/spec: SRV 13)"""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

T = TypeVar("T")


@contextmanager
def stop_on_signals(stop: asyncio.Event) -> Iterator[None]:
    """While inside, both signals set the event; further ones change nothing."""

    def received(signum: signal.Signals) -> None:
        if not stop.is_set():
            log.info(f"Received signal {signum.name}, shutting down")
            stop.set()

    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)
    for signum in signals:
        loop.add_signal_handler(signum, received, signum)
    try:
        yield
    finally:
        for signum in signals:
            loop.remove_signal_handler(signum)


async def unless_stopped(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of the work; None if it was cancelled because `stop` came first."""
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (working, stopped):
            task.cancel()
        await asyncio.wait((working, stopped))
    return None if working.cancelled() else working.result()
