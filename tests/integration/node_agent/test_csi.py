"""Volumes of a CSI driver are saved file by file: the kubelet mounts them one level deeper than others."""

import gzip
import json
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.kube.resources import (
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from pinnace.volumes.pods.host_paths import CSI_NOTES
from tests.support.cluster.csi_cluster import CLASS, CSICluster
from tests.support.cluster.pods import busybox_pod, exec_in_pod
from tests.support.servers.sites import FINAL, running
from tests.support.volumes.node_stages import FILES, Stage
from tests.support.waiting import eventually

DEVICE = "/dev/disk"
"""A volume in Block mode in the application's pod."""


@pytest.mark.spec("PVL-012")
@pytest.mark.usefixtures("csi_storage")
async def test_a_csi_volume_is_saved_and_restored_file_by_file(stage: Stage) -> None:
    """Into a volume that the driver makes."""
    await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(), stage.app)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "claim"}}]
    await stage.run_pod(busybox_pod("p", mounts={"data": "/data"}, volumes=volumes), "data")
    await stage.fill("p", FILES)
    before = await stage.content("p", "data")
    old = await volume_of(stage)
    with stage.agent():
        backup = await stage.back_up()
        [pod_volume] = (await stage.pod_volumes("podvolumebackups")).values()

        assert backup["status"]["phase"] == "Completed"
        assert pod_volume["status"]["path"].endswith(
            f"/volumes/kubernetes.io~csi/{old['metadata']['name']}/mount"
        )
        assert pod_volume["metadata"]["annotations"][labels.PVC_NAME] == "claim"

        await stage.delete_app()
        restore = await stage.restore()

        assert restore["status"]["phase"] == "Completed"
        await stage.pod("p")
        assert await stage.content("p", "data") == before
        new = await volume_of(stage)
        assert new["spec"]["csi"]["volumeHandle"] != old["spec"]["csi"]["volumeHandle"]
        # The kubelet's notes beside the mount are no content.
        assert CSI_NOTES not in await stage.listing("p", "/data")


async def volume_of(stage: Stage) -> JSONObject:
    """The persistent volume behind the claim."""
    claim = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, "claim", stage.app)
    return await stage.client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])


@pytest.mark.spec("KOP-010")
async def test_moved_data_comes_back_after_namespace_and_snapshot_are_gone(
    csi_storage: CSICluster, quiet_stage: Stage
) -> None:
    """The snapshot is deleted when its data is in the location; nothing made on the way is left.

    Server and agent are killed during the first transfer, and the agent during that of the restore: their
    successors finish the work. Then the same data is written over that of the claims, but not below their
    pod; and once more after that was canceled.
    """
    stage, options = quiet_stage, {"features": frozenset({"EnableCSI"}), "operation_poll_seconds": 1.0}
    in_place: dict[str, Any] = {
        "existingVolumeDataPolicy": "incremental",
        "uploaderConfig": {"deleteExtraFiles": True},
    }
    async with running(stage.client, stage.site.namespace, stage.folder, **options):
        await stage.site.reached("backupstoragelocations", "default", "Available")
        await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim(), stage.app)
        await stage.client.create(PERSISTENT_VOLUME_CLAIMS, new_claim("disk", mode="Block"), stage.app)
        volumes = [
            {"name": "data", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "disk", "persistentVolumeClaim": {"claimName": "disk"}},
        ]
        pod = busybox_pod("p", mounts={"data": "/data"}, volumes=volumes)
        pod["spec"]["containers"][0]["volumeDevices"] = [{"name": "disk", "devicePath": DEVICE}]
        await stage.run_pod(pod)
        await in_pod(stage, f"dd if=/dev/urandom of={DEVICE} bs=4096 count=100 conv=notrunc && sync")
        bits = await in_pod(stage, f"sha256sum {DEVICE}")
        # The tests' driver keeps only in its snapshots which files are executable.
        plain = FILES.replace("chmod 600 one; chmod 4755", "chmod 755").replace(
            "chown 1234:5678 deep/er", ":"
        )
        await stage.fill("p", plain)
        before = await stage.content("p", "data")
        old = await volume_of(stage)
        stage.hold("create")
        with stage.agent() as agent:
            await stage.begin_backup(snapshotMoveData=True)
            await stage.held()
            agent.stop(grace_seconds=0)
        stage.release()
    async with running(stage.client, stage.site.namespace, stage.folder, **options):
        with stage.agent():
            backup = await ended(stage, "backups", "b")
            uploads = await uploads_of(stage, "b")

            assert {each["status"]["phase"] for each in uploads} == {"Completed"}, uploads
            assert attempts(uploads) == ["1", "2"], "the one that waited, and the one that had begun"
            assert backup["status"]["phase"] == "Completed", backup["status"]
            assert backup["status"]["backupItemOperationsCompleted"] == len(uploads) == 2
            assert not backup["status"].get("csiVolumeSnapshotsAttempted"), "as with Velero 1.18"
            assert csi_storage.snapshots() == []
            assert await left_over(stage, csi_storage) == []
            moved = [info["snapshotDataMovementInfo"] for info in volume_infos(stage)]
            assert {each["snapshotHandle"] for each in moved} == {
                each["status"]["snapshotID"] for each in uploads
            }
            assert all(each["size"] > 0 and each["Phase"] == "Completed" for each in moved)
        await stage.delete_app()
        # kopia restores a folder, and shows the file of a volume in Block mode.
        stage.hold("restore", "show")
        with stage.agent() as agent:
            await stage.begin_restore()
            await stage.held()
            agent.stop(grace_seconds=0)
        stage.release()
        with stage.agent():
            restore = await ended(stage, "restores", "r")

            assert restore["status"]["phase"] == "Completed", restore["status"]
            assert restore["status"].get("warnings", 0) == 0, restore["status"]
            downloads = await stage.client.list_all(DATA_DOWNLOADS, stage.site.namespace)
            assert attempts(downloads) == ["1", "2"]
            saved = {each["status"]["snapshotID"] for each in uploads}
            assert {each["spec"]["snapshotID"] for each in downloads} == saved
            await stage.pod("p")
            assert await stage.content("p", "data") == before
            assert await in_pod(stage, f"sha256sum {DEVICE}") == bits
            new = await volume_of(stage)
            assert new["metadata"]["name"] != old["metadata"]["name"]
            assert new["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            assert await left_over(stage, csi_storage) == []

            claim = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, "claim", stage.app)
            zeros = f"dd if=/dev/zero of={DEVICE} bs=4096 count=50 conv=notrunc && sync"
            files = "cd /data && echo other > one && echo extra > extra && ln -s /etc more"
            await in_pod(stage, f"{files} && {zeros}")
            changed = await stage.content("p", "data")
            await stage.begin_restore("refused", **in_place)
            refused = await ended(stage, "restores", "refused")

            assert refused["status"]["phase"] == "PartiallyFailed", refused["status"]
            assert refused["status"]["errors"] == 2, "of both claims that the pod uses"
            assert await stage.content("p", "data") == changed

            await stage.delete_pod("p")
            stage.hold("restore", "show")
            await stage.begin_restore("canceled", **in_place)
            await stage.held()
            taken = await volume_of(stage)
            assert taken["spec"]["claimRef"]["namespace"] == stage.site.namespace, "no pod can mount it"
            left = await canceled(stage)
            stage.release()
            stopped = await ended(stage, "restores", "canceled")

            assert stopped["status"]["phase"] == "PartiallyFailed", stopped["status"]
            begun = [each for each in await downloads_of(stage, left) if each["status"].get("startTimestamp")]
            assert begun
            for each in begun:
                volume = await stage.client.get(PERSISTENT_VOLUMES, each["spec"]["targetVolume"]["pv"])
                withheld = volume["status"]["phase"], volume["spec"]["persistentVolumeReclaimPolicy"]
                assert withheld == ("Released", "Retain"), "no pod starts on a part of the data"
            waiting = await stage.client.get(PODS, "p", stage.app)
            assert waiting["status"]["phase"] == "Pending"
            await stage.delete_pod("p")
            await stage.begin_restore("again", **in_place)
            again = await ended(stage, "restores", "again")

            assert again["status"]["phase"] == "Completed", again["status"]
            await stage.pod("p")
            assert await stage.content("p", "data") == before
            assert await in_pod(stage, f"sha256sum {DEVICE}") == bits
            same = await volume_of(stage)
            assert same["metadata"]["name"] == new["metadata"]["name"]
            assert same["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
            kept = await stage.client.get(PERSISTENT_VOLUME_CLAIMS, "claim", stage.app)
            assert kept["metadata"]["uid"] == claim["metadata"]["uid"]
            assert await left_over(stage, csi_storage) == []
            await stage.delete_pod("p")  # the kubelet gives its device back while the driver runs


async def uploads_of(stage: Stage, backup: str) -> list[JSONObject]:
    """The DataUploads of a backup."""
    selector = f"{labels.BACKUP_NAME}={backup}"
    return await stage.client.list_all(DATA_UPLOADS, stage.site.namespace, label_selector=selector)


async def canceled(stage: Stage) -> list[str]:
    """Cancel all DataDownloads that have not ended; return their names."""
    found = await stage.client.list_all(DATA_DOWNLOADS, stage.site.namespace)
    names = [each["metadata"]["name"] for each in found if not each["status"].get("completionTimestamp")]
    for name in names:
        await stage.client.patch(DATA_DOWNLOADS, name, {"spec": {"cancel": True}}, stage.site.namespace)
    return names


async def downloads_of(stage: Stage, names: list[str]) -> list[JSONObject]:
    return [await stage.client.get(DATA_DOWNLOADS, name, stage.site.namespace) for name in names]


def volume_infos(stage: Stage) -> list[JSONObject]:
    """The records of the volumes of the backup."""
    [path] = stage.folder.glob("bucket-*/backups/b/b-volumeinfo.json.gz")
    found: list[JSONObject] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def attempts(movements: list[JSONObject]) -> list[str]:
    """How often agents have begun each."""
    return sorted(each["metadata"]["annotations"][ATTEMPTS_ANNOTATION] for each in movements)


async def ended(stage: Stage, plural: str, name: str) -> JSONObject:
    """The object in its final phase. Operations take several steps of several programs."""
    found: JSONObject = {}

    async def is_final() -> bool:
        found.update(await stage.site.get(plural, name))
        return (found.get("status") or {}).get("phase") in FINAL

    await eventually(is_final)
    return found


async def left_over(stage: Stage, storage: CSICluster) -> list[str]:
    """The names of temporary objects."""
    found = []
    for kind in (PERSISTENT_VOLUME_CLAIMS, PODS, storage.kinds.snapshots):
        found += await stage.client.list_all(kind, stage.site.namespace, label_selector="role!=node-agent")
    found += await storage.contents(stage.app, stage.site.namespace)
    return [f"{obj['kind']} {obj['metadata']['name']}" for obj in found]


async def in_pod(stage: Stage, script: str) -> str:
    """The output of a script in the application."""
    return await exec_in_pod(stage.client, stage.app, "p", "sh", "-c", script)


def new_claim(name: str = "claim", *, mode: str = "Filesystem") -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name},
        "spec": {
            "volumeMode": mode,
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Mi"}},
            "storageClassName": CLASS,
        },
    }
