"""Comparison of the values of a spec, and their form in messages. Pure. (docs/spec: NAC 6.4)

Values are compared as a Go program would compare them after decoding: durations by length; an absent text
equals an empty one, but an absent list does not equal an empty one.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct, inspect

from pinnace.api.values.durations import Duration

_ABSENT: Final = object()


@functools.cache
def fields(struct: type[Struct]) -> dict[str, inspect.Type]:
    """JSON names and types of a struct's fields, in the order of declaration."""
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {field.encode_name: field.type for field in info.fields}


def is_zero(value: object, node: inspect.Type) -> bool:
    """Whether a value counts as not given: absent, an empty text, a duration of zero, an empty struct.

    A `false` of a field with three states, an empty list, an empty map and an empty selector count as given.
    """
    bare, optional = _bare(node)
    found = normal(value, node)
    return found is _ABSENT or (found == {} and isinstance(bare, inspect.StructType) and not optional)


def same(one: object, other: object, node: inspect.Type) -> bool:
    """Whether two values mean the same."""
    return bool(normal(one, node) == normal(other, node))


def normal(value: Any, node: inspect.Type) -> Any:
    """The value in a form that is equal for values of the same meaning."""
    bare, optional = _bare(node)
    if value is None:
        return _ABSENT
    match bare:
        case inspect.CustomType():
            duration = Duration.parse(value)
            return duration if duration else _ABSENT
        case inspect.StructType() if isinstance(value, Mapping):
            members = {name: normal(value.get(name), inner) for name, inner in fields(bare.cls).items()}
            return {name: member for name, member in members.items() if member is not _ABSENT}
        case inspect.ListType() if isinstance(value, list):
            return [normal(member, bare.item_type) for member in value]
        case inspect.BoolType():
            # As a text, since True equals 1.
            return str(value) if optional or value else _ABSENT
        case _:
            return value if value not in ("", 0) or isinstance(value, list | dict) else _ABSENT


def _bare(node: inspect.Type) -> tuple[inspect.Type, bool]:
    """A type without its annotations, and whether it may be absent."""
    if isinstance(node, inspect.Metadata):
        return _bare(node.type)
    if isinstance(node, inspect.UnionType):
        present = [member for member in node.types if not isinstance(member, inspect.NoneType)]
        return _bare(present[0])[0], True
    return node, False


def shown(value: Any, node: inspect.Type) -> str:
    """The value as messages show it: in Go's form, with sorted maps, so that a message stays the same."""
    bare, _ = _bare(node)
    if isinstance(bare, inspect.CustomType):
        return str(Duration.parse(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(member, str) for member in value):
        return f"[{' '.join(value)}]"
    if isinstance(value, dict) and all(isinstance(member, str) for member in value.values()):
        return f"map[{' '.join(f'{key}:{value[key]}' for key in sorted(value))}]"
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
