"""The records of the volumes that a restore filled, and of their sources. (docs/spec: BEY 3.7)"""

from collections.abc import Mapping

from pinnace.api.codec import encode
from pinnace.api.meta import ObjectReference
from pinnace.api.objects import JSONObject
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeBackupSpec, PodVolumeBackupStatus
from pinnace.api.volume_info import BackupVolumeInfo, CSISnapshotInfo, RestoredVolumeInfo
from pinnace.csi.movement.objects import MovedVolume
from pinnace.restore.collaborators import RestoreCollaborators
from pinnace.restore.selection.reading import ItemRef
from pinnace.restore.volumes.records import RestoredVolumes
from tests.support.volumes.snapshotters import Snapshotter, snapshot
from tests.unit.restore.world import Harness, claim, pod, volume

CLAIM = ItemRef(
    group_resource="persistentvolumeclaims", original_namespace="ns-1", target_namespace="m1", name="data"
)


SAVED = PodVolumeBackup(
    spec=PodVolumeBackupSpec(
        pod=ObjectReference(namespace="ns-1", name="db"), volume="data", uploader_type="kopia"
    ),
    status=PodVolumeBackupStatus(snapshot_id="abc"),
)
DISK = volume("pv-1", spec={"claimRef": {"namespace": "ns-1", "name": "pvc-1"}})
DATABASE = pod("db", spec={"volumes": [{"name": "data", "emptyDir": {}}]})


class Filler:
    async def restore_pod_volumes(
        self, pod: JSONObject, original_namespace: str, snapshots: Mapping[str, SavedSnapshot]
    ) -> list[str]:
        return []


def records(*infos: BackupVolumeInfo) -> RestoredVolumes:
    return RestoredVolumes(made={}, pod_volumes=None, infos=infos)


def written(found: list[RestoredVolumeInfo]) -> list[JSONObject]:
    return [encode(each) for each in found]


async def test_a_volume_made_from_a_native_snapshot_is_recorded_under_its_new_name(harness: Harness) -> None:
    harness.collaborators = RestoreCollaborators(volume_restorer=Snapshotter(rename_to="pv-new"))
    harness.request_fields = {"snapshots": (snapshot(),)}

    await harness.restore(DISK, namespace_mapping={"ns-1": "m1"})

    (info,) = written(harness.outcomes.volumes)
    assert (info["restoreMethod"], info["pvName"]) == ("NativeSnapshot", "pv-new")
    assert (info["pvcNamespace"], info["pvcName"]) == ("m1", "pvc-1")
    assert info["nativeSnapshotInfo"]["snapshotHandle"] == snapshot().status.provider_snapshot_id
    assert info["snapshotDataMoved"] is False


async def test_a_volume_that_keeps_its_old_disk_is_not_recorded(harness: Harness) -> None:
    await harness.restore(DISK)
    assert harness.outcomes.volumes == []


async def test_the_volumes_of_a_restored_pod_are_recorded_and_those_of_an_existing_one_are_not(
    harness: Harness,
) -> None:
    harness.collaborators = RestoreCollaborators(pod_volume_restorer=Filler())
    harness.request_fields = {"pod_volume_backups": [SAVED]}

    await harness.restore(DATABASE, pod("web"), namespace_mapping={"ns-1": "m1"})

    (info,) = written(harness.outcomes.volumes)
    assert info["restoreMethod"] == "PodVolumeRestore"
    assert info["pvrInfo"] == {
        "snapshotHandle": "abc",
        "uploaderType": "kopia",
        "volumeName": "data",
        "podName": "db",
        "podNamespace": "m1",
    }
    await harness.restore(DATABASE, namespace_mapping={"ns-1": "m1"})
    assert harness.outcomes.volumes == []


async def test_a_pod_volume_that_is_not_restored_here_is_not_recorded(harness: Harness) -> None:
    harness.request_fields = {"pod_volume_backups": [SAVED]}
    results = await harness.restore(DATABASE)
    assert results.errors.count == 1
    assert harness.outcomes.volumes == []


def test_a_claim_provisioned_from_a_csi_snapshot_has_what_the_backup_says_of_it() -> None:
    info = CSISnapshotInfo(snapshot_handle="h", driver="d", size=5, vsc_name="c")
    kept = records(BackupVolumeInfo(pvc_namespace="ns-1", pvc_name="data", csi_snapshot_info=info))
    source = {"kind": "VolumeSnapshot", "name": "s"}

    kept.claim_created(CLAIM, claim("data", "m1", spec={"dataSource": source}))
    kept.claim_created(CLAIM, claim("data", "m1"))  # no snapshot

    (found,) = written(kept.found)
    assert (found["pvcNamespace"], found["pvcName"], found["restoreMethod"]) == ("m1", "data", "CSISnapshot")
    assert found["csiSnapshotInfo"] == {"snapshotHandle": "h", "size": 5, "driver": "d", "vscName": "c"}


def test_moved_data_is_recorded_with_its_operation() -> None:
    kept = records()

    kept.moved(CLAIM, MovedVolume(snapshot="k1", source_namespace="ns-1"), "dd-1.2")

    (found,) = written(kept.found)
    assert found["snapshotDataMoved"] is True
    assert found["snapshotDataMovementInfo"] == {
        "dataMover": "velero",
        "uploaderType": "kopia",
        "snapshotHandle": "k1",
        "operationID": "dd-1.2",
    }
