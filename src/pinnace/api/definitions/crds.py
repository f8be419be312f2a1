"""CustomResourceDefinitions of our kinds, derived from the structs. (docs/spec: API 1)

The schemas have no defaults and need no webhooks, as Velero's. Unlike Velero's they keep the unknown fields
of a spec, so that the server can warn about them (docs/adr/040); those of a status are pruned. Descriptions
come from the docstrings of the structs, so that `kubectl explain` tells what the code does.
"""

import copy
import functools
import re
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct, inspect

from pinnace.api.definitions.container_schema import container_schema
from pinnace.api.definitions.definition import Definition
from pinnace.api.definitions.spec_fields import NOT_SUPPORTED, NotSupported
from pinnace.api.definitions.velero import DEFINITIONS
from pinnace.api.fields import CONTAINERS_KEY, ENUM_KEY, FORMAT_KEY, MIN_ITEMS_KEY, NULLABLE_KEY, REQUIRED_KEY

Schema = dict[str, Any]

_PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
_ATTRIBUTE = re.compile(r"^    (\w+): (.*)$")
_REFERENCE = re.compile(r" \(docs/spec: [^)]*\)")
_TYPE_META_DESCRIPTIONS: Final = {
    "apiVersion": "The versioned schema of this representation of the object.",
    "kind": "The REST resource that this object represents.",
}


def crd_manifests() -> list[dict[str, Any]]:
    """The CustomResourceDefinitions (apiextensions.k8s.io/v1) of all kinds, in alphabetical order."""
    return [crd_manifest(definition) for definition in DEFINITIONS]


def crd_manifest(definition: Definition) -> dict[str, Any]:
    """The CustomResourceDefinition of one kind, without labels; each call returns a new dict."""
    kind = definition.kind
    version: dict[str, Any] = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _object_schema(definition)},
    }
    if definition.status_subresource:
        version["subresources"] = {"status": {}}
    if definition.columns:
        version["additionalPrinterColumns"] = [
            {"name": column.name, "type": column.type, "jsonPath": column.json_path}
            for column in definition.columns
        ]
    names: dict[str, Any] = {
        "kind": kind.kind,
        "listKind": f"{kind.kind}List",
        "plural": kind.plural,
        "singular": kind.singular,
    }
    if kind.short_names:
        names["shortNames"] = list(kind.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": kind.group_resource},
        "spec": {"group": kind.group, "names": names, "scope": "Namespaced", "versions": [version]},
    }


def _object_schema(definition: Definition) -> Schema:
    """The schema of a whole object: no part is required, and the API server validates metadata itself."""
    schema = copy.deepcopy(_whole_schema(definition.struct))
    properties = schema["properties"]
    properties["metadata"] = {"type": "object"}
    for key, description in _TYPE_META_DESCRIPTIONS.items():
        properties[key]["description"] = description
    if definition.requires_spec:
        schema["required"] = ["spec"]
    if "spec" in properties:
        _keep_unknown(properties["spec"])
    return schema


@functools.cache
def _whole_schema(cls: type[Struct]) -> Schema:
    """The schema of a kind; deriving it takes far longer than copying it."""
    return _struct_schema(cls)


def _keep_unknown(schema: Schema) -> None:
    """Let the API server store fields that the schema does not have, at every level with named fields."""
    if schema.get("type") == "object" and "additionalProperties" not in schema:
        schema[_PRESERVE] = True
    for member in (schema.get("properties") or {}).values():
        _keep_unknown(member)
    for key in ("items", "additionalProperties"):
        if key in schema:
            _keep_unknown(schema[key])


def _struct_schema(cls: type[Struct]) -> Schema:
    info = inspect.type_info(cls)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{cls.__name__} is not a struct")
    summary, attributes = _documentation(cls)
    schema: Schema = {"type": "object"}
    if summary:
        schema["description"] = summary
    properties: dict[str, Schema] = {}
    required: list[str] = []
    for field in info.fields:
        constraints_of_field = _extra(field)
        described = {"description": attributes[field.name]} if field.name in attributes else {}
        properties[field.encode_name] = (
            _type_schema(field.type) | described | _constraints(constraints_of_field)
        )
        if constraints_of_field.get(REQUIRED_KEY):
            required.append(field.encode_name)
    # With a schema the API server checks their types, and `kubectl explain` says that they are not supported.
    for name, other in NOT_SUPPORTED.get(cls, {}).items():
        properties[name] = copy.deepcopy(other.schema) | {"description": _refusal(other)}
    if properties:
        schema["properties"] = properties
    if required:
        schema["required"] = sorted(required)
    return schema


def _refusal(field: NotSupported) -> str:
    answer = "Not supported" if field.refused else "Without effect"
    return f"{answer}: {field.effect}. {field.instead[0].upper()}{field.instead[1:]}."


def _extra(field: inspect.Field) -> dict[str, Any]:
    if isinstance(field.type, inspect.Metadata):
        return field.type.extra or {}
    return {}


def _constraints(constraints_of_field: dict[str, Any]) -> Schema:
    constraints: Schema = {}
    if constraints_of_field.get(NULLABLE_KEY):
        constraints["nullable"] = True
    if FORMAT_KEY in constraints_of_field:
        constraints["format"] = constraints_of_field[FORMAT_KEY]
    if ENUM_KEY in constraints_of_field:
        enum: type[StrEnum] = constraints_of_field[ENUM_KEY]
        constraints["enum"] = [str(member) for member in enum]
    if MIN_ITEMS_KEY in constraints_of_field:
        constraints["minItems"] = constraints_of_field[MIN_ITEMS_KEY]
    if CONTAINERS_KEY in constraints_of_field:
        constraints["items"] = container_schema()
    return constraints


def _type_schema(node: inspect.Type) -> Schema:
    match node:
        case inspect.Metadata():
            return _type_schema(node.type)
        case inspect.UnionType():
            present = [member for member in node.types if not isinstance(member, inspect.NoneType)]
            return _type_schema(present[0])
        case inspect.StructType():
            return _struct_schema(node.cls)
        case inspect.StrType() | inspect.CustomType():
            return {"type": "string"}
        case inspect.IntType():
            return {"type": "integer"}
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case inspect.BytesType():
            return {"type": "string", "format": "byte"}
        case inspect.ListType():
            return {"type": "array", "items": _type_schema(node.item_type)}
        case inspect.DictType():
            return {"type": "object", "additionalProperties": _type_schema(node.value_type)}
        case inspect.AnyType():
            return {_PRESERVE: True}
        case _:
            raise TypeError(f"no schema for {type(node).__name__}")


@functools.cache
def _documentation(cls: type[Struct]) -> tuple[str, dict[str, str]]:
    """The text before `Attributes:` in a struct's docstring, and that of each attribute, inherited or not.

    References to the specification are left out: users of `kubectl explain` do not have it.
    """
    text, _, listed = (cls.__doc__ or "").partition("\n    Attributes:\n")
    attributes: dict[str, str] = {}
    for base in cls.__bases__:
        if base is not Struct:
            attributes |= _documentation(base)[1]
    name = ""
    for line in listed.splitlines():
        body = line.removeprefix("    ")
        if found := _ATTRIBUTE.match(body):
            name = found[1]
            attributes[name] = found[2]
        elif name and body.strip():
            attributes[name] += " " + body.strip()
    described = {name: _REFERENCE.sub("", attribute) for name, attribute in attributes.items()}
    return _REFERENCE.sub("", " ".join(text.split())), described
