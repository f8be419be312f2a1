"""`describe` of what Velero 1.11 to 1.18 has written: filters by scope, volumes, operations. (BEY 8.4)"""

import json
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.backup.describe import describe_backup
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import View
from pinnace.cli.main import run
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.describe_json import restore_as_json
from pinnace.cli.restore.description import DescribedRestore
from tests.support.stores import golden

DETAILED = View(details=True)
SNAPSHOT: JSONObject = {
    "backupMethod": "CSISnapshot",
    "restoreMethod": "CSISnapshot",
    "pvcNamespace": "shop",
    "pvcName": "data",
    "result": "succeeded",
    "csiSnapshotInfo": {"snapshotHandle": "h", "size": 5, "driver": "d", "vscName": "v"},
}
MOVED: JSONObject = {
    "backupMethod": "CSISnapshot",
    "restoreMethod": "CSISnapshot",
    "pvcNamespace": "shop",
    "pvcName": "moved",
    "snapshotDataMoved": True,
    "snapshotDataMovementInfo": {"uploaderType": "kopia", "snapshotHandle": "k", "operationID": "du-1"},
    "csiSnapshotInfo": {"snapshotHandle": "unknown"},
}
OPERATION: JSONObject = {
    "spec": {
        "restoreItemAction": "velero.io/csi-pvc-restorer",
        "operationID": "dd-1",
        "resourceIdentifier": {
            "Group": "",
            "Resource": "persistentvolumeclaims",
            "Namespace": "shop",
            "Name": "moved",
        },
    },
    "status": {
        "phase": "Failed",
        "error": "no space",
        "nCompleted": 3,
        "nTotal": 9,
        "operationUnits": "Bytes",
    },
}


def a_backup(**spec: object) -> JSONObject:
    return {"metadata": {"name": "b", "namespace": "velero"}, "spec": spec, "status": {"phase": "Completed"}}


def lines(text: str, title: str) -> list[str]:
    """The block below a title, without what follows it."""
    found = text.splitlines()
    start = found.index(title)
    end = next((n for n in range(start + 1, len(found)) if not found[n].strip()), len(found))
    return [" ".join(line.split()) for line in found[start + 1 : end]]


def test_filters_by_scope_stand_in_place_of_those_for_all_kinds() -> None:
    spec = {"includedNamespaceScopedResources": ["pods"], "excludedClusterScopedResources": ["nodes"]}

    text = describe_backup(a_backup(**spec), DescribedBackup(), View())

    assert lines(text, "Resources:") == [
        "Included cluster-scoped: <none>",
        "Excluded cluster-scoped: nodes",
        "Included namespace-scoped: pods",
        "Excluded namespace-scoped: <none>",
    ]
    assert "Cluster-scoped:  auto" not in text


@pytest.mark.parametrize(
    ("namespaces", "said"), [(["*"], "save only those that other objects need"), (["shop"], "auto")]
)
def test_a_backup_of_1_17_without_filters_says_which_cluster_scoped_objects_it_lacks(
    namespaces: list[str], said: str
) -> None:
    spec = {
        "includedNamespaces": namespaces,
        "excludedClusterScopedResources": ["volumesnapshotcontents.snapshot.storage.k8s.io"],
    }

    text = describe_backup(a_backup(**spec), DescribedBackup(), View())

    (line,) = [line for line in text.splitlines() if line.strip().startswith("Cluster-scoped:")]
    assert said in line
    assert ("Velero 1.17" in line) is (namespaces == ["*"])


@pytest.mark.found("S12")
def test_csi_snapshots_are_told_from_moved_data_and_volumes_without_data_are_named() -> None:
    skipped = {"pvName": "pv", "skipped": True, "skippedReason": "volumeSnapshot: no snapshotter;"}

    text = describe_backup(a_backup(), DescribedBackup(volume_infos=[SNAPSHOT, MOVED, skipped]), DETAILED)

    assert lines(text, "CSI Snapshots:") == [
        "shop/data:",
        "Snapshot:",
        "Snapshot Content Name: v",
        "Storage Snapshot ID: h",
        "Snapshot Size (bytes): 5",
        "CSI Driver: d",
        "Result: succeeded",
        "shop/moved:",
        "Data Movement:",
        "Operation ID: du-1",
        "Data Mover: velero",
        "Uploader Type: kopia",
        "Snapshot ID: k",
    ]
    assert lines(text, "Volumes without data in the backup:") == ["pv: volumeSnapshot: no snapshotter"]


def test_a_restore_shows_its_volumes_and_the_error_of_each_operation() -> None:
    restore = {"metadata": {"name": "r"}, "spec": {}, "status": {"phase": "PartiallyFailed"}}
    native = {
        "restoreMethod": "NativeSnapshot",
        "pvName": "pv",
        "pvcNamespace": "shop",
        "pvcName": "disk",
        "nativeSnapshotInfo": {"snapshotHandle": "snap-1", "volumeType": "gp2", "iops": "0"},
    }
    facts = DescribedRestore(volume_infos=[MOVED, native], operations=[OPERATION])

    text = describe_restore(restore, facts, DETAILED)

    assert lines(text, "CSI Snapshot Restores:")[:2] == ["shop/moved:", "Data Movement:"]
    assert "Snapshot ID: snap-1" in lines(text, "Velero-Native Snapshot Restores:")
    assert lines(text, "Restore Item Operations:") == [
        "Operation for persistentvolumeclaims shop/moved:",
        "Restore Item Action Plugin: velero.io/csi-pvc-restorer",
        "Operation ID: dd-1",
        "Phase: Failed",
        "Operation Error: no space",
        "Progress: 3 of 9 complete (Bytes)",
    ]
    as_json = restore_as_json(restore, facts)["status"]
    assert (as_json["restoreVolumes"], as_json["restoreItemOperations"]) == ([MOVED, native], [OPERATION])


@pytest.mark.parametrize(
    "hostile", [{}, {"skipped": True}, {**SNAPSHOT, "csiSnapshotInfo": [1]}, {"pvcName": 5}]
)
def test_a_hostile_record_of_a_volume_is_shown_without_a_crash(hostile: JSONObject) -> None:
    text = describe_backup(
        a_backup(), DescribedBackup(volume_infos=[hostile], operations=[hostile]), DETAILED
    )
    assert text.startswith("Name:")


@pytest.mark.parametrize("version", golden.VERSIONS)
def test_every_backup_of_velero_is_described_with_all_that_its_files_say(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket = golden.unpack(version, tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PINNACE_LOCATION", str(bucket))
    for folder in sorted((bucket / "backups").iterdir()):
        stored = json.loads((folder / "velero-backup.json").read_text())
        assert run(["backup", "describe", folder.name, "--details"]) == 0
        text = capsys.readouterr()
        assert text.err == ""
        assert f"Items backed up:              {stored['status']['progress']['itemsBackedUp']}" in text.out
        assert run(["backup", "describe", folder.name, "--details", "-o", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["phase"] == stored["status"]["phase"]
        assert found["status"]["resourceList"]
        volumes = found["status"]["backupVolumes"]
        if folder.name == "files":
            uploader = {"1.6.3": "restic", "1.16.2": "kopia"}.get(version)
            saved = volumes["podVolumeBackups"]
            assert (saved == "<none included>") is (uploader is None)
            assert uploader is None or saved["podVolumeBackupsDetails"] == {
                "Completed": [{"files/keeper": "data"}]
            }
        if folder.name == "everything" and version != "1.6.3":
            # 1.6.3 has no record of volumes that it did not save.
            assert "no applicable volumesnapshotter" in volumes["skippedVolumes"]["shop-data/archive"]


@pytest.mark.parametrize("policy", ["full", "incremental"])
def test_a_restore_says_what_it_does_with_the_data_of_claims_that_exist(policy: str) -> None:
    spec = {"existingVolumeDataPolicy": policy, "uploaderConfig": {"deleteExtraFiles": True}}
    restore: JSONObject = {"metadata": {"name": "r"}, "spec": {"backupName": "b", **spec}}

    shown = describe_restore(restore, DescribedRestore(), View())

    assert f"Existing Volume Data Policy:  {policy}" in shown
    assert "Delete Extra Files:  true" in shown
