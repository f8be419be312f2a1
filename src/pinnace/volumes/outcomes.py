"""The outcomes of PodVolumeBackups or PodVolumeRestores: a watch updates them, and callers wait for them.

Objects are identified by name, so that repeated events and events of other objects do no harm.
(docs/spec: PVL 5.2, 12.2)
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from pinnace.api import phases
from pinnace.api.objects import JSONObject

CANCELED = "it was canceled"
"""The messages of all canceled objects begin with it."""


class SeenTransfers:
    """The objects of one backup or restore as last seen.

    Args:
        wait_for_sync: returns when all objects that existed at the start were passed to `seen`.
    """

    def __init__(self, wait_for_sync: Callable[[], Awaitable[None]]) -> None:
        self._wait_for_sync = wait_for_sync
        self._seen: dict[str, JSONObject] = {}
        self._deleted: set[str] = set()
        self._waiting: dict[str, set[_Waiter]] = {}

    async def wait_for_sync(self) -> None:
        """Wait until the watch has begun; the deadline is the caller's."""
        await self._wait_for_sync()

    def seen(self, obj: JSONObject) -> None:
        """Record the current state of an object."""
        name = obj["metadata"]["name"]
        self._seen[name] = obj
        self._wake(name)

    def gone(self, obj: JSONObject) -> None:
        """Record a deletion; an object that had ended before keeps its outcome."""
        name = obj["metadata"]["name"]
        if not _is_final(self._seen.get(name)):
            self._deleted.add(name)
        self._wake(name)

    async def ended(self, names: Collection[str]) -> None:
        """Wait until each of these has ended or was deleted; the deadline is the caller's.

        An event costs only those who wait for its object: thousands of pods may wait at the same time.
        """
        waiter = _Waiter({name for name in names if not self.has_ended(name)})
        if not waiter.missing:
            return
        for name in waiter.missing:
            self._waiting.setdefault(name, set()).add(waiter)
        try:
            await waiter.done.wait()
        finally:
            for name in waiter.missing:
                self._waiting[name].discard(waiter)

    def has_ended(self, name: str) -> bool:
        """Whether the object has ended or was deleted."""
        return name in self._deleted or _is_final(self._seen.get(name))

    def last_seen(self, name: str) -> JSONObject | None:
        """The object as last seen."""
        return self._seen.get(name)

    def is_deleted(self, name: str) -> bool:
        """Whether the object was deleted before it had ended."""
        return name in self._deleted

    def _wake(self, name: str) -> None:
        if self.has_ended(name):
            for waiter in self._waiting.pop(name, ()):
                waiter.missing.discard(name)
                if not waiter.missing:
                    waiter.done.set()


class _Waiter:
    """Waits for objects; knows those that are missing still."""

    def __init__(self, missing: set[str]) -> None:
        self.missing = missing
        self.done = asyncio.Event()


def phase_of(obj: JSONObject | None) -> str:
    """`status.phase`, empty if there is none."""
    return ((obj or {}).get("status") or {}).get("phase") or ""


def message_of(obj: JSONObject | None) -> str:
    """`status.message`, empty if there is none."""
    return ((obj or {}).get("status") or {}).get("message") or ""


def is_new(obj: JSONObject) -> bool:
    """Whether no agent has claimed the object yet."""
    return phase_of(obj) in phases.TRANSFER_NEW


def is_cancel_wanted(obj: JSONObject) -> bool:
    """Whether `spec.cancel` asks an agent to give the work up."""
    return (obj.get("spec") or {}).get("cancel") is True


def canceled_message(obj: JSONObject) -> str:
    """The message of a canceled object: the one that a server stored with `spec.cancel`, if there is one."""
    given = message_of(obj)
    return given if given.startswith(CANCELED) else f"{CANCELED}, as spec.cancel asks for it"


def _is_final(obj: JSONObject | None) -> bool:
    return phase_of(obj) in phases.TRANSFER_ENDED
