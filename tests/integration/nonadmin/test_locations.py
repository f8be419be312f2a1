"""Approval and the sweeps against a real API server. (docs/spec: NAC 12, 14, 15)"""

import pytest

from pinnace.api.objects import mapping, text
from pinnace.api.values.durations import Duration
from pinnace.kube.resources import SECRETS
from pinnace.nonadmin.flows.conditions import condition
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATION_REQUESTS, NON_ADMIN_LOCATIONS
from tests.support.servers.self_service import (
    BACKUPS,
    FINISHED,
    LOCATIONS,
    Serve,
    Server,
    Tenant,
    location,
    secret,
)
from tests.support.waiting import eventually


@pytest.mark.spec("NAC-039")
async def test_an_administrator_approves_and_revokes(serve: Serve, server: Server, tenant: Tenant) -> None:
    await serve(require_approval=True)
    await tenant.create(NON_ADMIN_LOCATIONS, "mine", location())
    await secret(tenant)
    await eventually(lambda: _count(server, NON_ADMIN_LOCATION_REQUESTS, 1))
    (request,) = await server.all(NON_ADMIN_LOCATION_REQUESTS)
    assert await server.all(LOCATIONS) == []
    name = request["metadata"]["name"]
    for decision, phase, copies in (("approve", "Created", 1), ("reject", "BackingOff", 0)):
        await server.client.patch(
            NON_ADMIN_LOCATION_REQUESTS, name, {"spec": {"approvalDecision": decision}}, server.namespace
        )
        await tenant.reached(NON_ADMIN_LOCATIONS, "mine", phase)
        await eventually(lambda copies=copies: _count(server, LOCATIONS, copies))  # type: ignore[misc]
        await eventually(lambda copies=copies: _count(server, SECRETS, copies))  # type: ignore[misc]


async def _count(server: Server, resource, count: int) -> bool:  # type: ignore[no-untyped-def]
    return len(await server.all(resource)) == count


@pytest.mark.spec("NAC-045")
async def test_orphans_are_collected(serve: Serve, server: Server, tenant: Tenant) -> None:
    await serve(collection_period=Duration.seconds(2))
    metadata = {
        "labels": {
            "openshift.io/oadp": "True",
            "app.kubernetes.io/managed-by": "oadp-nac-controller",
            "openshift.io/oadp-nab-origin-nacuuid": "orphan",
        },
        "annotations": {
            "openshift.io/oadp-nab-origin-name": "gone",
            "openshift.io/oadp-nab-origin-namespace": tenant.namespace,
        },
    }
    await server.add(BACKUPS, "orphan", metadata=metadata, spec={})
    await server.add(BACKUPS, "admins", spec={})
    await eventually(lambda: _count(server, BACKUPS, 1))
    (left,) = await server.all(BACKUPS)
    assert left["metadata"]["name"] == "admins"


@pytest.mark.spec("NAC-046")
async def test_the_request_of_a_stored_backup_is_made_again(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await server.add(
        LOCATIONS, "default", spec={"provider": "aws", "objectStorage": {"bucket": "b"}, "default": True}
    )
    await serve(sync_period=Duration.minutes(2))
    await tenant.back_up("nightly", storageLocation="")
    non_admin_backup = await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    (backup,) = await server.all(BACKUPS)
    name = backup["metadata"]["name"]
    await tenant.client.delete(NON_ADMIN_BACKUPS, "nightly", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "nightly")

    # The server's own sync finds it in storage.
    body = {key: backup["metadata"][key] for key in ("labels", "annotations")}
    spec = {**backup["spec"], "storageLocation": "default"}
    await server.add(BACKUPS, name, metadata=body, spec=spec, status=FINISHED)
    await serve(sync_period=Duration.minutes(2))
    found = await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    assert found["metadata"]["uid"] != non_admin_backup["metadata"]["uid"]
    assert found["status"]["veleroBackup"]["name"] == name
    assert [each["type"] for each in found["status"]["conditions"]] == ["Queued"]


@pytest.mark.found("K-F2")
@pytest.mark.parametrize("change", ["spec", "no keys", "other keys"])
async def test_a_rejection_takes_away_a_location_that_its_tenant_has_changed(
    serve: Serve, server: Server, tenant: Tenant, change: str
) -> None:
    await serve(require_approval=True)
    await tenant.create(NON_ADMIN_LOCATIONS, "mine", location())
    await secret(tenant)
    await eventually(lambda: _count(server, NON_ADMIN_LOCATION_REQUESTS, 1))
    (request,) = await server.all(NON_ADMIN_LOCATION_REQUESTS)
    name = request["metadata"]["name"]
    await _decide(server, name, "approve")
    await tenant.reached(NON_ADMIN_LOCATIONS, "mine", "Created")
    await eventually(lambda: _count(server, LOCATIONS, 1))
    if change == "spec":
        bucket = {"backupStorageLocationSpec": {"objectStorage": {"bucket": "another"}}}
        await tenant.client.patch(NON_ADMIN_LOCATIONS, "mine", {"spec": bucket}, tenant.namespace)
        await eventually(lambda: _states(tenant, "SpecUpdateApproved", "False"))
    else:
        keys = text(location(), "backupStorageLocationSpec", "credential", "name")
        if change == "no keys":
            await tenant.client.delete(SECRETS, keys, tenant.namespace)
        else:
            await tenant.client.patch(SECRETS, keys, {"data": {"cloud": "bm8ga2V5cw=="}}, tenant.namespace)
        # Secrets of tenants are not watched: the next look sees what became of them.
        await tenant.client.patch(
            NON_ADMIN_LOCATIONS, "mine", {"metadata": {"labels": {"look": "again"}}}, tenant.namespace
        )
    await _decide(server, name, "reject")
    await eventually(lambda: _count(server, LOCATIONS, 0))
    await eventually(lambda: _count(server, SECRETS, 0))
    await tenant.reached(NON_ADMIN_LOCATIONS, "mine", "BackingOff")
    await eventually(lambda: _states(tenant, "ClusterAdminApproved", "False"))
    (request,) = await server.all(NON_ADMIN_LOCATION_REQUESTS)
    assert text(request, "status", "phase") == "Rejected"


async def _decide(server: Server, name: str, decision: str) -> None:
    patch = {"spec": {"approvalDecision": decision}}
    await server.client.patch(NON_ADMIN_LOCATION_REQUESTS, name, patch, server.namespace)


async def _states(tenant: Tenant, kind: str, status: str) -> bool:
    found = await tenant.client.get(NON_ADMIN_LOCATIONS, "mine", tenant.namespace)
    return text(condition(mapping(found, "status"), kind), "status") == status
