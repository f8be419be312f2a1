"""Claims without a snapshot: their volumes may not be read, or the cluster has no snapshots."""

from typing import Any, cast

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.csi.backup import SnapshotChoice, SnapshotClaim, WarnOfClaim, csi_backup_actions
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import APIResource
from pinnace.volumes.policies import VolumePolicies
from tests.support.cluster.discovered import documented_discovery

CLAIM: JSONObject = {
    "metadata": {"name": "data", "namespace": "shop"},
    "spec": {"volumeName": "pv-1"},
    "status": {"phase": "Bound"},
}


class FewRights:
    """A cluster whose PersistentVolumes the user may not read."""

    async def get(self, *_: Any) -> Any:
        raise Forbidden(403, message='persistentvolumes "pv-1" is forbidden')


async def test_a_claim_whose_volume_may_not_be_read_is_saved_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    client = cast(KubeClient, FewRights())
    choice = SnapshotChoice(client, saves_files=False, policies=VolumePolicies(cast(Any, None)))
    action = SnapshotClaim(client, cast(SnapshotKinds, None), cast(TakenSnapshots, None), choice)
    item, additional = await action.execute(CLAIM, Backup())
    assert (item, list(additional)) == (CLAIM, [])
    [(level, text)] = {(record.levelname, record.getMessage()) for record in caplog.records}
    assert level == "WARNING"
    assert (
        'without a CSI snapshot, as its volume may not be read: persistentvolumes "pv-1" is forbidden' in text
    )


class WithoutSnapshots:
    """A cluster with a claim on a CSI volume, one on a folder, and no kinds of snapshots."""

    async def get(self, resource: APIResource, name: str, _namespace: str | None = None) -> JSONObject:
        assert resource.name == "persistentvolumes"
        return {"metadata": {"name": name}, "spec": {"csi": {"driver": "d"}} if name == "pv-1" else {}}


@pytest.mark.found("E-F7")
@pytest.mark.parametrize(
    ("volume", "spec", "warns"),
    [
        ("pv-1", BackupSpec(), True),
        ("pv-1", BackupSpec(snapshot_move_data=True), True),
        ("pv-1", BackupSpec(snapshot_volumes=False), False),
        ("folder", BackupSpec(), False),
    ],
    ids=["a CSI volume", "its data is to be moved", "no snapshots wanted", "another volume"],
)
async def test_where_the_cluster_serves_no_snapshots_each_claim_without_one_is_saved_with_a_warning(
    caplog: pytest.LogCaptureFixture, volume: str, spec: BackupSpec, warns: bool
) -> None:
    client = cast(KubeClient, WithoutSnapshots())
    policies = VolumePolicies(cast(Any, None))
    notes = {labels.VOLUME_SNAPSHOT_NAME: "of-an-earlier-backup", "mine": "kept"}
    claim = {**CLAIM, "metadata": {**CLAIM["metadata"], "annotations": notes}, "spec": {"volumeName": volume}}
    bare = documented_discovery([])

    (action,) = csi_backup_actions(client, bare, None, saves_files=False, policies=policies)
    item, additional = await action.execute(claim, Backup(spec=spec))

    assert isinstance(action, WarnOfClaim)
    assert (item["metadata"]["annotations"], list(additional)) == ({"mine": "kept"}, [])
    warnings = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert len(warnings) == warns
    assert all(
        "without its data: the feature EnableCSI is on, but the cluster does not" in t for t in warnings
    )
