"""Objects that are in the cluster already."""

from typing import Any

import pytest

from pinnace.kube.errors import Conflict, Forbidden
from pinnace.restore.item.conflicts import comparable, is_same, merged_service_account
from tests.unit.restore.world import (
    Harness,
    configmap,
    obj,
    pod,
)

LABELS = {"velero.io/backup-name": "backup-1", "velero.io/restore-name": "restore-1"}


def account(**fields: Any) -> Any:
    return obj("ServiceAccount", "sa-1", "ns-1", **fields)


@pytest.mark.spec("RST-043")
async def test_an_identical_service_account_is_left_alone(harness: Harness) -> None:
    harness.world.put(account())

    results = await harness.restore(account())

    assert results.empty
    assert harness.world.patches == []
    assert "labels" not in harness.world.item("serviceaccounts", "ns-1", "sa-1")["metadata"]


@pytest.mark.spec("RST-044")
async def test_secrets_of_the_backup_are_appended_to_a_service_account(harness: Harness) -> None:
    harness.world.put(account())

    results = await harness.restore(
        account(secrets=[{"name": "secret-1"}], imagePullSecrets=[{"name": "pull-secret-1"}])
    )

    assert results.empty
    stored = harness.world.item("serviceaccounts", "ns-1", "sa-1")
    assert stored["secrets"] == [{"name": "secret-1"}]
    assert stored["imagePullSecrets"] == [{"name": "pull-secret-1"}]
    assert "labels" not in stored["metadata"]


@pytest.mark.spec("RST-045")
def test_existing_labels_win_and_missing_ones_are_added() -> None:
    merged = merged_service_account(account(labels={"k": "v1"}), account(labels={"k": "v2", "l": "w"}))
    assert merged["metadata"]["labels"] == {"k": "v1", "l": "w"}


def test_merged_secrets_keep_the_order_and_come_once() -> None:
    merged = merged_service_account(
        account(secrets=[{"name": "b"}], automountServiceAccountToken=True),
        account(secrets=[{"name": "c"}, {"name": "b"}, {"name": "a"}], automountServiceAccountToken=False),
    )
    assert merged["secrets"] == [{"name": "b"}, {"name": "c"}, {"name": "a"}]
    assert merged["automountServiceAccountToken"] is True


async def test_a_merge_that_meets_a_newer_account_starts_again(harness: Harness) -> None:
    stored = harness.world.put(account(secrets=[{"name": "old"}]))
    patch, attempts = harness.world.patch, []

    async def meeting_a_controller(resource: Any, name: str, body: Any, namespace: str | None = None) -> Any:
        attempts.append(body["metadata"]["resourceVersion"])
        if len(attempts) == 1:
            stored["secrets"].append({"name": "from-controller"})
            stored["metadata"]["resourceVersion"] = "99"
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        return await patch(resource, name, body, namespace)

    harness.world.patch = meeting_a_controller  # type: ignore[method-assign,assignment]
    results = await harness.restore(account(secrets=[{"name": "new"}]))

    assert results.empty
    assert attempts == ["1", "99"]
    names = [entry["name"] for entry in harness.world.item("serviceaccounts", "ns-1", "sa-1")["secrets"]]
    assert names == ["old", "from-controller", "new"]


async def test_a_merge_that_fails_is_a_warning(harness: Harness) -> None:
    harness.world.put(account())

    async def refuse(*_: Any) -> Any:
        raise Forbidden(403, reason="Forbidden", message="you may not patch")

    harness.world.patch = refuse  # type: ignore[method-assign,assignment]
    results = await harness.restore(account(labels={"a": "b"}))

    (message,) = results.warnings.namespaces["ns-1"]
    assert "you may not patch" in message
    assert results.errors.count == 0


@pytest.mark.spec("RST-046")
async def test_what_the_server_adds_makes_no_difference(harness: Harness) -> None:
    there = configmap("cm", data={"a": "b"}, labels={"velero.io/backup-name": "older", "x": "y"})
    there["metadata"] |= {"uid": "u", "resourceVersion": "5", "managedFields": [], "generation": 2}
    harness.world.put(there)

    results = await harness.restore(configmap("cm", data={"a": "b"}, labels={"x": "y"}))

    assert results.empty


@pytest.mark.spec("RST-047")
async def test_other_data_is_one_warning_and_the_object_stays(harness: Harness) -> None:
    before = harness.world.put(configmap("cm", "m1", data={"a": "theirs"}))

    results = await harness.restore(configmap("cm", data={"a": "ours"}), namespace_mapping={"ns-1": "m1"})

    assert results.warnings.namespaces == {
        "m1": [
            'could not restore, configmaps "cm" already exists. Warning: the in-cluster version is '
            "different than the backed-up version."
        ]
    }
    assert results.warnings.count == 1
    assert harness.world.item("configmaps", "m1", "cm") == before


async def test_a_failing_look_at_the_existing_object_is_a_warning(harness: Harness) -> None:
    harness.world.put(configmap("cm"))
    harness.world.refuse_get[("configmaps", "ns-1", "cm")] = Forbidden(403, message="you may not look")

    results = await harness.restore(configmap("cm"))

    assert "you may not look" in results.warnings.namespaces["ns-1"][0]
    assert results.errors.count == 0


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ({"cpu": "1000m"}, {"cpu": "1"}, False),
        ({"a": None}, {}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [0]}, {"a": [False]}, False),
        ({"a": {"b": [1, {"c": "d"}]}}, {"a": {"b": [1, {"c": "d"}]}}, True),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_specs_are_compared_strictly(left: Any, right: Any, same: bool) -> None:
    in_cluster = comparable(pod("p", spec=left), LABELS)
    assert is_same(in_cluster, pod("p", spec=right, labels=LABELS)) is same


def test_leftovers_of_typed_clients_make_no_difference() -> None:
    desired = pod("p", labels=LABELS, status={})
    desired["metadata"]["creationTimestamp"] = None

    assert is_same(comparable(pod("p"), LABELS), desired)


def test_a_token_that_the_cluster_filled_in_makes_no_difference() -> None:
    secret_type = "kubernetes.io/service-account-token"
    uid = {"kubernetes.io/service-account.name": "sa", "kubernetes.io/service-account.uid": "u"}
    there = obj("Secret", "s", "ns-1", type=secret_type, data={"token": "x"}, annotations=uid)
    name_only = {"kubernetes.io/service-account.name": "sa"}
    desired = obj("Secret", "s", "ns-1", type=secret_type, data={}, annotations=name_only, labels=LABELS)

    assert is_same(comparable(there, LABELS), desired)
    assert not is_same(comparable(there | {"type": "Opaque"}, LABELS), desired | {"type": "Opaque"})
