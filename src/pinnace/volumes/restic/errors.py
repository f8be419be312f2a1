"""Which error a restic that ended stands for: pure."""

from pinnace.volumes.uploader.errors import (
    CommandFailed,
    DataDamaged,
    EmptySnapshot,
    RepositoryExists,
    RepositoryLocked,
    RepositoryMissing,
    SnapshotMissing,
    WrongPassword,
)

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


def command_failed(command: str, *, exit_code: int, stdout: str, stderr: str) -> CommandFailed:
    """The error that an ended command stands for, by its exit code and by what it wrote to stderr."""
    kind = _BY_EXIT_CODE.get(exit_code)
    if kind is None:
        kind = next((kind for text, kind in _BY_TEXT.items() if text in stderr), CommandFailed)
    reason = "" if exit_code >= 0 else f"ended by signal {-exit_code}"
    return kind(command, exit_code=exit_code, stdout=stdout, stderr=stderr, reason=reason)
