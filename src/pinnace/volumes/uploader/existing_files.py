"""The files that a volume has before a snapshot is written over them, and those that it has beyond it.

restic and kopia follow links that are in their way, out of the volume too, and write through hard links.
kopia takes a file for unchanged if its time differs by less than two seconds, and any link. So before a
program writes into a volume that holds something, links and everything of another type than in the snapshot
are removed, and changed files are marked. What the snapshot does not have is removed at the end, when all
data is there, and only on request. (docs/spec: AFT 6)

The content of a volume is not trusted, and the agent is root: everything is done relative to opened
directories, no link is entered, and no other file system.
"""

import asyncio
import errno
import os
import stat
import threading
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from pinnace.aio.blocking import in_thread, settle
from pinnace.volumes.uploader.errors import TargetFailed, Unsupported
from pinnace.volumes.uploader.survey import as_utf8

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
PERMISSIONS: Final = 0o777
"""The bits of a mode that are compared."""
OF_THE_ROOT: Final = frozenset({"lost+found", ".velero"})
"""Names at the root of a volume that belong to its file system, and to the pod that waits for its data."""


class FileType(Enum):
    """The type of an entry of a snapshot."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


class SavedFile(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of a directory in a snapshot.

    Attributes:
        state: what an unchanged file has: size, time in nanoseconds, permissions, user, group. None where the
            program itself finds changed files.
        time: of a link, in nanoseconds; None if it is not known.
        is_lossy: whether the name is listed with bytes replaced that are not UTF-8.
    """

    name: str
    type: FileType
    is_lossy: bool = False
    state: tuple[int, int, int, int, int] | None = None
    time: int | None = None


class SavedDirectory(msgspec.Struct, frozen=True, kw_only=True):
    """A directory of a snapshot: its path below the root of the volume, and all that it holds."""

    path: tuple[str, ...]
    files: Sequence[SavedFile]


class Walk(NamedTuple):
    """The file system of the volume, which is not left, and whether the caller has given up."""

    device: int
    stopped: threading.Event


async def holds_something(root: Path) -> bool:
    """Whether a directory holds more than a new file system does. Raises TargetFailed."""

    def look() -> bool:
        with os.scandir(root) as entries:
            return any(entry.name not in OF_THE_ROOT for entry in entries)

    try:
        return await in_thread(look)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise TargetFailed(root, error) from error


async def make_way(root: Path, saved: Iterable[SavedDirectory]) -> None:
    """Remove what a program must not write through, and mark changed files whose size is the same.

    Args:
        saved: the directories of the snapshot in any order; read in another thread.

    Raises:
        TargetFailed: it could not be done.
        Unsupported: the name of a directory of both is not UTF-8, and listed without its bytes.
    """
    await for_each(root, saved, _make_way_in)


async def remove_extra(root: Path, saved: Iterable[SavedDirectory]) -> None:
    """Remove the files, links and directories that the snapshot does not have. Call it when all is written.

    Sockets, pipes and devices stay, as not every program saves them. Directories keep their times.

    Raises:
        TargetFailed: it could not be done.
    """
    await for_each(root, saved, _remove_extra_in)


async def for_each(
    root: Path,
    saved: Iterable[SavedDirectory],
    work: Callable[[int, SavedDirectory, Walk], None],
    absent: Callable[[SavedDirectory], None] = lambda directory: None,
    foreign: Callable[[SavedDirectory], None] = lambda directory: None,
) -> None:
    """Do work in another thread for each directory of a snapshot, with the one of the volume opened.

    Args:
        work: gets the opened directory, which it does not close.
        absent: called instead of it where the volume has no such directory.
        foreign: called instead of it where another file system is mounted.

    Raises:
        TargetFailed: the volume cannot be read, or the work raised OSError.
    """
    stopped = threading.Event()

    def run() -> None:
        walk = Walk(os.stat(root).st_dev, stopped)
        for directory in saved:
            if stopped.is_set():
                return
            try:
                folder = open_below(root, directory.path)
            except (FileNotFoundError, NotADirectoryError):
                absent(directory)  # the program makes it, or its parent is handled elsewhere
                continue
            try:
                if os.fstat(folder).st_dev == walk.device:
                    work(folder, directory, walk)
                else:
                    foreign(directory)
            finally:
                os.close(folder)

    walking = asyncio.create_task(in_thread(run))
    try:
        await asyncio.wait({walking})
    finally:
        stopped.set()
        await settle({walking}, grace_seconds=0.0)
    try:
        walking.result()
    except OSError as error:
        raise TargetFailed(root, error) from error


def open_below(root: Path | int, path: Sequence[str]) -> int:
    """Open a directory below another one, step by step; the caller closes it.

    Raises:
        OSError: NotADirectoryError if a link is on the way.
    """
    directory = os.dup(root) if isinstance(root, int) else os.open(root, _OPEN)
    for name in path:
        try:
            below = os.open(name, _OPEN, dir_fd=directory)
        finally:
            os.close(directory)
        directory = below
    return directory


def _make_way_in(folder: int, directory: SavedDirectory, walk: Walk) -> None:
    lossy = {file.name: file for file in directory.files if file.is_lossy}
    for name in os.listdir(folder) if lossy else ():
        file = lossy.get(as_utf8(name))
        if file is not None:
            _make_way_for(folder, name, file, walk)
    for file in directory.files:
        if not file.is_lossy:
            _make_way_for(folder, file.name, file, walk)


def _make_way_for(folder: int, name: str, file: SavedFile, walk: Walk) -> None:
    try:
        found = os.lstat(name, dir_fd=folder)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(found.st_mode) and file.type is FileType.DIRECTORY:
        if file.is_lossy:
            raise lossy_directory(name)
        return
    if stat.S_ISREG(found.st_mode) and file.type is FileType.FILE:
        if file.state is not None and file.state == state_of(found):
            return
        if found.st_nlink == 1:
            if file.state is not None and file.state[0] == found.st_size:
                os.utime(name, ns=(found.st_atime_ns, 0), dir_fd=folder, follow_symlinks=False)
            return
    _remove(folder, name, walk, keeps_special=False)


def lossy_directory(name: str) -> Unsupported:
    """The error of a directory that both have, and whose listed name stands for several."""
    return Unsupported(
        f"the volume holds the directory {as_utf8(name)!r} of the backup already, and its name is not"
        " UTF-8: what is in it cannot be compared. Rename or remove it, and restore again"
    )


def state_of(found: os.stat_result) -> tuple[int, int, int, int, int]:
    """The state of a file of a volume, to compare with that of a `SavedFile`."""
    return found.st_size, found.st_mtime_ns, found.st_mode & PERMISSIONS, found.st_uid, found.st_gid


def _remove_extra_in(folder: int, directory: SavedDirectory, walk: Walk) -> None:
    names = {file.name for file in directory.files}
    lossy = {file.name for file in directory.files if file.is_lossy}
    spared = names if directory.path else names | OF_THE_ROOT
    extra = [name for name in os.listdir(folder) if name not in spared and as_utf8(name) not in lossy]
    if not extra:
        return
    before = os.fstat(folder)
    try:
        for name in extra:
            _remove(folder, name, walk, keeps_special=True)
    finally:
        os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))


def _remove(folder: int, name: str, walk: Walk, *, keeps_special: bool) -> None:
    """Remove a file or a directory with all that is in it, however deep. Raises OSError."""
    found = os.lstat(name, dir_fd=folder)
    if not stat.S_ISDIR(found.st_mode):
        if not (keeps_special and not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode))):
            os.unlink(name, dir_fd=folder)
        return
    if found.st_dev != walk.device:
        return  # something is mounted there
    # One directory is open at a time, so that a deep tree costs neither stack nor descriptors.
    current, trail = os.dup(folder), list[tuple[str, int]]()
    waiting = [[name]]
    try:
        while not walk.stopped.is_set():
            if waiting[-1]:
                inner = waiting[-1].pop()
                trail.append((inner, os.fstat(current).st_ino))
                current = moved(current, inner)
                waiting.append(_emptied(current, walk, keeps_special=keeps_special))
                continue
            waiting.pop()
            if not trail:
                return
            done, parent = trail.pop()
            current = moved(current, "..")
            if os.fstat(current).st_ino != parent:
                raise OSError(errno.ESTALE, "a directory was moved while it was removed", done)
            _remove_directory(current, done, keeps_special=keeps_special)
    finally:
        os.close(current)


def moved(current: int, name: str) -> int:
    """Open a directory beside the current one and close that; after an error it is still open."""
    opened = os.open(name, _OPEN, dir_fd=current)
    os.close(current)
    return opened


def _emptied(folder: int, walk: Walk, *, keeps_special: bool) -> list[str]:
    """Remove all files of a directory; return the directories in it that are of the same file system."""
    below = []
    for name in os.listdir(folder):
        found = os.lstat(name, dir_fd=folder)
        if not stat.S_ISDIR(found.st_mode):
            _remove(folder, name, walk, keeps_special=keeps_special)
        elif found.st_dev == walk.device:
            below.append(name)
    return below


def _remove_directory(folder: int, name: str, *, keeps_special: bool) -> None:
    try:
        os.rmdir(name, dir_fd=folder)
    except OSError as error:
        if not (keeps_special and error.errno == errno.ENOTEMPTY):
            raise
