"""Contents of drivers whose csi-snapshotter runs on each node: it sees only those with the node's label."""

from collections.abc import Callable
from typing import cast

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.catalogue.snapshots import _of_content
from pinnace.csi.deletion import StoredSnapshot, content_to_delete
from pinnace.csi.looking import content_for_look
from pinnace.csi.restore import BindSnapshot
from pinnace.csi.snapshots import manager_label, synced_content
from pinnace.kube.client import KubeClient
from pinnace.restore.request import RestoreSettings
from tests.support.cluster.snapshot_crds import kinds
from tests.unit.restore.world import Harness, obj

API = "snapshot.storage.k8s.io/v1"
CONTENTS = "volumesnapshotcontents.snapshot.storage.k8s.io"
MANAGED = {"snapshot.storage.kubernetes.io/managed-by": "worker"}


def content(**marks: str) -> JSONObject:
    found = obj(
        "VolumeSnapshotContent",
        "content-1",
        api_version=API,
        labels=marks,
        spec={
            "driver": "d",
            "source": {"volumeHandle": "vol-1"},
            "volumeSnapshotRef": {"kind": "VolumeSnapshot", "namespace": "ns-1", "name": "snap"},
        },
    )
    return {**found, "status": {"snapshotHandle": "snap-1"}}


def stored(given: JSONObject) -> StoredSnapshot:
    found = _of_content(given)
    assert found is not None
    return found


@pytest.mark.found("S6")
@pytest.mark.parametrize(
    "make",
    [
        lambda given: content_to_delete(kinds(), stored(given), "b1", "velero"),
        lambda given: content_for_look(kinds(), stored(given), "velero"),
        lambda given: synced_content(kinds(), given, "b1"),
    ],
    ids=["deletion", "look", "sync"],
)
@pytest.mark.parametrize("marks", [MANAGED, {}], ids=["managed", "not managed"])
def test_a_further_content_of_a_snapshot_is_managed_by_the_same_node(
    make: Callable[[JSONObject], JSONObject], marks: dict[str, str]
) -> None:
    made = make(content(**marks, other="label"))

    assert manager_label(made) == marks
    assert "other" not in made["metadata"]["labels"]


@pytest.mark.found("S6")
@pytest.mark.parametrize(
    ("marks", "notes", "managed"),
    [
        (MANAGED, {}, MANAGED),
        ({}, {}, {}),
        ({}, MANAGED, {}),
        (MANAGED, dict.fromkeys(MANAGED, "x"), MANAGED),
    ],
    ids=["managed", "not managed", "written by a user", "overwritten by a user"],
)
async def test_the_content_of_a_restore_is_managed_by_the_node_that_the_backup_shows(
    harness: Harness, marks: dict[str, str], notes: dict[str, str], managed: dict[str, str]
) -> None:
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.actions = [BindSnapshot(cast(KubeClient, harness.world), kinds())]
    snapshot = obj(
        "VolumeSnapshot",
        "snap",
        "ns-1",
        api_version=API,
        labels={labels.BACKUP_NAME: "backup-1"},
        annotations={labels.CSI_SNAPSHOT_HANDLE: "snap-1", labels.CSI_DRIVER_NAME: "d", **notes},
        spec={"source": {"persistentVolumeClaimName": "data"}},
    )
    snapshot["status"] = {"boundVolumeSnapshotContentName": "content-1"}

    results = await harness.restore(snapshot, content(**marks), included_resources=["volumesnapshots"])

    assert results.errors.count == 0
    (name,) = harness.world.created_of(CONTENTS)
    made = harness.world.item(CONTENTS, "", name)
    assert manager_label(made) == managed
    restored = harness.world.item("volumesnapshots.snapshot.storage.k8s.io", "ns-1", "snap")
    assert MANAGED.keys().isdisjoint(restored["metadata"]["annotations"])
