"""JSON that is nested too deeply for the parsers."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.kube.lists.deep import items_of, pruned

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def shallow(value: Any, levels: int) -> Any:
    """What is left of a value when deeper levels are left out."""
    if isinstance(value, dict | list) and levels == 0:
        return None
    if isinstance(value, dict):
        return {key: shallow(member, levels - 1) for key, member in value.items()}
    return [shallow(member, levels - 1) for member in value] if isinstance(value, list) else value


@given(VALUES, st.integers(1, 5))
def test_only_deeper_levels_are_left_out(value: Any, levels: int) -> None:
    assert json.loads(pruned(json.dumps(value).encode(), levels)) == shallow(value, levels)


def test_thousands_of_levels_are_no_problem() -> None:
    deep = b'{"a":1,"b":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    found = json.loads(pruned(deep))
    assert found["a"] == 1


@given(
    st.lists(st.dictionaries(st.text(max_size=5), VALUES, max_size=3), max_size=4),
    st.dictionaries(st.text(max_size=5).filter(lambda key: key != "items"), VALUES, max_size=3),
)
def test_the_items_of_a_list_are_found(items: list[Any], others: dict[str, Any]) -> None:
    text = json.dumps({**others, "items": items, "metadata": {"items": [{}]}}).encode()
    assert [json.loads(text[begin:end]) for begin, end in items_of(text)] == items


@pytest.mark.parametrize("text", [b"", b"{", b"]]]]", b'{"items": {"a": {}}}', b'[["items", {}]]'])
def test_what_is_no_list_has_no_items(text: bytes) -> None:
    assert list(items_of(text)) == []
