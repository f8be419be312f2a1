"""A restore over objects that exist already, for each policy. (docs/spec: BEY 5.1)"""

from typing import Any

import orjson
import pytest

from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import Outcome
from pinnace.archive.runlog import RunLog
from pinnace.kube.errors import AlreadyExists, Forbidden, Invalid
from pinnace.kube.resources import APIResource
from pinnace.restore.cluster import TargetCluster
from pinnace.restore.item.writing import ClusterWriter
from tests.support.clock import LeapingClock
from tests.support.cluster.server_rules import established
from tests.unit.restore.world import (
    Harness,
    claim,
    configmap,
    key_of,
    labels_of,
    obj,
    outcome_of,
    volume,
    world_of,
)

LABELS = {"velero.io/backup-name": "backup-1", "velero.io/restore-name": "restore-1"}
SEA = {"group": "sea.io", "names": {"plural": "ships", "kind": "Ship"}}
IMMUTABLE = Invalid(422, reason="Invalid", message="field is immutable")


def account(name: str = "sa-1", **fields: Any) -> JSONObject:
    return obj("ServiceAccount", name, "ns-1", **fields)


@pytest.mark.spec("BEY-046")
@pytest.mark.parametrize(
    ("policy", "same", "outcome", "data", "labelled", "warnings"),
    [
        ("", True, "unchanged", "ours", False, 0),
        ("none", True, "unchanged", "ours", False, 0),
        ("update", True, "unchanged", "ours", True, 0),
        ("", False, "different", "theirs", False, 1),
        ("none", False, "different", "theirs", False, 1),
        ("update", False, "updated", "ours", True, 0),
        ("recreate", True, "unchanged", "ours", True, 0),
        ("recreate", False, "updated", "ours", True, 0),
    ],
)
async def test_an_existing_object_is_treated_by_the_policy(
    harness: Harness, policy: str, same: bool, outcome: str, data: str, labelled: bool, warnings: int
) -> None:
    harness.world.put(configmap("cm", data={"a": "ours" if same else "theirs"}, labels={"x": "y"}))

    results = await harness.restore(
        configmap("cm", data={"a": "ours"}, labels={"x": "y"}), existing_resource_policy=policy
    )

    stored = harness.world.item("configmaps", "ns-1", "cm")
    assert stored["data"] == {"a": data}
    assert labels_of(stored) == {"x": "y", **(LABELS if labelled else {})}
    assert outcome_of(harness.outcomes, "v1/ConfigMap", "ns-1/cm") == outcome
    assert (results.warnings.count, results.errors.count) == (warnings, 0)
    assert harness.world.deleted == []


@pytest.mark.spec("BEY-046")
@pytest.mark.parametrize("policy", ["", "none", "update", "recreate"])
async def test_a_service_account_gets_missing_secrets_whatever_the_policy(
    harness: Harness, policy: str
) -> None:
    harness.world.put(account(secrets=[{"name": "theirs"}]))

    results = await harness.restore(account(secrets=[{"name": "ours"}]), existing_resource_policy=policy)

    stored = harness.world.item("serviceaccounts", "ns-1", "sa-1")
    assert stored["secrets"] == [{"name": "theirs"}, {"name": "ours"}]
    assert results.empty
    assert outcome_of(harness.outcomes, "v1/ServiceAccount", "ns-1/sa-1") == Outcome.UPDATED


@pytest.mark.spec("BEY-046")
async def test_a_refused_patch_under_update_is_a_warning_and_the_labels_are_set(harness: Harness) -> None:
    harness.world.put(configmap("cm", data={"a": "theirs"}))
    patch = harness.world.patch

    async def only_labels(resource: Any, name: str, body: Any, namespace: str | None = None) -> Any:
        if "data" in body:
            raise IMMUTABLE
        return await patch(resource, name, body, namespace)

    harness.world.patch = only_labels  # type: ignore[method-assign,assignment]
    results = await harness.restore(configmap("cm", data={"a": "ours"}), existing_resource_policy="update")

    stored = harness.world.item("configmaps", "ns-1", "cm")
    assert stored["data"] == {"a": "theirs"}
    assert labels_of(stored) == LABELS
    (warning,) = results.warnings.namespaces["ns-1"]
    assert "configmaps/ns-1/cm" in warning
    assert "field is immutable" in warning
    assert outcome_of(harness.outcomes, "v1/ConfigMap", "ns-1/cm") == Outcome.DIFFERENT


async def test_what_cannot_be_patched_is_deleted_and_created_anew(harness: Harness) -> None:
    key = ("configmaps", "ns-1", "cm")
    former = harness.world.put(configmap("cm", data={"a": "theirs"}))
    harness.world.refuse("patch", key, IMMUTABLE, subresource="")

    results = await harness.restore(configmap("cm", data={"a": "ours"}), existing_resource_policy="recreate")

    stored = harness.world.objects[key]
    assert (stored["data"], labels_of(stored)) == ({"a": "ours"}, LABELS)
    assert stored["metadata"]["uid"] != former["metadata"]["uid"]
    assert harness.world.deleted == [(*key, "Background")]
    assert results.empty
    assert outcome_of(harness.outcomes, "v1/ConfigMap", "ns-1/cm") == Outcome.RECREATED


async def test_a_stateful_set_is_deleted_without_its_pods_and_claims() -> None:
    resource = APIResource(
        group="apps", version="v1", name="statefulsets", kind="StatefulSet", namespaced=True
    )
    world = world_of()
    found = world.put(obj("StatefulSet", "s", "ns-1", api_version="apps/v1"), "statefulsets.apps")
    target = TargetCluster(
        client=world, log=RunLog(None, fields={}), clock=LeapingClock(), terminating_timeout_seconds=60
    )
    body = orjson.dumps(obj("StatefulSet", "s", "ns-1", api_version="apps/v1", spec={}))

    await ClusterWriter(target).recreate([(resource, body)], found, "ns-1")

    assert world.deleted == [("statefulsets.apps", "ns-1", "s", "Orphan")]
    assert world.created_of("statefulsets.apps") == ["ns-1/s"]


async def test_if_the_new_object_is_refused_the_former_one_is_created_again(harness: Harness) -> None:
    key = ("configmaps", "ns-1", "cm")
    harness.world.put(configmap("cm", data={"a": "theirs"}, labels={"keep": "me"}))
    harness.world.refuse("patch", key, IMMUTABLE, subresource="")
    create, refusals = (
        harness.world.create_bytes,
        [AlreadyExists(409, message="there"), Forbidden(403, message="no")],
    )

    async def refusing(resource: Any, body: bytes, namespace: str | None = None, **options: Any) -> bytes:
        if refusals and resource.name == "configmaps":
            raise refusals.pop(0)
        return await create(resource, body, namespace, **options)

    harness.world.create_bytes = refusing  # type: ignore[method-assign]
    results = await harness.restore(configmap("cm", data={"a": "ours"}), existing_resource_policy="recreate")

    assert harness.world.objects[key]["data"] == {"a": "theirs"}
    assert labels_of(harness.world.objects[key]) == {"keep": "me"}
    (error,) = results.errors.namespaces["ns-1"]
    assert error == (
        "error restoring configmaps/ns-1/cm: it was deleted to be created again, and the new object was"
        " refused: no; the former one was created again"
    )
    assert outcome_of(harness.outcomes, "v1/ConfigMap", "ns-1/cm") == Outcome.FAILED


async def test_an_object_that_its_finalizer_keeps_is_an_error(harness: Harness) -> None:
    key = ("configmaps", "ns-1", "cm")
    held = configmap("cm", data={"a": "theirs"})
    held["metadata"]["finalizers"] = ["example.io/hold"]
    harness.world.put(held)
    harness.world.refuse("patch", key, IMMUTABLE, subresource="")

    results = await harness.restore(configmap("cm", data={"a": "ours"}), existing_resource_policy="recreate")

    (error,) = results.errors.namespaces["ns-1"]
    assert "is still there after 600 seconds: see its finalizers" in error


@pytest.mark.parametrize(
    ("backed_up", "existing"),
    [
        (claim("c", spec={"a": 1}), claim("c", spec={"a": 2})),
        (volume("v", spec={"a": 1}), volume("v", spec={"a": 2})),
        (
            obj("CustomResourceDefinition", "d", api_version="apiextensions.k8s.io/v1", spec=SEA | {"a": 1}),
            obj("CustomResourceDefinition", "d", api_version="apiextensions.k8s.io/v1", spec=SEA | {"a": 2}),
        ),
    ],
    ids=["claim", "volume", "definition"],
)
async def test_an_object_with_data_behind_it_is_never_deleted(
    harness: Harness, backed_up: JSONObject, existing: JSONObject
) -> None:
    if existing["kind"] == "CustomResourceDefinition":
        existing["status"] = established()
    harness.actions = []
    before = harness.world.put(existing)
    harness.world.refuse("patch", key_of(existing), IMMUTABLE, subresource="")

    results = await harness.restore(backed_up, existing_resource_policy="recreate")

    assert harness.world.deleted == []
    assert harness.world.objects[key_of(existing)]["spec"] == before["spec"]
    assert any("that would delete" in text for _, text in results.warnings.notices())


async def test_a_tenants_restore_changes_no_cluster_scoped_object(harness: Harness) -> None:
    storage_class = obj("StorageClass", "fast", api_version="storage.k8s.io/v1", provisioner="theirs")
    harness.world.put(storage_class)
    rights = TenantLimits(creatable=frozenset(), allowed=frozenset({"storageclasses.storage.k8s.io"}))
    harness.request_fields = {"limits": rights}

    await harness.restore({**storage_class, "provisioner": "ours"}, existing_resource_policy="recreate")

    assert harness.world.item("storageclasses.storage.k8s.io", "", "fast")["provisioner"] == "theirs"
    assert harness.world.patch_bodies == []
