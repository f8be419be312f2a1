"""Backups and restores of tenants against a real API server, with its RBAC. (docs/spec: NAC 9, 10)"""

from datetime import UTC, datetime, timedelta

import pytest

from pinnace.api.values.times import parse_time
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.support.servers.self_service import BACKUPS, DELETE_REQUESTS, RESTORES, Serve, Server, Tenant
from tests.support.waiting import eventually

DONE = {"phase": "Completed", "completionTimestamp": "2030-01-01T00:00:00Z"}


async def test_a_tenant_backs_up_and_restores_its_namespace(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    await tenant.back_up("nightly", includedResources=["configmaps"])
    non_admin_backup = await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    (backup,) = await server.all(BACKUPS)
    name = backup["metadata"]["name"]
    assert non_admin_backup["status"]["veleroBackup"]["name"] == name
    assert backup["spec"]["includedNamespaces"] == [tenant.namespace]
    assert non_admin_backup["status"]["queueInfo"] == {"estimatedQueuePosition": 1}
    assert non_admin_backup["status"]["veleroBackup"]["status"] == {}

    await server.set_status(BACKUPS, name, **DONE)
    non_admin_backup = await tenant.until(
        NON_ADMIN_BACKUPS,
        "nightly",
        lambda obj: obj["status"]["veleroBackup"]["status"].get("phase") == "Completed",
    )
    assert non_admin_backup["status"]["queueInfo"] == {"estimatedQueuePosition": 0}

    await tenant.restore("back", backupName="nightly")
    await tenant.reached(NON_ADMIN_RESTORES, "back", "Created")
    (restore,) = await server.all(RESTORES)
    assert restore["spec"]["backupName"] == name
    assert restore["spec"]["includedNamespaces"] == [tenant.namespace]
    assert restore["spec"]["excludedResources"][-1] == "volumesnapshotclasses"

    await tenant.client.delete(NON_ADMIN_RESTORES, "back", tenant.namespace)
    await tenant.gone(NON_ADMIN_RESTORES, "back")
    assert await server.all(RESTORES) == []


@pytest.mark.spec("NAC-029")
async def test_permanent_deletion_deletes_the_data_and_plain_deletion_keeps_it(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    for name in ("plain", "good"):
        await tenant.back_up(name)
        await tenant.reached(NON_ADMIN_BACKUPS, name, "Created")
    await tenant.client.delete(NON_ADMIN_BACKUPS, "plain", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "plain")
    (backup,) = await server.all(BACKUPS)
    assert await server.all(DELETE_REQUESTS) == []

    await tenant.restore("back", backupName="good")
    await tenant.reached(NON_ADMIN_RESTORES, "back", "Created")
    await tenant.client.patch(NON_ADMIN_BACKUPS, "good", {"spec": {"deleteBackup": True}}, tenant.namespace)
    await tenant.until(NON_ADMIN_BACKUPS, "good", lambda obj: "veleroDeleteBackupRequest" in obj["status"])
    await tenant.gone(NON_ADMIN_RESTORES, "back")
    (request,) = await server.all(DELETE_REQUESTS)
    assert request["spec"] == {"backupName": backup["metadata"]["name"]}
    await server.client.delete(BACKUPS, backup["metadata"]["name"], server.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "good")


@pytest.mark.spec("NAC-025")
async def test_a_backup_that_expired_is_not_made_again_after_a_restart(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    await tenant.back_up("nightly")
    await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    (backup,) = await server.all(BACKUPS)
    await server.client.delete(BACKUPS, backup["metadata"]["name"], server.namespace)
    assert "associated Velero Backup has been removed" in await tenant.refused(NON_ADMIN_BACKUPS, "nightly")
    await tenant.client.patch(
        NON_ADMIN_BACKUPS, "nightly", {"spec": {"backupSpec": {"ttl": "1h0m0s"}}}, tenant.namespace
    )
    await serve()
    await tenant.back_up("other")
    await tenant.reached(NON_ADMIN_BACKUPS, "other", "Created")
    assert len(await server.all(BACKUPS)) == 1


@pytest.mark.spec("NAC-036")
async def test_positions_follow_the_queue(serve: Serve, server: Server, tenant: Tenant) -> None:
    await server.add(BACKUPS, "admins", spec={})
    admins = await server.add(RESTORES, "admins", spec={"backupName": "admins"})
    # Those of one second share a position.
    next_second = parse_time(admins["metadata"]["creationTimestamp"]) + timedelta(seconds=1)
    await eventually(lambda: is_past(next_second))
    await serve()
    await tenant.back_up("nightly")

    def position(wanted: int):  # type: ignore[no-untyped-def]
        return lambda obj: (obj.get("status") or {}).get("queueInfo") == {"estimatedQueuePosition": wanted}

    await tenant.until(NON_ADMIN_BACKUPS, "nightly", position(2))
    await server.set_status(BACKUPS, "admins", phase="FailedValidation")
    non_admin_backup = await tenant.until(NON_ADMIN_BACKUPS, "nightly", position(1))
    await server.set_status(BACKUPS, non_admin_backup["status"]["veleroBackup"]["name"], **DONE)
    await tenant.until(NON_ADMIN_BACKUPS, "nightly", position(0))

    await tenant.restore("back", backupName="nightly")
    await tenant.until(NON_ADMIN_RESTORES, "back", position(2))
    await server.set_status(RESTORES, "admins", **DONE)
    last = await tenant.until(NON_ADMIN_RESTORES, "back", position(1))
    (own,) = [each for each in await server.all(RESTORES) if each["metadata"]["name"] != "admins"]
    assert last["status"]["veleroRestore"]["name"] == own["metadata"]["name"]


async def is_past(moment: datetime) -> bool:
    return datetime.now(UTC) >= moment


async def test_tenants_see_nothing_of_the_server(server: Server, tenant: Tenant) -> None:
    for resource in (BACKUPS, RESTORES, DELETE_REQUESTS):
        with pytest.raises(Forbidden):
            await tenant.client.list_all(resource, server.namespace)
    await tenant.back_up("nightly")
    with pytest.raises(Forbidden):
        await tenant.client.patch(
            NON_ADMIN_BACKUPS,
            "nightly",
            {"status": {"phase": "Created"}},
            tenant.namespace,
            subresource="status",
        )
    with pytest.raises(NotFound):
        await tenant.get(NON_ADMIN_RESTORES, "none")
