"""Every command on a folder: what it prints, writes and leaves. (docs/spec: CLI 2-5)"""

import gzip
import json
import re
import secrets
import tarfile
from pathlib import Path

import pytest
import yaml

from pinnace.api.labels import label_value
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS
from tests.e2e.without_server.command import Pinnace
from tests.support.runs.without_server import ENCODED_PASSWORD, MakePinnace, exists, files_in

BACKUP_HEADER = "NAME   STATUS      ERRORS   WARNINGS   CREATED"


async def make(pinnace: Pinnace, name: str, world: str, *flags: str) -> None:
    outcome = await pinnace("backup", "create", name, "--include-namespaces", world, *flags)
    assert outcome.code == 0, outcome


async def test_a_backup_is_made_listed_described_logged_and_downloaded(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    created = await pinnace(
        *("backup", "create", "b1", "--include-namespaces", world, "--labels", "team=a,stage=test"),
        *("--ttl", "1h30m", "--exclude-resources", "events,serviceaccounts", "--selector", "app in (web,db)"),
        *(
            "--snapshot-volumes=false",
            "--include-cluster-resources=false",
            "--default-volumes-to-restic=false",
        ),
        *("--ordered-resources", f"configmaps={world}/settings,{world}/other", "--wait"),
    )
    assert (created.code, created.told) == (0, "")
    assert created.lines[0] == f"Backing up to {location} as b1."
    assert created.lines[1].startswith("Backup b1 Completed: 3 items in ")
    assert created.lines[1].endswith("s, 0 errors, 0 warnings.")
    assert len(created.lines) == 2

    table = await pinnace("backup", "get", "--show-labels", "--label-columns", "team,nothing")
    header, row = table.lines
    assert header.startswith(BACKUP_HEADER)
    assert header.split()[-3:] == ["TEAM", "NOTHING", "LABELS"]
    assert row.startswith("b1     Completed   0        0 ")
    assert row.endswith("stage=test,team=a,velero.io/storage-location=default")
    assert (await pinnace("backup", "get", "b1", "-o", "name")).out == "backup.velero.io/b1\n"

    shown = json.loads((await pinnace("backup", "get", "b1", "-o", "json")).out)
    assert (shown["kind"], shown["metadata"]["name"]) == ("Backup", "b1")
    assert shown["spec"] == {
        "csiSnapshotTimeout": "10m0s",
        "defaultVolumesToFsBackup": False,
        "excludedResources": ["events", "serviceaccounts"],
        "hooks": {},
        "includeClusterResources": False,
        "includedNamespaces": [world],
        "itemOperationTimeout": "4h0m0s",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["db", "web"]}]},
        "orderedResources": {"configmaps": f"{world}/settings,{world}/other"},
        "snapshotVolumes": False,
        "storageLocation": "default",
        "ttl": "1h30m0s",
    }
    status = shown["status"]
    assert status["phase"] == "Completed"
    assert status["progress"] == {"itemsBackedUp": 3, "totalItems": 3}
    assert yaml.safe_load((await pinnace("backup", "get", "-o", "yaml")).out) == shown

    description = await pinnace("backup", "describe", "b1", "--details")
    assert "Total items to be backed up:  3" in description.lines
    assert "Label selector:  app in (db,web)" in description.lines
    resources = description.out[description.out.index("Resource List:") :].split("\n\n")[0]
    assert resources == (
        f"Resource List:\n  v1/ConfigMap:\n    - {world}/other\n    - {world}/settings\n"
        f"  v1/Namespace:\n    - {world}"
    )
    assert "Resource List" not in (await pinnace("backup", "describe", "b1")).out

    log = await pinnace("backup", "logs", "b1")
    assert log.out == gzip.decompress((location / "backups/b1/b1-logs.gz").read_bytes()).decode()
    assert 'msg="Including namespaces: ' in log.out
    assert "level=error" not in log.out

    downloaded = await pinnace("backup", "download", "b1")
    target = pinnace.folder / "b1-data.tar.gz"
    assert downloaded.lines == [f"Backup b1 has been successfully downloaded to {target}"]
    assert target.read_bytes() == (location / "backups/b1/b1.tar.gz").read_bytes()
    assert target.stat().st_mode & 0o777 == 0o600
    with tarfile.open(target) as archive:
        names = [name for name in archive.getnames() if "-preferredversion" not in name]
    folder = f"resources/configmaps/namespaces/{world}"
    assert names == [
        "metadata/version",
        f"{folder}/settings.json",
        f"{folder}/other.json",
        f"resources/namespaces/cluster/{world}.json",
    ]


async def test_a_restore_is_made_listed_described_logged_and_deleted(
    pinnace: Pinnace, location: Path, world: str, client: KubeClient
) -> None:
    target = f"{world}-copy"
    await make(pinnace, "b1", world)

    created = await pinnace(
        *("restore", "create", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}"),
        *("--include-namespaces", world, "--exclude-resources", "configmaps", "--labels", "a=b"),
        *("--selector", "!nothing", "--restore-volumes=false", "--preserve-nodeports"),
        *("--include-cluster-resources=false", "-w"),
    )
    assert (created.code, created.told) == (0, "")
    assert created.lines[0] == f"Restoring backup b1 from {location} as r1."
    assert created.lines[1].startswith("Restore r1 Completed: ")
    password = await client.get(SECRETS, "password", target)
    assert password["data"] == {"password": ENCODED_PASSWORD}
    assert password["metadata"]["labels"] == {"velero.io/backup-name": "b1", "velero.io/restore-name": "r1"}
    names = [item["metadata"]["name"] for item in await client.list_all(CONFIGMAPS, target)]
    assert not {"settings", "other", "plain"} & set(names)

    # With names that the command picks, a time at their end, and everything left out of the first.
    second = await pinnace(
        *("restore", "create", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )
    assert second.code == 0
    rows = (await pinnace("restore", "get")).lines
    assert rows[0].split()[:4] == ["NAME", "BACKUP", "STATUS", "STARTED"]
    assert rows[1].startswith("b1-20")
    assert rows[2].split()[:3] == ["r1", "b1", "Completed"]
    assert (await pinnace("restore", "get", "-o", "name", "-l", "a=b")).lines == ["restore.velero.io/r1"]
    found = json.loads((await pinnace("restore", "get", "-o", "json")).out)
    assert (found["kind"], len(found["items"])) == ("RestoreList", 2)
    shown = found["items"][1]
    assert shown["spec"]["namespaceMapping"] == {world: target}
    assert shown["spec"]["excludedResources"][0] == "configmaps"
    assert shown["status"]["phase"] == "Completed"

    description = await pinnace("restore", "describe", "r1", "--details")
    assert f"Namespace mappings:  {world}={target}" in description.lines
    assert "Preserve Service NodePorts:  true" in description.lines
    log = await pinnace("restore", "logs", "r1")
    assert log.out == gzip.decompress((location / "restores/r1/restore-r1-logs.gz").read_bytes()).decode()
    assert " restore=velero/r1 " in log.out

    gone = await pinnace("restore", "delete", "r1", "--confirm")
    assert (gone.code, gone.out) == (0, 'Restore "r1" deleted\n')
    assert not (location / "restores/r1").exists()
    assert (await client.get(SECRETS, "password", target))["metadata"]["name"] == "password"
    everything = await pinnace("restore", "delete", "--all", "--confirm")
    assert everything.out.endswith("deleted\n")
    assert (await pinnace("restore", "delete", "--all", "--confirm")).out == "No restores found\n"
    await client.delete(NAMESPACES, target)


async def test_warnings_of_a_restore_are_counted_and_described(
    pinnace: Pinnace, world: str, client: KubeClient
) -> None:
    await make(pinnace, "b1", world, "--include-resources", "configmaps")
    await client.patch(CONFIGMAPS, "settings", {"data": {"key": "changed"}}, world)

    outcome = await pinnace("restore", "create", "r1", "--from-backup", "b1")

    assert outcome.code == 0
    assert "0 errors, 1 warning." in outcome.lines[1]
    title, warning, advice, rest = outcome.told.splitlines()
    assert title == "Warnings:"
    assert warning.startswith('  could not restore, configmaps "settings" already exists.')
    assert "--namespace-mappings" in advice
    assert rest.startswith("The warning in full: pinnace restore describe r1 --kubeconfig ")
    description = (await pinnace("restore", "describe", "r1")).out
    assert f'{world}:  could not restore, configmaps "settings" already exists.' in description
    assert (await client.get(CONFIGMAPS, "settings", world))["data"] == {"key": "changed"}


async def test_the_verb_first_forms_do_the_same(
    pinnace: Pinnace, world: str, location: Path, client: KubeClient
) -> None:
    target = f"{world}-verbs"
    created = await pinnace("create", "backup", "b1", "--include-namespaces", world)
    assert created.lines[0] == f"Backing up to {location} as b1."
    restored = await pinnace(
        *("create", "restore", "r1", "--from-backup", "b1", "--namespace-mappings", f"{world}:{target}")
    )
    assert (restored.code, restored.lines[0]) == (0, f"Restoring backup b1 from {location} as r1.")
    for noun in ("backup", "restore"):
        for verb in ("get", "describe"):
            plain = await pinnace(noun, verb)
            assert plain.out
            assert (await pinnace(verb, f"{noun}s")).out == plain.out
            assert (await pinnace(verb, noun)).out == plain.out
    assert (await pinnace("delete", "restores", "r1", "--confirm")).out == 'Restore "r1" deleted\n'
    assert (await pinnace("delete", "backup", "b1", "--confirm")).out == 'Backup "b1" deleted\n'
    assert files_in(location) == {}
    await client.delete(NAMESPACES, target)


async def test_backups_are_deleted_by_name_by_selector_and_all(
    pinnace: Pinnace, location: Path, world: str
) -> None:
    for name in ("b1", "b10", "b2"):
        flags = ("--include-resources", "configmaps", "--labels", f"keep={'yes' if name == 'b2' else 'no'}")
        await make(pinnace, name, world, *flags)
    assert (await pinnace("restore", "create", "r1", "--from-backup", "b1")).code == 0
    assert (await pinnace("restore", "create", "r2", "--from-backup", "b2")).code == 0

    asked = await pinnace("backup", "delete", "b1", stdin="maybe\nn\n")
    listed, what, questions = asked.out.splitlines()
    assert (asked.code, listed) == (0, "To be deleted:")
    assert re.fullmatch(r"  backup b1 \(Completed, \d+ items, [\d.]+ KiB, \d+s ago, 1 restore\)", what)
    assert questions == "Are you sure you want to continue (Y/N)? " * 2
    unanswered = await pinnace("backup", "delete", "--all")
    assert (unanswered.code, len(unanswered.lines)) == (2, 5)
    assert (location / "backups/b1/b1.tar.gz").exists()

    agreed = await pinnace("backup", "delete", "b1", "nope", stdin="Y\n")
    assert agreed.code == 1
    assert agreed.out.endswith('Backup "b1" deleted\n')
    assert agreed.told.startswith('An error occurred: backups.velero.io "nope" not found; ')
    left = {path.name for folder in ("backups", "restores") for path in (location / folder).iterdir()}
    assert left == {"b10", "b2", "r2"}

    chosen = await pinnace("backup", "delete", "--selector", "keep=no", "--confirm")
    assert chosen.out == 'Backup "b10" deleted\n'
    for wrong in (("--all", "b2"), (), ("--selector", "")):
        refused = await pinnace("backup", "delete", "--confirm", *wrong)
        assert refused.code == 2
    assert (await pinnace("backup", "delete", "--all", "--confirm")).out == 'Backup "b2" deleted\n'
    assert (await pinnace("backup", "delete", "--all", "--confirm")).out == "No backups found\n"


@pytest.mark.spec("CLI-013")
async def test_the_table_is_sorted_and_every_form_knows_an_empty_list(
    pinnace: Pinnace, empty_location: Path, world: str
) -> None:
    location = empty_location
    assert (await pinnace("backup", "get")).out == ""
    assert (await pinnace("restore", "get")).out == ""
    assert json.loads((await pinnace("backup", "get", "-o", "json")).out)["items"] == []
    assert yaml.safe_load((await pinnace("restore", "get", "-o", "yaml")).out)["kind"] == "RestoreList"
    assert (await pinnace("backup", "describe")).out == ""
    assert files_in(location) == {}
    await make(pinnace, "zebra", world, "--include-resources", "configmaps")
    source = location / "backups/zebra/velero-backup.json"
    for name in ("daily-20210801000000", "daily-20210802000000", "apple"):
        copy = location / "backups" / name / "velero-backup.json"
        copy.parent.mkdir()
        copy.write_bytes(source.read_bytes())  # the directory's name counts, not the one in the file

    rows = (await pinnace("backup", "get")).lines[1:]

    assert [row.split()[0] for row in rows] == [
        *("apple", "daily-20210802000000", "daily-20210801000000", "zebra")
    ]
    two = json.loads((await pinnace("backup", "get", "zebra", "apple", "-o", "json")).out)
    assert [item["metadata"]["name"] for item in two["items"]] == ["zebra", "apple"]
    assert {item["apiVersion"] for item in two["items"]} == {"velero.io/v1"}


async def test_output_of_create_is_the_object_and_nothing_is_done(
    pinnace: Pinnace, location: Path, tmp_path: Path
) -> None:
    pinnace.kubeconfig = tmp_path / "there-is-none"  # so it cannot have asked the cluster either
    backup = await pinnace("backup", "create", "b1", "--include-namespaces", "nginx", "-o", "yaml")
    restore = await pinnace("restore", "create", "r1", "--from-backup", "b1", "-o", "json")

    assert yaml.safe_load(backup.out) == {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"creationTimestamp": None, "name": "b1", "namespace": "velero"},
        "spec": {"hooks": {}, "includedNamespaces": ["nginx"], "ttl": "0s"},
        "status": {},
    }
    assert json.loads(restore.out)["spec"] == {"backupName": "b1", "hooks": {}, "includedNamespaces": ["*"]}
    assert not exists(location)


async def test_the_location_comes_from_the_environment_and_the_flag_wins(
    pinnace_for: MakePinnace, tmp_path: Path, world: str
) -> None:
    by_environment = pinnace_for(None, environ={"PINNACE_LOCATION": "from-environment"})
    await make(by_environment, "b1", world, "--include-resources", "configmaps")
    assert (tmp_path / "from-environment/backups/b1/b1.tar.gz").exists()

    by_environment.location = f"file://{tmp_path}/from%20flag"
    await make(by_environment, "b2", world, "--include-resources", "configmaps")
    assert (tmp_path / "from flag/backups/b2/b2.tar.gz").exists()
    assert not (tmp_path / "from-environment/backups/b2").exists()


@pytest.mark.spec("CLI-027")
async def test_download_keeps_existing_files(pinnace: Pinnace, location: Path, world: str) -> None:
    await make(pinnace, "b1", world, "--include-resources", "configmaps")
    stored = (location / "backups/b1/b1.tar.gz").read_bytes()
    target, link, folder = (pinnace.folder / name for name in ("kept", "link", "folder"))
    target.write_text("mine")
    link.symlink_to(target)
    folder.mkdir()

    refused = await pinnace("backup", "download", "b1", "-o", "kept")
    assert (refused.code, refused.err) == (1, "An error occurred: open kept: file exists\n")
    assert target.read_text() == "mine"
    assert "not a regular file" in (await pinnace("backup", "download", "b1", "-o", "folder", "--force")).err
    (location / "backups/b1/b1.tar.gz").unlink()
    missing = await pinnace("backup", "download", "b1", "-o", "kept", "--force")
    assert missing.code == 1
    assert missing.err.startswith(
        "An error occurred: backup b1 is Completed and has no tarball: `pinnace backup verify b1"
    )
    assert target.read_text() == "mine"
    (location / "backups/b1/b1.tar.gz").write_bytes(stored)
    forced = await pinnace("backup", "download", "b1", "--output", "link", "--force")
    assert forced.code == 0
    assert link.is_symlink()
    assert target.read_bytes() == stored
    nowhere = await pinnace("backup", "download", "b1", "-o", f"{secrets.token_hex(4)}/file")
    assert nowhere.err.endswith("No such file or directory\n")


async def test_a_schedule_is_restored_from_its_newest_backup(
    pinnace: Pinnace, world: str, client: KubeClient
) -> None:
    target = f"{world}-scheduled"
    label = ("--labels", "velero.io/schedule-name=daily")
    await make(pinnace, "old", world, "--include-resources", "configmaps", *label)
    await make(pinnace, "new", world, "--include-resources", "secrets", *label)
    mapping = ("--namespace-mappings", f"{world}:{target}")

    outcome = await pinnace("restore", "create", "r1", "--from-schedule", "daily", *mapping)
    again = await pinnace(
        *("restore", "create", "r2", "--from-schedule", "daily", *mapping, "--allow-partially-failed")
    )
    none = await pinnace("restore", "create", "r3", "--from-schedule", "weekly")
    long_name = "nightly-" + "x" * 70  # longer than a label's value can be
    long_label = ("--labels", f"velero.io/schedule-name={label_value(long_name)}")
    await make(pinnace, "long", world, "--include-resources", "secrets", *long_label)
    of_long = await pinnace("restore", "create", "r4", "--from-schedule", long_name, *mapping)

    assert (outcome.code, again.code, none.code, of_long.code) == (0, 0, 2, 0)
    assert of_long.lines[0].startswith("Restoring backup long ")
    assert outcome.lines[0].startswith("Restoring backup new ")
    assert again.lines[0].startswith("Restoring backup new ")
    assert "No backups found for the schedule weekly in " in none.err
    shown = json.loads((await pinnace("restore", "get", "r1", "-o", "json")).out)
    assert (shown["spec"]["backupName"], shown["spec"]["scheduleName"]) == ("new", "daily")
    await client.delete(NAMESPACES, target)
