"""Pages and items: bytes stay bytes, metadata is seen, nothing broken passes for an empty list."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.kube.errors import InvalidResponse
from pinnace.kube.pages import Item, cut_continue_token, parse_page, type_prefix
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
    return Item(msgspec.Raw(raw), "v1", "ConfigMap", type_prefix("v1", "ConfigMap"))


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


@pytest.mark.parametrize("head", [{}, {"kind": "List", "apiVersion": "v1"}])
def test_a_list_without_a_kind_takes_the_resources(head: dict[str, str]) -> None:
    body = json.dumps({**head, "items": [{"metadata": {"name": "a"}}]}).encode()
    (item,) = parse_page(body, api_version="example.com/v1", kind="Foo").items
    assert (item.api_version, item.kind) == ("example.com/v1", "Foo")


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
    assert cut_continue_token(body) == token


def test_items_cannot_imitate_the_lists_metadata() -> None:
    forged = {
        "metadata": {"name": "a", "continue": "forged"},
        "data": {"x": '"metadata":{"continue":"forged"}}'},
    }
    for body in (
        {"items": [forged], "metadata": {"resourceVersion": "1"}},
        {"kind": "L", "metadata": {"resourceVersion": "1"}, "items": [forged]},
    ):
        assert cut_continue_token(json.dumps(body).encode()) == ""
    assert cut_continue_token(json.dumps({"kind": "L", "items": [forged]}).encode()) is None


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
    assert cut_continue_token(body) == page.continue_token == token
    assert [item.decode() for item in page.items] == [
        {**item, "apiVersion": "example.com/v1", "kind": "Foo"} for item in items
    ]
