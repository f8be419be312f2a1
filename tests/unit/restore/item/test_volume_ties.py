"""PersistentVolumes that exist: bound to a live claim, lost by theirs, or free. (docs/spec: RST 17)"""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS
from tests.unit.restore.world import Harness, claim, obj, outcome_of, volume

VOLUMES, CLAIMS = "persistentvolumes", PERSISTENT_VOLUME_CLAIMS.name
COMMAND = (
    "kubectl patch persistentvolume pv --type=merge -p"
    ' \'{"spec":{"claimRef":{"namespace":"ns-1","name":"data","uid":null,"resourceVersion":null}}}\''
)


def bound(*, uid: str = "", namespace: str = "ns-1", **fields: Any) -> JSONObject:
    """A volume as in the backup, or with the uid of its claim as in the cluster."""
    owner = {"namespace": namespace, "name": "data", **({"uid": uid, "resourceVersion": "7"} if uid else {})}
    return volume("pv", spec={"claimRef": owner, "nfs": {"path": "/a"}}, **fields)


def put_volume(harness: Harness, uid: str = "old", phase: str = "Released") -> None:
    harness.world.put({**bound(uid=uid), "status": {"phase": phase}})


def put_claim(harness: Harness, uid: str = "old") -> None:
    made = claim("data", spec={"volumeName": "pv"})
    made["metadata"]["uid"] = uid
    harness.world.put(obj("Namespace", "ns-1"))
    harness.world.put(made)


def owner(harness: Harness) -> JSONObject:
    found: JSONObject = harness.world.item(VOLUMES, "", "pv")["spec"]["claimRef"]
    return found


@pytest.mark.found("O22b")
@pytest.mark.parametrize("phase", ["Released", "Failed", "Bound"])
@pytest.mark.parametrize("remade", [False, True], ids=["claim gone", "claim made again"])
async def test_a_volume_whose_claim_is_gone_is_a_warning_with_the_command_that_frees_it(
    harness: Harness, phase: str, remade: bool
) -> None:
    put_volume(harness, phase=phase)
    if remade:
        put_claim(harness, uid="new")

    results = await harness.restore(bound(uid="old"))

    [text] = results.warnings.cluster
    assert "its claim ns-1/data is gone" in text
    assert text.endswith(COMMAND)
    assert outcome_of(harness.outcomes, "v1/PersistentVolume", "pv") == "different"
    assert owner(harness)["uid"] == "old"
    assert harness.world.patch_bodies == []


@pytest.mark.found("O22b")
@pytest.mark.parametrize("policy", ["update", "recreate"])
@pytest.mark.parametrize("mapping", [{}, {"ns-1": "ns-2"}], ids=["", "mapped"])
async def test_update_gives_a_volume_whose_claim_is_gone_to_the_restored_one(
    harness: Harness, policy: str, mapping: dict[str, str]
) -> None:
    put_volume(harness)

    results = await harness.restore(
        bound(uid="old"), existing_resource_policy=policy, namespace_mapping=mapping
    )

    assert results.errors.count == 0
    assert results.warnings.cluster == []
    assert owner(harness) == {"namespace": "ns-2" if mapping else "ns-1", "name": "data"}
    assert outcome_of(harness.outcomes, "v1/PersistentVolume", "pv") == "updated"


@pytest.mark.found("O22b")
async def test_update_frees_a_volume_that_had_no_claim_in_the_backup(harness: Harness) -> None:
    put_volume(harness)
    never_bound = volume("pv", spec={"nfs": {"path": "/a"}})

    results = await harness.restore(never_bound, existing_resource_policy="update")

    assert results.empty
    assert "claimRef" not in harness.world.item(VOLUMES, "", "pv")["spec"]


@pytest.mark.found("O22b")
@pytest.mark.parametrize("policy", ["none", "update", "recreate"])
async def test_the_volume_of_a_live_claim_is_unchanged(harness: Harness, policy: str) -> None:
    put_volume(harness, phase="Bound")
    put_claim(harness)

    results = await harness.restore(bound(uid="old"), existing_resource_policy=policy)

    assert results.empty
    assert owner(harness)["uid"] == "old"
    assert outcome_of(harness.outcomes, "v1/PersistentVolume", "pv") == "unchanged"


@pytest.mark.found("O22b", "S1")
@pytest.mark.parametrize("policy", ["none", "update", "recreate"])
async def test_a_live_claim_never_loses_its_volume_to_a_restored_one(harness: Harness, policy: str) -> None:
    """Under a mapping the restore asks for it in favour of the claim in the other namespace."""
    put_volume(harness, phase="Bound")
    put_claim(harness)

    results = await harness.restore(
        bound(uid="old"), existing_resource_policy=policy, namespace_mapping={"ns-1": "ns-2"}
    )

    [text] = results.warnings.cluster
    assert "bound to the claim ns-1/data" in text
    assert "create it without volumeName" in text
    assert (owner(harness)["namespace"], owner(harness)["uid"]) == ("ns-1", "old")
    assert outcome_of(harness.outcomes, "v1/PersistentVolume", "pv") == "different"


@pytest.mark.found("O22b")
async def test_a_claim_that_cannot_be_read_counts_as_live(harness: Harness) -> None:
    put_volume(harness)
    harness.world.refuse("get", (CLAIMS, "ns-1", "data"), Forbidden(403, message="you may not"))

    await harness.restore(bound(uid="old"), existing_resource_policy="update")

    assert owner(harness)["uid"] == "old"


@pytest.mark.parametrize("policy", ["none", "update"])
async def test_a_volume_that_waits_for_its_claim_is_unchanged(harness: Harness, policy: str) -> None:
    put_volume(harness, uid="", phase="Available")

    results = await harness.restore(bound(uid="old"), existing_resource_policy=policy)

    assert results.empty
    assert outcome_of(harness.outcomes, "v1/PersistentVolume", "pv") == "unchanged"


@pytest.mark.found("U2")
async def test_a_restored_volume_keeps_the_name_of_its_provisioner(harness: Harness) -> None:
    """It says who may delete the storage of the volume."""
    notes = {
        "pv.kubernetes.io/provisioned-by": "disk.csi.example.com",
        "pv.kubernetes.io/bound-by-controller": "yes",
    }

    await harness.restore(bound(uid="old", annotations=notes))

    created = harness.world.item(VOLUMES, "", "pv")
    assert created["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": "disk.csi.example.com"}
