"""What can go wrong with an object store; everything else in this package is translated into these.

StorageError               the base, which the HTTP layer raises too (http/errors.py)
├── ObjectNotFound         the key does not exist: often an answer, not a failure
├── StoreUnavailable       unreachable, too slow or overloaded: the same call may succeed later
├── StoreConfigError       a setting, a credential or a file it names is wrong: trying again is useless
├── InvalidLocation        the location itself is unusable (bucket name, foreign directories)
├── UnreadableObject       the object exists but is not what its name promises
├── RangesUnsupported      the store can only read whole objects
├── BackupExists           a backup of that name is already complete in the location
├── BackupBeingWritten     another process writes a backup of that name
├── ClaimLost              another process has taken over the writing of a backup
└── ReadOnlyLocation       the location's access mode forbids the write
"""

from collections.abc import Iterable

from pinnace.http.errors import StorageError, StoreConfigError, StoreUnavailable

__all__ = [
    "BackupBeingWritten",
    "BackupExists",
    "ClaimLost",
    "InvalidLocation",
    "ObjectNotFound",
    "RangesUnsupported",
    "ReadOnlyLocation",
    "StorageError",
    "StoreConfigError",
    "StoreUnavailable",
    "UnreadableObject",
    "combined",
]


def combined(errors: Iterable[StorageError]) -> StorageError:
    """One error for several: `[a, c]`, equal ones once, a single one as it is. (docs/spec: STO 5)

    Args:
        errors: at least one error.
    """
    unique = list({str(error): error for error in errors}.values())
    if len(unique) == 1:
        return unique[0]
    return StorageError(f"[{', '.join(str(error) for error in unique)}]")


class ObjectNotFound(StorageError):
    """The object `key` does not exist."""

    def __init__(self, key: str) -> None:
        super().__init__(f"object {key!r} does not exist")
        self.key = key


class InvalidLocation(StorageError):
    """The bucket name, the URL or the content at the root prefix rules this location out."""


class UnreadableObject(StorageError):
    """The object `key` exists but cannot be decoded, or is larger than its limit."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"object {key!r} cannot be read: {reason}")
        self.key = key
        self.reason = reason


class RangesUnsupported(StorageError):
    """The store of this location can only read whole objects, as those of plugins."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the store cannot read a part of {key!r}")


class BackupExists(StorageError):
    """A finished backup of this name is already in the location."""

    def __init__(self, backup: str) -> None:
        super().__init__(f"backup {backup!r} already exists in the backup storage location")


class BackupBeingWritten(StorageError):
    """Another process writes a backup of this name into the same location."""

    def __init__(self, backup: str, writer: str) -> None:
        super().__init__(
            f"backup {backup!r} is being written into this location by {writer}: choose another name. If two"
            " clusters share the location, give each a prefix of its own"
        )


class ClaimLost(StorageError):
    """Another process has taken over the writing of a backup, as this one did not show that it was alive."""

    def __init__(self, writer: str) -> None:
        super().__init__(
            f"{writer} has written or deleted a backup of this name in the location meanwhile; its files were"
            " left as they are: make the backup again under another name"
        )


class ReadOnlyLocation(StorageError):
    """The location's access mode is ReadOnly. (docs/spec: STO 12)"""

    def __init__(self, action: str, location: str) -> None:
        super().__init__(
            f"cannot {action} because backup storage location {location} is currently in read-only mode"
        )
