"""What the log of a backup says about objects that its filters leave out."""

import io

import pytest

from pinnace.api.resource_policies import read_policies
from pinnace.api.selection.resource_filters import ScopedLists
from pinnace.archive.runlog import RunLog
from pinnace.backup.filters import ExcludedItems, LeftOutByPolicy, warn_of_filter_policies
from pinnace.kube.resources import NODES, PODS
from tests.unit.backup.fakes import discovery_of


@pytest.mark.parametrize(
    ("kind", "of_tenant", "warnings"),
    [
        ("priorityclasses.scheduling.k8s.io", True, 0),
        ("priorityclasses.scheduling.k8s.io", False, 1),
        ("secrets", True, 1),
    ],
    ids=["left out by self-service", "left out by an administrator", "left out by the tenant"],
)
def test_what_self_service_leaves_out_of_every_backup_is_told_but_no_warning(
    kind: str, of_tenant: bool, warnings: int
) -> None:
    excluded, written = ExcludedItems(), io.StringIO()
    excluded.add(kind, "urgent")

    with RunLog(None, fields={}, echo=written) as log:
        excluded.warn(log, of_tenant=of_tenant)

    assert log.warnings == warnings
    assert "1 object(s) that others in this backup refer to are left out by its filters" in written.getvalue()


POLICIES = """
version: v1
clusterScopedFilterPolicy: {resourceFilters: [{kinds: [nodes, pods]}]}
namespacedFilterPolicies:
- namespaces: [a]
  resourceFilters: [{kinds: [pods, nodes, widgets]}]
"""


@pytest.mark.spec("AFT-033")
def test_a_kind_in_a_policy_without_effect_is_one_warning() -> None:
    written = io.StringIO()
    discovery = discovery_of([PODS, NODES])
    excludes = ScopedLists(excluded_namespaced=("pods",)).filter()

    with RunLog(None, fields={}, echo=written) as log:
        warn_of_filter_policies(read_policies(POLICIES).filters, excludes, discovery, log)

    lines = written.getvalue().splitlines()
    assert log.warnings == len(lines) == 4
    assert "pods is namespaced; the filter entry has no effect" in lines[3]
    assert (
        "namespacedFilterPolicies[0].resourceFilters[0]: namespacedFilterPolicies entry lists a kind that is"
        " globally excluded by includeExcludePolicy; the per-namespace filter entry has no effect: pods"
    ) in lines[0]
    assert "nodes is cluster-scoped" in lines[1]
    assert "Cannot resolve kind via discovery, using as-is" in lines[2]


def test_what_policies_leave_out_is_told_by_policy() -> None:
    left_out = LeftOutByPolicy()
    left_out.kind("namespacedFilterPolicies[0]", "secrets", "shop")
    left_out.kind("namespacedFilterPolicies[0]", "pods", "shop")
    left_out.object("namespacedFilterPolicies[0].resourceFilters[1]", "configmaps")
    left_out.object("namespacedFilterPolicies[0].resourceFilters[1]", "configmaps")

    assert left_out.lines() == [
        "namespacedFilterPolicies[0] leaves out 2 kinds of namespace shop, such as pods, secrets",
        "namespacedFilterPolicies[0].resourceFilters[1] leaves out 2 objects of configmaps",
    ]
