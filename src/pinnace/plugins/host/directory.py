"""The executables of the plugin directory, in order of precedence. (docs/spec: PLG 2)"""

import os
from collections.abc import Iterator
from pathlib import Path

from pinnace.plugins.errors import PluginStartError

_ANY_EXECUTE = 0o111
_MAX_DEPTH = 16


def find_programs(directory: Path) -> list[Path]:
    """All executable files below `directory`, sorted by name within each folder.

    Symbolic links count as what they point to. A directory that does not exist holds none.

    Raises:
        PluginStartError: a folder cannot be read.
    """
    if not directory.exists():
        return []
    try:
        return list(_programs(directory, frozenset()))
    except OSError as error:
        raise PluginStartError(
            f"cannot read the plugin directory {directory}: {error.filename}: {error.strerror}"
        ) from error


def _programs(directory: Path, above: frozenset[str]) -> Iterator[Path]:
    real = os.path.realpath(directory)
    if real in above or len(above) >= _MAX_DEPTH:  # a link back up
        return
    for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
        path = Path(entry.path)
        if entry.is_dir():
            yield from _programs(path, above | {real})
        elif entry.is_file() and entry.stat().st_mode & _ANY_EXECUTE:
            yield path
