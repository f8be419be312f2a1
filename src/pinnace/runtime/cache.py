"""The objects of one kind as last seen, and the changes that a list or an event makes. Pure; no I/O.

A list replaces everything and an event changes one object; both return the changes, so that handlers are told
the same whether an object was deleted during a watch or in a gap between watches. An object that came back
under its old name with another uid is a deletion and an addition. (docs/spec: CTL 2.1)
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from pinnace.api.objects import JSONObject, text
from pinnace.runtime.keys import Key

IndexFunction = Callable[[JSONObject], Iterable[str]]
"""The values of an object in an index. Must depend on nothing but the object."""


class Cache(Protocol):
    """The objects of one kind as last seen: the part of an informer that is read.

    It may lag behind the cluster. What it hands out is shared: readers must not change it.
    """

    def get(self, key: Key) -> JSONObject | None: ...

    def keys(self) -> list[Key]: ...

    def objects(self) -> list[JSONObject]: ...

    def by_index(self, index: str, value: str) -> list[JSONObject]: ...


class Added(msgspec.Struct, frozen=True):
    """An object that was not there before."""

    obj: JSONObject


class Updated(msgspec.Struct, frozen=True):
    """The same object (by uid) in a newer state."""

    old: JSONObject
    new: JSONObject


class Deleted(msgspec.Struct, frozen=True):
    """An object that is gone, in its last known state, which may not be its last one."""

    obj: JSONObject


Change = Added | Updated | Deleted


class ObjectCache:
    """Objects by key, with indexes. What it hands out is shared: readers must not change it."""

    def __init__(self, indexes: Mapping[str, IndexFunction] | None = None) -> None:
        self._objects: dict[Key, JSONObject] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[str, dict[Key, None]]] = {name: {} for name in self._index_functions}

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def get(self, key: Key) -> JSONObject | None:
        """The object of that key, or None."""
        return self._objects.get(key)

    def keys(self) -> list[Key]:
        """All keys, in the order of their objects' arrival."""
        return list(self._objects)

    def objects(self) -> list[JSONObject]:
        """All objects, in the order of their arrival."""
        return list(self._objects.values())

    def by_index(self, index: str, value: str) -> list[JSONObject]:
        """The objects that the index function of that name found under `value`.

        Raises:
            KeyError: no such index.
        """
        return [self._objects[key] for key in self._indexes[index].get(value, ())]

    def replace(self, listed: Iterable[JSONObject]) -> list[Change]:
        """Take a complete list; deletions come first, then the rest, oldest object first.

        Oldest first, so that the object that has waited longest is processed first.
        """
        present = {Key.of(obj): obj for obj in listed}
        changes: list[Change] = []
        for key in [key for key in self._objects if key not in present]:
            changes.extend(self._remove(key))
        for obj in sorted(present.values(), key=_age_order):
            changes.extend(self.put(obj))
        return changes

    def put(self, obj: JSONObject) -> list[Change]:
        """Add or update an object."""
        key = Key.of(obj)
        former = self._objects.get(key)
        if former is None:
            self._store(key, obj)
            return [Added(obj)]
        if _field(former, "uid") != _field(obj, "uid"):
            changes = self._remove(key)
            self._store(key, obj)
            return [*changes, Added(obj)]
        version = _field(obj, "resourceVersion")
        if version and version == _field(former, "resourceVersion"):
            return []
        self._unindex(key, former)
        self._store(key, obj)
        return [Updated(former, obj)]

    def discard(self, obj: JSONObject) -> list[Change]:
        """Remove an object. One that is not cached, or has been replaced by a new one, changes nothing."""
        key = Key.of(obj)
        former = self._objects.get(key)
        if former is None or _field(former, "uid") != _field(obj, "uid"):
            return []
        self._remove(key)
        return [Deleted(obj)]

    def _remove(self, key: Key) -> list[Change]:
        former = self._objects.pop(key)
        self._unindex(key, former)
        return [Deleted(former)]

    def _store(self, key: Key, obj: JSONObject) -> None:
        self._objects[key] = obj
        for name, function in self._index_functions.items():
            for value in _values(function, obj):
                self._indexes[name].setdefault(value, {})[key] = None

    def _unindex(self, key: Key, former: JSONObject) -> None:
        for name, function in self._index_functions.items():
            index = self._indexes[name]
            for value in _values(function, former):
                keys = index.get(value)
                if keys is not None:
                    keys.pop(key, None)
                    if not keys:
                        del index[value]


def _values(function: IndexFunction, obj: JSONObject) -> list[str]:
    """The values of an object in an index; none of one whose shape its schema should exclude and does not."""
    try:
        return [value for value in function(obj) if isinstance(value, str)]
    except (LookupError, TypeError, ValueError, AttributeError):
        return []


def _field(obj: JSONObject, name: str) -> str:
    return text(obj, "metadata", name)


def _age_order(obj: JSONObject) -> tuple[str, Key]:
    # Times of the API are all of one form, in UTC, so their text sorts as they do.
    return _field(obj, "creationTimestamp"), Key.of(obj)
