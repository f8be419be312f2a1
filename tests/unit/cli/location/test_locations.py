"""`backup-location`, `snapshot-location` and `restic repo`."""

import base64
import json
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pinnace.age.x25519 import X25519Identity
from pinnace.api.objects import JSONObject
from pinnace.cli.location import backup as backup_location
from pinnace.cli.main import run
from pinnace.cli.output.printing import OutputFlags, render_table
from pinnace.cli.output.server_tables import (
    backup_location_table,
    repository_table,
    snapshot_location_table,
)
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import BACKUPS, APIResource, velero
from pinnace.storage.location_url import location_from_url
from tests.unit.cli.cluster import BACKUP_LOCATIONS, SNAPSHOT_LOCATIONS, ServedCluster, connected

TABLE = OutputFlags(format="table")
BACKUP_REPOSITORIES, RESTIC_REPOSITORIES = velero("backuprepositories"), velero("resticrepositories")
AWS = ("--provider", "aws", "--bucket", "b")

ALICE, BOB = (str(X25519Identity.generate().recipient) for _ in range(2))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServedCluster:
    return connected(monkeypatch, tmp_path)


def location(name: str, spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": status}


# --- backup-location create -----------------------------------------------------------------------------


def created(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What would be sent."""
    assert run(["backup-location", "create", "x", *words, "-o", "yaml"]) == 0, capsys.readouterr().err
    printed: dict[str, Any] = yaml.safe_load(capsys.readouterr().out)
    return printed


@pytest.mark.spec("CLI-030")
@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "--provider is required"),
        (["--provider", "aws"], "--bucket is required"),
        ([*AWS, "--backup-sync-period=-1s"], "--backup-sync-period must be non-negative"),
        ([*AWS, "--credential", "a=b,c=d"], "--credential can only contain 1 key/value pair"),
    ],
)
def test_create_refuses_missing_and_contradictory_options(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    assert run(["backup-location", "create", "x", *words]) == 1
    assert capsys.readouterr().err == f"An error occurred: {text}\n"
    assert cluster.writes() == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            [*AWS, "--access-mode", "Write"],
            'invalid argument "Write" for "--access-mode" flag: invalid value',
        ),
        ([*AWS, "--labels", "x"], 'error parsing "x"'),
        ([*AWS, "--cacert", "/no/such/file"], "couldn't open cacert /no/such/file: No such file"),
        (["--provider", "filesystem"], "--config path=/absolute/folder is required"),
        (["--provider", "filesystem", "--config", "path=backups"], "--config path=/absolute/folder"),
    ],
)
def test_create_refuses_invalid_values(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str], text: str
) -> None:
    assert run(["backup-location", "create", "x", *words]) == 1
    assert text in capsys.readouterr().err
    assert cluster.writes() == []


@pytest.mark.spec("CLI-030")
def test_create_sends_only_what_is_given(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    assert created(capsys, "--provider", "p", "--bucket", "b") == {
        "apiVersion": "velero.io/v1",
        "kind": "BackupStorageLocation",
        "metadata": {"creationTimestamp": None, "name": "x", "namespace": "velero"},
        "spec": {"accessMode": "ReadWrite", "objectStorage": {"bucket": "b"}, "provider": "p"},
        "status": {},
    }
    assert cluster.writes() == []


def test_create_sends_all_that_is_given(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("PEM")
    words = [
        *AWS, "--prefix", "p", "--credential", "cloud=key", "--default", "--backup-sync-period", "0s",
        "--validation-frequency", "1h", "--config", "region=r,s3Url=http://h:1", "--labels", "a=b",
        "--labels", "c=d", "--cacert", str(tmp_path / "ca.pem"), "--access-mode", "ReadOnly",
    ]  # fmt: skip
    assert run(["create", "backup-location", "x", *words]) == 0

    assert capsys.readouterr().out == 'Backup storage location "x" configured successfully.\n'
    sent = cluster.stored(BACKUP_LOCATIONS, "x")
    assert sent["metadata"]["labels"] == {"a": "b", "c": "d"}
    assert sent["spec"] == {
        "provider": "aws",
        "objectStorage": {"bucket": "b", "prefix": "p", "caCert": base64.b64encode(b"PEM").decode()},
        "config": {"region": "r", "s3Url": "http://h:1"},
        "credential": {"name": "cloud", "key": "key"},
        "default": True,
        "accessMode": "ReadOnly",
        "backupSyncPeriod": "0s",
        "validationFrequency": "1h0m0s",
    }


def test_a_folder_is_the_same_location_as_without_a_server(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    made = created(capsys, "--provider", "filesystem", "--config", "path=/srv/backups")

    same = location_from_url("/srv/backups").spec
    assert (made["spec"]["provider"], made["spec"]["config"]) == (same.provider, same.config)
    assert made["spec"]["objectStorage"] == {"bucket": same.object_storage.bucket}


@pytest.mark.spec("CLI-030")
def test_create_unsets_the_old_default(cluster: ServedCluster) -> None:
    cluster.add(BACKUP_LOCATIONS, "old", spec={"default": True, "config": {"region": "r"}})
    cluster.add(BACKUP_LOCATIONS, "other", spec={"provider": "p"})

    assert run(["backup-location", "create", "x", *AWS, "--default"]) == 0

    assert cluster.stored(BACKUP_LOCATIONS, "old")["spec"] == {"default": False, "config": {"region": "r"}}
    assert cluster.stored(BACKUP_LOCATIONS, "x")["spec"]["default"] is True
    assert [write[:2] for write in cluster.writes()] == [
        ("patch", "backupstoragelocations"),
        ("create", "backupstoragelocations"),
    ]


def test_a_name_that_is_taken_leaves_the_default_as_it_was(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(BACKUP_LOCATIONS, "old", spec={"default": True})
    cluster.add(BACKUP_LOCATIONS, "x", spec={})

    assert run(["backup-location", "create", "x", *AWS, "--default"]) == 1

    assert 'backupstoragelocations.velero.io "x" already exists' in capsys.readouterr().err
    assert cluster.stored(BACKUP_LOCATIONS, "old")["spec"] == {"default": True}


# --- backup-location get --------------------------------------------------------------------------------


@pytest.mark.spec("CLI-017")
def test_the_table_of_backup_locations() -> None:
    full = {
        "provider": "aws",
        "objectStorage": {"bucket": "b", "prefix": "p/q"},
        "accessMode": "ReadOnly",
        "default": True,
    }
    status = {"phase": "Available", "lastValidationTime": "2021-08-11T21:43:26Z"}
    rows = [
        location("main", full, status),
        location("fresh", {"provider": "velero.io/gcp", "objectStorage": {"bucket": "other"}}),
    ]

    assert render_table(rows, backup_location_table(), TABLE) == textwrap.dedent("""\
        NAME    PROVIDER        BUCKET/PREFIX   PHASE       LAST VALIDATED                  ACCESS MODE   DEFAULT
        main    aws             b/p/q           Available   2021-08-11 21:43:26 +0000 UTC   ReadOnly      true
        fresh   velero.io/gcp   other           Unknown     Unknown                         ReadWrite     ..
        """).replace("..", "")  # noqa: E501 - the lines of the table


def test_get_defaults_only(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    for name in ("a", "b", "c"):
        spec = {"provider": "p", "objectStorage": {"bucket": name}, "default": name != "a"}
        cluster.add(BACKUP_LOCATIONS, name, labels={"n": name}, spec=spec)

    def names(*words: str) -> list[str]:
        assert run(["backup-location", "get", *words, "-o", "name"]) == 0
        return [line.rpartition("/")[2] for line in capsys.readouterr().out.splitlines()]

    assert names() == ["a", "b", "c"]
    assert names("--default") == ["b", "c"]
    assert names("--default", "-l", "n=c") == ["c"]
    # Only the first default of the named ones is shown; the names after it need not exist.
    assert names("--default", "a", "b", "nope") == ["b"]
    assert names("--default", "a") == []
    assert run(["get", "backup-locations", "--default", "a", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "BackupStorageLocationList"


# --- backup-location set --------------------------------------------------------------------------------


def changed(cluster: ServedCluster, before: dict[str, Any], *words: str) -> dict[str, Any]:
    """The spec of a location after `set` with these words."""
    cluster.add(BACKUP_LOCATIONS, "x", spec=before)
    assert run(["backup-location", "set", "x", *words]) == 0
    spec: dict[str, Any] = cluster.stored(BACKUP_LOCATIONS, "x")["spec"]
    return spec


@pytest.mark.spec("CLI-031")
def test_set_changes_only_what_is_given(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, tmp_path: Path
) -> None:
    (tmp_path / "ca.pem").write_text("new")
    encoded = base64.b64encode(b"new").decode()
    storage = {"bucket": "b", "caCert": "b2xk"}

    assert changed(cluster, {"objectStorage": storage}, "--default") == {
        "objectStorage": storage,
        "default": True,
    }
    before = {"objectStorage": storage, "default": True}
    assert changed(cluster, before, "--cacert", str(tmp_path / "ca.pem")) == {
        "objectStorage": {"bucket": "b", "caCert": encoded},
        "default": True,
    }
    assert changed(cluster, before) == before
    assert changed(cluster, before, "--default=false") == {**before, "default": False}
    before = {"credential": {"name": "a", "key": "b", "optional": True}}
    assert changed(cluster, before, "--credential", "c=d") == {"credential": {"name": "c", "key": "d"}}
    said = set(capsys.readouterr().out.splitlines())
    assert said == {'Backup storage location "x" configured successfully.'}


def test_set_unsets_the_old_default(cluster: ServedCluster) -> None:
    for name, default in (("a", True), ("b", False), ("c", True)):
        cluster.add(BACKUP_LOCATIONS, name, spec={"default": default})

    assert run(["backup-location", "set", "b", "--default"]) == 0

    defaults = [cluster.stored(BACKUP_LOCATIONS, name)["spec"]["default"] for name in ("a", "b", "c")]
    assert defaults == [False, True, False]


def test_set_refuses_unknown_names_and_several_credentials(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(BACKUP_LOCATIONS, "old", spec={"default": True})

    assert run(["backup-location", "set", "nope", "--default"]) == 1
    assert 'backupstoragelocations.velero.io "nope" not found' in capsys.readouterr().err
    assert run(["backup-location", "set", "old", "--credential", "a=b,c=d"]) == 1
    assert "--credential can only contain 1 key/value pair" in capsys.readouterr().err
    assert cluster.writes() == []


# --- backup-location delete -----------------------------------------------------------------------------


@pytest.mark.found("E-F2")
def test_deleting_a_location_removes_what_the_cluster_knows_of_it_and_names_each(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    for name, location, phase in (
        ("whole", "a", "Completed"),
        ("part", "a", "PartiallyFailed"),
        ("runs", "a", "InProgress"),
        ("failed", "a", "Failed"),
        ("other", "b", "Completed"),
    ):
        cluster.add(BACKUPS, name, spec={"storageLocation": location}, status={"phase": phase})
    for name, location in (("shop-a-kopia", "a"), ("shop-b-kopia", "b")):
        cluster.add(BACKUP_REPOSITORIES, name, spec={"backupStorageLocation": location})
    cluster.add(BACKUP_LOCATIONS, "a")

    assert run(["backup-location", "delete", "a", "--confirm"]) == 0

    assert sorted(cluster.names(BACKUPS)) == ["failed", "other", "runs"]
    assert cluster.names(BACKUP_REPOSITORIES) == ["shop-b-kopia"]
    assert capsys.readouterr().out.splitlines() == [
        'Backup storage location "a" deleted successfully.',
        'Backup associated with deleted BSL(s) "part" deleted successfully.',
        'Backup associated with deleted BSL(s) "whole" deleted successfully.',
        'Backup repository associated with deleted BSL(s) "shop-a-kopia" deleted successfully.',
    ]


@pytest.mark.found("E-F2")
def test_what_cannot_be_deleted_with_a_location_is_named(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(BACKUPS, "whole", spec={"storageLocation": "a"}, status={"phase": "Completed"})
    cluster.add(BACKUP_REPOSITORIES, "shop-a-kopia", spec={"backupStorageLocation": "a"})
    cluster.add(BACKUP_LOCATIONS, "a")
    cluster.refuse("delete", "backups", Forbidden(403, reason="Forbidden", message="you may not"))

    assert run(["backup-location", "delete", "a", "--confirm"]) == 1

    assert "backup whole of the deleted location a: you may not" in capsys.readouterr().err
    assert list(cluster.names(BACKUP_REPOSITORIES)) == []


def test_delete_reports_a_refusal_and_deletes_named_and_all_locations(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    for name in ("a", "b"):
        cluster.add(BACKUP_LOCATIONS, name)
    message = "you are not allowed to"
    cluster.refuse("delete", "backupstoragelocations", Forbidden(403, reason="Forbidden", message=message))
    assert run(["backup-location", "delete", "a", "--confirm"]) == 1
    assert capsys.readouterr().err.endswith(f".\nAn error occurred: {message}\n")
    cluster.relent()

    assert run(["delete", "backup-locations", "a", "--confirm"]) == 0
    assert run(["backup-location", "delete", "--all", "--confirm"]) == 0
    assert run(["backup-location", "delete", "--all", "--confirm"]) == 0
    assert capsys.readouterr().out == (
        'Backup storage location "a" deleted successfully.\n'
        'Backup storage location "b" deleted successfully.\n'
        "No backup-locations found\n"
    )
    assert run(["backup-location", "delete"]) == 1
    assert "specific backup-location name(s), the --all flag" in capsys.readouterr().err


# --- snapshot-location ----------------------------------------------------------------------------------


def test_create_sends_a_snapshot_location(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    assert run(["snapshot-location", "create", "v"]) == 1
    assert capsys.readouterr().err == "An error occurred: --provider is required\n"
    words = ["--provider", "aws", "--config", "region=r", "--labels", "a=b"]
    assert run(["create", "snapshot-location", "v", *words]) == 0

    assert capsys.readouterr().out == 'Snapshot volume location "v" configured successfully.\n'
    sent = cluster.stored(SNAPSHOT_LOCATIONS, "v")
    assert (sent["spec"], sent["metadata"]["labels"]) == (
        {"provider": "aws", "config": {"region": "r"}},
        {"a": "b"},
    )


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize(
    ("words", "warns"),
    [("--provider aws", True), ("--provider aws --config region=r", False), ("--provider gcp", False)],
)
def test_a_snapshot_location_of_aws_without_a_region_is_warned_of(
    words: str, warns: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["snapshot-location", "create", "v", *words.split()]) == 0

    assert capsys.readouterr().err == (
        "WARNING: it has no region, so backups with persistent volumes will be PartiallyFailed. Delete it "
        "(`kubectl -n velero delete volumesnapshotlocations.velero.io v`), and create it again with "
        "--config region=REGION.\n"
        if warns
        else ""
    )


def test_a_second_snapshot_location_of_a_provider_is_warned_of(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    """From then on, the server refuses backups that choose none."""
    cluster.add(SNAPSHOT_LOCATIONS, "first", spec={"provider": "gcp"})
    cluster.add(SNAPSHOT_LOCATIONS, "other", spec={"provider": "azure"})

    assert run(["snapshot-location", "create", "v", "--provider", "gcp"]) == 0
    assert "provider gcp has 2 snapshot locations now: first, v. Backups, " in capsys.readouterr().err

    cluster.refuse("list", "volumesnapshotlocations", Forbidden(403, reason="Forbidden"))
    assert run(["snapshot-location", "create", "w", "--provider", "gcp"]) == 0
    assert capsys.readouterr().err == ""


def test_set_changes_the_credential_of_a_snapshot_location_and_nothing_else(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster
) -> None:
    cluster.add(SNAPSHOT_LOCATIONS, "v", spec={"provider": "p", "unknown": {"to": "us"}})

    assert run(["snapshot-location", "set", "v", "--credential", "s=k"]) == 0

    assert capsys.readouterr().out == 'Volume snapshot location "v" configured successfully.\n'
    assert cluster.stored(SNAPSHOT_LOCATIONS, "v")["spec"] == {
        "provider": "p",
        "unknown": {"to": "us"},
        "credential": {"name": "s", "key": "k"},
    }
    assert run(["snapshot-location", "set", "v"]) == 0
    assert cluster.stored(SNAPSHOT_LOCATIONS, "v")["spec"]["credential"] == {"name": "s", "key": "k"}
    assert run(["snapshot-location", "set", "v", "--credential", "a=b,c=d"]) != 0


def test_the_table_of_snapshot_locations(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    rows = [location("main", {"provider": "velero.io/aws"}), location("v", {})]
    assert render_table(rows, snapshot_location_table(), TABLE) == (
        "NAME   PROVIDER\n"
        "main   velero.io/aws\n"
        "v      \n"
    )  # fmt: skip

    cluster.add(SNAPSHOT_LOCATIONS, "v", spec={"provider": "p"})
    assert run(["get", "snapshot-location"]) == 0
    assert capsys.readouterr().out == "NAME   PROVIDER\nv      p\n"


# --- restic repo ----------------------------------------------------------------------------------------


def test_the_table_of_repositories(capsys: pytest.CaptureFixture[str], cluster: ServedCluster) -> None:
    ready = {"phase": "Ready", "lastMaintenanceTime": "2021-08-11T21:43:26Z"}
    cluster.add(BACKUP_REPOSITORIES, "ns1-default-x7k2p", labels={"a": "b"}, spec={}, status=ready)
    cluster.add(RESTIC_REPOSITORIES, "ns2-default-9qqzz", spec={})
    rows = list(cluster.objects.values())

    assert render_table(rows, repository_table(), TABLE) == textwrap.dedent("""\
        NAME                STATUS   LAST MAINTENANCE
        ns1-default-x7k2p   Ready    2021-08-11 21:43:26 +0000 UTC
        ns2-default-9qqzz   New      <never>
        """)
    for words in (["repo"], ["restic", "repo"]):
        assert run([*words, "get", "-l", "a=b", "-o", "name"]) == 0
        assert capsys.readouterr().out == "backuprepository.velero.io/ns1-default-x7k2p\n"
        assert run([*words, "get", "ns2-default-9qqzz", "-o", "name"]) == 0
        assert capsys.readouterr().out == "resticrepository.velero.io/ns2-default-9qqzz\n"


# --- without a server -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["backup-location", "create", "x", *AWS],
        ["backup-location", "get"],
        ["backup-location", "get", "--default"],
        ["backup-location", "set", "x"],
        ["backup-location", "delete", "x"],
        ["snapshot-location", "create", "x", "--provider", "p"],
        ["snapshot-location", "get"],
        ["snapshot-location", "set", "x"],
        ["restic", "repo", "get"],
    ],
    ids=" ".join,
)
def test_commands_about_locations_refuse_a_location_flag(
    capsys: pytest.CaptureFixture[str], cluster: ServedCluster, words: list[str]
) -> None:
    assert run(["--location", "./backups", *words]) == 2
    assert "works on a server in the cluster; leave out --location" in capsys.readouterr().err


# --- backup-location create --validate ------------------------------------------------------------------


class Verdicts:
    """A server whose check of a location is visible at the third look, or never."""

    def __init__(self, cluster: ServedCluster, status: dict[str, str] | None) -> None:
        self.looks = 0
        self._cluster, self._status, self._get = cluster, status, cluster.get

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        if resource == BACKUP_LOCATIONS:
            self.looks += 1
            if self.looks == 3 and self._status is not None:
                self._cluster.stored(BACKUP_LOCATIONS, name)["status"] = self._status
        return await self._get(resource, name, namespace)


@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        ({"phase": "Available"}, 0, 'Backup storage location "x" is Available.\n'),
        (
            {"phase": "Unavailable", "message": "no bucket b"},
            1,
            'An error occurred: backup storage location "x" was created, but is Unavailable: no bucket b\n',
        ),
        (
            {"phase": "Unavailable"},
            1,
            'An error occurred: backup storage location "x" was created, but is Unavailable: the log of the'
            " server says why\n",
        ),
        (
            None,
            1,
            'An error occurred: backup storage location "x" was created, but no server has checked it within'
            " 1 seconds: is one running in namespace velero?\n",
        ),
    ],
    ids=["available", "unavailable", "without a message", "no server"],
)
def test_validate_waits_until_the_server_has_checked_the_location(
    status: dict[str, str] | None,
    code: int,
    said: str,
    cluster: ServedCluster,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    verdicts = Verdicts(cluster, status)
    monkeypatch.setattr(cluster, "get", verdicts.get)
    monkeypatch.setattr(backup_location, "POLL_SECONDS", 0.001)
    if status is None:
        monkeypatch.setattr(backup_location, "VALIDATION_SECONDS", 1.0)  # time for a few looks

    assert run(["backup-location", "create", "x", *AWS, "--validate"]) == code

    printed = capsys.readouterr()
    assert printed.out == 'Backup storage location "x" configured successfully.\n'
    assert printed.err == said
    assert verdicts.looks >= 3
    assert "x" in cluster.names(BACKUP_LOCATIONS)  # it stays, so that it can be corrected


# --- describe -------------------------------------------------------------------------------------------


def test_a_backup_location_is_described_with_its_message_and_without_its_secret(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(
        BACKUP_LOCATIONS,
        "main",
        spec={
            "provider": "aws",
            "objectStorage": {"bucket": "b", "prefix": "p", "caCert": "U0VDUkVU"},
            "credential": {"name": "keys", "key": "cloud"},
            "config": {"region": "eu"},
        },
        status={
            "phase": "Unavailable",
            "message": "access\ndenied",
            "lastValidationTime": "2021-08-11T21:43:26Z",
        },
    )

    assert run(["backup-location", "describe", "main"]) == 0

    shown = capsys.readouterr().out
    assert "U0VDUkVU" not in shown
    for line in (
        "Phase:           Unavailable",
        "Message:         access denied",
        "Last validated:  2021-08-11 21:43:26 +0000 UTC",
        "Last synced:     <never>",
        "Bucket:                b",
        "Prefix:                p",
        "CA certificate:        given",
        "Access mode:           ReadWrite",
        "Default:               false",
        "Backup sync period:    <the server's>",
        "Provider:  aws",
        "Credential:  key cloud of Secret keys",
    ):
        assert " ".join(line.split()) in {" ".join(each.split()) for each in shown.splitlines()}


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"encryption.recipients": f"{ALICE} {BOB}"}, "2 recipients"),
        (
            {"encryption.recipients": ALICE, "encryption.kms": "hashivault://a,hashivault://b"},
            "1 recipient, 2 keys of a KMS",
        ),
        ({"encryption.kms": "hashivault://a"}, "1 key of a KMS"),
        ({"encryption.recipients": "age1x"}, "<config.encryption.recipients: "),
        ({}, None),
    ],
)
def test_a_description_says_for_how_many_backups_are_encrypted(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str], config: dict[str, str], said: str | None
) -> None:
    cluster.add(BACKUP_LOCATIONS, "main", spec={"provider": "aws", "config": config})

    assert run(["backup-location", "describe", "main"]) == 0

    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Encrypted for:")]
    assert [" ".join(line.split()).startswith(f"Encrypted for: {said}") for line in found] == (
        [] if said is None else [True]
    )


def test_a_snapshot_location_is_described_without_the_fields_of_a_bucket(
    cluster: ServedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.add(SNAPSHOT_LOCATIONS, "main", spec={"provider": "aws", "config": {"region": "eu"}})

    assert run(["snapshot-location", "describe", "main"]) == 0

    shown = capsys.readouterr().out
    assert "Bucket" not in shown
    assert "Phase" not in shown
    assert "region" in shown
    assert "Credential:  <the server's>" in shown
