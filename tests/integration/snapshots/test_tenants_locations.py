"""Backups in a bucket that a tenant owns: their files cause no deletion of a snapshot. (NAC A15, A35)"""

from pathlib import Path

from pinnace.api.nonadmin.names import Origin
from pinnace.kube.resources import velero
from tests.integration.snapshots.apps import CSIApp, FolderApp
from tests.integration.snapshots.bench import Bench


async def give_to_tenant(bench: Bench) -> None:
    """Make the location a tenant's."""
    patch = {"metadata": {"annotations": {Origin.LOCATION.namespace_annotation: "evil"}}}
    await bench.client.patch(velero("backupstoragelocations"), "default", patch, bench.namespace)


async def test_native_snapshots_named_in_a_tenants_bucket_are_kept(
    folder_app: FolderApp, tmp_path: Path
) -> None:
    bench = folder_app.bench
    await bench.back_up("b1", includedNamespaces=[bench.namespace], includedResources=["pvc", "pv"])
    await give_to_tenant(bench)

    assert await bench.delete("d1", "b1") == []

    assert len(list((tmp_path / "provider/snapshots").iterdir())) == 1
    assert list((tmp_path / "bucket/backups").glob("b1/*")) == []


async def test_csi_snapshots_named_in_a_tenants_bucket_are_kept(csi_app: CSIApp) -> None:
    """A backup's name is the tenant's choice too, and the cluster's own may have a label with it."""
    await csi_app.bench.back_up("b1", **csi_app.of())
    [handle] = csi_app.storage.storage
    await give_to_tenant(csi_app.bench)

    assert await csi_app.bench.delete("d1", "b1") == []

    assert csi_app.storage.storage == {handle}
