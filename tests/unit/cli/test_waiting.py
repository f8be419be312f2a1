"""`get` and `describe` say what a backup or restore waits for that has not begun."""

from datetime import timedelta
from pathlib import Path

import pytest

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.values.times import format_time
from pinnace.cli.main import run
from pinnace.client import lease as client_lease
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DEPLOYMENTS,
    LEASES,
    RESTORES,
    APIResource,
)
from pinnace.runtime.lease import SERVER_LEASE, micro_time
from tests.unit.cli.cluster import ServedCluster, connected

Printed = pytest.CaptureFixture[str]
REASON = "backup other, which may work on the same namespaces"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


def lease(cluster: ServedCluster, *, age: timedelta = timedelta()) -> None:
    spec = {"holderIdentity": "server-1", "renewTime": micro_time(SYSTEM_CLOCK.now() - age)}
    cluster.add(LEASES, SERVER_LEASE, spec=spec)


def waiting(cluster: ServedCluster, resource: APIResource, name: str = "b1") -> None:
    status = {"phase": "Queued", "queuePosition": 2} if resource == BACKUPS else {}
    spec = {"backupName": "b"} if resource == RESTORES else {}
    cluster.add(resource, name, annotations={"pinnace.io/waits-for": REASON}, spec=spec, status=status)


@pytest.mark.parametrize(("noun", "resource"), [("backup", BACKUPS), ("restore", RESTORES)])
def test_the_reason_of_a_waiting_run_is_shown(
    cluster: ServedCluster, capsys: Printed, noun: str, resource: APIResource
) -> None:
    lease(cluster)
    waiting(cluster, resource)
    cluster.add(resource, "done", spec={}, status={"phase": "Completed"})

    assert run([noun, "describe", "b1"]) == 0
    assert f"\nWaits for:  {REASON}\n" in capsys.readouterr().out
    assert run([noun, "describe", "done"]) == 0
    assert "Waits for" not in capsys.readouterr().out
    assert run([noun, "describe", "b1", "-o", "json"]) == 0
    assert f'"waitsFor": "{REASON}"' in capsys.readouterr().out
    assert run([noun, "get"]) == 0
    assert capsys.readouterr().err == f"{noun} b1 waits for {REASON}.\n"
    assert run([noun, "get", "-o", "json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("noun", ["backup", "restore"])
def test_without_a_server_the_run_waits_for_one(cluster: ServedCluster, capsys: Printed, noun: str) -> None:
    waiting(cluster, BACKUPS if noun == "backup" else RESTORES)
    assert run([noun, "describe", "b1"]) == 0
    assert "Waits for:  a server: there is none in namespace velero\n" in capsys.readouterr().out

    lease(cluster, age=timedelta(hours=1))
    assert run([noun, "get"]) == 0
    said = capsys.readouterr().err
    assert (
        f"1 of these {noun}s cannot begin and waits for a server: the last one in namespace velero was"
        in said
    )


@pytest.mark.parametrize("renews", [False, True])
def test_a_lease_that_was_lost_minutes_ago_is_watched(
    cluster: ServedCluster, capsys: Printed, monkeypatch: pytest.MonkeyPatch, renews: bool
) -> None:
    """A server that was killed leaves its lease behind; clocks that differ make it look so."""
    monkeypatch.setattr(client_lease, "SHORT_LOOK_SECONDS", 0.02)
    waiting(cluster, BACKUPS)
    lease(cluster, age=timedelta(minutes=5))
    looks = []

    def renewed(_verb: str, plural: str, _name: str) -> None:
        looks.append(plural)
        if renews and looks.count("leases") > 1:
            lease(cluster, age=timedelta(minutes=4))

    cluster.before = renewed

    assert run(["backup", "get"]) == 0
    said = capsys.readouterr().err
    assert ("waits for a server: the last one in namespace velero was last seen 5m ago (at" in said) != renews


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("restore create --from-backup b1", "WARNING: storage location default is Unavailable: no bucket"),
        (
            "backup delete b1 --confirm",
            "WARNING: backup b1 stays until its storage location default, which is Unavailable, can be used"
            " again: no bucket",
        ),
    ],
)
def test_what_needs_a_location_that_cannot_be_used_is_warned_of(
    cluster: ServedCluster, capsys: Printed, words: str, said: str
) -> None:
    lease(cluster)
    cluster.add(BACKUP_STORAGE_LOCATIONS, "default", status={"phase": "Unavailable", "message": "no bucket"})
    cluster.add(BACKUPS, "b1", spec={"storageLocation": "default"}, status={"phase": "Completed"})

    assert run(words.split()) == 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["velero", "nightly-velero"])
@pytest.mark.parametrize(("ready", "waits"), [(1, ""), (0, "Waits for:  a server: the Deployment {}")])
def test_a_server_without_a_lease_is_velero_s(
    cluster: ServedCluster, capsys: Printed, name: str, ready: int, waits: str
) -> None:
    """Velero's chart names the Deployment after its release."""
    labels = {"component": "velero"}
    cluster.add(DEPLOYMENTS, name, labels=labels, status={"availableReplicas": ready})
    cluster.add(BACKUPS, "b1", spec={}, status={})
    assert run(["backup", "describe", "b1"]) == 0
    shown = capsys.readouterr().out
    assert ("Waits for:" in shown) == bool(waits)
    assert waits.format(name) in shown


@pytest.mark.parametrize(("minutes", "waits"), [(2, False), (60, True)])
def test_a_server_outside_of_the_cluster_is_known_by_its_looks_at_locations(
    cluster: ServedCluster, capsys: Printed, minutes: int, waits: bool
) -> None:
    """Velero's has neither a Lease nor a Deployment there."""
    looked = format_time(SYSTEM_CLOCK.now() - timedelta(minutes=minutes))
    cluster.add(BACKUP_STORAGE_LOCATIONS, "dead", status={"lastValidationTime": "never"})
    cluster.add(BACKUP_STORAGE_LOCATIONS, "default", status={"lastValidationTime": looked})
    cluster.add(BACKUPS, "b1", spec={}, status={})
    assert run(["backup", "describe", "b1"]) == 0
    shown = capsys.readouterr().out
    assert ("Waits for:  a server: there is none in namespace velero\n" in shown) == waits


def test_without_rights_to_the_lease_only_the_reason_is_shown(
    cluster: ServedCluster, capsys: Printed
) -> None:
    cluster.refuse("get", "leases", Forbidden(403, reason="Forbidden", message="you may not"))
    waiting(cluster, BACKUPS)
    assert run(["backup", "get"]) == 0
    assert capsys.readouterr().err == f"backup b1 waits for {REASON}.\n"
