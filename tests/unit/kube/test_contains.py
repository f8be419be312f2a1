"""What is taken for an own object after a create request whose answer was lost."""

from typing import Any

import pytest

from pinnace.kube.answers import contains


@pytest.mark.parametrize(
    ("found", "sent", "contained"),
    [
        ({"a": 1, "more": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "absent": None}, True),
        ({}, {"a": 1}, False),
        ({"a": {"b": [{"c": 1, "default": 2}]}}, {"a": {"b": [{"c": 1}]}}, True),
        ({"a": [1, 2]}, {"a": [1]}, False),
        ({"a": []}, {"a": {}}, False),
        ({"a": {}}, {"a": []}, False),
        ({"a": {}}, {"a": "x"}, False),
        ({"a": "x"}, {"a": {}}, False),
    ],
)
def test_an_object_contains_what_was_sent(found: Any, sent: Any, contained: bool) -> None:
    assert contains(found, sent) is contained


def test_deeply_nested_objects_are_compared() -> None:
    def deep(end: str) -> Any:
        value: Any = end
        for _ in range(5000):
            value = {"a": [value]}
        return value

    assert contains(deep("x"), deep("x"))
    assert not contains(deep("y"), deep("x"))
