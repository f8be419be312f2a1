"""Moved data with a provisioner that deletes what is released, as all do that are made of its library."""

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tests.support.cluster.csi_cluster import DISKS, FOLDERS, SILENT, CSICluster, CSIDriver
from tests.support.cluster.pods import busybox_pod
from tests.support.servers.sites import FINAL, running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import eventually

OPTIONS = {"features": frozenset({"EnableCSI"}), "operation_poll_seconds": 1.0}
OF_THE_USER = {
    "metadata": {"labels": {"tier": "gold"}},
    "spec": {"persistentVolumeReclaimPolicy": "Retain"},
}


@pytest.mark.found("V15", "E-F1", "V10")
@pytest.mark.parametrize("csi_driver", [FOLDERS, DISKS, SILENT], ids=lambda driver: driver.name)
async def test_restored_volumes_are_there_with_data_policy_and_labels_after_the_restore(
    csi_storage: CSICluster, quiet_stage: Stage, csi_driver: CSIDriver
) -> None:
    """Of a class that makes them at once, and of one that waits for the pod; more than a 1Gi."""
    stage = quiet_stage
    async with running(stage.client, stage.site.namespace, stage.folder, **OPTIONS):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        classes = {"early": csi_driver.name, "late": csi_driver.late_class}
        for name, class_name in classes.items():
            await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(name, class_name), stage.app)
        volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in classes]
        await stage.run_pod(busybox_pod("p", mounts={"early": "/early", "late": "/late"}, volumes=volumes))
        for name in classes:
            await stage.fill("p", FILES.replace("/data", f"/{name}"))
        before = {name: await stage.content("p", name) for name in classes}
        old = {name: await volume_of(stage, name) for name in classes}
        await stage.client.patch(PERSISTENT_VOLUMES, old["late"]["metadata"]["name"], OF_THE_USER)
        with stage.agent():
            await stage.begin_backup(snapshotMoveData=True)
            backup = await ended(stage, "backups", "b")

            assert backup["status"]["phase"] == "Completed", backup["status"]

            await stage.delete_app()
            await eventually(lambda: is_deleted(stage, csi_storage, old["early"]))
            assert handle(old["late"]) in csi_storage.volumes(), "its policy is Retain"
            await stage.begin_restore()
            restore = await ended(stage, "restores", "r")

            assert restore["status"]["phase"] == "Completed", restore["status"]
            assert restore["status"].get("warnings", 0) == 0, restore["status"]
            await stage.pod("p")
            assert {name: await stage.content("p", name) for name in classes} == before
            new = {name: await volume_of(stage, name) for name in classes}
            for name, volume in new.items():
                assert "deletionTimestamp" not in volume["metadata"], volume
                assert volume["status"]["phase"] == "Bound"
                assert handle(volume) in csi_storage.volumes()
                assert not {key for key in volume["metadata"].get("annotations", {}) if "pinnace" in key}
                assert handle(volume) != handle(old[name])
            policies = {name: new[name]["spec"]["persistentVolumeReclaimPolicy"] for name in classes}
            assert policies == {"early": "Delete", "late": "Retain"}
            assert new["late"]["metadata"]["labels"]["tier"] == "gold"
            await stage.delete_pod("p")
        await stage.client.delete(PERSISTENT_VOLUME_CLAIMS, "early", stage.app)
        await eventually(lambda: is_deleted(stage, csi_storage, new["early"]))
        assert handle(new["late"]) in csi_storage.volumes()


async def ended(stage: Stage, plural: str, name: str) -> JSONObject:
    """The object in its final phase."""
    found: JSONObject = {}

    async def is_final() -> bool:
        found.update(await stage.site.get(plural, name))
        return (found.get("status") or {}).get("phase") in FINAL

    await eventually(is_final)
    return found


async def volume_of(stage: Stage, claim: str) -> JSONObject:
    found = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, claim, stage.app)
    return await stage.client.get(PERSISTENT_VOLUMES, found["spec"]["volumeName"])


def handle(volume: JSONObject) -> str:
    found: str = volume["spec"]["csi"]["volumeHandle"]
    return found


async def is_deleted(stage: Stage, storage: CSICluster, volume: JSONObject) -> bool:
    """Whether the library has deleted the volume: its storage, and then the object."""
    try:
        await stage.client.get(PERSISTENT_VOLUMES, volume["metadata"]["name"])
    except NotFound:
        return handle(volume) not in storage.volumes()
    return False


def new_claim(name: str, class_name: str) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "2Gi"}},
            "storageClassName": class_name,
        },
    }
