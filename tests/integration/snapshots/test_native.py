"""Native snapshots end to end on a real API server, with a provider that copies folders."""

import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from tests.integration.snapshots.conftest import Bench
from tests.support.folder_snapshotter import NAME as PROVIDER
from tests.support.waiting import eventually

JSONObject = dict[str, Any]
FILE = "notes.txt"


class App:
    """A claim on a volume that is a folder of this machine."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.volume = folder / "disk"
        self.volume_name = f"pv-{bench.namespace}"

    async def create(self) -> None:
        self.volume.mkdir()
        (self.volume / FILE).write_text("as it was")
        client, namespace = self.bench.client, self.bench.namespace
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": self.volume_name,
                "labels": {"app": namespace, "topology.kubernetes.io/zone": "z1"},
            },
            "spec": {
                "capacity": {"storage": "1Mi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": "data"},
                "hostPath": {"path": str(self.volume)},
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace, "labels": {"app": namespace}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": self.volume_name,
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
        await client.create(PERSISTENT_VOLUMES, volume)
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        await eventually(lambda: self.is_bound(namespace))

    async def is_bound(self, namespace: str) -> bool:
        claim = await self.bench.client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        return bool((claim.get("status") or {}).get("phase") == "Bound")

    async def lose(self) -> None:
        """Delete claim and volume, and spoil the data."""
        client, namespace = self.bench.client, self.bench.namespace
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        await client.delete(PERSISTENT_VOLUMES, self.volume_name)
        (self.volume / FILE).write_text("overwritten")

        async def gone() -> bool:
            try:
                await client.get(PERSISTENT_VOLUMES, self.volume_name)
            except NotFound:
                return True
            return False

        await eventually(gone)

    async def volume_of(self, namespace: str) -> JSONObject:
        """The persistent volume that the claim has, once it is bound."""
        await eventually(lambda: self.is_bound(namespace))
        client = self.bench.client
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        return await client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])


@pytest.fixture
async def app(bench: Bench, tmp_path: Path) -> App:
    config = {"directory": str(tmp_path / "provider")}
    await bench.create("volumesnapshotlocations", "here", {"provider": PROVIDER, "config": config})
    made = App(bench, tmp_path)
    await made.create()
    return made


def of(app: App) -> JSONObject:
    return {
        "includedNamespaces": [app.bench.namespace],
        "labelSelector": {"matchLabels": {"app": app.bench.namespace}},
    }


async def test_data_comes_back_from_a_snapshot_and_goes_with_the_backup(app: App, tmp_path: Path) -> None:
    bench, snapshots = app.bench, tmp_path / "provider/snapshots"

    status = await bench.back_up("b1", **of(app))

    assert status["phase"] == "Completed"
    assert (status["volumeSnapshotsAttempted"], status["volumeSnapshotsCompleted"]) == (1, 1)
    (snapshot,) = snapshots.iterdir()
    tags = json.loads((snapshot / "tags.json").read_text())
    assert tags["velero.io/backup"] == "b1"
    assert tags["velero.io/pv"] == app.volume_name
    assert tags["zone"] == "z1"

    await app.lose()
    status = await bench.restore("r1", "b1")

    assert status["phase"] == "Completed", await bench.results("r1")
    volume = await app.volume_of(bench.namespace)
    assert volume["metadata"]["name"] == app.volume_name
    restored = Path(volume["spec"]["hostPath"]["path"])
    assert restored != app.volume
    assert (restored / FILE).read_text() == "as it was"

    assert await bench.delete("d1", "b1") == []

    assert list(snapshots.iterdir()) == []
    assert list((tmp_path / "bucket/backups").glob("b1/*")) == []
    assert (restored / FILE).read_text() == "as it was"


async def test_a_copy_in_another_namespace_is_a_volume_of_its_own(app: App, client: KubeClient) -> None:
    bench, other = app.bench, f"{app.bench.namespace}-copy"
    await bench.back_up("b1", **of(app))

    try:
        status = await bench.restore("r1", "b1", namespaceMapping={bench.namespace: other})

        assert status["phase"] == "Completed", await bench.results("r1")
        volume = await app.volume_of(other)
        assert volume["metadata"]["name"].startswith("velero-clone-")
        restored = Path(volume["spec"]["hostPath"]["path"])
        (restored / FILE).write_text("changed in the copy")
        assert (app.volume / FILE).read_text() == "as it was"
    finally:
        await client.delete(NAMESPACES, other)


@pytest.mark.spec("BKP-055")
async def test_a_snapshot_that_fails_is_counted(app: App) -> None:
    (app.volume / FILE).unlink()
    app.volume.rmdir()

    status = await app.bench.back_up("b1", **of(app))

    assert status["phase"] == "PartiallyFailed"
    assert status["errors"] == 1
    assert status["volumeSnapshotsAttempted"] == 1
    assert status.get("volumeSnapshotsCompleted", 0) == 0


@pytest.mark.spec("CTL-035")
async def test_a_backup_whose_snapshot_cannot_be_deleted_keeps_its_files(app: App, tmp_path: Path) -> None:
    bench = app.bench
    await bench.back_up("b1", **of(app))
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


async def test_nothing_is_touched_when_the_provider_is_not_there(app: App, tmp_path: Path) -> None:
    bench = app.bench
    await bench.back_up("b1", **of(app))
    await bench.set_provider("here", "nobody")

    (error,) = await bench.delete("d1", "b1")

    assert "unable to locate VolumeSnapshotter plugin named velero.io/nobody" in error
    assert (await bench.status_of_backup("b1"))["phase"] == "Completed"
    assert len(list((tmp_path / "provider/snapshots").iterdir())) == 1
