"""Which fields of a spec are honoured, which are known but not supported, and which are unknown. Pure.

A field is honoured if the struct of its object has it. `NOT_SUPPORTED` lists, struct by struct, the fields
that some version of Velero has and that are not honoured. Any other field is unknown: a spelling mistake, or
a field of a future version. The definitions of the kinds let the API server keep both.

The structs drop fields that they do not have, so the check needs the object as it was read. No part of a
request is ignored silently: a server, and the command without a server, refuse the object or warn about it.
Null and empty values request nothing and pass, and so does a value that requests the default behaviour.
(docs/spec: BEY 2.1; docs/adr/016, docs/adr/040)
"""

import functools
from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, inspect

from pinnace.api.definitions.container_schema import container_schema
from pinnace.api.fields import CONTAINERS_KEY
from pinnace.api.values.counts import counted
from pinnace.api.velero.backup import BackupSpec
from pinnace.api.velero.restore import RestoreSpec
from pinnace.api.velero.schedule import ScheduleSpec
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocationSpec
from pinnace.api.velero.storage_location import BackupStorageLocationSpec

Schema = dict[str, Any]

_TEXT: Final[Schema] = {"type": "string", "nullable": True}


class NotSupported(Struct, frozen=True, kw_only=True):
    """A field of Velero that is not honoured.

    Attributes:
        since: the version of Velero that brought it.
        effect: what it requests.
        instead: what the author of the object can do.
        schema: of the field in the definition of its kind.
        same: values that request the default behaviour, besides empty ones.
        refused: False if the object can be processed without it, so that a warning is enough.
    """

    since: str
    effect: str
    instead: str
    schema: Schema
    same: tuple[Any, ...] = ()
    refused: bool = True


_PASSED_ON: Final = NotSupported(
    since="",
    effect="is not a field of a container that this version knows, and is passed on with the pod",
    instead="check its spelling, or whether the API server knows it",
    schema={},
    refused=False,
)

NOT_SUPPORTED: Final[Mapping[type[Struct], Mapping[str, NotSupported]]] = {
    BackupSpec: {
        "volumeGroupSnapshotLabelKey": NotSupported(
            since="1.17",
            effect="common snapshots of the volumes that have the same value of a label",
            instead="leave it out: volumes are snapshotted one by one",
            schema=_TEXT,
            same=("velero.io/volume-group",),  # written into every spec by Velero 1.18
        ),
    },
}

SPECS: Final[Mapping[str, type[Struct]]] = {
    "Backup": BackupSpec,
    "Restore": RestoreSpec,
    "Schedule": ScheduleSpec,
    "BackupStorageLocation": BackupStorageLocationSpec,
    "VolumeSnapshotLocation": VolumeSnapshotLocationSpec,
}


class FieldFindings(Struct, frozen=True, kw_only=True):
    """The errors and warnings about the fields of a spec that are not honoured.

    Attributes:
        errors: one text for each field that is not supported; the object is refused.
        warnings: one text for each field that is unknown, or has no effect.
    """

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


_MOST_TEXTS: Final = 20
_MOST_CHARACTERS: Final = 100
"""The longest name in a text."""

NO_FINDINGS: Final = FieldFindings()


def check_spec(kind: str, obj: Mapping[str, Any]) -> FieldFindings:
    """The findings for an object of one of the kinds in `SPECS`, as it was read."""
    spec = obj.get("spec")
    return check_part(SPECS[kind], spec, "spec") if isinstance(spec, Mapping) else NO_FINDINGS


def check_part(struct: type[Struct], part: Mapping[str, Any], path: str) -> FieldFindings:
    """The findings for a part of an object that is read as a struct; `path` names it in the texts."""
    errors: list[str] = []
    warnings: list[str] = []
    for where, known in _beyond(struct, part, path):
        if known is _PASSED_ON:
            warnings.append(f"{where} {known.effect}: {known.instead}")
        elif known is None:
            warnings.append(
                f"{where} is not a field that this version knows, and was ignored: check its spelling, or "
                "whether a newer version is needed"
            )
        elif known.refused:
            errors.append(f"{where} is not supported ({known.effect}, Velero {known.since}): {known.instead}")
        else:
            warnings.append(f"{where} has no effect ({known.effect}, Velero {known.since}): {known.instead}")
    return FieldFindings(errors=_most(errors), warnings=_most(warnings))


def unknown_fields(struct: type[Struct], part: Mapping[str, Any]) -> list[str]:
    """The paths of the set fields, at any depth, that the struct does not have."""
    return [where.removeprefix(".") for where, _ in _beyond(struct, part, "")]


def _most(texts: list[str]) -> tuple[str, ...]:
    """The first of many texts, and the number of the others: a status and a log have limited space."""
    more = len(texts) - _MOST_TEXTS
    return (*texts[:_MOST_TEXTS], *([f"{counted(more, 'more field')} like these"] if more > 0 else []))


def _beyond(
    struct: type[Struct], part: Mapping[str, Any], path: str
) -> Iterator[tuple[str, NotSupported | None]]:
    """The paths of the set fields that are not in the structs, each with its entry in the table."""
    fields, others = _fields(struct), NOT_SUPPORTED.get(struct, {})
    for name, value in part.items():
        where = f"{path}.{name[:_MOST_CHARACTERS]}"
        if name in fields:
            yield from _inside(fields[name], value, where)
        elif not _asks_for_nothing(value) and not (name in others and value in others[name].same):
            yield where, others.get(name)


def _inside(node: inspect.Type, value: Any, path: str) -> Iterator[tuple[str, NotSupported | None]]:
    match node:
        case inspect.Metadata() if (node.extra or {}).get(CONTAINERS_KEY):
            yield from _not_of(container_schema(), value, f"{path}[]")
        case inspect.Metadata():
            yield from _inside(node.type, value, path)
        case inspect.UnionType():
            for member in node.types:
                yield from _inside(member, value, path)
        case inspect.StructType() if isinstance(value, Mapping):
            yield from _beyond(node.cls, value, path)
        case inspect.DictType() if isinstance(value, Mapping):
            for name, member in value.items():
                yield from _inside(node.value_type, member, f"{path}.{str(name)[:_MOST_CHARACTERS]}")
        case inspect.ListType() if isinstance(value, list):
            for number, member in enumerate(value):
                yield from _inside(node.item_type, member, f"{path}[{number}]")
        case _:
            return


def _not_of(schema: Schema, value: Any, path: str) -> Iterator[tuple[str, NotSupported]]:
    """The paths of the set fields of containers that are not in the API server's schema of a container."""
    members = value if isinstance(value, list) else [value]
    for member in (each for each in members if isinstance(each, Mapping)):
        for name, inner in member.items():
            where = f"{path}.{name[:_MOST_CHARACTERS]}"
            known = (schema.get("properties") or {}).get(name)
            if known is not None:
                yield from _not_of(known.get("items") or known, inner, where + "[]" * ("items" in known))
            elif "properties" in schema and not _asks_for_nothing(inner):
                yield where, _PASSED_ON


def _asks_for_nothing(value: Any) -> bool:
    """Whether a value is null, false, zero, empty, or an object that holds nothing else."""
    # Without recursion: an API server accepts objects that are nested deeper than Python's recursion limit.
    left = [value]
    while left:
        found = left.pop()
        if isinstance(found, Mapping):
            left.extend(found.values())
        elif found not in (None, False, 0, "", []):
            return False
    return True


@functools.cache
def _fields(struct: type[Struct]) -> Mapping[str, inspect.Type]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)
    return {each.encode_name: each.type for each in info.fields}
