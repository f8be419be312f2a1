"""The controllers survive all objects that the API server admits, and make nothing for other tenants."""

import asyncio
import contextlib
import json
from typing import Any

import pytest

from pinnace.kube.errors import APIStatusError, KubeError, NotFound
from pinnace.kube.resources import SECRETS, APIResource
from pinnace.nonadmin.flows.driver import StepFailed
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.runtime.logfields import RECORD_ATTRIBUTE
from pinnace.runtime.manager import Manager, ManagerPhase
from tests.integration.nonadmin.hostile import NAMES, hostile_acts
from tests.support.servers.self_service import (
    BACKUPS,
    FINISHED,
    KEYS,
    RESTORES,
    Serve,
    Server,
    Tenant,
    location,
    own_location,
)
from tests.support.waiting import eventually


async def test_the_controllers_survive_any_object(
    serve: Serve, server: Server, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await serve()
    await own_location(server, tenant)
    acts = await asyncio.to_thread(hostile_acts, 400)

    async def act(verb: str, name: str, resource: APIResource, spec: Any, metadata: Any) -> None:
        with contextlib.suppress(APIStatusError):
            await _act(tenant, verb, name, resource, spec, metadata)

    # One after the other within a name, so that every order of acts happens; names beside each other.
    async def act_all(name: str) -> None:
        for verb, _, resource, spec, metadata in (each for each in acts if each[1] == name):
            await act(verb, name, resource, spec, metadata)

    await asyncio.gather(*(act_all(name) for name in NAMES))
    await still_alive(manager, server, tenant, caplog)
    for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS):
        for obj in await tenant.client.list_all(resource, tenant.namespace):
            if not obj["metadata"].get("deletionTimestamp"):
                found = await tenant.until(resource, obj["metadata"]["name"], lambda each: "status" in each)
                assert found["status"]["phase"] in ("New", "BackingOff", "Created", "Deleting")


async def _act(tenant: Tenant, verb: str, name: str, resource: APIResource, spec: Any, metadata: Any) -> None:
    if verb == "create":
        await tenant.create(resource, name, spec, **metadata)
    elif verb == "edit":
        await tenant.client.patch(resource, name, {"spec": spec}, tenant.namespace)
    elif verb == "delete":
        await tenant.client.delete(resource, name, tenant.namespace)
    elif verb == "strip":
        await tenant.client.patch(resource, name, {"metadata": {"finalizers": None}}, tenant.namespace)
    else:
        await tenant.client.patch(NON_ADMIN_BACKUPS, name, {"spec": {"deleteBackup": True}}, tenant.namespace)


async def still_alive(
    manager: Manager, server: Server, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    """Assert that the controllers work, made nothing for other tenants, and had no unexpected error."""
    await tenant.back_up("honest")
    await tenant.reached(NON_ADMIN_BACKUPS, "honest", "Created")
    assert manager.phase is ManagerPhase.RUNNING
    for backup in await server.all(BACKUPS):
        assert backup["spec"]["includedNamespaces"] == [tenant.namespace]
        assert not backup["spec"].get("includeClusterResources")
    for restore in await server.all(RESTORES):
        assert restore["spec"]["includedNamespaces"] == [tenant.namespace]
    errors = [getattr(record, RECORD_ATTRIBUTE, {}).get("error") for record in caplog.records]
    defects = [error for error in errors if isinstance(error, Exception)]
    assert [error for error in defects if not isinstance(error, StepFailed | KubeError)] == []


@pytest.mark.parametrize("resource", [NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES], ids=lambda each: each.kind)
async def test_a_request_without_its_finalizer_leaves_nothing_in_the_queue(
    serve: Serve, server: Server, tenant: Tenant, resource: APIResource
) -> None:
    await serve()
    await tenant.back_up("honest")
    await tenant.reached(NON_ADMIN_BACKUPS, "honest", "Created")
    made, before = (BACKUPS, 1) if resource is NON_ADMIN_BACKUPS else (RESTORES, 0)
    for _ in range(5):
        if resource is NON_ADMIN_BACKUPS:
            await tenant.back_up("flood")
        else:
            await tenant.restore("flood", backupName="honest")
        await tenant.reached(resource, "flood", "Created")
        await tenant.client.delete(resource, "flood", tenant.namespace)
        with contextlib.suppress(NotFound):
            await tenant.client.patch(resource, "flood", {"metadata": {"finalizers": None}}, tenant.namespace)
        await tenant.gone(resource, "flood")

        async def removed() -> bool:
            return len(await server.all(made)) == before

        await eventually(removed)
    left = await tenant.client.list_all(resource, tenant.namespace)
    assert [each["metadata"]["name"] for each in left] == ["honest"][:before]


async def test_a_served_backup_stays_when_its_request_is_gone(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    """The server's sync finds a Backup before its request is made again."""
    await serve()
    await tenant.back_up("nightly")
    name = (await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"]["name"]
    await server.set_status(BACKUPS, name, **FINISHED)
    await tenant.until(
        NON_ADMIN_BACKUPS, "nightly", lambda obj: obj["status"]["queueInfo"] == {"estimatedQueuePosition": 0}
    )
    await tenant.client.patch(
        NON_ADMIN_BACKUPS, "nightly", {"metadata": {"finalizers": None}}, tenant.namespace
    )
    await tenant.client.delete(NON_ADMIN_BACKUPS, "nightly", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "nightly")
    await tenant.back_up("another")
    await tenant.reached(NON_ADMIN_BACKUPS, "another", "Created")
    assert name in [each["metadata"]["name"] for each in await server.all(BACKUPS)]


async def test_objects_of_the_largest_size_are_handled(
    serve: Serve, server: Server, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    manager = await serve()
    labels = {f"label-{number}": "x" * 63 for number in range(6_000)}
    finalizers = [f"example.com/f{number:060}" for number in range(500)]
    kinds: list[dict[str, Any]] = [
        {"includedResources": ["x" * 250] * 1000},
        {"orderedResources": {"pods": "y" * 260_000}},
    ]
    crowded: list[dict[str, Any]] = [{"labels": labels}, {"finalizers": finalizers}]
    for number, metadata in enumerate(crowded):
        for spec in kinds:
            with contextlib.suppress(APIStatusError):
                await tenant.back_up(f"huge-{number}-{len(json.dumps(spec))}", metadata=metadata, **spec)
    found = await tenant.client.list_all(NON_ADMIN_BACKUPS, tenant.namespace)
    assert found  # some do fit
    await still_alive(manager, server, tenant, caplog)
    for non_admin_backup in found:
        name = non_admin_backup["metadata"]["name"]
        await tenant.client.delete(NON_ADMIN_BACKUPS, name, tenant.namespace)
        cleared = {"metadata": {"finalizers": None, "labels": None}}
        with contextlib.suppress(NotFound):
            await tenant.client.patch(NON_ADMIN_BACKUPS, name, cleared, tenant.namespace)
        await tenant.gone(NON_ADMIN_BACKUPS, name)


async def test_a_secret_is_not_copied_that_is_larger_than_credentials_are(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}
    data = {"cloud": KEYS, "more": "x" * 500_000}
    await tenant.client.create(SECRETS, {**body, "stringData": data}, tenant.namespace)
    await tenant.create(NON_ADMIN_LOCATIONS, "attack", location())
    assert "holds more than" in await tenant.refused(NON_ADMIN_LOCATIONS, "attack")
    assert await server.all(SECRETS) == []


async def test_download_requests_of_hostile_names_are_handled(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    for number, name in enumerate(("../x", "x" * 5000, "%2e", "\U0001f4a3")):
        target = {"kind": "BackupLog", "name": name}
        await tenant.create(NON_ADMIN_DOWNLOADS, f"attack-{number}", {"target": target})
        found = await tenant.reached(NON_ADMIN_DOWNLOADS, f"attack-{number}", "BackingOff")
        assert found["status"]["conditions"][0]["type"] == "NonAdminBackupNotAvailable"
