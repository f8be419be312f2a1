"""The agent saves volumes of snapshots, and leaves no snapshot in the repository that nothing refers to."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import cast

import pytest

from pinnace.api import labels
from pinnace.api.codec import decode
from pinnace.api.velero.data_movement import DataUpload
from pinnace.controllers.node.data_upload import DataUploadWork
from pinnace.controllers.node.holding import ATTEMPTS_ANNOTATION
from pinnace.controllers.node.moving import Moving
from pinnace.controllers.node.presence import held
from pinnace.controllers.node.reconciler import PodVolumeFailed
from pinnace.controllers.node.volumes import VolumeContent
from pinnace.volumes.uploader.output import Progress
from tests.unit.controllers.node.world import SNAPSHOT, FakeRestic


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
        self.work = DataUploadWork(cast(Moving, Mounted(self.volume)), self.kopia)

    @staticmethod
    def upload(*, attempts: int = 1, claim_uid: str = "u3") -> DataUpload:
        own_labels = {labels.BACKUP_NAME: "b1", labels.BACKUP_UID: "u1", labels.PVC_UID: claim_uid}
        metadata = {"name": "d", "labels": own_labels, "annotations": {ATTEMPTS_ANNOTATION: str(attempts)}}
        spec = {"sourceNamespace": "shop", "sourcePVC": "data", "backupStorageLocation": "default"}
        return decode(DataUpload, {"metadata": metadata, "spec": spec})


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def report(_progress: Progress) -> None:
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
