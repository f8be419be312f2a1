"""Objects of a cluster as JSON, and safe getters for objects of unknown shape. Pure.

An archive, an annotation or a tenant's object may hold anything: the getters never fail, and a value that is
not of the expected type counts as absent.
"""

import contextlib
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
    """The members of the list at a path that are objects; empty if there is no list."""
    return [entry for entry in listed(obj, *path) if isinstance(entry, dict)]


def names_by_kind(value: object) -> dict[str, list[str]]:
    """Check a resource list of a backup or a restore, and return it: names by `<apiVersion>/<kind>`.

    `null` counts as empty.

    Raises:
        ValueError: it is not a resource list.
    """
    found = {} if value is None else value
    if isinstance(found, dict) and all(map(_are_names, found.values())):
        return {kind: names or [] for kind, names in found.items()}
    raise ValueError("not an object of arrays of names")


def _are_names(value: object) -> bool:
    return value is None or (isinstance(value, list) and all(isinstance(name, str) for name in value))


def copied(obj: JSONObject) -> JSONObject:
    """A copy that shares no object or list with the original, however deeply it is nested.

    `copy.deepcopy` ends in a RecursionError at some 400 levels, which API servers take.
    """
    whole: JSONObject = {}
    waiting: list[tuple[Any, Any]] = [(obj, whole)]
    while waiting:
        source, target = waiting.pop()
        is_list = isinstance(source, list)
        for key, value in enumerate(source) if is_list else source.items():
            entry = value
            if isinstance(value, dict | list):
                entry = {} if isinstance(value, dict) else []
                waiting.append((value, entry))
            if is_list:
                target.append(entry)
            else:
                target[key] = entry
    return whole


def same_json(left: object, right: object) -> bool:
    """Whether two values are the same JSON, however deeply they are nested; `true` is not 1."""
    # Python's comparison is quick, and wrong only where it finds truth values and numbers equal.
    with contextlib.suppress(RecursionError):
        if left != right:
            return False
    if isinstance(left, dict) and _is_written_the_same(left, right):
        return True
    waiting: list[tuple[object, object]] = [(left, right)]
    while waiting:
        one, other = waiting.pop()
        if isinstance(one, dict) and isinstance(other, dict):
            if one.keys() != other.keys():
                return False
            waiting += ((value, other[key]) for key, value in one.items())
        elif isinstance(one, list) and isinstance(other, list):
            if len(one) != len(other):
                return False
            waiting += zip(one, other, strict=True)
        elif (
            isinstance(one, dict | list)
            or isinstance(other, dict | list)
            or one != other
            or isinstance(one, bool) != isinstance(other, bool)
        ):
            return False
    return True


def _is_written_the_same(left: JSONObject, right: object) -> bool:
    """Whether the JSON of both is the same text; False too if one cannot be written."""
    import orjson

    try:
        return dump_json(left, sort_keys=True) == dump_json(right, sort_keys=True)
    except orjson.JSONEncodeError:
        return False


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


def reasons(obj: JSONObject) -> list[str]:
    """Why the object failed, in the server's words; empty if it did not fail."""
    found = mapping(obj, "status")
    failure = found.get("failureReason")
    return [*([failure] if failure else []), *(found.get("validationErrors") or [])]
