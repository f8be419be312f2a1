"""`schedule`, and backups and restores that come from one, against a real API server."""

import json
import re
from typing import Any

import pytest
import yaml

from pinnace.kube.client import KubeClient
from pinnace.kube.resources import velero
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.command_lines import error, only_line

SCHEDULES, BACKUPS = velero("schedules"), velero("backups")
DAILY = ("--schedule", "0 7 * * *")


@pytest.mark.spec("CLI-046")
async def test_a_schedule_is_created_listed_described_and_deleted(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    printed = await command("schedule", "create", "daily", *DAILY, "-o", "yaml")
    assert yaml.safe_load(printed.out) == {
        "apiVersion": "velero.io/v1",
        "kind": "Schedule",
        "metadata": {"creationTimestamp": None, "name": "daily", "namespace": namespace},
        "spec": {
            "schedule": "0 7 * * *",
            "template": {"hooks": {}, "includedNamespaces": ["*"], "ttl": "0s"},
            "useOwnerReferencesInBackup": False,
        },
        "status": {},
    }
    assert await client.list_all(SCHEDULES, namespace) == []

    created = await command(
        *("create", "schedule", "daily", *DAILY, "--include-namespaces", "default", "-l", "app=web"),
        *("--ttl", "24h", "--ordered-resources", "pods=shop/a,shop/b", "--labels", "team=blue"),
    )
    assert (created.code, created.lines) == (0, ['Schedule "daily" created successfully.'])
    stored = await client.get(SCHEDULES, "daily", namespace)
    assert stored["spec"] == {
        "schedule": "0 7 * * *",
        "template": {
            "hooks": {},
            "includedNamespaces": ["default"],
            "labelSelector": {"matchLabels": {"app": "web"}},
            "orderedResources": {"pods": "shop/a,shop/b"},
            "ttl": "24h0m0s",
        },
        "useOwnerReferencesInBackup": False,
    }
    header, row = (await command("schedule", "get", "--show-labels")).lines
    assert header.split("  ")[0] == "NAME"
    assert [cell for cell in re.split(r"\s{2,}", row) if ":" not in cell] == [
        *("daily", "New", "0 7 * * *", "24h0m0s", "n/a", "app=web", "false", "team=blue"),
    ]
    described = (await command("describe", "schedule", "daily")).lines
    assert "  OrderedResources:" in described
    assert described[-1] == "Last Backup:  <never>"

    again = await command("schedule", "create", "daily", *DAILY)
    assert (again.code, again.out) == (1, "")
    assert again.told.rstrip().endswith("or delete the existing object first")
    assert only_line(await command("schedule", "delete", "daily", "--confirm")) == "Schedule deleted: daily"
    missing = error(await command("schedule", "delete", "daily", "--confirm"))
    assert missing.endswith(f'"daily" not found; there are no schedules in namespace {namespace}')
    assert only_line(await command("schedule", "delete", "--all", "--confirm")) == "No schedules found"


async def test_locations_of_a_schedule_must_exist(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    for flag, kind, things in (
        ("--storage-location", "backupstoragelocations", "backup locations"),
        ("--volume-snapshot-locations", "volumesnapshotlocations", "snapshot locations"),
    ):
        refused = await command("schedule", "create", "s", *DAILY, flag, "nope")
        none = f"there are no {things} in namespace {namespace}"
        assert error(refused) == f'{kind}.velero.io "nope" not found; {none}'
    assert await client.list_all(SCHEDULES, namespace) == []


@pytest.mark.spec("CLI-010")
async def test_a_backup_is_created_from_a_schedule(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    spec = {
        "schedule": "@daily",
        "useOwnerReferencesInBackup": True,
        "template": {"includedNamespaces": ["default"], "ttl": "24h0m0s", "snapshotVolumes": False},
    }
    metadata = {"name": "test", "labels": {"velero.io/test": "true"}, "annotations": {"note": "kept"}}
    body = {"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": metadata, "spec": spec}
    schedule = await client.create(SCHEDULES, body, namespace)

    created = await command(
        *("backup", "create", "--from-schedule", "test", "--include-namespaces", "ignored"),
        *("--labels", "velero.io/test=yes,custom-label=true"),
    )

    assert created.code == 0
    first, second, third = created.lines
    assert first == "Creating backup from schedule, all other filters are ignored."
    name = second.removeprefix('Backup request "').removesuffix('" submitted successfully.')
    assert re.fullmatch(r"test-\d{14}", name)
    there = f"{name} --kubeconfig {command.kubeconfig}"
    assert third == (
        f"Run `pinnace backup describe {there}` or `pinnace backup logs {there}` for more details."
    )
    backup: dict[str, Any] = await client.get(BACKUPS, name, namespace)
    assert backup["spec"] == spec["template"]
    assert backup["metadata"]["labels"] == {
        "velero.io/test": "yes",
        "velero.io/schedule-name": "test",
        "custom-label": "true",
    }
    notes = backup["metadata"]["annotations"]
    assert notes.keys() == {
        *("note", "pinnace.io/source-cluster-address", "pinnace.io/source-cluster-uid"),
        "pinnace.io/run-requested",
    }
    assert notes["note"] == "kept"
    assert backup["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "velero.io/v1",
            "kind": "Schedule",
            "name": "test",
            "uid": schedule["metadata"]["uid"],
            "controller": True,
        }
    ]
    named = await command("backup", "create", "mine", "--from-schedule", "test", "-o", "json")
    assert json.loads(named.out)["metadata"]["name"] == "mine"
    missing = await command("backup", "create", "--from-schedule", "nope")
    assert error(missing) == f'schedules.velero.io "nope" not found; namespace {namespace} has test'
    assert len(await client.list_all(BACKUPS, namespace)) == 1


async def test_a_restore_is_created_from_a_schedule(
    client: KubeClient, namespace: str, command: Pinnace
) -> None:
    body = {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"name": "s-1", "labels": {"velero.io/schedule-name": "s"}},
        "status": {"phase": "PartiallyFailed", "startTimestamp": "2021-08-11T21:43:26Z"},
    }
    await client.create(BACKUPS, body, namespace)

    plain = await command("restore", "create", "r1", "--from-schedule", "s")
    chosen = await command("restore", "create", "--from-schedule", "s", "--allow-partially-failed")

    assert plain.lines[0] == 'Restore request "r1" submitted successfully.'
    name = chosen.lines[0].split('"')[1]
    assert re.fullmatch(r"s-\d{14}", name)
    specs = {
        obj["metadata"]["name"]: (obj["spec"]["backupName"], obj["spec"].get("scheduleName"))
        for obj in await client.list_all(velero("restores"), namespace)
    }
    assert specs == {"r1": ("", "s"), name: ("s-1", None)}
