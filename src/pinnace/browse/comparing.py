"""Compares two versions of an object, field by field. Pure."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import unified_diff
from typing import Any, Final

import msgspec

from pinnace.api.objects import JSONObject, same_json

_SET_BY_SERVER: Final = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
_MAX_DEPTH: Final = 100
_ABSENT: Final = object()


class Change(msgspec.Struct, frozen=True):
    """A field that differs. `old` or `new` is None, and `is_added`/`is_removed` true, where it is absent."""

    path: str
    old: Any = None
    new: Any = None
    is_added: bool = False
    is_removed: bool = False


def without_server_fields(obj: JSONObject) -> JSONObject:
    """An object without status and the metadata that the API server sets, which differ in every cluster."""
    metadata = obj.get("metadata")
    kept = {key: value for key, value in obj.items() if key != "status"}
    if isinstance(metadata, dict):
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in _SET_BY_SERVER}
    return kept


def changes(old: Any, new: Any) -> list[Change]:
    """The fields that differ, by path; elements of lists are matched by their `name` if all have one."""
    return list(_changes(old, new, "", 0))


def _changes(old: Any, new: Any, path: str, depth: int) -> Iterator[Change]:
    if same_json(old, new):
        return
    if depth < _MAX_DEPTH:
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _of_mappings(old, new, lambda key: member_path(path, key), depth)
            return
        if isinstance(old, list) and isinstance(new, list):
            first, second = _by_name(old), _by_name(new)
            if first is not None and second is not None:
                yield from _of_mappings(first, second, lambda name: f"{path}[name={name}]", depth)
            else:
                numbered = dict(enumerate(old)), dict(enumerate(new))
                yield from _of_mappings(*numbered, lambda index: f"{path}[{index}]", depth)
            return
    yield Change(path, old, new)


def _of_mappings(
    old: Mapping[Any, Any], new: Mapping[Any, Any], path_of: Callable[[Any], str], depth: int
) -> Iterator[Change]:
    for key in sorted(old.keys() | new.keys()):
        before, after = old.get(key, _ABSENT), new.get(key, _ABSENT)
        if before is _ABSENT:
            yield Change(path_of(key), new=after, is_added=True)
        elif after is _ABSENT:
            yield Change(path_of(key), old=before, is_removed=True)
        else:
            yield from _changes(before, after, path_of(key), depth + 1)


def member_path(path: str, key: str) -> str:
    """The path of a member: `spec.replicas`, `metadata.labels["app.kubernetes.io/name"]`."""
    if key and all(character.isalnum() or character in "-_" for character in key):
        return f"{path}.{key}" if path else key
    return f"{path}[{json.dumps(key, ensure_ascii=False)}]"


def _by_name(elements: Sequence[Any]) -> dict[str, Any] | None:
    """The elements by their names; None if one has none, or two have the same."""
    found: dict[str, Any] = {}
    for element in elements:
        name = element.get("name") if isinstance(element, dict) else None
        if not isinstance(name, str) or name in found:
            return None
        found[name] = element
    return found


def unified(old: str, new: str, titles: tuple[str, str]) -> str:
    """The difference of two texts as `diff -u` shows it."""
    lines = unified_diff(old.splitlines(), new.splitlines(), *titles, lineterm="")
    return "\n".join(lines)
