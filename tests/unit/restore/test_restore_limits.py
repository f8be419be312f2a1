"""The kinds that a restore for a tenant may create. (docs/spec: NAC 17 A36)"""

import re
from pathlib import Path
from typing import Any

import orjson
import pytest

from pinnace.api.nonadmin.restore_limits import ENFORCED_BY, Limit, TenantLimits, is_old_storage
from pinnace.restore.collaborators import RestoreCollaborators
from tests.support.volumes.snapshotters import Snapshotter, snapshot
from tests.unit.restore.world import Harness, claim, configmap, discovery, obj, volume

ROOT = Path(__file__).parents[3]

RULES: list[Any] = [
    {"apiGroups": ["", "apps"], "resources": ["configmaps", "deployments"], "verbs": ["create", "get"]},
    {"apiGroups": [""], "resources": ["persistentvolumeclaims", "namespaces"], "verbs": ["*"]},
    {"apiGroups": [""], "resources": ["resourcequotas"], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"], "verbs": ["create"]},
    {"apiGroups": ["all.io"], "resources": ["*"], "verbs": ["create"]},
    {"apiGroups": ["sea.io"], "resources": ["ships/status"], "verbs": ["create"]},
    {"apiGroups": "broken", "resources": [None], "verbs": ["*"]},
    None,
]
RIGHTS = TenantLimits.of_role({"rules": RULES})


@pytest.mark.parametrize(
    ("kind", "granted"),
    [
        ("configmaps", True),
        ("deployments.apps", True),
        ("persistentvolumeclaims", True),
        ("anything.all.io", True),
        ("resourcequotas", False),
        ("secrets", False),
        ("ships.sea.io", False),
        ("configmaps.other.io", False),
        ("rolebindings.rbac.authorization.k8s.io", False),
        ("rolebindings.all.io", False),
        ("clusterroles.all.io", False),
    ],
)
def test_a_kind_is_granted_by_the_role_or_left_out(kind: str, granted: bool) -> None:
    assert (RIGHTS.refusal(kind, is_namespaced=True) is None) is granted


def test_nothing_outside_a_namespace_is_granted() -> None:
    assert "outside its own namespace" in str(RIGHTS.refusal("namespaces", is_namespaced=False))


def test_rights_to_everything_grant_no_roles() -> None:
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    rights = TenantLimits.of_role({"rules": rules})

    assert rights.refusal("ships.sea.io", is_namespaced=True) is None
    refused = rights.refusal("rolebindings.rbac.authorization.k8s.io", is_namespaced=True)
    assert "it grants rights" in str(refused)


@pytest.mark.parametrize("role", [{}, {"rules": None}, {"rules": "x"}, {"rules": [[], 1]}], ids=str)
def test_a_role_of_an_odd_shape_grants_nothing(role: Any) -> None:
    assert TenantLimits.of_role(role).refusal("configmaps", is_namespaced=True) is not None


def test_the_administrator_may_allow_more() -> None:
    name = "rolebindings.rbac.authorization.k8s.io"
    rights = TenantLimits.of_role({"rules": RULES}, [name])

    assert rights.refusal(name, is_namespaced=True) is None
    assert rights.refusal("roles.rbac.authorization.k8s.io", is_namespaced=True) is not None


def binding(name: str) -> Any:
    return obj("RoleBinding", name, "ns-1", api_version="rbac.authorization.k8s.io/v1")


async def test_what_a_tenant_may_not_write_is_left_out_with_a_warning_that_names_it(harness: Harness) -> None:
    harness.discovery = discovery(("sea.io", "v1", "ships", "Ship", True))
    harness.request_fields = {"limits": RIGHTS}
    ship = orjson.dumps(obj("Ship", "s", "ns-1", api_version="sea.io/v1"))
    harness.world.put(obj("Namespace", "ns-1"))

    results = await harness.restore(
        configmap("cm"),
        binding("one"),
        binding("two"),
        files={"resources/ships.sea.io/namespaces/ns-1/s.json": ship},
    )

    assert [key[0] for key in harness.world.created] == ["configmaps"]
    role_bindings, ships = results.warnings.namespaces["ns-1"]
    assert role_bindings.startswith("2 rolebindings.rbac.authorization.k8s.io not restored (one, two): ")
    assert ships.startswith("1 ships.sea.io not restored (s): a tenant's restore leaves it out, for the role")
    assert results.errors.count == 0


async def test_what_self_service_excluded_by_name_is_named_too(harness: Harness) -> None:
    """The exclusion is for other servers; here it would leave the objects out in silence."""
    harness.request_fields = {"limits": RIGHTS}
    harness.world.put(obj("Namespace", "ns-1"))

    results = await harness.restore(
        configmap("cm"), binding("one"), excluded_resources=["roles", "rolebindings", "secrets"]
    )

    (warning,) = results.warnings.namespaces["ns-1"]
    assert warning.startswith("1 rolebindings.rbac.authorization.k8s.io not restored (one): ")
    assert [key[0] for key in harness.world.created] == ["configmaps"]


async def test_kinds_that_the_tenant_did_not_ask_for_are_not_mentioned(harness: Harness) -> None:
    harness.request_fields = {"limits": RIGHTS}
    harness.world.put(obj("Namespace", "ns-1"))

    results = await harness.restore(
        configmap("cm"),
        binding("one"),
        included_resources=["configmaps"],
        excluded_resources=["rolebindings"],
    )

    assert results.empty


async def test_a_tenants_restore_makes_no_namespace(harness: Harness) -> None:
    harness.request_fields = {"limits": RIGHTS}

    results = await harness.restore(configmap("cm"))

    assert harness.world.created == []
    assert "namespace ns-1 does not exist" in results.errors.velero[0]


BOUND: dict[str, Any] = {"spec": {"volumeName": "pv-1"}, "status": {"phase": "Bound"}}


async def test_a_tenant_gets_no_old_volume_but_a_new_one(harness: Harness) -> None:
    """Its storage may be another tenant's by now."""
    harness.request_fields = {"limits": RIGHTS}
    harness.world.put(obj("Namespace", "ns-1"))
    old = volume("pv-1", spec={"hostPath": {"path": "/of-another"}, "claimRef": {"namespace": "ns-1"}})

    results = await harness.restore(claim("data", **BOUND), old, included_namespaces=["ns-1"])

    assert harness.world.created_of("persistentvolumes") == []
    assert "volumeName" not in harness.world.item("persistentvolumeclaims", "ns-1", "data")["spec"]
    (warning,) = results.warnings.cluster
    assert warning.startswith("persistentvolumes/pv-1 was not restored, and its claim gets a new and empty")


async def test_an_administrator_may_let_tenants_have_their_old_volumes(harness: Harness) -> None:
    rights = TenantLimits.of_role({"rules": RULES}, ["persistentvolumes"])
    harness.request_fields = {"limits": rights}
    harness.world.put(obj("Namespace", "ns-1"))

    results = await harness.restore(claim("data", **BOUND), volume("pv-1"), included_namespaces=["ns-1"])

    assert results.empty
    assert harness.world.created_of("persistentvolumes") == ["pv-1"]


@pytest.mark.parametrize("restore_pvs", [None, False])
async def test_a_tenant_gets_a_volume_from_a_snapshot_only(
    harness: Harness, restore_pvs: bool | None
) -> None:
    harness.request_fields = {"limits": RIGHTS, "snapshots": [snapshot("pv-1")]}
    harness.collaborators = RestoreCollaborators(volume_restorer=Snapshotter())
    harness.world.put(obj("Namespace", "ns-1"))

    await harness.restore(
        claim("data", **BOUND), volume("pv-1"), included_namespaces=["ns-1"], restore_pvs=restore_pvs
    )

    assert harness.world.created_of("persistentvolumes") == ([] if restore_pvs is False else ["pv-1"])


def test_a_claim_reference_does_not_count_when_storage_is_compared() -> None:
    old = volume("v", spec={"csi": {"volumeHandle": "h"}, "claimRef": {"uid": "u"}})

    assert is_old_storage(volume("v", spec={"csi": {"volumeHandle": "h"}}), old)
    assert not is_old_storage(volume("v", spec={"csi": {"volumeHandle": "new"}}), old)


def test_the_page_for_administrators_shows_the_limits() -> None:
    page = (ROOT / "docs/reference/self-service.md").read_text()
    table = page.split("## The limits of a tenant's restore\n")[1].split("\n## ")[0]
    rows = [tuple(row.strip("| ").split(" | ")) for row in table.splitlines() if row.startswith("| ")]
    assert rows[2:] == [(limit.name.lower(), limit.value) for limit in Limit]


@pytest.mark.parametrize("limit", Limit)
def test_whoever_enforces_a_limit_reads_it_from_the_one_page(limit: Limit) -> None:
    assert ENFORCED_BY[limit]
    for module, name in ENFORCED_BY[limit].items():
        source = (ROOT / "src" / module.replace(".", "/")).with_suffix(".py").read_text()
        assert "from pinnace.api.nonadmin.restore_limits import" in source
        assert len(re.findall(rf"\b{re.escape(name)}\b", source)) > ("." not in name), (
            "it is imported and read"
        )
