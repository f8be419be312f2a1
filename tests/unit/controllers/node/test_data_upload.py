"""The agent saves volumes of snapshots, and leaves no snapshot in the repository that nothing refers to."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import pytest

from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.velero.data_movement import DataDownload, DataUpload
from pinnace.controllers.node.data_download import DataDownloadWork
from pinnace.controllers.node.data_upload import DataUploadWork
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.controllers.node.moving import STARTABLE, Moving
from pinnace.controllers.node.presence import held
from pinnace.controllers.node.reconciler import PodVolumeFailed, PodVolumeReconciler
from pinnace.controllers.node.volumes import VolumeContent
from pinnace.kube.resources import DATA_DOWNLOADS, DATA_UPLOADS
from pinnace.runtime.keys import Key
from pinnace.volumes.uploader.errors import UploaderError
from pinnace.volumes.uploader.output import ByteCounts
from tests.unit.controllers.fakes import RecordingMetrics
from tests.unit.controllers.node.world import SNAPSHOT, FakeRestic, NodeWorld


class Mounted:
    """Says where the volume is."""

    def __init__(self, volume: Path) -> None:
        self.volume = volume

    async def content(self, _movement: DataUpload) -> VolumeContent:
        return VolumeContent(path=self.volume)

    def held(self, content: VolumeContent) -> AbstractAsyncContextManager[None]:
        return held(content.path)


class Scene:
    def __init__(self, folder: Path) -> None:
        self.volume = folder / "mount"
        self.volume.mkdir()
        self.kopia = FakeRestic()
        self.metrics = RecordingMetrics()
        self.work = DataUploadWork(cast(Moving, Mounted(self.volume)), self.kopia, self.metrics)

    @staticmethod
    def upload(*, attempts: int = 1, claim_uid: str = "u3") -> DataUpload:
        own_labels = {labels.BACKUP_NAME: "b1", labels.BACKUP_UID: "u1", labels.PVC_UID: claim_uid}
        metadata = {"name": "d", "labels": own_labels, "annotations": {ATTEMPTS_ANNOTATION: str(attempts)}}
        spec = {"sourceNamespace": "shop", "sourcePVC": "data", "backupStorageLocation": "default"}
        return decode(DataUpload, {"metadata": metadata, "spec": spec})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def report(_progress: ByteCounts) -> None:
    return


async def test_the_message_says_what_a_saved_volume_lacks(scene: Scene) -> None:
    scene.kopia.lacks = "sockets were not saved"

    status = await scene.work.carry_out(scene.upload(), report)

    assert (status["snapshotID"], status["message"]) == (SNAPSHOT, "sockets were not saved")
    assert scene.kopia.forgotten == []


async def test_a_volume_that_is_unmounted_by_force_fails_and_leaves_no_snapshot(scene: Scene) -> None:
    scene.kopia.until = asyncio.Event()
    saving = asyncio.create_task(scene.work.carry_out(scene.upload(), report))
    await scene.kopia.working.wait()
    scene.volume.rename(scene.volume.with_name("unmounted"))
    scene.volume.mkdir()
    scene.kopia.until.set()

    with pytest.raises(PodVolumeFailed, match="taken away from its node during the transfer"):
        await saving

    assert scene.kopia.forgotten == [SNAPSHOT]


@pytest.mark.parametrize(("claim_uid", "is_removed"), [("u3", True), ("", False)])
async def test_snapshots_of_a_former_agent_are_removed_if_their_tags_are_of_one_volume(
    scene: Scene, claim_uid: str, is_removed: bool
) -> None:
    await scene.work.carry_out(scene.upload(attempts=2, claim_uid=claim_uid), report)

    tags = {
        "backup": "b1",
        "backup-uid": "u1",
        "ns": "shop",
        "volume": "data",
        "pvc-uid": claim_uid,
        "snapshot-requester": "snapshot-data-upload-download",
    }
    assert scene.kopia.forgotten == ([tags] if is_removed else [])


class Node(Mounted):
    """It is due here."""

    def is_due(self, _movement: object) -> bool:
        return True


@pytest.mark.found("L11")
@pytest.mark.parametrize("direction", ["upload", "download"])
@pytest.mark.parametrize("phase", ["Completed", "Failed", "Canceled"])
async def test_moved_data_is_counted_by_how_it_ended(tmp_path: Path, direction: str, phase: str) -> None:
    world, volume = NodeWorld(tmp_path), tmp_path / "mount"
    volume.mkdir()
    moving, metrics = cast(Moving, Node(volume)), world.metrics
    if phase == "Failed":
        world.restic.errors.append(UploaderError("no repository"))
    reconciler: PodVolumeReconciler[DataUpload] | PodVolumeReconciler[DataDownload]
    if direction == "upload":
        reconciler = PodVolumeReconciler(
            *(world.scope, DATA_UPLOADS, DataUpload, DataUploadWork(moving, world.restic, metrics)),
            startable=STARTABLE,
        )
    else:
        reconciler = PodVolumeReconciler(
            *(world.scope, DATA_DOWNLOADS, DataDownload, DataDownloadWork(moving, world.restic, metrics)),
            startable=STARTABLE,
        )
    spec = {
        "cancel": phase == "Canceled",
        "sourceNamespace": "shop",
        "backupStorageLocation": "default",
        "operationTimeout": "10m",
        **(
            {"sourcePVC": "data", "snapshotType": "CSI"}
            if direction == "upload"
            else {"snapshotID": SNAPSHOT}
        ),
        **({} if direction == "upload" else {"targetVolume": {"namespace": "shop", "pv": "", "pvc": "data"}}),
    }
    obj = world.cluster.add(f"data{direction}s", "d", spec=spec, status={"phase": "Prepared"})
    obj["apiVersion"] = "velero.io/v2alpha1"

    await reconciler.reconcile(Key("velero", "d"))

    assert world.metrics.calls == [("data_moved", direction, phase)]
    assert bool(world.restic.calls) is (phase != "Canceled")
