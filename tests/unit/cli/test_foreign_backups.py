"""Backups that version 1.18 wrote into a location: `get`, `describe` and `logs` show all that is in them."""

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.cli.common.describing import View
from pinnace.cli.main import run
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.description import DescribedRestore

Printed = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def location(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty location, which all commands of the test use."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / "location"
    monkeypatch.setenv("PINNACE_LOCATION", str(folder))
    return folder


def files_of_a_restore(location: Path) -> None:
    folder = location / "restores/copy"
    folder.mkdir(parents=True)
    (location / "backups").mkdir()
    (folder / "restore-copy-logs.gz").write_bytes(gzip.compress(b"what happened\n"))


def test_a_restore_without_record_is_named_and_its_log_is_shown(location: Path, capsys: Printed) -> None:
    files_of_a_restore(location)

    assert run(["restore", "get"]) == 0
    said = capsys.readouterr().err
    assert "files of 1 restore without a readable record, such as those of a restore that a server" in said
    assert "killed: copy" in said
    assert run(["restore", "describe", "copy"]) == 1
    said = capsys.readouterr().err
    assert "has files of that restore without its record" in said
    assert "`pinnace restore delete copy` deletes them" in said
    assert "did you mean" not in said
    assert run(["restore", "logs", "copy"]) == 0
    assert capsys.readouterr().out == "what happened\n"
    assert run(["restore", "delete", "copy", "--confirm"]) == 0
    assert not (location / "restores/copy").exists()


def test_a_restore_without_record_or_log_has_no_log_to_show(location: Path, capsys: Printed) -> None:
    files_of_a_restore(location)
    folder = location / "restores/copy"
    (folder / "restore-copy-logs.gz").rename(folder / "restore-copy-results.gz")

    assert run(["restore", "logs", "copy"]) == 1
    assert "deletes them, but it has no log" in capsys.readouterr().err


def backup(name: str, **status: Any) -> JSONObject:
    return {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {
            "name": name,
            "namespace": "velero",
            "creationTimestamp": "2024-05-06T07:08:09Z",
            "annotations": {"velero.io/resource-timeout": "10m0s"},
        },
        "spec": {
            "metadata": {},
            "ttl": "720h0m0s",
            "includedNamespaces": ["*"],
            "includedClusterScopedResources": ["storageclasses", "persistentvolumes"],
            "excludedNamespaceScopedResources": ["events"],
            "orLabelSelectors": [{"matchLabels": {"app": "web"}}, {"matchLabels": {"app": "db"}}],
            "hooks": {},
            "storageLocation": "default",
            "defaultVolumesToFsBackup": False,
            "csiSnapshotTimeout": "10m0s",
            "itemOperationTimeout": "4h0m0s",
            "snapshotMoveData": True,
            "datamover": "velero",
            "uploaderConfig": {"parallelFilesUpload": 10},
            "resourcePolicy": {"kind": "configmap", "name": "policy"},
        },
        "status": {
            "version": 1,
            "formatVersion": "1.1.0",
            "phase": "Completed",
            "startTimestamp": "2024-05-06T07:08:09Z",
            "completionTimestamp": "2024-05-06T07:09:10Z",
            "expiration": "2124-06-05T07:08:09Z",
            "progress": {"totalItems": 6, "itemsBackedUp": 6},
            "hookStatus": {"hooksAttempted": 3, "hooksFailed": 1},
            "backupItemOperationsAttempted": 2,
            "backupItemOperationsCompleted": 1,
            "backupItemOperationsFailed": 1,
            "csiVolumeSnapshotsAttempted": 1,
            "csiVolumeSnapshotsCompleted": 1,
            **status,
        },
    }


def volume(name: str, phase: str, uploader: str) -> JSONObject:
    return {
        "kind": "PodVolumeBackup",
        "apiVersion": "velero.io/v1",
        "metadata": {"name": f"b-{name}"},
        "spec": {
            "node": "n",
            "pod": {"kind": "Pod", "namespace": "shop", "name": "db-0"},
            "volume": name,
            "backupStorageLocation": "default",
            "repoIdentifier": "" if uploader else "s3:x/shop",
            "uploaderType": uploader,
        },
        "status": {"phase": phase, "snapshotID": "0" * 32},
    }


def store(location: Path, stored: JSONObject, **files: Any) -> None:
    """Put a backup into the location, with files as JSON by their kind."""
    name = stored["metadata"]["name"]
    folder = location / "backups" / name
    folder.mkdir(parents=True)
    (folder / "velero-backup.json").write_text(json.dumps(stored))
    (folder / f"{name}-logs.gz").write_bytes(gzip.compress(b"a line\n"))
    for kind, content in files.items():
        path = folder / f"{name}-{kind.replace('_', '-')}.json.gz"
        path.write_bytes(gzip.compress(json.dumps(content).encode()))


DESCRIPTION = """\
Name:         new
Namespace:    velero
Labels:       <none>
Annotations:  velero.io/resource-timeout=10m0s

Phase:  Completed

Errors:    0
Warnings:  0

Namespaces:
  Included:  *
  Excluded:  <none>

Resources:
  Included cluster-scoped:    storageclasses, persistentvolumes
  Excluded cluster-scoped:    <none>
  Included namespace-scoped:  *
  Excluded namespace-scoped:  events

Label selector:  <none>

Or label selector:  app=web or app=db

Storage Location:  default

Velero-Native Snapshot PVs:  auto

TTL:  720h0m0s

Hooks:  <none>

Resource policies:
  Type:  configmap
  Name:  policy

Uploader config:
  Parallel files upload:  10

File System Backup (Default):  false

Snapshot Move Data:  true

Data Mover:  velero

CSISnapshotTimeout:  10m0s

ItemOperationTimeout:  4h0m0s

Backup Format Version:  1.1.0

Started:    2024-05-06 07:08:09 +0000 UTC
Completed:  2024-05-06 07:09:10 +0000 UTC

Expiration:  2124-06-05 07:08:09 +0000 UTC

Total items to be backed up:  6
Items backed up:              6

Resource List:
  v1/Secret:
    - shop/password

Velero-Native Snapshots: <none included>

Restic Backups:
  Completed:
    shop/db-0: old

Pod Volume Backups - kopia:
  Completed:
    shop/db-0: data
  Canceled:
    shop/db-0: logs, tmp

CSI Snapshots:  1 of 1 completed successfully, 0 failed

Backup Item Operations:  1 of 2 completed successfully, 1 failed

HooksAttempted:  3

HooksFailed:  1
"""


def test_a_description_is_as_expected_byte_for_byte(location: Path, capsys: Printed) -> None:
    volumes = [
        volume("tmp", "Canceled", "kopia"),
        volume("data", "Completed", "kopia"),
        volume("old", "Completed", ""),
        volume("logs", "Canceled", "kopia"),
    ]
    lists = {"resource_list": {"v1/Secret": ["shop/password"]}, "podvolumebackups": volumes}
    store(location, backup("new"), **lists, volumeinfo=[], itemoperations=None)

    assert run(["backup", "describe", "new", "--details"]) == 0
    assert capsys.readouterr() == (DESCRIPTION, "")
    assert run(["backup", "describe", "new"]) == 0
    short = capsys.readouterr().out
    assert "Pod Volume Backups - kopia (specify --details for more information):\n  Completed:  1\n" in short
    assert "\n  Canceled:   2\n" in short


@pytest.mark.spec("CLI-022")
def test_csi_snapshots_of_a_stored_backup_are_described(location: Path, capsys: Printed) -> None:
    contents = [{"metadata": {"name": "vsc-1"}, "status": {"snapshotHandle": "h-1", "readyToUse": True}}]
    store(location, backup("old"), csi_volumesnapshotcontents=contents)
    store(location, backup("none"), csi_volumesnapshotcontents=None)

    words = ["backup", "describe", "old", "--features", "EnableCSI"]
    assert run(words) == 0
    assert "CSI Volume Snapshots:  1 included (specify --details" in capsys.readouterr().out
    assert run([*words, "--details"]) == 0
    assert "CSI Volume Snapshots:\nSnapshot Content Name: vsc-1\n  Storage Snapshot ID: h-1\n" in (
        capsys.readouterr().out
    )
    assert run(["backup", "describe", "none", "--features", "EnableCSI"]) == 0
    assert "CSI Volume Snapshots: <none included>" in capsys.readouterr().out


FOREIGN = "a phase of a later version of Velero; only a server of that version can continue"
PHASES = (
    "Queued",
    "ReadyToStart",
    "WaitingForPluginOperations",
    "WaitingForPluginOperationsPartiallyFailed",
    "Finalizing",
    "FinalizingPartiallyFailed",
    "OfTheNextVersion",
)


@pytest.mark.spec("BEY-073")
def test_unknown_phases_and_the_queue_are_listed(location: Path, capsys: Printed) -> None:
    for phase in PHASES:
        store(location, backup(phase.lower(), phase=phase, queuePosition=2 if phase == "Queued" else 0))

    assert run(["backup", "get"]) == 0

    header, *rows = capsys.readouterr().out.splitlines()
    assert header.endswith("STORAGE LOCATION   QUEUE POSITION   SELECTOR")
    assert {row.split()[1] for row in rows} == set(PHASES)
    start = header.index("QUEUE POSITION")
    assert {row.split()[1]: row[start : start + 17].strip() for row in rows} == {
        phase: "2" if phase == "Queued" else "" for phase in PHASES
    }
    assert run(["backup", "get", "finalizing"]) == 0
    assert "QUEUE" not in capsys.readouterr().out
    assert run(["backup", "describe", "queued"]) == 0
    assert "Phase:  Queued\n\nQueue position:  2\n" in capsys.readouterr().out


@pytest.mark.parametrize("phase", PHASES)
def test_the_log_is_there_once_the_objects_are_stored(location: Path, capsys: Printed, phase: str) -> None:
    store(location, backup("b", phase=phase))
    stored = phase.startswith(("Waiting", "Finalizing"))

    assert run(["backup", "logs", "b"]) == (0 if stored else 1)
    said = capsys.readouterr().err
    assert ("are not available until it's finished processing" in said) == (not stored)
    assert run(["backup", "describe", "b"]) == 0
    shown = capsys.readouterr().out
    assert (f"Phase:  {phase} ({FOREIGN})" in shown) == stored
    hint = "(run `pinnace backup logs b` for more information)" in shown
    assert hint == phase.endswith("Failed")


def test_logs_of_a_refused_backup_says_why_there_is_none(location: Path, capsys: Printed) -> None:
    refused = backup("b", phase="FailedValidation")
    refused["status"]["validationErrors"] = ["no such location", "bad selector"]
    store(location, refused)

    assert run(["backup", "logs", "b"]) == 1
    assert capsys.readouterr().err == (
        'Backup "b" was refused and has no log: no such location; bad selector\n'
    )


@pytest.mark.parametrize(
    ("file", "content", "shown"),
    [
        ("podvolumebackups", [{"spec": {"pod": 1}}], "error getting PodVolumeBackups for backup b: "),
        ("csi_volumesnapshotcontents", [{"metadata": {}}], "error getting VolumeSnapshotContent objects"),
        ("resource_list", {"v1/Pod": 3}, "<error reading backup resource list: not an object of arrays"),
        ("resource_list", [1], "<error reading backup resource list: not an object of arrays"),
        ("volumesnapshots", [3], "<error reading snapshot info: not a JSON array of objects>"),
        ("volumesnapshots", [{"spec": 3}], "<error reading snapshot info: not an array of snapshots>"),
    ],
)
def test_a_broken_file_is_reported_and_the_rest_is_shown(
    location: Path, capsys: Printed, file: str, content: Any, shown: str
) -> None:
    store(location, backup("b", volumeSnapshotsAttempted=1), **{file: content})

    assert run(["backup", "describe", "b", "--details", "--features", "EnableCSI"]) == 0
    assert shown in "".join(capsys.readouterr())


STRANGE: tuple[Any, ...] = (1, "text", True, [1], [[]], {"a": {"b": [1]}}, [{"matchLabels": 3}])


@pytest.mark.parametrize("strange", STRANGE, ids=json.dumps)
def test_fields_of_later_versions_may_hold_any_value(location: Path, capsys: Printed, strange: Any) -> None:
    stored = backup("b")
    for part in ("spec", "status"):
        known = {"version", "formatVersion", "phase", "progress", "expiration", "hooks", "ttl"}
        known |= {"startTimestamp", "completionTimestamp", "includedNamespaces", "storageLocation"}
        known |= {
            "csiSnapshotTimeout",
            "itemOperationTimeout",
            "metadata",
            "defaultVolumesToFsBackup",
            "orLabelSelectors",
        }
        known |= {"includedClusterScopedResources", "excludedClusterScopedResources"}
        known |= {"includedNamespaceScopedResources", "excludedNamespaceScopedResources"}
        known |= {"resourcePolicy", "uploaderConfig", "hookStatus", "snapshotMoveData", "datamover"}
        known |= {f"backupItemOperations{which}" for which in ("Attempted", "Completed", "Failed")}
        known |= {f"csiVolumeSnapshots{which}" for which in ("Attempted", "Completed")}
        stored[part].update(dict.fromkeys(stored[part].keys() - known, strange))
        stored[part]["unknown"] = strange
    store(location, stored)

    assert run(["backup", "get"]) == 0
    assert run(["backup", "describe", "b"]) == 0
    assert "Traceback" not in "".join(capsys.readouterr())


@pytest.mark.spec("AFT-059")
def test_a_restore_of_a_later_version_is_described() -> None:
    restore = {
        "metadata": {"name": "r1", "namespace": "velero"},
        "spec": {
            "backupName": "b1",
            "existingResourcePolicy": "update",
            "restoreStatus": {"includedResources": ["jobs"], "excludedResources": None},
            "resourceModifier": {"kind": "configmap", "name": "patches"},
            "resourcePolicy": {"kind": "configmap", "name": "filters"},
            "uploaderConfig": {"writeSparseFiles": True, "parallelFilesDownload": 2},
            "itemOperationTimeout": "4h0m0s",
        },
        "status": {
            "phase": "FinalizingPartiallyFailed",
            "restoreItemOperationsAttempted": 2,
            "hookStatus": {"hooksAttempted": 1},
        },
    }
    text = describe_restore(restore, DescribedRestore(), View())

    hint = "(run 'pinnace restore logs r1' for more information)"
    assert f"Phase:  FinalizingPartiallyFailed ({FOREIGN}) {hint}" in text
    assert text.endswith("""\
Preserve Service NodePorts:  auto

Existing Resource Policy:  update

Restore Status:
  Excluded:  <none>
  Included:  jobs

Resource modifier:
  Type:  configmap
  Name:  patches

Resource policies:
  Type:  configmap
  Name:  filters

Uploader config:
  Parallel Restore:    2
  Write Sparse Files:  true

ItemOperationTimeout:  4h0m0s

Restore Item Operations:  0 of 2 completed successfully, 0 failed

HooksAttempted:  1""")


@pytest.mark.spec("BEY-070")
def test_json_is_for_one_backup_and_other_formats_are_refused(location: Path, capsys: Printed) -> None:
    for name in ("a", "b"):
        store(location, backup(name, phase="Completed"))

    assert run(["backup", "describe", "a", "--details", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "resourceList" not in found["status"]
    assert found["status"]["errorGettingResourceList"] == "<backup resource list not found>"
    assert run(["backup", "describe", "a", "b", "-o", "json"]) == 0
    printed = capsys.readouterr()
    assert printed.out.count("Name:         ") == 2
    assert "2 backups are described as text" in printed.err
    assert run(["backup", "describe", "a", "-o", "yaml"]) != 0
    assert "invalid output format 'yaml'. valid value are 'plaintext, json'" in capsys.readouterr().err
