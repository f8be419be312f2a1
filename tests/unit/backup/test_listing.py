"""Lists from which something between client and API server has removed objects. (ADR 028)"""

from pathlib import Path

import pytest

from pinnace.kube.errors import status_error
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, PODS, APIResource
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import a_backup, counted, run_backup, two_a_page

LISTED = pytest.mark.parametrize("resource", [PODS, CONFIGMAPS], ids=["decoded", "raw"])


def three_of(resource: APIResource) -> ScriptedCluster:
    return two_a_page().add_all(resource, "foo/a", "foo/b", "foo/c")


@LISTED
@pytest.mark.parametrize("missing", [1, 3])
async def test_an_incomplete_list_is_read_again(tmp_path: Path, resource: APIResource, missing: int) -> None:
    cluster, name = three_of(resource), resource.group_resource
    cluster.hidden[name] = [missing, missing]
    outcome = await run_backup(tmp_path, cluster)
    assert sorted(outcome.items) == [f"{name}/foo/{each}" for each in "abc"]
    assert (outcome.errors, outcome.warnings) == (0, 0)
    assert cluster.placed_calls.count(("list", name, "", "")) == 3


@LISTED
async def test_a_list_that_stays_incomplete_is_an_error_naming_the_kind(
    tmp_path: Path, resource: APIResource
) -> None:
    cluster, name = three_of(resource), resource.group_resource
    cluster.hidden[name] = [2, 2, 2]
    outcome = await run_backup(tmp_path, cluster)
    assert outcome.items == [f"{name}/foo/c"]
    assert outcome.errors == 1
    [line] = [line for line in outcome.log.splitlines() if "level=error" in line]
    assert "the list has only 1 of the 3 objects that the API server counts" in line
    assert f"resource={name}" in line


async def test_a_list_that_cannot_be_counted_is_accepted(tmp_path: Path) -> None:
    cluster = three_of(PODS)
    cluster.hidden["pods"] = [1]
    cluster.refuse("count", "pods", status_error(410, {"reason": "Expired", "message": "too old"}))
    outcome = await run_backup(tmp_path, cluster)
    assert (len(outcome.items), outcome.errors) == (2, 0)


async def test_namespaces_that_are_missing_from_a_list_are_matched_by_patterns(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "shop-a", "shop-b").add_all(PODS, "shop-a/x", "shop-b/y")
    cluster.hidden["namespaces"] = [1]
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["shop-*"]))
    assert {"pods/shop-a/x", "pods/shop-b/y"} <= set(outcome.items)
    assert outcome.errors == 0


async def test_of_empty_lists_of_namespaces_the_first_of_each_kind_is_counted(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "a", "b", "c").add_all(PODS, "c/x").add_all(CONFIGMAPS, "a/y")
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["a", "b", "c"]))

    assert {"pods/c/x", "configmaps/a/y"} <= set(outcome.items)
    assert sorted(each for each in counted(cluster) if each[0] in ("pods", "configmaps")) == [
        ("configmaps", "a"),
        ("configmaps", "b"),
        ("pods", "a"),
        ("pods", "c"),
    ]


async def test_a_kind_that_is_hidden_in_every_namespace_is_noticed(tmp_path: Path) -> None:
    cluster = two_a_page().add_all(NAMESPACES, "a", "b").add_all(PODS, "a/x", "a/y", "b/x", "b/y")
    cluster.hidden["pods"] = [2, 2, 2, 2, 2, 2]
    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["a", "b"]))
    assert outcome.errors == 2
    assert outcome.log.count("the list has only 0 of the 2 objects") == 2
