"""Creating PodVolumeRestores and waiting for them."""

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from pinnace.api.meta import ObjectMeta
from pinnace.api.pod_snapshots import SavedSnapshot
from pinnace.api.velero.restore import Restore, RestoreSpec, RestoreUploader
from pinnace.volumes.pods.pod_volume_restores import PodVolumeRestores
from pinnace.volumes.pods.timeouts import Timeout
from tests.unit.controllers.fakes import NAMESPACE
from tests.unit.volumes.pod_volumes import PodVolumeScene, a_pod, empty_dir, silent

PLURAL = "podvolumerestores"
RESTORE = Restore(metadata=ObjectMeta(name="r1", namespace=NAMESPACE, uid="restore-uid"))
SNAPSHOTS = {"one": SavedSnapshot("11111111"), "two": SavedSnapshot("22222222")}


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[PodVolumeScene]:
    with PodVolumeScene(tmp_path) as made:
        yield made


def restores(scene: PodVolumeScene, timeout: Timeout | None = None) -> PodVolumeRestores:
    return PodVolumeRestores(
        scene.cluster.client,
        RESTORE,
        "default",
        scene.run(timeout),
    )


async def test_the_pod_volume_restores_of_a_pod(scene: PodVolumeScene) -> None:
    pod = a_pod(empty_dir("one"), empty_dir("two"))
    pod["metadata"]["namespace"] = "new-shop"

    assert await restores(scene).restore_pod_volumes(pod, "shop", SNAPSHOTS) == []

    first, second = scene.cluster.of(PLURAL)
    metadata = first["metadata"]
    assert metadata["generateName"] == "r1-"
    assert metadata["labels"] == {
        "velero.io/restore-name": "r1",
        "velero.io/restore-uid": "restore-uid",
        "velero.io/pod-uid": "uid-p",
    }
    [owner] = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Restore", "restore-uid", True)
    assert first["spec"] == {
        "pod": {"kind": "Pod", "namespace": "new-shop", "name": "p", "uid": "uid-p"},
        "volume": "one",
        "backupStorageLocation": "default",
        "repoIdentifier": "s3:x/restic/shop",
        "snapshotID": "11111111",
        "uploaderType": "restic",
        "restoreType": "",
    }
    assert (second["spec"]["volume"], second["spec"]["snapshotID"]) == ("two", "22222222")


async def test_each_failure_is_returned_once(scene: PodVolumeScene) -> None:
    scene.answer = lambda obj: (
        {"phase": "Failed", "message": "no room"}
        if obj["spec"]["volume"] == "one"
        else {"phase": "Completed"}
    )

    errors = await restores(scene).restore_pod_volumes(a_pod(), "shop", SNAPSHOTS)

    assert errors == ["pod volume restore failed: no room"]


async def test_pod_volume_restores_that_end_too_late_are_one_error(scene: PodVolumeScene) -> None:
    scene.answer = silent

    errors = await restores(scene, scene.timeout(0.0)).restore_pod_volumes(a_pod(), "shop", SNAPSHOTS)

    assert errors == ["timed out waiting for all PodVolumeRestores to complete"]
    assert len(scene.cluster.of(PLURAL)) == 2


async def test_without_repository_no_pod_volume_restore_is_created(scene: PodVolumeScene) -> None:
    scene.cluster.stored("backuprepositories", "repo")["status"] = {"phase": "NotReady", "message": "m"}

    errors = await restores(scene).restore_pod_volumes(a_pod(), "shop", SNAPSHOTS)

    assert errors == [
        f"volume {volume} of pod shop/p is not restored from restic snapshot {SNAPSHOTS[volume].id}:"
        " restic repository is not ready: m"
        for volume in ("one", "two")
    ]
    assert scene.cluster.of(PLURAL) == []


async def test_each_volume_is_restored_by_its_own_uploader(scene: PodVolumeScene) -> None:
    scene.add_kopia()
    snapshots = {"one": SavedSnapshot("11111111"), "two": SavedSnapshot("2" * 32, "kopia", 77)}

    errors = await restores(scene).restore_pod_volumes(
        a_pod(empty_dir("one"), empty_dir("two")), "shop", snapshots
    )

    assert errors == []
    specs = {obj["spec"]["volume"]: obj["spec"] for obj in scene.cluster.of(PLURAL)}
    assert specs["one"]["uploaderType"] == "restic"
    assert specs["one"]["repoIdentifier"] == "s3:x/restic/shop"
    assert specs["two"]["uploaderType"] == "kopia"
    assert specs["two"]["repoIdentifier"] == ""
    assert specs["two"]["sourceNamespace"] == "shop"
    assert specs["two"]["snapshotSize"] == 77


async def test_settings_of_the_uploader_are_given_to_kopia_and_not_to_restic(scene: PodVolumeScene) -> None:
    scene.add_kopia()
    config = RestoreUploader(write_sparse_files=True, parallel_files_download=3)
    asked = msgspec.structs.replace(RESTORE, spec=RestoreSpec(backup_name="b", uploader_config=config))
    made = PodVolumeRestores(scene.cluster.client, asked, "default", scene.run(None))
    snapshots = {"one": SavedSnapshot("11111111"), "two": SavedSnapshot("2" * 32, "kopia")}

    assert await made.restore_pod_volumes(a_pod(empty_dir("one"), empty_dir("two")), "shop", snapshots) == []

    specs = {obj["spec"]["volume"]: obj["spec"] for obj in scene.cluster.of(PLURAL)}
    assert "uploaderSettings" not in specs["one"]
    assert specs["two"]["uploaderSettings"] == {"WriteSparseFiles": "true", "ParallelFilesDownload": "3"}


@pytest.mark.spec("AFT-150", "AFT-151")
@pytest.mark.parametrize(
    ("policy", "sent"), [("", ""), ("none", ""), ("full", "full"), ("incremental", "incremental")]
)
async def test_the_policy_for_existing_claims_reaches_every_agent(
    scene: PodVolumeScene, policy: str, sent: str
) -> None:
    scene.add_kopia()
    config = RestoreUploader(delete_extra_files=bool(sent))
    spec = RestoreSpec(backup_name="b", uploader_config=config, existing_volume_data_policy=policy)
    asked = msgspec.structs.replace(RESTORE, spec=spec)
    made = PodVolumeRestores(scene.cluster.client, asked, "default", scene.run(None))
    snapshots = {"one": SavedSnapshot("11111111"), "two": SavedSnapshot("2" * 32, "kopia")}

    assert await made.restore_pod_volumes(a_pod(empty_dir("one"), empty_dir("two")), "shop", snapshots) == []

    settings = {"DeleteExtraFiles": "true"} if sent else None
    for obj in scene.cluster.of(PLURAL):
        assert obj["spec"]["restoreType"] == sent
        assert obj["spec"].get("uploaderSettings") == settings


@pytest.mark.found("DOC16")
async def test_data_of_a_pod_on_a_windows_node_is_an_error_at_once(scene: PodVolumeScene) -> None:
    pod = a_pod(empty_dir("one"), empty_dir("two"))
    pod["spec"]["os"] = {"name": "windows"}

    errors = await restores(scene).restore_pod_volumes(pod, "shop", SNAPSHOTS)

    assert errors == [
        f"volume {volume} of the pod is not restored from restic snapshot {SNAPSHOTS[volume].id}, as the pod"
        " needs a Windows node, where no node agent runs"
        for volume in ("one", "two")
    ]
    assert scene.cluster.of(PLURAL) == []


async def test_a_resumed_restore_reads_no_volume_again_that_was_not_canceled(scene: PodVolumeScene) -> None:
    pod = a_pod(empty_dir("one"), empty_dir("two"))
    assert await restores(scene).restore_pod_volumes(pod, "shop", SNAPSHOTS) == []
    kept, canceled = scene.cluster.of(PLURAL)
    canceled["spec"]["cancel"] = True
    canceled["status"] = {"phase": "Canceled"}
    metadata = msgspec.structs.replace(RESTORE.metadata, annotations={"pinnace.io/resumed": "1"})
    resumed = msgspec.structs.replace(RESTORE, metadata=metadata)
    again = PodVolumeRestores(scene.cluster.client, resumed, "default", scene.run(None))

    assert await again.restore_pod_volumes(pod, "shop", SNAPSHOTS) == []

    made = [each["spec"]["volume"] for each in scene.cluster.of(PLURAL)]
    assert made == ["one", "two", "two"]
    assert kept in scene.cluster.of(PLURAL)
