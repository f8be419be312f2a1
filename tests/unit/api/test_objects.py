"""Objects as JSON, however deep they are nested."""

from typing import Any

import orjson
import pytest

from pinnace.api.objects import copied, dump_json, same_json


def nested(levels: int) -> Any:
    value: Any = {"b": 1, "a": [None, True, 1.5, "ä"]}
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize("levels", [0, 250, 260, 400, 800])
@pytest.mark.parametrize("sort_keys", [False, True])
def test_what_is_written_is_read_again(levels: int, sort_keys: bool) -> None:
    text = dump_json(nested(levels), sort_keys=sort_keys)
    assert orjson.loads(text) == nested(levels)
    assert text.endswith((b'"b":1}' if sort_keys else b'"\xc3\xa4"]}') + b"}" * levels)


def test_deeper_levels_than_can_be_written_are_an_error_of_its_own() -> None:
    with pytest.raises(orjson.JSONEncodeError, match="nested too deeply"):
        dump_json(nested(5000))


@pytest.mark.parametrize("value", [{"a": object()}, {"a": "\ud800"}, {1: 2}])
def test_what_is_no_json_is_an_error(value: Any) -> None:
    with pytest.raises(orjson.JSONEncodeError):
        dump_json(value)


def test_a_copy_of_a_deeply_nested_object_is_equal_and_shares_nothing() -> None:
    original = {"a": nested(5000), "b": [{"c": [1, True, None]}]}

    copy = copied(original)
    copy["b"][0]["c"].append("changed")

    assert same_json(copy["a"], original["a"])
    assert original["b"] == [{"c": [1, True, None]}]


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, True),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": None}, {}, False),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": True}, {"a": 1}, False),
        ({"a": {}}, {"a": []}, False),
        ({"a": {}}, {"a": None}, False),
        ({"a": "x"}, {"a": "y"}, False),
    ],
)
def test_values_are_the_same_if_they_are_the_same_json(left: Any, right: Any, same: bool) -> None:
    assert same_json(left, right) is same
    assert same_json(right, left) is same
