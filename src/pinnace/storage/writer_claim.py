"""The right to write one backup, which one process has at a time. (docs/adr/051)

Two processes that write a backup of one name at once, such as the schedules of two clusters that share a
bucket, would mix their files, and the undo of one could delete what the other had finished. So a process
first creates a small file in the backup's directory, renews it while it writes, and deletes it at the end. A
file that is not renewed belongs to a process that died: after a while it is taken over. Nothing depends on
clocks of different machines; Velero ignores the file and deletes it with the directory.
"""

import asyncio
import json
import logging
import os
import platform
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, Self
from uuid import uuid4

from pinnace.aio.blocking import finish, settle
from pinnace.aio.timing import Timer, poll
from pinnace.storage.errors import (
    BackupBeingWritten,
    ClaimLost,
    ObjectNotFound,
    StorageError,
    StoreUnavailable,
)
from pinnace.storage.interface import ObjectStore, read_all

_logger = logging.getLogger(__name__)

RENEWAL_SECONDS: Final = 5.0
WATCH_SECONDS: Final = 3 * RENEWAL_SECONDS
"""How long a claim of another process is watched before it counts as abandoned."""

_TRIES: Final = 5
"""How often a claim that is released just before it is read is tried again."""
_LIMIT_BYTES: Final = 4096
_RELEASE_SECONDS: Final = 30.0
_END_SECONDS: Final = 300.0
"""For cancelled work to undo what it began."""


class WriterClaim:
    """The claim of this process on one backup."""

    def __init__(self, store: ObjectStore, key: str, *, timer: Timer) -> None:
        self._store = store
        self._key = key
        self._timer = timer
        self._token = uuid4().hex
        self._renewals = 0
        self._is_uncertain = False

    @classmethod
    @asynccontextmanager
    async def on(cls, store: ObjectStore, key: str, backup: str, *, timer: Timer) -> AsyncIterator[Self]:
        """The claim, taken before the context is entered and released when it is left.

        Raises:
            BackupBeingWritten: another process has it, and renews it.
        """
        claim = cls(store, key, timer=timer)
        try:
            await claim._take(backup)
            yield claim
        finally:
            await claim._release()

    async def hold(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the work and renew the claim meanwhile. The work has ended when this returns or raises.

        Raises:
            ClaimLost: another process took the claim over; the work was cancelled.
        """
        working, renewing = asyncio.create_task(work), asyncio.create_task(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            renewing.cancel()
            working.cancel()
            await settle({renewing, working}, grace_seconds=_END_SECONDS)
        if not renewing.cancelled() and (lost := renewing.exception()) is not None:
            raise lost
        working.result()

    async def check(self) -> None:
        """Raise ClaimLost unless this process has the claim.

        One that is gone is lost too: another process may have taken it over, and finished. But a renewal that
        failed may have deleted the file itself, as stores undo a put whose outcome is unknown.
        """
        found = await self._read()
        if found is None and self._is_uncertain and await self._create():
            self._is_uncertain = False
            return
        if not self._is_own(found):
            raise ClaimLost(_writer_of(found))

    async def is_lost(self) -> bool:
        """Whether another process has the claim; False if the location does not answer."""
        try:
            await self.check()
        except ClaimLost:
            return True
        except StorageError:
            return False
        return False

    async def _take(self, backup: str) -> None:
        for _ in range(_TRIES):
            if await self._create():
                return
            found = await self._read()
            if found is None:
                continue
            if self._is_own(found):
                return
            _logger.warning(
                "Backup %s was begun by %s and is not finished: looking for %g s whether it is still written",
                backup,
                _writer_of(found),
                WATCH_SECONDS,
            )
            later = await self._watched(found)
            if later == found:
                await self._store.put(self._key, self._content())
                return
            if later is not None:
                raise BackupBeingWritten(backup, _writer_of(later))
        raise StorageError(f"cannot create {self._key!r}: the location refuses it, and does not have it")

    async def _create(self) -> bool:
        """Create the file unless there is one; whose it is afterwards is for a read to say."""
        try:
            return await self._store.put_new(self._key, self._content())
        except StoreUnavailable:
            # The answer may have been lost after the file was created.
            if self._is_own(await self._read()):
                return True
            raise

    async def _watched(self, found: bytes) -> bytes | None:
        """What another's claim is when it has changed, or was not renewed in time; None if it is gone."""
        now: bytes | None = found

        async def has_changed() -> bool:
            nonlocal now
            now = await self._read()
            return now != found

        await poll(has_changed, timer=self._timer, timeout_seconds=WATCH_SECONDS)
        return now

    async def _renew(self) -> None:
        """Renew the claim until cancelled. A location that is away ends the work, not the claim."""
        while True:
            await self._timer.sleep(RENEWAL_SECONDS)
            try:
                await self.check()
                self._renewals += 1
                await self._store.put(self._key, self._content())
            except ClaimLost:
                raise
            except StorageError:
                self._is_uncertain = True
            else:
                self._is_uncertain = False

    async def _release(self) -> None:
        try:
            await finish(self._delete_own(), limit_seconds=_RELEASE_SECONDS)
        except (StorageError, TimeoutError):
            return  # it is taken over when the name is used again; what is stored is not touched by it

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

    def _content(self) -> bytes:
        claim = {
            "writer": f"{platform.node()}, process {os.getpid()}",
            "token": self._token,
            "renewals": self._renewals,
        }
        return json.dumps(claim).encode()


def _writer_of(content: bytes | None) -> str:
    """Who holds a claim, as text that is safe to show."""
    try:
        writer = json.loads(content or b"")["writer"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return "another process"
    return repr(str(writer)[:200])
