"""Kinds whose conversion webhook does not answer."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.api.meta import LabelSelector
from pinnace.api.objects import JSONObject
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, status_error
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource
from pinnace.plugins.protocols import ResourceSelector
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_requests import Request
from tests.unit.backup.fakes import (
    FakeAction,
    Outcome,
    a_backup,
    discovery_of,
    run_backup,
    thing,
)

V2 = APIResource(group="lab.example", version="v2", name="shapes", kind="Shape", namespaced=True)
V1 = replace(V2, version="v1")
BETA = replace(V2, version="v1beta1")
DEAD = status_error(
    500, {"message": 'conversion webhook for lab.example/v1, Kind=Shape failed: Post "https://op.ns.svc"'}
)

pytestmark = pytest.mark.found("R11")


class Stored(ScriptedCluster):
    """A cluster that lists shapes in some versions only, each shape in the one in which it is stored.

    Attributes:
        versions: those of single shapes; the others can be listed in every listable version.
        dies_after: the list of this number, from 1, is the last one before the webhook stops answering.
    """

    def __init__(self, *listable: str, error: KubeError = DEAD) -> None:
        super().__init__(page_size=2)
        self.listable = listable
        self.error = error
        self.tried: list[tuple[str, str]] = []
        self.versions: dict[str, str] = {}
        self.dies_after: int | None = None
        self.add_all(NAMESPACES, "a", "b")

    def check(self, request: Request) -> None:
        super().check(request)
        resource = request.resource
        if request.verb == "list" and resource.group_resource == V2.group_resource:
            self.tried.append((resource.version, request.namespace))
            if self.dies_after is not None and len(self.tried) > self.dies_after:
                self.listable = ("v1",)
            if resource.version not in self.listable:
                raise self.error

    def page(
        self, resource: APIResource, items: Iterable[JSONObject], version: int, **metadata: Any
    ) -> bytes:
        items = list(items)
        for item in items:
            if self.versions.get(item["metadata"]["name"], resource.version) != resource.version:
                raise self.error
        return super().page(resource, items, version, **metadata)


def definition(strategy: str = "Webhook", storage: str = "v1") -> JSONObject:
    versions = [{"name": name, "storage": name == storage} for name in ("v2", "v1beta1", "v1")]
    spec = {"conversion": {"strategy": strategy}, "versions": versions}
    return thing(CUSTOM_RESOURCE_DEFINITIONS, V2.group_resource, spec=spec)


def world(*listable: str, **fields: Any) -> Stored:
    cluster = Stored(*listable, **fields)
    cluster.put_all(CUSTOM_RESOURCE_DEFINITIONS, definition())
    cluster.add_all(V2, "a/one", "a/two", "a/three", "b/four")
    return cluster


SERVED = discovery_of([NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, V2, BETA, V1])
SHAPES = [f"shapes.lab.example/{key}" for key in ("a/one", "a/two", "a/three", "b/four")]


@pytest.mark.parametrize("actions", [[], [FakeAction(selector=ResourceSelector())]], ids=["raw", "decoded"])
async def test_it_is_listed_in_the_version_in_which_it_is_stored(
    tmp_path: Path, actions: list[FakeAction]
) -> None:
    cluster = world("v1")

    outcome = await run_backup(tmp_path, cluster, discovery=SERVED, actions=actions)

    assert sorted(item for item in outcome.items if item.startswith("shapes")) == sorted(SHAPES)
    path = "resources/shapes.lab.example/namespaces/a/one.json"
    assert outcome.item(path)["apiVersion"] == "lab.example/v1"
    assert outcome.item("resources/shapes.lab.example/v1/namespaces/a/one.json") == outcome.item(path)
    assert sorted(outcome.result.resource_list["lab.example/v1/Shape"]) == [
        "a/one",
        "a/three",
        "a/two",
        "b/four",
    ]
    assert cluster.tried == [("v2", ""), ("v1", "")]
    assert (outcome.errors, outcome.warnings) == (0, 1)
    assert "Listed in version v1, as version v2 cannot be listed" in outcome.log
    assert "https://op.ns.svc" in outcome.log


async def test_other_versions_follow_the_stored_one(tmp_path: Path) -> None:
    """Objects may be left from the time when another version was stored."""
    cluster = world("v1beta1")
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert [version for version, _ in cluster.tried] == ["v2", "v1", "v1beta1"]
    assert (outcome.errors, outcome.warnings) == (0, 1)


async def test_further_namespaces_are_listed_in_that_version_at_once(tmp_path: Path) -> None:
    cluster = world("v1")
    backup = a_backup(included_namespaces=["a", "b"])
    outcome = await run_backup(tmp_path, cluster, backup, discovery=SERVED)
    assert cluster.tried == [("v2", "a"), ("v1", "a"), ("v1", "b")]
    assert sorted(item for item in outcome.items if item.startswith("shapes")) == sorted(SHAPES)


async def test_if_no_version_can_be_listed_there_is_one_error_and_the_definition(tmp_path: Path) -> None:
    cluster = world()
    backup = a_backup(included_namespaces=["a"])
    outcome = await run_backup(tmp_path, cluster, backup, discovery=SERVED)
    assert {version for version, _ in cluster.tried} == {"v2", "v1", "v1beta1"}
    assert (outcome.errors, outcome.warnings) == (1, 0)
    assert outcome.items[-1] == "customresourcedefinitions.apiextensions.k8s.io/shapes.lab.example"


@pytest.mark.parametrize(
    ("strategy", "error"),
    [("None", DEAD), ("Webhook", status_error(403, {"message": "you may not"}))],
    ids=["no webhook", "forbidden"],
)
async def test_other_failures_of_lists_are_errors(tmp_path: Path, strategy: str, error: KubeError) -> None:
    cluster = world("v1", error=error)
    cluster.put_all(CUSTOM_RESOURCE_DEFINITIONS, definition(strategy))
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert [version for version, _ in cluster.tried] == ["v2"]
    assert (outcome.errors, outcome.warnings) == (1, 0)


def served(*, all_versions: bool) -> Discovery:
    return discovery_of([NAMESPACES, CUSTOM_RESOURCE_DEFINITIONS, V2, BETA, V1], all_versions=all_versions)


def plain_copies(outcome: Outcome) -> dict[str, str]:
    """The version of each shape that restores read."""
    names = ("a/one", "a/two", "a/three", "b/four")
    paths = {name: f"resources/shapes.lab.example/namespaces/{name}.json" for name in names}
    return {
        name.partition("/")[2]: outcome.item(path)["apiVersion"].partition("/")[2]
        for name, path in paths.items()
    }


async def test_objects_that_are_stored_in_several_versions_are_listed_in_these(tmp_path: Path) -> None:
    cluster = world("v2", "v1")
    cluster.versions = {"one": "v2", "two": "v2", "three": "v1", "four": "v2"}

    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)

    assert plain_copies(outcome) == cluster.versions
    assert (outcome.errors, outcome.warnings) == (0, 1)
    assert "Listed in versions v2 and v1, as version v2 alone cannot be listed" in outcome.log


async def test_a_webhook_that_dies_during_a_list_costs_nothing(tmp_path: Path) -> None:
    """The first page has been saved by then; no object of it is in the backup twice."""
    cluster = world("v2", "v1")
    cluster.refuse("page", V2.group_resource, status_error(500, {"message": "etcd is gone"}))
    cluster.dies_after = 1
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert plain_copies(outcome) == {"one": "v2", "three": "v2", "two": "v1", "four": "v1"}
    assert (outcome.errors, outcome.warnings) == (0, 1)


async def test_labels_that_match_twice_take_no_object_twice(tmp_path: Path) -> None:
    """The first of two lists works, the other one does not."""
    cluster = world("v2", "v1")
    cluster.dies_after = 1
    for name in ("a/one", "a/two", "a/three", "b/four"):
        namespace, _, short = name.partition("/")
        cluster.put_all(V2, thing(V2, short, namespace, labels={"x": "1", "y": "1"}))
    either = [LabelSelector(match_labels={"x": "1"}), LabelSelector(match_labels={"y": "1"})]
    outcome = await run_backup(tmp_path, cluster, a_backup(or_label_selectors=either), discovery=SERVED)
    assert set(plain_copies(outcome).values()) == {"v2"}
    assert outcome.errors == 0


@pytest.mark.parametrize("actions", [[], [FakeAction(selector=ResourceSelector())]], ids=["raw", "decoded"])
async def test_with_all_versions_the_preferred_one_is_replaced_too(
    tmp_path: Path, actions: list[FakeAction]
) -> None:
    cluster = world("v1")
    outcome = await run_backup(tmp_path, cluster, discovery=served(all_versions=True), actions=actions)
    assert set(plain_copies(outcome).values()) == {"v1"}
    assert "resources/shapes.lab.example/v1/namespaces/a/one.json" in outcome.names
    assert outcome.errors == 0
    assert "Listed in version v1, as version v2 cannot be listed" in outcome.log
    assert "The objects are not saved in version v1beta1, too" in outcome.log
    assert outcome.warnings == 2


async def test_with_all_versions_a_copy_that_is_missing_is_a_warning(tmp_path: Path) -> None:
    cluster = world("v2")
    backup = a_backup(included_namespaces=["a", "b"])
    outcome = await run_backup(tmp_path, cluster, backup, discovery=served(all_versions=True))
    assert set(plain_copies(outcome).values()) == {"v2"}
    assert (outcome.errors, outcome.warnings) == (0, 2)
    assert cluster.tried == [("v2", "a"), ("v2", "b"), ("v1beta1", "a"), ("v1", "a")]


async def test_a_list_that_fails_later_without_a_webhook_is_an_error(tmp_path: Path) -> None:
    cluster = world("v1", "v2")
    cluster.put_all(CUSTOM_RESOURCE_DEFINITIONS, definition("None"))
    cluster.refuse("page", V2.group_resource, status_error(500, {"message": "etcd is gone"}))
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert [version for version, _ in cluster.tried] == ["v2"]
    assert outcome.errors == 1
