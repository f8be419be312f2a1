"""The built-in actions of backups."""

from pathlib import Path
from typing import Any, cast

import msgspec
import msgspec.structs
import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound, status_error
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    APIResource,
)
from pinnace.plugins.builtin.backup.actions import backup_actions
from pinnace.plugins.builtin.backup.crd_remap_version import CRDRemapVersionAction
from pinnace.plugins.builtin.backup.pod import PodAction
from pinnace.plugins.builtin.backup.pv import PersistentVolumeAction
from pinnace.plugins.builtin.backup.service_account import ServiceAccountAction
from pinnace.plugins.protocols import BackupItemAction
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.backup.fakes import a_backup, discovery_of, run_backup, thing, two_a_page

CRD_V1BETA1 = msgspec.structs.replace(CUSTOM_RESOURCE_DEFINITIONS, version="v1beta1")
BINDINGS_V1BETA1 = msgspec.structs.replace(CLUSTER_ROLE_BINDINGS, version="v1beta1")
BINDINGS_V9 = msgspec.structs.replace(CLUSTER_ROLE_BINDINGS, version="v9")


def versioned_calls(cluster: ScriptedCluster) -> list[tuple[str, str, str]]:
    return [(each.verb, each.resource.group_resource, each.resource.version) for each in cluster.requests]


def client_of(cluster: ScriptedCluster) -> KubeClient:
    return cast(KubeClient, cluster)


async def additional(action: BackupItemAction, item: JSONObject) -> list[str]:
    """Names of the additional items; the item itself must come back unchanged."""
    result, identifiers = await action.execute(item, a_backup())
    assert result is item
    return [
        "/".join(filter(None, (identifier.group_resource, identifier.namespace, identifier.name)))
        for identifier in identifiers
    ]


def test_all_actions_come_sorted_by_name() -> None:
    actions = backup_actions(client_of(ScriptedCluster()), discovery_of())
    names = [action.name for action in actions]
    assert names == [
        "velero.io/crd-remap-version",
        "velero.io/pod",
        "velero.io/pv",
        "velero.io/service-account",
    ]
    assert all(isinstance(action, BackupItemAction) for action in actions)


@pytest.mark.parametrize(
    ("action", "resource"),
    [
        (PodAction(), "pods"),
        (PersistentVolumeAction(), "persistentvolumeclaims"),
        (
            CRDRemapVersionAction(client_of(ScriptedCluster()), discovery_of()),
            CUSTOM_RESOURCE_DEFINITIONS.group_resource,
        ),
        (ServiceAccountAction(client_of(ScriptedCluster()), discovery_of()), "serviceaccounts"),
    ],
)
async def test_the_resources_that_the_actions_apply_to(action: BackupItemAction, resource: str) -> None:
    selector = await action.applies_to()
    assert (list(selector.included_resources), selector.label_selector) == ([resource], "")


@pytest.mark.parametrize(
    ("spec", "claims"),
    [
        ({}, []),
        ({"volumes": None}, []),
        (
            {
                "volumes": [
                    {"name": "a", "persistentVolumeClaim": {"claimName": "one"}},
                    {"name": "b", "emptyDir": {}},
                    {"name": "c", "persistentVolumeClaim": {"claimName": ""}},
                    {"name": "d", "persistentVolumeClaim": {"claimName": "two"}},
                    {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
                ]
            },
            ["persistentvolumeclaims/ns/one", "persistentvolumeclaims/ns/two"],
        ),
    ],
)
async def test_pod_brings_its_claims(spec: dict[str, Any], claims: list[str]) -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    assert await additional(PodAction(), pod) == claims


@pytest.mark.found("O17b")
@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({"priorityClassName": "urgent"}, ["priorityclasses.scheduling.k8s.io/urgent"]),
        ({"runtimeClassName": "kata"}, ["runtimeclasses.node.k8s.io/kata"]),
        ({"runtimeClassName": "system-kata"}, ["runtimeclasses.node.k8s.io/system-kata"]),
        (
            {"priorityClassName": "urgent", "runtimeClassName": "kata"},
            ["priorityclasses.scheduling.k8s.io/urgent", "runtimeclasses.node.k8s.io/kata"],
        ),
        ({"priorityClassName": "", "runtimeClassName": None}, []),
        # Every cluster has those of Kubernetes itself.
        ({"priorityClassName": "system-node-critical"}, []),
    ],
)
async def test_pod_brings_its_classes(spec: JSONObject, found: list[str]) -> None:
    pod = {"metadata": {"name": "p", "namespace": "ns"}, "spec": spec}
    assert await additional(PodAction(), pod) == found
    assert not (found and PodAction().ignores("ns", "p", msgspec.json.encode(pod)))


@pytest.mark.parametrize(
    ("phase", "volume", "found"),
    [
        ("Bound", "pv-1", ["persistentvolumes/pv-1"]),
        ("Bound", "", []),
        ("Pending", "pv-1", []),
        ("Lost", "pv-1", []),
    ],
)
async def test_claim_brings_its_volume(phase: str, volume: str, found: list[str]) -> None:
    claim = {
        "metadata": {"name": "c", "namespace": "ns"},
        "spec": {"volumeName": volume},
        "status": {"phase": phase},
    }
    assert await additional(PersistentVolumeAction(), claim) == found


async def test_claim_without_status_brings_no_volume() -> None:
    assert await additional(PersistentVolumeAction(), {"metadata": {"name": "c", "namespace": "ns"}}) == []


def binding(name: str, role: str, *subjects: tuple[str, str, str]) -> JSONObject:
    return thing(
        CLUSTER_ROLE_BINDINGS,
        name,
        roleRef={"kind": "ClusterRole", "name": role},
        subjects=[{"kind": kind, "namespace": namespace, "name": name} for kind, namespace, name in subjects],
    )


ACCOUNT = ("ServiceAccount", "velero", "velero")


def cluster_with_bindings() -> ScriptedCluster:
    cluster = ScriptedCluster()
    cluster.put_all(
        CLUSTER_ROLE_BINDINGS,
        binding("crb-4", "role-4", ("User", "", "x"), ACCOUNT),
        binding("crb-1", "role-1", ("ServiceAccount", "velero", "other")),
        binding("crb-2", "role-2", ACCOUNT, ACCOUNT),
        binding("crb-3", "role-3", ACCOUNT),
        binding("crb-5", "role-5", ("ServiceAccount", "other", "velero"), ("Group", "velero", "velero")),
        {**binding("crb-6", "role-6"), "subjects": None},
    )
    return cluster


@pytest.mark.spec("BKP-045")
async def test_account_brings_bindings_then_roles() -> None:
    action = ServiceAccountAction(client_of(cluster_with_bindings()), discovery_of())
    await action.applies_to()
    bindings = [f"clusterrolebindings.rbac.authorization.k8s.io/crb-{number}" for number in (2, 3, 4)]
    roles = [f"clusterroles.rbac.authorization.k8s.io/role-{number}" for number in (2, 3, 4)]
    account = thing(SERVICE_ACCOUNTS, "velero", "velero")
    assert await additional(action, account) == bindings + roles
    assert await additional(action, thing(SERVICE_ACCOUNTS, "nobody", "velero")) == []


@pytest.mark.parametrize(
    ("served", "call"),
    [
        ([CLUSTER_ROLE_BINDINGS, BINDINGS_V1BETA1], "v1"),
        ([BINDINGS_V1BETA1, CLUSTER_ROLE_BINDINGS], "v1beta1"),
        ([BINDINGS_V9, BINDINGS_V1BETA1, CLUSTER_ROLE_BINDINGS], "v1"),
        ([BINDINGS_V9, BINDINGS_V1BETA1], "v1beta1"),
        ([BINDINGS_V9], ""),
        ([CONFIGMAPS], ""),
    ],
)
async def test_bindings_are_read_in_a_version_that_is_served(served: list[APIResource], call: str) -> None:
    cluster = cluster_with_bindings()
    action = ServiceAccountAction(client_of(cluster), discovery_of(served))
    await action.applies_to()
    assert cluster.placed_calls == []
    found = await additional(action, thing(SERVICE_ACCOUNTS, "velero", "velero"))
    expected = [("list", "clusterrolebindings.rbac.authorization.k8s.io", call)] if call else []
    assert versioned_calls(cluster) == expected
    assert bool(found) == bool(call)


@pytest.mark.spec("BKP-069")
async def test_accounts_are_saved_with_an_error_where_bindings_may_not_be_listed(tmp_path: Path) -> None:
    cluster = (
        ScriptedCluster()
        .add_all(NAMESPACES, "ns")
        .add_all(SERVICE_ACCOUNTS, "ns/a", "ns/b")
        .add_all(CONFIGMAPS, "ns/c")
    )
    forbidden = status_error(403, {"message": "bindings are forbidden"})
    cluster.refuse("list", CLUSTER_ROLE_BINDINGS.group_resource, forbidden)
    actions = backup_actions(client_of(cluster), discovery_of())

    outcome = await run_backup(tmp_path, cluster, a_backup(included_namespaces=["ns"]), actions=actions)

    names = ["configmaps/ns/c", "namespaces/ns", "serviceaccounts/ns/a", "serviceaccounts/ns/b"]
    assert sorted(outcome.items) == names
    assert outcome.errors == 2
    assert "The cluster role bindings of service account ns/a are not in the backup" in outcome.log
    assert "bindings are forbidden" in outcome.log


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        pytest.param({"included_resources": ["sa"]}, 0, id="accounts alone"),
        pytest.param({"include_cluster_resources": False}, 0, id="nothing cluster-scoped"),
        pytest.param({"excluded_resources": ["clusterrolebindings", "clusterroles"]}, 0, id="both excluded"),
        pytest.param({"excluded_cluster_scoped_resources": ["*"]}, 0, id="excluded by scope"),
        pytest.param({"excluded_resources": ["clusterrolebindings"]}, 1, id="roles may come"),
    ],
)
async def test_bindings_that_the_backup_leaves_out_need_no_right(
    tmp_path: Path, spec: dict[str, Any], errors: int
) -> None:
    cluster = ScriptedCluster().add_all(NAMESPACES, "ns").add_all(SERVICE_ACCOUNTS, "ns/a")
    forbidden = status_error(403, {"message": "bindings are forbidden"})
    cluster.refuse("list", CLUSTER_ROLE_BINDINGS.group_resource, forbidden)
    actions = backup_actions(client_of(cluster), discovery_of())
    backup = a_backup(included_namespaces=["ns"], **spec)

    outcome = await run_backup(tmp_path, cluster, backup, actions=actions)

    assert "serviceaccounts/ns/a" in outcome.items
    assert outcome.errors == errors


async def test_a_backup_without_accounts_does_not_read_bindings(tmp_path: Path) -> None:
    cluster = ScriptedCluster().add_all(CONFIGMAPS, "ns/c")
    actions = backup_actions(client_of(cluster), discovery_of())

    await run_backup(tmp_path, cluster, a_backup(included_resources=["cm", "sa"]), actions=actions)

    assert not [call for call in cluster.placed_calls if call[1].startswith("clusterrolebindings")]


async def test_bindings_are_read_again_after_a_failure_that_may_pass() -> None:
    cluster = cluster_with_bindings()
    name = CLUSTER_ROLE_BINDINGS.group_resource
    action = ServiceAccountAction(client_of(cluster), discovery_of())
    account = thing(SERVICE_ACCOUNTS, "velero", "velero")
    cluster.refuse("list", name, status_error(500, {"message": "etcd is gone"}))
    assert await additional(action, account) == []

    cluster.relent()

    assert len(await additional(action, account)) == 6


SCHEMA = {"schema": {"openAPIV3Schema": {"properties": {"x": {"maximum": 10}}}}}


SPEC_V1BETA1 = {"validation": {"openAPIV3Schema": {"properties": {"x": {"maximum": 10}}}}}


def definition(*, versions: list[JSONObject] | None = None, condition: str = "", **spec: Any) -> JSONObject:
    status = {"conditions": [{"type": condition, "status": "False"}]} if condition else {}
    versions = [{"name": "v1", **SCHEMA}] if versions is None else versions
    return thing(
        CUSTOM_RESOURCE_DEFINITIONS, "w.example.com", spec={"versions": versions, **spec}, status=status
    )


REMAPPED = [
    pytest.param(definition(versions=[{"name": "v1"}]), id="no schema"),
    pytest.param(
        definition(versions=[{"name": "v1", "schema": {}}, {"name": "v2", **SCHEMA}]), id="empty schema"
    ),
    pytest.param(definition(condition="NonStructuralSchema"), id="condition"),
    pytest.param(definition(preserveUnknownFields=True), id="preserves"),
]
KEPT = [
    pytest.param(definition(), id="structural"),
    pytest.param(definition(versions=[]), id="no versions"),
    pytest.param(definition(versions=[{"name": "v1", **SCHEMA}, {"name": "v2"}]), id="second without schema"),
    pytest.param(definition(preserveUnknownFields=False, condition="Established"), id="established"),
    pytest.param(
        {**definition(versions=[{}]), "apiVersion": "apiextensions.k8s.io/v1beta1"}, id="is v1beta1 already"
    ),
]
BOTH = (CUSTOM_RESOURCE_DEFINITIONS, CRD_V1BETA1)


def remapper(*served: APIResource, cluster: ScriptedCluster | None = None) -> CRDRemapVersionAction:
    older = thing(CRD_V1BETA1, "w.example.com", spec=SPEC_V1BETA1)
    cluster = cluster or two_a_page().put_all(CRD_V1BETA1, {**older, "kind": "", "apiVersion": ""})
    return CRDRemapVersionAction(client_of(cluster), discovery_of(served))


@pytest.mark.spec("BKP-046")
@pytest.mark.parametrize("item", REMAPPED)
async def test_definition_becomes_v1beta1(item: JSONObject) -> None:
    changed, identifiers = await remapper(*BOTH).execute(item, a_backup())
    assert (changed["apiVersion"], changed["kind"]) == (
        "apiextensions.k8s.io/v1beta1",
        "CustomResourceDefinition",
    )
    assert changed["metadata"].items() >= item["metadata"].items()
    assert changed["spec"] == SPEC_V1BETA1
    assert isinstance(changed["spec"]["validation"]["openAPIV3Schema"]["properties"]["x"]["maximum"], int)
    assert list(identifiers) == []


@pytest.mark.parametrize("item", KEPT)
async def test_definition_is_kept(item: JSONObject) -> None:
    assert await additional(remapper(*BOTH), item) == []


@pytest.mark.parametrize("item", REMAPPED)
async def test_definition_is_kept_where_v1beta1_is_gone(item: JSONObject) -> None:
    assert await additional(remapper(CUSTOM_RESOURCE_DEFINITIONS), item) == []


async def test_definition_that_vanished_fails() -> None:
    with pytest.raises(NotFound):
        await remapper(*BOTH, cluster=two_a_page()).execute(
            definition(preserveUnknownFields=True), a_backup()
        )
