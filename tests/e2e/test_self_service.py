"""Self-service inside the server, from `install` to `uninstall`, by a tenant with rights in one namespace."""

import gzip
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIGMAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    PODS,
    APIResource,
    velero,
)
from pinnace.nonadmin import manifests
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
from tests.support.servers.homes import Home, as_server
from tests.support.servers.self_service import Tenant, create_object, edit_binding, may_work, signed_in
from tests.support.waiting import eventually

PRIORITY_CLASSES = APIResource(
    group="scheduling.k8s.io", version="v1", name="priorityclasses", kind="PriorityClass", namespaced=False
)
WITHOUT_LOCATION = ("--no-default-backup-location", "--use-volume-snapshots=false", "--no-secret")


@pytest.fixture
async def installed(
    client: KubeClient, velero_crds: None, command: Pinnace, tmp_path: Path
) -> AsyncIterator[Home]:
    """A namespace with what `install` makes for a server that is the controller too, and a location."""
    home = Home(client, f"velero-{secrets.token_hex(4)}", tmp_path)
    words = ("install", "-n", home.namespace, *WITHOUT_LOCATION, "--minimal-rbac", "--features=NonAdmin")
    made = await command(*words)
    assert (made.code, made.told) == (0, ""), made
    await home.furnish()
    yield home
    with suppress(NotFound):
        await client.delete(NAMESPACES, home.namespace)
    for resource in (CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES):
        for obj in await client.list_all(resource, label_selector="component=velero"):
            await client.delete(resource, obj["metadata"]["name"])


@pytest.fixture
async def tenant(
    installed: Home, control_plane: ControlPlane, client: KubeClient, tmp_path: Path
) -> AsyncIterator[Tenant]:
    """A user with the role `edit` in a namespace that has a config map."""
    name = f"tenant-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    await create_object(client, edit_binding(name, f"user-of-{name}"))
    async with signed_in(control_plane, tmp_path, f"user-of-{name}") as own:
        await eventually(lambda: may_work(own, name))
        made = Tenant(own, name)
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prices"}, "data": {"tea": "3"}}
        await own.create(CONFIGMAPS, body, name)
        yield made
    await client.delete(NAMESPACES, name)


async def completed(tenant: Tenant, resource: APIResource, name: str, mirrored: str) -> JSONObject:
    """The request, once what the server made of it is Completed."""

    def is_completed(request: JSONObject) -> bool:
        made = (request.get("status") or {}).get(mirrored) or {}
        return bool((made.get("status") or {}).get("phase") == "Completed")

    return await tenant.until(resource, name, is_completed)


async def test_a_tenant_backs_up_restores_and_deletes(
    installed: Home,
    tenant: Tenant,
    client: KubeClient,
    command: Pinnace,
    control_plane: ControlPlane,
    tmp_path: Path,
) -> None:
    namespace = installed.namespace
    server = ServerProcess(
        tmp_path,
        await as_server(client, control_plane, namespace, tmp_path),
        *("-n", namespace, "--features", "NonAdmin"),
    )
    try:
        await server.start()
        await server.ready()
        with pytest.raises(Forbidden):
            await tenant.client.list_all(velero("backups"), namespace)

        await tenant.back_up("nightly", includedResources=["configmaps"])
        non_admin_backup = await completed(tenant, NON_ADMIN_BACKUPS, "nightly", "veleroBackup")
        backup = non_admin_backup["status"]["veleroBackup"]["name"]
        assert (installed.location / "backups" / backup / "velero-backup.json").exists()

        await tenant.client.delete(CONFIGMAPS, "prices", tenant.namespace)
        await tenant.restore("back", backupName="nightly")
        await completed(tenant, NON_ADMIN_RESTORES, "back", "veleroRestore")
        assert (await tenant.get(CONFIGMAPS, "prices"))["data"] == {"tea": "3"}

        await tenant.client.patch(
            NON_ADMIN_BACKUPS, "nightly", {"spec": {"deleteBackup": True}}, tenant.namespace
        )
        await tenant.gone(NON_ADMIN_BACKUPS, "nightly")
        await tenant.gone(NON_ADMIN_RESTORES, "back")
        assert not (installed.location / "backups" / backup).exists()
        assert await client.list_all(velero("backups"), namespace) == []

        await tenant.back_up("kept", includedResources=["configmaps"])
        await completed(tenant, NON_ADMIN_BACKUPS, "kept", "veleroBackup")
        assert await server.stop() == 0
        assert "forbidden" not in server.log
    finally:
        await server.kill()

    outcome = await command("uninstall", "-n", namespace, "--force", "--wait")

    assert (outcome.code, outcome.told) == (0, ""), outcome
    for obj in manifests.resources(namespace):
        for resource in (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS):
            if obj["kind"] == resource.kind:
                with pytest.raises(NotFound):
                    await client.get(resource, obj["metadata"]["name"])
    for crd in manifests.crds():
        with pytest.raises(NotFound):
            await client.get(CUSTOM_RESOURCE_DEFINITIONS, crd["metadata"]["name"])
    # The request that was left had a finalizer, and no controller to remove it.
    assert (await tenant.get(CONFIGMAPS, "prices"))["data"] == {"tea": "3"}


async def test_pods_with_a_priority_class_are_backed_up_and_restored_without_a_warning(
    installed: Home, tenant: Tenant, client: KubeClient, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Self-service leaves the class out of every backup, and the tenant can do nothing about that."""
    namespace, urgent = installed.namespace, f"urgent-{secrets.token_hex(4)}"
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": urgent}, "value": 5})
    container = {"name": "c", "image": "i"}
    spec = {"automountServiceAccountToken": False, "containers": [container], "priorityClassName": urgent}
    for name in ("web", "db"):
        await tenant.client.create(PODS, {"metadata": {"name": name}, "spec": spec}, tenant.namespace)
    server = ServerProcess(
        tmp_path,
        await as_server(client, control_plane, namespace, tmp_path),
        *("-n", namespace, "--features", "NonAdmin"),
    )
    try:
        await server.start()
        await server.ready()
        await tenant.back_up("nightly")
        backup = await completed(tenant, NON_ADMIN_BACKUPS, "nightly", "veleroBackup")
        await tenant.client.delete(PODS, "web", tenant.namespace)
        await tenant.restore("back", backupName="nightly", includedResources=["pods"])
        restore = await completed(tenant, NON_ADMIN_RESTORES, "back", "veleroRestore")
        assert await server.stop() == 0
    finally:
        await server.kill()
        await client.delete(PRIORITY_CLASSES, urgent)

    assert "warnings" not in backup["status"]["veleroBackup"]["status"]
    assert "warnings" not in restore["status"]["veleroRestore"]["status"]
    assert (await tenant.get(PODS, "web"))["spec"]["priorityClassName"] == urgent
    told = "object(s) that others in this backup refer to are left out by its filters: [hidden]"
    (log,) = installed.location.glob(f"backups/{backup['status']['veleroBackup']['name']}/*-logs.gz")
    assert told in gzip.decompress(log.read_bytes()).decode()
