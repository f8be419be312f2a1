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
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.controllers.node.reconciler import PodVolumeFailed

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@asynccontextmanager
async def held(path: Path, *, is_mount_point: Callable[[Path], bool] | None = None) -> AsyncIterator[None]:
    """Keep a volume from being unmounted in the body; a device is held by what reads or writes it.

    Args:
        is_mount_point: for a volume that is a mount wherever it is in use; raises OSError.

    Raises:
        PodVolumeFailed: it cannot be opened, is not mounted, or is not there any more at the end of the body.
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
        if is_mount_point is not None:
            await _check_mounted(path, is_mount_point)
        yield
        if not await in_thread(_is_still, path, opened[0]):
            raise PodVolumeFailed(
                "the volume was taken away from its node during the transfer, so that files may be missing"
            )
    finally:
        for directory in opened:
            os.close(directory)


async def _check_mounted(path: Path, is_mount_point: Callable[[Path], bool]) -> None:
    """Refuse the bare directory that is left where a volume was unmounted. Raises PodVolumeFailed."""
    try:
        if await in_thread(is_mount_point, path):
            return
    except OSError as error:
        raise _cannot_open(path, error) from error
    raise PodVolumeFailed(
        f"the volume is not mounted on its node any more: {path} is no mount point, and what is there is not"
        " the data of the volume. Delete the pod, so that its volume is mounted again with a new one"
    )


def _cannot_open(path: Path, error: OSError) -> PodVolumeFailed:
    return PodVolumeFailed(f"error opening the volume on host: {error.strerror}: {path}")


def _is_still(path: Path, directory: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(directory))
    except OSError:
        return False
