"""Stored JSON that is read block by block, honest and hostile."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.json_memory import most_memory
from pinnace.storage.documents import (
    MOST_LIST_BYTES,
    DocumentError,
    ListDocument,
    StoredObjects,
    TreeDocument,
    object_of,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)
Document = ListDocument | TreeDocument


def pieces(text: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def read(document: Document, text: bytes, size: int = 1 << 20) -> Any:
    """The value of a document that comes in blocks of `size` bytes."""
    for block in pieces(text, size):
        document.feed(block)
    found = document.finish()
    return list(found) if isinstance(found, StoredObjects) else found


@given(VALUES, st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_a_tree_is_read_whatever_its_blocks(value: Any, size: int, ascii: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()

    assert read(TreeDocument(), text, size) == value


@given(st.lists(OBJECTS, max_size=5), st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_a_list_is_read_whatever_its_blocks(
    value: list[Any], size: int, ascii: bool, indent: int | None
) -> None:
    text = json.dumps(value, ensure_ascii=ascii, indent=indent).encode()

    assert read(ListDocument(), text, size) == value


@given(VALUES, st.integers(1, 40), st.data())
def test_a_damaged_one_is_refused_or_is_other_json(value: Any, size: int, data: st.DataObject) -> None:
    text = bytearray(json.dumps([{"a": value}, value]).encode())
    text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.sampled_from(list(b'"{}[],: 0a\\')))
    for document in (ListDocument(), TreeDocument()):
        try:
            found = read(document, bytes(text), size)
        except DocumentError:
            continue
        assert found == json.loads(bytes(text))


@pytest.mark.parametrize("text", [b"null", b"[]", b"{}", b" null ", b"\n[ ]\n", b"{ }\n", b"null\n"])
@pytest.mark.parametrize("size", [1, 100])
def test_nothing_in_all_its_forms(text: bytes, size: int) -> None:
    assert read(ListDocument(), text, size) == []
    assert object_of(read(TreeDocument(), text, size)) == {}


@pytest.mark.parametrize(
    "text",
    [
        b"", b"foo", b"7", b'"x"', b"[1]", b"[" * 5000, b'{"a":', b"\xff\xfe", b"[{}", b"[{},]", b"[{}{}]",
        b"[,{}]", b"[{}] x", b"nul", b"nulls", b'["a",]', b"[{]}", b'[{"a":1}}', b'{"a":1', b'{"a" 1}',
        b'{1:2}', b'{"a":1,}', b"[1 2]", b"[NaN]", b"-", b"[01]", b'["\t"]', b'["\\ud800"]', b'["\xff"]',
        b'[{"a":"\xff"}]',
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 100])
def test_other_json_and_none_are_refused(text: bytes, size: int) -> None:
    with pytest.raises(DocumentError):
        read(ListDocument(), text, size)
    with pytest.raises(DocumentError):
        object_of(read(TreeDocument(), text, size))


@pytest.mark.parametrize(
    ("text", "said"), [(b'{"a":1}', "array"), (b"[7]", "array"), (b"foo", "not valid JSON")]
)
def test_the_refusal_says_what_a_list_is_not(text: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read(ListDocument(), text)


@pytest.mark.found("K-F1", "K-F7")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" + b"{}," * 60_000 + b"{}]", "more than 25000 objects"),
        (b'[{"a":"' + b"x" * (2 << 20) + b'"}]', "an object in it is larger than 1572864 bytes"),
        (b'[{"a":"' + b"x" * (2 << 20), "an object in it is larger than 1572864 bytes"),
        (b" " * (MOST_LIST_BYTES + 1), f"larger than {MOST_LIST_BYTES} bytes"),
        (b'[{"a":' + b"[" * 5000 + b"]" * 5000 + b"}]", "not valid JSON"),
        (b'[{"a":' + b"9" * 100_000 + b"}]", "not valid JSON"),
    ],
    ids=["items", "large item", "item without end", "blanks", "depth", "digits"],
)
def test_a_list_beyond_a_limit_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read(ListDocument(), text)


@pytest.mark.found("K-F1", "K-F7")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"[" + b"{}," * 100_000 + b"{}]", "takes more than 1000000 bytes of memory"),
        (b"[" + b'"ab",' * 100_000 + b'"ab"]', "takes more than 1000000 bytes of memory"),
        (b"[" + '"ü",'.encode() * 100_000 + b'"ab"]', "takes more than 1000000 bytes of memory"),
        (b"[" + b'"\\u00fc",' * 100_000 + b'"ab"]', "takes more than 1000000 bytes of memory"),
        (b"{" + b",".join(b'"%d":0' % number for number in range(10_000)) + b"}", "takes more than"),
        (b"{" + b'"same":0.5,' * 20_000 + b'"a":0}', "takes more than"),
        (b'{"a":"' + b"x" * (6 << 20), "a text in it is longer than 4194304 bytes"),
        (b"[" * 5000, "nested more than 200 levels deep"),
        (b'{"a":' * 5000, "nested more than 200 levels deep"),
        (b"9" * 100_000, "more than 400 digits"),
        (b"[" + b"1," * 1_100_000 + b"1]", "more than 1000000 values, keys and brackets"),
    ],
    ids=[
        "objects",
        "texts",
        "wide texts",
        "escaped",
        "keys",
        "one key",
        "text",
        "arrays",
        "depth",
        "digits",
        "parts",
    ],
)
def test_a_tree_beyond_a_limit_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(DocumentError, match=said):
        read(TreeDocument(most_bytes=60_000_000 if b"1,1," in text else 1_000_000), text)


@given(VALUES)
def test_most_memory_is_an_upper_bound(value: Any) -> None:
    text = json.dumps(value).encode()

    assert most_memory(text) >= _memory(json.loads(text)) - 64  # the root is in no container


def _memory(value: Any) -> int:
    own: int = value.__sizeof__()
    if isinstance(value, dict):
        return own + sum(map(_memory, value)) + sum(map(_memory, value.values()))
    if isinstance(value, list):
        return own + sum(map(_memory, value))
    return own if not isinstance(value, bool | None) else 0
