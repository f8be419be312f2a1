"""The errors that the functions of the Python API raise on purpose.

PinnaceError
├── InvalidRequest   the request cannot be carried out as it is: a name, a filter, a plugin
│   └── NameTaken    the location already has a backup or restore of that name
├── ClusterError     the cluster cannot be found, reached, or refuses
├── LocationError    the location cannot be used, or has no such backup
└── RunFailed        the run began and ended Failed; has its result
"""

from pinnace.python_api.types import BackupResult, RestoreResult


class PinnaceError(Exception):
    """The base of all errors that these functions raise on purpose."""


class InvalidRequest(PinnaceError):
    """The request cannot be carried out as it is; nothing was done. The text names every problem."""


class NameTaken(InvalidRequest):
    """The location already has a backup or a restore of that name."""


class ClusterError(PinnaceError):
    """The cluster cannot be found or reached, or it refuses; nothing was done."""


class LocationError(PinnaceError):
    """The location cannot be used as it is, or cannot be reached; nothing was done."""


class RunFailed(PinnaceError):
    """A backup or restore began and ended Failed.

    Attributes:
        result: the backup or restore as far as it is known.
    """

    def __init__(self, result: BackupResult | RestoreResult) -> None:
        kind = "backup" if isinstance(result, BackupResult) else "restore"
        reason = result.failure_reason or "its log says why"
        super().__init__(f"{kind} {result.name} failed: {reason}")
        self.result: BackupResult | RestoreResult = result

    def __reduce__(self) -> tuple[type["RunFailed"], tuple[BackupResult | RestoreResult]]:
        """Pickle by the result: pools of processes send errors to their callers."""
        return type(self), (self.result,)
