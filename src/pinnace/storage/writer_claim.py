"""Claims: only one process at a time writes a backup, or makes a restore, of one name. (docs/adr/051)

Two processes that write a backup of one name at once, such as the schedules of two clusters that share a
bucket, would mix their files, and the undo of one could delete what the other had finished. Therefore a
process first creates a small file in the backup's directory, renews it while it writes, and deletes it at the
end. A file that is not renewed belongs to a process that died, and is taken over after a while. Clocks of
different machines are never compared. Velero ignores the file and deletes it with the directory. Restores
without a server claim their names in the same way, as each has its files under its name.
"""

import asyncio
import json
import logging
import os
import platform
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Literal, Self, TypeVar
from uuid import uuid4

import msgspec

from pinnace.aio.blocking import finish, settle
from pinnace.aio.clock import Clock
from pinnace.aio.timing import poll
from pinnace.storage.errors import (
    BackupBeingWritten,
    ClaimLost,
    NameInUse,
    ObjectNotFound,
    RestoreBeingMade,
    StorageError,
    StoreUnavailable,
)
from pinnace.storage.interface import ObjectStore, read_all
from pinnace.storage.patience import Patience, impatient

ResultT = TypeVar("ResultT")

_logger = logging.getLogger(__name__)

RENEWAL_SECONDS: Final = 5.0
HELD_RENEWAL_SECONDS: Final = 300.0
"""Where each renewal leaves a version behind that is held. (docs/adr/127)"""
_WATCHED_RENEWALS: Final = 3
"""How many renewals a claim of another process must miss to count as abandoned."""
SETTLING_SECONDS: Final = RENEWAL_SECONDS
"""How long a process waits after it took a claim over. It is longer than a request takes, so that of several
processes that took over one claim all but the last find that it is not theirs."""

_TRIES: Final = 5
"""How often a claim that is released just before it is read is tried again."""
_LIMIT_BYTES: Final = 4096
_RELEASE_SECONDS: Final = 30.0
_END_SECONDS: Final = 300.0
"""How long cancelled work may take to undo what it began."""


class ClaimSubject(msgspec.Struct, frozen=True):
    """The backup or restore that a claim is for.

    Attributes:
        owner: the uid of its object in a cluster; empty for none.
        renewal_seconds: how often it is renewed; the same for all processes that use the location.
    """

    noun: Literal["backup", "restore"]
    name: str
    owner: str = ""
    renewal_seconds: float = RENEWAL_SECONDS

    def in_use(self, writer: str) -> NameInUse:
        """The error of a claim that another process has."""
        kind = BackupBeingWritten if self.noun == "backup" else RestoreBeingMade
        return kind(self.name, writer)


class WriterClaim:
    """The claim of this process on the name of one backup or restore.

    Attributes:
        was_abandoned: whether it was taken over from a process that died.
    """

    def __init__(
        self,
        store: ObjectStore,
        key: str,
        subject: ClaimSubject,
        *,
        clock: Clock,
    ) -> None:
        self._store = store
        self._key = key
        self._subject = subject
        self._clock = clock
        self._token = uuid4().hex
        self._renewals = 0
        self.was_abandoned = False

    @classmethod
    @asynccontextmanager
    async def on(
        cls,
        store: ObjectStore,
        key: str,
        subject: ClaimSubject,
        *,
        clock: Clock,
        takes_over: bool = True,
        patience: Patience | None = None,
    ) -> AsyncIterator[Self]:
        """A context: this process has the claim inside it; the end releases the claim.

        Args:
            takes_over: whether the claim of another process is watched, and taken over if that process is
                dead. If not, any claim of another process counts as renewed.
            patience: with a store that is away while the claim is taken; None for none.

        Raises:
            NameInUse: another process has it, and renews it.
        """
        claim = cls(store, key, subject, clock=clock)
        try:
            await (patience or impatient()).insist(partial(claim._take, takes_over=takes_over))
            yield claim
        finally:
            await claim._release()

    async def hold(self, work: Coroutine[Any, Any, ResultT]) -> ResultT:
        """Run the work and renew the claim meanwhile. The work has ended when this returns or raises.

        Raises:
            ClaimLost: another process took the claim over; the work was cancelled.
        """
        working, renewing = asyncio.create_task(work), asyncio.create_task(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            try:
                # The claim is renewed until the work has undone what it began: an abandoned claim is taken
                # over, and the undo would then delete files of the other process.
                await settle({working}, grace_seconds=_END_SECONDS)
            finally:
                renewing.cancel()
                await settle({renewing}, grace_seconds=_END_SECONDS)
        if not renewing.cancelled() and (lost := renewing.exception()) is not None:
            raise lost
        return working.result()

    async def check(self) -> None:
        """Raise ClaimLost unless this process has the claim.

        A claim that is gone is lost too: the backup was deleted, or another process took the claim over and
        has finished.
        """
        found = await self._read()
        if not self._is_own(found):
            raise ClaimLost(_writer_of(found), self._subject.noun)

    async def _take(self, *, takes_over: bool) -> None:
        for number in range(_TRIES):
            # Read before and after: not every service has conditional writes, and some ignore the condition.
            found = await self._read()
            if found is None:
                await self._create(unconditionally=number == _TRIES - 1)
                found = await self._read()
            if self._is_own(found):
                return
            if found is None:
                continue
            if not takes_over:
                raise self._subject.in_use(_writer_of(found))
            if self._left_by_owner(found):
                await self._store.put(self._key, self._content())
                self.was_abandoned = True
                continue
            _logger.warning(
                "%s %s was begun by %s and is not finished: waiting %g s to see if it is still written",
                self._subject.noun.capitalize(),
                self._subject.name,
                _writer_of(found),
                self._watch_seconds,
            )
            later = await self._watched(found)
            if later == found:
                await self._store.put(self._key, self._content())
                await self._clock.sleep(SETTLING_SECONDS)
                self.was_abandoned = True
            elif later is not None:
                raise self._subject.in_use(_writer_of(later))
        raise StorageError(
            f"cannot create {self._key!r}: the location says that it exists, and does not have it"
        )

    async def _create(self, *, unconditionally: bool) -> None:
        """Create the file unless there is one; a read shows which process has the claim afterwards.

        Args:
            unconditionally: some stores take the marker of a deleted version for an object that exists.
        """
        try:
            if unconditionally:
                await self._store.put(self._key, self._content())
                await self._clock.sleep(SETTLING_SECONDS)
            else:
                await self._store.put_new(self._key, self._content())
        except StoreUnavailable:
            # The answer may have been lost after the file was created.
            if not self._is_own(await self._read()):
                raise

    async def _watched(self, found: bytes) -> bytes | None:
        """The claim of another process once it has changed, or has not for too long; None if it is gone."""
        now: bytes | None = found

        async def has_changed() -> bool:
            nonlocal now
            now = await self._read()
            return now != found

        await poll(has_changed, clock=self._clock, timeout_seconds=self._watch_seconds)
        return now

    async def _renew(self) -> None:
        """Renew the claim until cancelled. A renewal that fails is repeated: the work may still succeed."""
        is_failing = False
        while True:
            await self._clock.sleep(self._subject.renewal_seconds)
            try:
                await self.check()
                self._renewals += 1
                await self._store.put(self._key, self._content())
            except ClaimLost:
                raise
            except StorageError as error:
                if not is_failing:
                    _logger.warning("The claim %s could not be renewed: %s", self._key, error)
                is_failing = True
            else:
                is_failing = False

    async def _release(self) -> None:
        try:
            await finish(self._delete_own(), limit_seconds=_RELEASE_SECONDS)
        except (StorageError, TimeoutError):
            return  # the next process that wants the name takes the claim over

    async def _delete_own(self) -> None:
        if self._is_own(await self._read()):
            await self._store.delete(self._key)

    async def _read(self) -> bytes | None:
        try:
            return await read_all(self._store, self._key, limit_bytes=_LIMIT_BYTES)
        except ObjectNotFound:
            return None

    def _is_own(self, found: bytes | None) -> bool:
        return found is not None and self._token.encode() in found

    def _left_by_owner(self, found: bytes) -> bool:
        """Whether a former process for the same object left the claim, where waiting for it takes long."""
        is_slow = self._subject.renewal_seconds > RENEWAL_SECONDS
        return is_slow and bool(self._subject.owner) and _owner_of(found) == self._subject.owner

    @property
    def _watch_seconds(self) -> float:
        """How long a claim of another process is watched before it counts as abandoned."""
        return _WATCHED_RENEWALS * self._subject.renewal_seconds

    def _content(self) -> bytes:
        claim = {
            "writer": f"{platform.node()}, process {os.getpid()}",
            "token": self._token,
            "renewals": self._renewals,
            "owner": self._subject.owner,
        }
        return json.dumps(claim).encode()


async def owner_of(store: ObjectStore, key: str) -> str:
    """The uid in a claim; empty if there is no claim, or it has none. Raises StorageError."""
    try:
        return _owner_of(await read_all(store, key, limit_bytes=_LIMIT_BYTES))
    except ObjectNotFound:
        return ""


def _owner_of(content: bytes) -> str:
    try:
        owner = json.loads(content)["owner"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return owner if isinstance(owner, str) else ""


async def writer_of(store: ObjectStore, key: str) -> str:
    """The process that has a claim, as text that is safe to show; empty for none. Raises StorageError."""
    try:
        return _writer_of(await read_all(store, key, limit_bytes=_LIMIT_BYTES))
    except ObjectNotFound:
        return ""


def _writer_of(content: bytes | None) -> str:
    """The process that has a claim, as text that is safe to show."""
    try:
        writer = json.loads(content or b"")["writer"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "another process"
    return repr(str(writer)[:200])
