"""How long the pod volumes of one backup or restore may take together. (docs/spec: BKP 9.3, RST 5)"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

from pinnace.api.labels import POD_VOLUME_TIMEOUT
from pinnace.api.values.durations import Duration
from pinnace.volumes.uploader.locks import RepositoryLocks


class Timeout:
    """The time limit of one backup or restore, counted from its first use. For one event loop.

    Before its first volume a run may wait long for a worker, which says nothing about its volumes.

    Args:
        annotations: of the Backup or Restore; one of them may name another timeout.
        default: the server's.
    """

    def __init__(self, annotations: Mapping[str, str], default: Duration) -> None:
        duration, self._problem = parse_timeout(annotations, default)
        self._seconds = duration.total_seconds()
        self._end: float | None = None

    def limit(self, *, more_seconds: float = 0.0) -> asyncio.Timeout:
        """A context that raises TimeoutError when it waits and the time is up.

        Args:
            more_seconds: how much longer it may wait.
        """
        if self._end is None:
            self._end = asyncio.get_running_loop().time() + self._seconds
        return asyncio.timeout_at(self._end + more_seconds)

    @asynccontextmanager
    async def shared(self, locks: RepositoryLocks, name: str) -> AsyncIterator[None]:
        """Hold a shared lock of a repository. Raises TimeoutError if it is not free in time."""
        async with AsyncExitStack() as stack:
            async with self.limit():
                await stack.enter_async_context(locks.shared(name))
            yield

    def take_problem(self) -> str | None:
        """The problem of the annotation on the first call; None on later calls, or without a problem."""
        problem, self._problem = self._problem, None
        return problem


def parse_timeout(annotations: Mapping[str, str], default: Duration) -> tuple[Duration, str | None]:
    """The timeout that the annotation names, else the default; and what is wrong with the annotation."""
    text = annotations.get(POD_VOLUME_TIMEOUT)
    if not text:
        return default, None
    try:
        return Duration.parse(text), None
    except ValueError as error:
        return default, f"unable to parse pod volume timeout annotation {text}: {error}"
