"""Pages of a LIST: items that stay JSON bytes, each with a typed view of the metadata that filters need.

Most objects of a backup are never decoded: the filters read name, namespace and labels, and the archive
gets the bytes as the server sent them. Only objects that an action or hook reads are decoded to dicts.
"""

import re

import msgspec
import orjson
from msgspec import UNSET, UnsetType

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import InvalidResponse
from pinnace.kube.lists.deep import items_of, pruned
from pinnace.kube.resources import APIResource

_MAXIMUM_HEAD_BYTES = 4096
_MAXIMUM_TAIL_BYTES = 4096
_MAXIMUM_END_BYTES = 16
# Built-in types come as {"kind":..,"apiVersion":..,"metadata":{..},"items":[..; custom resources are
# sorted, so that their metadata stands behind the items. Both patterns are anchored at an end of the
# document, where the content of no item can imitate them.
_HEAD = re.compile(
    rb'\s*\{\s*((?:"(?:kind|apiVersion)":\s*"[^"\\]*",\s*)*)"metadata":\s*\{([^{}]*)\}\s*,\s*"items":'
)
_TAIL = re.compile(
    rb'\]\s*,((?:\s*"(?:kind|apiVersion)":\s*"[^"\\]*",)*)\s*"metadata":\s*\{([^{}\[\]]*)\}\s*\}\s*$'
)
_KIND = re.compile(rb'"kind":\s*"([^"\\]*)"')
_END = re.compile(rb"\}\s*$")
_CONTINUE = re.compile(rb'"continue":\s*"([^"\\]*)"')


class _ItemMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str | None = None
    namespace: str | None = None
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class _ItemHead(msgspec.Struct, rename="camel", gc=False):
    api_version: str | UnsetType | None = UNSET
    kind: str | UnsetType | None = UNSET
    metadata: _ItemMetadata | None = None


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(name="continue", default=None)
    remaining_item_count: int | None = None


class _RawList(msgspec.Struct, rename="camel"):
    # Without a default: an answer without items is not an empty list, but no list at all.
    items: list[msgspec.Raw] | None
    api_version: str | None = None
    kind: str | None = None
    metadata: _ListMetadata | None = None


# How the API server writes an object of a built-in type, up to the end of its labels: fields in this order,
# apiVersion and kind left out or in front, deletionTimestamp between creationTimestamp and labels if it has
# one. An object of any other form is decoded; one of this form need not be, which saves two thirds of the
# time for an object.
_PLAIN_ITEM = (
    rb'\{"metadata":\{"name":"([^"\\]*+)",(?:"generateName":"[^"]*+",)?(?:"namespace":"([^"\\]*+)",)?'
    rb'"uid":"[^"]*+","resourceVersion":"[^"]*+",(?:"generation":\d+,)?"creationTimestamp":"[^"]*+"'
    rb'(?:,"labels":\{([^{}\\]*+)\})?(?=,"(?:annotations|ownerReferences|finalizers|managedFields)":|\})'
)
_QUOTATION_MARK = ord('"')
_NOT_STORED = frozenset({"componentstatuses"})

_decode_list = msgspec.json.Decoder(_RawList).decode
_decode_head = msgspec.json.Decoder(_ItemHead).decode
_decode_labels = msgspec.json.Decoder(dict[str, str]).decode
_NO_METADATA = _ItemMetadata()


def _no_match(_raw: object) -> None:
    return None


class Item:
    """One object of a page.

    Attributes:
        raw: its JSON as the server sent it. It shares the page's memory: keep `json()` if the item must
            outlive the page.
        api_version, kind: its own, or if it has neither, those of the list. (docs/spec: BKP 5.3)
        name, namespace: "" if it has none.
        deleting: whether it has a deletionTimestamp.
        is_deep: whether it is nested too deeply to be decoded, as a restore has to.
    """

    __slots__ = (
        "_labels",
        "_prefix",
        "_unread_labels",
        "api_version",
        "deleting",
        "is_deep",
        "kind",
        "name",
        "namespace",
        "raw",
    )

    def __init__(
        self,
        raw: bytes | msgspec.Raw,
        api_version: str,
        kind: str,
        prefix: bytes,
        plain: re.Match[bytes] | None,
    ) -> None:
        """Read one item.

        Args:
            prefix: `{"apiVersion":..,"kind":..,` for `api_version` and `kind`, made once a page.
            plain: the match of `_PLAIN_ITEM`, if it has that form.
        """
        self.raw = raw
        self.is_deep = False
        if plain is None:
            try:
                head = _decode_head(raw)
            except RecursionError:
                head = _decode_head(pruned(bytes(raw)))
                self.is_deep = not _is_decodable(raw)
            self._read(head, api_version, kind, prefix)
            return
        name, namespace, self._unread_labels = plain.groups()
        self.name = name.decode()
        self.namespace = namespace.decode() if namespace is not None else ""
        self._labels: dict[str, str] | None = None
        self.deleting = False
        self.api_version, self.kind, self._prefix = api_version, kind, prefix

    def _read(self, head: _ItemHead, api_version: str, kind: str, prefix: bytes) -> None:
        metadata = head.metadata or _NO_METADATA
        self.name = metadata.name or ""
        self.namespace = metadata.namespace or ""
        self._labels, self._unread_labels = metadata.labels, None
        self.deleting = metadata.deletion_timestamp is not None
        if head.api_version is UNSET and head.kind is UNSET:
            self.api_version, self.kind, self._prefix = api_version, kind, prefix
        else:
            self._take_own_type(head, api_version, kind)

    @property
    def labels(self) -> dict[str, str] | None:
        """All labels; None if it has none."""
        if self._unread_labels is not None:
            self._labels = _decode_labels(b"{%b}" % self._unread_labels)
            self._unread_labels = None
        return self._labels

    def label(self, key: str) -> str | None:
        """The value of one label; cheap for one that hardly any item has."""
        if self._unread_labels is not None and key.encode() not in self._unread_labels:
            return None
        labels = self.labels
        return labels.get(key) if labels is not None else None

    def _take_own_type(self, head: _ItemHead, api_version: str, kind: str) -> None:
        self._prefix = b""
        self.api_version, self.kind = head.api_version or "", head.kind or ""
        if not self.api_version and not self.kind:
            # The keys exist but are empty; inserting them in front would write them twice.
            self.api_version, self.kind = api_version, kind
            self.raw = orjson.dumps(self.decode())

    def __repr__(self) -> str:
        return f"Item({self.api_version} {self.kind} {self.namespace}/{self.name})"

    def json(self) -> bytes:
        """The object's JSON, with apiVersion and kind in front if the server left them out."""
        return b"".join(self.parts())

    def parts(self) -> tuple[bytes, memoryview]:
        """The result of `json` in two parts that are not copied; they share the page's memory."""
        raw = memoryview(self.raw)
        if not self._prefix:
            return b"", raw
        # An item of a list begins with its brace; only an empty object needs no comma.
        if raw[1] != _QUOTATION_MARK and bytes(raw[1:]).lstrip() == b"}":
            return self._prefix[:-1] + b"}", raw[:0]
        return self._prefix, raw[1:]

    def decode(self) -> JSONObject:
        """A new dict of the whole object, with apiVersion and kind.

        Raises:
            ValueError: it is nested deeper than can be read, more than a thousand levels.
        """
        return self._with_type(orjson.loads(memoryview(self.raw)))

    def view(self) -> JSONObject:
        """Like `decode`, but levels nested too deeply are left out; only for reading."""
        try:
            return self.decode()
        except orjson.JSONDecodeError:
            return self._with_type(orjson.loads(pruned(bytes(self.raw))))

    def _with_type(self, document: JSONObject) -> JSONObject:
        if document.get("apiVersion") and document.get("kind"):
            return document
        return {**document, "apiVersion": self.api_version, "kind": self.kind}


def _is_decodable(raw: bytes | msgspec.Raw) -> bool:
    try:
        orjson.loads(memoryview(raw))
    except orjson.JSONDecodeError:
        return False
    return True


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a list.

    Attributes:
        items: the objects.
        resource_version: of the list; a watch can start from it.
        remaining: how many objects follow, if the server says so.
        continue_token: where the next page begins; "" on the last one.
        restarted: the list restarted with this page, as its continue token had expired; objects already
            seen come again.
    """

    items: list[Item]
    resource_version: str
    remaining: int | None = None
    continue_token: str = ""
    restarted: bool = False

    @property
    def total(self) -> int | None:
        """How many objects the list has, told by its first page; None if the server does not say.

        A page with a successor cannot be empty: an object that is missing from it counts too.
        """
        if not self.continue_token:
            return len(self.items)
        return max(len(self.items), 1) + self.remaining if self.remaining is not None else None


class ListOutline(msgspec.Struct, frozen=True):
    """The kind of a list and the token of its next page, found without decoding the list."""

    kind: str
    continue_token: str


def list_outline(body: bytes) -> ListOutline | None:
    """The outline of a list that looks complete; None if only decoding can tell.

    With it, the next page can be requested before this one is decoded.
    """
    match = _HEAD.match(body, 0, _MAXIMUM_HEAD_BYTES) or _TAIL.search(
        body, max(0, len(body) - _MAXIMUM_TAIL_BYTES)
    )
    if match is None or not _END.search(body, max(0, len(body) - _MAXIMUM_END_BYTES)):
        return None
    kind, token = _KIND.search(match[1]), _CONTINUE.search(match[2])
    if kind is None:
        return None
    return ListOutline(
        kind[1].decode("utf-8", "replace"), token[1].decode("utf-8", "replace") if token is not None else ""
    )


def check_list_kind(kind_of_list: str, resource: APIResource) -> None:
    """Refuse a list of another resource.

    Custom resources may name their lists freely (`listKind`), and servers of other API groups may answer with
    a plain List: such lists are checked by their items only.

    Raises:
        InvalidResponse: the list cannot be one of the resource.
    """
    if not kind_of_list.endswith("List"):
        raise InvalidResponse(f"its kind is {kind_of_list[:100]!r}, which is no list")
    is_named_freely = not resource.is_of_kubernetes or not resource.kind
    if kind_of_list != f"{resource.kind}List" and not is_named_freely:
        raise InvalidResponse(f"its kind is {kind_of_list[:100]!r}, not {resource.kind}List")


def _check_empty_list(document: _RawList, resource: APIResource) -> None:
    """Refuse an empty list that was not read from the API server's store.

    What the API server stores is listed at a resource version and as an array, even where there is nothing.
    Its component statuses are not stored, and the servers of other API groups need not store anything.
    """
    if not resource.is_of_kubernetes or resource.group_resource in _NOT_STORED:
        return
    if document.items is None:
        raise InvalidResponse("its items are null, not an array")
    if document.metadata is None or not document.metadata.resource_version:
        raise InvalidResponse("it is an empty list without a resource version")


def parse_page(
    body: bytes, *, resource: APIResource | None = None, namespace: str = "", restarted: bool = False
) -> Page:
    """Decode one page.

    Args:
        body: the whole answer.
        resource: the listed resource; its kind is used for items without one.
        namespace: the listed namespace; "" for all.
        restarted: as in `Page`.

    Raises:
        InvalidResponse: the body is truncated, not JSON, not a list, or holds objects that were not listed.
    """
    api_version, kind = (resource.api_version, resource.kind) if resource is not None else ("", "")
    try:
        document = _list_of(body)
        kind_of_list = document.kind or ""
        if resource is not None:
            check_list_kind(kind_of_list, resource)
        if not kind and kind_of_list.endswith("List") and kind_of_list != "List":
            kind = kind_of_list.removesuffix("List")
        # A List of v1 may hold anything: its own version does not apply to its items.
        if document.api_version and kind_of_list != "List":
            api_version = document.api_version
        prefix = type_prefix(api_version, kind)
        # Custom resources begin with apiVersion. The pattern takes as long to compile as a short list.
        is_built_in = resource is None or resource.is_of_kubernetes
        match = re.compile(_PLAIN_ITEM).match if is_built_in else _no_match
        items = [Item(raw, api_version, kind, prefix, match(raw)) for raw in document.items or ()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidResponse(f"it is not a list of objects: {error}") from None
    if resource is not None:
        if document.metadata is None:
            raise InvalidResponse("it is a list without metadata")
        if not items:
            _check_empty_list(document, resource)
        _check_items(items, resource, namespace)
    metadata = document.metadata or _ListMetadata()
    if metadata.remaining_item_count and not metadata.continue_:
        raise InvalidResponse(
            f"it says that {metadata.remaining_item_count} objects follow, and not where: it is not complete"
        )
    return Page(
        items=items,
        resource_version=metadata.resource_version or "",
        remaining=metadata.remaining_item_count,
        continue_token=metadata.continue_ or "",
        restarted=restarted,
    )


def _list_of(body: bytes) -> _RawList:
    try:
        return _decode_list(body)
    except RecursionError:
        # One object is nested too deeply: the others of the page must still be read.
        document = _decode_list(pruned(body))
        items = [msgspec.Raw(body[begin:end]) for begin, end in items_of(body)]
        return msgspec.structs.replace(document, items=items)


def _check_items(items: list[Item], resource: APIResource, namespace: str) -> None:
    kind = resource.kind
    for item in items:
        if kind and item.kind != kind:
            raise InvalidResponse(f"it holds a {item.kind[:100]!r}, not only {kind}")
        if namespace and item.namespace != namespace:
            raise InvalidResponse(
                f"it holds an object of namespace {item.namespace[:100]!r}, not only of {namespace!r}"
            )


def type_prefix(api_version: str, kind: str) -> bytes:
    """The beginning of an object's JSON, up to and including the comma after `kind`."""
    return orjson.dumps({"apiVersion": api_version, "kind": kind})[:-1] + b","
