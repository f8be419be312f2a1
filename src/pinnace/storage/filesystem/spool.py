"""How a file becomes an object of the filesystem store: spooled, made durable, then renamed into place.

Blocking calls all, made for a worker thread; they raise OSError as it comes.
"""

import errno
import fcntl
import os
import stat
from pathlib import Path
from tempfile import mkstemp

from pinnace.storage.errors import StorageError

SPOOL_DIRECTORY = ".pinnace-spool"
"""Holds objects while they are written. One directory instead of names beside the objects, so that finding
leftovers costs the same in a location with a million files. Removed whenever it is empty, so that a copy of
the location in a bucket shows only Velero's directories."""

_ATTEMPTS = 50
"""How often a directory that was removed because it was empty is created again. Each loss needs a deletion
in the moment between two system calls."""


class SpooledFile:
    """One object on its way in: a locked file in the spool directory.

    The lock tells living writers from dead ones, in any process, container or node that shares the file
    system: the kernel drops it when its holder dies. Process ids could not tell that.
    """

    def __init__(self, root: Path, *, create_root: bool = True) -> None:
        self._root = root
        self._create_root = create_root
        self._spool = root / SPOOL_DIRECTORY
        self._descriptor: int | None = None
        self._path: Path | None = None
        self._written_bytes = 0

    def open(self) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                # Two calls: what `parents` creates would not be private.
                if self._create_root:
                    self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._spool.mkdir(mode=0o700, exist_ok=True)
                self._descriptor, name = mkstemp(dir=self._spool)  # mode 0600
            except (FileNotFoundError, FileExistsError):
                if attempt == _ATTEMPTS:
                    raise  # nothing can be made there, as below /proc
                continue  # another writer removed the empty directory between two calls
            self._path = Path(name)
            _lock(self._descriptor, fcntl.LOCK_EX)
            if self._path.exists():  # else another process removed it as a leftover before it was locked
                return
            self.discard()
        raise StorageError(f"cannot keep a file in {self._spool}")

    def write(self, block: bytes) -> None:
        assert self._descriptor is not None, "open() comes first"
        remaining = memoryview(block)
        while remaining:
            remaining = remaining[os.write(self._descriptor, remaining) :]
        self._written_bytes += len(block)

    def publish(self, target: Path, *, replace: bool = True) -> bool:
        """Make the file the object: on the disk first, then by its name.

        Returns:
            Whether it is the object now; False if there is one that is not to be replaced.
        """
        assert self._descriptor is not None, "open() comes first"
        assert self._path is not None, "open() sets both"
        os.fsync(self._descriptor)
        kept_bytes = os.fstat(self._descriptor).st_size
        if kept_bytes != self._written_bytes:  # a network file system can lose what it took
            raise StorageError(
                f"{self._written_bytes} bytes were written into {self._spool}, but it kept {kept_bytes}"
            )
        for _ in range(_ATTEMPTS):
            try:
                made = _make_directories(self._root, target.parent)
                if replace:
                    self._path.rename(target)
                elif not _link(self._path, target):
                    return False
            except FileNotFoundError:
                continue  # a deletion removed the directory while it was still empty
            for directory in (target.parent, *made):
                sync_directory(directory)
            return True
        raise StorageError(f"cannot create {target.parent}")

    def discard(self) -> None:
        """Close and remove what is left; does nothing to a published file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            remove_if_empty(self._spool)


def _link(path: Path, target: Path) -> bool:
    """Give a file a second name unless the name is taken; return whether it has it now."""
    try:
        target.hardlink_to(path)
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK):
            raise
        # A file system without hard links, where this is the nearest there is.
        if target.exists():
            return False
        path.rename(target)
    return True


def _lock(descriptor: int, operation: int) -> bool:
    """Lock a file; return False if another process holds the lock, or the file system has no locks."""
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS):
            return False
        raise
    return True


def remove_leftovers(spool: Path) -> None:
    """Remove the spool files whose writers are dead."""
    try:
        leftovers = list(spool.iterdir())
    except FileNotFoundError:
        return
    for path in leftovers:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        try:
            if _lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB):  # else its writer is alive
                path.unlink(missing_ok=True)
        finally:
            os.close(descriptor)
    remove_if_empty(spool)


def _make_directories(root: Path, directory: Path) -> list[Path]:
    """Create what is missing below the root; return the parents of what was created. Refuses links."""
    made: list[Path] = []
    current = root
    for segment in directory.relative_to(root).parts:
        parent, current = current, current / segment
        try:
            current.mkdir(mode=0o700)
            made.append(parent)
        except FileExistsError:
            check_directory(current)
    return made


def check_directory(path: Path) -> None:
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def remove_if_empty(directory: Path) -> bool:
    try:
        directory.rmdir()
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            return False
        raise
    return True


def sync_directory(directory: Path) -> None:
    """Make a rename or removal survive a power cut."""
    try:
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except FileNotFoundError:
        return  # removed again by a concurrent deletion
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
