"""The errors of restic by its exit code and its messages: pure."""

from pinnace.volumes.uploader.errors import (
    CommandFailed,
    DataDamaged,
    EmptySnapshot,
    FilesUnreadable,
    RepositoryExists,
    RepositoryLocked,
    RepositoryMissing,
    SnapshotMissing,
    WrongPassword,
)
from pinnace.volumes.uploader.output import CUT

_BY_EXIT_CODE = {10: RepositoryMissing, 11: RepositoryLocked, 12: WrongPassword}
"""Since restic 0.17; before, the text alone tells."""

_BY_TEXT = {
    "Is there a repository at the following location?": RepositoryMissing,
    "config file already exists": RepositoryExists,
    "config already initialized": RepositoryExists,
    "already locked": RepositoryLocked,
    "wrong password or no key found": WrongPassword,
    "snapshot is empty": EmptySnapshot,
    "no matching ID found": SnapshotMissing,
    "repository contains errors": DataDamaged,
    "LoadIndex returned errors": DataDamaged,
}

_FILE_ERROR = '"message_type":"error"'
"""In the line of `backup --json` about a file that could not be read."""


def command_failed(command: str, *, exit_code: int, stdout: str, stderr: str) -> CommandFailed:
    """The error of a command that failed, by its exit code and by what it wrote to stderr."""
    kind = _BY_EXIT_CODE.get(exit_code)
    if kind is None:
        kind = next((kind for text, kind in _BY_TEXT.items() if text in stderr), CommandFailed)
    reason = "" if exit_code >= 0 else f"ended by signal {-exit_code}"
    # restic also calls a snapshot empty when it could not read a single file; the part cut off may say so.
    if kind is EmptySnapshot and (_FILE_ERROR in stderr or stderr.startswith(CUT)):
        kind, reason = FilesUnreadable, "the files of the volume cannot be read"
    return kind(command, exit_code=exit_code, stdout=stdout, stderr=stderr, reason=reason)
