"""Restores of volumes with CSI snapshots, and of items in versions that are not served here."""

from typing import Any

import orjson
import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.restore import LeaveContent
from pinnace.plugins.protocols import ResourceSelector, RestoreItemInput, RestoreItemOutput
from pinnace.restore.request import RestoreSettings
from tests.support.cluster.snapshot_crds import kinds
from tests.unit.restore.world import (
    Harness,
    claim,
    obj,
    volume,
)

SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
API = "snapshot.storage.k8s.io/v1"


def snapshot(*, backup: str = "backup-1", handle: str = "snap-1", of: str = "data") -> JSONObject:
    return obj(
        "VolumeSnapshot",
        "velero-data-abcde",
        "ns-1",
        api_version=API,
        labels={labels.BACKUP_NAME: backup},
        annotations={labels.CSI_SNAPSHOT_HANDLE: handle},
        spec={"source": {"persistentVolumeClaimName": of}},
    )


@pytest.mark.found("S1")
@pytest.mark.parametrize(
    ("features", "restore_pvs", "item", "restored"),
    [
        ({"EnableCSI"}, None, snapshot(), False),
        (set(), None, snapshot(), False),
        ({"EnableCSI"}, False, snapshot(), False),
        (set(), False, snapshot(), False),
        ({"EnableCSI"}, None, snapshot(backup="another"), True),
        ({"EnableCSI"}, None, snapshot(handle=""), True),
        ({"EnableCSI"}, None, snapshot(of="other"), True),
    ],
    ids=[
        "a snapshot of it",
        "a snapshot that cannot be restored from",
        "no volumes wanted",
        "no volumes wanted, and the feature is off",
        "another backup's",
        "never made",
        "of another claim",
    ],
)
async def test_a_volume_whose_claim_has_a_snapshot_is_not_restored_beside_it(
    harness: Harness, features: set[str], restore_pvs: bool | None, item: JSONObject, restored: bool
) -> None:
    harness.options = RestoreSettings(features=features)
    volume_of_claim = volume("pv-1", spec={"claimRef": {"namespace": "ns-1", "name": "data"}})
    bound = claim("data", spec={"volumeName": "pv-1"})

    await harness.restore(item, volume_of_claim, bound, restore_pvs=restore_pvs)

    assert harness.world.created_of("persistentvolumes") == (["pv-1"] if restored else [])
    found = harness.world.item("persistentvolumeclaims", "ns-1", "data")
    assert ("volumeName" in found["spec"]) is restored


@pytest.mark.parametrize(
    "raw",
    [b"no json", b"[]", b"{}", b'{"metadata": {"labels": []}}', b'{"metadata": {"labels": {}}, "spec": 3}'],
    ids=["no JSON", "no object", "empty", "labels of another shape", "spec of another shape"],
)
async def test_snapshots_of_any_form_do_not_stop_the_restore_of_volumes(harness: Harness, raw: bytes) -> None:
    harness.options = RestoreSettings(features={"EnableCSI"})
    path = f"resources/{SNAPSHOTS}/namespaces/ns-1/x.json"

    await harness.restore(volume("pv-1"), files={path: raw})

    assert harness.world.created_of("persistentvolumes") == ["pv-1"]


class ToServedVersion:
    """Brings snapshots of an old version into the served one, as the CSI actions do."""

    name = "example.io/to-served"

    async def applies_to(self) -> ResourceSelector:
        return ResourceSelector(included_resources=(SNAPSHOTS,))

    async def execute(self, given: RestoreItemInput) -> RestoreItemOutput:
        return RestoreItemOutput(item={**given.item, "apiVersion": kinds().snapshots.api_version})


async def test_an_item_of_a_missing_version_is_created_in_the_version_of_its_action(
    harness: Harness,
) -> None:
    harness.actions = [ToServedVersion()]
    old = {**snapshot(), "apiVersion": "snapshot.storage.k8s.io/v1beta1"}
    path = f"resources/{SNAPSHOTS}/namespaces/ns-1/velero-data-abcde.json"

    results = await harness.restore(files={path: orjson.dumps(old)})

    assert results.errors.count == 0
    assert harness.world.item(SNAPSHOTS, "ns-1", "velero-data-abcde")["apiVersion"] == API


async def test_contents_are_never_created_as_they_are(harness: Harness) -> None:
    assert (await LeaveContent().applies_to()).included_resources == (
        "volumesnapshotcontents.snapshot.storage.k8s.io",
    )
    item = obj("VolumeSnapshotContent", "c", api_version=API)
    restore: Any = None
    output = await LeaveContent().execute(RestoreItemInput(item=item, item_from_backup=item, restore=restore))
    assert output.skip
