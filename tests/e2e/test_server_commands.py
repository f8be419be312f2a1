"""The commands of a user whose server does the work."""

import asyncio
import json
import re
import secrets
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from pinnace import __version__
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CLUSTER_ROLE_BINDINGS, CONFIGMAPS, NAMESPACES, SECRETS, velero
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import Home, NewServer
from tests.support.waiting import eventually

ONE_OF = (
    "An error occurred: you must specify exactly one of: specific {what} name(s), the --all flag, "
    "or the --selector flag\n"
)


async def ready(new_server: NewServer) -> None:
    await (await new_server("--leader-elect=false")).ready()


PATIENT = """
import sys
from pinnace.cli import program
from pinnace.cli.completion import answering, names
names.SECONDS = 60.0
answering.main(program.cli, ["zsh", *sys.argv[1:]])
"""
"""Completion on a busy machine, where a quarter of a second is too little."""


async def completed(command: Pinnace, *words: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PATIENT, *words, env=command.environ, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().splitlines()


async def gone(home: Home, plural: str, name: str) -> None:
    async def check() -> bool:
        try:
            await home.client.get(velero(plural), name, home.namespace)
        except NotFound:
            return True
        return False

    await eventually(check)


async def test_a_backup_is_created_listed_described_logged_and_deleted(
    home: Home, new_server: NewServer, command: Pinnace
) -> None:
    await ready(new_server)
    words = ["--include-namespaces", home.namespace, "--include-resources", "configmaps,secrets", "--wait"]
    made = await command("backup", "create", "b1", *words, "--labels", "a=b")
    assert made.code == 0
    assert re.fullmatch(r"\d+ items in \d+s, 0 errors, 0 warnings\.\n", made.told)
    assert made.lines[0] == 'Backup request "b1" submitted successfully.'
    assert made.lines[1].startswith("Waiting for backup to complete. You may safely press ctrl-c")
    flags = f"--kubeconfig {command.kubeconfig}"
    assert made.lines[-1] == (
        "Backup completed with status: Completed. You may check for more information using the commands "
        f"`pinnace backup describe b1 {flags}` and `pinnace backup logs b1 {flags}`."
    )

    got = await command("backup", "get", "--show-labels")
    header, row = got.lines
    assert header.split()[:4] == ["NAME", "STATUS", "ERRORS", "WARNINGS"]
    assert row.split()[:4] == ["b1", "Completed", "0", "0"]
    assert row.endswith("a=b,velero.io/storage-location=default")

    asked = ("--kubeconfig", str(command.kubeconfig), "-n", home.namespace, "backup", "show", "b1")
    assert "configmap/map-0\t" in await completed(command, *asked, "configmap/")

    described = await command("backup", "describe", "b1", "--details")
    assert described.code == 0
    assert f"    - {home.namespace}/map-0" in described.lines
    assert "Velero-Native Snapshots: <none included>" in described.lines

    logs = await command("backup", "logs", "b1")
    assert logs.code == 0
    assert f"backup={home.namespace}/b1" in logs.lines[0]

    downloaded = await command("backup", "download", "b1")
    path = command.folder / "b1-data.tar.gz"
    assert downloaded.out == f"Backup b1 has been successfully downloaded to {path}\n"
    with tarfile.open(path) as tar:
        assert f"resources/configmaps/namespaces/{home.namespace}/map-0.json" in tar.getnames()
    again = await command("backup", "download", "b1")
    assert (again.code, again.err) == (1, f"An error occurred: open {path}: file exists\n")
    assert (await command("backup", "download", "b1", "--force")).code == 0

    deleted = await command("backup", "delete", "b1", "--confirm")
    assert deleted.lines == [
        'Request to delete backup "b1" submitted successfully.',
        "The backup will be fully deleted after all associated data (disk snapshots, backup files, restores) "
        "are removed.",
    ]
    await gone(home, "backups", "b1")
    assert not _files(home.location)
    assert (await command("backup", "get")).out == ""


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


async def test_restores_are_created_listed_described_logged_and_deleted(
    home: Home, new_server: NewServer, command: Pinnace, client: KubeClient
) -> None:
    target = f"target-{secrets.token_hex(4)}"
    await ready(new_server)
    await home.create_backup("b1")
    await home.ended("backups", "b1")
    words = ["--from-backup", "b1", "--namespace-mappings", f"{home.namespace}:{target}"]
    try:
        made = await command("restore", "create", "r1", *words, "--wait")
        assert made.code == 0
        assert "Restore completed with status: Completed." in made.lines[-1]
        assert (await client.get(CONFIGMAPS, "map-2", target))["data"] == {"number": "2"}
        unnamed = await command("restore", "create", *words)
        name = unnamed.lines[0].split('"')[1]
        assert name.startswith("b1-2")
        where = f"{name} --kubeconfig {command.kubeconfig}"
        assert unnamed.lines[1] == (
            f"Run `pinnace restore describe {where}` or `pinnace restore logs {where}` for more details."
        )
        assert (await home.ended("restores", name))["phase"] == "Completed"
    finally:
        await client.delete(NAMESPACES, target)

    got = await command("restore", "get", "r1")
    assert got.lines[1].split()[:3] == ["r1", "b1", "Completed"]
    described = await command("restore", "describe", "r1", "--details")
    assert any(line.startswith("Phase:") and line.endswith("Completed") for line in described.lines)
    assert f"restore={home.namespace}/r1" in (await command("restore", "logs", "r1")).lines[-1]
    assert (await command("restore", "delete", "--all", "--confirm")).lines == [
        f'Restore "{name}" deleted',
        'Restore "r1" deleted',
    ]
    assert (await command("restore", "get")).out == ""


@pytest.mark.spec("CLI-008", "CLI-026")
async def test_missing_objects_are_reported(home: Home, command: Pinnace) -> None:
    place = f"namespace {home.namespace}"
    no_backup = f'backups.velero.io "nope" not found; there are no backups in {place}'
    cases = {
        ("backup", "create"): (
            "A backup name is required, unless you are creating based on a schedule. Give one, as in "
            "`pinnace backup create NAME`, or --from-schedule SCHEDULE."
        ),
        ("backup", "create", "b", "--storage-location", "nope"): (
            f'backupstoragelocations.velero.io "nope" not found; {place} has default'
        ),
        ("backup", "create", "b", "--volume-snapshot-locations", "nope"): (
            f'volumesnapshotlocations.velero.io "nope" not found; there are no snapshot locations in {place}'
        ),
        ("backup", "create", "b", "--from-schedule", "nope"): (
            f'schedules.velero.io "nope" not found; there are no schedules in {place}'
        ),
        ("backup", "get", "nope"): no_backup,
        ("backup", "describe", "nope"): no_backup,
        ("backup", "download", "nope"): no_backup,
        ("restore", "create", "--from-backup", "nope"): no_backup,
        ("restore", "get", "nope"): (
            f'restores.velero.io "nope" not found; there are no restores in {place}'
        ),
    }
    for words, text in cases.items():
        outcome = await command(*words)
        assert (outcome.code, outcome.out, outcome.err) == (1, "", f"An error occurred: {text}\n")
    for what in ("backup", "restore"):
        outcome = await command(what, "logs", "nope")
        text = f'{what.capitalize()} "nope" does not exist. There are no {what}s in {place}\n'
        assert (outcome.code, outcome.err) == (1, text)

    assert await home.client.list_all(velero("backups"), home.namespace) == []


@pytest.mark.spec("CLI-026", "CLI-028")
async def test_logs_of_unfinished_runs_are_refused(home: Home, command: Pinnace) -> None:
    for name, phase in (("running", "InProgress"), ("going", "Deleting"), ("new", "")):
        body = {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {"name": name},
            "status": {"phase": phase} if phase else {},
        }
        await home.client.create(velero("backups"), body, home.namespace)
        outcome = await command("backup", "logs", name)
        waits = f" It waits for a server: there is none in namespace {home.namespace}." if not phase else ""
        assert (outcome.code, outcome.err) == (
            1,
            f'Logs for backup "{name}" are not available until it\'s finished processing. Please wait until '
            f"the backup has a phase of Completed or Failed and try again.{waits}\n",
        )
    done = {"metadata": {"name": "done"}, "status": {"phase": "Completed"}}
    body = {"apiVersion": "velero.io/v1", "kind": "Backup", **done}
    await home.client.create(velero("backups"), body, home.namespace)

    outcome = await command("backup", "logs", "done", "--timeout", "100ms")

    assert outcome.code == 1
    assert f"is the server in namespace {home.namespace} running?" in outcome.err


@pytest.mark.spec("CLI-011")
async def test_printing_an_object_sends_nothing(home: Home, command: Pinnace) -> None:
    printed = await command("backup", "create", "b1", "--include-namespaces", "nginx", "-o", "yaml")
    assert yaml.safe_load(printed.out) == {
        "apiVersion": "velero.io/v1",
        "kind": "Backup",
        "metadata": {"creationTimestamp": None, "name": "b1", "namespace": home.namespace},
        "spec": {"hooks": {}, "includedNamespaces": ["nginx"], "ttl": "0s"},
        "status": {},
    }
    await home.create_backup("exists")
    restore = await command("restore", "create", "r", "--from-backup", "exists", "-o", "yaml")
    assert yaml.safe_load(restore.out)["spec"] == {
        "backupName": "exists",
        "hooks": {},
        "includedNamespaces": ["*"],
    }
    wrong = await command("backup", "create", "b1", "-o", "xml")
    assert wrong.code == 1
    assert "invalid output format \"xml\" - valid values are 'table', 'json', and 'yaml'" in wrong.err

    found = await home.client.list_all(velero("backups"), home.namespace)
    assert [item["metadata"]["name"] for item in found] == ["exists"]


@pytest.mark.spec("CLI-045")
async def test_an_empty_list_has_its_form_in_every_output(command: Pinnace, home: Home) -> None:
    assert (await command("backup", "get")).out == ""
    listed = await command("backup", "get", "-o", "json")
    assert json.loads(listed.out)["kind"] == "BackupList"
    assert json.loads(listed.out)["items"] == []


@pytest.mark.spec("CLI-029")
async def test_a_restore_needs_one_source_that_exists(home: Home, command: Pinnace) -> None:
    both = ["--from-backup", "b", "--from-schedule", "s"]
    for words in ([], both):
        outcome = await command("restore", "create", "r", *words)
        assert outcome.code == 1
        assert "either a backup or schedule must be specified, but not both" in outcome.err
    words = ["restore", "create", "r", "--from-schedule", "s"]
    assert f"there are no schedules in namespace {home.namespace}\n" in (await command(*words)).err
    schedule = {"apiVersion": "velero.io/v1", "kind": "Schedule", "metadata": {"name": "s"}}
    await home.client.create(
        velero("schedules"), {**schedule, "spec": {"schedule": "@daily", "template": {}}}, home.namespace
    )
    assert (await command(*words)).err == "An error occurred: No backups found for the schedule s\n"
    # Backups outlive their schedule.
    await home.client.delete(velero("schedules"), "s", home.namespace)

    for minute, phase in ((1, "Completed"), (2, "PartiallyFailed"), (3, "InProgress")):
        body = {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": {"name": f"s-{minute}", "labels": {"velero.io/schedule-name": "s"}},
            "status": {"phase": phase, "startTimestamp": f"2021-08-11T21:4{minute}:00Z"},
        }
        await home.client.create(velero("backups"), body, home.namespace)
    words = ["restore", "create", "r", "--from-schedule", "s", "-o", "json"]
    plain = json.loads((await command(*words)).out)["spec"]
    partial = json.loads((await command(*words, "--allow-partially-failed")).out)["spec"]

    assert (plain["backupName"], plain["scheduleName"]) == ("", "s")
    assert partial["backupName"] == "s-2"
    assert not partial.get("scheduleName")


@pytest.mark.spec("CLI-024", "CLI-025")
async def test_deleting_asks_first(home: Home, command: Pinnace) -> None:
    for words in ([], ["b1", "--all"], ["--all", "--selector", "a=b"]):
        outcome = await command("backup", "delete", *words)
        assert (outcome.code, outcome.err) == (1, ONE_OF.format(what="backup"))
    await home.create_backup("b1")

    async def requests() -> int:
        return len(await home.client.list_all(velero("deletebackuprequests"), home.namespace))

    for answer, code, error in (("n\n", 0, ""), ("", 2, "An error occurred: error reading user input: EOF")):
        outcome = await command("backup", "delete", "b1", stdin=answer)
        assert (outcome.code, outcome.told.startswith(error)) == (code, True)
    assert await requests() == 0
    persistent = await command("backup", "delete", "b1", stdin="x\nyes\nY\n")
    assert persistent.out.count("Are you sure you want to continue (Y/N)? ") == 3
    assert await requests() == 1

    partly = await command("backup", "delete", "b1", "nope", "--confirm")
    assert partly.code == 1
    waits = f"WARNING: the deletion waits for a server: there is none in namespace {home.namespace}.\n"
    assert partly.told == (
        f'{waits}An error occurred: backups.velero.io "nope" not found; namespace {home.namespace} has b1\n'
    )
    assert await requests() == 2
    for plural, name, spec in (
        ("backups", "b1", {"storageLocation": "default"}),  # as its server would have written
        ("backupstoragelocations", "default", {"accessMode": "ReadOnly"}),
    ):
        await home.client.patch(velero(plural), name, {"spec": spec}, home.namespace)
    vain = await command("backup", "delete", "b1", "--confirm")
    assert (vain.code, await requests()) == (0, 3)
    assert vain.told.removeprefix(waits).startswith(
        "WARNING: backup b1 will stay: its storage location default is read-only"
    )
    nothing = await command("restore", "delete", "--all", "--confirm")
    assert (nothing.code, nothing.out) == (0, "No restores found\n")


async def test_version_with_and_without_a_server(home: Home, new_server: NewServer, command: Pinnace) -> None:
    alone = await command("version", "--timeout", "100ms")
    assert alone.lines[-1] == ("<error getting server version: timed out waiting for the server to answer>")
    await ready(new_server)
    both = await command("version", "--timeout", "120s")
    assert both.out == (
        f"Client:\n\tVersion: v{__version__}\n\tGit commit: -\nServer:\n\tVersion: v{__version__}\n"
    )


@pytest.mark.spec("CLI-041")
async def test_installing_twice_changes_nothing(
    client: KubeClient, velero_crds: None, command: Pinnace, tmp_path: Path
) -> None:
    namespace = f"velero-{secrets.token_hex(4)}"
    credentials = tmp_path / "credentials"
    credentials.write_text("[default]\n")
    words = ["install", "-n", namespace, "--provider", "aws", "--use-volume-snapshots=false"]
    words += ["--secret-file", str(credentials)]
    try:
        first = await command(*words, "--bucket", "b")
        assert (first.code, first.told) == (0, "")
        assert f"Namespace/{namespace}, " in first.out
        assert f"start one with `pinnace server -n {namespace}`.\n" in first.out
        assert "get secret velero-repo-credentials" in first.lines[-1]
        location = await client.get(velero("backupstoragelocations"), "default", namespace)
        secret = await client.get(SECRETS, "cloud-credentials", namespace)

        second = await command(*words, "--bucket", "another")
        assert second.code == 0
        assert "BackupStorageLocation/default" in next(
            line for line in second.lines if line.startswith("Existed")
        )
        assert "14 custom resource definitions" in next(
            line for line in second.lines if line.startswith("Existed")
        )
        assert await client.get(velero("backupstoragelocations"), "default", namespace) == location
        assert await client.get(SECRETS, "cloud-credentials", namespace) == secret
    finally:
        await client.delete(NAMESPACES, namespace)
        await client.delete(CLUSTER_ROLE_BINDINGS, f"velero-{namespace}")


async def test_a_server_for_a_folder_finds_what_was_made_without_one(
    client: KubeClient, velero_crds: None, command: Pinnace, new_server: NewServer, namespace: str
) -> None:
    """Both ways of working meet in the same files."""
    folder = command.folder / "backups"
    folder.mkdir()
    installed = await command(
        *("install", "-n", namespace, "--provider", "filesystem"),
        *("--backup-location-config", f"path={folder}"),
    )
    assert installed.code == 0, installed.err
    try:
        await ready(new_server)
        words = ["backup", "create", "b1", "--include-namespaces", namespace, "--wait"]
        assert "status: Completed" in (await command(*words)).out
        listed = await command("--location", str(folder), "backup", "get", "-o", "name")
        assert listed.out == "backup.velero.io/b1\n"
    finally:
        await client.delete(CLUSTER_ROLE_BINDINGS, f"velero-{namespace}")


async def test_commands_without_an_installation_say_so(velero_crds: None, command: Pinnace) -> None:
    """A namespace without a server is empty; waiting is in vain, and says so."""
    outcome = await command("backup", "get", "-n", "nowhere")
    assert (outcome.code, outcome.out) == (0, "")
    created = await command("backup", "create", "b1", "-n", "nowhere")
    assert created.code == 1
    assert 'namespaces "nowhere" not found' in created.err
