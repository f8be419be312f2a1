"""Resource modifiers: the rules that apply to an object, and their results. (docs/spec: BEY 5.3)"""

from typing import Any

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.objects import JSONObject
from pinnace.restore.modifiers.json_patch import Op, PatchError, PatchOperation, apply, merged
from pinnace.restore.modifiers.modifier import Modified, ResourceModifiers
from pinnace.restore.modifiers.rules import ModifierError, ResourceGlob, read_rules
from pinnace.restore.modifiers.values import value_of
from tests.unit.restore.world import configmap, deployment, obj, pod


def config_map(*rules: JSONObject, **document: Any) -> JSONObject:
    content = {"version": "v1", "resourceModifierRules": list(rules), **document}
    return {"metadata": {"name": "m"}, "data": {"rules.yaml": yaml.safe_dump(content)}}


def rule(*patches: JSONObject, resource: str = "deployments.apps", **conditions: Any) -> JSONObject:
    return {"conditions": {"groupResource": resource, **conditions}, "patches": list(patches)}


def replace(path: str, value: str) -> JSONObject:
    return {"operation": "replace", "path": path, "value": value}


def modified(item: JSONObject, *rules: JSONObject, namespace: str = "ns-1") -> Modified:
    plural = {"Deployment": "deployments.apps", "Pod": "pods", "ConfigMap": "configmaps"}.get(
        item["kind"], "x.y.z"
    )
    return ResourceModifiers(read_rules(config_map(*rules))).apply(plural, namespace, item)


ANY_POD = {"groupResource": "pods"}
EMPTY = {"patchData": "{}"}
BAD_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "No"}]}


@pytest.mark.spec("BEY-055")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ('"1"', "1"), ("true", True), ("null", None), ('{"a":1}', {"a": 1}), ("", ""),
        ("TRUE", True), ("[1]", [1]), ("1e3", 1000.0), ("1.5", 1.5), ("NaN", "NaN"), ("Inf", "Inf"),
        ('say "no"', 'say "no"'), ("a b", "a b"), ('"', '"'), ('"a"b"', 'a"b'), ("1e999", "1e999"),
        ("99999999999999999999999", 1e23),
    ],
)  # fmt: skip
def test_the_text_of_a_value_becomes_json(text: str, value: Any) -> None:
    found = value_of(text)
    assert (found, type(found)) == (value, type(value))


@given(st.text())
def test_every_value_is_valid_json_or_refused_beforehand(text: str) -> None:
    try:
        found = value_of(text)
    except ValueError:
        assert text[0] in "[{"
        return
    assert orjson.loads(orjson.dumps(found, option=orjson.OPT_NON_STR_KEYS)) == found or max(text) >= "\ud800"


@pytest.mark.spec("BEY-056")
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("pods", {"pods"}),
        ("*", {"pods"}),
        ("*.apps", {"deployments.apps"}),
        ("*.*", {"deployments.apps"}),
        ("*.networking.k8s.io", {"ingresses.networking.k8s.io"}),
        ("**", {"pods", "deployments.apps", "ingresses.networking.k8s.io"}),
    ],
)
def test_a_star_in_a_kind_pattern_does_not_match_a_dot(pattern: str, names: set[str]) -> None:
    known = {"pods", "deployments.apps", "ingresses.networking.k8s.io"}
    glob = ResourceGlob(pattern)
    assert {name for name in known if glob.matches(name)} == names


@pytest.mark.spec("BEY-057")
def test_a_failed_test_leaves_the_object_alone_and_a_missing_path_is_a_problem() -> None:
    item = deployment("web", spec={"replicas": 1})
    tested = rule(
        {"operation": "test", "path": "/spec/replicas", "value": "2"}, replace("/spec/replicas", "3")
    )

    assert modified(item, tested) == Modified(item=item, tested=(1,))

    found = modified(
        item, rule({"operation": "remove", "path": "/spec/paused"}), rule(replace("/spec/replicas", "3"))
    )
    assert found.item["spec"] == {"replicas": 3}
    assert found.rules == (2,)
    assert found.problems == ("resource modifier rule 1: remove /spec/paused: there is no such path",)


@pytest.mark.spec("BEY-058")
def test_conditions_are_tested_against_the_object_before_any_rule() -> None:
    item = deployment("web", spec={"replicas": 1})
    second = rule(replace("/spec/replicas", "9"), matches=[{"path": "/spec/replicas", "value": "2"}])

    found = modified(item, rule(replace("/spec/replicas", "2")), second)

    assert (found.item["spec"], found.rules) == ({"replicas": 2}, (1,))
    assert item["spec"] == {"replicas": 1}


@pytest.mark.found("U13")
def test_the_version_is_compared_without_case() -> None:
    assert read_rules(config_map(rule(replace("/a", "1")), version="V1"))


@pytest.mark.found("U3")
@pytest.mark.spec("BEY-059")
@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (config_map(rule()), "rule 1: it has no patches"),
        (config_map(rule(replace("/a", "1")) | {"mergePatches": [EMPTY]}), "it has patches and mergePatches"),
        (
            config_map({"conditions": ANY_POD, "mergePatches": [EMPTY], "strategicPatches": [EMPTY]}),
            "it has mergePatches and strategicPatches: write a rule for each kind of patches",
        ),
        (config_map(rule(replace("/a", "1"))) | {"data": {"a": "", "b": ""}}, "exactly one key"),
        ({"data": {}}, "exactly one key"),
        (config_map(rule(replace("/a", "1")), more=1), "unknown field `more`"),
        (config_map(rule(replace("/a", "1")) | {"patch": []}), "unknown field `patch`"),
        (config_map(rule(replace("/a", "1")), version="v2"), 'version "v2" is not supported'),
        (config_map(), "no resourceModifierRules"),
        (config_map({"patches": [replace("/a", "1")]}), "groupResource is missing"),
        (config_map(rule({"operation": "rename", "path": "/a"})), 'operation "rename" is not one of'),
        (config_map(rule(replace("a", "1"))), 'path "a" does not begin'),
        (config_map(rule({"operation": "move", "path": "/a"})), "has no from"),
        (config_map(rule(replace("/a", "{"))), "begins like JSON"),
        (config_map(rule(replace("/a", "1"), resourceNameRegex="(")), "not a regular expression"),
        (config_map(rule(replace("/a", "1"), matches=[{"path": "", "value": "1"}])), "has no path"),
        (config_map(rule(replace("/a", "1"), labelSelector=BAD_SELECTOR)), "rule 1"),
        (config_map({"conditions": ANY_POD, "mergePatches": [{"patchData": "[]"}]}), "not an object"),
        ({"data": {"a": "{"}}, "not valid YAML"),
    ],
)  # fmt: skip
def test_modifiers_that_cannot_be_used_are_refused_with_the_reason(broken: JSONObject, reason: str) -> None:
    with pytest.raises(ModifierError, match=reason.replace("(", r"\(")):
        read_rules(broken)


@pytest.mark.spec("BEY-060")
@pytest.mark.parametrize(
    ("namespaces", "namespace", "applies"),
    [(["a"], "a", True), (["b"], "a", False), (["a*"], "abc", True), (["a"], "", True), ([], "x", True)],
)
def test_namespaces_are_those_of_the_backup_and_not_looked_at_for_cluster_scoped_objects(
    namespaces: list[str], namespace: str, applies: bool
) -> None:
    item = deployment("web", spec={"replicas": 1})
    found = modified(item, rule(replace("/spec/replicas", "2"), namespaces=namespaces), namespace=namespace)
    assert bool(found.rules) is applies


def test_the_name_is_searched_and_the_labels_are_selected() -> None:
    change = replace("/spec/replicas", "2")
    item = deployment("my-web-1", spec={"replicas": 1}, labels={"app": "x"})
    assert modified(item, rule(change, resourceNameRegex="web")).rules
    assert not modified(item, rule(change, resourceNameRegex="^web")).rules
    assert modified(item, rule(change, labelSelector={"matchLabels": {"app": "x"}})).rules
    assert not modified(item, rule(change, labelSelector={"matchLabels": {"app": "y"}})).rules


def test_operations_in_any_case_and_all_kinds() -> None:
    item = configmap("cm", data={"a": "1", "b": "2"})
    found = modified(
        item,
        rule(
            {"operation": "ADD", "path": "/data/c", "value": '"3"'},
            {"operation": "Copy", "from": "/data/a", "path": "/data/d"},
            {"operation": "move", "from": "/data/b", "path": "/data/e"},
            {"operation": "remove", "path": "/data/a"},
            resource="configmaps",
        ),
    )
    assert found.item["data"] == {"c": "3", "d": "1", "e": "2"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (replace("/metadata/name", "other"), "metadata.name"),
        (replace("/kind", "Pod"), "kind"),
        ({"operation": "remove", "path": "/metadata"}, "no metadata"),
        ({"operation": "add", "path": "/metadata/labels", "value": '{"a": 1}'}, "map of strings"),
        (
            {"operation": "add", "path": "/metadata/labels", "value": '{"a": true}'},
            "a number or boolean as text",
        ),
    ],
)
def test_a_result_that_is_another_object_is_a_problem(change: JSONObject, reason: str) -> None:
    found = modified(deployment("web"), rule(change))
    assert found.item == deployment("web")
    assert reason in found.problems[0]


def test_a_merge_patch_removes_by_null() -> None:
    data = "metadata:\n  annotations:\n    a: null\n    b: x\n"
    patch = {"conditions": ANY_POD, "mergePatches": [{"patchData": data}]}
    item = pod("p", annotations={"a": "1", "c": "2"})
    assert modified(item, patch).item["metadata"]["annotations"] == {"b": "x", "c": "2"}


@pytest.mark.spec("BEY-061")
def test_a_strategic_patch_merges_containers_by_name_and_refuses_custom_resources() -> None:
    data = '{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"new"}]}}}}'
    strategic = {"conditions": {"groupResource": "**"}, "strategicPatches": [{"patchData": data}]}
    containers = [{"name": "web", "image": "old", "env": [{"name": "A"}]}, {"name": "side", "image": "s"}]
    item = deployment("web", spec={"template": {"spec": {"containers": containers}}})

    found = modified(item, strategic).item["spec"]["template"]["spec"]["containers"]

    assert found == [{"name": "web", "image": "new", "env": [{"name": "A"}]}, {"name": "side", "image": "s"}]
    custom = obj("Widget", "w", "ns-1", api_version="sea.io/v1", spec={})
    assert "is a custom resource" in modified(custom, strategic).problems[0]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from(["a", "b", "0", "1", "-", "~1", "~0"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)


@given(
    JSON,
    st.lists(
        st.builds(PatchOperation, kind=st.sampled_from(Op), path=PATHS, source=PATHS, value=JSON), max_size=4
    ),
)
def test_a_json_patch_changes_a_copy_or_is_refused(document: Any, operations: list[PatchOperation]) -> None:
    before = orjson.dumps(document)
    try:
        after = apply(document, operations)
    except PatchError:
        after = None
    assert orjson.dumps(document) == before
    orjson.dumps(after)


@given(st.dictionaries(st.text("abc", max_size=1), JSON), st.dictionaries(st.text("abc", max_size=1), JSON))
def test_a_merge_patch_applied_twice_is_the_same_as_once(document: JSONObject, patch: JSONObject) -> None:
    once = merged(document, patch)
    assert merged(once, patch) == once
