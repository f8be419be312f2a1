"""Makes sure that a volume was there, and whole, for as long as it was saved or filled.

kopia treats files that vanish while it reads as deleted by the application, and saves the rest. That is right
for a volume in use. But when the kubelet takes a volume away, as its pod is deleted or has ended, everything
vanishes, and the snapshot would count as complete. An uploader that fills a volume after it was unmounted
writes to the disk of the node.

A mounted volume stays mounted while a directory of it is open. After an unmount by force, its path leads to
another directory. The kubelet deletes the content of an emptyDir file by file, which only the state of its
pod shows.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.controllers.node.reconciler import PodVolumeFailed

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@asynccontextmanager
async def held(path: Path) -> AsyncIterator[None]:
    """Keep a volume from being unmounted in the body; a device is held by what reads or writes it.

    Raises:
        PodVolumeFailed: it cannot be opened, or is not there any more at the end of the body.
    """
    try:
        is_device = await in_thread(path.is_block_device)
    except OSError as error:  # such as of a network file system whose server has gone
        raise _cannot_open(path, error) from error
    if is_device:
        yield
        return
    # A list, as what a thread has opened is not returned to a task that was cancelled meanwhile: left open,
    # it would keep the volume mounted for as long as the agent runs.
    opened: list[int] = []
    try:
        try:
            await in_thread(lambda: opened.append(os.open(path, _OPEN_DIRECTORY)))
        except OSError as error:
            raise _cannot_open(path, error) from error
        yield
        if not await in_thread(_is_still, path, opened[0]):
            raise PodVolumeFailed(
                "the volume was taken away from its node during the transfer, so that files may be missing"
            )
    finally:
        for directory in opened:
            os.close(directory)


def is_mounted(path: Path) -> bool:
    """Whether a volume is a mount of its own, which `held` keeps mounted."""
    return os.path.ismount(path)


def _cannot_open(path: Path, error: OSError) -> PodVolumeFailed:
    return PodVolumeFailed(f"error opening the volume on host: {error.strerror}: {path}")


def _is_still(path: Path, directory: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(directory))
    except OSError:
        return False
