"""A server that encrypts: it is killed while a backup and a restore wait, and no identity is on it."""

import base64
import gzip
import json
import re
import secrets
import subprocess
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from io import BytesIO
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ProgramUnavailable
from hack.cluster.faults import Stall
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket
from pinnace.age.x25519 import X25519Identity
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, NAMESPACES, SECRETS, velero
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.plugins.programs import put_own
from tests.support.plugins.servers import PluginServer
from tests.support.servers.homes import FINAL, PASSWORD, Home
from tests.support.waiting import eventually
from tests.support.waiting_plugin import CANCELLED_FILE, ENDED_FILE, READ_AGAIN

ALICE, BOB = X25519Identity.generate(), X25519Identity.generate()
AGE = b"age-encryption.org/v1\n"
StartProxy = Callable[[ControlPlane], Awaitable[FaultProxy]]
SOON = ("--item-operation-sync-frequency", "1s")


@pytest.fixture
async def target(client: KubeClient) -> AsyncIterator[str]:
    """The name of a namespace to restore into, which does not exist yet."""
    name = f"target-{secrets.token_hex(4)}"
    yield name
    if any(item["metadata"]["name"] == name for item in await client.list_all(NAMESPACES)):
        await client.delete(NAMESPACES, name)


@pytest.fixture
async def sealed(home: Home, bucket: Bucket, programs: Path) -> Path:
    """The folder of the location in the server of the bucket, whose recipients are ALICE and BOB."""
    put_own(programs, "waiting", "tests.support.waiting_plugin")
    await home.move_to(bucket, server_url=bucket.server.url)
    config = {"encryption.recipients": f"{ALICE.recipient} {BOB.recipient}"}
    await home.client.patch(
        velero("backupstoragelocations"), "default", {"spec": {"config": config}}, home.namespace
    )
    annotations = {READ_AGAIN: "yes"}
    patch = {"metadata": {"annotations": annotations}}
    await home.client.patch(CONFIGMAPS, "map-0", patch, home.namespace)
    return bucket.server.directory / "buckets" / bucket.name


async def reached(home: Home, plural: str, name: str, phase: str) -> None:
    async def check() -> bool:
        status = await home.status(plural, name)
        assert status.get("phase") not in FINAL, status
        return status.get("phase") == phase

    await eventually(check)


async def kept_keys(home: Home) -> list[JSONObject]:
    return await home.client.list_all(SECRETS, home.namespace, label_selector="pinnace.io/key-of-backup")


async def back_up(home: Home, plugin_server: PluginServer, folder: Path) -> ServerProcess:
    """Make backup b1, whose server is killed while it waits. Returns the server that goes on."""
    first = await plugin_server(*SOON)
    await first.ready()
    await home.create_backup("b1")
    await reached(home, "backups", "b1", "WaitingForPluginOperations")
    (secret,) = await kept_keys(home)
    kept = base64.b64decode(secret["data"]["key"]).decode()
    await first.kill()
    await leave_key(home)
    patch = {"data": {"number": "changed while the backup waited"}}
    await home.client.patch(CONFIGMAPS, "map-0", patch, home.namespace)

    second = await plugin_server(*SOON)
    await second.ready()
    (folder / ENDED_FILE).touch()
    status = await home.ended("backups", "b1")
    assert status["phase"] == "Completed", (status, second.log)

    async def forgotten() -> bool:
        return await kept_keys(home) == []

    await eventually(forgotten)
    logs = first.log + second.log
    assert kept not in logs
    assert "AGE-SECRET-KEY" not in logs
    return second


async def leave_key(home: Home) -> None:
    """A key of a backup that was deleted while no server ran; this cluster has no garbage collector."""
    uid = "a4b8c2d6-0000-4000-8000-000000000000"
    metadata = {"name": f"pinnace-backup-key-{uid}", "labels": {"pinnace.io/key-of-backup": uid}}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    await home.client.create(SECRETS, body, home.namespace)


def files_below(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def plain(files: dict[str, bytes]) -> set[str]:
    return {name for name, data in files.items() if not data.startswith(AGE)}


async def give(home: Home, name: str, identity: X25519Identity) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": {"key.txt": f"# a key of age\n{identity.secret_text()}\n"},
    }
    await home.client.create(SECRETS, body, home.namespace)


async def test_a_backup_that_waited_through_a_kill_comes_back_by_the_secret_that_a_restore_names(
    home: Home,
    sealed: Path,
    plugin_server: PluginServer,
    command: Pinnace,
    client: KubeClient,
    target: str,
    tmp_path: Path,
) -> None:
    server = await back_up(home, plugin_server, tmp_path)
    files = files_below(sealed)
    assert {name.rpartition("/")[2] for name in plain(files)} <= {
        "velero-backup.json",
        "b1-pinnace-keys.json",
        "b1-pinnace-volumes.json",
        "b1-pinnace-writer.json",
    }
    assert not any("pinnace-parked" in name for name in files)
    hidden = (b"changed while", base64.b64encode(PASSWORD.encode()), b"AGE-SECRET-KEY")
    assert not any(text in data for data in files.values() for text in hidden)

    # Without an identity, and with a wrong one, nothing is created.
    await give(home, "wrong", X25519Identity.generate())
    mapping = ("--namespace-mappings", f"{home.namespace}:{target}")
    for name, flags, text in (
        ("r1", (), "--identity-secret NAME"),
        ("r2", ("--identity-secret", "wrong"), "none of the given identities"),
    ):
        refused = await command(
            *("restore", "create", name, "--from-backup", "b1", *mapping, *flags, "--wait", "--exit-code")
        )
        assert refused.code != 0, refused
        status = await home.status("restores", name)
        said = " ".join([status.get("failureReason", ""), *status.get("validationErrors", ())])
        assert "pinnace.io/identity-secret" in said, status
        assert text in said, status
    await home.create_restore("r3", "b1", target, annotations={"pinnace.io/identity-secret": "missing"})
    status = await home.ended("restores", "r3")
    assert "names Secret 'missing', which is not in namespace" in str(status["validationErrors"])
    early = await command("restore", "create", "r5", "--from-backup", "b1", "--identity-secret", "missing")
    assert early.code == 1, early
    assert f"namespace {home.namespace} has no Secret missing" in early.err, early
    assert not any(name.startswith("restores/r") for name in files_below(sealed))
    with pytest.raises(NotFound):
        await client.get(NAMESPACES, target)

    # The server is killed while the restore waits, too.
    (tmp_path / ENDED_FILE).unlink()
    await give(home, "recipient", BOB)
    created = await command(
        *("restore", "create", "r4", "--from-backup", "b1", *mapping, "--identity-secret", "recipient")
    )
    assert created.code == 0, created
    await reached(home, "restores", "r4", "WaitingForPluginOperations")
    await server.kill()
    third = await plugin_server(*SOON)
    await third.ready()
    (tmp_path / ENDED_FILE).touch()
    status = await home.ended("restores", "r4")
    assert status["phase"] == "Completed", (status, third.log)
    restored = await client.get(CONFIGMAPS, "map-0", target)
    assert restored["data"] == {"number": "changed while the backup waited"}
    assert (await client.get(CONFIGMAPS, "map-2", target))["data"] == {"number": "2"}
    password = (await client.get(SECRETS, "password", target))["data"]["password"]
    assert base64.b64decode(password).decode() == PASSWORD
    of_restore = plain(
        {name: data for name, data in files_below(sealed).items() if name.startswith("restores/")}
    )
    assert of_restore == {"restores/r4/restore-r4-pinnace-keys.json"}
    assert "AGE-SECRET-KEY" not in server.log + third.log


async def test_a_backup_that_waits_is_deleted_and_its_operations_are_cancelled_without_an_identity(
    home: Home, sealed: Path, plugin_server: PluginServer, tmp_path: Path
) -> None:
    server = await plugin_server(*SOON)
    await server.ready()
    await home.create_backup("b1")
    await reached(home, "backups", "b1", "WaitingForPluginOperations")
    parked = files_below(sealed)
    assert "backups/b1/pinnace-parked/b1-pinnace-volumes.json" in parked
    request = {
        "apiVersion": "velero.io/v1",
        "kind": "DeleteBackupRequest",
        "metadata": {"name": "d1"},
        "spec": {"backupName": "b1"},
    }
    await home.client.create(velero("deletebackuprequests"), request, home.namespace)

    async def gone() -> bool:
        try:
            await home.client.get(velero("backups"), "b1", home.namespace)
        except NotFound:
            return True
        return False

    await eventually(gone)
    assert (tmp_path / CANCELLED_FILE).read_text() == "op-map-0"
    assert files_below(sealed) == {}
    assert await kept_keys(home) == []
    assert "may still be running" not in server.log


async def test_a_backup_that_a_server_found_is_restored_through_a_kill_in_the_middle(
    home: Home,
    sealed: Path,
    plugin_server: PluginServer,
    client: KubeClient,
    control_plane: ControlPlane,
    fault_proxy: StartProxy,
    target: str,
    tmp_path: Path,
) -> None:
    (tmp_path / ENDED_FILE).touch()
    first = await plugin_server(*SOON)
    await first.ready()
    await home.create_backup("b1")
    assert (await home.ended("backups", "b1"))["phase"] == "Completed"
    await first.kill()
    await client.delete(velero("backups"), "b1", home.namespace)
    await give(home, "recipient", ALICE)

    proxy = await fault_proxy(control_plane)
    held = proxy.rules.add(Stall(), method="POST", path=f"^/api/v1/namespaces/{target}/configmaps")
    second = await plugin_server(*SOON, via=proxy)
    await second.ready()

    async def found() -> bool:
        return bool(await client.list_all(velero("backups"), home.namespace))

    await eventually(found)
    await home.create_restore("r1", "b1", target, annotations={"pinnace.io/identity-secret": "recipient"})
    await held.struck()
    assert (await home.status("restores", "r1"))["phase"] == "InProgress"
    await second.kill()
    held.release()

    third = await plugin_server(*SOON, "--resume-restores")
    await third.ready()
    status = await home.ended("restores", "r1")
    assert status["phase"] == "Completed", (status, third.log)
    restored = await client.get(velero("restores"), "r1", home.namespace)
    assert restored["metadata"]["annotations"]["pinnace.io/resumed"] == "1"
    for number in range(3):
        data = (await client.get(CONFIGMAPS, f"map-{number}", target))["data"]
        assert data == {"number": str(number)}
    files = {name: data for name, data in files_below(sealed).items() if name.startswith("restores/")}
    assert plain(files) == {"restores/r1/restore-r1-pinnace-keys.json"}


async def test_commands_open_what_the_server_offers_by_an_identity_only(
    home: Home, sealed: Path, plugin_server: PluginServer, command: Pinnace, tmp_path: Path
) -> None:
    await back_up(home, plugin_server, tmp_path)
    key_file = tmp_path / "key.txt"
    key_file.write_text(ALICE.secret_text())
    output = tmp_path / "b1.tar.gz"

    for words in (
        ("backup", "logs", "b1"),
        ("backup", "download", "b1", "-o", str(output)),
        ("backup", "verify", "b1"),
    ):
        outcome = await command(*words)
        assert outcome.code != 0, outcome
        assert outcome.err.count("no identity was given; --identity-file FILE opens it") == 1, outcome
    verified = await command("--identity-file", str(key_file), "backup", "verify", "b1", "-o", "json")
    assert verified.code == 0, verified
    (found,) = json.loads(verified.out)
    assert found["sound"]
    assert {"tarball", "index", "item operations"} <= {check["check"] for check in found["checks"]}
    assert "encryption" not in {check["check"] for check in found["checks"]}
    assert not output.exists()
    described = await command("backup", "describe", "b1", "--details")
    assert described.code == 0, described
    assert "Completed" in described.out
    assert "<encrypted>" in described.out
    (line,) = [line for line in described.err.splitlines() if "encrypted" in line]
    assert line.startswith(
        "what is encrypted of backup b1 is not shown (resource list, item operations): "
    ), line
    assert line.endswith("no identity was given; --identity-file FILE opens it"), line
    location = await command("backup-location", "describe", "default")
    assert re.search(r"Encrypted for: +2 recipients\n", location.out), location

    opening = ("--identity-file", str(key_file))
    logs = await command(*opening, "backup", "logs", "b1")
    assert (logs.code, "level=info" in logs.out) == (0, True), logs
    assert (await command(*opening, "backup", "download", "b1", "-o", str(output))).code == 0
    with tarfile.open(output) as tar:
        found = tar.extractfile(f"resources/configmaps/namespaces/{home.namespace}/map-0.json")
        assert found is not None
        assert json.load(found)["data"] == {"number": "changed while the backup waited"}
    details = await command(*opening, "backup", "describe", "b1", "--details")
    assert f"{home.namespace}/map-2" in details.out
    shown = await command(*opening, "backup", "show", "b1", f"configmap/{home.namespace}/map-2")
    assert (shown.code, "number: '2'" in shown.out) == (0, True), shown


async def test_the_age_program_opens_a_backup_of_a_server(
    home: Home, sealed: Path, plugin_server: PluginServer, tmp_path: Path
) -> None:
    try:
        age = binaries.locate(binaries.AGE_PROGRAM)["age"]
    except ProgramUnavailable as error:
        pytest.skip(str(error))
    await back_up(home, plugin_server, tmp_path)
    (tmp_path / "key.txt").write_text(ALICE.secret_text() + "\n")

    def run(identity: Path, given: bytes) -> bytes:
        words = [str(age), "-d", "-i", str(identity)]
        return subprocess.run(words, input=given, capture_output=True, check=True, timeout=60).stdout

    folder = sealed / "backups/b1"
    keys = json.loads((folder / "b1-pinnace-keys.json").read_text())
    (tmp_path / "own.txt").write_bytes(run(tmp_path / "key.txt", base64.b64decode(keys["age"])))
    tarball = run(tmp_path / "own.txt", (folder / "b1.tar.gz").read_bytes())
    with tarfile.open(fileobj=BytesIO(tarball)) as tar:
        assert f"resources/configmaps/namespaces/{home.namespace}/map-1.json" in tar.getnames()
    log = gzip.decompress(run(tmp_path / "own.txt", (folder / "b1-logs.gz").read_bytes()))
    assert b"level=info" in log
