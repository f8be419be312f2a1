"""CSI snapshots on a real API server; the snapshot controller and the storage are the test's.

test_csi_on_node.py shows that a real controller and a real driver agree.
"""

import gzip
import json
from dataclasses import replace

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi import objects as csi_objects
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import (
    BACKUPS,
    DATA_UPLOADS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
)
from pinnace.operations.snapshots import create_contents
from tests.integration.snapshots.apps import GROUP, CSIApp
from tests.support.cluster.pods import add_ready_agent
from tests.support.waiting import eventually


async def test_a_claim_comes_back_from_its_snapshot(csi_app: CSIApp) -> None:
    status = await csi_app.bench.back_up("b1", **csi_app.of())

    assert (status["phase"], status.get("errors", 0), status.get("warnings", 0)) == ("Completed", 0, 0)
    assert status.get("volumeSnapshotsAttempted", 0) == 0
    (snapshot,), (content,) = csi_app.file("csi-volumesnapshots"), csi_app.file("csi-volumesnapshotcontents")
    name, mark = snapshot["metadata"]["name"], {labels.BACKUP_NAME: "b1"}
    assert name.startswith("velero-data-")
    assert snapshot["metadata"]["labels"] == mark
    assert snapshot["spec"] == {
        "source": {"persistentVolumeClaimName": "data"},
        "volumeSnapshotClassName": csi_app.named("vsc"),
    }
    assert content["metadata"]["labels"] == mark
    handle = content["status"]["snapshotHandle"]
    assert csi_app.storage.storage == {handle}
    claim = await csi_app.stored(f"persistentvolumeclaims/namespaces/{csi_app.namespace}/data")
    noted = {labels.VOLUME_SNAPSHOT_NAME: name, labels.BACKUP_NAME: "b1"}
    assert claim["metadata"]["annotations"].items() >= noted.items()
    assert claim["metadata"]["labels"] == noted
    assert labels.VOLUME_SNAPSHOT_NAME not in (await csi_app.claim())["metadata"].get("annotations", {})

    await csi_app.lose()
    status = await csi_app.bench.restore("r1", "b1")

    assert status["phase"] == "Completed", await csi_app.bench.results("r1")
    (snapshot,) = await csi_app.snapshots()
    restored = next(
        each for each in await csi_app.contents() if each["metadata"]["name"].startswith(f"velero-{name}-")
    )
    assert snapshot["metadata"]["name"] == name
    assert snapshot["spec"]["source"] == {"volumeSnapshotContentName": restored["metadata"]["name"]}
    assert restored["spec"] == {
        "deletionPolicy": "Retain",
        "driver": csi_app.driver,
        "source": {"snapshotHandle": handle},
        "volumeSnapshotRef": {
            "kind": "VolumeSnapshot",
            "namespace": csi_app.namespace,
            "name": name,
            "uid": snapshot["metadata"]["uid"],
        },
    }
    claim = await csi_app.claim()
    source = {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": name}
    assert claim["spec"]["dataSource"] == claim["spec"]["dataSourceRef"] == source
    assert claim["spec"]["resources"]["requests"]["storage"] == "3Gi"
    assert "volumeName" not in claim["spec"]
    with pytest.raises(NotFound):  # Retain or not, the old volume must not be what the claim is bound to
        await csi_app.client.get(PERSISTENT_VOLUMES, csi_app.named("data"))


@pytest.mark.found("S5")
async def test_a_finished_backup_leaves_no_objects_and_its_snapshot_whatever_the_class_says(
    csi_app: CSIApp,
) -> None:
    await csi_app.client.patch(csi_app.kinds.classes, csi_app.named("vsc"), {"deletionPolicy": "Delete"})

    status = await csi_app.bench.back_up("b1", **csi_app.of())

    assert (status["phase"], status.get("warnings", 0)) == ("Completed", 0)
    assert await csi_app.snapshots() == []
    await eventually(lambda: _has_contents(csi_app, 0))
    (content,) = csi_app.file("csi-volumesnapshotcontents")
    assert content["spec"]["deletionPolicy"] == "Retain"
    assert csi_app.storage.storage == {content["status"]["snapshotHandle"]}
    (info,) = csi_app.file("volumeinfo")
    assert (info["backupMethod"], info["pvcName"], info["pvName"]) == (
        "CSISnapshot",
        "data",
        csi_app.named("data"),
    )
    assert info["csiSnapshotInfo"]["snapshotHandle"] == content["status"]["snapshotHandle"]
    assert info["csiSnapshotInfo"]["ReadyToUse"] is True
    assert info["preserveLocalSnapshot"] is True  # without it Velero shows nothing of the snapshot
    assert info["pvInfo"] == {"reclaimPolicy": "Retain"}


async def test_a_backup_that_could_not_be_stored_leaves_no_snapshot(csi_app: CSIApp) -> None:
    folder = csi_app.bench.folder / "bucket/backups"
    folder.write_text("in the way of the folder")

    status = await csi_app.bench.back_up("b1", **csi_app.of())

    assert status["phase"] == "Failed"
    assert await csi_app.snapshots() == []
    await eventually(lambda: _has_contents(csi_app, 0))
    await eventually(lambda: _stores(csi_app, set()))


@pytest.mark.spec("SRV-025", "AFT-111")
async def test_a_restore_of_claims_alone_honours_mapped_namespaces(csi_app: CSIApp) -> None:
    """The snapshots come with their claims."""
    await csi_app.bench.back_up("b1", **csi_app.of())
    other = f"{csi_app.namespace}-copy"
    try:
        status = await csi_app.bench.restore(
            "r1", "b1", namespaceMapping={csi_app.namespace: other}, includedResources=["pvc", "pv"]
        )

        assert status["phase"] == "Completed", await csi_app.bench.results("r1")
        (snapshot,) = await csi_app.snapshots(other)
        (content,) = await csi_app.contents(other)
        assert snapshot["spec"]["source"]["volumeSnapshotContentName"] == content["metadata"]["name"]
        claim = await csi_app.claim(namespace=other)
        assert claim["spec"]["dataSource"]["name"] == snapshot["metadata"]["name"]
        await csi_app.client.delete(csi_app.kinds.contents, content["metadata"]["name"])
    finally:
        await csi_app.client.delete(NAMESPACES, other)


@pytest.mark.spec("SRV-025")
async def test_a_snapshot_that_exists_is_left_alone(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    await eventually(lambda: _has_contents(csi_app, 0))  # the backup's own goes once the driver let go of it
    await csi_app.bench.restore("r0", "b1")
    before = await _names(csi_app)

    status = await csi_app.bench.restore("r1", "b1")

    # The claim is there as well, and differs from what would have been made: that is the one warning.
    assert (status["phase"], status.get("errors", 0)) == ("Completed", 0), await csi_app.bench.results("r1")
    assert await _names(csi_app) == before


@pytest.mark.found("S1")
async def test_without_the_wish_for_volumes_neither_snapshot_nor_old_volume_is_used(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    await csi_app.lose()
    await eventually(lambda: _has_contents(csi_app, 0))

    status = await csi_app.bench.restore("r1", "b1", restorePVs=False)

    assert status["phase"] == "Completed", await csi_app.bench.results("r1")
    assert await csi_app.snapshots() == []
    assert await csi_app.contents() == []
    assert {"dataSource", "volumeName"}.isdisjoint((await csi_app.claim())["spec"])
    with pytest.raises(NotFound):  # two clusters would use one disk
        await csi_app.client.get(PERSISTENT_VOLUMES, csi_app.named("data"))


@pytest.mark.found("S1")
async def test_a_copy_without_volumes_beside_the_original_does_not_name_its_volume(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    other = f"{csi_app.namespace}-copy"
    try:
        mapping = {csi_app.namespace: other}
        status = await csi_app.bench.restore("r1", "b1", restorePVs=False, namespaceMapping=mapping)

        assert status["phase"] == "Completed", await csi_app.bench.results("r1")
        assert "volumeName" not in (await csi_app.claim(namespace=other))["spec"]
    finally:
        await csi_app.client.delete(NAMESPACES, other)


@pytest.mark.found("V20")
@pytest.mark.parametrize(
    "features", [frozenset[str](), frozenset({FEATURE})], ids=["saved with it off", "on"]
)
async def test_what_an_earlier_restore_left_on_a_claim_does_not_stop_the_next(
    csi_app: CSIApp, features: frozenset[str]
) -> None:
    """The labels are those that Velero 1.18 leaves; the snapshot that they name is long gone."""
    left = {
        labels.BACKUP_NAME: "v-plain",
        labels.RESTORE_NAME: "r0",
        labels.VOLUME_SNAPSHOT_NAME: "velero-imm-686b5",
    }
    patch = {"metadata": {"labels": left}}
    await csi_app.client.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, csi_app.namespace)
    with_feature = csi_app.bench.scope
    csi_app.bench.scope = replace(with_feature, features=features)
    status = await csi_app.bench.back_up("b1", **csi_app.of(snapshotVolumes=False))
    assert status["phase"] == "Completed"
    claim = await csi_app.stored(f"persistentvolumeclaims/namespaces/{csi_app.namespace}/data")
    assert (labels.VOLUME_SNAPSHOT_NAME in claim["metadata"]["labels"]) is not bool(features)
    await csi_app.lose()
    csi_app.bench.scope = with_feature

    status = await csi_app.bench.restore("r1", "b1")

    assert (status["phase"], status.get("errors", 0)) == ("Completed", 0), await csi_app.bench.results("r1")
    assert labels.VOLUME_SNAPSHOT_NAME not in (await csi_app.claim())["metadata"]["labels"]


async def test_with_the_feature_off_the_claim_is_an_error_and_stays_unbound(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    await csi_app.lose()
    csi_app.bench.scope = replace(csi_app.bench.scope, features=frozenset())

    status = await csi_app.bench.restore("r1", "b1")

    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 1)
    assert "restored from CSI snapshots with the feature EnableCSI only" in await csi_app.bench.results("r1")
    claim = await csi_app.claim()
    assert claim["spec"]["selector"] == {"matchLabels": {labels.AWAITS_VOLUME_DATA: "true"}}
    assert await csi_app.snapshots() == []


@pytest.mark.found("S3", "V21")
@pytest.mark.parametrize("names", ["missing", "other driver"])
async def test_a_claim_that_names_a_class_which_does_not_fit_is_in_the_backup_with_a_warning(
    csi_app: CSIApp, names: str
) -> None:
    await csi_app.add_class("foreign", {}, driver="other.example.io")
    named = csi_app.named("foreign") if names == "other driver" else "of-another-cluster"
    patch = {"metadata": {"annotations": {labels.CSI_SNAPSHOT_CLASS: named}}}
    await csi_app.client.patch(PERSISTENT_VOLUME_CLAIMS, "data", patch, csi_app.namespace)

    status = await csi_app.bench.back_up("b1", **csi_app.of())

    assert (status["phase"], status.get("errors", 0), status["warnings"]) == ("Completed", 0, 1)
    assert (status["csiVolumeSnapshotsAttempted"], status["csiVolumeSnapshotsCompleted"]) == (1, 1)
    assert await csi_app.stored(f"persistentvolumeclaims/namespaces/{csi_app.namespace}/data")


@pytest.mark.found("S4")
@pytest.mark.parametrize("moves", [False, True], ids=["snapshot", "moved data"])
async def test_a_snapshot_that_is_not_made_in_time_is_deleted_at_once(csi_app: CSIApp, moves: bool) -> None:
    csi_app.storage.makes_handles = False
    movement = {"snapshotMoveData": True} if moves else {}
    if moves:
        await add_ready_agent(csi_app.client, csi_app.namespace)

    status = await csi_app.bench.back_up("b1", **csi_app.of(csiSnapshotTimeout="1s", **movement))

    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 1)
    assert status["csiVolumeSnapshotsAttempted"] == 1
    assert await csi_app.snapshots() == []
    csi_app.storage.makes_handles = True  # the driver ends what it has begun
    await eventually(lambda: _has_contents(csi_app, 0))
    assert csi_app.storage.storage == set()


@pytest.mark.spec("AFT-118")
async def test_no_snapshot_is_taken_whose_data_no_node_agent_would_move(csi_app: CSIApp) -> None:
    status = await csi_app.bench.back_up("b1", **csi_app.of(snapshotMoveData=True))

    assert (status["phase"], status["errors"]) == ("PartiallyFailed", 1)
    results = gzip.decompress((csi_app.bench.folder / "bucket/backups/b1/b1-results.gz").read_bytes())
    [notice] = json.loads(results)["pinnace"]["notices"]
    assert (notice["severity"], notice["code"]) == ("error", "agents-not-installed")
    assert "node-agent is not ready for snapshot data movement: the namespace" in notice["message"]
    assert "/data" in notice["message"]
    assert await csi_app.snapshots() == []
    assert await csi_app.contents() == []
    assert csi_app.storage.storage == set()
    assert await csi_app.client.list_all(DATA_UPLOADS, csi_app.namespace) == []


@pytest.mark.spec("CTL-038")
async def test_the_snapshots_go_with_their_backup(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    await csi_app.bench.back_up("b2", **csi_app.of())
    (of_b1,) = csi_app.file("csi-volumesnapshotcontents")
    assert len(csi_app.storage.storage) == 2

    assert await csi_app.bench.delete("d1", "b1") == []

    await eventually(lambda: _stores_one_but(csi_app, of_b1["status"]["snapshotHandle"]))
    await eventually(lambda: _has_contents(csi_app, 0))
    assert not (csi_app.bench.folder / "bucket/backups/b1/velero-backup.json").exists()


@pytest.mark.parametrize("written_by", ["1.14", "1.18"])
async def test_the_snapshots_of_later_velero_go_with_their_backup(csi_app: CSIApp, written_by: str) -> None:
    """1.17 and later write no lists of CSI objects: handles are in the volume info, and in the tarball."""
    await csi_app.bench.back_up("b1", **csi_app.of())
    folder = csi_app.bench.folder / "bucket/backups/b1"
    if written_by == "1.18":
        for name in ("csi-volumesnapshots", "csi-volumesnapshotcontents", "volumeinfo"):
            (folder / f"b1-{name}.json.gz").unlink()
    assert len(csi_app.storage.storage) == 1

    assert await csi_app.bench.delete("d1", "b1") == []

    await eventually(lambda: _stores(csi_app, set()))
    assert not folder.exists()


async def test_a_snapshot_that_no_driver_takes_over_keeps_the_backup(
    csi_app: CSIApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csi_objects, "TAKE_OVER_SECONDS", 5.0)
    await csi_app.bench.back_up("b1", **csi_app.of())
    await eventually(lambda: _has_contents(csi_app, 0))
    csi_app.storage.makes_handles = False

    (error,) = await csi_app.bench.delete("d1", "b1")

    assert "its driver did not take it over within 5 seconds: does the csi-snapshotter" in error
    assert len(csi_app.storage.storage) == 1
    assert (csi_app.bench.folder / "bucket/backups/b1/velero-backup.json").exists()
    csi_app.storage.makes_handles = True
    assert await csi_app.bench.delete("d2", "b1") == []
    await eventually(lambda: _stores(csi_app, set()))


@pytest.mark.spec("CTL-038")
@pytest.mark.parametrize("policy", ["Retain", "Delete", None], ids=str)
async def test_whatever_its_policy_was_a_content_goes_with_its_snapshot(
    csi_app: CSIApp, policy: str | None
) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    await eventually(lambda: _has_contents(csi_app, 0))
    async with await csi_app.bench.store() as store:  # as in a cluster that found the backup
        assert await create_contents(csi_app.client, store, "b1") == []
    (content,) = await csi_app.contents()
    patch = {"spec": {"deletionPolicy": policy}}
    await csi_app.client.patch(csi_app.kinds.contents, content["metadata"]["name"], patch)
    csi_app.storage.binds = False
    body = {
        "apiVersion": csi_app.kinds.snapshots.api_version,
        "kind": "VolumeSnapshot",
        "spec": {"source": {"volumeSnapshotContentName": "nowhere"}},
    }
    statuses: dict[str, JSONObject] = {
        "no-status": {},
        "no-content": {"readyToUse": False},
        "gone": {"boundVolumeSnapshotContentName": "nowhere"},
    }
    for name, status in statuses.items():
        metadata = {"name": name, "namespace": csi_app.namespace, "labels": {labels.BACKUP_NAME: "b1"}}
        await csi_app.client.create(
            csi_app.kinds.snapshots, {**body, "metadata": metadata}, csi_app.namespace
        )
        if status:
            patch = {"status": status}
            await csi_app.client.patch(
                csi_app.kinds.snapshots, name, patch, csi_app.namespace, subresource="status"
            )

    assert await csi_app.bench.delete("d1", "b1") == []

    assert await csi_app.snapshots() == []
    await eventually(lambda: _stores(csi_app, set()))


async def test_a_cluster_that_finds_the_backup_can_delete_its_snapshots(csi_app: CSIApp) -> None:
    await csi_app.bench.back_up("b1", **csi_app.of())
    (content,) = csi_app.file("csi-volumesnapshotcontents")
    # Another cluster on the same storage: nothing is there but the location.
    await eventually(lambda: _has_contents(csi_app, 0))

    async with await csi_app.bench.store() as store:
        assert await create_contents(csi_app.client, store, "b1") == []
        assert await create_contents(csi_app.client, store, "b1") == []

    (synced,) = await csi_app.contents()
    assert synced["metadata"]["labels"] == {labels.BACKUP_NAME: "b1"}
    handle = content["status"]["snapshotHandle"]
    assert synced["spec"]["source"] == {"snapshotHandle": handle}
    await eventually(lambda: _is_known(csi_app))
    assert await csi_app.bench.delete("d1", "b1") == []
    await eventually(lambda: _stores(csi_app, set()))


@pytest.mark.parametrize("tenant", ["", "somebody"], ids=["administrator", "tenant"])
async def test_contents_are_taken_from_the_locations_of_administrators_only(
    csi_app: CSIApp, tenant: str
) -> None:
    bench = csi_app.bench
    await bench.back_up("b1", **csi_app.of())
    (content,) = csi_app.file("csi-volumesnapshotcontents")
    await csi_app.client.delete(BACKUPS, "b1", csi_app.namespace)
    await eventually(lambda: _has_contents(csi_app, 0))

    await bench.sync(tenant=tenant)

    names = [each["metadata"]["name"] for each in await csi_app.contents()]
    assert names == ([] if tenant else [content["metadata"]["name"]])


async def _names(csi_app: CSIApp) -> list[str]:
    """Of snapshots and contents."""
    return [each["metadata"]["name"] for each in (*await csi_app.snapshots(), *await csi_app.contents())]


async def _has_contents(csi_app: CSIApp, count: int) -> bool:
    return len(await csi_app.contents()) == count


async def _is_known(csi_app: CSIApp) -> bool:
    """Whether the controller has put finalizers on all contents."""
    return all(content["metadata"].get("finalizers") for content in await csi_app.contents())


async def _stores_one_but(csi_app: CSIApp, handle: str) -> bool:
    return len(csi_app.storage.storage) == 1 and handle not in csi_app.storage.storage


async def _stores(csi_app: CSIApp, handles: set[str]) -> bool:
    return csi_app.storage.storage == handles
