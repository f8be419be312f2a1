"""SIGINT and SIGTERM end a server in order. (docs/spec: SRV 13)"""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)


@contextmanager
def stop_on_signals(stop: asyncio.Event, *, on_stop: Callable[[], None] = lambda: None) -> Iterator[None]:
    """While inside, both signals set the event, and `on_stop` is called; further ones change nothing."""

    def received(signum: signal.Signals) -> None:
        if not stop.is_set():
            log.info(f"Received signal {signum.name}, shutting down")
            on_stop()
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
