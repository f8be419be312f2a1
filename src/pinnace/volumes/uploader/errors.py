"""The errors of the programs that save and restore volumes.

UploaderError           the base; the text holds no secret
├── IdentifierError         the location cannot hold a repository, or a name would lead out of it
├── AccessError             location, Secret or credentials could not be read; trying later may help
│   └── PasswordMissing     no Secret has the password
├── Unsupported       the program cannot save or restore volumes of this kind
├── InvalidSnapshot         a text is not a snapshot id
├── TargetFailed            what a volume holds could not be read, or not be removed
├── UnexpectedOutput        the program succeeded, but its output lacks the expected result
├── CommandTimeout          the program did not end in time and was ended
└── CommandFailed           the program ended with an error, or could not be started
    ├── RepositoryMissing   there seems to be no repository
    ├── RepositoryExists    there is one already, or other data where it would be made
    ├── RepositoryLocked    restic: another one works in it
    ├── WrongPassword       none of its keys opens with our password
    ├── SnapshotMissing     there is no snapshot of that id
    ├── EmptySnapshot       there was nothing to save
    ├── RepositoryUnusable  the repository is damaged, or of a newer format
    ├── DataDamaged         data that snapshots need is missing in the repository, or is not what was stored
    └── FilesUnreadable     files of the volume could not be read, so nothing was saved
"""

from pathlib import Path


class UploaderError(Exception):
    """Base of all errors of restic and kopia."""


class IdentifierError(UploaderError):
    """There is no repository identifier for this location and namespace."""


class AccessError(UploaderError):
    """The location, its credentials or the password could not be read."""


class PasswordMissing(AccessError):
    """No Secret has the password."""


class Unsupported(UploaderError):
    """The program cannot do this with such a volume or repository."""


class InvalidSnapshot(UploaderError):
    """A text that is not a snapshot id: it must not become part of a command line."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not the id of a snapshot")


class TargetFailed(UploaderError):
    """What a volume holds already could not be read, or not be removed."""

    def __init__(self, root: Path, error: OSError) -> None:
        where = f" at {error.filename!r}" if error.filename else ""
        super().__init__(f"the files in the volume {root} cannot be read or removed{where}: {error.strerror}")


class UnexpectedOutput(UploaderError):
    """The program said it was done, but its output lacks what was asked for."""


class CommandTimeout(UploaderError):
    """The program did not end in time; no process is left."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"error running command={command}: did not finish within {seconds:g} seconds")


class CommandFailed(UploaderError):
    """The program ended with an error. The text is Velero's. (docs/spec: PVL 8.5)

    Attributes:
        command: the command line, without private paths and without credentials.
        exit_code: negative for a signal, None if it was not run.
        stdout, stderr: the ends of what it wrote.
        reason: `exit status 1`, or why it was not run.
    """

    def __init__(
        self, command: str, *, exit_code: int | None, stdout: str = "", stderr: str = "", reason: str = ""
    ) -> None:
        self.command = command
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        self.reason = reason or f"exit status {exit_code}"
        # Velero prints the output of a program that failed also where it is empty.
        wrote = f", stdout={stdout}, stderr={stderr}" if exit_code or stdout or stderr else ""
        super().__init__(f"error running command={command}{wrote}: {self.reason}")


class RepositoryMissing(CommandFailed):
    """There is no repository; restic says so too when the store did not answer."""


class RepositoryExists(CommandFailed):
    """There is a repository already, or other data where it would be made; it was left alone."""


class RepositoryLocked(CommandFailed):
    """Another restic works in the repository, or died in it not long ago."""


class WrongPassword(CommandFailed):
    """The repository was made with another password."""


class SnapshotMissing(CommandFailed):
    """The repository has no snapshot of the id that the command named."""


class EmptySnapshot(CommandFailed):
    """restic refuses to save a directory that holds nothing."""


class RepositoryUnusable(CommandFailed):
    """The repository is damaged, or was made in a format that this program does not know."""


class DataDamaged(CommandFailed):
    """A check of the repository found that snapshots cannot be restored whole."""


class FilesUnreadable(CommandFailed):
    """Files of the volume could not be read; the incomplete snapshot was removed."""


def may_have_saved(error: UploaderError) -> bool:
    """Whether a save that ended with this error may have stored a snapshot without printing its id.

    A program that ended by itself with an error has not.
    """
    return not isinstance(error, CommandFailed) or (error.exit_code is not None and error.exit_code < 0)
