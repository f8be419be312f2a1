"""CSI snapshots of encrypted backups, which a command has made and a server without an identity finds."""

from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.age.x25519 import X25519Identity
from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import BACKUPS, velero
from tests.e2e.without_server.command import Pinnace
from tests.integration.snapshots.apps import CSIApp
from tests.support.waiting import eventually


@pytest.fixture
def pinnace(csi_app: CSIApp, tmp_path: Path, control_plane: ControlPlane) -> Pinnace:
    """The command of somebody who has a recipient only, on the server's location."""
    (folder := tmp_path / "command").mkdir()
    return Pinnace(
        folder,
        kubeconfig=control_plane.kubeconfig,
        location=str(csi_app.bench.folder / "bucket"),
        environ={"PINNACE_RECIPIENTS": str(X25519Identity.generate().recipient)},
    )


async def back_up(csi_app: CSIApp, pinnace: Pinnace) -> str:
    """The handle of the snapshot that an encrypted backup has taken."""
    made = await pinnace(
        *("--namespace", csi_app.namespace, "--features", "EnableCSI"),
        *("backup", "create", "b1", "--include-namespaces", csi_app.namespace),
        *("--include-resources", ",".join(csi_app.of()["includedResources"])),
    )
    assert made.code == 0, made.err + made.out
    (handle,) = csi_app.storage.storage
    await eventually(lambda: has_no_contents(csi_app))
    return handle


async def has_no_contents(csi_app: CSIApp) -> bool:
    return not await csi_app.contents()


@pytest.mark.parametrize("by", ["server", "command"])
async def test_the_snapshots_go_with_their_backup_without_an_identity(
    csi_app: CSIApp, pinnace: Pinnace, by: str
) -> None:
    await back_up(csi_app, pinnace)
    bench = csi_app.bench
    await bench.sync()
    assert (await bench.status_of_backup("b1"))["phase"] == "Completed"
    assert await csi_app.contents() == []  # their names are encrypted

    if by == "server":
        assert await bench.delete("d1", "b1") == []
    else:
        words = ("--namespace", csi_app.namespace, "backup", "delete", "b1", "--confirm")
        deleted = await pinnace(*words)
        assert deleted.code == 0, deleted.err + deleted.out

    async def is_gone() -> bool:
        return not csi_app.storage.storage

    await eventually(is_gone)
    assert not (bench.folder / "bucket/backups/b1/velero-backup.json").exists()


async def test_a_server_keeps_a_backup_whose_plain_list_is_gone(csi_app: CSIApp, pinnace: Pinnace) -> None:
    handle = await back_up(csi_app, pinnace)
    bench = csi_app.bench
    await bench.sync()
    folder = bench.folder / "bucket/backups/b1"
    (folder / "b1-pinnace-volumes.json").unlink()
    before = sorted(folder.iterdir())

    (error,) = await bench.delete("d1", "b1")

    assert "has no plain list of its volumes' data" in error
    assert csi_app.storage.storage == {handle}
    assert sorted(folder.iterdir()) == before
    assert (await csi_app.client.get(BACKUPS, "b1", bench.namespace))["status"]["phase"] == "Completed"


async def test_a_plain_list_in_a_tenants_bucket_deletes_no_snapshot(
    csi_app: CSIApp, pinnace: Pinnace
) -> None:
    handle = await back_up(csi_app, pinnace)
    bench = csi_app.bench
    await bench.sync()
    patch = {"metadata": {"annotations": {Origin.LOCATION.namespace_annotation: "evil"}}}
    await bench.client.patch(velero("backupstoragelocations"), "default", patch, bench.namespace)
    listed = (bench.folder / "bucket/backups/b1/b1-pinnace-volumes.json").read_text()
    assert handle in listed

    assert await bench.delete("d1", "b1") == []

    assert csi_app.storage.storage == {handle}
    assert not (bench.folder / "bucket/backups/b1/velero-backup.json").exists()
