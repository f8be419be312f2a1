"""Compares the files of a volume with those of a snapshot, and changes nothing. (docs/adr/122)

A file counts as the same by what `existing_files` decides before a restore: type, size, time, permissions,
user and group; a link by its time, as not every program lists where it leads. Directories are not compared
themselves, only what is in them. The volume may be in use: what vanishes meanwhile counts as not there.

The content of a volume is not trusted: no link is entered, and no other file system.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from pinnace.volumes.uploader.existing_files import (
    OF_THE_ROOT,
    FileType,
    SavedDirectory,
    SavedFile,
    Walk,
    for_each,
    lossy_directory,
    moved,
    state_of,
)
from pinnace.volumes.uploader.survey import as_utf8

MOST_NAMES_BYTES: Final = 16 << 20
"""Names beyond this are only counted: a volume may hold millions of files, and long names."""


class FileFate(StrEnum):
    """What a restore makes of a file, link or directory."""

    CREATED = "created"
    OVERWRITTEN = "overwritten"
    REMOVED = "removed"
    """It is not in the backup: it is in the way, or an extra file that is to be removed."""
    EXTRA = "extra"
    """It is not in the backup, and stays."""
    SAME = "same"
    """It is as in the backup."""
    NOT_COMPARED = "notCompared"
    """A directory where another file system is mounted."""


class FileComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between a volume and a snapshot.

    Attributes:
        counts: how many files, links and directories there are of each fate; none for directories of both.
        names: their paths below the root of the volume, but not of those that are the same.
        unlisted: how many names were left out, as there were too many.
        rewrites_same: whether files that are the same are written again, with the content of the backup.
    """

    counts: Mapping[FileFate, int]
    names: Mapping[FileFate, Sequence[str]]
    unlisted: int = 0
    rewrites_same: bool = True


class FileComparer:
    """Compares the directories of a snapshot with those of a volume.

    Args:
        delete_extra: whether the restore removes what the snapshot does not have.
    """

    def __init__(self, *, delete_extra: bool) -> None:
        self._counts = dict.fromkeys(FileFate, 0)
        self._names: dict[FileFate, list[str]] = {each: [] for each in FileFate}
        self._left_bytes = MOST_NAMES_BYTES
        self._unlisted = 0
        self._fate_of_extra = FileFate.REMOVED if delete_extra else FileFate.EXTRA

    def result(self, *, rewrites_same: bool) -> FileComparison:
        """The difference, once all directories are compared."""
        names = {fate: sorted(names) for fate, names in self._names.items() if names}
        return FileComparison(
            counts=dict(self._counts), names=names, unlisted=self._unlisted, rewrites_same=rewrites_same
        )

    async def compare(self, root: Path, saved: Iterable[SavedDirectory]) -> None:
        """Compare some directories of the snapshot, in any order.

        Raises:
            TargetFailed: the volume cannot be read.
            Unsupported: as in `make_way`.
        """
        await for_each(root, saved, self._compare_in, self._absent, self._foreign)

    def _note(self, fate: FileFate, path: Sequence[str]) -> None:
        self._counts[fate] += 1
        if fate is FileFate.SAME:
            return
        size = sum(len(part) for part in path) + len(path)
        if size > self._left_bytes:
            self._unlisted += 1
            return
        self._left_bytes -= size
        self._names[fate].append(as_utf8("/".join(path)))

    def _absent(self, directory: SavedDirectory) -> None:
        """The volume lacks a directory, which is counted in its parent."""
        for file in directory.files:
            self._note(FileFate.CREATED, (*directory.path, file.name))

    def _foreign(self, directory: SavedDirectory) -> None:
        self._note(FileFate.NOT_COMPARED, directory.path)

    def _compare_in(self, folder: int, directory: SavedDirectory, walk: Walk) -> None:
        whole = {file.name: file for file in directory.files if not file.is_lossy}
        lossy = {file.name: file for file in directory.files if file.is_lossy}
        met = set()
        for name in os.listdir(folder):
            try:
                found = os.lstat(name, dir_fd=folder)
            except FileNotFoundError:
                continue
            path = (*directory.path, name)
            file = whole.get(name) or lossy.get(as_utf8(name))
            if file is not None:
                met.add(file.name)
                self._compare_both(folder, path, found, file, walk)
            elif directory.path or name not in OF_THE_ROOT:
                self._extra(folder, path, found, walk)
        for file in directory.files:
            if file.name not in met:
                self._note(FileFate.CREATED, (*directory.path, file.name))

    def _compare_both(
        self, folder: int, path: Sequence[str], found: os.stat_result, file: SavedFile, walk: Walk
    ) -> None:
        kind = _type_of(found)
        if kind is FileType.DIRECTORY and file.type is FileType.DIRECTORY:
            if file.is_lossy:
                raise lossy_directory(path[-1])
            return
        if kind is file.type and _is_same(found, file):
            self._note(FileFate.SAME, path)
            return
        self._note(FileFate.OVERWRITTEN, path)
        if kind is FileType.DIRECTORY and found.st_dev == walk.device:
            for below, _ in _all_below(folder, path[-1], walk):
                self._note(FileFate.REMOVED, (*path, *below))

    def _extra(self, folder: int, path: Sequence[str], found: os.stat_result, walk: Walk) -> None:
        self._note(self._fate_of(found, walk), path)
        if stat.S_ISDIR(found.st_mode) and found.st_dev == walk.device:
            for below, inner in _all_below(folder, path[-1], walk):
                self._note(self._fate_of(inner, walk), (*path, *below))

    def _fate_of(self, found: os.stat_result, walk: Walk) -> FileFate:
        """The fate of something extra. Sockets, pipes, devices and mounts always stay."""
        is_kept = _type_of(found) is FileType.OTHER or found.st_dev != walk.device
        return FileFate.EXTRA if is_kept else self._fate_of_extra


def _type_of(found: os.stat_result) -> FileType:
    if stat.S_ISREG(found.st_mode):
        return FileType.FILE
    if stat.S_ISDIR(found.st_mode):
        return FileType.DIRECTORY
    return FileType.LINK if stat.S_ISLNK(found.st_mode) else FileType.OTHER


def _is_same(found: os.stat_result, file: SavedFile) -> bool:
    """Whether two of the same type look the same."""
    if file.type is FileType.FILE:
        return file.state == state_of(found)
    return file.type is FileType.OTHER or file.time == found.st_mtime_ns


def _all_below(folder: int, name: str, walk: Walk) -> Iterator[tuple[Sequence[str], os.stat_result]]:
    """All that is in a directory, however deep: its path below that, and its state. Raises OSError."""
    # One directory is open at a time, so that a deep tree costs neither stack nor descriptors.
    current, trail, path = os.dup(folder), list[int](), list[str]()
    waiting = [[name]]
    try:
        while not walk.stopped.is_set():
            if waiting[-1]:
                inner = waiting[-1].pop()
                parent = os.fstat(current).st_ino
                try:
                    current = moved(current, inner)
                except (FileNotFoundError, NotADirectoryError):
                    continue  # it has just been removed
                if trail:
                    path.append(inner)
                trail.append(parent)
                below = []
                for each in os.listdir(current):
                    try:
                        found = os.lstat(each, dir_fd=current)
                    except FileNotFoundError:
                        continue
                    yield (*path, each), found
                    if stat.S_ISDIR(found.st_mode) and found.st_dev == walk.device:
                        below.append(each)
                waiting.append(below)
                continue
            waiting.pop()
            if not trail:
                return
            if path:
                path.pop()
            current = moved(current, "..")
            if os.fstat(current).st_ino != trail.pop():
                raise OSError(errno.ESTALE, "a directory was moved while it was compared", name)
    finally:
        os.close(current)
