"""The private directory of one process that does the work: spools of backups and restores, credential files.

Each server has one, and each run without a server. It is removed when the process ends. The directory of a
process that was killed is removed by the next process: a pod's scratch volume outlives its containers, and a
server that is killed again and again must not fill it, nor may a temporary directory keep the Secrets of a
killed command. A lock shows whether the process still runs, as the kernel releases it however a process ends.
(docs/spec: CTL 15, SRV 12)
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_PREFIX = "pinnace-work-"
_LOCK = "lock"


@asynccontextmanager
async def work_directory(parent: Path | None) -> AsyncIterator[Path]:
    """A new directory below `parent` (the system's temporary directory), mode 0700, removed at the end.

    Raises:
        OSError: it cannot be made.
    """
    root = parent or Path(tempfile.gettempdir())
    made: list[tuple[Path, int]] = []
    await in_thread(remove_leftovers, root)
    try:
        # A cancellation while it is made leaves it in `made`.
        await in_thread(lambda: made.append(_make(root)))
        yield made[0][0]
    finally:
        for path, lock in made:
            await _remove(path, lock)


async def _remove(path: Path, lock: int) -> None:
    try:
        await in_thread(shutil.rmtree, path, ignore_errors=True)
    except RuntimeError:  # the limits of this process allow no thread; what is here may hold Secrets
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def remove_leftovers(root: Path) -> None:
    """Remove the directories of processes that are dead; those of other users are left alone."""
    for path in root.glob(f"{_PREFIX}*"):
        try:
            if not _is_ours(path):
                continue
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue  # just being made, or just being removed, by another
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        else:
            log.info("Removing what a dead process left", directory=path.name)
            shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(lock)


def _make(root: Path) -> tuple[Path, int]:
    path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=root))
    try:
        return path, _lock(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)  # no other process would: it has no lock
        raise


def _lock(path: Path) -> int:
    # Locked before it has its name, so that a living process's lock is never seen free.
    lock = os.open(path / f"{_LOCK}.new", os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    (path / f"{_LOCK}.new").rename(path / _LOCK)
    return lock


def _is_ours(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
