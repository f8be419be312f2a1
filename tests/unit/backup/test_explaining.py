"""Why an object is in a backup, or is not."""

import pytest

from pinnace.api.resource_policies import read_policies
from pinnace.api.selection.resource_filters import filter_of
from pinnace.api.selection.selectors import parse_label_selector
from pinnace.api.velero.backup import BackupSpec
from pinnace.backup.explaining import explain
from pinnace.backup.namespaces import NamespaceFacts
from pinnace.backup.plan import BackupFilter
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, NODES, PODS, APIResource
from tests.unit.backup.fakes import discovery_of, thing

DISCOVERY = discovery_of([CONFIGMAPS, PODS, NODES, NAMESPACES])
POLICIES = """
version: v1
namespacedFilterPolicies:
- namespaces: [a]
  resourceFilters:
  - {kinds: [configmaps], names: ["app-*"]}
  - {kinds: [pods], labelSelector: {matchLabels: {x: y}}}
"""


def scope(spec: BackupSpec, document: str = "version: v1") -> BackupFilter:
    chosen = filter_of(spec, canonical=DISCOVERY.canonical, is_namespaced=DISCOVERY.is_namespaced)
    policies = read_policies(document).filters.resolved(DISCOVERY.canonical)
    facts = NamespaceFacts(labelled=frozenset({"hidden"}))
    return BackupFilter.of(spec, resources=chosen.filter, facts=facts, policies=policies)


@pytest.mark.parametrize(
    ("spec", "document", "resource", "item", "saved", "if_needed", "why"),
    [
        ({}, "", PODS, ("p", "a", {}), True, True, "labels: its labels match (every object does)"),
        (
            {},
            "",
            PODS,
            ("p", "a", {"velero.io/exclude-from-backup": "true"}),
            False,
            False,
            "object: its label velero.io/exclude-from-backup leaves it out",
        ),
        ({"included_namespaces": ["b"]}, "", PODS, ("p", "a", {}), False, False, "not among the included"),
        ({}, "", PODS, ("p", "hidden", {}), False, False, "namespace: namespace hidden is being deleted, or"),
        ({"excluded_resources": ["pods"]}, "", PODS, ("p", "a", {}), False, False, "exclude pods"),
        (
            {"included_namespaces": ["a"]},
            "",
            NODES,
            ("n", "", {}),
            False,
            True,
            "only where another one needs",
        ),
        ({"label_selector": "x=y"}, "", PODS, ("p", "a", {}), False, True, "do not match x=y"),
        (
            {"label_selector": "x=y"},
            "",
            NAMESPACES,
            ("a", "", {}),
            False,
            True,
            "saved only with what is in it",
        ),
        (
            {},
            POLICIES,
            CONFIGMAPS,
            ("app-1", "a", {}),
            True,
            True,
            "policy: namespacedFilterPolicies[0].resourceFilters[0] takes it",
        ),
        ({}, POLICIES, CONFIGMAPS, ("b", "a", {}), False, False, "resourceFilters[0] leaves out the name b"),
        ({}, POLICIES, PODS, ("p", "a", {}), False, True, "its labels do not match x=y of namespaced"),
        ({}, POLICIES, CONFIGMAPS, ("b", "other", {}), True, True, "labels: its labels match"),
    ],
)
def test_the_rule_that_decides_is_named(
    spec: dict[str, object],
    document: str,
    resource: APIResource,
    item: tuple[str, str, dict[str, str]],
    saved: bool,
    if_needed: bool,
    why: str,
) -> None:
    if isinstance(selector := spec.get("label_selector"), str):
        spec = {**spec, "label_selector": parse_label_selector(selector)}
    name, namespace, labels = item
    found = explain(
        scope(BackupSpec(**spec), document or "version: v1"),  # type: ignore[arg-type]
        resource,
        thing(resource, name, namespace, labels=labels),
    )
    assert (found.is_saved, found.if_needed) == (saved, if_needed)
    last = found.steps[-1]
    assert why in f"{last.rule}: {last.says}"


def test_a_kind_that_a_policy_does_not_list_is_named_with_the_policy() -> None:
    found = explain(scope(BackupSpec(), POLICIES.replace("pods", "nodes")), PODS, thing(PODS, "p", "a"))
    assert found.steps[-1].says == "namespacedFilterPolicies[0] does not list pods"
    assert found.if_needed
