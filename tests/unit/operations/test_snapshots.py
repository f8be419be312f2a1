"""CSI snapshots of a location that are made known to a cluster, and the actions for them."""

from typing import Any, cast

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import FEATURE, CSIError
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import KubeError, status_error
from pinnace.operations.snapshots import create_contents, csi_plugins
from pinnace.storage.backup_store import BackupStore
from tests.support.cluster.discovered import documented_discovery, resource, served
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.snapshot_crds import kinds

KINDS = kinds()
BARE = documented_discovery([served("v1", resource("pods", "Pod"))])
SERVED = documented_discovery(
    [
        served(
            "snapshot.storage.k8s.io/v1",
            resource("volumesnapshots", "VolumeSnapshot"),
            resource("volumesnapshotcontents", "VolumeSnapshotContent", namespaced=False),
            resource("volumesnapshotclasses", "VolumeSnapshotClass", namespaced=False),
        )
    ]
)


def content(name: str, handle: str = "h-1") -> JSONObject:
    return {
        "metadata": {"name": name},
        "spec": {"driver": "d", "volumeSnapshotRef": {"namespace": "shop", "name": "s"}},
        "status": {"snapshotHandle": handle},
    }


class Location:
    """Holds the contents of one backup."""

    def __init__(self, *contents: JSONObject) -> None:
        self._contents = contents

    async def read_csi_volume_snapshot_contents(self, _backup: str) -> list[JSONObject]:
        return list(self._contents)


async def created(
    cluster: ScriptedCluster,
    monkeypatch: pytest.MonkeyPatch,
    *contents: JSONObject,
    in_it: Discovery = SERVED,
) -> list[str]:
    async def load(_client: Any) -> Discovery:
        return in_it

    monkeypatch.setattr(Discovery, "load", load)
    return await create_contents(cluster.client, cast(BackupStore, Location(*contents)), "b1")


async def test_one_content_that_cannot_be_made_does_not_keep_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ScriptedCluster()
    cluster.put(content("there") | {"apiVersion": "v1", "kind": "x"}, KINDS.contents)
    refused = status_error(422, {"reason": "Invalid", "message": "spec.driver is too long"})
    cluster.refuse("create", KINDS.contents.group_resource, refused, passes=1, times=1)

    problems = await created(
        cluster, monkeypatch, content("there"), content("refused"), content("no-handle", ""), content("new")
    )

    refused_by_server, unreadable = problems
    assert "too long" in refused_by_server
    assert "lacks its name, its snapshot or its handle" in unreadable
    assert cluster.names(KINDS.contents) == ["there", "new"]
    made = cluster.stored(KINDS.contents, "new", None)
    assert made["spec"]["source"] == {"snapshotHandle": "h-1"}
    assert made["metadata"]["labels"][labels.BACKUP_NAME] == "b1"


async def test_a_server_that_is_away_is_no_reason_to_leave_contents_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = ScriptedCluster()
    away = status_error(503, {"message": "away"})
    cluster.refuse("create", KINDS.contents.group_resource, away)

    with pytest.raises(KubeError):
        await created(cluster, monkeypatch, content("new"))


async def test_contents_of_a_location_need_their_kinds_only_if_there_are_any(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await created(ScriptedCluster(), monkeypatch, in_it=BARE) == []
    with pytest.raises(CSIError):
        await created(ScriptedCluster(), monkeypatch, content("new"), in_it=BARE)


@pytest.mark.parametrize(
    ("features", "discovery", "are_listed"),
    [({FEATURE}, SERVED, True), (set(), SERVED, False), ({FEATURE}, BARE, False)],
    ids=["on", "feature is off", "not served"],
)
def test_the_actions_of_snapshots_are_listed_where_they_can_work(
    features: set[str], discovery: Discovery, are_listed: bool
) -> None:
    found = csi_plugins(ScriptedCluster().client, discovery, features)

    assert ("velero.io/csi-pvc-backupper" in [each.name for each in found]) is are_listed
