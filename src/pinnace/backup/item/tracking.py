"""Tracks the items that a backup has processed: each one once, with a list of those that were saved.

Only one string is kept for each item, so that memory stays small.
(docs/spec: BKP 6.2)
"""

from typing import Final

from pinnace.api.objects import JSONObject


def item_key(namespace: str, name: str) -> str:
    """`namespace/name`, or `name` for a cluster-scoped item."""
    return f"{namespace}/{name}" if namespace else name


def kind_key(api_version: str, kind: str) -> str:
    """`apps/v1/Deployment`, `v1/Pod`: the resource list groups items by this key."""
    return f"{api_version}/{kind}"


class Tracker:
    """The items processed so far, by kind.

    `keys_of` hands out the set of a kind for the hot path, which adds to it directly.
    """

    def __init__(self) -> None:
        self._items: Final[dict[str, set[str]]] = {}
        self._left_out: Final[dict[str, set[str]]] = {}
        self._skipped = 0

    @property
    def count(self) -> int:
        """The number of items processed, as progress shows it: failed ones count, skipped ones do not."""
        return sum(map(len, self._items.values())) - self._skipped

    def keys_of(self, kind: str) -> set[str]:
        """The keys of a kind; add one to record it."""
        return self._items.setdefault(kind, set())

    def begin(self, kind: str, key: str) -> bool:
        """Record an item; False if it was there already."""
        keys = self.keys_of(kind)
        if key in keys:
            return False
        keys.add(key)
        return True

    def has(self, kind: str, key: str) -> bool:
        """Whether an item has been processed."""
        return key in self._items.get(kind, ())

    def namespaces(self) -> set[str]:
        """The namespaces of all items that are in the backup."""
        return {
            key.partition("/")[0]
            for kind, keys in self._items.items()
            for key in keys
            if "/" in key and key not in self._left_out.get(kind, ())
        }

    def leave_out(self, kind: str, key: str) -> None:
        """Leave a recorded item out of the list; it is not tried again. (docs/spec: README, decided)"""
        self._left_out.setdefault(kind, set()).add(key)

    def skip(self, kind: str, key: str) -> None:
        """Leave out a recorded item that an action wants in no count. (docs/spec/after-1.18.md, AFT-120)"""
        self.leave_out(kind, key)
        self._skipped += 1

    def resource_list(self) -> dict[str, list[str]]:
        """The items in the backup, sorted: what `<backup>-resource-list.json.gz` holds."""
        listed = {
            kind: sorted(keys - self._left_out.get(kind, set())) for kind, keys in sorted(self._items.items())
        }
        return {kind: keys for kind, keys in listed.items() if keys}


def identity_of(item: JSONObject) -> tuple[str, str]:
    """Namespace ("" for cluster-scoped) and name."""
    metadata = item.get("metadata") or {}
    return metadata.get("namespace") or "", metadata.get("name") or ""


def kind_of(item: JSONObject) -> str:
    """The tracker's key of an item's kind."""
    return kind_key(item.get("apiVersion", ""), item.get("kind", ""))
