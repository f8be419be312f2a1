"""Decoding JSON into the API structs, leniently, and encoding them by the rules of API 1.

Reading takes what Go clients and newer versions write: unknown fields are ignored, unknown phases kept as
text, `null` is the same as absent - except for a duration that must be there. The structs therefore do not
hold everything an object has: change a stored object with a merge patch, or write a struct back together with
the object it was read from, by `encode_over`. (docs/spec: API 1, CLI 2.2, BEY 11.1)
"""

import base64
import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import msgspec
from msgspec import inspect

from pinnace.api.fields import ALWAYS_KEY
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, same_json
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import format_time, known_time

_StructT = TypeVar("_StructT", bound=msgspec.Struct)


class DecodeError(ValueError):
    """Data is not a valid object of the wanted kind.

    Attributes:
        path: Where in the object, such as `spec.ttl`; empty when the data as a whole is wrong.
        problem: What is wrong there.
    """

    def __init__(self, kind: str, path: str, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(f"{kind}: {path}: {problem}" if path else f"{kind}: {problem}")


def decode(
    cls: type[_StructT], data: bytes | str | Mapping[str, Any], *, require_kind: bool = False
) -> _StructT:
    """Read one object, or a part of one, from JSON text or from a parsed dict (which is left unchanged).

    A missing kind or apiVersion is filled in, as elements of lists lack them; a different one is refused.

    Args:
        cls: The struct to read.
        data: JSON text or an already parsed object.
        require_kind: Refuse an object without kind and apiVersion (docs/spec: STO 3.1).

    Raises:
        DecodeError: naming the path and the problem, never a value of the object.
    """
    try:
        if not require_kind:
            decoded = _decode_without_nulls(cls, data)
            if decoded is not None:
                return _with_checked_kind(decoded)
        raw = msgspec.json.decode(data) if isinstance(data, bytes | str) else dict(data)
        if require_kind:
            _require_kind(cls, raw)
        stripped = _strip_nulls(raw, _type_info(cls))
        return _with_checked_kind(msgspec.convert(stripped, cls, dec_hook=_decode_custom))
    except msgspec.DecodeError as error:
        raise _decode_error(cls, error) from error
    except (UnicodeError, RecursionError) as error:
        problem = "nested too deeply" if isinstance(error, RecursionError) else "not valid UTF-8"
        raise DecodeError(cls.__name__, "", problem) from error


def encode(value: msgspec.Struct, *, unsent: bool = False) -> JSONObject:
    """Return the JSON-ready dict of an object or a part of one, sharing nothing with it.

    Args:
        value: The struct to write.
        unsent: Write `metadata.creationTimestamp: null` when there is none, as commands print objects that
            no server has seen (docs/spec: CLI 2.2).
    """
    encoded = _encode_struct(value)
    metadata = encoded.get("metadata")
    if unsent and isinstance(metadata, dict):
        # At the position where an object from a server has it.
        keys = [entry.key for entry in _encode_plan(ObjectMeta)]
        encoded["metadata"] = {
            key: metadata.get(key) for key in keys if key in metadata or key == "creationTimestamp"
        }
    return encoded


def encode_over(value: msgspec.Struct, read: Mapping[str, Any]) -> JSONObject:
    """Return `encode(value)` with the fields of `read` that no struct has: those of other versions.

    Members of a list keep their unknown fields as long as the list has the same length. Nothing is added to
    the metadata: what the API server notes there, such as managedFields, belongs to that cluster.

    Args:
        value: The struct to write, read from an object and then changed.
        read: That object.
    """
    encoded = encode(value)
    own = {key: member for key, member in read.items() if key != "metadata"}
    _add_unknown(encoded, own, _type_info(type(value)))
    return encoded


def _add_unknown(encoded: Any, read: Any, node: inspect.Type) -> None:
    node = _bare(node)
    if isinstance(node, inspect.StructType) and isinstance(encoded, dict) and isinstance(read, Mapping):
        fields = {field.encode_name: field.type for field in node.fields}
        for key, member in read.items():
            if key not in fields:
                encoded[key] = copy.deepcopy(member)
            elif key in encoded:
                _add_unknown(encoded[key], member, fields[key])
            elif unknown := _unknown(member, fields[key]):
                encoded[key] = unknown
    elif isinstance(node, inspect.ListType) and isinstance(encoded, list) and isinstance(read, list):
        if len(encoded) == len(read):
            for member, former in zip(encoded, read, strict=True):
                _add_unknown(member, former, node.item_type)
    elif isinstance(node, inspect.DictType) and isinstance(encoded, dict) and isinstance(read, Mapping):
        for key in encoded.keys() & read.keys():
            _add_unknown(encoded[key], read[key], node.value_type)


def _unknown(read: Any, node: inspect.Type) -> JSONObject:
    """The unknown fields of a part that is empty otherwise."""
    found: JSONObject = {}
    if isinstance(_bare(node), inspect.StructType):
        _add_unknown(found, read, node)
    return found


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> JSONObject:
    """Return the JSON merge patch (RFC 7386) that turns `before` into `after`; `{}` when they are equal.

    A key that `after` lacks, or has as `null`, is removed; lists are replaced as a whole.
    (docs/spec: CTL 1.2)
    """
    patch: JSONObject = {key: None for key in before if after.get(key) is None and before[key] is not None}
    for key, new in after.items():
        old = before.get(key)
        if new is None or (key in before and same_json(old, new)):
            continue
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            # Empty when they differ only by a `null`, which is the same as absent.
            if inner := merge_patch(old, new):
                patch[key] = inner
        else:
            patch[key] = copy.deepcopy(new)
    return patch


# --- Reading --------------------------------------------------------------------------------------------


def _decode_without_nulls(cls: type[_StructT], data: bytes | str | Mapping[str, Any]) -> _StructT | None:
    """Decode the common case in one pass; None if anything does not fit, even a harmless `null`."""
    try:
        if isinstance(data, bytes | str):
            return msgspec.json.decode(data, type=cls, dec_hook=_decode_custom)
        return msgspec.convert(data, cls, dec_hook=_decode_custom)
    except msgspec.ValidationError:
        return None


def _decode_custom(wanted: type, value: object) -> object:
    if wanted is not Duration:
        raise TypeError(f"no reading of {wanted} defined")
    if not isinstance(value, str):
        raise ValueError("Expected a duration such as `1h30m`")
    try:
        return Duration.parse(value)
    except ValueError as error:
        raise ValueError(f"{error}: write hours, minutes and seconds, such as `720h` or `1h30m`") from error


@functools.cache
def _type_info(cls: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(cls)


def _bare(node: inspect.Type) -> inspect.Type:
    """`node` without its annotations and without `| None`."""
    if isinstance(node, inspect.Metadata):
        return _bare(node.type)
    if isinstance(node, inspect.UnionType):
        present = [member for member in node.types if not isinstance(member, inspect.NoneType)]
        return _bare(present[0])
    return node


def _strip_nulls(value: Any, node: inspect.Type) -> Any:
    """A copy of `value` without the `null`s that mean "absent" to Go."""
    node = _bare(node)
    if isinstance(node, inspect.StructType) and isinstance(value, Mapping):
        fields = {field.encode_name: field.type for field in node.fields}
        return {
            key: _strip_nulls(member, fields[key])
            for key, member in value.items()
            if key in fields and (member is not None or _refuses_null(fields[key]))
        }
    if isinstance(node, inspect.ListType) and isinstance(value, list):
        return [_strip_nulls(member, node.item_type) for member in value]
    if isinstance(node, inspect.DateTimeType):
        return known_time(value) or value  # year 0, which Go knows
    return value


def _refuses_null(node: inspect.Type) -> bool:
    """Whether a type is a required duration: Go fails to read `null` there."""
    if isinstance(node, inspect.Metadata):
        return _refuses_null(node.type)
    return isinstance(node, inspect.CustomType)


def _require_kind(cls: type[msgspec.Struct], raw: object) -> None:
    for key in ("kind", "apiVersion"):
        if isinstance(raw, Mapping) and not raw.get(key):
            raise DecodeError(cls.__name__, key, "missing")


def _with_checked_kind(decoded: _StructT) -> _StructT:
    for attribute, key, wanted in _kind_fields(type(decoded)):
        if getattr(decoded, attribute) not in ("", wanted):
            raise DecodeError(type(decoded).__name__, key, f"expected {wanted}, got another")
        setattr(decoded, attribute, wanted)
    return decoded


@functools.cache
def _kind_fields(cls: type[msgspec.Struct]) -> tuple[tuple[str, str, str], ...]:
    """Attribute, key and value of the fields that say what an object is; none for parts of objects."""
    fields = {field.name: field for field in cast("inspect.StructType", _type_info(cls)).fields}
    if "metadata" not in fields or "kind" not in fields:
        return ()
    return tuple((name, fields[name].encode_name, fields[name].default) for name in ("kind", "api_version"))


def _decode_error(cls: type[msgspec.Struct], error: msgspec.DecodeError) -> DecodeError:
    problem, _, path = str(error).partition(" - at `")
    return DecodeError(cls.__name__, path.removesuffix("`").removeprefix("$").removeprefix("."), problem)


# --- Writing --------------------------------------------------------------------------------------------


class _EncodeField(NamedTuple):
    attribute: str
    key: str
    convert: Callable[[Any], Any]
    always: bool
    optional: bool


@functools.cache
def _encode_plan(cls: type[msgspec.Struct]) -> tuple[_EncodeField, ...]:
    info = cast("inspect.StructType", _type_info(cls))
    return tuple(_encode_field(field) for field in info.fields)


def _encode_field(field: inspect.Field) -> _EncodeField:
    node = field.type
    extra: dict[str, Any] = {}
    if isinstance(node, inspect.Metadata):
        extra = node.extra or {}
        node = node.type
    bare = _bare(node)
    optional = isinstance(node, inspect.UnionType)
    embedded = isinstance(bare, inspect.StructType | inspect.CustomType) and not optional
    always = (embedded or bool(extra.get(ALWAYS_KEY))) and not optional
    return _EncodeField(field.name, field.encode_name, _converter(bare), always, optional)


def _converter(node: inspect.Type) -> Callable[[Any], Any]:
    node = _bare(node)
    match node:
        case inspect.StructType():
            return _encode_struct
        case inspect.StrType() | inspect.CustomType():
            # Members of a StrEnum become plain text, which every serializer knows.
            return str
        case inspect.DateTimeType():
            return format_time
        case inspect.BytesType():
            return _encode_bytes
        case inspect.ListType(item_type=item):
            convert_item = _converter(item)
            return lambda members: [convert_item(member) for member in members]
        case inspect.DictType(value_type=member_type):
            convert_member = _converter(member_type)
            return lambda members: {str(key): convert_member(member) for key, member in members.items()}
        case _:
            return copy.deepcopy


def _encode_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _encode_struct(value: msgspec.Struct) -> JSONObject:
    encoded: JSONObject = {}
    for attribute, key, convert, always, optional in _encode_plan(type(value)):
        member = getattr(value, attribute)
        if member is None or not (always or optional or member):
            continue
        encoded[key] = convert(member)
    return encoded
