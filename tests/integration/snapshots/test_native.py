"""Native snapshots end to end on a real API server, with a provider that copies folders."""

import json
from pathlib import Path

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from tests.integration.snapshots.apps import FILE, FolderApp


def of(folder_app: FolderApp) -> JSONObject:
    return {
        "includedNamespaces": [folder_app.bench.namespace],
        "labelSelector": {"matchLabels": {"app": folder_app.bench.namespace}},
    }


async def test_data_comes_back_from_a_snapshot_and_goes_with_the_backup(
    folder_app: FolderApp, tmp_path: Path
) -> None:
    bench, snapshots = folder_app.bench, tmp_path / "provider/snapshots"

    status = await bench.back_up("b1", **of(folder_app))

    assert status["phase"] == "Completed"
    assert (status["volumeSnapshotsAttempted"], status["volumeSnapshotsCompleted"]) == (1, 1)
    (snapshot,) = snapshots.iterdir()
    tags = json.loads((snapshot / "tags.json").read_text())
    assert tags["velero.io/backup"] == "b1"
    assert tags["velero.io/pv"] == folder_app.volume_name
    assert tags["zone"] == "z1"

    await folder_app.lose()
    status = await bench.restore("r1", "b1")

    assert status["phase"] == "Completed", await bench.results("r1")
    volume = await folder_app.volume_of(bench.namespace)
    assert volume["metadata"]["name"] == folder_app.volume_name
    restored = Path(volume["spec"]["hostPath"]["path"])
    assert restored != folder_app.volume
    assert (restored / FILE).read_text() == "as it was"

    assert await bench.delete("d1", "b1") == []

    assert list(snapshots.iterdir()) == []
    assert list((tmp_path / "bucket/backups").glob("b1/*")) == []
    assert (restored / FILE).read_text() == "as it was"


async def test_a_copy_in_another_namespace_is_a_volume_of_its_own(
    folder_app: FolderApp, client: KubeClient
) -> None:
    bench, other = folder_app.bench, f"{folder_app.bench.namespace}-copy"
    await bench.back_up("b1", **of(folder_app))

    try:
        status = await bench.restore("r1", "b1", namespaceMapping={bench.namespace: other})

        assert status["phase"] == "Completed", await bench.results("r1")
        volume = await folder_app.volume_of(other)
        assert volume["metadata"]["name"].startswith("velero-clone-")
        restored = Path(volume["spec"]["hostPath"]["path"])
        (restored / FILE).write_text("changed in the copy")
        assert (folder_app.volume / FILE).read_text() == "as it was"
    finally:
        await client.delete(NAMESPACES, other)


@pytest.mark.spec("BEY-076")
async def test_a_restore_is_the_same_with_and_without_volume_infos(
    folder_app: FolderApp, tmp_path: Path
) -> None:
    bench, results = folder_app.bench, []
    await bench.back_up("b1", **of(folder_app))
    infos = tmp_path / "bucket/backups/b1/b1-volumeinfo.json.gz"
    assert infos.exists()
    for name in ("with", "without"):
        await folder_app.lose()
        status = await bench.restore(name, "b1")
        volume = await folder_app.volume_of(bench.namespace)
        folder = Path(volume["spec"].pop("hostPath")["path"])
        claim_of = volume["spec"].pop("claimRef")
        marks = {**volume["metadata"]["labels"], labels.RESTORE_NAME: ""}
        results.append(
            (status["phase"], (folder / FILE).read_text(), volume["spec"], marks, claim_of["name"])
        )
        infos.unlink(missing_ok=True)

    assert results[0] == results[1]
    assert results[0][:2] == ("Completed", "as it was")


@pytest.mark.spec("BKP-055")
async def test_a_snapshot_that_fails_is_counted(folder_app: FolderApp) -> None:
    (folder_app.volume / FILE).unlink()
    folder_app.volume.rmdir()

    status = await folder_app.bench.back_up("b1", **of(folder_app))

    assert status["phase"] == "PartiallyFailed"
    assert status["errors"] == 1
    assert status["volumeSnapshotsAttempted"] == 1
    assert status.get("volumeSnapshotsCompleted", 0) == 0


@pytest.mark.spec("CTL-035", "BEY-069")
async def test_a_backup_whose_snapshot_cannot_be_deleted_keeps_its_files(
    folder_app: FolderApp, tmp_path: Path
) -> None:
    bench = folder_app.bench
    await bench.back_up("b1", **of(folder_app))
    (snapshot,) = (tmp_path / "provider/snapshots").iterdir()
    snapshot.rename(tmp_path / "elsewhere")

    (error,) = await bench.delete("d1", "b1")

    assert error.startswith(f"error deleting snapshot {snapshot.name}: its provider refused: ")
    assert (await bench.status_of_backup("b1"))["phase"] == "Deleting"
    assert (tmp_path / "bucket/backups/b1/velero-backup.json").exists()

    (tmp_path / "elsewhere").rename(snapshot)
    assert await bench.delete("d2", "b1") == []
    assert not snapshot.exists()
    assert not (tmp_path / "bucket/backups/b1/velero-backup.json").exists()


async def test_nothing_is_touched_when_the_provider_is_not_there(
    folder_app: FolderApp, tmp_path: Path
) -> None:
    bench = folder_app.bench
    await bench.back_up("b1", **of(folder_app))
    await bench.set_provider("here", "nobody")

    (error,) = await bench.delete("d1", "b1")

    assert "unable to locate VolumeSnapshotter plugin named velero.io/nobody" in error
    assert (await bench.status_of_backup("b1"))["phase"] == "Completed"
    assert len(list((tmp_path / "provider/snapshots").iterdir())) == 1
