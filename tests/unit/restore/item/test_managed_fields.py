"""The owners of the fields of restored objects."""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden
from pinnace.restore.item.managed_fields import OF_THE_RESTORE, Ownership, ownership_of
from tests.unit.restore.world import Harness, configmap, deployment, obj, pod


def entry(
    manager: str, operation: str = "Update", fields: JSONObject | None = None, *, subresource: str = ""
) -> JSONObject:
    found: JSONObject = {
        "manager": manager,
        "operation": operation,
        "apiVersion": "v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields or {"f:data": {"f:x": {}}},
    }
    return found | ({"subresource": subresource} if subresource else {})


def owned(item: JSONObject, *entries: object) -> JSONObject:
    return {**item, "metadata": {**item["metadata"], "managedFields": list(entries)}}


def of_labels(*names: str) -> JSONObject:
    return {"f:metadata": {"f:labels": {name: {} for name in (".", *(f"f:{name}" for name in names))}}}


APPLIED = entry("deployer", "Apply")
STATUS = entry("kubelet", fields={"f:status": {}}, subresource="status")
SCALED = entry("autoscaler", fields={"f:spec": {"f:replicas": {}}}, subresource="scale")


@pytest.mark.found("O13")
@pytest.mark.parametrize(
    ("entries", "ownership"),
    [
        ([], OF_THE_RESTORE),
        ([entry("kubectl"), STATUS], Ownership(creator="kubectl", entries=(entry("kubectl"), STATUS))),
        ([APPLIED], Ownership(entries=(APPLIED,), is_complete=False)),
        ([entry("a"), entry("b")], Ownership(entries=(entry("a"), entry("b")), is_complete=False)),
        ([entry("a"), SCALED], Ownership(entries=(entry("a"), SCALED), is_complete=False)),
        ([SCALED], Ownership(entries=(SCALED,), is_complete=False)),
        ([STATUS], Ownership(entries=(STATUS,), is_complete=False)),
        ([entry("é" * 64)], Ownership(creator="é" * 64, entries=(entry("é" * 64),))),
        ([entry("é" * 65)], Ownership(entries=(entry("é" * 65),), is_complete=False)),
        ([entry("x" * 129)], Ownership(entries=(entry("x" * 129),), is_complete=False)),
        ([entry("a\n")], Ownership(entries=(entry("a\n"),), is_complete=False)),
        ([3, None, {}, {"fieldsV1": 3}], OF_THE_RESTORE),
    ],
)
def test_the_owner_of_all_creates_the_object_and_several_are_written_afterwards(
    entries: list[Any], ownership: Ownership
) -> None:
    assert ownership_of(owned(configmap("a"), *entries)) == ownership


@pytest.mark.found("O13")
def test_nobody_owns_the_labels_of_a_former_restore() -> None:
    ours = ("velero.io/backup-name", "velero.io/restore-name")
    restorer = entry("velero-server", fields=of_labels(*ours))
    mixed = entry("deployer", "Apply", of_labels("app", *ours))

    found = ownership_of(owned(configmap("a"), restorer, mixed))

    assert found.entries == (entry("deployer", "Apply", of_labels("app")),)


@pytest.mark.found("O13")
@pytest.mark.parametrize("managed", ["text", {"a": 1}, None])
def test_odd_managed_fields_are_passed_over(managed: object) -> None:
    item = configmap("a")
    item["metadata"]["managedFields"] = managed
    assert ownership_of(item) == OF_THE_RESTORE


@pytest.mark.found("O13")
async def test_objects_and_namespaces_have_the_owners_of_the_backup(harness: Harness) -> None:
    namespace = owned(obj("Namespace", "ns-1"), APPLIED)
    items = (
        owned(configmap("applied"), APPLIED, STATUS),
        owned(configmap("created"), entry("kubectl-create")),
        owned(pod("p"), entry("kubectl-run"), STATUS),
        configmap("unowned"),
    )

    results = await harness.restore(namespace, *items, namespace_mapping={"ns-1": "ns-2"})

    assert results.empty
    world = harness.world
    assert world.item("configmaps", "ns-2", "applied")["metadata"]["managedFields"] == [APPLIED, STATUS]
    assert world.item("namespaces", "", "ns-2")["metadata"]["managedFields"] == [APPLIED]
    assert world.managers == {
        ("namespaces", "", "ns-2"): "",
        ("configmaps", "ns-2", "applied"): "",
        ("configmaps", "ns-2", "created"): "kubectl-create",
        ("configmaps", "ns-2", "unowned"): "",
        ("pods", "ns-2", "p"): "kubectl-run",
    }
    assert len(world.patch_bodies) == 2, "one request for most objects"


@pytest.mark.found("O13")
async def test_an_updated_object_has_them_too_and_one_that_is_left_alone_keeps_its_own(
    harness: Harness,
) -> None:
    for name in ("a", "same"):
        harness.world.put(configmap(name, data={"x": "old" if name == "a" else "1"}))
    items = [owned(configmap(name, data={"x": "1"}), entry("kubectl")) for name in ("a", "same")]

    await harness.restore(*items, existing_resource_policy="update")

    assert harness.world.item("configmaps", "ns-1", "a")["metadata"]["managedFields"] == [entry("kubectl")]
    assert "managedFields" not in harness.world.item("configmaps", "ns-1", "same")["metadata"]


@pytest.mark.found("O13")
async def test_owners_that_cannot_be_written_are_a_warning(harness: Harness) -> None:
    for key in (("deployments.apps", "ns-1", "d"), ("namespaces", "", "ns-1")):
        harness.world.refuse("patch", key, Forbidden(403, message="no patches"), subresource="")

    results = await harness.restore(owned(obj("Namespace", "ns-1"), APPLIED), owned(deployment("d"), APPLIED))

    assert results.errors.count == 0
    assert results.warnings.namespaces["ns-1"] == [
        "could not restore metadata.managedFields of namespace ns-1: no patches",
        "could not restore metadata.managedFields of deployments.apps/ns-1/d: no patches",
    ]
    assert harness.world.created_of("deployments.apps") == ["ns-1/d"]
