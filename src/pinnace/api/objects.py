"""Objects of a cluster as JSON, and careful looks into those of unknown shape. Pure.

An archive, an annotation or a tenant may hold anything: whatever a member is, asking for it
never fails, and what is not of the expected type counts as absent.
"""

from collections.abc import Mapping
from typing import Any

JSONObject = dict[str, Any]
"""An object parsed from JSON, such as a resource of a cluster."""


def member(obj: object, *path: str) -> object:
    """The value at a path; None if there is none."""
    for name in path:
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(name)
    return obj


def mapping(obj: object, *path: str) -> JSONObject:
    """The object at a path, to read or to change in place; an empty one if there is none."""
    found = member(obj, *path)
    return found if isinstance(found, dict) else {}


def text(obj: object, *path: str) -> str:
    """The string at a path; empty if there is none."""
    found = member(obj, *path)
    return found if isinstance(found, str) else ""


def listed(obj: object, *path: str) -> list[Any]:
    """The list at a path; empty if there is none."""
    found = member(obj, *path)
    return found if isinstance(found, list) else []


def objects(obj: object, *path: str) -> list[JSONObject]:
    """Those members of the list at a path that are objects; empty if there is no list."""
    return [entry for entry in listed(obj, *path) if isinstance(entry, dict)]
