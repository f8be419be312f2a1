"""What restic or kopia leave out of a volume, or change, without saying so. (docs/spec: KOP-006)

kopia leaves sockets, pipes and devices out, and keeps names as JSON, which has no bytes outside of UTF-8: it
replaces them, so that two names may become one. restic leaves sockets out.
"""

import logging
import os
import stat
import threading
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pinnace.aio.blocking import in_thread

log = logging.getLogger(__name__)

SOCKETS: Final = frozenset({stat.S_IFSOCK})
SPECIAL: Final = frozenset({stat.S_IFSOCK, stat.S_IFIFO, stat.S_IFBLK, stat.S_IFCHR})

_MOST_NAMES: Final = 3


@dataclass(slots=True)
class Names:
    """Files of a volume.

    Attributes:
        count: how many there are.
        shown: the first of them, by their path in the volume, fit to be shown.
    """

    count: int = 0
    shown: list[str] = field(default_factory=list)

    def add(self, path: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.shown) < _MOST_NAMES:
            self.shown.append(_shown(path))

    def __str__(self) -> str:
        more = f" and {self.count - len(self.shown)} more" if self.count > len(self.shown) else ""
        return ", ".join(sorted(self.shown)) + more


@dataclass(frozen=True, slots=True)
class Survey:
    """What was found in a volume.

    Attributes:
        special: sockets, and what else was looked for.
        renamed: whose names are not UTF-8.
        merged: those of them that would get the name of another file.
    """

    special: Names = field(default_factory=Names)
    renamed: Names = field(default_factory=Names)
    merged: Names = field(default_factory=Names)


async def survey(directory: Path, types: Collection[int], *, names: bool = False) -> Survey:
    """Look through a volume; what goes away meanwhile is left out, and a failure is logged only.

    Args:
        types: of files, as `stat.S_IFMT` gives them, that are looked for.
        names: whether names are looked at.
    """
    stopped = threading.Event()
    try:
        return await in_thread(_look, directory, types, stopped, names=names)
    except OSError as error:
        log.warning(
            "Cannot look for what is not saved of a volume as it is", extra={"fields": {"error": error}}
        )
        return Survey()
    finally:
        stopped.set()


def _look(directory: Path, types: Collection[int], stopped: threading.Event, *, names: bool) -> Survey:
    found, waiting = Survey(), [os.fspath(directory)]
    while waiting and not stopped.is_set():
        folder, odd = waiting.pop(), list[str]()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif _type(entry) in types:
                        found.special.add(os.path.relpath(entry.path, directory))
                    if names and not _is_utf8(entry.name):
                        odd.append(entry.name)
            if odd:
                _note_odd(found, os.path.relpath(folder, directory), odd, os.listdir(folder))
        except FileNotFoundError:
            continue
    return found


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
    """The type of what is no directory, 0 if it is gone; a file and a link cost no further call."""
    if entry.is_symlink() or entry.is_file(follow_symlinks=False):
        return stat.S_IFREG
    try:
        return stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def _shown(path: str) -> str:
    """A path with everything escaped that is no UTF-8 or would not be seen."""
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
