"""Objects that are refused in the version of the backup, and accepted in another one."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.kube.errors import Invalid, KubeError, NotFound, ServerFault
from pinnace.kube.resources import APIResource
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_requests import Request
from tests.unit.restore.world import Harness, discovery, obj, outcome_of

KIND = "shapes.lab.example"
PATH = f"resources/{KIND}/namespaces/ns-1/old.json"
V2_REFUSES = 'spec.scope: Unsupported value: "Legacy": supported values: "Namespaced", "Cluster"'

pytestmark = pytest.mark.found("R2")


class Strict(ScriptedCluster):
    """A cluster that takes the scope Legacy in some versions only."""

    def __init__(self, *lenient: str) -> None:
        super().__init__()
        self.lenient = lenient
        self.served: tuple[str, ...] = ("v3", "v2", "v1")
        self.refusal: KubeError = Invalid(422, reason="Invalid", message=V2_REFUSES)
        self.tried: list[str] = []
        self.accepted: list[tuple[str, JSONObject]] = []

    async def create(
        self, resource: APIResource, body: JSONObject | bytes, namespace: str | None = None, **more: Any
    ) -> JSONObject:
        if resource.group_resource != KIND:
            return await super().create(resource, body, namespace, **more)
        item: JSONObject = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
        assert item["apiVersion"] == resource.api_version
        self.tried.append(resource.version)
        if resource.version not in self.served:
            raise NotFound(404, message="the cluster does not serve this kind in this version")
        scope = item["spec"]["scope"]
        if scope == "None" or (scope == "Legacy" and resource.version not in self.lenient):
            raise self.refusal
        self.accepted.append((resource.version, item))
        return await super().create(resource, body, namespace, **more)

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        found = await super().get(resource, name, namespace)
        return {**found, "apiVersion": resource.api_version}

    def check(self, request: Request) -> None:
        super().check(request)
        if request.verb == "patch" and request.resource.group_resource == KIND:
            raise Invalid(422, reason="Invalid", message="it cannot be changed")


def definition(conversion: JSONObject | None = None, storage: str = "v1") -> JSONObject:
    versions = [{"name": name, "served": True, "storage": name == storage} for name in ("v3", "v2", "v1")]
    spec: JSONObject = {"group": "lab.example", "versions": versions}
    if conversion is not None:
        spec["conversion"] = conversion
    return obj("CustomResourceDefinition", KIND, api_version="apiextensions.k8s.io/v1", spec=spec)


def shape(version: str = "v3", *writers: str, **spec: Any) -> bytes:
    spec = {"scope": "Legacy", **spec}
    item = obj("Shape", "old", "ns-1", api_version=f"lab.example/{version}", spec=spec)
    item["metadata"]["managedFields"] = [
        {"manager": "controller", "subresource": "status", "apiVersion": "lab.example/v2"},
        *({"manager": "kubectl", "apiVersion": f"lab.example/{each}"} for each in writers),
    ]
    return orjson.dumps(item)


def stage(directory: Path, *lenient: str) -> Harness:
    harness = Harness(directory, Strict(*lenient))
    serve(harness, "v3", "v2", "v1")
    return harness


def serve(harness: Harness, *versions: str) -> None:
    world_of(harness).served = versions
    harness.discovery = discovery(
        *(("lab.example", version, "shapes", "Shape", True) for version in versions)
    )


def world_of(harness: Harness) -> Strict:
    assert isinstance(harness.world, Strict)
    return harness.world


async def test_it_comes_back_in_the_version_of_its_writer(tmp_path: Path) -> None:
    harness = stage(tmp_path, "v2", "v1")
    harness.world.put(definition())

    results = await harness.restore(files={PATH: shape("v3", "v1")})

    assert results.empty
    assert world_of(harness).tried == ["v3", "v1"]
    ((version, sent),) = world_of(harness).accepted
    assert (version, sent["spec"]) == ("v1", {"scope": "Legacy"})
    assert sent["metadata"]["labels"]["velero.io/restore-name"] == "restore-1"
    assert outcome_of(harness.outcomes, "lab.example/v1/Shape", "ns-1/old") == Outcome.CREATED


async def test_without_a_writer_the_stored_version_and_then_the_others_are_tried(tmp_path: Path) -> None:
    harness = stage(tmp_path, "v2")
    harness.world.put(definition(storage="v1"))
    results = await harness.restore(files={PATH: shape("v3", "v9")})
    assert results.empty
    assert world_of(harness).tried == ["v3", "v1", "v2"]


async def test_copies_of_the_backup_come_first_and_get_the_changes_of_the_restore(tmp_path: Path) -> None:
    harness = stage(tmp_path, "v1", "v2")
    harness.world.put(definition())
    copy = f"resources/{KIND}/v2/namespaces/ns-1/old.json"
    results = await harness.restore(
        files={PATH: shape("v3", "v1"), copy: shape("v2", only="in v2")}, namespace_mapping={"ns-1": "ns-2"}
    )
    assert results.empty
    ((version, sent),) = world_of(harness).accepted
    assert (version, sent["spec"]) == ("v2", {"scope": "Legacy", "only": "in v2"})
    assert sent["metadata"]["namespace"] == "ns-2"
    assert sent["metadata"]["labels"]["velero.io/restore-name"] == "restore-1"


WEBHOOK = {"strategy": "Webhook"}


@pytest.mark.parametrize("found", [definition(WEBHOOK), None], ids=["converted", "no definition"])
async def test_only_copies_are_tried_where_versions_may_have_other_fields(
    tmp_path: Path, found: JSONObject | None
) -> None:
    harness = stage(tmp_path, "v1", "v2")
    if found is not None:
        harness.world.put(found)
    results = await harness.restore(files={PATH: shape("v3", "v1")})
    assert results.errors.namespaces["ns-1"] == [f"error restoring {KIND}/ns-1/old: {V2_REFUSES}"]
    assert world_of(harness).tried == ["v3"]

    copy = f"resources/{KIND}/v2/namespaces/ns-1/old.json"
    results = await harness.restore(files={PATH: shape("v3", "v1"), copy: shape("v2")})
    assert results.empty
    assert [version for version, _ in world_of(harness).accepted] == ["v2"]


async def test_a_copy_is_used_if_the_webhook_that_converts_the_object_is_gone(tmp_path: Path) -> None:
    harness = stage(tmp_path, "v1", "v2")
    harness.world.put(definition(WEBHOOK))
    world_of(harness).refusal = ServerFault(500, message="conversion webhook for lab.example/v3 failed")
    copy = f"resources/{KIND}/v1/namespaces/ns-1/old.json"
    results = await harness.restore(files={PATH: shape("v3"), copy: shape("v1")})
    assert results.empty
    assert [version for version, _ in world_of(harness).accepted] == ["v1"]


async def test_if_all_versions_refuse_it_the_error_has_all_refusals(tmp_path: Path) -> None:
    harness = stage(tmp_path)
    harness.world.put(definition())
    results = await harness.restore(files={PATH: shape("v3", "v1")})
    assert results.errors.namespaces["ns-1"] == [
        f"error restoring {KIND}/ns-1/old: {V2_REFUSES}; in version v1: {V2_REFUSES};"
        f" in version v2: {V2_REFUSES}"
    ]


async def test_a_copy_is_used_if_the_cluster_no_longer_serves_the_version_of_the_object(
    tmp_path: Path,
) -> None:
    harness = stage(tmp_path, "v2", "v1")
    serve(harness, "v2", "v1")
    harness.world.put(definition())
    copy = f"resources/{KIND}/v2/namespaces/ns-1/old.json"
    results = await harness.restore(files={PATH: shape("v3"), copy: shape("v2")})
    assert results.empty
    assert [version for version, _ in world_of(harness).accepted] == ["v2"]
    assert world_of(harness).tried == ["v3", "v2"]


@pytest.mark.parametrize("scope", ["Legacy", "None"])
async def test_an_object_that_was_deleted_to_be_created_anew_is_not_lost(tmp_path: Path, scope: str) -> None:
    """Neither the new nor the former object is accepted in the version of the backup."""
    harness = stage(tmp_path, "v1")
    harness.world.put(definition())
    harness.world.put(orjson.loads(shape("v3", "v1", size=1)), KIND)

    backup = {PATH: shape("v3", "v1", size=2, scope=scope)}
    results = await harness.restore(files=backup, existing_resource_policy="recreate")

    ((version, stored),) = world_of(harness).accepted
    assert (version, stored["spec"]["size"]) == ("v1", 2 if scope == "Legacy" else 1)
    assert results.empty == (scope == "Legacy")
    if scope == "None":
        (error,) = results.errors.namespaces["ns-1"]
        assert error.endswith("the former one was created again")
