"""The attacks of NAC 17, row by row, by a tenant with only the role `edit` in one namespace.

Each attempt is refused with a condition that says why, or by the API server, and nothing is made in the
server's namespace.
"""

import asyncio
from typing import Any

import pytest

from pinnace.kube.errors import Forbidden, Invalid
from pinnace.kube.resources import SECRETS
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.runtime.manager import ManagerPhase
from tests.support.servers.self_service import (
    BACKUPS,
    DELETE_REQUESTS,
    DOWNLOADS,
    FINISHED,
    KEYS,
    LOCATIONS,
    RESTORES,
    SYNCED_FROM,
    NewTenant,
    Serve,
    Server,
    Tenant,
    location,
    nothing_made,
    own_location,
    secret,
    uid_of,
)


@pytest.fixture(autouse=True)
async def _running(serve: Serve) -> None:
    await serve()


BACKUP_ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "A1 another namespace": ({"includedNamespaces": ["kube-system"]}, "includedNamespaces is restricted"),
    "A1 all namespaces": ({"includedNamespaces": ["*"]}, "includedNamespaces is restricted"),
    "A2 excluded": ({"excludedNamespaces": ["x"]}, "excludedNamespaces is restricted"),
    "A2 snapshots": ({"volumeSnapshotLocations": ["x"]}, "volumeSnapshotLocations is restricted"),
    "A2 cluster": ({"includeClusterResources": True}, "includeClusterResources is restricted"),
    "A4 administrator's": ({"storageLocation": "default"}, "not found in the namespace"),
    "A4 a path": ({"storageLocation": "../x/y"}, "not found in the namespace"),
    "A32 huge": ({"storageLocation": "x" * 100_000}, "not found in the namespace"),
    "A32 too large": ({"includedResources": ["x" * 1000] * 300}, "is larger than 262144 bytes"),
    "unreadable": ({"ttl": "tomorrow"}, "ttl"),
}


@pytest.mark.parametrize(("spec", "reason"), BACKUP_ATTACKS.values(), ids=BACKUP_ATTACKS)
async def test_backup_is_refused(server: Server, tenant: Tenant, spec: dict[str, Any], reason: str) -> None:
    await tenant.back_up("attack", **spec)

    assert reason in await tenant.refused(NON_ADMIN_BACKUPS, "attack")
    await nothing_made(server)


async def test_a3_cluster_scoped_kinds_stay_excluded(server: Server, tenant: Tenant) -> None:
    await tenant.back_up("attack", includedResources=["nodes", "clusterroles"])
    await tenant.reached(NON_ADMIN_BACKUPS, "attack", "Created")
    (backup,) = await server.all(BACKUPS)

    assert backup["spec"]["includedNamespaces"] == [tenant.namespace]
    assert "includeClusterResources" not in backup["spec"]
    assert "clusterroles" in backup["spec"]["excludedResources"]


async def test_a4_location_of_another_tenant(server: Server, tenant: Tenant, new_tenant: NewTenant) -> None:
    victim = await new_tenant()
    made = await own_location(server, victim)
    for number, name in enumerate(("mine", made, f"{victim.namespace}/mine")):
        await tenant.back_up(f"attack-{number}", storageLocation=name)
        assert "not found in the namespace" in await tenant.refused(NON_ADMIN_BACKUPS, f"attack-{number}")
    assert await server.all(BACKUPS) == []


RESTORE_ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "A5 path": ({"backupName": "victim/nightly"}, "backupName is invalid"),
    "A5 none": ({"backupName": ""}, "backupName is not set"),
    "A6 schedule": ({"scheduleName": "daily"}, "scheduleName is restricted"),
    "A6 included": ({"includedNamespaces": []}, "includedNamespaces is restricted"),
    "A6 excluded": ({"excludedNamespaces": ["x"]}, "excludedNamespaces is restricted"),
    "A6 mapping": ({"namespaceMapping": {"a": "b"}}, "namespaceMapping is restricted"),
    "A12 cluster": ({"includeClusterResources": True}, "includeClusterResources is restricted"),
}


@pytest.mark.spec("NAC-050")
@pytest.mark.parametrize(("spec", "reason"), RESTORE_ATTACKS.values(), ids=RESTORE_ATTACKS)
async def test_restore_is_refused(server: Server, tenant: Tenant, spec: dict[str, Any], reason: str) -> None:
    await tenant.back_up("own")
    await tenant.reached(NON_ADMIN_BACKUPS, "own", "Created")

    await tenant.restore("attack", **{"backupName": "own", **spec})

    assert reason in await tenant.refused(NON_ADMIN_RESTORES, "attack")
    assert await server.all(RESTORES) == []


async def test_a5_backups_of_others_cannot_be_restored(
    server: Server, tenant: Tenant, new_tenant: NewTenant
) -> None:
    victim = await new_tenant()
    await victim.back_up("nightly")
    non_admin_backup = await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
    for number, name in enumerate(("nightly", non_admin_backup["status"]["veleroBackup"]["name"])):
        await tenant.restore(f"attack-{number}", backupName=name)
        assert "backupName is invalid" in await tenant.refused(NON_ADMIN_RESTORES, f"attack-{number}")
    assert await server.all(RESTORES) == []


@pytest.mark.spec("NAC-047")
@pytest.mark.parametrize("with_uid", [True, False], ids=["ours", "of OADP"])
async def test_a7_the_id_of_a_victim(
    server: Server, tenant: Tenant, new_tenant: NewTenant, with_uid: bool
) -> None:
    victim = await new_tenant()
    await victim.back_up("nightly", storageLocation="")
    unique_id = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "nacuuid"
    ]
    await server.set_status(BACKUPS, unique_id, **FINISHED)
    if not with_uid:  # Nothing but the origin says whose it is: no uid of a namespace stands in the way.
        patch = {"metadata": {"annotations": {"pinnace.io/nab-origin-namespace-uid": None}}}
        await server.client.patch(BACKUPS, unique_id, patch, server.namespace)
    forged = {"labels": {SYNCED_FROM: unique_id}}

    # (a) nothing is shown, not even that there is something
    await tenant.back_up("nightly", metadata=forged, storageLocation="anything")
    message = await tenant.refused(NON_ADMIN_BACKUPS, "nightly")
    assert message == "related Velero Backup to be synced from does not exist"
    assert "veleroBackup" not in (await tenant.get(NON_ADMIN_BACKUPS, "nightly"))["status"]
    # (d) no URL of it, (e) no restore of it
    target = {"kind": "BackupContents", "name": "nightly"}
    await tenant.create(NON_ADMIN_DOWNLOADS, "attack", {"target": target})
    await tenant.restore("attack", backupName="nightly")
    await tenant.reached(NON_ADMIN_DOWNLOADS, "attack", "BackingOff")
    await tenant.refused(NON_ADMIN_RESTORES, "attack")
    assert await server.all(DOWNLOADS) == []
    assert await server.all(RESTORES) == []
    # (b) it cannot be deleted, for good or not; (c) the own request can
    await tenant.client.patch(
        NON_ADMIN_BACKUPS, "nightly", {"spec": {"deleteBackup": True}}, tenant.namespace
    )
    await tenant.gone(NON_ADMIN_BACKUPS, "nightly")
    await tenant.back_up("nightly", metadata=forged)
    await tenant.refused(NON_ADMIN_BACKUPS, "nightly")
    await tenant.client.delete(NON_ADMIN_BACKUPS, "nightly", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "nightly")
    assert await server.all(DELETE_REQUESTS) == []
    assert [each["metadata"]["name"] for each in await server.all(BACKUPS)] == [unique_id]
    assert (await victim.get(NON_ADMIN_BACKUPS, "nightly"))["status"]["phase"] == "Created"


async def test_a8_a_status_cannot_be_forged(server: Server, tenant: Tenant) -> None:
    forged = {"phase": "Created", "veleroBackup": {"nacuuid": "victim", "name": "victim"}}
    body = {
        "apiVersion": NON_ADMIN_BACKUPS.api_version,
        "kind": NON_ADMIN_BACKUPS.kind,
        "metadata": {"name": "attack"},
    }
    await tenant.client.create(
        NON_ADMIN_BACKUPS, {**body, "spec": {"backupSpec": {}}, "status": forged}, tenant.namespace
    )
    found = await tenant.reached(NON_ADMIN_BACKUPS, "attack", "Created")
    assert found["status"]["veleroBackup"]["name"] != "victim"
    with pytest.raises(Forbidden):
        await tenant.client.patch(
            NON_ADMIN_BACKUPS, "attack", {"status": forged}, tenant.namespace, subresource="status"
        )


async def test_a9_forged_annotations_are_not_copied(server: Server, tenant: Tenant) -> None:
    marks = {
        "annotations": {"openshift.io/oadp-nab-origin-namespace": "victim", "x": "y"},
        "labels": {"openshift.io/oadp-nab-origin-nacuuid": "victim", "velero.io/schedule-name": "s"},
    }
    await tenant.back_up("attack", metadata=marks)
    await tenant.reached(NON_ADMIN_BACKUPS, "attack", "Created")
    (backup,) = await server.all(BACKUPS)
    assert backup["metadata"]["annotations"] == {
        "pinnace.io/max-hook-time": "30m0s",
        "openshift.io/oadp-nab-origin-name": "attack",
        "openshift.io/oadp-nab-origin-namespace": tenant.namespace,
        "pinnace.io/nab-origin-namespace-uid": await uid_of(server, tenant),
    }
    assert "velero.io/schedule-name" not in backup["metadata"]["labels"]


async def test_a9_forged_labels_of_other_requests_are_not_copied(server: Server, tenant: Tenant) -> None:
    marks = {
        f"openshift.io/oadp-{kind}-origin-{what}": "victim"
        for kind in ("nar", "nabsl")
        for what in ("namespace", "name")
    }
    forged = {"annotations": marks, "labels": {"openshift.io/oadp-nabsl-origin-nacuuid": "victim", "x": "y"}}
    metadata = {"name": "keys", **forged}
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"cloud": KEYS}}
    await tenant.client.create(SECRETS, body, tenant.namespace)
    await tenant.create(NON_ADMIN_LOCATIONS, "mine", location(), **forged)
    await tenant.reached(NON_ADMIN_LOCATIONS, "mine", "Created")
    await tenant.back_up("own")
    await tenant.reached(NON_ADMIN_BACKUPS, "own", "Created")
    await tenant.create(NON_ADMIN_RESTORES, "back", {"restoreSpec": {"backupName": "own"}}, **forged)
    await tenant.reached(NON_ADMIN_RESTORES, "back", "Created")
    for resource in (SECRETS, LOCATIONS, NON_ADMIN_LOCATION_REQUESTS, RESTORES):
        (made,) = await server.all(resource)
        assert "victim" not in str(made["metadata"]), resource.name
        assert "x" not in made["metadata"]["labels"]
        assert tenant.namespace in made["metadata"]["annotations"].values()


async def test_a10_a_finalizer_delays_no_other_tenant(server: Server, tenant: Tenant) -> None:
    finalizers = ["nonadminbackup.oadp.openshift.io/finalizer"]
    await tenant.back_up("attack", metadata={"finalizers": finalizers}, includedNamespaces=["other"])
    await tenant.refused(NON_ADMIN_BACKUPS, "attack")
    await tenant.client.delete(NON_ADMIN_BACKUPS, "attack", tenant.namespace)
    await tenant.gone(NON_ADMIN_BACKUPS, "attack")
    assert await server.all(BACKUPS) == []


async def test_a11_an_edit_after_acceptance_changes_nothing(server: Server, tenant: Tenant) -> None:
    await tenant.back_up("attack")
    await tenant.reached(NON_ADMIN_BACKUPS, "attack", "Created")
    edit = {"spec": {"backupSpec": {"includedNamespaces": ["kube-system"]}}}
    await tenant.client.patch(NON_ADMIN_BACKUPS, "attack", edit, tenant.namespace)
    assert "includedNamespaces is restricted" in await tenant.refused(NON_ADMIN_BACKUPS, "attack")
    (backup,) = await server.all(BACKUPS)
    assert backup["spec"]["includedNamespaces"] == [tenant.namespace]


async def test_a13_a15_an_own_bucket_is_hostile(server: Server, tenant: Tenant) -> None:
    made = await own_location(server, tenant)
    await tenant.back_up("own", storageLocation="mine", snapshotVolumes=True)
    await tenant.reached(NON_ADMIN_BACKUPS, "own", "Created")
    (backup,) = await server.all(BACKUPS)
    assert backup["spec"]["storageLocation"] == made
    assert backup["spec"]["snapshotVolumes"] is False
    await tenant.restore("back", backupName="own", restorePVs=True)
    await tenant.reached(NON_ADMIN_RESTORES, "back", "Created")
    (restore,) = await server.all(RESTORES)
    assert restore["spec"]["includeClusterResources"] is False
    assert restore["spec"]["restorePVs"] is False
    assert {"rolebindings", "clusterrolebindings", "customresourcedefinitions"} <= set(
        restore["spec"]["excludedResources"]
    )


LOCATION_ATTACKS: dict[str, tuple[dict[str, Any], str]] = {
    "A16 no credential": ({"credential": None}, "credential is not set"),
    "A16 default": ({"default": True}, "cannot be used as a default BSL"),
    "A18 another namespace's": (
        {"credential": {"name": "kube-system/keys", "key": "cloud"}},
        "is not the name of a Secret",
    ),
    "A18 none": ({"credential": {"name": "other", "key": "cloud"}}, 'Secret "other" not found'),
    "A19 up": ({"objectStorage": {"bucket": "mine", "prefix": "../other"}}, "prefix"),
    "A19 root": ({"objectStorage": {"bucket": "mine", "prefix": "/x"}}, "prefix"),
    "A19 empty part": ({"objectStorage": {"bucket": "mine", "prefix": "x//y"}}, "prefix"),
    "A19 bucket": ({"objectStorage": {"bucket": "mine/other"}}, "bucket"),
    "A20 restic": ({"config": {"resticRepoPrefix": "/host_pods"}}, "resticRepoPrefix"),
    "A20 file": ({"config": {"credentialsFile": "/etc/passwd"}}, "credentialsFile"),
    "A20 profile": ({"config": {"profile": "admin"}}, "profile"),
    "A20 metadata": ({"config": {"s3Url": "http://169.254.169.254/"}}, "s3Url"),
    "A20 without pause": ({"validationFrequency": "1ns"}, "validationFrequency can not be shorter than 10s"),
    "A20 folder": ({"provider": "pinnace.io/filesystem", "config": {"path": "/"}}, "provider"),
}


@pytest.mark.spec("NAC-062", "NAC-048")
@pytest.mark.parametrize(("changes", "reason"), LOCATION_ATTACKS.values(), ids=LOCATION_ATTACKS)
async def test_location_is_refused(
    server: Server, tenant: Tenant, changes: dict[str, Any], reason: str
) -> None:
    await tenant.create(NON_ADMIN_LOCATIONS, "attack", location(**changes))
    await secret(tenant)  # A24: a new Secret beside a location without a credential

    await tenant.until(
        NON_ADMIN_LOCATIONS, "attack", lambda obj: reason in str((obj.get("status") or {}).get("conditions"))
    )
    assert (await tenant.get(NON_ADMIN_LOCATIONS, "attack"))["status"]["phase"] == "BackingOff"
    await nothing_made(server)
    assert [each["type"] for each in await server.all(SECRETS)] == []


CREDENTIALS = {
    "a program": KEYS + "credential_process = touch /tmp/owned\n",
    "a role": KEYS + "role_arn = arn:aws:iam::1:role/x\ncredential_source = Ec2InstanceMetadata\n",
    "a token file": KEYS + "web_identity_token_file = /var/run/secrets/token\n",
    "another profile's program": KEYS + "[other]\ncredential_process = id\n",
    "nothing": "[default]\n",
    "no file": "aws_access_key_id = a",
}


@pytest.mark.spec("NAC-051")
@pytest.mark.parametrize("text", CREDENTIALS.values(), ids=CREDENTIALS)
async def test_a17_credentials_are_keys_and_nothing_else(server: Server, tenant: Tenant, text: str) -> None:
    await secret(tenant, text=text)
    await tenant.create(NON_ADMIN_LOCATIONS, "attack", location())

    assert "BSL credentials" in await tenant.refused(NON_ADMIN_LOCATIONS, "attack")
    await nothing_made(server)


async def test_a22_a_tenant_cannot_approve_its_own_request(server: Server, tenant: Tenant) -> None:
    await own_location(server, tenant)
    (request,) = await server.all(NON_ADMIN_LOCATION_REQUESTS)
    with pytest.raises(Forbidden):
        await tenant.client.patch(
            NON_ADMIN_LOCATION_REQUESTS,
            request["metadata"]["name"],
            {"spec": {"approvalDecision": "approve"}},
            server.namespace,
        )
    with pytest.raises(Forbidden):
        await tenant.create(NON_ADMIN_LOCATION_REQUESTS, "attack", {"approvalDecision": "approve"})


@pytest.mark.spec("NAC-044", "NAC-050")
async def test_a23_no_urls_into_the_administrators_bucket(server: Server, tenant: Tenant) -> None:
    await tenant.back_up("nightly")
    unique_id = (await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    await server.set_status(BACKUPS, unique_id, **FINISHED)
    await tenant.create(NON_ADMIN_DOWNLOADS, "plain", {"target": {"kind": "BackupLog", "name": "nightly"}})
    await own_location(server, tenant)
    edit = {"spec": {"backupSpec": {"storageLocation": "mine"}}}
    await tenant.client.patch(NON_ADMIN_BACKUPS, "nightly", edit, tenant.namespace)
    await tenant.create(NON_ADMIN_DOWNLOADS, "edited", {"target": {"kind": "BackupLog", "name": "nightly"}})
    for name in ("plain", "edited"):
        found = await tenant.reached(NON_ADMIN_DOWNLOADS, name, "BackingOff")
        assert [each["type"] for each in found["status"]["conditions"]] == [
            "NonAdminBackupStorageLocationNotUsed"
        ]
    assert await server.all(DOWNLOADS) == []


@pytest.mark.spec("NAC-048")
async def test_a25_objects_without_a_spec_are_not_admitted(tenant: Tenant) -> None:
    for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS):
        nothing: tuple[dict[str, Any] | None, ...] = (None, {})
        for spec in nothing:
            with pytest.raises(Invalid):
                await tenant.create(resource, "attack", spec)


async def test_a26_long_names_and_dots(server: Server, tenant: Tenant) -> None:
    for name in ("x" * 253, "ab.cd." * 20 + "z", "a." * 100 + "b"):
        await tenant.back_up(name)
        found = await tenant.reached(NON_ADMIN_BACKUPS, name, "Created")
        await server.set_status(BACKUPS, found["status"]["veleroBackup"]["name"], **FINISHED)
        await tenant.until(
            NON_ADMIN_BACKUPS,
            name,
            lambda obj: obj["status"]["veleroBackup"]["status"].get("phase") == "Completed",
        )
    made = [each["metadata"]["name"] for each in await server.all(BACKUPS)]
    assert len(set(made)) == 3
    # Each is the value of a label too, which has at most 63 characters.
    assert all(len(name) <= 63 for name in made)


async def test_a31_messages_name_no_other_tenant(
    server: Server, tenant: Tenant, new_tenant: NewTenant
) -> None:
    victim = await new_tenant()
    await own_location(server, victim)
    await victim.back_up("nightly")
    unique_id = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    await tenant.back_up("nightly", metadata={"labels": {SYNCED_FROM: unique_id}}, storageLocation="mine")
    await tenant.back_up("other", storageLocation="mine")
    await tenant.restore("back", backupName="nightly")
    await tenant.create(NON_ADMIN_LOCATIONS, "mine", location())
    target = {"kind": "BackupLog", "name": "nightly"}
    await tenant.create(NON_ADMIN_DOWNLOADS, "log", {"target": target})
    for resource, name in (
        (NON_ADMIN_BACKUPS, "nightly"),
        (NON_ADMIN_BACKUPS, "other"),
        (NON_ADMIN_RESTORES, "back"),
        (NON_ADMIN_LOCATIONS, "mine"),
        (NON_ADMIN_DOWNLOADS, "log"),
    ):
        found = await tenant.reached(resource, name, "BackingOff")
        assert victim.namespace not in str(found["status"])


async def test_a30_the_servers_own_namespace(server: Server) -> None:
    await server.add(NON_ADMIN_BACKUPS, "attack", spec={"backupSpec": {}})
    await server.add(NON_ADMIN_RESTORES, "attack", spec={"restoreSpec": {"backupName": "attack"}})
    await server.add(NON_ADMIN_LOCATIONS, "attack", spec=location())
    as_tenant = Tenant(server.client, server.namespace)
    for resource in (NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS):
        assert "namespace of the server" in await as_tenant.refused(resource, "attack")
    await nothing_made(server)


async def test_the_process_survives_many_requests_at_once(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    manager = await serve()
    specs = [spec for spec, _ in BACKUP_ATTACKS.values()]
    await asyncio.gather(*(tenant.back_up(f"attack-{number}", **spec) for number, spec in enumerate(specs)))
    for number in range(len(specs)):
        await tenant.refused(NON_ADMIN_BACKUPS, f"attack-{number}")
    await tenant.back_up("honest")
    await tenant.reached(NON_ADMIN_BACKUPS, "honest", "Created")
    assert manager.phase is ManagerPhase.RUNNING
