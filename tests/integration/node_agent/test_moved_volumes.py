"""Moved data with a provisioner that deletes what is released, as all do that are made of its library."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from hack.cluster import binaries
from pinnace.api import labels
from pinnace.api.objects import JSONObject, text
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.interface import Source
from tests.support.cluster.csi_cluster import DISKS, FOLDERS, SILENT, CSICluster, CSIDriver
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.sites import FINAL, running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import eventually

IMAGE_BYTES: Final = (5 << 20) + (1 << 19)
PADDING_BYTES: Final = 1 << 19
"""Images are as large as their device, rounded up to 1 MiB."""

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


@pytest.mark.spec("AFT-147")
@pytest.mark.parametrize("csi_driver", [DISKS], ids=lambda driver: driver.name)
async def test_an_image_of_the_block_mover_is_given_to_its_claim_as_a_file_system(
    csi_storage: CSICluster, quiet_stage: Stage, csi_driver: CSIDriver
) -> None:
    """The driver shows the file behind the device in the file system, so that the pod can compare it."""
    stage = quiet_stage
    image = os.urandom(IMAGE_BYTES) + bytes(PADDING_BYTES)
    async with running(stage.client, stage.site.namespace, stage.folder, **OPTIONS):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        snapshot = await save_image(stage, image)
        waiting = new_claim("data", csi_driver.name)
        waiting["spec"]["selector"] = {"matchLabels": {labels.DYNAMIC_PV_RESTORE: "data.1"}}
        await stage.client.create(PERSISTENT_VOLUME_CLAIMS, waiting, stage.app)
        with stage.agent():
            spec = {
                "targetVolume": {"namespace": stage.app, "pvc": "data", "pv": "", "fsType": "ext4"},
                "backupStorageLocation": "default",
                "datamover": "velero-block",
                "snapshotID": snapshot,
                "sourceNamespace": stage.app,
                "operationTimeout": "10m0s",
            }
            await stage.site.create("datadownloads", "image", spec=spec)
            download = await settled(stage, "image")

            assert download["status"]["phase"] == "Completed", download["status"]
            volume = await volume_of(stage, "data")
            assert volume["status"]["phase"] == "Bound"
            assert volume["spec"]["volumeMode"] == "Filesystem"
            assert volume["spec"]["csi"]["fsType"] == "ext4"
            assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            assert handle(volume) in csi_storage.volumes()
            objects = await stage.client.list_all(PERSISTENT_VOLUMES)
            assert [each["metadata"]["name"] for each in objects if handle_of(each) == handle(volume)] == [
                volume["metadata"]["name"]
            ]
            volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
            await stage.run_pod(busybox_pod("p", mounts={"data": "/data"}, volumes=volumes))
            script = f"head -c {IMAGE_BYTES} /data/disk | sha256sum"
            found = await exec_in_pod(stage.client, stage.app, "p", "sh", "-c", script)
            assert found.split()[0] == sha256(image[:IMAGE_BYTES]).hexdigest()
            await stage.delete_pod("p")
        await stage.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", stage.app)
        await eventually(lambda: is_deleted(stage, csi_storage, volume))


async def save_image(stage: Stage, image: bytes) -> str:
    """Save an image as Velero's block mover does, by its path and its tag; return the snapshot."""
    place = Repository(location="default", namespace=stage.app, uploader="kopia")
    accesses = AccessProvider(stage.client, stage.site.namespace, stage.folder)
    kopia = Kopia(accesses, program=str(binaries.locate(binaries.UPLOADER)["kopia"]))
    await kopia.init(place)
    file = stage.folder / "image"
    file.write_bytes(image)
    name = f"snapshot-data-upload-download/velero-block/{stage.app}/data"
    with loop_device(file) as device:
        source = Source(path=device, name=name, tags={"bdev-source-size": str(IMAGE_BYTES)})
        return (await kopia.save(place, source)).snapshot


@contextmanager
def loop_device(file: Path) -> Iterator[Path]:
    command = ["losetup", "--find", "--show", str(file)]
    made = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield Path(made)
    finally:
        subprocess.run(["losetup", "--detach", made], check=True)


async def settled(stage: Stage, name: str) -> JSONObject:
    """A DataDownload once everything that was made for it is gone."""
    found: JSONObject = {}

    async def is_over() -> bool:
        found.update(await stage.site.get("datadownloads", name))
        return bool(text(found, "status", "completionTimestamp")) and not found["metadata"].get("finalizers")

    await eventually(is_over)
    return found


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


def handle_of(volume: JSONObject) -> str:
    """The handle of any volume; empty without one."""
    return text(volume, "spec", "csi", "volumeHandle")


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
