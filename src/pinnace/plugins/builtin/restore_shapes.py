"""Careful looks into objects of unknown shape, for the restore actions.

Items come from archives, and an archive may hold anything. What is not of the expected type counts as absent,
so that an action leaves it to the API server to refuse it.
"""

from typing import Any

JSONObject = dict[str, Any]


def mapping_at(item: JSONObject, *path: str) -> JSONObject:
    """The object at a path, to read or to change in place; an empty one if there is none."""
    current: Any = item
    for key in path:
        current = current.get(key) if isinstance(current, dict) else None
    return current if isinstance(current, dict) else {}


def objects_at(item: JSONObject, *path: str) -> list[JSONObject]:
    """Those members of the list at a path that are objects; empty if there is no list."""
    found = mapping_at(item, *path[:-1]).get(path[-1])
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def text_at(item: JSONObject, *path: str) -> str:
    """The string at a path; empty if there is none."""
    found = mapping_at(item, *path[:-1]).get(path[-1])
    return found if isinstance(found, str) else ""
