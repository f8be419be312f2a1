"""Objects of a cluster as JSON, and safe getters for objects of unknown shape. Pure.

An archive, an annotation or a tenant's object may hold anything: the getters never fail, and a value that is
not of the expected type counts as absent.
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


def dump_json(value: object, *, sort_keys: bool = False) -> bytes:
    """Return compact JSON. Values may be nested as deeply as API servers accept and Python can handle.

    Raises:
        orjson.JSONEncodeError: the value cannot be written, or is nested some 900 levels deep.
    """
    # Loaded here: commands that start quickly import this module for its types.
    import orjson

    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except orjson.JSONEncodeError as refused:
        # orjson stops at 254 levels. The json module goes further, but is slower and checks less.
        if "ecursion" not in str(refused):
            raise
        import msgspec

        try:
            return msgspec.json.encode(value, order="deterministic" if sort_keys else None)
        except (RecursionError, TypeError, ValueError, msgspec.MsgspecError) as error:
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
            raise orjson.JSONEncodeError(reason) from None
