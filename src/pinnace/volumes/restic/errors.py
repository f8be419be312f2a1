"""The errors of restic.

ResticError                 the base; the text holds no secret
├── IdentifierError         the location cannot hold a repository, or a name would lead out of it
├── AccessError             location, Secret or credentials could not be read; trying later may help
├── InvalidSnapshot         a text is not a snapshot id
├── UnexpectedOutput        restic succeeded, but its output lacks the expected result
├── CommandTimeout          restic did not end in time and was ended
└── CommandFailed           restic ended with an error, or could not be started
    ├── RepositoryMissing   there seems to be no repository
    ├── RepositoryExists    `init` found one
    ├── RepositoryLocked    another restic works in it
    ├── WrongPassword       none of its keys opens with our password
    ├── SnapshotMissing     there is no snapshot of that id
    └── EmptySnapshot       there was nothing to save
"""


class ResticError(Exception):
    """Base of all errors of this package."""


class IdentifierError(ResticError):
    """There is no repository identifier for this location and namespace."""


class AccessError(ResticError):
    """The location, its credentials or the password could not be read."""


class InvalidSnapshot(ResticError):
    """A text that is not a snapshot id: it must not become part of a command line."""

    def __init__(self, text: str) -> None:
        super().__init__(f"{text[:80]!r} is not the id of a restic snapshot")


class UnexpectedOutput(ResticError):
    """restic said it was done, but its output lacks what was asked for."""


class CommandTimeout(ResticError):
    """restic did not end in time; no process is left."""

    def __init__(self, command: str, seconds: float) -> None:
        super().__init__(f"error running command={command}: did not finish within {seconds:g} seconds")


class CommandFailed(ResticError):
    """restic ended with an error. The text is Velero's. (docs/spec: PVL 8.5)

    Attributes:
        command: the command line, without private paths and without credentials.
        exit_code: restic's; negative for a signal, None if it could not be started.
        stdout, stderr: the ends of what it wrote.
        reason: `exit status 1`, or why it could not be started.
    """

    def __init__(
        self, command: str, *, exit_code: int | None, stdout: str = "", stderr: str = "", reason: str = ""
    ) -> None:
        self.command = command
        self.exit_code = exit_code
        self.stdout = stdout
        self.stderr = stderr
        self.reason = reason or f"exit status {exit_code}"
        super().__init__(f"error running command={command}, stdout={stdout}, stderr={stderr}: {self.reason}")


class RepositoryMissing(CommandFailed):
    """restic found no repository; it says so too when the store did not answer."""


class RepositoryExists(CommandFailed):
    """`init` found a repository, which it left alone."""


class RepositoryLocked(CommandFailed):
    """Another restic works in the repository, or died in it not long ago."""


class WrongPassword(CommandFailed):
    """The repository was made with another password."""


class SnapshotMissing(CommandFailed):
    """The repository has no snapshot of the id that the command named."""


class EmptySnapshot(CommandFailed):
    """restic refuses to save a directory that holds nothing."""


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
}


def command_failed(command: str, *, exit_code: int, stdout: str, stderr: str) -> CommandFailed:
    """The error that an ended command stands for, by its exit code and by what it wrote to stderr."""
    kind = _BY_EXIT_CODE.get(exit_code)
    if kind is None:
        kind = next((kind for text, kind in _BY_TEXT.items() if text in stderr), CommandFailed)
    reason = "" if exit_code >= 0 else f"ended by signal {-exit_code}"
    return kind(command, exit_code=exit_code, stdout=stdout, stderr=stderr, reason=reason)
