"""The worker of a server that a run occupies, and gives back while it only waits for an object store.

A server runs few backups and restores at once, so that their hooks do not meet, and one that waits for a
location that does not answer must not keep the others from beginning. (docs/adr/014)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock

if TYPE_CHECKING:
    # Commands load this module for `WorkerSlot`, and have no queue.
    from pinnace.runtime.keys import Key
    from pinnace.runtime.queue import RateLimitedQueue

PATIENCE_SECONDS: Final = 2.0
"""A store that answers within this time does not change the order of runs."""


class WorkerSlot:
    """The worker of one run; this class is for commands, which do one thing at a time and never wait."""

    def give_back(self) -> None:
        """Give the worker back, as from now on the run only waits for a store. Idempotent."""

    async def take(self) -> None:
        """Take a worker again, after waiting until one is free, if it was given back. Idempotent."""

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While the block waits for a store, give the worker back if that takes long.

        Call `take` after the block before anything that needs the worker.
        """
        yield


class QueueWorkerSlot(WorkerSlot):
    """The worker that a key of a work queue was handed to.

    Args:
        key: the key that is being processed.
        clock: measures `PATIENCE_SECONDS`; the event loop's if None.
    """

    def __init__(self, queue: "RateLimitedQueue[Key]", key: "Key", *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._queue = queue
        self._key = key
        self._clock = clock

    def give_back(self) -> None:
        self._queue.release(self._key)

    async def take(self) -> None:
        await self._queue.regain(self._key)

    @contextmanager
    def lent(self) -> Iterator[None]:
        timer = self._clock.call_later(PATIENCE_SECONDS, self.give_back)
        try:
            yield
        finally:
            timer.cancel()
