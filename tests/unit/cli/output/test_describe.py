"""The descriptions, byte for byte against the samples of the specification."""

import textwrap
from pathlib import Path
from typing import Any

import pytest

from pinnace.cli.backup.describe import describe_backup
from pinnace.cli.backup.description import DescribedBackup
from pinnace.cli.common.describing import View
from pinnace.cli.main import run
from pinnace.cli.output.layout import align
from pinnace.cli.restore.describe import describe_restore
from pinnace.cli.restore.description import DescribedRestore
from pinnace.kube.resources import VOLUME_SNAPSHOT_CONTENTS, velero
from tests.unit.cli.cluster import connected


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Any:
    import time

    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


PLAIN = View(program="velero")
DETAILED = View(program="velero", details=True)


def sample(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


def nginx_backup(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "nginx-backup",
            "namespace": "velero",
            "labels": {"velero.io/storage-location": "default"},
            "annotations": {
                "velero.io/source-cluster-k8s-minor-version": "21",
                "velero.io/source-cluster-k8s-gitversion": "v1.21.1",
                "velero.io/source-cluster-k8s-major-version": "1",
            },
        },
        "spec": {
            "includedNamespaces": ["nginx"],
            "labelSelector": {"matchLabels": {"app": "nginx"}},
            "storageLocation": "default",
            "ttl": "720h0m0s",
            "hooks": {},
        },
        "status": {
            "phase": "PartiallyFailed",
            "errors": 1,
            "formatVersion": "1.1.0",
            "startTimestamp": "2021-08-11T21:43:26Z",
            "completionTimestamp": "2021-08-11T21:43:56Z",
            "expiration": "2021-09-10T21:43:26Z",
            "progress": {"totalItems": 17, "itemsBackedUp": 17},
            **status,
        },
    }


def pod_volume(phase: str, pod: str = "a", volume: str = "data", **progress: int) -> dict[str, Any]:
    return {
        "metadata": {"name": f"{pod}-{volume}"},
        "spec": {
            "pod": {"namespace": "nginx", "name": pod},
            "volume": volume,
            "repoIdentifier": "s3:x/nginx",
        },
        "status": {"phase": phase, "progress": progress},
    }


BACKUP_SAMPLE = sample("""
    Name:         nginx-backup
    Namespace:    velero
    Labels:       velero.io/storage-location=default
    Annotations:  velero.io/source-cluster-k8s-gitversion=v1.21.1
                  velero.io/source-cluster-k8s-major-version=1
                  velero.io/source-cluster-k8s-minor-version=21

    Phase:  PartiallyFailed (run `velero backup logs nginx-backup` for more information)

    Errors:    1
    Warnings:  0

    Namespaces:
      Included:  nginx
      Excluded:  <none>

    Resources:
      Included:        *
      Excluded:        <none>
      Cluster-scoped:  auto

    Label selector:  app=nginx

    Storage Location:  default

    Velero-Native Snapshot PVs:  auto

    TTL:  720h0m0s

    Hooks:  <none>

    Backup Format Version:  1.1.0

    Started:    2021-08-11 21:43:26 +0000 UTC
    Completed:  2021-08-11 21:43:56 +0000 UTC

    Expiration:  2021-09-10 21:43:26 +0000 UTC

    Total items to be backed up:  17
    Items backed up:              17

    Velero-Native Snapshots: <none included>

    Restic Backups (specify --details for more information):
      Completed:    2
      In Progress:  1
    """)


@pytest.mark.spec("CLI-019")
def test_a_description_has_the_size_of_the_tarball_if_it_is_known() -> None:
    with_size = describe_backup(nginx_backup(), DescribedBackup(tarball_bytes=3 << 20), PLAIN)
    assert "Size of the tarball:" in with_size
    assert with_size.split("Size of the tarball:")[1].split("\n")[0].strip() == "3.0 MiB"
    assert "Size of the tarball" not in describe_backup(nginx_backup(), DescribedBackup(), PLAIN)


def test_a_backup_is_described_as_in_the_specification() -> None:
    volumes = [pod_volume("Completed"), pod_volume("Completed", "b"), pod_volume("InProgress", "c")]
    assert (
        describe_backup(nginx_backup(), DescribedBackup(pod_volume_backups=volumes), PLAIN) == BACKUP_SAMPLE
    )


def test_details_of_a_backup_are_described_as_in_the_specification() -> None:
    facts = DescribedBackup(
        resource_list={"v1/Pod": ["nginx/a", "nginx/b"], "apps/v1/Deployment": ["nginx/nginx"]},
        snapshots=[
            {
                "spec": {"PersistentVolumeName": "pvc-1", "volumeType": "gp2", "volumeAZ": "us-east-1a"},
                "status": {"providerSnapshotID": "snap-1", "phase": "Completed"},
            }
        ],
        delete_requests=[
            {
                "metadata": {"creationTimestamp": "2021-08-12T00:00:00Z"},
                "status": {"phase": "Processed", "errors": ["boom"]},
            }
        ],
        csi_contents=[
            {
                "metadata": {"name": "vsc-1"},
                "status": {"snapshotHandle": "h-1", "restoreSize": 1073741824, "readyToUse": True},
            }
        ],
        pod_volume_backups=[
            pod_volume("Completed", "a", "logs"),
            pod_volume("Completed", "a", "data"),
            pod_volume("InProgress", "b", "data", totalBytes=4, bytesDone=2),
        ],
    )
    text = describe_backup(nginx_backup(volumeSnapshotsAttempted=1), facts, View(details=True, csi=True))
    expected = sample("""
        Resource List:
          apps/v1/Deployment:
            - nginx/nginx
          v1/Pod:
            - nginx/a
            - nginx/b

        Velero-Native Snapshots:
          pvc-1:
            Snapshot ID:        snap-1
            Type:               gp2
            Availability Zone:  us-east-1a
            IOPS:               <N/A>

        Deletion Attempts (1 failed):
          2021-08-12 00:00:00 +0000 UTC: Processed
          Errors:
            boom

        CSI Volume Snapshots:
        Snapshot Content Name: vsc-1
          Storage Snapshot ID: h-1
          Snapshot Size (bytes): 1073741824
          Ready to use: true

        Restic Backups:
          Completed:
            nginx/a: data, logs
          In Progress:
            nginx/b: data (50.00%)
        """)
    assert text.endswith(expected)


def test_details_have_the_reasons_of_volumes_that_wait_or_failed() -> None:
    waiting, failed = pod_volume("New"), pod_volume("Failed", "b")
    waiting["status"]["message"] = "no node agent runs on the node n1"
    failed["status"]["message"] = "disk full"
    facts = DescribedBackup(pod_volume_backups=[waiting, failed, pod_volume("Completed", "c")])

    text = describe_backup(nginx_backup(), facts, DETAILED)

    assert text.endswith(
        sample("""
        Restic Backups:
          Completed:
            nginx/c: data
          Failed:
            nginx/b: data
              data: disk full
          New:
            nginx/a: data
              data: no node agent runs on the node n1
        """)
    )


def test_hooks_show_their_own_lists() -> None:
    backup = nginx_backup()
    backup["spec"]["hooks"] = {
        "resources": [
            {
                "name": "my-hook",
                "includedNamespaces": ["nginx"],
                "includedResources": ["pods"],
                "pre": [
                    {
                        "exec": {
                            "container": "fsfreeze",
                            "command": ["/sbin/fsfreeze", "--freeze", "/var/log/nginx"],
                            "onError": "Fail",
                            "timeout": "30s",
                        }
                    }
                ],
            }
        ]
    }
    expected = sample("""
        Hooks:
          Resources:
            my-hook:
              Namespaces:
                Included:  nginx
                Excluded:  <none>

              Resources:
                Included:  pods
                Excluded:  <none>

              Label selector:  <none>

              Pre Exec Hook:
                Container:  fsfreeze
                Command:    /sbin/fsfreeze --freeze /var/log/nginx
                On Error:   Fail
                Timeout:    30s
        """)
    assert expected in describe_backup(backup, DescribedBackup(), PLAIN)


@pytest.mark.spec("CLI-020", "CLI-047")
@pytest.mark.parametrize(
    ("status", "shown"), [({"progress": {}}, True), ({"progress": None}, False), ({}, False)]
)
def test_progress_without_numbers_is_that_of_no_items(status: dict[str, Any], shown: bool) -> None:
    backup = nginx_backup()
    del backup["status"]["progress"]
    backup["status"].update(status)

    text = describe_backup(backup, DescribedBackup(), View())

    assert ("Total items to be backed up:  0\nItems backed up:              0\n" in text) == shown
    assert ("Items backed up" in text) == shown


ACTIVITY = {
    "resources": [{"name": "secrets", "itemsDone": 3, "totalItems": 500}],
    "hooks": ["shop/db freeze"],
    "uploadBytes": 4096,
    "uploadedBytes": 1024,
}
NOW = ["Now:", "  secrets: 3 of at least 500", "  hook: shop/db freeze", "  uploading: 1.0 KiB of 4.0 KiB"]


@pytest.mark.parametrize(("phase", "shown"), [("InProgress", True), ("Completed", False)])
def test_the_activity_of_a_server_is_shown_only_while_the_run_is_in_progress(phase: str, shown: bool) -> None:
    status = {"phase": phase, "activity": ACTIVITY}
    described = (
        describe_backup(nginx_backup(**status), DescribedBackup(), PLAIN),
        describe_restore(restore_object(**status), DescribedRestore(), PLAIN),
    )
    for text in described:
        lines = text.splitlines()
        assert [line for line in NOW if line in lines] == (NOW if shown else [])


def test_a_new_backup_has_placeholders() -> None:
    text = describe_backup({"metadata": {"name": "b", "namespace": "velero"}}, DescribedBackup(), PLAIN)
    lines = text.splitlines()
    assert "Phase:  New" in lines
    assert "Storage Location:  " in lines
    assert "Backup Format Version:  " in lines
    assert "Started:    <n/a>" in lines
    assert "Expiration:  <nil>" in lines


@pytest.mark.spec("CLI-021")
@pytest.mark.parametrize(
    ("volume", "shown"),
    [
        (pod_volume("", "p"), "New:\n    nginx/p: data"),
        (pod_volume("New", "p"), "New:\n    nginx/p: data"),
        (pod_volume("InProgress", "p", totalBytes=4, bytesDone=1), "nginx/p: data (25.00%)"),
        (pod_volume("InProgress", "p", totalBytes=0, bytesDone=0), "nginx/p: data"),
        (pod_volume("InProgress", "p", totalBytes=0, bytesDone=7), "nginx/p: data"),
    ],
)
def test_a_running_pod_volume_has_a_percentage(volume: dict[str, Any], shown: str) -> None:
    text = describe_backup(nginx_backup(), DescribedBackup(pod_volume_backups=[volume]), DETAILED)
    assert text.endswith(shown)


@pytest.mark.spec("CLI-022")
def test_snapshots_of_the_cluster_are_shown_only_with_the_feature() -> None:
    assert "CSI" not in describe_backup(nginx_backup(), DescribedBackup(), PLAIN)
    assert describe_backup(nginx_backup(), DescribedBackup(), View(csi=True)).endswith(
        "CSI Volume Snapshots: <none included>"
    )


def restore_object(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "r1", "namespace": "velero"},
        "spec": {
            "backupName": "b1",
            "includedNamespaces": ["*"],
            "excludedResources": [
                "nodes",
                "events",
                "events.events.k8s.io",
                "backups.velero.io",
                "restores.velero.io",
                "resticrepositories.velero.io",
            ],
            "namespaceMapping": {"c": "d", "a": "b"},
        },
        "status": {
            "phase": "PartiallyFailed",
            "startTimestamp": "2021-08-11T21:43:26Z",
            "completionTimestamp": "2021-08-11T21:43:56Z",
            "warnings": 3,
            "errors": 1,
            "progress": {"totalItems": 17, "itemsRestored": 17},
            **status,
        },
    }


RESTORE_SAMPLE = sample("""
    Name:         r1
    Namespace:    velero
    Labels:       <none>
    Annotations:  <none>

    Phase:                       PartiallyFailed (run 'velero restore logs r1' for more information)
    Total items to be restored:  17
    Items restored:              17

    Started:    2021-08-11 21:43:26 +0000 UTC
    Completed:  2021-08-11 21:43:56 +0000 UTC

    Warnings:
      Velero:     <none>
      Cluster:  w0
      Namespaces:
        ns1:  w1
              w2

    Errors:
      Velero:   e1
      Cluster:    <none>
      Namespaces: <none>

    Backup:  b1

    Namespaces:
      Included:  all namespaces found in the backup
      Excluded:  <none>

    Resources:
      Included:        *
      Excluded:        nodes, events, events.events.k8s.io, backups.velero.io, restores.velero.io, resticrepositories.velero.io
      Cluster-scoped:  auto

    Namespace mappings:  a=b
                         c=d

    Label selector:  <none>

    Restore PVs:  auto

    Restic Restores (specify --details for more information):
      Completed:  2

    Preserve Service NodePorts:  auto
    """)  # noqa: E501


@pytest.mark.spec("CLI-019", "CLI-051")
def test_a_restore_is_described_as_in_the_specification() -> None:
    facts = DescribedRestore(
        results={
            "warnings": {"cluster": ["w0"], "namespaces": {"ns1": ["w1", "w2"]}},
            "errors": {"velero": ["e1"]},
        },
        pod_volume_restores=[pod_volume("Completed"), pod_volume("Completed", "b")],
    )
    assert describe_restore(restore_object(), facts, PLAIN) == RESTORE_SAMPLE


@pytest.mark.spec("CLI-023", "CLI-051")
def test_unreadable_results_are_shown_as_an_error() -> None:
    text = describe_restore(restore_object(errors=0), DescribedRestore(results="file not found"), PLAIN)
    lines = text.splitlines()
    completed = next(i for i, line in enumerate(lines) if line.startswith("Completed:"))
    assert lines[completed + 1] == "Warnings:   <error getting warnings: file not found>"
    assert lines[completed + 2] == ""
    assert lines[completed + 3] == "Errors:  <error getting errors: file not found>"


@pytest.mark.found("X7")
@pytest.mark.parametrize(("errors", "warnings"), [(1, 0), (0, 1), (1, 1)])
def test_messages_are_indented_by_two_columns(errors: int, warnings: int) -> None:
    backup = nginx_backup()
    backup["status"] |= {"errors": errors, "warnings": warnings}
    result = {"velero": ["m"], "cluster": [], "namespaces": {}}
    kept = {"errors": result if errors else {}, "warnings": result if warnings else {}}
    lines = describe_backup(backup, DescribedBackup(results=kept), PLAIN).splitlines()
    assert [line for line in lines if line.strip() == "Velero:   m"] == ["  Velero:   m"] * (
        errors + warnings
    )
    for title, number in (("Errors", errors), ("Warnings", warnings)):
        assert (f"{title}:" if number else f"{title}:  0") in lines


def test_colour_is_used_for_name_and_phase() -> None:
    text = describe_backup(nginx_backup(), DescribedBackup(), View(colour=True))
    assert "\x1b[1mnginx-backup\x1b[0m" in text
    assert "\x1b[31mPartiallyFailed\x1b[0m" in text


def test_a_line_without_tabs_ends_all_columns() -> None:
    assert align(["a:\t1", "long:\t2", "", "b:\t3"]) == "a:     1\nlong:  2\n\nb:  3"


@pytest.mark.spec("CLI-022")
@pytest.mark.parametrize("served", ["v1", "v1beta1", None])
def test_csi_snapshots_are_read_from_the_cluster(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    served: str | None,
) -> None:
    cluster = connected(monkeypatch, tmp_path)
    cluster.unserved = {("volumesnapshotcontents", v) for v in ("v1", "v1beta1") if v != served}
    cluster.add(velero("backups"), "b", status={"phase": "Completed"})
    for name, backup in (("mine", "b"), ("other", "c")):
        labels = {"velero.io/backup-name": backup}
        cluster.add(VOLUME_SNAPSHOT_CONTENTS, name, None, labels=labels, status={"readyToUse": False})

    assert run(["backup", "describe", "b", "--features", "EnableCSI"]) == 0

    out, err = capsys.readouterr()
    assert ("CSI Volume Snapshots:  1 included" in out) == (served is not None)
    assert err.startswith("error getting VolumeSnapshotContent objects for backup b: ") == (served is None)


def test_the_answer_to_a_verification_is_not_shown_but_its_result_is() -> None:
    backup = nginx_backup()
    backup["metadata"]["annotations"] |= {
        "pinnace.io/verified": "2021-08-12T00:00:00Z sound",
        "pinnace.io/verification-answer": '{"checks":[]}',
    }

    shown = describe_backup(backup, DescribedBackup(), PLAIN)

    assert "pinnace.io/verified=2021-08-12T00:00:00Z sound" in shown
    assert "verification-answer" not in shown
