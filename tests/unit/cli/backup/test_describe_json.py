"""Descriptions as JSON, in the shape of Velero 1.18. (docs/spec: BEY 8.3)"""

import json
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.backup.describe_json import backup_as_json
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import View
from pinnace.cli.restore.describe_json import restore_as_json
from pinnace.cli.restore.description import DescribedRestore
from pinnace.cli.restore.objects import restored_objects

HOOK = {
    "name": "h",
    "includedNamespaces": ["a"],
    "pre": [{"exec": {"container": "c", "command": ["sh", "-c"], "onError": "Fail", "timeout": "30s"}}],
}
BACKUP: JSONObject = {
    "metadata": {"name": "b", "namespace": "velero", "labels": {"l": "1"}},
    "spec": {
        "includedNamespaces": ["a", "b"],
        "storageLocation": "default",
        "ttl": "720h0m0s",
        "hooks": {"resources": [HOOK]},
        "orLabelSelectors": [{"matchLabels": {"x": "y"}}],
    },
    "status": {
        "phase": "PartiallyFailed",
        "formatVersion": "1.1.0",
        "errors": 1,
        "warnings": 2,
        "volumeSnapshotsAttempted": 1,
        "progress": {"totalItems": 3, "itemsBackedUp": 3},
    },
}
SNAPSHOT = {
    "spec": {"PersistentVolumeName": "pv", "volumeType": "gp2", "volumeAZ": "z", "volumeIOPS": None},
    "status": {"providerSnapshotID": "snap-1", "phase": "Completed"},
}
POD_VOLUME: JSONObject = {
    "spec": {"pod": {"namespace": "a", "name": "p"}, "volume": "data", "uploaderType": "kopia"},
    "status": {"phase": "Completed"},
}
CSI = {
    "backupMethod": "CSISnapshot",
    "pvcNamespace": "a",
    "pvcName": "c",
    "result": "succeeded",
    "csiSnapshotInfo": {"snapshotHandle": "h", "size": 5, "driver": "d", "vscName": "v", "operationID": "o"},
}


def described(view: View, **facts: Any) -> JSONObject:
    found: JSONObject = json.loads(json.dumps(backup_as_json(BACKUP, DescribedBackup(**facts), view)))
    return found


@pytest.mark.spec("BEY-070")
def test_a_backup_of_1_6_has_the_error_in_place_of_its_resource_list_and_the_misspelt_keys() -> None:
    found = described(
        View(details=True), resource_list="<backup resource list not found>", pod_volume_backups=[POD_VOLUME]
    )

    assert "resourceList" not in found["status"]
    assert found["status"]["errorGettingResourceList"] == "<backup resource list not found>"
    volumes = found["status"]["backupVolumes"]["podVolumeBackups"]
    assert volumes["uploderType"] == volumes["uploaderType"] == "kopia"
    assert volumes["podVolumeBackupsDetails"] == {"Completed": [{"a/p": "data"}]}
    hook = found["spec"]["hooks"]["resources"]["h"]
    assert hook["namespaces"] == {"included": "a", "excluded": "<none>"}
    assert hook["preExecHook"] == [
        {"container": "c", "command": "sh -c", "onError:": "Fail", "onError": "Fail", "timeout": "30s"}
    ]


@pytest.mark.found("S12")
@pytest.mark.parametrize("details", [True, False])
def test_the_key_of_volumes_in_progress_is_that_of_velero(details: bool) -> None:
    running = {**POD_VOLUME, "status": {**POD_VOLUME["status"], "phase": "InProgress"}}
    volumes = described(View(details=details), pod_volume_backups=[running])["status"]["backupVolumes"]
    assert "In Progress" in volumes["podVolumeBackups"]["podVolumeBackupsDetails"]


def test_lists_are_joined_and_unset_fields_are_shown() -> None:
    found = described(View())
    spec = found["spec"]
    assert spec["namespaces"] == {"included": "a, b", "excluded": "<none>"}
    assert spec["resources"] == {"included": "*", "excluded": "<none>", "clusterScoped": "auto"}
    assert spec["veleroNativeSnapshotPVs"] == "auto"
    assert spec["orLabelSelectors"] == ["x=y"]
    assert found["errors"] == {"count": 1}
    assert found["warnings"] == {"count": 2}
    assert found["status"]["started"] == "<n/a>"
    assert found["status"]["backupVolumes"] == {
        "nativeSnapshots": "included, specify --details for more information",
        "csiSnapshots": "<none included or not detectable>",
        "podVolumeBackups": "<none included>",
    }


@pytest.mark.found("X6")
@pytest.mark.parametrize(
    ("errors", "warnings", "expected"),
    [
        (2, 0, {"errors": {"velero": [], "cluster": [], "namespace": []}, "warnings": {}}),
        (0, 3, {"warnings": {"velero": [], "cluster": [], "namespace": []}, "errors": {}}),
        (0, 0, {}),
    ],
)
def test_both_results_are_there_if_one_is(errors: int, warnings: int, expected: JSONObject) -> None:
    backup = {**BACKUP, "status": {**BACKUP["status"], "errors": errors, "warnings": warnings}}
    results: JSONObject = {"errors": {}, "warnings": {}}

    found = backup_as_json(backup, DescribedBackup(results=results), View())

    assert {key: found[key] for key in ("errors", "warnings") if key in found} == expected


@pytest.mark.found("X6")
def test_hooks_that_were_not_there_are_counted_as_none() -> None:
    """`hookStatus: {}` is what Velero writes into each Backup without hooks."""
    for status in (BACKUP["status"], {**BACKUP["status"], "hookStatus": {}}):
        found = backup_as_json({**BACKUP, "status": status}, DescribedBackup(), View())["status"]
        assert (found["hooksAttempted"], found["hooksFailed"]) == (0, 0)


@pytest.mark.found("X6")
def test_a_backup_that_records_its_volumes_says_for_sure_that_it_has_no_csi_snapshot() -> None:
    volumes = described(View(), records_volumes=True)["status"]["backupVolumes"]
    assert volumes["csiSnapshots"] == "<none included>"


def test_kept_messages_and_volumes_are_shown() -> None:
    results = {"errors": {"namespaces": {"a": ["no"]}}, "warnings": {"velero": ["one"], "cluster": ["two"]}}
    found = described(View(details=True), results=results, snapshots=[SNAPSHOT], volume_infos=[CSI])
    assert found["errors"] == {"velero": [], "cluster": [], "namespace": {"a": ["no"]}}
    assert found["warnings"] == {"velero": ["one"], "cluster": ["two"], "namespace": []}
    assert found["status"]["backupVolumes"]["nativeSnapshots"] == {
        "pv": {
            "snapshotID": "snap-1", "type": "gp2", "availabilityZone": "z", "IOPS": "<N/A>",
            "result": "succeeded",
        }
    }  # fmt: skip
    assert found["status"]["backupVolumes"]["csiSnapshots"] == {
        "a/c": {
            "snapshot": {
                "operationID": "o", "snapshotContentName": "v", "storageSnapshotID": "h",
                "snapshotSize(bytes)": 5, "csiDriver": "d", "result": "succeeded",
            }
        }
    }  # fmt: skip


FAILED = {
    "spec": {"pod": {"namespace": "a", "name": "p"}, "volume": "logs", "uploaderType": "kopia"},
    "status": {"phase": "Failed", "message": "the disk is full"},
}


@pytest.mark.parametrize("details", [True, False])
def test_errors_of_pod_volumes_are_shown_with_and_without_details(details: bool) -> None:
    saved = described(View(details=details), pod_volume_backups=[POD_VOLUME, FAILED])
    restored = restore_as_json({}, DescribedRestore(pod_volume_restores=[FAILED, POD_VOLUME]))

    assert saved["status"]["backupVolumes"]["podVolumeBackups"]["messages"] == {
        "a/p/logs": "the disk is full"
    }
    assert restored["status"]["podVolumeRestoreMessages"] == {"a/p/logs": "the disk is full"}


def test_errors_of_moved_data_are_shown_with_its_volume() -> None:
    moved = {**CSI, "snapshotDataMoved": True, "snapshotDataMovementInfo": {"operationID": "du-1"}}
    operation = {"spec": {"operationID": "du-1"}, "status": {"phase": "Failed", "error": "no node agent"}}
    found = described(View(details=True), volume_infos=[moved], operations=[operation])
    restored = restore_as_json({}, DescribedRestore(operations=[operation]))

    movement = found["status"]["backupVolumes"]["csiSnapshots"]["a/c"]["dataMovement"]
    assert movement["message"] == "no node agent"
    assert restored["status"]["restoreItemOperations"] == [operation]


def test_a_restore_has_its_objects_with_their_outcomes() -> None:
    details = {
        "counts": {"failed": 1},
        "groups": [{"outcome": "failed", "reason": "quota", "objects": {"v1/Secret": ["ns/s"]}}],
    }
    restore = {
        "metadata": {"name": "r"},
        "spec": {"backupName": "b", "existingResourcePolicy": "update"},
        "status": {"phase": "PartiallyFailed", "errors": 1},
    }
    facts = DescribedRestore(
        results={"errors": {"namespaces": {"ns": ["no"]}}},
        objects=restored_objects({"v1/Secret": ["ns/s(failed)"]}, details),
    )

    found = restore_as_json(restore, facts)

    assert found["spec"]["existingResourcePolicy"] == "update"
    assert found["errors"] == {"velero": [], "cluster": [], "namespace": {"ns": ["no"]}}
    assert found["status"]["objects"] == {"failed": 1}
    assert found["status"]["resourceList"] == {"v1/Secret": ["ns/s(failed: quota)"]}


@pytest.mark.parametrize(("phase", "shown"), [("InProgress", True), ("Completed", False)])
def test_the_activity_of_the_server_is_shown_while_the_backup_runs(phase: str, shown: bool) -> None:
    activity = {"hooks": ["shop/db freeze"], "uploadBytes": 5}
    status = {**BACKUP["status"], "phase": phase, "activity": activity}
    backup = backup_as_json({**BACKUP, "status": status}, DescribedBackup(), View(program="pinnace"))
    restore = restore_as_json({"metadata": BACKUP["metadata"], "status": status}, DescribedRestore())

    for made in (backup, restore):
        assert made["status"].get("activity") == (activity if shown else None)
