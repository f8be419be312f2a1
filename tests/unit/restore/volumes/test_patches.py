"""Newly provisioned volumes get the reclaim policy and the labels of the old ones. (BEY 5.7)"""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from msgspec.structs import replace

from pinnace.api import labels
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.api.objects import JSONObject
from pinnace.api.phases import RestorePhase
from pinnace.api.velero.restore import Restore
from pinnace.api.volume_info import BackupVolumeInfo, PersistentVolumeInfo
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import ConnectionFailed, Forbidden
from pinnace.operations.finalizing_restores import (
    FIRST_POD_SECONDS,
    VOLUMES_SECONDS,
    OperationsChanged,
    finalize_restore,
)
from pinnace.restore.request import RestoreSettings
from pinnace.restore.volumes.patches import volume_patch
from tests.unit.restore.stage import Stage
from tests.unit.restore.world import Harness, claim, obj, volume

OLD = PersistentVolumeInfo(reclaim_policy="Retain", labels={"tier": "gold"})
CLAIMS, VOLUMES = "persistentvolumeclaims", "persistentvolumes"


def info(method: str = "CSISnapshot", *, of_volume: PersistentVolumeInfo | None = OLD) -> BackupVolumeInfo:
    return BackupVolumeInfo(pvc_namespace="ns-1", pvc_name="data", backup_method=method, pv_info=of_volume)


class Scene:
    """A backup with the CSI snapshot of a claim, and a cluster in which a test binds the restored claim."""

    def __init__(self, directory: Path) -> None:
        self.stage = Stage(directory)
        self.world = self.stage.world
        self.stage.options = RestoreSettings(features={"EnableCSI"})
        self.namespace = "ns-1"
        self.storage_class("Immediate")

    def storage_class(self, binding: str, *, policy: str = "Delete") -> None:
        fields = {"volumeBindingMode": binding, "reclaimPolicy": policy}
        self.world.put(obj("StorageClass", "fast", api_version="storage.k8s.io/v1", **fields))

    async def restore(self, of_backup: BackupVolumeInfo | None = None) -> Restore:
        csi = obj(
            "VolumeSnapshot",
            "s",
            "ns-1",
            api_version="snapshot.storage.k8s.io/v1",
            labels={"velero.io/backup-name": "backup-1"},
            annotations={"velero.io/csi-volumesnapshot-handle": "h"},
            spec={"source": {"persistentVolumeClaimName": "data"}},
        )
        wanted = claim("data", spec={"storageClassName": "fast"})
        await self.stage.put_backup(wanted, csi, volume_infos=[of_backup or info()])
        return await self.stage.restore()

    async def look(self, restore: Restore) -> Restore:
        """One look, as by a server that was just started."""
        client = cast(KubeClient, self.world)
        return await finalize_restore(client, self.stage.store, restore, self.stage.clock.now())

    def add_pod(self) -> None:
        """A pod that uses the claim and is not scheduled."""
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
        self.world.put(obj("Pod", "p", self.namespace, spec={"volumes": volumes}))

    def bind(self, *, owner: str = "", phase: str = "Bound") -> None:
        """Bind the restored claim to a volume that its class has made."""
        found = self.world.item(CLAIMS, self.namespace, "data")
        found["status"] = {"phase": "Bound"}
        found["spec"]["volumeName"] = "pv-new"
        reference = {"namespace": self.namespace, "name": "data", "uid": owner or found["metadata"]["uid"]}
        made = volume("pv-new", policy="Delete", labels={"zone": "a"}, spec={"claimRef": reference})
        self.world.put({**made, "status": {"phase": phase}})

    def volume(self) -> JSONObject:
        return self.world.item(VOLUMES, "", "pv-new")

    async def told(self, kind: str) -> list[str]:
        """The warnings or errors about claims; the snapshot is one, as no action of CSI runs here."""
        found = (await self.stage.results())[kind].get("namespaces", {})
        return [text for text in found.get(self.namespace, []) if "persistentvolumeclaims" in text]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    made = Scene(tmp_path)
    yield made
    await made.stage.store.close()


def waits(restore: Restore) -> bool:
    return restore.status.phase == RestorePhase.FINALIZING


@pytest.mark.spec("BEY-053")
@pytest.mark.found("E-F1")
@pytest.mark.parametrize("binding", ["Immediate", "WaitForFirstConsumer"])
async def test_a_volume_that_comes_late_gets_policy_and_labels_back_in_a_mapped_namespace_too(
    scene: Scene, binding: str
) -> None:
    scene.storage_class(binding)
    scene.stage.spec, scene.namespace = replace(scene.stage.spec, namespace_mapping={"ns-1": "ns-2"}), "ns-2"
    restore = await scene.restore()
    assert waits(restore)
    assert restore.status.completion_timestamp is None
    restore = await scene.look(await scene.look(restore))
    assert waits(restore)
    scene.add_pod()
    scene.stage.clock.turn(timedelta(seconds=FIRST_POD_SECONDS + 1))
    assert waits(await scene.look(restore))
    scene.bind()

    restore = await scene.look(restore)

    assert restore.status.phase == RestorePhase.COMPLETED
    assert restore.status.completion_timestamp == scene.stage.clock.now()
    assert scene.volume()["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    assert scene.volume()["metadata"]["labels"] == {"zone": "a", "tier": "gold"}
    assert await scene.told("errors") == await scene.told("warnings") == []


@pytest.mark.spec("BEY-053")
@pytest.mark.parametrize(
    ("of_backup", "binding", "policy"),
    [
        (info(of_volume=None), "Immediate", "Delete"),
        (info("NativeSnapshot"), "Immediate", "Delete"),
        (info(of_volume=PersistentVolumeInfo(reclaim_policy="Retain")), "Immediate", "Retain"),
        (info(of_volume=PersistentVolumeInfo(reclaim_policy="Delete")), "WaitForFirstConsumer", ""),
    ],
    ids=["nothing known", "not provisioned again", "the class gives the policy", "the default does"],
)
async def test_a_volume_that_needs_no_patch_is_not_waited_for(
    scene: Scene, of_backup: BackupVolumeInfo, binding: str, policy: str
) -> None:
    scene.storage_class(binding, policy=policy)

    restore = await scene.restore(of_backup)

    assert restore.status.phase == RestorePhase.COMPLETED
    assert scene.world.patch_bodies == []


@pytest.mark.spec("BEY-053")
@pytest.mark.found("E-F1")
@pytest.mark.parametrize("problem", ["unbound", "of another claim", "released"])
async def test_a_volume_that_is_not_bound_in_time_is_an_error(scene: Scene, problem: str) -> None:
    restore = await scene.look(await scene.restore())
    if problem != "unbound":
        owner, phase = ("another", "Bound") if problem == "of another claim" else ("", "Released")
        scene.bind(owner=owner, phase=phase)
    assert waits(await scene.look(restore))
    scene.stage.clock.turn(timedelta(seconds=VOLUMES_SECONDS + 1))

    restore = await scene.look(restore)

    assert (restore.status.phase, restore.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    assert await scene.told("errors") == [
        "the volume of persistentvolumeclaims/ns-1/data did not get back the reclaim policy Retain and the"
        " labels tier=gold of the old one: its claim was not bound within 600 seconds"
    ]
    assert scene.world.patch_bodies == []


@pytest.mark.spec("BEY-053")
@pytest.mark.found("E-F1")
async def test_a_claim_that_no_pod_uses_is_a_warning_which_names_what_its_volume_lacks(scene: Scene) -> None:
    scene.storage_class("WaitForFirstConsumer")
    restore = await scene.look(await scene.restore())
    before = restore.status.warnings
    assert waits(await scene.look(restore))
    scene.stage.clock.turn(timedelta(seconds=FIRST_POD_SECONDS + 1))

    restore = await scene.look(restore)

    assert (restore.status.phase, restore.status.warnings) == (RestorePhase.COMPLETED, before + 1)
    [told] = await scene.told("warnings")
    assert "persistentvolumeclaims/ns-1/data waits for its first pod" in told
    assert "give the volume the reclaim policy Retain and the labels tier=gold" in told


@pytest.mark.found("V30")
async def test_a_claim_whose_data_was_not_moved_is_not_waited_for(scene: Scene) -> None:
    """Its operation has said why; nothing will bind it any more."""
    restore = await scene.look(await scene.restore())
    found = scene.world.item(CLAIMS, "ns-1", "data")
    found["spec"]["selector"] = {"matchLabels": {labels.DYNAMIC_PV_RESTORE: "x"}}

    restore = await scene.look(restore)

    assert restore.status.phase == RestorePhase.COMPLETED


async def test_a_claim_that_was_made_again_by_somebody_else_is_left_alone(scene: Scene) -> None:
    restore = await scene.look(await scene.restore())
    scene.world.item(CLAIMS, "ns-1", "data")["metadata"]["uid"] = "another"
    scene.bind()

    restore = await scene.look(restore)

    assert restore.status.phase == RestorePhase.COMPLETED
    assert scene.world.patch_bodies == []


async def test_a_refused_patch_is_an_error_and_an_unreachable_server_none(scene: Scene) -> None:
    restore = await scene.look(await scene.restore())
    scene.bind()
    place = (VOLUMES, "", "pv-new")
    scene.world.refuse("patch", place, ConnectionFailed("no answer"))
    assert waits(await scene.look(restore))
    scene.world.refuse("patch", place, Forbidden(403, message="you may not"))

    restore = await scene.look(restore)

    assert (restore.status.phase, restore.status.errors) == (RestorePhase.PARTIALLY_FAILED, 1)
    [told] = await scene.told("errors")
    assert told.endswith("you may not")


async def test_a_list_of_patches_that_somebody_changed_is_not_followed(scene: Scene) -> None:
    restore = await scene.look(await scene.restore())
    [stored] = await scene.stage.store.read_restore_volume_patches("restore-1")
    stored["volume"]["reclaimPolicy"] = "Delete"
    await scene.stage.store.put_restore_volume_patches("restore-1", [stored])

    with pytest.raises(OperationsChanged):
        await scene.look(restore)


LIMITS = TenantLimits(creatable=frozenset({("", "persistentvolumeclaims")}))


async def test_records_of_an_untrusted_location_change_no_volume(harness: Harness) -> None:
    harness.world.put(obj("StorageClass", "fast", api_version="storage.k8s.io/v1"))
    harness.world.put(obj("Namespace", "ns-1"))
    fields: dict[str, Any] = {"volume_infos": [info()], "limits": LIMITS}
    harness.request_fields = fields

    await harness.restore(claim("data", spec={"storageClassName": "fast"}), restore_pvs=False)

    assert harness.world.patch_bodies == []
    assert harness.outcomes.unpatched == []


def test_only_what_differs_is_patched() -> None:
    assert volume_patch(volume("v", policy="Retain", labels={"tier": "gold"}), OLD) == {}
    assert volume_patch(volume("v", policy="Delete", labels={"tier": "tin"}), OLD) == {
        "spec": {"persistentVolumeReclaimPolicy": "Retain"},
        "metadata": {"labels": {"tier": "gold"}},
    }
