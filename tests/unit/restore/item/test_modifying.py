"""Rules of resource modifiers that change namespaces, and those that change nothing."""

from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.restore.modifiers.idle import BackedUp, idle_warning
from pinnace.restore.modifiers.modifier import ResourceModifiers
from pinnace.restore.modifiers.rules import Rule, read_rules
from tests.unit.restore.world import Harness, configmap, deployment, discovery, obj

NAMESPACE = obj("Namespace", "t6", labels={"project": "old"}, annotations={"project": "old"})


def merge(resource: str, patch: JSONObject, **conditions: Any) -> JSONObject:
    data = {"patchData": orjson.dumps(patch).decode()}
    return {"conditions": {"groupResource": resource, **conditions}, "mergePatches": [data]}


def rules_of(*rules: JSONObject) -> tuple[Rule, ...]:
    document = {"version": "v1", "resourceModifierRules": list(rules)}
    return read_rules({"data": {"rules": orjson.dumps(document).decode()}})


def use(harness: Harness, *rules: JSONObject) -> None:
    harness.request_fields = {"modifiers": ResourceModifiers(rules_of(*rules))}


TO_NEW = {"metadata": {"annotations": {"project": "new"}, "labels": {"project": None}}}


@pytest.mark.found("O06")
@pytest.mark.parametrize("mapping", [{}, {"t6": "t6new"}], ids=["in place", "mapped"])
async def test_a_rule_for_namespaces_changes_those_that_the_restore_creates(
    harness: Harness, mapping: Mapping[str, str]
) -> None:
    use(harness, merge("namespaces", TO_NEW, resourceNameRegex="^t6$"))

    results = await harness.restore(NAMESPACE, configmap("a", "t6"), namespace_mapping=mapping)

    assert results.empty
    created = harness.world.sent["namespaces", "", mapping.get("t6", "t6")]["metadata"]
    assert created["annotations"] == {"project": "new"}
    assert not created.get("labels")


@pytest.mark.found("O06")
async def test_a_rule_for_the_objects_of_a_namespace_changes_no_other_namespace(harness: Harness) -> None:
    use(harness, merge("**", {"metadata": {"labels": {"team": "a"}}}, namespaces=["t6"]))

    await harness.restore(NAMESPACE, configmap("a", "t6"), configmap("b", "other"))

    assert harness.world.sent["namespaces", "", "t6"]["metadata"]["labels"] == {"project": "old", "team": "a"}
    assert "labels" not in harness.world.sent["namespaces", "", "other"]["metadata"]


@pytest.mark.found("O06")
async def test_a_namespace_that_exists_is_left_alone_and_named_unless_it_is_so_already(
    harness: Harness,
) -> None:
    use(harness, merge("namespaces", TO_NEW))
    harness.world.put(NAMESPACE)
    harness.world.put(obj("Namespace", "ready", annotations={"project": "new"}))

    results = await harness.restore(
        NAMESPACE, configmap("a", "t6"), configmap("b", "t6"), configmap("c", "ready")
    )

    assert results.errors.count == 0
    assert results.warnings.namespaces == {
        "t6": [
            "namespace t6 exists already and was left as it is: the resource modifiers would change its"
            " annotations project, labels project"
        ]
    }
    assert results.warnings.count == 1
    assert harness.world.item("namespaces", "", "t6")["metadata"]["labels"] == {"project": "old"}


@pytest.mark.found("O06")
async def test_a_rule_that_a_namespace_cannot_take_is_an_error_and_the_namespace_is_created(
    harness: Harness,
) -> None:
    use(harness, merge("namespaces", {"metadata": {"name": "other"}}))

    results = await harness.restore(NAMESPACE, configmap("a", "t6"))

    assert results.errors.namespaces == {
        "t6": [
            "error modifying namespaces/t6: resource modifier rule 1: a modifier may not change metadata.name"
        ]
    }
    assert results.warnings.count == 0
    assert harness.world.created_of("configmaps") == ["t6/a"]


@pytest.mark.found("O33", "U3")
async def test_each_rule_without_an_effect_is_a_warning_that_says_why(harness: Harness) -> None:
    down = {"spec": {"replicas": 0}}
    tested = {
        "conditions": {"groupResource": "deployments.apps"},
        "patches": [
            {"operation": "test", "path": "/spec/replicas", "value": "9"},
            {"operation": "replace", "path": "/spec/replicas", "value": "0"},
        ],
    }
    use(
        harness,
        merge("deployments", down, namespaces=["t33"]),
        merge("deployment.apps", down),
        merge("Deployment", down),
        merge("deployments.apps", down, namespaces=["t33m"]),
        merge("configmaps", down),
        merge("deployments.apps", down, resourceNameRegex="^api", namespaces=["t33"]),
        tested,
        merge("deployments.apps", {"spec": {"paused": True}}, namespaces=["t33"]),
    )

    results = await harness.restore(
        deployment("web", "t33", spec={"replicas": 2}), namespace_mapping={"t33": "t33m"}
    )

    plural = "(conditions.groupResource is the plural with its group, such as deployments.apps)"
    no_kind = "the backup has no objects of the kind"
    reasons = [
        f"{no_kind} 'deployments' {plural}; did you mean deployments.apps?",
        f"{no_kind} 'deployment.apps' {plural}; did you mean deployments.apps?",
        f"{no_kind} 'Deployment' {plural}; did you mean deployments.apps?",
        f"{no_kind} 'deployments.apps' in the namespaces t33m (conditions.namespaces are those in the"
        " backup); did you mean t33?",
        f"{no_kind} 'configmaps' {plural}",
        "no object that meets its conditions (groupResource deployments.apps, namespaces t33,"
        " resourceNameRegex ^api) was restored",
        "its test failed for the one object that meets its conditions",
    ]
    assert results.warnings.velero == [
        f"resource modifier rule {number} changed nothing: {reason}"
        for number, reason in enumerate(reasons, start=1)
    ]
    assert results.errors.count == 0


async def test_the_rules_of_a_trial_restore_may_be_idle(harness: Harness) -> None:
    use(harness, merge("services", {"spec": {"type": "ClusterIP"}}))
    harness.restore_labels = {labels.VERIFICATION: "b"}

    assert (await harness.restore(configmap("a"))).empty


def test_the_reason_names_what_a_rule_asks_for() -> None:
    backup = BackedUp(
        kinds=["namespaces", "widgets.sea.io"],
        namespaces=lambda kind: ["shop"] if kind == "namespaces" else [""],
        canonical=discovery().canonical,
        mapping={},
    )
    (rule,) = rules_of(merge("namespaces", {}, resourceNameRegex="^db"))
    assert idle_warning(rule, 0, backup).endswith(
        "(groupResource namespaces, resourceNameRegex ^db) was restored"
    )
    (rule,) = rules_of(
        merge(
            "widgets.sea.io",
            {},
            namespaces=["shop"],
            matches=[{"path": "/spec/size", "value": "3"}],
            labelSelector={"matchLabels": {"a": "b"}},
        )
    )
    assert "(groupResource widgets.sea.io, namespaces shop, labelSelector, /spec/size is 3)" in idle_warning(
        rule, 0, backup
    )
    (rule,) = rules_of(merge("gadgets.sea.io", {}))
    assert idle_warning(rule, 0, backup).endswith("; did you mean widgets.sea.io?")
    assert idle_warning(rule, 4, backup).endswith(
        "its test failed for all 4 objects that meet its conditions"
    )
