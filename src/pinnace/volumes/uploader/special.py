"""Sockets, pipes and devices in a volume: kopia leaves them out without a word. (docs/spec: KOP-006)"""

import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_MOST_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class SpecialFiles:
    """What is neither a file nor a directory nor a symbolic link.

    Attributes:
        count: how many there are.
        names: the first of them, by their path in the volume.
    """

    count: int = 0
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        more = f" and {self.count - len(self.names)} more" if self.count > len(self.names) else ""
        return ", ".join(self.names) + more


def special_files(directory: Path, stopped: threading.Event) -> SpecialFiles:
    """The special files below a directory; what goes away meanwhile is left out.

    Args:
        stopped: set to give up early; what was found so far is returned.

    Raises:
        OSError: a directory cannot be read.
    """
    count, names, waiting = 0, list[str](), [os.fspath(directory)]
    while waiting and not stopped.is_set():
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.is_file(follow_symlinks=False) and _is_special(entry):
                        count += 1
                        if len(names) < _MOST_NAMES:
                            names.append(_shown(os.path.relpath(entry.path, directory)))
        except FileNotFoundError:
            continue
    return SpecialFiles(count, tuple(sorted(names)))


def _shown(name: str) -> str:
    """A name that is not UTF-8, in a form that can be stored."""
    return os.fsencode(name).decode(errors="replace")


def _is_special(entry: os.DirEntry[str]) -> bool:
    if entry.is_symlink():
        return False
    mode = entry.stat(follow_symlinks=False).st_mode
    return stat.S_ISSOCK(mode) or stat.S_ISFIFO(mode) or stat.S_ISBLK(mode) or stat.S_ISCHR(mode)
