"""JSON patches (RFC 6902). Pure."""

import copy
import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final

import msgspec

from pinnace.api.objects import same_json

_MISSING: Final = object()
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


class PatchError(ValueError):
    """The patch cannot be applied; the text says which operation, and why."""


class TestFailed(PatchError):
    """A `test` operation found another value, or none."""

    __test__ = False


class Op(StrEnum):
    """The operations of a JSON patch."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"
    TEST = "test"
    MOVE = "move"
    COPY = "copy"


class PatchOperation(msgspec.Struct, frozen=True, kw_only=True):
    """One operation.

    Attributes:
        path: a JSON pointer; empty for the whole document.
        source: the `from` of move and copy.
    """

    kind: Op
    path: str
    source: str = ""
    value: Any = None


def pointer(path: str) -> list[str]:
    """The keys of a JSON pointer. Raises PatchError."""
    if path and not path.startswith("/"):
        raise PatchError(f'path "{path}" does not begin with "/"')
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]


def apply(document: Any, operations: Sequence[PatchOperation]) -> Any:
    """The document after all operations; the given one is not changed.

    Raises:
        TestFailed: a test failed.
        PatchError: an operation cannot be carried out.
    """
    changed = copy.deepcopy(document)
    for operation in operations:
        changed = _applied(changed, operation)
    return changed


def matches(document: Any, operations: Sequence[PatchOperation]) -> bool:
    """Whether all tests hold; a missing path does not match."""
    try:
        apply(document, operations)
    except PatchError:
        return False
    return True


def _applied(document: Any, operation: PatchOperation) -> Any:
    keys = pointer(operation.path)
    match operation.kind:
        case Op.TEST:
            found = _get(document, keys)
            if found is _MISSING or not same_json(found, operation.value):
                raise TestFailed(f"test of {operation.path} failed")
            return document
        case Op.ADD:
            return _put(document, keys, operation.value, operation, insert=True)
        case Op.REPLACE:
            if _get(document, keys) is _MISSING:
                raise PatchError(f"replace {operation.path}: there is no such path")
            return _put(document, keys, operation.value, operation, insert=False)
        case Op.REMOVE:
            return _removed(document, keys, operation)
    source = pointer(operation.source)
    found = _get(document, source)
    if found is _MISSING:
        raise PatchError(f"{operation.kind} from {operation.source}: there is no such path")
    if operation.kind is Op.MOVE:
        if keys[: len(source)] == source and len(keys) > len(source):
            raise PatchError(f"move {operation.source} into itself")
        document = _removed(document, source, operation)
    return _put(document, keys, copy.deepcopy(found), operation, insert=True)


def _get(document: Any, keys: Sequence[str]) -> Any:
    for key in keys:
        if isinstance(document, dict):
            document = document.get(key, _MISSING)
        elif isinstance(document, list):
            index = _index(key, len(document))
            document = _MISSING if index is None else document[index]
        else:
            return _MISSING
        if document is _MISSING:
            return _MISSING
    return document


def _index(key: str, length: int) -> int | None:
    """The index of an existing element; None for a negative number or one with leading zeros."""
    if not _INDEX.fullmatch(key):
        return None
    index = int(key)
    return index if index < length else None


def _parent(document: Any, keys: Sequence[str], operation: PatchOperation) -> Any:
    found = _get(document, keys[:-1])
    if not isinstance(found, dict | list):
        raise PatchError(f"{operation.kind} {operation.path}: there is no such path")
    return found


def _put(document: Any, keys: Sequence[str], value: Any, operation: PatchOperation, *, insert: bool) -> Any:
    if not keys:
        return value
    parent, key = _parent(document, keys, operation), keys[-1]
    if isinstance(parent, dict):
        parent[key] = value
        return document
    if insert and (key == "-" or key == str(len(parent))):
        parent.append(value)
        return document
    index = _index(key, len(parent))
    if index is None:
        raise PatchError(f"{operation.kind} {operation.path}: the list has no element {key}")
    if insert:
        parent.insert(index, value)
    else:
        parent[index] = value
    return document


def _removed(document: Any, keys: Sequence[str], operation: PatchOperation) -> Any:
    if not keys or _get(document, keys) is _MISSING:
        raise PatchError(f"{operation.kind} {operation.path}: there is no such path")
    parent = _parent(document, keys, operation)
    if isinstance(parent, dict):
        del parent[keys[-1]]
    else:
        del parent[int(keys[-1])]
    return document


def merged(document: Any, patch: Any) -> Any:
    """The document after a JSON merge patch (RFC 7386); the given one is not changed."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(document) if isinstance(document, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result
