"""Claims whose data is in CSI snapshots: a restore brings the snapshots that its claims are made of."""

from typing import Any, cast

import pytest

from pinnace.api import labels
from pinnace.api.meta import LabelSelector
from pinnace.api.nonadmin.restore_limits import TenantLimits
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import read_restore_policies
from pinnace.csi.restore import csi_restore_actions
from pinnace.kube.client import KubeClient
from pinnace.restore.request import RestoreSettings
from tests.unit.restore.world import Harness, claim, obj

API = "snapshot.storage.k8s.io/v1"
SNAPSHOTS = "volumesnapshots.snapshot.storage.k8s.io"
CONTENTS = "volumesnapshotcontents.snapshot.storage.k8s.io"
CLAIMS, HERE = "persistentvolumeclaims", {"included_namespaces": ["ns-1"]}
CLAIMS_ONLY = """
version: v1
namespacedFilterPolicies: [{namespaces: [ns-1], resourceFilters: [{kinds: [PersistentVolumeClaim]}]}]
"""
TENANT = TenantLimits.of_role({"rules": [{"apiGroups": [""], "resources": [CLAIMS], "verbs": ["*"]}]})


def saved_in(namespace: str, *, backup: str = "backup-1") -> list[JSONObject]:
    """A claim, its VolumeSnapshot and the content, as a backup has them."""
    mark = {labels.BACKUP_NAME: backup}
    notes = {labels.CSI_SNAPSHOT_HANDLE: f"h-{namespace}", labels.CSI_DRIVER_NAME: "d"}
    sizes = {labels.CSI_RESTORE_SIZE: "3Gi"}
    of_claim = {**mark, labels.VOLUME_SNAPSHOT_NAME: "vs"}
    content = f"content-{namespace}"
    return [
        claim("data", namespace, labels={"app": "db"}, annotations=of_claim, spec={"volumeName": "pv"}),
        obj("VolumeSnapshot", "vs", namespace, api_version=API, labels=mark, annotations={**notes, **sizes}),
        obj("VolumeSnapshotContent", content, api_version=API, spec={"driver": "d"}, labels=mark),
    ]


@pytest.fixture
def of_csi(harness: Harness) -> Harness:
    harness.world.put(obj("Namespace", "ns-1"))
    harness.options = RestoreSettings(features={"EnableCSI"})
    harness.actions = csi_restore_actions(cast(KubeClient, harness.world), harness.discovery)
    return harness


@pytest.mark.spec("AFT-110", "AFT-111")
@pytest.mark.parametrize(
    ("fields", "spec"),
    [
        ({}, HERE),
        ({}, {**HERE, "included_resources": [CLAIMS, "persistentvolumes"]}),
        ({}, {**HERE, "excluded_resources": [SNAPSHOTS, CONTENTS]}),
        ({}, {**HERE, "label_selector": LabelSelector(match_labels={"app": "db"})}),
        ({"policies": read_restore_policies(CLAIMS_ONLY).filters}, HERE),
        ({"limits": TENANT}, {**HERE, "label_selector": LabelSelector(match_labels={"app": "db"})}),
    ],
    ids=["all kinds", "claims and volumes", "no snapshots", "labels", "policy", "tenant"],
)
async def test_a_claim_brings_its_own_snapshot_and_no_other_whatever_the_filters_say(
    of_csi: Harness, fields: JSONObject, spec: dict[str, Any]
) -> None:
    of_csi.request_fields = fields

    results = await of_csi.restore(*saved_in("ns-1"), *saved_in("ns-2"), **spec)

    assert results.errors.count == 0, results
    assert of_csi.world.created_of(SNAPSHOTS) == ["ns-1/vs"]
    [content] = of_csi.world.created_of(CONTENTS)
    made = of_csi.world.item(CONTENTS, "", content)["spec"]
    assert (made["source"], made["volumeSnapshotRef"]["namespace"]) == ({"snapshotHandle": "h-ns-1"}, "ns-1")
    assert of_csi.world.created_of(CLAIMS) == ["ns-1/data"]
    restored = of_csi.world.item(CLAIMS, "ns-1", "data")["spec"]
    assert restored["dataSource"]["name"] == "vs"
    assert restored["resources"]["requests"]["storage"] == "3Gi"


@pytest.mark.spec("AFT-111")
@pytest.mark.parametrize(
    "why", ["it exists", "no volumes are wanted", "the snapshot is another backup's", "limits of a tenant"]
)
async def test_no_snapshot_is_brought_for_a_claim_that_gets_none(of_csi: Harness, why: str) -> None:
    """What a tenant may not have is among the filters of the restore."""
    if why.startswith("limits"):
        of_csi.request_fields = {"limits": TENANT}
    items = saved_in("ns-1", backup="another" if why.startswith("the snapshot") else "backup-1")
    if why == "it exists":
        of_csi.world.put(claim("data"))

    await of_csi.restore(
        *items, included_resources=[CLAIMS], restore_pvs=False if why.startswith("no volumes") else None
    )

    assert of_csi.world.created_of(SNAPSHOTS) == []
    assert of_csi.world.created_of(CONTENTS) == []
