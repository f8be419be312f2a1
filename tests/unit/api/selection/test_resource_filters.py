"""Filters for each scope, and their merging with an include/exclude policy. (docs/spec: BEY 4.4, 4.8)"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.selection.resource_filters import (
    EXCLUDED_BY_SERVERS,
    CommonFilter,
    ScopedLists,
    filter_errors,
    filter_of,
)
from pinnace.api.velero.backup import BackupSpec

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

CLUSTER = ("persistentvolumes", "storageclasses.storage.k8s.io", "namespaces", DEFINITIONS)
NAMESPACED = ("pods", "secrets", "configmaps", "deployments.apps", "volumesnapshots.snapshot.storage.k8s.io")


def is_namespaced(name: str) -> bool | None:
    return name in NAMESPACED if name in (*CLUSTER, *NAMESPACED) else None


def canonical(name: str) -> str:
    return {"po": "pods", "pv": "persistentvolumes"}.get(name, name)


def collected(spec: dict[str, Any], *, all_namespaces: bool = True) -> set[str]:
    found = filter_of(BackupSpec(**spec), canonical=canonical, is_namespaced=is_namespaced).filter
    return {
        kind
        for kind in (*CLUSTER, *NAMESPACED)
        if found.collects(kind, namespaced=kind in NAMESPACED, all_namespaces=all_namespaces)
    }


@pytest.mark.parametrize(
    ("spec", "all_namespaces", "expected"),
    [
        pytest.param({}, True, {*CLUSTER, *NAMESPACED}, id="no filter", marks=pytest.mark.spec("BEY-018")),
        pytest.param({}, False, {"namespaces", *NAMESPACED}, id="no filter, some namespaces"),
        pytest.param(
            {"included_namespace_scoped_resources": ["po"]},
            False,
            {"pods", "namespaces"},
            id="one namespaced kind",
            marks=pytest.mark.spec("BEY-019"),
        ),
        pytest.param(
            {"included_namespace_scoped_resources": ["*"]},
            True,
            {*CLUSTER, *NAMESPACED},
            id="all namespaced kinds, written",
            marks=pytest.mark.found("U10"),
        ),
        pytest.param(
            {"included_namespace_scoped_resources": ["*"]},
            False,
            {"namespaces", *NAMESPACED},
            id="all namespaced kinds, written, some namespaces",
        ),
        pytest.param(
            {"included_namespace_scoped_resources": ["pods"]},
            True,
            {"pods", "namespaces"},
            id="of all namespaces",
        ),
        pytest.param(
            {"included_cluster_scoped_resources": ["*"], "excluded_cluster_scoped_resources": [DEFINITIONS]},
            False,
            {*CLUSTER, *NAMESPACED} - {DEFINITIONS},
            id="all cluster-scoped kinds but definitions",
            marks=pytest.mark.spec("BEY-020"),
        ),
        pytest.param(
            {"excluded_cluster_scoped_resources": ["*"]}, True, set(NAMESPACED), id="no cluster-scoped kind"
        ),
        pytest.param(
            {"excluded_namespace_scoped_resources": ["*"], "included_cluster_scoped_resources": ["pv"]},
            True,
            {"persistentvolumes", "namespaces"},
            id="no namespaced kind",
        ),
        pytest.param(
            {"excluded_namespace_scoped_resources": ["secr*"]},
            True,
            {"namespaces", *NAMESPACED} - {"secrets"},
            id="pattern",
        ),
        pytest.param(
            {
                "excluded_cluster_scoped_resources": ["volumesnapshotcontents.snapshot.storage.k8s.io"],
                "excluded_namespace_scoped_resources": ["volumesnapshots.snapshot.storage.k8s.io"],
            },
            True,
            {*CLUSTER, *NAMESPACED} - EXCLUDED_BY_SERVERS,
            id="only what servers of Velero 1.17 write",
        ),
    ],
)
def test_which_kinds_are_collected(spec: dict[str, Any], all_namespaces: bool, expected: set[str]) -> None:
    assert filter_errors(BackupSpec(**spec)) == []
    assert collected(spec, all_namespaces=all_namespaces) == expected


@pytest.mark.spec("BEY-021")
@pytest.mark.parametrize(
    ("spec", "volumes_come_along"),
    [
        ({"excluded_cluster_scoped_resources": ["*"]}, False),
        ({"excluded_cluster_scoped_resources": ["persistentvolumes"]}, False),
        ({"included_cluster_scoped_resources": ["storageclasses.storage.k8s.io"]}, True),
        ({"included_namespace_scoped_resources": ["pods"]}, True),
    ],
)
def test_a_cluster_scoped_object_comes_with_others_unless_its_kind_is_excluded(
    spec: dict[str, Any], volumes_come_along: bool
) -> None:
    found = filter_of(BackupSpec(**spec), canonical=canonical, is_namespaced=is_namespaced).filter
    assert found.admits("persistentvolumes", namespaced=False) is volumes_come_along
    assert found.adds_definitions is (spec != {"excluded_cluster_scoped_resources": ["*"]})


@pytest.mark.spec("BEY-022")
@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"included_resources": ["pods"], "included_cluster_scoped_resources": ["nodes"]},
            "includedResources cannot be used together with includedClusterScopedResources",
        ),
        (
            {"include_cluster_resources": False, "excluded_namespace_scoped_resources": ["pods"]},
            "includeClusterResources cannot be used together with excludedNamespaceScopedResources",
        ),
        (
            {"included_namespace_scoped_resources": ["pods"], "excluded_namespace_scoped_resources": ["*"]},
            "excludes list cannot be '*' where the includes list has items",
        ),
        (
            {"included_cluster_scoped_resources": ["a"], "excluded_cluster_scoped_resources": ["a"]},
            "excludes list cannot contain an item in the includes list: a",
        ),
        ({"excluded_cluster_scoped_resources": ["a", "*"]}, "excludes list must either contain '*' only"),
        ({"included_cluster_scoped_resources": ["a", "*"]}, "includes list must either contain '*' only"),
    ],
)
def test_filters_that_contradict_each_other_are_refused(spec: dict[str, Any], problem: str) -> None:
    (found,) = filter_errors(BackupSpec(**spec))
    assert problem in found


@pytest.mark.spec("BEY-023")
def test_a_name_in_the_list_of_the_other_scope_is_dropped_with_a_warning() -> None:
    spec = BackupSpec(included_namespace_scoped_resources=["persistentvolumes"])
    found = filter_of(spec, canonical=canonical, is_namespaced=is_namespaced)
    assert found.warnings == [
        "persistentvolumes in includedNamespaceScopedResources has no effect: the kind is cluster-scoped"
    ]
    assert all(found.filter.collects(kind, namespaced=True, all_namespaces=False) for kind in NAMESPACED)


@pytest.mark.parametrize(
    ("own", "policy", "expected"),
    [
        (
            ScopedLists(excluded_namespaced=("secrets",)),
            ScopedLists(included_namespaced=("secrets",)),
            ScopedLists(excluded_namespaced=("secrets",)),
        ),
        (
            ScopedLists(),
            ScopedLists(excluded_namespaced=("configmaps",)),
            ScopedLists(excluded_namespaced=("configmaps",)),
        ),
        (
            ScopedLists(included_cluster=("*",)),
            ScopedLists(included_cluster=("a",), excluded_cluster=("b",)),
            ScopedLists(included_cluster=("*",)),
        ),
        (
            ScopedLists(included_namespaced=("pods",)),
            ScopedLists(included_namespaced=("secrets", "config*"), excluded_namespaced=("secrets",)),
            ScopedLists(included_namespaced=("pods", "config*"), excluded_namespaced=("secrets",)),
        ),
    ],
)
def test_a_policy_is_merged_under_the_spec(
    own: ScopedLists, policy: ScopedLists, expected: ScopedLists
) -> None:
    assert own.with_policy(policy) == expected


_NAMES = st.lists(st.sampled_from(NAMESPACED), max_size=3, unique=True).map(tuple)
_OWN = st.lists(st.sampled_from([*NAMESPACED, "secr*", "*s"]), max_size=3, unique=True).map(tuple)


@given(_OWN, _OWN, _NAMES, _NAMES)
def test_what_the_spec_excludes_or_names_no_policy_changes(
    included: tuple[str, ...], excluded: tuple[str, ...], more: tuple[str, ...], less: tuple[str, ...]
) -> None:
    own = ScopedLists(included_namespaced=included, excluded_namespaced=excluded)
    merged = own.with_policy(ScopedLists(included_namespaced=more, excluded_namespaced=less)).filter()
    for kind in NAMESPACED:
        if included and own.filter().admits(kind, namespaced=True):
            assert merged.admits(kind, namespaced=True)
        if not ScopedLists(excluded_namespaced=excluded).filter().admits(kind, namespaced=True):
            assert not merged.admits(kind, namespaced=True)


def test_a_policy_and_the_old_filters_together_are_refused() -> None:
    spec, policy = BackupSpec(included_resources=["pods"]), ScopedLists(excluded_namespaced=("secrets",))
    (problem,) = filter_errors(spec, policy)
    assert "includedResources cannot be used together with the includeExcludePolicy" in problem


def test_the_old_filters_are_used_if_one_of_them_is_set() -> None:
    spec = BackupSpec(include_cluster_resources=False)
    found = filter_of(spec, canonical=canonical, is_namespaced=is_namespaced).filter
    assert isinstance(found, CommonFilter)
    assert not found.collects("persistentvolumes", namespaced=False, all_namespaces=True)
