"""Attacks where the administrator's settings decide, and edits while sweeps run. (NAC 17)"""

import asyncio
import json
from typing import Any

import pytest

from pinnace.api.values.durations import Duration
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import CONFIGMAPS, APIResource
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from tests.support.servers.self_service import (
    BACKUPS,
    FINISHED,
    LOCATIONS,
    RESTORES,
    SYNCED_FROM,
    NewTenant,
    Serve,
    Server,
    Tenant,
    own_location,
    uid_of,
)
from tests.support.waiting import eventually


async def has(server: Server, resource: APIResource, count: int) -> bool:
    return len(await server.all(resource)) == count


async def change_settings(server: Server, **settings: Any) -> None:
    """Write the administrator's settings; running controllers read them again."""
    data = {"settings.yaml": json.dumps({"nonAdmin": settings})}
    try:
        await server.add(CONFIGMAPS, "pinnace-nonadmin", data=data)
    except AlreadyExists:
        await server.client.patch(CONFIGMAPS, "pinnace-nonadmin", {"data": data}, server.namespace)


@pytest.mark.spec("NAC-040")
async def test_a21_an_approved_location_stays_as_it_was_approved(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    # The collector removes requests that need no approval; no edit may slip in through that. (NAC 12.2)
    await serve(collection_period=Duration.seconds(0.5))
    made = await own_location(server, tenant)
    before = (await server.client.get(LOCATIONS, made, server.namespace))["spec"]
    store = {"backupStorageLocationSpec": {"objectStorage": {"bucket": "of-another"}}}

    await tenant.client.patch(NON_ADMIN_LOCATIONS, "mine", {"spec": store}, tenant.namespace)

    def is_refused(obj: dict[str, Any]) -> bool:
        conditions = {each["type"]: each for each in obj["status"]["conditions"]}
        return "Changes will not be applied" in conditions.get("SpecUpdateApproved", {}).get("message", "")

    await tenant.until(NON_ADMIN_LOCATIONS, "mine", is_refused)
    requests: set[str] = set()

    async def made_anew() -> bool:
        requests.update(each["metadata"]["uid"] for each in await server.all(NON_ADMIN_LOCATION_REQUESTS))
        return len(requests) >= 3

    await eventually(made_anew)
    assert (await server.client.get(LOCATIONS, made, server.namespace))["spec"] == before
    assert is_refused(await tenant.get(NON_ADMIN_LOCATIONS, "mine"))
    for request in await server.all(NON_ADMIN_LOCATION_REQUESTS):
        asked = (request.get("status") or {}).get("nonAdminBackupStorageLocation") or {}
        assert asked.get("requestedSpec", {}).get("objectStorage", {"bucket": "mine"}) == {"bucket": "mine"}
    back = {"backupStorageLocationSpec": {"objectStorage": {"bucket": "mine"}}}
    await tenant.client.patch(NON_ADMIN_LOCATIONS, "mine", {"spec": back}, tenant.namespace)
    await tenant.until(NON_ADMIN_LOCATIONS, "mine", lambda obj: not is_refused(obj))


async def test_a27_one_tenant_cannot_fill_the_queue(
    serve: Serve, server: Server, tenant: Tenant, new_tenant: NewTenant
) -> None:
    other = await new_tenant()
    await change_settings(server, maxUnfinishedBackups=2, maxUnfinishedRestores=1)
    await serve()
    await asyncio.gather(*(tenant.back_up(f"flood-{number:02}") for number in range(20)))
    await other.back_up("honest")
    await other.reached(NON_ADMIN_BACKUPS, "honest", "Created")

    async def all_judged() -> bool:
        found = await tenant.client.list_all(NON_ADMIN_BACKUPS, tenant.namespace)
        return all((each.get("status") or {}).get("phase") in ("BackingOff", "Created") for each in found)

    await eventually(all_judged)
    of_tenant = [each for each in await server.all(BACKUPS) if tenant.namespace in str(each["metadata"])]
    assert len(of_tenant) == 2
    refused = [
        each
        for each in await tenant.client.list_all(NON_ADMIN_BACKUPS, tenant.namespace)
        if each["status"]["phase"] == "BackingOff"
    ]
    assert len(refused) == 18
    (condition,) = refused[0]["status"]["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "TooManyUnfinishedBackups")
    assert "allows 2 unfinished backups" in condition["message"]

    # When one is served, the next gets its slot, and never more than two are unfinished.
    for _ in range(3):
        waiting = [each for each in await server.all(BACKUPS) if "status" not in each]
        mine = next(each for each in waiting if tenant.namespace in str(each["metadata"]))
        count = len(await server.all(BACKUPS))
        await server.set_status(BACKUPS, mine["metadata"]["name"], **FINISHED)
        await eventually(lambda count=count: has(server, BACKUPS, count + 1))  # type: ignore[misc]
    unfinished = [each for each in await server.all(BACKUPS) if "status" not in each]
    assert len([each for each in unfinished if tenant.namespace in str(each["metadata"])]) == 2

    served = next(
        each["metadata"]["name"]
        for each in await tenant.client.list_all(NON_ADMIN_BACKUPS, tenant.namespace)
        if each["status"]["phase"] == "Created"
    )
    for name in ("one", "two"):
        await tenant.restore(name, backupName=served)
    await eventually(lambda: has(server, RESTORES, 1))
    late = await tenant.until(
        NON_ADMIN_RESTORES,
        "two",
        lambda obj: (obj.get("status") or {}).get("phase") in ("BackingOff", "Created"),
    )
    if late["status"]["phase"] == "Created":
        late = await tenant.reached(NON_ADMIN_RESTORES, "one", "BackingOff")
    assert late["status"]["conditions"][0]["reason"] == "TooManyUnfinishedRestores"

    # Without the limit no request waits any more.
    await change_settings(server)
    await eventually(lambda: has(server, BACKUPS, 21))
    await eventually(lambda: has(server, RESTORES, 2))


async def test_a28_an_administrator_can_forbid_hooks(
    serve: Serve, server: Server, tenant: Tenant, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    await serve()
    await change_settings(server, enforceBackupSpec={"hooks": {"resources": []}})

    async def read_again() -> bool:
        return "Settings of self-service have changed" in caplog.text

    await eventually(read_again)
    hook = {"exec": {"command": ["id"]}}
    hooks = {"resources": [{"name": "h", "pre": [hook]}]}

    await tenant.back_up("attack", hooks=hooks)
    assert "restricted spec.backupSpec.hooks field value" in await tenant.refused(NON_ADMIN_BACKUPS, "attack")
    await tenant.back_up("honest")
    await tenant.reached(NON_ADMIN_BACKUPS, "honest", "Created")
    (backup,) = await server.all(BACKUPS)
    assert backup["spec"]["hooks"] == {"resources": []}


async def test_a29_a_former_namespaces_backups_wait_for_consent(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await server.add(
        LOCATIONS, "default", spec={"provider": "aws", "objectStorage": {"bucket": "b"}, "default": True}
    )
    await serve(sync_period=Duration.seconds(1), velero_sync_period=Duration.seconds(0.5))
    uid = await uid_of(server, tenant)
    stored = {"present": uid, "former": "0d6cf5e6-0000-4000-8000-000000000000"}
    for name, noted in stored.items():
        marks = {
            "labels": {
                "openshift.io/oadp": "True",
                "app.kubernetes.io/managed-by": "oadp-nac-controller",
                "openshift.io/oadp-nab-origin-nacuuid": name,
            },
            "annotations": {
                "openshift.io/oadp-nab-origin-name": f"of-{name}",
                "openshift.io/oadp-nab-origin-namespace": tenant.namespace,
                "pinnace.io/nab-origin-namespace-uid": noted,
            },
        }
        spec = {"storageLocation": "default", "includedNamespaces": [tenant.namespace]}
        await server.add(BACKUPS, name, metadata=marks, spec=spec, status=FINISHED)
    # Knowing its id does not help either.
    await tenant.reached(NON_ADMIN_BACKUPS, "of-present", "Created")
    await tenant.back_up("of-former", metadata={"labels": {SYNCED_FROM: "former"}})
    assert (
        await tenant.refused(NON_ADMIN_BACKUPS, "of-former")
        == "related Velero Backup to be synced from does not exist"
    )
    await tenant.restore("attack", backupName="of-former")
    assert "backupName is invalid" in await tenant.refused(NON_ADMIN_RESTORES, "attack")
    await tenant.client.delete(NON_ADMIN_BACKUPS, "of-former", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "of-former")
    assert await server.all(RESTORES) == []
    assert len(await server.all(BACKUPS)) == 2

    await change_settings(server, adoptFormerNamespaces={tenant.namespace: uid})
    await tenant.reached(NON_ADMIN_BACKUPS, "of-former", "Created")
