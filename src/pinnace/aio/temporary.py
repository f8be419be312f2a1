"""The folder for the temporary files of one backup or restore, and the error texts of such files.

A folder that cannot be removed does not fail the run: the outcome of the run is already stored by then.
"""

import contextlib
import errno
import logging
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_logger = logging.getLogger(__name__)

TOO_MANY_OPEN: Final = "Too many open files: raise the limit of this process (ulimit -n)"

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_DESCRIPTORS: Final = frozenset({errno.EMFILE, errno.ENFILE})


@contextmanager
def temporary_folder(parent: Path, prefix: str) -> Iterator[Path]:
    """A new private folder below `parent`, gone afterwards; what cannot be removed is only logged.

    Raises:
        OSError: it cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    try:
        yield folder
    finally:
        _remove(folder)


def _remove(folder: Path) -> None:
    # Few files, so removing them is quick; in a thread it would outlive a cancellation.
    with contextlib.suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        # Listing a folder takes a descriptor, and there may be none left, so the files are removed by name.
        for name in ("contents.tar.gz", "log.gz"):
            with contextlib.suppress(OSError):
                (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            folder.rmdir()
    if folder.exists():
        _logger.warning("The temporary folder %s could not be removed: remove it by hand", folder)


def problem_text(folder: Path, error: OSError) -> str:
    """Return one line that says what went wrong with a temporary file in `folder`, and what to do."""
    reason = error.strerror or str(error)
    if error.errno in _DESCRIPTORS:
        return TOO_MANY_OPEN
    if error.errno in _FULL:
        advice = "free space there, or name another folder in TMPDIR (of a server: VELERO_SCRATCH_DIR)"
    elif error.errno in _FORBIDDEN:
        advice = "name a writable folder in TMPDIR (of a server: VELERO_SCRATCH_DIR)"
    else:
        return reason
    return f"{reason} in {folder}: {advice}"
