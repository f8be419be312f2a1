"""Finds files of a volume that restic or kopia leave out, or change, without an error. (docs/spec: KOP-006)

kopia leaves sockets, pipes and devices out, and keeps names as JSON, which has no bytes outside of UTF-8: it
replaces them, so that two names may become one. It takes what is named `*.kopia-entry` for its placeholders:
files and directories are read as such, links are left out. restic leaves sockets out, and keeps targets of
links as JSON before version 0.16.
"""

import asyncio
import logging
import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread, settle

log = logging.getLogger(__name__)

SOCKETS: Final = frozenset({stat.S_IFSOCK})
SPECIAL: Final = frozenset({stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR})

PLACEHOLDER_SUFFIX: Final = ".kopia-entry"

_MOST_NAMES: Final = 3


@dataclass(slots=True)
class Names:
    """How many files of a volume were found, and the names of the first ones.

    Attributes:
        shown: the paths of the first ones in the volume, with unprintable characters escaped.
    """

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Count a file."""
        self.count += 1
        if len(self.shown) < _MOST_NAMES:
            self.shown.append(_shown(path))

    def __str__(self) -> str:
        more = f" and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
        return ", ".join(sorted(self.shown)) + more


@dataclass(frozen=True, slots=True)
class Survey:
    """The files of a volume that a program does not save as they are.

    Attributes:
        special: files of the types that were looked for, such as sockets.
        renamed: files whose names are not UTF-8.
        merged: files whose names are not UTF-8 and would become the name of another file.
        placeholders: what is named as kopia names its placeholders.
        retargeted: links whose targets are not UTF-8.
    """

    special: Names = field(default_factory=Names)
    renamed: Names = field(default_factory=Names)
    merged: Names = field(default_factory=Names)
    placeholders: Names = field(default_factory=Names)
    retargeted: Names = field(default_factory=Names)


async def survey(
    directory: Path, types: Collection[int], *, names: bool = False, targets: bool = False
) -> Survey:
    """Look through a volume for files that are not saved as they are.

    Files that disappear meanwhile are left out. A directory that cannot be read is only logged: the program
    fails at it.

    Args:
        types: the types of special files to look for, as `stat.S_IFMT` gives them.
        names: whether to look for names that kopia does not keep.
        targets: whether to look for links whose targets are not UTF-8.
    """
    stopped = threading.Event()
    looking = asyncio.create_task(in_thread(_look, directory, types, stopped, names=names, targets=targets))
    try:
        await asyncio.wait({looking})
    finally:
        stopped.set()
        await settle({looking}, grace_seconds=0.0)
    return looking.result()


def _look(
    directory: Path, types: Collection[int], stopped: threading.Event, *, names: bool, targets: bool = False
) -> Survey:
    found, unread, waiting = Survey(), Names(), [os.fspath(directory)]
    while waiting and not stopped.is_set():
        folder = waiting.pop()
        try:
            waiting += _look_into(folder, directory, types, found, names=names)
            if targets:
                _look_at_links(folder, directory, found)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            unread.add(f"{os.path.relpath(folder, directory)} ({error.strerror})")
    if unread.count:
        log.warning(
            "Cannot look into directories for files that are not saved as they are",
            extra={"fields": {"directories": str(unread)}},
        )
    return found


def _look_into(
    folder: str, directory: Path, types: Collection[int], found: Survey, *, names: bool
) -> list[str]:
    """Look through one directory of a volume, and return the directories in it. Raises OSError."""
    below, odd = list[str](), list[str]()
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                below.append(entry.path)
            elif _type(entry) in types:
                found.special.add(os.path.relpath(entry.path, directory))
            if names and not _is_utf8(entry.name):
                odd.append(entry.name)
            if names and entry.name.endswith(PLACEHOLDER_SUFFIX):
                found.placeholders.add(os.path.relpath(entry.path, directory))
    if odd:
        _note_odd(found, os.path.relpath(folder, directory), odd, os.listdir(folder))
    return below


def _look_at_links(folder: str, directory: Path, found: Survey) -> None:
    """Look at the targets of the links in one directory. Raises OSError."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                with suppress(OSError):  # it has gone meanwhile
                    if not _is_utf8(os.readlink(entry.path)):
                        found.retargeted.add(os.path.relpath(entry.path, directory))


def _note_odd(found: Survey, folder: str, odd: Iterable[str], all_names: Iterable[str]) -> None:
    used = Counter(as_utf8(name) for name in all_names)
    for name in odd:
        path = os.path.normpath(os.path.join(folder, name))
        found.renamed.add(path)
        if used[as_utf8(name)] > 1:
            found.merged.add(path)


def as_utf8(name: str) -> str:
    """The name that kopia keeps: each byte that is not UTF-8 replaced."""
    return "".join("\ufffd" if "\udc80" <= character <= "\udcff" else character for character in name)


def _is_utf8(name: str) -> bool:
    return name.isascii() or as_utf8(name) == name


def _type(entry: os.DirEntry[str]) -> int:
    """The type of an entry that is no directory, 0 if it is not known; files and links need no other call."""
    if entry.is_symlink() or entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return 0


def _shown(path: str) -> str:
    """A path with all bytes that are not UTF-8 and all unprintable characters escaped."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
