"""Which Backups and Restores wait in front of which. Pure; an insertion or removal costs a search.

A Backup or Restore waits until it is served: by its phase, not by its completion time alone, which one that
was refused or orphaned never gets. (docs/spec: NAC 7, 18)
"""

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.api.velero.backup import BackupPhase
from pinnace.runtime.keys import Key

SERVED_PHASES: Final = frozenset({"FailedValidation", "Completed", "PartiallyFailed", "Failed", "Deleting"})


def is_served(obj: JSONObject) -> bool:
    """Whether the server has nothing more to do for an object."""
    return bool(text(obj, "status", "completionTimestamp")) or text(obj, "status", "phase") in SERVED_PHASES


class WaitingLine:
    """The objects of one kind that wait, oldest first.

    Attributes:
        changes: how often an object was added, moved or removed.
    """

    def __init__(self) -> None:
        self.changes = 0
        self._line: list[tuple[str, Key]] = []
        self._since: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._line)

    def put(self, obj: JSONObject) -> None:
        """Take an object as it is now; one that is served leaves the line."""
        key, since = Key.of(obj), text(obj, "metadata", "creationTimestamp")
        if is_served(obj):
            self.remove(obj)
        elif since and self._since.get(key) != since:
            self.remove(obj)
            self._since[key] = since
            insort(self._line, (since, key))
            self.changes += 1

    def remove(self, obj: JSONObject) -> None:
        """Remove an object from the line. Removing an unknown one is not an error."""
        key = Key.of(obj)
        since = self._since.pop(key, None)
        if since is not None:
            del self._line[bisect_left(self._line, (since, key))]
            self.changes += 1

    def position(self, obj: JSONObject | None) -> int:
        """0 if it is served or unknown, 1 if it runs, else one more than were created earlier and wait."""
        since = text(obj, "metadata", "creationTimestamp")
        if obj is None or not since or is_served(obj):
            return 0
        if text(obj, "status", "phase") == BackupPhase.IN_PROGRESS:
            return 1
        return 1 + bisect_left(self._line, since, key=_since)

    def __iter__(self) -> Iterator[Key]:
        """The keys of those that wait, oldest first. The line must not change meanwhile."""
        return (key for _, key in self._line)


def _since(entry: tuple[str, Key]) -> str:
    return entry[0]
