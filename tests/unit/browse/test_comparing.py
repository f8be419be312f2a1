"""The fields of two objects that differ, by path."""

from typing import Any

import pytest

from pinnace.browse.comparing import Change, changes


def named(**values: Any) -> list[Any]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, [Change("a", 1, True)]),
        ({"a": 1}, {"b": 2}, [Change("a", old=1, is_removed=True), Change("b", new=2, is_added=True)]),
        ({"a": None}, {}, [Change("a", old=None, is_removed=True)]),
        ({"m": {"x.y/z": 1}}, {"m": {"x.y/z": 2}}, [Change('m["x.y/z"]', 1, 2)]),
        ({"m": {"": 1}}, {"m": {"": 2}}, [Change('m[""]', 1, 2)]),
        ({"l": [1, 2]}, {"l": [1, 3, 4]}, [Change("l[1]", 2, 3), Change("l[2]", new=4, is_added=True)]),
        ({"l": named(a=1, b=2)}, {"l": named(b=3, a=1)}, [Change("l[name=b].value", 2, 3)]),
        (
            {"l": named(a=1)},
            {"l": named(b=1)},
            [
                Change("l[name=a]", old={"name": "a", "value": 1}, is_removed=True),
                Change("l[name=b]", new={"name": "b", "value": 1}, is_added=True),
            ],
        ),
        # Without a name of each, or with a name twice, elements are matched by their places.
        ({"l": [*named(a=1), {}]}, {"l": [{}, *named(a=1)]}, ["l[0].name", "l[0].value", "l[1].name"]),
        ({"l": named(a=1) * 2}, {"l": [*named(a=1), *named(a=2)]}, [Change("l[1].value", 1, 2)]),
        ({"l": [{"name": 1}]}, {"l": [{"name": 2}]}, [Change("l[0].name", 1, 2)]),
        ({"l": [1]}, {"l": {"0": 1}}, [Change("l", [1], {"0": 1})]),
    ],
)
def test_the_fields_that_differ(old: Any, new: Any, expected: list[Any]) -> None:
    found: list[Any] = changes(old, new)
    if expected and isinstance(expected[0], str):
        found = [each.path for each in found][: len(expected)]
    assert found == expected


def test_objects_that_are_nested_deeper_than_people_write_are_compared_as_a_whole() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(1000):
        old, new = {"a": old}, {"a": new}
    (only,) = changes(old, new)
    assert only.path.startswith("a.a.a")
