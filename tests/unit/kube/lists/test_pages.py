"""Pages and items: bytes stay bytes, metadata is seen, nothing broken passes for an empty list."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.kube.errors import InvalidResponse
from pinnace.kube.lists.pages import Item, list_outline, parse_page, type_prefix
from pinnace.kube.resources import CONFIGMAPS, APIResource
from tests.unit.kube.scripted import listing

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(
    st.text(max_size=8).filter(lambda key: key not in ("apiVersion", "kind", "metadata")),
    JSON_VALUES,
    max_size=4,
)


def _item(document: object) -> Item:
    raw = document if isinstance(document, bytes) else json.dumps(document).encode()
    return Item(msgspec.Raw(raw), "v1", "ConfigMap", type_prefix("v1", "ConfigMap"), None)


def test_items_show_their_metadata() -> None:
    item = _item(
        {
            "metadata": {
                "name": "a",
                "namespace": "ns",
                "labels": {"k": "v"},
                "deletionTimestamp": "2021-01-01T00:00:00Z",
            }
        }
    )
    assert (item.name, item.namespace, item.labels, item.deleting) == ("a", "ns", {"k": "v"}, True)


@pytest.mark.parametrize("document", [{}, {"metadata": None}, {"metadata": {"labels": None, "name": None}}])
def test_missing_metadata_is_empty(document: dict[str, Any]) -> None:
    item = _item(document)
    assert (item.name, item.namespace, item.labels, item.deleting) == ("", "", None, False)


@pytest.mark.parametrize(
    "raw",
    [
        b"{}",
        b"{ }",
        b'{"metadata":{"name":"a"}}',
        b'{ "metadata" : {"name":"a"} }',
        b'{"data":{"k":"\\u00fc"}}',
    ],
)
def test_json_puts_the_type_in_front(raw: bytes) -> None:
    item = _item(raw)
    assert item.json().startswith(b'{"apiVersion":"v1","kind":"ConfigMap"')
    assert json.loads(item.json()) == {"apiVersion": "v1", "kind": "ConfigMap", **json.loads(raw)}
    assert item.decode() == json.loads(item.json())


def test_an_items_own_type_holds_and_its_bytes_stay() -> None:
    raw = b'{"kind":"Foo","metadata":{"name":"a"},"apiVersion":"example.com/v1"}'
    item = _item(raw)
    assert (item.api_version, item.kind, item.json()) == ("example.com/v1", "Foo", raw)


@pytest.mark.parametrize(
    "own", [{"apiVersion": "", "kind": ""}, {"apiVersion": None, "kind": None}, {"kind": ""}]
)
def test_an_empty_type_is_replaced_not_doubled(own: dict[str, Any]) -> None:
    item = _item({**own, "metadata": {"name": "a"}})
    assert item.json().count(b'"kind"') == 1
    assert json.loads(item.json())["kind"] == item.kind == "ConfigMap"
    assert json.loads(item.json())["apiVersion"] == item.api_version == "v1"


@given(OBJECTS)
def test_the_splice_is_what_decoding_gives(document: dict[str, Any]) -> None:
    item = _item({"metadata": {"name": "a"}, **document})
    assert json.loads(item.json()) == item.decode()
    assert item.decode() == {"metadata": {"name": "a"}, **document, "apiVersion": "v1", "kind": "ConfigMap"}


def test_a_page_fills_in_the_kind_of_its_list() -> None:
    page = parse_page(json.dumps(listing(["a", "b"], token="t", remaining=7, kind="SecretList")).encode())
    assert [(item.kind, item.api_version, item.name) for item in page.items] == [
        ("Secret", "v1", "a"),
        ("Secret", "v1", "b"),
    ]
    assert (page.resource_version, page.remaining, page.continue_token) == ("100", 7, "t")


FOOS = APIResource(group="example.com", version="v1", name="foos", kind="Foo", namespaced=True)


def test_items_of_a_plain_list_take_the_kind_of_the_resource() -> None:
    document = {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [{"metadata": {"name": "a"}}]}
    (item,) = parse_page(json.dumps(document).encode(), resource=FOOS).items
    assert (item.api_version, item.kind) == ("example.com/v1", "Foo")


@pytest.mark.parametrize(
    ("resource", "change"),
    [
        (CONFIGMAPS, {"kind": None}),
        (CONFIGMAPS, {"kind": "Table"}),
        (CONFIGMAPS, {"kind": "ConfigMap"}),
        (CONFIGMAPS, {"kind": "SecretList"}),
        (CONFIGMAPS, {"metadata": None}),
        (CONFIGMAPS, {"metadata": []}),
        (CONFIGMAPS, {"items": [{"kind": "Secret", "metadata": {"name": "a", "namespace": "demo"}}]}),
        (CONFIGMAPS, {"items": [{"metadata": {"name": "a", "namespace": "other"}}]}),
        (FOOS, {"kind": "Foo"}),
        (FOOS, {"kind": "BarList", "items": [{"apiVersion": "example.com/v1", "kind": "Bar"}]}),
    ],
)
def test_a_list_of_something_else_is_refused(resource: APIResource, change: dict[str, Any]) -> None:
    body = json.dumps({**listing([]), "kind": f"{resource.kind}List", **change}).encode()
    with pytest.raises(InvalidResponse):
        parse_page(body, resource=resource, namespace="demo")


ENDPOINT_SLICES = APIResource(
    group="discovery.k8s.io", version="v1", name="endpointslices", kind="EndpointSlice", namespaced=True
)


@pytest.mark.parametrize("resource", [CONFIGMAPS, ENDPOINT_SLICES], ids=["core", "named group"])
@pytest.mark.parametrize(
    "change",
    [{"kind": "List"}, {"metadata": {}}, {"metadata": {"resourceVersion": ""}}, {"items": None}],
    ids=["plain list", "no version", "empty version", "null"],
)
def test_an_empty_list_that_the_api_server_did_not_write_is_refused(
    resource: APIResource, change: dict[str, Any]
) -> None:
    genuine = {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "7"}, "items": []}
    assert parse_page(json.dumps(genuine).encode(), resource=resource).items == []
    with pytest.raises(InvalidResponse):
        parse_page(json.dumps({**genuine, **change}).encode(), resource=resource)


def test_the_list_of_component_statuses_has_no_resource_version() -> None:
    statuses = APIResource(
        group="", version="v1", name="componentstatuses", kind="ComponentStatus", namespaced=False
    )
    document = {"kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": []}
    assert parse_page(json.dumps(document).encode(), resource=statuses).items == []


def test_custom_resources_may_name_their_lists_freely() -> None:
    items = [{"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "a"}}]
    document = {"apiVersion": "example.com/v1", "kind": "FoosetList", "metadata": {}, "items": items}
    (item,) = parse_page(json.dumps(document).encode(), resource=FOOS).items
    assert (item.name, item.kind) == ("a", "Foo")


def test_a_list_of_null_is_empty() -> None:
    assert parse_page(b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":null}').items == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"null",
        b"[]",
        b'{"kind":"Status","status":"Failure"}',
        json.dumps(listing(["a", "b"])).encode()[:-1],
        json.dumps(listing(["a", "b"])).encode()[:90],
        b'{"items":[1]}',
        b'{"items":[{"metadata":{"name":1}}]}',
        b'{"items":[{"metadata":{"name":"\xff"}}]}',
    ],
)
def test_what_is_no_whole_list_is_an_error(body: bytes) -> None:
    with pytest.raises(InvalidResponse):
        parse_page(body)


@pytest.mark.parametrize(
    "order", [("kind", "apiVersion", "metadata", "items"), ("apiVersion", "items", "kind", "metadata")]
)
@pytest.mark.parametrize("token", ["", "eyJ2IjoibWV0YS5rOHMuaW8vdjEi"])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_the_token_is_cut_from_either_end(
    order: tuple[str, ...], token: str, separators: tuple[str, str]
) -> None:
    whole = listing(["a", "b"], token=token, remaining=3 if token else None)
    body = json.dumps({key: whole[key] for key in order}, separators=separators).encode() + b"\n"
    outline = list_outline(body)
    assert outline is not None
    assert (outline.kind, outline.continue_token) == ("ConfigMapList", token)


def test_a_list_that_does_not_end_has_no_outline() -> None:
    body = json.dumps(listing(["a", "b"], token="t")).encode()
    assert list_outline(body) is not None
    assert list_outline(body[:-1]) is None


def test_items_cannot_imitate_the_lists_metadata() -> None:
    forged = {
        "metadata": {"name": "a", "continue": "forged"},
        "data": {"x": '"metadata":{"continue":"forged"}}'},
    }
    for body in (
        {"items": [forged], "kind": "L", "metadata": {"resourceVersion": "1"}},
        {"kind": "L", "metadata": {"resourceVersion": "1"}, "items": [forged]},
    ):
        outline = list_outline(json.dumps(body).encode())
        assert outline is not None
        assert outline.continue_token == ""
    assert list_outline(json.dumps({"kind": "L", "items": [forged]}).encode()) is None


@given(st.lists(OBJECTS, max_size=3), st.text("abcXYZ019_-=", max_size=30), st.booleans())
def test_a_token_that_was_cut_is_the_decoded_one(items: list[dict[str, Any]], token: str, sort: bool) -> None:
    document = {
        "kind": "FooList",
        "apiVersion": "example.com/v1",
        "metadata": {"continue": token, "resourceVersion": "5"},
        "items": items,
    }
    body = json.dumps(document, sort_keys=sort, separators=(",", ":")).encode()
    page = parse_page(body)
    outline = list_outline(body)
    assert outline is not None
    assert outline.continue_token == page.continue_token == token
    assert [item.decode() for item in page.items] == [
        {**item, "apiVersion": "example.com/v1", "kind": "Foo"} for item in items
    ]


@pytest.mark.parametrize("levels", [400, 2000, 20_000])
@pytest.mark.parametrize("typed", [False, True])
def test_an_object_nested_too_deeply_does_not_hide_the_others(levels: int, typed: bool) -> None:
    head = b'"apiVersion":"v1","kind":"ConfigMap",' if typed else b""
    spec = b'{"a":' * levels + b"1" + b"}" * levels
    deep = b'{%b"metadata":{"name":"deep","namespace":"demo","labels":{"a":"b"}},"spec":%b}' % (head, spec)
    whole = json.dumps(listing(["a", "b"], token="t1"), separators=(",", ":")).encode()
    body = whole.replace(b'"items":[', b'"items":[' + deep + b",")
    page = parse_page(body, resource=CONFIGMAPS, namespace="demo")

    assert [(item.name, item.namespace, item.kind) for item in page.items] == [
        ("deep", "demo", "ConfigMap"),
        ("a", "demo", "ConfigMap"),
        ("b", "demo", "ConfigMap"),
    ]
    assert page.continue_token == "t1"
    assert page.items[0].labels == {"a": "b"}
    assert spec in page.items[0].json()
    assert page.items[0].view()["metadata"]["name"] == "deep"
    if levels > 1000:
        with pytest.raises(ValueError, match="depth"):
            page.items[0].decode()
