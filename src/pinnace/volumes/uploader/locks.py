"""Shared and exclusive locks of repositories, within one process. (docs/spec: PVL 8.4)

They are granted in the order of the requests, so that an exclusive request is not overtaken forever. The
locks are in memory and end with the process; restic's own locks in the repository protect against other
processes, and are removed as stale when their owner is dead.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Lock:
    sharers: int = 0
    is_exclusive: bool = False
    waiting: deque[tuple[bool, asyncio.Future[None]]] = field(default_factory=deque)

    @property
    def is_idle(self) -> bool:
        return not (self.sharers or self.is_exclusive or self.waiting)

    def admits(self, exclusive: bool) -> bool:
        return not self.is_exclusive and not (exclusive and self.sharers)

    def take(self, exclusive: bool) -> None:
        if exclusive:
            self.is_exclusive = True
        else:
            self.sharers += 1

    def release(self, exclusive: bool) -> None:
        if exclusive:
            self.is_exclusive = False
        else:
            self.sharers -= 1
        self.admit()

    def admit(self) -> None:
        """Grant the lock to the next requests. A request leaves the line itself, also a cancelled one."""
        for exclusive, granted in self.waiting:
            if granted.done():
                continue
            if not self.admits(exclusive):
                return
            self.take(exclusive)
            granted.set_result(None)


class RepositoryLocks:
    """The locks of all repositories by name. For the tasks of one event loop."""

    def __init__(self) -> None:
        self._locks: dict[str, _Lock] = {}

    def shared(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold the shared lock: for saving, restoring, opening, and removing stale locks."""
        return self._held(name, exclusive=False)

    def exclusive(self, name: str) -> AbstractAsyncContextManager[None]:
        """Hold the exclusive lock: for making the repository, pruning it and forgetting snapshots."""
        return self._held(name, exclusive=True)

    @asynccontextmanager
    async def _held(self, name: str, *, exclusive: bool) -> AsyncIterator[None]:
        await self._acquire(name, exclusive=exclusive)
        try:
            yield
        finally:
            self._release(name, exclusive=exclusive)

    async def _acquire(self, name: str, *, exclusive: bool) -> None:
        lock = self._locks.setdefault(name, _Lock())
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        request = (exclusive, granted)
        lock.waiting.append(request)
        lock.admit()
        # As in asyncio's Semaphore, whoever waits leaves the line itself: nobody else can have removed it.
        try:
            try:
                await granted
            finally:
                lock.waiting.remove(request)
        except asyncio.CancelledError:
            if granted.cancelled():
                lock.admit()  # the requests behind this one may be next now
                self._drop_idle(name)
            else:
                self._release(name, exclusive=exclusive)
            raise

    def _release(self, name: str, *, exclusive: bool) -> None:
        self._locks[name].release(exclusive)
        self._drop_idle(name)

    def _drop_idle(self, name: str) -> None:
        if self._locks[name].is_idle:
            del self._locks[name]
