"""The file that tells a waiting pod that a volume has its data: `<volume>/.velero/<uid of the Restore>`.

The content of a volume is not trusted: it is data of a backup, or written by other programs. The agent is
root, so it must not follow a link out of the volume. Everything is done relative to opened directories, and
nothing that is a link is entered. (docs/spec: PVL 12.4)
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

DIRECTORY: Final = ".velero"
_DIRECTORY_MODE: Final = 0o755
_FILE_MODE: Final = 0o644
_OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class DoneFileError(Exception):
    """The file was not written; the text is Velero's."""


def remove_done_files(volume: Path) -> None:
    """Remove the files of earlier restores, which were restored with the data. Raises OSError."""
    with _opened(volume) as inside:
        try:
            shutil.rmtree(DIRECTORY, dir_fd=inside)
        except FileNotFoundError:
            return
        except OSError:
            # It is no directory: a file, or a link.
            os.unlink(DIRECTORY, dir_fd=inside)


def write_done_file(volume: Path, restore_uid: str) -> None:
    """Mark a volume as restored. Raises DoneFileError."""
    if not restore_uid or "/" in restore_uid or restore_uid in (".", ".."):
        raise DoneFileError("error writing done file: the PodVolumeRestore names no Restore")
    what = "error creating .velero directory for done file"
    try:
        with _opened(volume) as inside:
            with suppress(FileExistsError):
                os.mkdir(DIRECTORY, _DIRECTORY_MODE, dir_fd=inside)
            with _opened(DIRECTORY, within=inside) as folder:
                # Independent of our umask: the container that waits for it may run as any user.
                os.fchmod(folder, _DIRECTORY_MODE)
                what = "error writing done file"
                _create(restore_uid, folder)
    except OSError as error:
        raise DoneFileError(f"{what}: {error.strerror}") from error


def is_done(volume: Path, restore_uid: str) -> bool:
    """Whether a volume is marked as restored by this Restore."""
    try:
        with _opened(volume) as inside, _opened(DIRECTORY, within=inside) as marks:
            return restore_uid in os.listdir(marks)
    except OSError:
        return False


def _create(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
    file = os.open(name, _CREATE, _FILE_MODE, dir_fd=directory)
    try:
        os.fchmod(file, _FILE_MODE)
    finally:
        os.close(file)


@contextmanager
def _opened(directory: Path | str, *, within: int | None = None) -> Iterator[int]:
    descriptor = os.open(directory, _OPEN_DIRECTORY, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
