"""The comparison of the demonstration finds what a restore got wrong."""

import copy
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.application import application
from examples.compare import (
    Comparison,
    Key,
    Rules,
    World,
    compare_objects,
    compare_worlds,
    field_differences,
    format_path,
)
from examples.documented import DOCUMENTED, LAST_APPLIED
from pinnace.api.objects import JSONObject

SHOP = application()
SHOP_JSON = orjson.dumps(SHOP)


def made_by_server(item: JSONObject, number: int, incarnation: str) -> JSONObject:
    """Give an object what the API server would."""
    item["metadata"] |= {
        "uid": f"{incarnation}-{number}",
        "resourceVersion": f"{incarnation}{number}",
        "creationTimestamp": f"2026-01-0{number % 9 + 1}T00:00:00Z",
        "managedFields": [{"manager": incarnation}],
    }
    return item


def world(incarnation: str = "first") -> dict[Key, JSONObject]:
    """The application's objects, the caller's own. Reading JSON is the quickest deep copy."""
    fresh = orjson.loads(SHOP_JSON)
    return {Key.of(item): made_by_server(item, number, incarnation) for number, item in enumerate(fresh)}


def compare(before: World, after: World) -> Comparison:
    return compare_worlds(before, {}, after, DOCUMENTED)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values that have nothing inside."""
    if isinstance(value, dict) and value:
        return [leaf for key, inner in value.items() for leaf in leaves(inner, (*path, key))]
    if isinstance(value, list) and value:
        return [leaf for index, inner in enumerate(value) for leaf in leaves(inner, (*path, index))]
    return [path]


def at(item: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        item = item[part]
    return item


def service(**spec: Any) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop", "uid": "1"},
        "spec": spec,
    }


def test_a_faithful_restore_has_no_unexplained_difference() -> None:
    after = world("second")
    for item in after.values():
        item["metadata"].setdefault("labels", {})["velero.io/restore-name"] = "r"
        item["status"] = {"phase": "whatever"}
    comparison = compare(world(), after)
    assert comparison.unexplained == []
    assert {row.different for row in comparison.rows} == {0}
    assert sum(row.back for row in comparison.rows) == len(SHOP)
    assert {found.rule for found in comparison.differences} == {"identity", "restore labels", "status"}


CHANGEABLE = [
    (Key.of(item), path)
    for item in SHOP
    for path in leaves(item)
    # What names an object cannot be changed without making it another object.
    if path[0] not in ("apiVersion", "kind")
    and path[:2] not in (("metadata", "name"), ("metadata", "namespace"))
]


@given(choice=st.sampled_from(CHANGEABLE), new=st.sampled_from(["other", None, True, 7, 0.5, {}, []]))
def test_every_changed_value_is_found(choice: tuple[Key, tuple[Any, ...]], new: Any) -> None:
    key, path = choice
    before, after = world(), world("second")
    parent = at(after[key], path[:-1])
    if type(parent[path[-1]]) is type(new) and parent[path[-1]] == new:
        return
    parent[path[-1]] = new
    assert {found.key for found in compare(before, after).unexplained} == {key}


@given(choice=st.sampled_from(CHANGEABLE))
def test_every_value_that_went_missing_is_found(choice: tuple[Key, tuple[Any, ...]]) -> None:
    key, path = choice
    before, after = world(), world("second")
    del at(after[key], path[:-1])[path[-1]]
    assert {found.key for found in compare(before, after).unexplained} == {key}


@given(key=st.sampled_from(sorted(world())))
def test_an_object_that_is_missing_or_new_is_found(key: Key) -> None:
    fewer = world("second")
    is_token = fewer.pop(key).get("type") == "kubernetes.io/service-account-token"
    lost = compare(world(), fewer).unexplained
    gained = compare(fewer, world()).unexplained
    assert [found.key for found in lost] == ([] if is_token else [key])
    assert [found.key for found in gained] == [key]


def test_the_table_counts_what_was_lost_and_what_came_back() -> None:
    before, after = world(), world("second")
    kept = Key("", "Namespace", "", "shop")
    gone = Key("", "ConfigMap", "shop", "translations")
    changed = Key("", "ConfigMap", "shop", "catalogue")
    del after[gone]
    after[changed]["metadata"]["finalizers"] = ["example.com/hold"]
    rows = {row.kind: row for row in compare_worlds(before, {kept: before[kept]}, after, DOCUMENTED).rows}
    assert (rows["Namespace"].before, rows["Namespace"].lost, rows["Namespace"].back) == (3, 2, 2)
    config_maps = rows["ConfigMap"]
    assert (config_maps.before, config_maps.lost, config_maps.back) == (5, 5, 4)
    assert (config_maps.different, config_maps.unexplained) == (2, 1)


def test_an_object_made_again_before_the_restore_counts_as_lost() -> None:
    before, destroyed = world(), world("meanwhile")
    rows = compare_worlds(before, destroyed, world("second"), DOCUMENTED).rows
    assert sum(row.lost for row in rows) == len(before)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        pytest.param({"a": 1}, {"a": 1}, [], id="equal"),
        pytest.param({"a": 1}, {"a": 1.0}, [("a",)], id="number-type"),
        pytest.param({"a": 1}, {"a": True}, [("a",)], id="boolean"),
        pytest.param({"a": None}, {}, [("a",)], id="null-is-not-missing"),
        pytest.param({"a": {}}, {}, [("a",)], id="empty-map-is-not-missing"),
        pytest.param({"a": []}, {}, [("a",)], id="empty-list-is-not-missing"),
        pytest.param({"a": {"b": 1, "c": 2}}, {}, [("a", "b"), ("a", "c")], id="missing-map-names-entries"),
        pytest.param({}, {"a": {"b": {"c": 1}}}, [("a", "b", "c")], id="new-map-names-entries"),
        pytest.param([1, 2], [1], [(1,)], id="shorter-list"),
        pytest.param([1, 2], [2, 1], [(0,), (1,)], id="order"),
        pytest.param({"a": [1]}, {"a": {"0": 1}}, [("a",)], id="other-shape"),
        pytest.param({"a": "é"}, {"a": "e\u0301"}, [("a",)], id="unicode-is-not-normalised"),
    ],
)
def test_field_differences(before: Any, after: Any, found: list[tuple[Any, ...]]) -> None:
    assert [path for path, _, _ in field_differences(before, after)] == found


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON_VALUES, JSON_VALUES)
def test_differences_are_empty_only_for_equal_values(before: Any, after: Any) -> None:
    equal = repr(_sorted(before)) == repr(_sorted(after))
    assert (not list(field_differences(before, after))) == equal
    assert not list(field_differences(before, copy.deepcopy(before)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def test_without_rules_everything_is_unexplained() -> None:
    found = compare_objects(service(clusterIP="10.0.0.1"), service(clusterIP="10.0.0.2"), Rules())
    assert [(format_path(each.path), each.rule) for each in found] == [("spec.clusterIP", "")]


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        pytest.param("10.0.0.1", "10.0.0.2", "cluster address", id="allocated"),
        pytest.param("None", "10.0.0.2", "", id="headless-stays-headless"),
    ],
)
def test_cluster_address(before: str, after: str, rule: str) -> None:
    found = compare_objects(service(clusterIP=before), service(clusterIP=after), DOCUMENTED)
    assert [each.rule for each in found] == [rule]


@pytest.mark.parametrize(
    ("applied", "rule"),
    [
        pytest.param(None, "node port", id="picked-by-the-cluster"),
        pytest.param('{"spec":{"ports":[{"name":"http","port":80}]}}', "node port", id="applied-without"),
        pytest.param('{"spec":{"ports":[{"name":"http","nodePort":30080}]}}', "", id="applied-with"),
        pytest.param('{"spec":{"ports":[{"name":"other","nodePort":30080}]}}', "node port", id="other-port"),
    ],
)
def test_node_port(applied: str | None, rule: str) -> None:
    before = service(ports=[{"name": "http", "nodePort": 30080}])
    before["metadata"]["annotations"] = {LAST_APPLIED: applied} if applied else {}
    after = copy.deepcopy(before)
    after["spec"]["ports"][0]["nodePort"] = 31234
    assert [each.rule for each in compare_objects(before, after, DOCUMENTED)] == [rule]


def test_a_new_pod_is_explained_by_its_restored_job_only() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "n", "uid": "1"}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": True}
    pod: JSONObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "j-x", "namespace": "n", "uid": "2", "ownerReferences": [owner]},
    }
    with_job = {Key.of(job): job, Key.of(pod): pod}
    assert compare({Key.of(job): job}, with_job).unexplained == []
    stranger = copy.deepcopy(pod)
    for change in (
        {"name": "another"},
        {"kind": "ReplicaSet", "apiVersion": "apps/v1"},
        {"controller": False},
    ):
        stranger["metadata"]["ownerReferences"] = [owner | change]
        assert (
            len(compare({Key.of(job): job}, {Key.of(job): job, Key.of(stranger): stranger}).unexplained) == 1
        )


def test_paths_are_readable() -> None:
    assert format_path(("spec", "ports", 0, "nodePort")) == "spec.ports[0].nodePort"
    assert format_path(("metadata", "labels", "a.b/c")) == "metadata.labels[a.b/c]"
