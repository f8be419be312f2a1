"""Copies of the Secrets and ConfigMaps that a driver reads beside a claim. (docs/spec: AFT-175)"""

from datetime import timedelta
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.node_agent_config import NodeAgentConfig, RestoreClaim
from pinnace.api.objects import JSONObject, text
from pinnace.controllers.data_movement import SETTLE_SECONDS
from pinnace.csi.movement.copies import ClaimCopies
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.objects import TIMEOUT_SECONDS
from pinnace.kube.errors import Conflict
from pinnace.kube.resources import (
    CONFIGMAPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    PERSISTENT_VOLUMES,
    SECRETS,
)
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.volumes.stage import KEY, KMS, OURS, SHOP, Stage

pytestmark = pytest.mark.spec("AFT-175")

OTHER = {"data": {"pass": "b3RoZXI="}, "type": "Opaque"}


@pytest.fixture
def stage(tmp_path: Any) -> Stage:
    stage = Stage(tmp_path)
    stage.add_companions()
    return stage


def secret(stage: Stage, namespace: str) -> JSONObject | None:
    return stage.api.peek(SECRETS, "key", namespace)


@pytest.mark.parametrize("kind", [DATA_UPLOADS, DATA_DOWNLOADS], ids=lambda kind: kind.kind)
@pytest.mark.parametrize("outcome", ["Completed", "Failed", "canceled", "deleted"])
async def test_a_transfer_has_copies_of_content_and_type_until_it_ends(
    stage: Stage, kind: Any, outcome: str, caplog: pytest.LogCaptureFixture
) -> None:
    if kind is DATA_UPLOADS:
        stage.add_upload()
    else:
        stage.add_download()
    await stage.until("Prepared")
    uid = stage.obj["metadata"]["uid"]

    made = [dict(each) for each in stage.copies()]

    owner = {"apiVersion": "velero.io/v2alpha1", "kind": kind.kind, "name": "d", "uid": uid}
    for copy, content in zip(made, (KEY, KMS), strict=True):
        assert {key: copy[key] for key in content} == content
        metadata = copy["metadata"]
        assert metadata["labels"] == {
            "velero.io/backup-pvc-secret": uid,
            labels.EXCLUDE_FROM_BACKUP: labels.EXCLUDE_FROM_BACKUP_VALUE,
        }
        assert "annotations" not in metadata
        assert metadata["ownerReferences"] == [owner]
    if outcome == "canceled":
        await stage.api.patch(kind, "d", {"spec": {"cancel": True}}, OURS)
    elif outcome == "deleted":
        await stage.api.delete(kind, "d", OURS)
    else:
        stage.transfer(outcome)
    for _ in range(20):
        await stage.step()

    assert stage.copies() == []
    source = secret(stage, SHOP)
    assert source is not None
    assert source["data"] == KEY["data"]
    assert KEY["data"]["pass"] not in caplog.text


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (None, "Secret shop/key does not exist, and the settings of the node agents say that the driver"),
        (
            {**OTHER},
            "Secret shop/key, which the driver of the volume needs, cannot be copied: velero/key exists,",
        ),
        ({**KEY, "type": "example.com/other"}, "was not made for a transfer, and has other content"),
    ],
    ids=["no source", "other data", "other type"],
)
async def test_a_transfer_that_cannot_have_its_copies_fails_and_leaves_all_as_it_was(
    stage: Stage, there: JSONObject | None, told: str
) -> None:
    if there is None:
        stage.api.remove(SECRETS, "key", SHOP)
    else:
        stage.api.put({"metadata": {"name": "key", "annotations": {"mine": "1"}}, **there}, SECRETS, OURS)
    before = secret(stage, OURS)
    stage.add_upload()

    await stage.until_over()

    assert stage.phase == "Failed"
    assert told in stage.obj["status"]["message"]
    assert secret(stage, OURS) == before
    assert stage.api.peek(CONFIGMAPS, "kms", OURS) is None, "made before the Secret was looked for"
    assert stage.temporary() == []


async def test_an_object_of_the_administrator_with_the_same_content_is_used_and_kept(stage: Stage) -> None:
    stage.api.put({"metadata": {"name": "key"}, **KEY}, SECRETS, OURS)
    before = secret(stage, OURS)
    stage.add_upload()
    await stage.until("Prepared")
    stage.transfer()

    await stage.until_over()

    assert stage.phase == "Completed"
    assert secret(stage, OURS) == before


async def test_objects_of_the_servers_own_namespace_need_no_copy_and_are_kept(stage: Stage) -> None:
    stage.add_companions(OURS)
    before = stage.copies()
    stage.add_upload()
    obj = stage.obj
    obj["spec"]["sourceNamespace"] = OURS
    stage.api.put(obj, DATA_UPLOADS, OURS)
    await stage.until("Prepared")
    stage.transfer()

    await stage.until_over()

    assert stage.copies() == before


async def test_copies_are_there_as_long_as_the_driver_may_read_them_to_delete_the_volume(
    stage: Stage,
) -> None:
    stage.add_upload()
    await stage.until("Prepared")
    stage.provisioner_acts = lambda: None  # type: ignore[method-assign]
    stage.transfer()
    for _ in range(20):
        await stage.step()
    assert len(stage.copies()) == 2
    assert stage.temporary() == []

    stage.clock.turn(timedelta(seconds=SETTLE_SECONDS + 1))
    await stage.until_over()

    assert stage.copies() == []


async def test_what_waits_for_another_transfer_says_so_and_goes_on_or_fails_in_the_end(stage: Stage) -> None:
    owner = {"apiVersion": "velero.io/v2alpha1", "kind": "DataUpload", "name": "other", "uid": "u-other"}
    metadata = {
        "name": "key",
        "labels": {labels.COPIED_FOR: "u-other"},
        "ownerReferences": [owner],
    }
    stage.api.put({"metadata": metadata, **OTHER}, SECRETS, OURS)
    stage.add_upload()
    await stage.until("Accepted")
    stage.clock.turn(timedelta(minutes=2))
    for _ in range(5):
        await stage.step()
    told = "the Secret velero/key of another transfer is in the way until that ends"
    assert (stage.phase, stage.obj["status"]["message"]) == ("Accepted", told)

    stage.clock.turn(timedelta(seconds=TIMEOUT_SECONDS))
    await stage.until_over()

    assert stage.phase == "Failed"
    assert stage.obj["status"]["message"].endswith(told)
    left = secret(stage, OURS)
    assert left is not None
    assert left["data"] == OTHER["data"]
    assert left["metadata"]["ownerReferences"] == [owner]


@pytest.mark.parametrize("policy", ["Delete", "Retain"])
async def test_a_restored_volume_names_the_secrets_of_its_own_namespace(stage: Stage, policy: str) -> None:
    """The copies that the driver was made to note are gone by the time that its pod starts."""
    stage.policy = policy
    key = {"name": "key", "namespace": OURS}
    fixed = {"name": "of-the-driver", "namespace": OURS}
    prefix = "volume.kubernetes.io/provisioner-deletion-secret-"
    stage.secrets_of_volumes = {"nodeStageSecretRef": key, "controllerExpandSecretRef": fixed}
    stage.notes_of_volumes = {f"{prefix}name": "key", f"{prefix}namespace": OURS}
    stage.add_download()
    await stage.until("Prepared")
    stage.transfer()

    await stage.until_over()

    (volume,) = stage.api.of(PERSISTENT_VOLUMES)
    assert (stage.phase, text(volume, "status", "phase"), stage.storage) == ("Completed", "Bound", "there")
    assert volume["spec"]["csi"]["nodeStageSecretRef"] == {"name": "key", "namespace": SHOP}
    assert volume["spec"]["csi"]["controllerExpandSecretRef"] == fixed
    assert volume["metadata"]["annotations"][f"{prefix}namespace"] == SHOP
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == policy
    assert stage.copies() == []


def transfer(name: str) -> JSONObject:
    return {
        "kind": "DataDownload",
        "metadata": {"name": name, "namespace": OURS, "uid": f"u-{name}"},
        "spec": {"targetVolume": {"namespace": name.partition("-")[0], "pvc": "data"}},
    }


class Pair:
    """Transfers of claims whose driver needs a Secret."""

    config = NodeAgentConfig(restore_claim=RestoreClaim(secret_names=["key", "key"]))

    def __init__(self, **content: JSONObject) -> None:
        self.api = ScriptedCluster()
        self.copies = ClaimCopies(self.api.client, OURS)
        for namespace, secret in content.items():
            self.api.put({"metadata": {"name": "key"}, **secret}, SECRETS, namespace)

    async def asks(self, name: str) -> str:
        return await self.copies.why_waiting(transfer(name), self.config)

    async def ends(self, name: str) -> None:
        assert await self.copies.release(transfer(name), although_read=False)

    @property
    def owners(self) -> list[str]:
        found = self.api.peek(SECRETS, "key", OURS)
        return [] if found is None else [each["uid"] for each in found["metadata"]["ownerReferences"]]


async def test_two_transfers_of_one_namespace_share_a_copy_until_the_last_one_ends() -> None:
    pair = Pair(shop=KEY)

    assert [await pair.asks("shop-1"), await pair.asks("shop-2"), await pair.asks("shop-1")] == [""] * 3
    assert pair.owners == ["u-shop-1", "u-shop-2"]
    await pair.ends("shop-1")
    assert pair.owners == ["u-shop-2"]
    kept = pair.api.peek(SECRETS, "key", OURS)
    assert text(kept, "metadata", "labels", labels.COPIED_FOR) == "u-shop-2"
    await pair.ends("shop-2")
    assert pair.owners == []


async def test_two_namespaces_with_different_secrets_of_one_name_take_turns() -> None:
    pair = Pair(shop=KEY, bank=OTHER)

    assert await pair.asks("shop-1") == ""
    assert "until that ends" in await pair.asks("bank-1")
    await pair.ends("bank-1")
    await pair.ends("shop-1")
    assert await pair.asks("bank-1") == ""
    copy = pair.api.peek(SECRETS, "key", OURS)
    assert copy is not None
    assert copy["data"] == OTHER["data"]


async def test_a_copy_that_another_transfer_has_just_begun_to_use_is_not_deleted() -> None:
    pair = Pair(shop=KEY)
    await pair.asks("shop-1")

    def another_comes(verb: str, *_names: str) -> None:
        if verb == "delete":
            pair.api.before = lambda *_names: None
            copy = pair.api.peek(SECRETS, "key", OURS)
            assert copy is not None
            owners = copy["metadata"]["ownerReferences"]
            copy["metadata"]["ownerReferences"] = [*owners, {**owners[0], "uid": "u-shop-2"}]
            pair.api.put(copy, SECRETS, OURS)

    pair.api.before = another_comes
    with pytest.raises(Conflict):
        await pair.ends("shop-1")
    await pair.ends("shop-1")

    assert pair.owners == ["u-shop-2"]


async def test_a_tenant_without_the_secret_does_not_get_that_of_another() -> None:
    pair = Pair(shop=KEY, velero=OTHER)
    pair.api.remove(SECRETS, "key", OURS)
    assert await pair.asks("shop-1") == ""

    with pytest.raises(MovementError, match="Secret bank/key does not exist"):
        await pair.asks("bank-1")

    assert pair.owners == ["u-shop-1"]


@pytest.mark.parametrize("owners", [[], [{"kind": "Pod", "name": "p", "uid": "u-p"}]])
async def test_a_copy_of_another_program_is_waited_for(owners: list[JSONObject]) -> None:
    """Velero's own have the label, and no owner."""
    pair = Pair(shop=KEY)
    metadata = {"name": "key", "labels": {labels.COPIED_FOR: "u"}, "ownerReferences": owners}
    pair.api.put({"metadata": metadata, **KEY}, SECRETS, OURS)

    assert await pair.asks("shop-1") != ""
    await pair.ends("shop-1")

    assert pair.api.peek(SECRETS, "key", OURS) is not None
