"""Merges our definition with the one that a cluster serves, so that no stored object loses a field.

The API server drops the fields of an object that its definition does not have, at the next write to any part
of the object. A definition that replaces another one must therefore have every field of it, and must accept
every object that it accepted: fields and enumerations are united, limits hold only where both have them.
Pure. (docs/adr/017)
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pinnace.api.objects import JSONObject

Schema = dict[str, Any]

_SCHEMA: Final = "openAPIV3Schema"
_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_LOOSER_IF_TRUE: Final = frozenset({"nullable", _PRESERVE, "x-kubernetes-int-or-string"})
_PARTS: Final = frozenset({"properties", "items", "additionalProperties", "enum", "required", "description"})


def superset(ours: JSONObject, served: JSONObject) -> JSONObject:
    """Return our CustomResourceDefinition with all fields of the served one added; neither is changed.

    The subresources of a version are those that both have: a server of another version that is still running
    finds the status where it was. Versions that only the served definition has are kept.
    """
    merged = copy.deepcopy(ours)
    versions = {version["name"]: version for version in served["spec"].get("versions") or []}
    wide = [_version(each, versions.pop(each["name"], None)) for each in merged["spec"]["versions"]]
    if versions:
        # Exactly one version is the storage version: the served definition's, as objects are stored in it.
        for version in wide:
            version["storage"] = _is_stored(version["name"], served)
        wide += copy.deepcopy(list(versions.values()))
    merged["spec"]["versions"] = wide
    merged["spec"]["names"] = _names(merged["spec"]["names"], served["spec"].get("names") or {})
    return merged


def fields_beyond(ours: JSONObject, served: JSONObject) -> list[str]:
    """The paths of the fields that a served definition has and ours does not have, sorted."""
    known = {(name, path) for name, schema in _schemas(ours) for path in _paths(schema)}
    return sorted(
        path for name, schema in _schemas(served) for path in _paths(schema) if (name, path) not in known
    )


def _schemas(crd: JSONObject) -> Iterator[tuple[str, Schema]]:
    for version in crd["spec"].get("versions") or []:
        yield version["name"], (version.get("schema") or {}).get(_SCHEMA) or {}


def _paths(schema: Schema, path: str = "") -> Iterator[str]:
    """The path of each field, without the parts of a field that is listed itself."""
    for name, member in (schema.get("properties") or {}).items():
        inner = f"{path}.{name}" if path else name
        yield inner
        yield from _paths(member, inner)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield from _paths(schema[key], f"{path}[]")


def _is_stored(name: str, served: JSONObject) -> bool:
    return any(each["name"] == name and each.get("storage") for each in served["spec"]["versions"])


def _version(ours: JSONObject, served: JSONObject | None) -> JSONObject:
    if served is None:
        return ours
    merged = copy.deepcopy(ours)
    schema = (served.get("schema") or {}).get(_SCHEMA)
    if schema is not None:
        merged["schema"] = {_SCHEMA: _wider(merged["schema"][_SCHEMA], schema)}
    both = {
        name: value
        for name, value in (merged.pop("subresources", None) or {}).items()
        if name in (served.get("subresources") or {})
    }
    if both:
        merged["subresources"] = both
    columns = list(served.get("additionalPrinterColumns") or [])
    shown = {column["name"] for column in columns}
    columns += [each for each in merged.get("additionalPrinterColumns") or [] if each["name"] not in shown]
    if columns:
        merged["additionalPrinterColumns"] = copy.deepcopy(columns)
    return merged


def _names(ours: JSONObject, served: JSONObject) -> JSONObject:
    merged = dict(ours)
    for key in ("shortNames", "categories"):
        if united := _united(served.get(key) or [], ours.get(key) or []):
            merged[key] = united
    return merged


def _united(first: list[Any], second: list[Any]) -> list[Any]:
    return [*first, *(each for each in second if each not in first)]


def _wider(ours: Schema, served: Schema) -> Schema:
    """A schema that accepts all that the served one accepts, and all that ours accepts where possible."""
    if _shape(ours) != _shape(served):
        # No schema accepts both free keys and named fields, or two types: stored objects need the served one.
        return copy.deepcopy(served)
    merged: Schema = {}
    for key in _united(list(ours), list(served)):
        if key in _PARTS:
            continue
        if key in _LOOSER_IF_TRUE:
            if ours.get(key) or served.get(key):
                merged[key] = True
        elif key in ours and key in served and ours[key] == served[key]:
            merged[key] = copy.deepcopy(ours[key])
        elif key == "default" and key in served:
            merged[key] = copy.deepcopy(served[key])
    if description := ours.get("description") or served.get("description"):
        merged["description"] = description
    if "enum" in ours and "enum" in served:
        merged["enum"] = _united(served["enum"], ours["enum"])
    if required := [name for name in ours.get("required") or [] if name in (served.get("required") or [])]:
        merged["required"] = required
    if "properties" in ours or "properties" in served:
        own, there = ours.get("properties") or {}, served.get("properties") or {}
        if served.get(_PRESERVE):
            # It accepts any field, so stored objects may hold any value in the fields that only ours has.
            own = {name: member if name in there else _any_value(member) for name, member in own.items()}
        merged["properties"] = _properties(own, there)
    for key in ("items", "additionalProperties"):
        if isinstance(ours.get(key), Mapping) and isinstance(served.get(key), Mapping):
            merged[key] = _wider(ours[key], served[key])
        elif key in ours or key in served:
            merged[key] = copy.deepcopy(served.get(key, ours.get(key)))
    return merged


def _any_value(schema: Schema) -> Schema:
    """A schema with the same description that accepts every value, null included."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return {**described, _PRESERVE: True, "nullable": True}


def _properties(ours: Mapping[str, Schema], served: Mapping[str, Schema]) -> dict[str, Schema]:
    return {
        name: _wider(ours[name], served[name])
        if name in ours and name in served
        else copy.deepcopy(ours.get(name) or served[name])
        for name in _united(list(ours), list(served))
    }


def _shape(schema: Schema) -> tuple[object, bool]:
    """The type of a schema, and whether its keys are free: schemas that agree in both can be united."""
    return schema.get("type"), "additionalProperties" in schema
