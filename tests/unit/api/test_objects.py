"""Objects as JSON, however deep they are nested."""

from typing import Any

import orjson
import pytest

from pinnace.api.objects import dump_json


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
