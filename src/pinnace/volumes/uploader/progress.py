"""Reports the progress of a backup or restore while it runs. (docs/spec: PVL 7.4)"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from pinnace.aio.blocking import in_thread, settle
from pinnace.aio.clock import Clock
from pinnace.volumes.uploader.output import ByteCounts

log = logging.getLogger(__name__)

OnProgress = Callable[[ByteCounts], Awaitable[None]]
"""Called with the progress of a volume; handles its own errors."""

PROGRESS_SECONDS: Final = 10.0


class ProgressSource(Protocol):
    """A source of progress."""

    async def progress(self) -> ByteCounts | None: ...

    def stop(self) -> None:
        """Let `progress` end soon."""
        ...


class PrintedProgress:
    """The progress that a program prints.

    Args:
        read: the progress in the output so far.
    """

    def __init__(self, read: Callable[[], ByteCounts | None]) -> None:
        self._read = read

    async def progress(self) -> ByteCounts | None:
        return self._read()

    def stop(self) -> None:
        pass


class MeasuredProgress:
    """The progress of a restore, from the size of the directory, as restic 0.12 reports nothing."""

    def __init__(self, directory: Path, total_bytes: int) -> None:
        self._directory = directory
        self._total_bytes = total_bytes
        self._stopped = threading.Event()

    async def progress(self) -> ByteCounts | None:
        try:
            done = await in_thread(directory_size, self._directory, self._stopped)
        except OSError as error:
            log.warning("Cannot measure the progress of a restore", extra={"fields": {"error": error}})
            return None
        return ByteCounts(total_bytes=self._total_bytes, bytes_done=min(done, self._total_bytes))

    def stop(self) -> None:
        self._stopped.set()


@asynccontextmanager
async def reporting(
    source: ProgressSource, on_progress: OnProgress | None, clock: Clock
) -> AsyncIterator[None]:
    """Report progress while the body runs, and stop when it ends."""
    if on_progress is None:
        yield
        return
    task = asyncio.create_task(_report(source, on_progress, clock))
    try:
        yield
    finally:
        source.stop()
        await settle({task}, grace_seconds=0.0)
    if not task.cancelled():
        task.result()


async def _report(source: ProgressSource, on_progress: OnProgress, clock: Clock) -> None:
    reported: ByteCounts | None = None
    while True:
        await clock.sleep(PROGRESS_SECONDS)
        progress = await source.progress()
        if progress is not None and progress != reported:
            await on_progress(progress)
            reported = progress


def directory_size(directory: Path, stopped: threading.Event) -> int:
    """The size in bytes of all files below a directory; links count by their own size.

    Files that disappear meanwhile are left out.

    Args:
        stopped: set to give up early; what was counted so far is returned.

    Raises:
        OSError: a directory cannot be read.
    """
    total, waiting = 0, [os.fspath(directory)]
    while waiting and not stopped.is_set():
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        total += _size(entry)
        except FileNotFoundError:
            continue
    return total


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except FileNotFoundError:
        return 0
