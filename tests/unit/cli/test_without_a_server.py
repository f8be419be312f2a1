"""What commands say when no server runs, or when what they ask for is not possible now."""

from pathlib import Path

import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.meta import ObjectMeta
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup, BackupStatus
from pinnace.cli.local import say_outcome
from pinnace.cli.main import run
from pinnace.client import lease
from pinnace.client.errors import FileMissing
from pinnace.client.server import ServerBackend
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    RESTORES,
    velero,
)
from pinnace.runtime.lease import SERVER_LEASE, micro_time
from tests.unit.cli.cluster import SCHEDULES, ServedCluster, connected

Printed = pytest.CaptureFixture[str]
REQUESTS = velero("deletebackuprequests")


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    monkeypatch.setattr(lease, "FIRST_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(lease, "SHORT_LOOK_SECONDS", 0.01)
    monkeypatch.chdir(tmp_path)
    cluster = connected(monkeypatch, tmp_path)
    cluster.add(NAMESPACES, "velero")
    cluster.add(
        BACKUP_STORAGE_LOCATIONS,
        "main",
        spec={
            "provider": "aws",
            "objectStorage": {"bucket": "lab", "prefix": "dev"},
            "config": {"region": "eu", "profile": "x"},
        },
        status={"phase": "Available", "lastValidationTime": "2021-01-01T00:00:00Z"},
    )
    for name, phase in (("done", "Completed"), ("runs", "InProgress")):
        cluster.add(BACKUPS, name, spec={"storageLocation": "main"}, status={"phase": phase})
    return cluster


def held(cluster: ServedCluster) -> None:
    """A server holds the lease, and does not renew it any more."""
    spec = {"holderIdentity": "server-1", "renewTime": micro_time(SYSTEM_CLOCK.now())}
    cluster.add(LEASES, SERVER_LEASE, spec=spec)


READING = [
    "backup logs done",
    "backup download done",
    "backup ls done",
    "backup show done cm/a",
    "restore create --from-backup done --dry-run",
]


@pytest.mark.found("op-69")
@pytest.mark.parametrize("words", READING)
def test_what_a_server_has_to_give_out_is_not_waited_for_without_one(
    words: str, cluster: ServedCluster, capsys: Printed
) -> None:
    assert run(words.split()) == 1

    shown = capsys.readouterr().err
    assert "no server can give out the" in shown
    assert "of done: there is none in namespace velero. Start the server, or read without one:" in shown
    assert "--location 's3://lab/dev?region=eu'" in shown


def test_a_lease_that_a_stopped_server_gave_back_is_not_told_as_that_of_nobody(
    cluster: ServedCluster, capsys: Printed
) -> None:
    held(cluster)
    given_back = cluster.stored("leases", "pinnace-server")
    given_back["spec"]["holderIdentity"] = ""
    cluster.add(
        DEPLOYMENTS, "velero", labels={"component": "velero"}, status={"availableReplicas": 1}
    )  # as for a moment after the last pod has ended

    assert run(["backup", "logs", "done"]) == 1

    assert "of done: no server holds the lease in namespace velero. Start" in capsys.readouterr().err


@pytest.mark.found("op-69", "op-92")
def test_a_server_that_renews_its_lease_no_more_is_not_waited_for(
    cluster: ServedCluster, capsys: Printed
) -> None:
    held(cluster)

    assert run(["backup", "logs", "done"]) == 1

    told = (
        "server-1 holds the lease in namespace velero and does not renew it; it renewed it last 0s ago (at 2"
    )
    assert told in capsys.readouterr().err


@pytest.mark.found("op-70")
def test_a_deletion_without_a_server_is_warned_of_once(cluster: ServedCluster, capsys: Printed) -> None:
    cluster.add(BACKUPS, "other", spec={}, status={"phase": "Completed"})

    assert run(["backup", "delete", "done", "other", "--confirm"]) == 0

    warning = "WARNING: the deletion waits for a server: there is none in namespace velero.\n"
    assert capsys.readouterr().err.endswith(f").\n{warning}")
    assert len(cluster.of(REQUESTS)) == 2


@pytest.mark.found("op-89")
def test_a_backup_that_is_being_made_is_not_asked_to_be_deleted(
    cluster: ServedCluster, capsys: Printed
) -> None:
    held(cluster)

    assert run(["backup", "delete", "runs", "--confirm"]) == 1

    assert "backup runs is being made (InProgress), and the server deletes none" in capsys.readouterr().err
    assert cluster.of(REQUESTS) == []


@pytest.mark.found("op-90")
@pytest.mark.parametrize("words", ["download runs", "ls runs", "show runs cm/a"])
def test_the_contents_of_a_backup_that_is_being_made_are_not_looked_for(
    words: str, cluster: ServedCluster, capsys: Printed
) -> None:
    held(cluster)

    assert run(["backup", *words.split()]) == 1

    shown = capsys.readouterr().err
    assert shown.startswith(
        'The contents for backup "runs" are not available until it\'s finished processing'
    )


@pytest.mark.found("op-90")
@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        ("backup logs gone", "backup gone is Failed and has no log: the server died\n"),
        ("backup download gone", "backup gone is Failed and has no tarball: the server died\n"),
        ("backup ls gone", "backup gone has no tarball: the server died\n"),
        ("restore logs gone", "restore gone is Failed and has no log: the server died\n"),
        ("backup logs done", "backup done is Completed and has no log: `pinnace backup verify done` says"),
    ],
)
def test_a_run_that_stored_no_files_says_why_it_has_none(
    words: str, lacks: str, cluster: ServedCluster, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (BACKUPS, RESTORES):
        status = {"phase": "Failed", "failureReason": "the server died"}
        cluster.add(kind, "gone", spec={"storageLocation": "main", "backupName": "done"}, status=status)

    def nothing(*_: object) -> None:
        raise FileMissing("file not found")

    monkeypatch.setattr(ServerBackend, "stored_file", nothing)

    assert run(words.split()) == 1

    assert lacks in capsys.readouterr().err


@pytest.mark.parametrize(
    ("phase", "flags", "warned"),
    [
        ("Failed", "", "is Failed, and the server may refuse to restore from it, unless --allow-failed"),
        ("Failed", "--allow-failed", ""),
        ("InProgress", "", "is InProgress, and the server may refuse to restore from it\n"),
        ("PartiallyFailed", "", ""),
    ],
)
def test_a_backup_that_a_server_restores_nothing_from_is_warned_of(
    phase: str, flags: str, warned: str, cluster: ServedCluster, capsys: Printed
) -> None:
    held(cluster)
    cluster.add(BACKUPS, "source", spec={"storageLocation": "main"}, status={"phase": phase})

    assert run(["restore", "create", "--from-backup", "source", *flags.split()]) == 0

    said = capsys.readouterr().err
    assert warned in said
    assert ("WARNING" in said) == bool(warned)


@pytest.mark.found("op-72")
def test_lists_say_how_old_their_state_is_if_no_server_renews_it(
    cluster: ServedCluster, capsys: Printed
) -> None:
    cluster.add(SCHEDULES, "nightly", spec={"schedule": "@daily"})

    assert run(["backup-location", "get"]) == 0
    assert "No server looks at these locations: there is none in namespace velero. They were looked at" in (
        capsys.readouterr().err
    )
    for verb in ("get", "describe"):
        assert run(["backup-location", verb, "main"]) == 0
        assert "They were looked at" in capsys.readouterr().err
        assert run(["schedule", verb]) == 0
        assert (
            capsys.readouterr().err
            == "No schedule runs while no server does: there is none in namespace velero.\n"
        )
    held(cluster)
    assert run(["schedule", "get"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.found("op-81")
@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("lab/dev", "a bucket is written as s3://lab/dev"),
        ("minio://lab", "did you mean s3://bucket/prefix?region=minio"),
        ("rest:http://x", "did you mean s3://bucket/prefix?region=minio"),
        ("https://s3.amazonaws.com/lab", "did you mean s3://bucket/prefix?region=REGION (AWS) or s3://"),
        ("gcs://lab", "did you mean gs://bucket/prefix?"),
        ("./lab", "does not exist"),
    ],
)
@pytest.mark.usefixtures("cluster")
def test_what_was_probably_meant_by_a_location_is_said(location: str, told: str, capsys: Printed) -> None:
    assert run(["--location", location, "backup", "get"]) == 2

    assert told in capsys.readouterr().err


@pytest.mark.found("op-62")
def test_a_tenant_is_told_of_self_service(cluster: ServedCluster, capsys: Printed) -> None:
    text = 'backups.velero.io is forbidden: User "eve" cannot create resource'
    cluster.refuse("create", "backups", Forbidden(403, reason="Forbidden", message=text))

    assert run(["backup", "create", "b"]) == 1

    assert capsys.readouterr().err.endswith("are made by `pinnace nonadmin`\n")


@pytest.mark.found("op-82")
@pytest.mark.parametrize(
    ("reason", "said"),
    [("no space left", "12 items, 0 warnings."), ("", "12 items, 0 errors, 0 warnings.")],
    ids=["failed", "completed"],
)
def test_a_failed_run_is_not_called_one_without_errors(reason: str, said: str, capsys: Printed) -> None:
    phase = BackupPhase.FAILED if reason else BackupPhase.COMPLETED
    status = BackupStatus(phase=phase, failure_reason=reason)

    say_outcome("Backup", Backup(metadata=ObjectMeta(name="b"), status=status), 12)

    assert capsys.readouterr().out == f"Backup b {phase}: {said}\n"
