"""Kinds whose conversion webhook does not answer."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import KubeError, status_error
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource
from pinnace.plugins.protocols import ResourceSelector
from tests.unit.backup.fakes import FakeAction, FakeCluster, a_backup, discovery_of, run_backup, thing

V2 = APIResource(group="lab.example", version="v2", name="shapes", kind="Shape", namespaced=True)
V1 = replace(V2, version="v1")
BETA = replace(V2, version="v1beta1")
DEAD = status_error(
    500, {"message": 'conversion webhook for lab.example/v1, Kind=Shape failed: Post "https://op.ns.svc"'}
)

pytestmark = pytest.mark.found("R11")


class Stored(FakeCluster):
    """A cluster that lists shapes in some versions only."""

    def __init__(self, *listable: str, error: KubeError = DEAD) -> None:
        super().__init__()
        self.listable = listable
        self.error = error
        self.tried: list[tuple[str, str]] = []
        self.add(NAMESPACES, "a", "b")

    def check(self, verb: str, resource: APIResource, namespace: str, name: str) -> None:
        super().check(verb, resource, namespace, name)
        if verb == "list" and resource.group_resource == V2.group_resource:
            self.tried.append((resource.version, namespace))
            if resource.version not in self.listable:
                raise self.error


def definition(strategy: str = "Webhook", storage: str = "v1") -> JSONObject:
    versions = [{"name": name, "storage": name == storage} for name in ("v2", "v1beta1", "v1")]
    spec = {"conversion": {"strategy": strategy}, "versions": versions}
    return thing(CUSTOM_RESOURCE_DEFINITIONS, V2.group_resource, spec=spec)


def world(*listable: str, **fields: Any) -> Stored:
    cluster = Stored(*listable, **fields)
    cluster.put(CUSTOM_RESOURCE_DEFINITIONS, definition())
    cluster.add(V2, "a/one", "a/two", "a/three", "b/four")
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
    assert [version for version, _ in cluster.tried] == ["v2", "v1", "v1beta1"]
    assert (outcome.errors, outcome.warnings) == (1, 0)
    assert outcome.items[-1] == "customresourcedefinitions.apiextensions.k8s.io/shapes.lab.example"


@pytest.mark.parametrize(
    ("strategy", "error"),
    [("None", DEAD), ("Webhook", status_error(403, {"message": "you may not"}))],
    ids=["no webhook", "forbidden"],
)
async def test_other_failures_of_lists_are_errors(tmp_path: Path, strategy: str, error: KubeError) -> None:
    cluster = world("v1", error=error)
    cluster.put(CUSTOM_RESOURCE_DEFINITIONS, definition(strategy))
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert [version for version, _ in cluster.tried] == ["v2"]
    assert (outcome.errors, outcome.warnings) == (1, 0)


async def test_a_list_that_fails_later_is_not_begun_in_another_version(tmp_path: Path) -> None:
    """Its first items would be in the backup twice."""
    cluster = world("v1", "v2")
    cluster.fail_after_first_page.add(V2.group_resource)
    outcome = await run_backup(tmp_path, cluster, discovery=SERVED)
    assert [version for version, _ in cluster.tried] == ["v2"]
    assert outcome.errors == 1
