"""Checks that an answer was sent by the API server, and that it answers the request. Pure.

A proxy, a login page or a broken balancer between us and the API server may answer in its place: with HTML,
with `{}`, with nothing, with half a document, with the answer to another request, and with a status that
says success. Trusting such an answer would lose objects silently. So every answer is checked before it is
used: status and content type by `transport`, the body here. A body is read as far as the check needs:
the head of an object, or the beginning or end of a list.

Each function raises `InvalidResponse` with what is wrong; `retrying` adds the request.
(docs/adr/010)
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
import orjson

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import InvalidResponse
from pinnace.kube.lists.deep import pruned
from pinnace.kube.lists.pages import check_list_kind, list_outline, parse_page
from pinnace.kube.resources import APIResource

T = TypeVar("T")

Reading = Callable[[bytes], T]
"""Converts a body for the caller. Raises InvalidResponse if it is not the answer to the request."""


class _Metadata(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    generate_name: str | None = None


class _Details(msgspec.Struct, gc=False):
    name: str | None = None
    uid: str | None = None


class _Head(msgspec.Struct, rename="camel", gc=False):
    kind: str | None = None
    metadata: _Metadata | None = None
    status: Any = None
    details: _Details | None = None


class _SentHead(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None


_decode_head = msgspec.json.Decoder(_Head).decode
_decode_sent = msgspec.json.Decoder(_SentHead).decode


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The object that an answer must be about. An attribute that is "" is not checked.

    Attributes:
        kind, name, namespace, uid: those of the object.
        is_new: whether it was just created, and so must have a uid.
    """

    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    is_new: bool = False

    @classmethod
    def of(
        cls,
        resource: APIResource,
        name: str = "",
        namespace: str | None = None,
        *,
        uid: str = "",
        is_new: bool = False,
    ) -> "Expected":
        """Expect an object of this resource."""
        return cls(
            kind=resource.kind,
            name=name,
            namespace=(namespace or "") if resource.namespaced else "",
            uid=uid,
            is_new=is_new,
        )

    def check_object(self, document: JSONObject) -> None:
        """Raise InvalidResponse unless a decoded object is the expected one."""
        try:
            head = msgspec.convert(document, _Head)
        except msgspec.ValidationError as error:
            raise InvalidResponse(f"it is no object of the API: {error}") from None
        self.check(head)

    def check(self, head: "_Head") -> None:
        """Raise InvalidResponse unless the head is that of the expected object."""
        metadata = head.metadata
        if not head.kind or metadata is None:
            raise InvalidResponse("it is no object with kind and metadata")
        if self.kind and head.kind != self.kind:
            raise InvalidResponse(f"its kind is {head.kind[:100]!r}, not {self.kind}")
        if self.name and metadata.name != self.name:
            raise InvalidResponse(f"it is about {_shown(metadata.name)}, not {self.name!r}")
        if self.namespace and metadata.namespace != self.namespace:
            where = _shown(metadata.namespace)
            raise InvalidResponse(f"it is about an object in namespace {where}, not {self.namespace!r}")
        if self.uid and metadata.uid != self.uid:
            raise InvalidResponse("it is about another object of that name (its uid is not the expected one)")
        if self.is_new and not metadata.uid:
            raise InvalidResponse("the object in it has no uid, as every object has that was created")


def read_object(body: bytes, expected: Expected) -> JSONObject:
    """Return the object in a body, decoded."""
    document = read_document(body)
    expected.check_object(document)
    return document


def read_object_bytes(body: bytes, expected: Expected) -> bytes:
    """Return the body unchanged, once it is checked that it holds the expected object."""
    try:
        try:
            head = _decode_head(body)
        except RecursionError:
            head = _decode_head(pruned(body))
    except (msgspec.DecodeError, UnicodeDecodeError):
        # The other parser says what is wrong.
        read_object(body, expected)
        return body
    expected.check(head)
    return body


def read_part(body: bytes) -> JSONObject:
    """Return a sub-resource, whose kind is not known in advance, decoded."""
    document = read_document(body)
    if not isinstance(document.get("kind"), str) or not document["kind"]:
        raise InvalidResponse("it is no object with a kind")
    return document


def read_deletion(body: bytes, expected: Expected) -> JSONObject:
    """Return the answer to a deletion: the object while it is being deleted, or a Status of success."""
    document = read_document(body)
    if document.get("kind") != "Status":
        return read_object(body, expected)
    try:
        head = msgspec.convert(document, _Head)
    except msgspec.ValidationError as error:
        raise InvalidResponse(f"it is no valid Status: {error}") from None
    if head.status not in (None, "Success"):
        raise InvalidResponse("it is a Status that tells of a failure, sent as a success")
    details = head.details
    if details is not None:
        expected_name, expected_uid = details.name or expected.name, details.uid or expected.uid
        if expected.name and expected_name != expected.name:
            raise InvalidResponse(f"it is about {_shown(details.name)}, not {expected.name!r}")
        if expected.uid and expected_uid != expected.uid:
            raise InvalidResponse("it is about another object of that name (its uid is not the expected one)")
    return document


def read_document(body: bytes) -> JSONObject:
    """Return any JSON object that is not empty."""
    if not body.strip():
        raise InvalidResponse("it is empty")
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        # Without the cause, which keeps the whole document.
        raise InvalidResponse(f"it is not valid JSON: {error.msg}") from None
    if not isinstance(document, dict):
        raise InvalidResponse("it is not a JSON object")
    if not document:
        raise InvalidResponse("it is an empty object")
    return document


def check_list(body: bytes, resource: APIResource) -> bytes:
    """Return the body if its beginning or end shows that it is a complete list of the resource.

    The items are not checked here but when the page is parsed.
    """
    outline = list_outline(body)
    if outline is None:
        parse_page(body, resource=resource)
    else:
        check_list_kind(outline.kind, resource)
    return body


def sent_name(body: JSONObject | bytes) -> str:
    """The name of an object to be created; "" if the server is to generate one."""
    metadata: Any
    if isinstance(body, bytes):
        try:
            metadata = _decode_sent(body).metadata
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ""
        return (metadata.name if metadata is not None else None) or ""
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def contains(found: object, sent: object) -> bool:
    """Whether an object that exists has everything that was sent to create it; it may have more."""
    waiting: list[tuple[object, object]] = [(found, sent)]
    # Without recursion: an API server accepts objects that are nested deeper than Python's recursion limit.
    while waiting:
        there, wanted = waiting.pop()
        if isinstance(wanted, Mapping):
            wanted = {key: value for key, value in wanted.items() if value is not None}
            if not isinstance(there, Mapping) or not wanted.keys() <= there.keys():
                return False
            waiting += ((there[key], value) for key, value in wanted.items())
        elif isinstance(wanted, list):
            if not isinstance(there, list) or len(there) != len(wanted):
                return False
            waiting += zip(there, wanted, strict=True)
        elif isinstance(there, Mapping | list) or there != wanted:
            return False
    return True


def _shown(name: str | None) -> str:
    return repr(name[:100]) if name else "an object without a name"
