"""Telling how far a backup or restore is while it goes on. (docs/spec: PVL 7.4)"""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from pinnace.aio.blocking import in_thread, settle
from pinnace.volumes.restic.output import BackupOutput, Progress
from pinnace.volumes.restic.sizes import directory_size

log = logging.getLogger(__name__)

OnProgress = Callable[[Progress], Awaitable[None]]
"""Told how far a volume is; deals with its own errors."""

PROGRESS_SECONDS: Final = 10.0


class Source(Protocol):
    """Knows how far something is."""

    async def progress(self) -> Progress | None: ...

    def stop(self) -> None:
        """Let `progress` end soon."""
        ...


class SaidByRestic:
    """A backup: by what restic says."""

    def __init__(self, output: BackupOutput) -> None:
        self._output = output

    async def progress(self) -> Progress | None:
        return self._output.progress()

    def stop(self) -> None:
        pass


class Measured:
    """A restore: by how much is in the directory, for restic 0.12 says nothing."""

    def __init__(self, directory: Path, total_bytes: int) -> None:
        self._directory = directory
        self._total_bytes = total_bytes
        self._stopped = threading.Event()

    async def progress(self) -> Progress | None:
        try:
            done = await in_thread(directory_size, self._directory, self._stopped)
        except OSError as error:
            log.warning("Cannot tell how far a restore is", extra={"fields": {"error": error}})
            return None
        return Progress(total_bytes=self._total_bytes, bytes_done=min(done, self._total_bytes))

    def stop(self) -> None:
        self._stopped.set()


@asynccontextmanager
async def reporting(
    source: Source, on_progress: OnProgress | None, sleep: Callable[[float], Awaitable[None]]
) -> AsyncIterator[None]:
    """Report while the body runs; however that ends, nothing goes on."""
    if on_progress is None:
        yield
        return
    task = asyncio.create_task(_report(source, on_progress, sleep))
    try:
        yield
    finally:
        source.stop()
        await settle({task}, grace_seconds=0.0)
    if not task.cancelled():
        task.result()


async def _report(source: Source, on_progress: OnProgress, sleep: Callable[[float], Awaitable[None]]) -> None:
    reported: Progress | None = None
    while True:
        await sleep(PROGRESS_SECONDS)
        progress = await source.progress()
        if progress is not None and progress != reported:
            await on_progress(progress)
            reported = progress
