"""The order of Backups and Restores that wait for the server. Pure; an insertion or removal costs a search.

A Backup or Restore waits until it is served. That is decided by its phase, not by its completion time alone,
which a refused or orphaned one never gets. (docs/spec: NAC 7, 18)
"""

from bisect import bisect_left, insort
from collections.abc import Iterator

from pinnace.api import phases
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.runtime.keys import Key


def is_served(obj: JSONObject) -> bool:
    """Whether the server has nothing more to do for an object."""
    return bool(text(obj, "status", "completionTimestamp")) or text(obj, "status", "phase") in phases.SERVED


class WaitingQueue:
    """The objects of one kind that wait, oldest first.

    Attributes:
        changes: how often an object was added, moved or removed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._entries: list[tuple[str, Key]] = []
        self._since: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, obj: JSONObject) -> None:
        """Add an object, or remove it if it is served. Adding it again is not an error."""
        key, since = Key.of(obj), text(obj, "metadata", "creationTimestamp")
        if is_served(obj):
            self.remove(obj)
        elif since and self._since.get(key) != since:
            self.remove(obj)
            self._since[key] = since
            insort(self._entries, (since, key))
            self.changes += 1

    def remove(self, obj: JSONObject) -> None:
        """Remove an object. Removing an unknown one is not an error."""
        key = Key.of(obj)
        since = self._since.pop(key, None)
        if since is not None:
            del self._entries[bisect_left(self._entries, (since, key))]
            self.changes += 1

    def position(self, obj: JSONObject | None) -> int:
        """The queue position: 0 if served or unknown, 1 if running, else 1 more than older ones wait."""
        since = text(obj, "metadata", "creationTimestamp")
        if obj is None or not since or is_served(obj):
            return 0
        if text(obj, "status", "phase") == BackupPhase.IN_PROGRESS:
            return 1
        return 1 + bisect_left(self._entries, since, key=_since)

    def __iter__(self) -> Iterator[Key]:
        """The keys, oldest first. The queue must not change during the iteration."""
        return (key for _, key in self._entries)


def _since(entry: tuple[str, Key]) -> str:
    return entry[0]
