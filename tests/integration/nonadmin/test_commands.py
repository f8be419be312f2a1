"""The tenants' commands and the process, with only a tenant's kubeconfig."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from hack.cluster.control_plane import ControlPlane
from pinnace.api.labels import INTERRUPTED, RESUME_REQUESTED
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import LEASES
from pinnace.nonadmin import manifests
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_DOWNLOADS, NON_ADMIN_RESTORES
from tests.support.servers.self_service import (
    BACKUPS,
    DOWNLOADS,
    LOCATIONS,
    RESTORES,
    Serve,
    Server,
    Tenant,
    user_kubeconfig,
)
from tests.support.waiting import eventually

RUN_SECONDS = 180
KEYS = "[default]\naws_access_key_id = a\naws_secret_access_key = b\n"


@pytest.fixture
def kubeconfig(control_plane: ControlPlane, tenant: Tenant, tmp_path: Path) -> Path:
    """The tenant's kubeconfig, with the namespace in its context."""
    path = user_kubeconfig(control_plane, tmp_path, f"user-of-{tenant.namespace}")
    content = yaml.safe_load(path.read_text())
    content["contexts"][0]["context"]["namespace"] = tenant.namespace
    path.write_text(yaml.safe_dump(content))
    return path


async def run(kubeconfig: Path, *words: str, code: int = 0) -> str:
    """The output of a command, errors included."""
    import asyncio

    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pinnace.cli.main", *PREFIX, *words,
        env={**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(kubeconfig.parent)},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    async with asyncio.timeout(RUN_SECONDS):
        output, _ = await process.communicate()
    assert process.returncode == code, output.decode()
    return output.decode()


PREFIX = ("nonadmin",)


async def test_a_tenant_backs_up_restores_and_deletes_by_commands(
    serve: Serve, server: Server, tenant: Tenant, kubeconfig: Path
) -> None:
    await serve()
    printed = await run(kubeconfig, "backup", "create", "nightly", "--ttl", "48h", "--labels", "a=b")
    assert 'Request "nightly" submitted' in printed
    await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    (backup,) = await server.all(BACKUPS)
    assert backup["spec"]["ttl"] == "48h0m0s"
    table = await run(kubeconfig, "backup", "get")
    assert "nightly" in table
    assert "Created" in table

    await run(kubeconfig, "backup", "create", "wrong", "--storage-location", "none")
    await tenant.reached(NON_ADMIN_BACKUPS, "wrong", "BackingOff")
    assert "not found in the namespace" in await run(kubeconfig, "backup", "describe", "wrong")

    await run(kubeconfig, "restore", "create", "back", "--from-backup", "nightly")
    await eventually(lambda: _has(kubeconfig, "restore", "RestoreScheduled"))
    assert "is not available until" in await run(kubeconfig, "backup", "logs", "nightly", code=1)

    await run(kubeconfig, "restore", "delete", "back", "--confirm")
    await run(kubeconfig, "backup", "delete", "wrong", "--keep-data", "--confirm")
    await tenant.gone(NON_ADMIN_BACKUPS, "wrong")
    await run(kubeconfig, "backup", "delete", "nightly", "--confirm")
    assert (await tenant.get(NON_ADMIN_BACKUPS, "nightly"))["spec"]["deleteBackup"] is True


async def _has(kubeconfig: Path, noun: str, text: str) -> bool:
    return text in await run(kubeconfig, noun, "describe", "back")


async def test_the_log_of_a_backup_in_the_tenants_own_location_is_shown(
    serve: Serve, server: Server, tenant: Tenant, kubeconfig: Path, tmp_path: Path
) -> None:
    import asyncio

    from pinnace.kube.resources import SECRETS
    from pinnace.nonadmin.objects import NON_ADMIN_LOCATIONS

    await serve()
    await tenant.create(SECRETS, "keys", None)
    await tenant.client.patch(SECRETS, "keys", {"stringData": {"cloud": KEYS}}, tenant.namespace)
    await run(
        kubeconfig, "storage-location", "create", "mine", "--bucket", "b", "--credential", "keys=cloud",
        "--config", "region=eu",
    )  # fmt: skip
    await tenant.reached(NON_ADMIN_LOCATIONS, "mine", "Created")
    (location,) = await server.all(LOCATIONS)
    await server.set_status(LOCATIONS, location["metadata"]["name"], phase="Available")
    await run(kubeconfig, "backup", "create", "nightly", "--storage-location", "mine")
    non_admin_backup = await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    name = non_admin_backup["status"]["veleroBackup"]["name"]
    await server.set_status(BACKUPS, name, phase="Completed", completionTimestamp="2030-01-01T00:00:00Z")
    await tenant.until(
        NON_ADMIN_BACKUPS,
        "nightly",
        lambda obj: obj["status"]["veleroBackup"]["status"].get("phase") == "Completed",
    )
    file = tmp_path / "log"
    file.write_text("all went well\n")

    async def answer() -> None:
        """What the backup server does."""
        found: list[dict[str, dict[str, str]]] = []

        async def asked() -> bool:
            found[:] = await server.all(DOWNLOADS)
            return bool(found)

        await eventually(asked)
        status = {"phase": "Processed", "downloadURL": file.as_uri(), "expiration": "2040-01-01T00:00:00Z"}
        await server.set_status(DOWNLOADS, found[0]["metadata"]["name"], **status)

    async with asyncio.TaskGroup() as group:
        group.create_task(answer())
        printed = group.create_task(run(kubeconfig, "backup", "logs", "nightly"))
    assert printed.result() == "all went well\n"
    assert await tenant.client.list_all(NON_ADMIN_DOWNLOADS, tenant.namespace) == []


@contextmanager
def process(kubeconfig: Path, namespace: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """`nonadmin server` with only the rights of its manifests."""
    environ = {**os.environ, "KUBECONFIG": str(kubeconfig), "WATCH_NAMESPACE": namespace}
    addresses = ("--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0")
    running = subprocess.Popen(
        [sys.executable, "-m", "pinnace.cli.main", *PREFIX, "server", *addresses, *flags],
        env={**environ, "HOME": str(kubeconfig.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
        running.wait(RUN_SECONDS)
        if running.stdout is not None:
            running.stdout.close()


async def test_the_process_works_with_the_rights_of_its_manifests(
    control_plane: ControlPlane, client: KubeClient, server: Server, tenant: Tenant, tmp_path: Path
) -> None:
    user = f"system:serviceaccount:{server.namespace}:{manifests.NAME}"
    kubeconfig = user_kubeconfig(control_plane, tmp_path, user)
    with process(kubeconfig, server.namespace, "--leader-elect") as running:
        await tenant.back_up("nightly")
        await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
        lease = await client.get(LEASES, manifests.LEASE, server.namespace)
        assert lease["spec"]["holderIdentity"]
        running.send_signal(signal.SIGTERM)
        assert running.wait(RUN_SECONDS) == 0


@pytest.mark.spec("NAC-053")
async def test_bad_settings_end_the_process(
    control_plane: ControlPlane, server: Server, tmp_path: Path
) -> None:
    user = f"system:serviceaccount:{server.namespace}:{manifests.NAME}"
    kubeconfig = user_kubeconfig(control_plane, tmp_path, user)
    with process(kubeconfig, server.namespace, "--backup-sync-period", "48h") as running:
        output, _ = running.communicate(timeout=RUN_SECONDS)
    assert running.returncode == 1
    assert (
        "DPA spec.nonAdmin.backupSyncPeriod (48h0m0s) can not be greater or equal "
        "spec.nonAdmin.garbageCollectionPeriod (24h0m0s)"
    ) in output.decode()


async def test_changed_settings_hold_without_a_restart(serve: Serve, server: Server, tenant: Tenant) -> None:
    from pinnace.kube.resources import CONFIGMAPS

    await serve()
    text = "nonAdmin: {enforceBackupSpec: {ttl: 1h}, backupSyncPeriod: 0s}"
    await server.add(CONFIGMAPS, "pinnace-nonadmin", data={"settings.yaml": text})
    count = 0

    async def refused() -> bool:
        nonlocal count
        count += 1
        await tenant.back_up(f"try-{count}", ttl="2h")
        found = await tenant.until(
            NON_ADMIN_BACKUPS, f"try-{count}", lambda obj: bool((obj.get("status") or {}).get("conditions"))
        )
        return "the administrator has restricted" in str(found["status"]["conditions"])

    await eventually(refused)
    with pytest.raises(NotFound):
        await server.client.get(BACKUPS, "none", server.namespace)


async def test_a_tenant_has_an_interrupted_restore_continued(
    serve: Serve, server: Server, tenant: Tenant, kubeconfig: Path
) -> None:
    await serve()
    await tenant.back_up("nightly")
    await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    await tenant.restore("back", backupName="nightly")
    made = await tenant.reached(NON_ADMIN_RESTORES, "back", "Created")
    assert "it has not begun" in await run(kubeconfig, "restore", "resume", "back", code=1)
    name = made["status"]["veleroRestore"]["name"]
    status = {"phase": "Failed", "failureReason": "killed", "completionTimestamp": "2030-01-01T00:00:00Z"}

    await server.set_status(RESTORES, name, **status)
    await eventually(lambda: _has(kubeconfig, "restore", "killed"))
    assert "not interrupted; its phase is Failed" in await run(
        kubeconfig, "restore", "resume", "back", code=1
    )
    notes = {"metadata": {"annotations": {INTERRUPTED: "true"}}}
    await server.client.patch(RESTORES, name, notes, server.namespace)
    assert "passed on to the server" in await run(kubeconfig, "restore", "resume", "back")

    (restore,) = await server.all(RESTORES)
    assert restore["metadata"]["annotations"][RESUME_REQUESTED]
    request = await tenant.get(NON_ADMIN_RESTORES, "back")
    assert RESUME_REQUESTED not in request["metadata"].get("annotations", {})
