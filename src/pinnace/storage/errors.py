"""The errors of object stores; everything else in this package is translated into these.

StorageError               the base, which the HTTP layer raises too (store_access/errors.py)
├── ObjectNotFound         the key does not exist: often an answer, not a failure
├── StoreUnavailable       unreachable, too slow or overloaded: the same call may succeed later
├── StoreConfigError       a setting, a credential or a file it names is wrong: trying again is useless
├── InvalidLocation        the location itself is unusable (bucket name, foreign directories)
├── UnreadableObject       the object exists but is not what its name promises
├── RangesUnsupported      the store can only read whole objects
├── BackupLocked           object lock holds files of a backup, which is not deleted before its time
├── BackupExists           a backup of that name is already complete in the location
├── NameInUse              another process has claimed the name
│   ├── BackupBeingWritten it writes a backup of that name
│   └── RestoreBeingMade   it makes a restore of that name
├── ClaimLost              another process has taken over the claim on a backup or restore
├── NotLeading             a write has not begun, as another server may lead by now
└── ReadOnlyLocation       the location's access mode forbids the write
"""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from pinnace.store_access.errors import StorageError, StoreConfigError, StoreUnavailable

__all__ = [
    "BackupBeingWritten",
    "BackupExists",
    "BackupHeld",
    "BackupLocked",
    "ClaimLost",
    "InvalidLocation",
    "NameInUse",
    "NotLeading",
    "ObjectNotFound",
    "RangesUnsupported",
    "ReadOnlyLocation",
    "RestoreBeingMade",
    "StorageError",
    "StoreConfigError",
    "StoreUnavailable",
    "UnreadableObject",
    "combined",
]


_FILE_NAME: Final = r"'[^']+'"


def combined(errors: Iterable[StorageError]) -> StorageError:
    """One error for several: `[a, c]`, equal ones once, a single one as it is. (docs/spec: STO 5)

    Of those that differ by the name of the file only, the first is named, and how many there are more.

    Args:
        errors: at least one error.
    """
    unique = {str(error): error for error in errors}
    alike: dict[str, list[StorageError]] = {}
    for text, error in unique.items():
        alike.setdefault(re.sub(_FILE_NAME, "", text, count=1), []).append(error)
    if len(unique) == 1:
        return next(iter(unique.values()))
    texts = [
        f"{first}{f' (and {len(more)} more like it)' if more else ''}" for first, *more in alike.values()
    ]
    return StorageError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")


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


class BackupHeld(StorageError):
    """The backup is held, and nothing deletes it before somebody releases it. (docs/adr/128)"""


class BackupLocked(StorageError):
    """Object lock holds files of a backup.

    Attributes:
        until: the end; None if it has none, as that of a legal hold.
    """

    def __init__(self, text: str, until: datetime | None) -> None:
        super().__init__(text)
        self.until = until


class NameInUse(StorageError):
    """Another process has claimed the name of a backup or restore in the same location."""


class BackupBeingWritten(NameInUse):
    """Another process writes a backup of this name into the same location."""

    def __init__(self, backup: str, writer: str) -> None:
        super().__init__(
            f"backup {backup!r} is being written into this location by {writer}: choose another name. If two"
            " clusters share the location, give each a prefix of its own"
        )


class RestoreBeingMade(NameInUse):
    """Another process makes a restore of this name, which it records in the same location."""

    def __init__(self, restore: str, writer: str) -> None:
        super().__init__(
            f"a restore named {restore} is being made by {writer}, which records it in this location: choose"
            " another name"
        )


class ClaimLost(StorageError):
    """Another process has taken a claim over, as this one did not show that it was alive."""

    def __init__(self, writer: str, noun: str = "backup") -> None:
        super().__init__(
            f"{writer} has written or deleted a {noun} of this name in the location meanwhile; its files were"
            f" left as they are: make the {noun} again under another name"
        )


class NotLeading(StorageError):
    """A write has not begun, or was cut off, as another server may lead by now: see FencedStore."""


class ReadOnlyLocation(StorageError):
    """The location's access mode is ReadOnly. (docs/spec: STO 12)"""

    def __init__(self, action: str, location: str) -> None:
        super().__init__(
            f"cannot {action} because backup storage location {location} is currently in read-only mode"
        )
