"""Object lock: what a location asks for, what stores do for it, and what a bucket has. (docs/adr/127)"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

import msgspec

from pinnace.api.values.durations import Duration
from pinnace.api.values.times import format_time, later
from pinnace.storage.errors import BackupLocked, StorageError, StoreConfigError
from pinnace.storage.interface import Body

LOCK_MODE: Final = "objectLock.mode"
LOCK_UNTIL: Final = "objectLock.until"
LOCK_SETTINGS: Final = (LOCK_MODE, LOCK_UNTIL)
"""Keys of a location's configuration, and parameters of its URL, that its store does not get."""

_EXPIRATION: Final = "expiration"


class LockMode(StrEnum):
    """Who may delete an object before its time: holders of a right, or nobody."""

    GOVERNANCE = "governance"
    COMPLIANCE = "compliance"


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What an object is put with.

    Attributes:
        until: with a time zone, and whole seconds.
    """

    mode: LockMode
    until: datetime


class ObjectLock(msgspec.Struct, frozen=True, kw_only=True):
    """What a location asks for.

    Attributes:
        period: how long files are held from their upload on; None is until their backup expires.
    """

    mode: LockMode
    period: timedelta | None = None

    def retention(self, expiration: datetime | None, now: datetime) -> Retention | None:
        """The retention of a file that is put now; None if its backup has expired, or never will.

        Args:
            expiration: of its backup.
        """
        until = later(now, self.period) if self.period is not None else expiration
        if until is None or until <= now:
            return None
        if until.microsecond:
            until = later(until.replace(microsecond=0), timedelta(seconds=1))
        return Retention(mode=self.mode, until=until)


def object_lock_of(config: Mapping[str, str]) -> ObjectLock | None:
    """The object lock that a location's configuration asks for; None for none.

    Raises:
        StoreConfigError: a value is unknown, or there is an end without a mode.
    """
    mode, until = config.get(LOCK_MODE, ""), config.get(LOCK_UNTIL, "")
    if not mode:
        if until:
            raise StoreConfigError(f"config.{LOCK_UNTIL} has no effect without config.{LOCK_MODE}")
        return None
    try:
        wanted = LockMode(mode)
    except ValueError:
        raise StoreConfigError(
            f"config.{LOCK_MODE} {mode[:63]!r} is not known: it is {' or '.join(LockMode)}"
        ) from None
    if until in ("", _EXPIRATION):
        return ObjectLock(mode=wanted)
    try:
        period = Duration.parse(until)
    except ValueError as error:
        raise StoreConfigError(
            f"config.{LOCK_UNTIL} is {_EXPIRATION}, or a duration such as 720h: {error}"
        ) from None
    if period <= Duration():
        raise StoreConfigError(f"config.{LOCK_UNTIL} {until!r} is not a positive duration")
    return ObjectLock(mode=wanted, period=period.to_timedelta())


class BucketLock(msgspec.Struct, frozen=True, kw_only=True):
    """What a bucket has.

    Attributes:
        is_enabled: whether objects can be locked.
        default: how long an object is held that is put without a retention; zero for not at all.
        reason: why it is not enabled, and what to do.
    """

    is_enabled: bool
    default: timedelta = timedelta()
    reason: str = ""


class ObjectVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of an object.

    Attributes:
        is_marker: whether it only says that the object was deleted.
    """

    key: str
    version: str
    is_marker: bool = False


@runtime_checkable
class LockingStore(Protocol):
    """A store that can hold objects. All methods raise StorageError."""

    async def put_locked(self, key: str, body: Body, retention: Retention) -> None:
        """As ObjectStore.put, with a retention.

        Raises:
            StorageError: also where the store took the object, and holds it shorter than it was asked to.
        """
        ...

    async def bucket_lock(self) -> BucketLock:
        """What the bucket has."""
        ...


@runtime_checkable
class VersionsStore(Protocol):
    """A store that keeps the versions of objects, where a deletion of a key only adds a marker."""

    async def versions(self, prefix: str) -> list[ObjectVersion]:
        """All versions of the keys that begin with `prefix`, markers too."""
        ...

    async def held_until(self, version: ObjectVersion) -> datetime | None:
        """Until when a version cannot be deleted; None if it can.

        Raises:
            BackupLocked: without a limit, by a legal hold.
        """
        ...

    async def delete_version(self, version: ObjectVersion) -> None:
        """Delete one version for good; a missing one is success."""
        ...


def check_held(key: str, retention: Retention, until: datetime | None, right: str) -> None:
    """See that a store holds an object as long as it was asked to.

    Args:
        until: by the answer of the store; None for not at all.
        right: what is missing where the store does not say it.

    Raises:
        StorageError: it is not held so long.
    """
    if until is None or until < retention.until:
        shown = "not at all" if until is None else f"only until {format_time(until)}"
        raise StorageError(
            f"{key!r} was to be held until {format_time(retention.until)}, and the store holds it {shown}:"
            f" it ignores object lock, or {right} is missing"
        )


def held_text(until: datetime) -> str:
    """Until when something is held, for messages."""
    return f"object lock holds its files until {format_time(until)}"


def refuse_held(until: datetime | None, now: datetime) -> None:
    """Raise BackupLocked for files that cannot be deleted yet."""
    if until is not None and until > now:
        raise BackupLocked(held_text(until), until)
