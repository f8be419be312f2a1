"""Runs and dry runs say which cluster they work on, and where a backup comes from."""

from pathlib import Path

import pytest

from pinnace.api.labels import SOURCE_CLUSTER_ADDRESS, SOURCE_CLUSTER_GIT_VERSION, SOURCE_CLUSTER_UID
from pinnace.api.meta import ObjectMeta
from pinnace.api.velero.backup import Backup
from pinnace.backup.request import note_source
from pinnace.cli.common.cluster import foreign_source
from pinnace.cli.main import run
from pinnace.kube.identity import ClusterIdentity
from pinnace.kube.resources import BACKUPS, LEASES, NAMESPACES, RESTORES
from tests.unit.cli.cluster import ServedCluster, connected

TITLE = "cluster https://127.0.0.1:6443 (context test)"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(NAMESPACES, "velero")
    cluster.add(LEASES, "pinnace-server", spec={"holderIdentity": "pod-1"})
    return cluster


def with_uid(cluster: ServedCluster, uid: str) -> None:
    cluster.add(NAMESPACES, "kube-system")
    cluster.stored(NAMESPACES, "kube-system", None)["metadata"]["uid"] = uid


@pytest.mark.found("op-66")
def test_a_backup_names_the_cluster_and_notes_it(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    with_uid(cluster, "here")

    assert run(["backup", "create", "b"]) == 0

    assert capsys.readouterr().err.splitlines()[0] == f"Asking for a backup of {TITLE}."
    annotations = cluster.stored(BACKUPS, "b")["metadata"]["annotations"]
    assert annotations[SOURCE_CLUSTER_UID] == "here"
    assert annotations[SOURCE_CLUSTER_ADDRESS] == "https://127.0.0.1:6443"


@pytest.mark.found("op-66")
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ({SOURCE_CLUSTER_UID: "here"}, ""),
        ({}, ""),
        (
            {
                SOURCE_CLUSTER_UID: "there",
                SOURCE_CLUSTER_ADDRESS: "https://prod",
                SOURCE_CLUSTER_GIT_VERSION: "v1",
            },
            f"NOTE: backup b was made in another cluster, https://prod (Kubernetes v1); this is {TITLE}.",
        ),
        (
            {SOURCE_CLUSTER_UID: "there"},
            "NOTE: backup b was made in another cluster, whose namespace kube-system has the uid there; this"
            f" is {TITLE}.",
        ),
    ],
    ids=["this cluster", "unknown", "another", "another without a name"],
)
def test_a_restore_names_the_cluster_and_that_of_the_backup(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str], source: dict[str, str], told: str
) -> None:
    with_uid(cluster, "here")
    cluster.add(BACKUPS, "b", annotations=source, status={"phase": "Completed"})

    assert run(["restore", "create", "r", "--from-backup", "b"]) == 0

    assert cluster.names(RESTORES) == ["r"]
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"Asking for a restore into {TITLE}.", *([told] if told else [])]


@pytest.mark.found("op-66", "op-29")
def test_a_backup_names_the_cluster_before_it_warns_of_names(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(NAMESPACES, "shop")

    assert run(["backup", "create", "b", "--include-namespaces", "sohp"]) == 0

    assert capsys.readouterr().err.splitlines()[:2] == [
        f"Asking for a backup of {TITLE}.",
        "WARNING: there is no namespace sohp; did you mean shop?",
    ]


@pytest.mark.found("op-66")
@pytest.mark.parametrize(
    ("words", "doing"),
    [
        (["backup", "delete", "b", "--confirm"], "Deleting from"),
        (["schedule", "delete", "--all", "--confirm"], "Deleting from"),
        (["backup", "delete", "b"], "Deleting from"),
        (["uninstall", "--force"], "Uninstalling from"),
        (["uninstall"], "Uninstalling from"),
        (["install", "--crds-only"], "Installing into"),
        (["nonadmin", "backup", "delete", "b", "--confirm", "-n", "shop"], "Deleting from"),
        (["nonadmin", "backup", "delete", "b", "-n", "shop"], "Deleting from"),
        (["nonadmin", "backup", "create", "b", "-n", "shop"], "Sending the request to"),
    ],
    ids=str,
)
def test_what_changes_a_cluster_names_it_before_anything_else(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str], words: list[str], doing: str
) -> None:
    cluster.add(BACKUPS, "b", status={"phase": "Completed"})

    run(words)

    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"{doing} {TITLE}."
    assert sum(TITLE in line for line in lines) == 1


def test_a_deletion_without_a_server_names_the_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PINNACE_LOCATION", str(tmp_path))

    assert run(["backup", "delete", "--all"]) == 0

    assert capsys.readouterr().err == f"Deleting from {tmp_path}.\n"


@pytest.mark.found("op-66")
async def test_nothing_is_said_about_a_cluster_whose_uid_may_not_be_read(cluster: ServedCluster) -> None:
    backup = {"metadata": {"name": "b", "annotations": {SOURCE_CLUSTER_UID: "there"}}}

    assert await foreign_source(cluster, backup) == ""  # type: ignore[arg-type]


@pytest.mark.found("op-66")
@pytest.mark.parametrize(
    ("noted", "identity", "expected"),
    [
        ({}, ClusterIdentity(uid="a", address="https://a"), {"uid": "a", "address": "https://a"}),
        (
            {"uid": "a", "address": "https://a"},
            ClusterIdentity(uid="a"),
            {"uid": "a", "address": "https://a"},
        ),
        ({"uid": "b", "address": "https://b"}, ClusterIdentity(uid="a"), {"uid": "a"}),
        ({"uid": "b", "address": "https://b"}, ClusterIdentity(), {}),
    ],
    ids=["of a command", "noted by the command", "copied from another cluster", "unknown"],
)
def test_a_backup_is_of_the_cluster_that_makes_it(
    noted: dict[str, str], identity: ClusterIdentity, expected: dict[str, str]
) -> None:
    keys = {"uid": SOURCE_CLUSTER_UID, "address": SOURCE_CLUSTER_ADDRESS}
    annotations = {"mine": "kept"} | {keys[each]: value for each, value in noted.items()}
    backup = Backup(metadata=ObjectMeta(name="b", annotations=annotations))

    note_source(backup, identity)

    assert backup.metadata.annotations == {"mine": "kept"} | {
        keys[each]: value for each, value in expected.items()
    }
