"""The size of a directory, for the progress of a restore. (docs/spec: PVL 7.4)"""

import os
import threading
from pathlib import Path


def directory_size(directory: Path, stopped: threading.Event) -> int:
    """The size in bytes of everything below a directory but directories; links by their own size.

    What goes away while it is looked at is left out.

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
