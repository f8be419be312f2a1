"""Who waits in front of whom at the server. Pure; one insertion or removal costs a search, no pass over all.

A Backup or Restore waits until it is served: by its phase, not by its completion time alone, which one that
was refused or orphaned never gets. (docs/spec: NAC 7, 18)
"""

from bisect import bisect_left, bisect_right, insort
from typing import Final

from pinnace.api.objects import JSONObject, text
from pinnace.runtime.keys import Key

SERVED_PHASES: Final = frozenset({"FailedValidation", "Completed", "PartiallyFailed", "Failed", "Deleting"})


def is_served(obj: JSONObject) -> bool:
    """Whether the server has nothing more to do for an object."""
    return bool(text(obj, "status", "completionTimestamp")) or text(obj, "status", "phase") in SERVED_PHASES


class WaitingLine:
    """The objects of one kind that wait, oldest first."""

    def __init__(self) -> None:
        self._line: list[tuple[str, Key]] = []
        self._since: dict[Key, str] = {}

    def __len__(self) -> int:
        return len(self._line)

    def put(self, obj: JSONObject) -> list[Key]:
        """Take an object as it is now; the keys of those whose position this has changed."""
        if is_served(obj):
            return self.remove(obj)
        key, since = Key.of(obj), text(obj, "metadata", "creationTimestamp")
        if not since or self._since.get(key) == since:
            return []
        changed = self.remove(obj)
        self._since[key] = since
        insort(self._line, (since, key))
        return [*changed, *self._behind(since)]

    def remove(self, obj: JSONObject) -> list[Key]:
        """Take that an object does not wait any more; the keys of those whose position this has changed."""
        key = Key.of(obj)
        since = self._since.pop(key, None)
        if since is None:
            return []
        del self._line[bisect_left(self._line, (since, key))]
        return self._behind(since)

    def position(self, obj: JSONObject | None) -> int:
        """0 if it is served or unknown, else one more than there are that were created earlier."""
        since = text(obj, "metadata", "creationTimestamp")
        if obj is None or not since or is_served(obj):
            return 0
        return 1 + bisect_left(self._line, since, key=_since)

    def _behind(self, since: str) -> list[Key]:
        # Those of the same second share a position, so that none of them is behind the other.
        first = bisect_right(self._line, since, key=_since)
        return [key for _, key in self._line[first:]]


def _since(entry: tuple[str, Key]) -> str:
    return entry[0]
