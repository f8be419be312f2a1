"""`backup-location` and `snapshot-location` against a real API server, with the objects that they leave."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.command_lines import error, only_line

BACKUP_LOCATIONS, SNAPSHOT_LOCATIONS = velero("backupstoragelocations"), velero("volumesnapshotlocations")
AWS = ("--provider", "aws", "--bucket", "b")


async def spec_of(client: KubeClient, namespace: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = (await client.get(BACKUP_LOCATIONS, name, namespace))["spec"]
    return spec


@pytest.mark.spec("CLI-030")
async def test_a_backup_location_is_created_with_what_was_given(
    client: KubeClient, namespace: str, command: Pinnace, tmp_path: Path
) -> None:
    bundle = tmp_path / "ca.pem"
    bundle.write_text("a certificate")

    plain = await command("backup-location", "create", "plain", *AWS)
    full = await command(
        *("create", "backup-location", "full", *AWS, "--prefix", "p", "--credential", "secret=key"),
        *("--config", "region=r,s3Url=https://s3.example.com", "--config", "profile=x", "--labels", "a=b"),
        *("--cacert", str(bundle), "--access-mode", "ReadOnly"),
        *("--backup-sync-period", "2m", "--validation-frequency=0s"),
    )

    for created, name in ((plain, "plain"), (full, "full")):
        asks = f"pinnace backup-location get {name} --kubeconfig {command.kubeconfig}"
        assert (created.code, created.lines) == (
            0,
            [f'Backup storage location "{name}" configured successfully.'],
        )
        assert created.err == f"`{asks}` shows whether the server can use it.\n"
    assert await spec_of(client, namespace, "plain") == {
        "provider": "aws",
        "objectStorage": {"bucket": "b"},
        "accessMode": "ReadWrite",
    }
    assert await spec_of(client, namespace, "full") == {
        "provider": "aws",
        "objectStorage": {
            "bucket": "b",
            "prefix": "p",
            "caCert": base64.b64encode(b"a certificate").decode(),
        },
        "config": {"region": "r", "s3Url": "https://s3.example.com", "profile": "x"},
        "credential": {"name": "secret", "key": "key"},
        "accessMode": "ReadOnly",
        "backupSyncPeriod": "2m0s",
        "validationFrequency": "0s",
    }
    assert (await client.get(BACKUP_LOCATIONS, "full", namespace))["metadata"]["labels"] == {"a": "b"}
    again = await command("backup-location", "create", "plain", *AWS)
    assert error(again) == (
        'backupstoragelocations.velero.io "plain" already exists: choose another name, or delete '
        "the existing object first"
    )


@pytest.mark.spec("CLI-030", "CLI-031")
async def test_only_one_location_is_the_default(
    client: KubeClient, namespace: str, command: Pinnace, tmp_path: Path
) -> None:
    async def defaults() -> list[str]:
        found = await client.list_all(BACKUP_LOCATIONS, namespace)
        return [obj["metadata"]["name"] for obj in found if obj["spec"].get("default")]

    bundle = tmp_path / "ca.pem"
    bundle.write_text("one")
    for name in ("one", "two"):
        await command("backup-location", "create", name, *AWS, "--cacert", str(bundle), "--default")
    assert await defaults() == ["two"]
    assert error(await command("backup-location", "create", "one", *AWS, "--default")).endswith(
        "existing object first"
    )
    assert "not found; " in error(await command("backup-location", "set", "three", "--default"))
    assert await defaults() == ["two"]

    assert (await command("backup-location", "set", "one", "--default")).code == 0
    assert await defaults() == ["one"]
    assert (await spec_of(client, namespace, "one"))["objectStorage"]["caCert"] == "b25l"

    bundle.write_text("two")
    changed = await command("backup-location", "set", "one", "--cacert", str(bundle), "--credential", "s=k")
    assert only_line(changed) == 'Backup storage location "one" configured successfully.'
    spec = await spec_of(client, namespace, "one")
    assert (spec["default"], spec["objectStorage"]["caCert"]) == (True, "dHdv")
    assert spec["credential"] == {"name": "s", "key": "k"}
    assert (await command("backup-location", "set", "one", "--default=false")).code == 0
    assert await defaults() == []


@pytest.mark.spec("CLI-017")
async def test_backup_locations_are_listed_and_deleted(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    await command("backup-location", "create", "a", *AWS, "--prefix", "p", "--labels", "team=blue")
    await command("backup-location", "create", "b", *AWS, "--default")

    table = await command("get", "backup-locations", "--label-columns", "team")
    header, *rows = [line.split() for line in table.lines]
    assert (header[:3], header[-2:]) == (["NAME", "PROVIDER", "BUCKET/PREFIX"], ["DEFAULT", "TEAM"])
    assert rows == [
        ["a", "aws", "b/p", "Unknown", "Unknown", "ReadWrite", "blue"],
        ["b", "aws", "b", "Unknown", "Unknown", "ReadWrite", "true"],
    ]
    chosen = await command("backup-location", "get", "-l", "team!=blue", "-o=name")
    assert only_line(chosen) == "backupstoragelocation.velero.io/b"
    assert only_line(await command("backup-location", "get", "--default", "-o", "name")).endswith("/b")
    listing = json.loads((await command("backup-location", "get", "a", "b", "-o", "json")).out)
    assert listing["kind"] == "BackupStorageLocationList"
    assert [item["kind"] for item in listing["items"]] == ["BackupStorageLocation"] * 2

    partly = await command("backup-location", "delete", "a", "nope", "--confirm")
    assert partly.code == 1
    assert partly.lines == ['Backup storage location "a" deleted successfully.']
    missing = f'backupstoragelocations.velero.io "nope" not found; namespace {namespace} has a, b'
    assert partly.told == f"An error occurred: {missing}\n"
    asked = await command("delete", "backup-locations", "--all", stdin="y\n")
    assert asked.lines[-1].endswith('Backup storage location "b" deleted successfully.')
    assert only_line(await command("backup-location", "delete", "--all", "--confirm")) == (
        "No backup-locations found"
    )


async def test_snapshot_locations_are_created_listed_and_changed(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    created = await command(
        *("snapshot-location", "create", "east", "--provider", "aws", "--config", "region=east"),
        *("--labels", "a=b"),
    )
    assert only_line(created) == 'Snapshot volume location "east" configured successfully.'
    stored = await client.get(SNAPSHOT_LOCATIONS, "east", namespace)
    assert stored["spec"] == {"provider": "aws", "config": {"region": "east"}}
    assert stored["metadata"]["labels"] == {"a": "b"}

    assert (await command("get", "snapshot-location")).lines == ["NAME   PROVIDER", "east   aws"]
    rewritten = await command("snapshot-location", "set", "east")
    assert only_line(rewritten) == 'Volume snapshot location "east" configured successfully.'
    assert (await client.get(SNAPSHOT_LOCATIONS, "east", namespace))["spec"] == stored["spec"]
    for words in (["create", "east", "--provider", "p"], ["get", "nope"], ["set", "nope"]):
        assert "volumesnapshotlocations.velero.io" in error(await command("snapshot-location", *words))


async def test_repositories_of_both_kinds_are_listed(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    spec = {
        "volumeNamespace": "shop",
        "backupStorageLocation": "default",
        "resticIdentifier": "s3:b/restic/shop",
        "maintenanceFrequency": "168h0m0s",
    }
    for kind, plural, name, status in (
        ("BackupRepository", "backuprepositories", "fresh", {}),
        (
            "ResticRepository",
            "resticrepositories",
            "ready",
            {"phase": "Ready", "lastMaintenanceTime": "2021-08-11T21:43:26Z"},
        ),
    ):
        body = {
            "apiVersion": "velero.io/v1",
            "kind": kind,
            "metadata": {"name": name, "labels": {"velero.io/volume-namespace": "shop"}},
            "spec": spec,
            "status": status,
        }
        await client.create(velero(plural), body, namespace)

    listed = await command("repo", "get", "-l", "velero.io/volume-namespace=shop")

    assert listed.lines == [
        "NAME    STATUS   LAST MAINTENANCE",
        "fresh   New      <never>",
        "ready   Ready    2021-08-11 21:43:26 +0000 UTC",
    ]
    assert json.loads((await command("restic", "repo", "get", "ready", "-o", "json")).out)["spec"] == spec
    assert "backuprepositories.velero.io" in error(await command("restic", "repo", "get", "nope"))
