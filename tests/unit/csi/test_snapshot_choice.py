"""Which claims get a CSI snapshot of their volume, and what is looked at before it is taken."""

import logging
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.api.resource_policies import read_policies
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.csi.backup import AddSecretOf, SnapshotChoice, SnapshotClaim
from pinnace.csi.objects import TakenSnapshots
from pinnace.csi.snapshots import CONTENTS, CSIError
from pinnace.kube.errors import Forbidden
from pinnace.volumes.policies import VolumePolicies
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.snapshot_crds import kinds

RULE = "{version: v1, volumePolicies: [{conditions: {storageClass: [fast]}, action: {type: %s}}]}"
OPTED_IN = {labels.VOLUMES_TO_BACKUP: "files"}
OPTED_OUT = {labels.VOLUMES_TO_EXCLUDE: "files"}
UNWANTED = BackupSpec(snapshot_volumes=False)
BY_DEFAULT = BackupSpec(default_volumes_to_fs_backup=True)


KINDS = kinds()


def claim(phase: str = "Bound", volume: str = "pv-1", storage_class: str = "fast") -> JSONObject:
    return {
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {"volumeName": volume, "storageClassName": storage_class},
        "status": {"phase": phase},
    }


def stored() -> ScriptedCluster:
    """A cluster with a volume of a CSI driver, and one of none."""
    cluster = ScriptedCluster()
    spec = {"storageClassName": "fast", "csi": {"driver": "d", "volumeHandle": "v"}}
    cluster.add("persistentvolumes", "pv-1", spec=spec)
    cluster.add("persistentvolumes", "folder", spec={"hostPath": {"path": "/x"}})
    cluster.add("storageclasses.storage.k8s.io", "fast")
    return cluster


def using(phase: str, annotations: dict[str, str], *, is_mounted: bool = True) -> dict[str, Any]:
    """A pod that uses the claim."""
    return {
        "metadata": {"annotations": annotations},
        "spec": {
            "volumes": [{"name": "files", "persistentVolumeClaim": {"claimName": "data"}}],
            "containers": [{"name": "c", "volumeMounts": [{"name": "files"}] if is_mounted else []}],
        },
        "status": {"phase": phase},
    }


def choice_in(cluster: ScriptedCluster, rule: str = "", *, saves_files: bool = True) -> SnapshotChoice:
    policies = read_policies(RULE % rule) if rule else None
    client = cluster.client
    return SnapshotChoice(client, saves_files=saves_files, policies=VolumePolicies(client, policies))


@pytest.mark.parametrize(
    ("saved", "spec", "rule", "is_taken"),
    [
        pytest.param(claim(), BackupSpec(), "", True, id="a CSI volume"),
        pytest.param(claim("Pending"), BackupSpec(), "", False, id="not bound"),
        pytest.param(claim(volume=""), BackupSpec(), "", False, id="without a volume"),
        pytest.param(claim(volume="folder"), BackupSpec(), "", False, id="of no driver"),
        pytest.param(claim(), UNWANTED, "", False, id="no snapshots wanted"),
        pytest.param(claim(), UNWANTED, "snapshot", True, id="no snapshots wanted, but a rule"),
        pytest.param(claim(), BackupSpec(), "skip", False, id="a rule skips it"),
        pytest.param(claim(), BackupSpec(), "fs-backup", False, id="a rule saves its files"),
    ],
)
async def test_which_volumes_need_a_snapshot(
    saved: JSONObject, spec: BackupSpec, rule: str, is_taken: bool
) -> None:
    found = await choice_in(stored(), rule).volume_of(saved, Backup(spec=spec))

    assert (found is not None) is is_taken


@pytest.mark.parametrize(
    ("pod", "spec", "saves_files", "is_taken"),
    [
        pytest.param(using("Running", OPTED_IN), BackupSpec(), True, False, id="named by its pod"),
        pytest.param(using("Running", {}), BackupSpec(), True, True, id="not named"),
        pytest.param(using("Running", {}), BY_DEFAULT, True, False, id="by default"),
        pytest.param(using("Running", OPTED_OUT), BY_DEFAULT, True, True, id="excluded by its pod"),
        pytest.param(using("Pending", OPTED_IN), BackupSpec(), True, True, id="of a pod that does not run"),
        pytest.param(
            using("Running", OPTED_IN, is_mounted=False), BackupSpec(), True, True, id="mounted by nothing"
        ),
        pytest.param(using("Running", OPTED_IN), BackupSpec(), False, True, id="nothing saves files"),
    ],
)
async def test_a_volume_whose_files_are_saved_needs_no_snapshot(
    pod: dict[str, Any], spec: BackupSpec, saves_files: bool, is_taken: bool
) -> None:
    """Data that neither way saves would be lost: only a running pod's mounted volume counts."""
    cluster = stored()
    cluster.add("pods", "db", "shop", **pod)

    found = await choice_in(cluster, saves_files=saves_files).volume_of(claim(), Backup(spec=spec))

    assert (found is not None) is is_taken


async def test_a_rule_for_snapshots_counts_before_saved_files() -> None:
    cluster = stored()
    cluster.add("pods", "db", "shop", **using("Running", OPTED_IN))

    assert await choice_in(cluster, "snapshot").volume_of(claim(), Backup()) is not None


@pytest.mark.parametrize(
    ("storage_class", "refusal", "warns"),
    [
        ("fast", None, False),
        ("gone", None, True),
        ("gone", Forbidden(403, message="you may not"), False),
    ],
    ids=["exists", "was deleted", "may not be read"],
)
async def test_a_snapshot_is_taken_whatever_became_of_the_storage_class(
    caplog: pytest.LogCaptureFixture, storage_class: str, refusal: Forbidden | None, warns: bool
) -> None:
    caplog.set_level(logging.INFO)
    cluster = stored()
    cluster.put(
        {"apiVersion": "v1", "kind": "x", "metadata": {"name": "snaps"}, "driver": "d"}, KINDS.classes
    )
    if refusal is not None:
        cluster.refuse("get", "storageclasses.storage.k8s.io", refusal)
    taken = TakenSnapshots(cluster.client, KINDS, Backup())
    action = SnapshotClaim(cluster.client, KINDS, taken, choice_in(cluster))

    saved, (snapshot,) = await action.execute(claim(storage_class=storage_class), Backup())

    assert saved["metadata"]["annotations"][labels.VOLUME_SNAPSHOT_NAME] == snapshot.name
    assert cluster.names(KINDS.snapshots) == [snapshot.name]
    warnings = {each.getMessage() for each in caplog.records if each.levelno == logging.WARNING}
    assert len(warnings) == warns
    assert all(f"The storage class {storage_class} of the claim does not exist" in each for each in warnings)


async def test_a_claim_without_a_storage_class_is_an_error_and_leaves_no_snapshot() -> None:
    cluster = stored()
    taken = TakenSnapshots(cluster.client, KINDS, Backup())
    action = SnapshotClaim(cluster.client, KINDS, taken, choice_in(cluster))

    with pytest.raises(CSIError, match="the claim has no storage class"):
        await action.execute(claim(storage_class=""), Backup())

    assert cluster.names(KINDS.snapshots) == []


async def test_a_content_takes_along_the_secrets_that_both_pairs_of_annotations_name() -> None:
    def naming(prefix: str, name: str) -> dict[str, str]:
        return {f"{prefix}-name": name, f"{prefix}-namespace": "driver"}

    action = AddSecretOf("x", CONTENTS, labels.CSI_SNAPSHOTTER_SECRET, labels.CSI_DELETION_SECRET)
    notes = naming(labels.CSI_SNAPSHOTTER_SECRET, "make") | naming(labels.CSI_DELETION_SECRET, "delete")
    half = {f"{labels.CSI_DELETION_SECRET}-name": "delete"}

    _, both = await action.execute({"metadata": {"annotations": notes}}, Backup())
    _, none = await action.execute({"metadata": {"annotations": half}}, Backup())

    assert [(each.resource, each.namespace, each.name) for each in both] == [
        ("secrets", "driver", "make"),
        ("secrets", "driver", "delete"),
    ]
    assert list(none) == []
