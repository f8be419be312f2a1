"""Decides which calls of a program may run side by side, and which only alone. (docs/adr/080)"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager


class Turns:
    """Calls run side by side, except that a suspect runs while no other call does.

    A suspect is a call that was in flight when the process ended. While suspects wait, no other call begins:
    a process that ends again convicts the one suspect that it was working for.
    """

    def __init__(self) -> None:
        self._running = 0
        self._suspects = 0
        self._idle = asyncio.Event()
        self._unsuspected = asyncio.Event()
        self._unsuspected.set()
        self._one_suspect = asyncio.Lock()

    @property
    def are_free(self) -> bool:
        """Whether a call may begin at once, by `running`."""
        return self._suspects == 0

    @contextmanager
    def running(self) -> Iterator[None]:
        """The time of a call that may begin at once."""
        self._running += 1
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self._idle.set()

    @asynccontextmanager
    async def together(self) -> AsyncIterator[None]:
        """Wait until there is no suspect; the context is the time of a call."""
        while not self.are_free:
            await self._unsuspected.wait()
        with self.running():
            yield

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no other call runs; the context is the time of a suspect's call."""
        self._suspects += 1
        self._unsuspected.clear()
        try:
            async with self._one_suspect:
                while self._running != 0:
                    self._idle.clear()
                    await self._idle.wait()
                yield
        finally:
            self._suspects -= 1
            if self._suspects == 0:
                self._unsuspected.set()
