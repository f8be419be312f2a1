"""Which VolumeSnapshotContents of a backup count as the way to delete its snapshots."""

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.objects import delete_objects
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.resources import APIResource
from tests.support.cluster.scripted_cluster import ScriptedCluster

HANDLE = {"snapshotHandle": "handle-1"}


def kind(name: str, kind: str, *, namespaced: bool) -> APIResource:
    return APIResource(
        group="snapshot.storage.k8s.io", version="v1", name=name, kind=kind, namespaced=namespaced
    )


KINDS = SnapshotKinds(
    snapshots=kind("volumesnapshots", "VolumeSnapshot", namespaced=True),
    contents=kind("volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False),
    classes=kind("volumesnapshotclasses", "VolumeSnapshotClass", namespaced=False),
)


@pytest.mark.parametrize(
    ("deleting", "policy", "status", "counts"),
    [
        (False, "Retain", HANDLE, True),
        (True, "Delete", HANDLE, True),
        (True, "Retain", HANDLE, False),
        (True, "Delete", {}, False),
    ],
    ids=["alive", "deleted with its snapshot", "deleted without its snapshot", "not taken over"],
)
async def test_a_content_that_is_deleted_without_its_snapshot_does_not_count(
    deleting: bool, policy: str, status: JSONObject, counts: bool
) -> None:
    metadata = {
        "name": "c",
        "labels": {labels.BACKUP_NAME: "b1"},
        **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}),
    }
    spec = {"deletionPolicy": policy, "source": HANDLE}
    cluster = ScriptedCluster()
    cluster.put({"metadata": metadata, "spec": spec, "status": status}, KINDS.contents)

    errors, found = await delete_objects(cluster.client, KINDS, "b1")

    assert errors == []
    assert [content["metadata"]["name"] for content in found] == (["c"] if counts else [])
