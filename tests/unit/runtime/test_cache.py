"""What a list or an event changes, and whether indexes follow; pure."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.runtime.cache import Added, Deleted, ObjectCache, Updated
from pinnace.runtime.keys import Key
from tests.unit.runtime.fakes import (
    config_map,
)


def by_colour(obj: dict[str, Any]) -> list[str]:
    colour = obj["metadata"]["labels"].get("colour")
    return [colour] if colour else []


@pytest.mark.parametrize(
    ("text", "key"),
    [("ns/name", Key("ns", "name")), ("name", Key("", "name"))],
    ids=["namespaced", "cluster-scoped"],
)
def test_a_key_is_shown_with_its_namespace(text: str, key: Key) -> None:
    assert str(key) == text


def test_list_is_told_oldest_first_then_by_name() -> None:
    cache = ObjectCache()
    listed = [
        config_map("a", 1, created="2021-08-11T03:00:00Z"),
        config_map("c", 2, created="2021-08-11T01:00:00Z"),
        config_map("b", 3, created="2021-08-11T01:00:00Z"),
    ]
    changes = cache.replace(listed)
    assert changes == [Added(listed[2]), Added(listed[1]), Added(listed[0])]


def test_second_list_tells_the_difference_deletions_first() -> None:
    cache = ObjectCache()
    same, old, lost = config_map("same", 1), config_map("changed", 2), config_map("lost", 3)
    cache.replace([same, old, lost])
    new, fresh = config_map("changed", 9), config_map("fresh", 8)
    assert cache.replace([config_map("same", 1), new, fresh]) == [
        Deleted(lost),
        Updated(old, new),
        Added(fresh),
    ]
    assert len(cache) == 3
    assert Key("demo", "lost") not in cache


def test_other_uid_under_the_same_name_is_a_deletion_and_an_addition() -> None:
    cache = ObjectCache()
    first, second = config_map("a", 1, uid="one"), config_map("a", 5, uid="two")
    cache.put(first)
    assert cache.put(second) == [Deleted(first), Added(second)]
    third = config_map("a", 9, uid="three")
    assert cache.replace([third]) == [Deleted(second), Added(third)]


def test_deletion_of_an_object_that_was_replaced_changes_nothing() -> None:
    cache = ObjectCache()
    cache.put(config_map("a", 5, uid="new"))
    assert cache.discard(config_map("a", 4, uid="old")) == []
    assert cache.discard(config_map("unknown", 4)) == []
    last = config_map("a", 7, uid="new")
    assert cache.discard(last) == [Deleted(last)]
    assert len(cache) == 0


def test_index_follows_labels() -> None:
    cache = ObjectCache({"colour": by_colour})
    red = config_map("a", 1, labels={"colour": "red"})
    cache.replace([red, config_map("b", 2)])
    assert cache.by_index("colour", "red") == [red]
    blue = config_map("a", 3, labels={"colour": "blue"})
    cache.put(blue)
    assert cache.by_index("colour", "red") == []
    assert cache.by_index("colour", "blue") == [blue]
    cache.discard(blue)
    assert cache.by_index("colour", "blue") == []
    with pytest.raises(KeyError):
        cache.by_index("shape", "round")


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["put", "discard"]),
            st.sampled_from("abc"),
            st.sampled_from(["uid-1", "uid-2"]),
            st.integers(1, 4),
            st.sampled_from(["", "red", "blue"]),
        )
    )
)
def test_changes_rebuild_the_cache_and_its_index(steps: list[tuple[str, str, str, int, str]]) -> None:
    cache = ObjectCache({"colour": by_colour})
    told: dict[Key, dict[str, Any]] = {}
    for action, name, uid, version, colour in steps:
        obj = config_map(name, version, uid=uid, labels={"colour": colour} if colour else {})
        for change in cache.put(obj) if action == "put" else cache.discard(obj):
            match change:
                case Added(new):
                    assert Key.of(new) not in told
                    told[Key.of(new)] = new
                case Updated(old, new):
                    assert told[Key.of(old)] == old
                    told[Key.of(new)] = new
                case Deleted(old):
                    del told[Key.of(old)]
    assert {Key.of(obj): obj for obj in cache.objects()} == told
    for colour in ("red", "blue"):
        expected = [key for key, obj in told.items() if colour in by_colour(obj)]
        assert sorted(Key.of(obj) for obj in cache.by_index("colour", colour)) == sorted(expected)


def test_an_object_that_an_index_cannot_read_is_in_the_cache_all_the_same() -> None:
    cache = ObjectCache({"colour": lambda obj: [obj["spec"]["colour"]]})
    odd: dict[str, Any] = {"metadata": {"name": "odd", "namespace": []}, "spec": {"colour": {"a": 1}}}
    empty = {"metadata": {"name": "empty"}, "spec": None}
    good = {"metadata": {"name": "good"}, "spec": {"colour": "red"}}
    for obj in (odd, empty, good):
        cache.put(obj)
    assert cache.by_index("colour", "red") == [good]
    assert cache.get(Key("", "odd")) == odd
    assert cache.discard(odd) == [Deleted(odd)]
    assert cache.discard(empty) == [Deleted(empty)]
