"""Limits on the Backups and Restores that one tenant may have unfinished at the server. Pure.

A slot is taken when a Backup or Restore is about to be made, since a cache would show it too late, and is
free again when the server has served it. Requests without a slot wait, oldest first. (docs/spec: NAC 17 A27)
"""

from collections.abc import Callable, Iterable
from heapq import nsmallest
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.resuming import is_requested
from pinnace.nonadmin.flows.conditions import condition
from pinnace.nonadmin.identity import origin_key
from pinnace.nonadmin.objects import is_being_deleted
from pinnace.nonadmin.queue_position import is_served
from pinnace.runtime.keys import Key

BACKUPS: Final = "TooManyUnfinishedBackups"
RESTORES: Final = "TooManyUnfinishedRestores"


def message(kind: str, limit: int) -> str:
    """The message of a request that has to wait."""
    return (
        f"the administrator allows {limit} unfinished {kind} in a namespace: "
        "this one begins when one of the others has ended"
    )


def is_waiting(request: JSONObject) -> bool:
    """Whether a request waits for a slot."""
    accepted = condition(mapping(request, "status"), "Accepted")
    refused = text(accepted, "status") == "False" and text(accepted, "reason") in (BACKUPS, RESTORES)
    return refused and not is_being_deleted(request)


def first(waiting: Iterable[JSONObject], count: int) -> list[Key]:
    """The keys of the oldest requests."""
    return [key for _, key in nsmallest(count, ((_age(request), Key.of(request)) for request in waiting))]


def _age(request: JSONObject) -> str:
    return text(request, "metadata", "creationTimestamp")


class Slots:
    """Counts the unfinished Backups, or Restores, of each namespace."""

    def __init__(self, origin: Origin) -> None:
        self._origin = origin
        self._taken: dict[str, set[str]] = {}
        self._listeners: list[Callable[[str], None]] = []

    def on_free(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with each namespace that gets a slot free."""
        self._listeners.append(listener)

    def taken(self, namespace: str, *, besides: str = "") -> int:
        """The number of slots that a namespace takes, without that of the Backup or Restore `besides`."""
        names = self._taken.get(namespace, set())
        return len(names) - (besides in names)

    def put(self, obj: JSONObject) -> None:
        """Take or free the slot of a Backup or Restore by its current phase.

        A Restore that the server is asked to resume has one.
        """
        if is_served(obj) and not is_requested(obj):
            self.remove(obj)
        elif request := origin_key(obj, self._origin):
            self.take(request.namespace, Key.of(obj).name)

    def remove(self, obj: JSONObject) -> None:
        """Free the slot of a deleted Backup or Restore. Freeing one that has none is not an error."""
        if request := origin_key(obj, self._origin):
            self.free(request.namespace, Key.of(obj).name)

    def take(self, namespace: str, name: str) -> None:
        """Take a slot for a Backup or Restore that exists or is about to be made. Idempotent."""
        self._taken.setdefault(namespace, set()).add(name)

    def free(self, namespace: str, name: str) -> None:
        """Free the slot of a Backup or Restore. Freeing one that has none is not an error."""
        names = self._taken.get(namespace, set())
        if name not in names:
            return
        names.remove(name)
        if not names:
            del self._taken[namespace]
        for listener in self._listeners:
            listener(namespace)
