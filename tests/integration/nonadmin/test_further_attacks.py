"""Attacks of a tenant with the role `edit` beyond the rows of NAC 17, on a real API server."""

from typing import Any

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import APIStatusError, Forbidden, Invalid
from pinnace.kube.resources import CONFIGMAPS, SECRETS
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from tests.support.servers.self_service import (
    BACKUPS,
    LOCATIONS,
    RESTORES,
    NewTenant,
    Serve,
    Server,
    Tenant,
    location,
    nothing_made,
    secret,
)

COMMON = {"openshift.io/oadp": "True", "app.kubernetes.io/managed-by": "oadp-nac-controller"}
OURS = {
    "pinnace.io/allowed-endpoints": "0.0.0.0/0,::/0",
    "pinnace.io/max-hook-time": "0s",
    "pinnace.io/nab-origin-namespace-uid": "of-another",
    "pinnace.io/restorable-resources": "rolebindings.rbac.authorization.k8s.io",
    "openshift.io/oadp-nab-origin-namespace": "kube-system",
    "openshift.io/oadp-nab-origin-name": "another",
    "openshift.io/oadp-nabsl-origin-namespace": "kube-system",
}
"""Annotations that mean something in the server's namespace."""

CONFIG_MAP = {"kind": "configmap", "name": "pinnace-nonadmin"}

REFUSED_BACKUPS: dict[str, JSONObject] = {
    "glob-of-namespaces": {"includedNamespaces": ["*-tenant"]},
    "namespace-in-capitals": {"includedNamespaces": ["KUBE-SYSTEM"]},
    "namespace-with-a-slash": {"includedNamespaces": ["kube-system/x"]},
    "excluding-nothing": {"excludedNamespaces": []},
    "no-snapshot-locations": {"volumeSnapshotLocations": []},
    "location-of-the-server": {"storageLocation": "default"},
    "location-by-path": {"storageLocation": "../default"},
    "endless-snapshot": {"csiSnapshotTimeout": "8760h"},
    "cluster-resources": {"includeClusterResources": True},
}
REFUSED_LATER_FIELDS: dict[str, JSONObject] = {
    "policy-of-the-server": {"resourcePolicy": CONFIG_MAP},
    "cluster-scoped-kinds": {"includedClusterScopedResources": ["nodes"]},
    "moved-data": {"snapshotMoveData": True},
    "uploader": {"uploaderConfig": {"parallelFilesUpload": 100000}},
}
"""Of later Velero: refused, or pruned by the API server, but never handed to the server."""

REFUSED_RESTORES: dict[str, JSONObject] = {
    "mapping-of-nothing": {"namespaceMapping": {}},
    "mapping-into-another": {"namespaceMapping": {"a": "kube-system"}},
    "cluster-resources": {"includeClusterResources": True},
    "of-a-schedule": {"scheduleName": "daily"},
    "glob-of-namespaces": {"includedNamespaces": ["*"]},
    "backup-by-path": {"backupName": "kube-system/nightly"},
    "backup-by-parent": {"backupName": "../nightly"},
    "backup-of-all": {"backupName": "*"},
}
LATER_RESTORES: dict[str, JSONObject] = {
    "modifier-of-the-server": {"resourceModifier": CONFIG_MAP},
    "status-of-everything": {"restoreStatus": {"includedResources": ["*"]}},
    "overwriting": {"existingResourcePolicy": "recreate"},
}

REFUSED_LOCATIONS: dict[str, JSONObject] = {
    "decimal-loopback": {"config": {"s3Url": "http://2130706433:9000"}},
    "octal-metadata": {"config": {"s3Url": "http://0251.0376.0251.0376"}},
    "mapped-metadata": {"config": {"s3Url": "http://[::ffff:169.254.169.254]"}},
    "api-server": {"config": {"s3Url": "https://10.96.0.1"}},
    "with-a-user": {"config": {"s3Url": "https://a:b@example.com"}},
    "of-a-file": {"config": {"s3Url": "file:///etc/passwd"}},
    "key-file-of-the-server": {"config": {"customerKeyEncryptionFile": "/etc/passwd"}},
    "credential-of-another": {"credential": {"name": "kube-system/keys", "key": "cloud"}},
    "bucket-with-a-path": {"objectStorage": {"bucket": "a/../b"}},
    "prefix-with-a-line": {"objectStorage": {"bucket": "a", "prefix": "x\ny"}},
    "busy": {"validationFrequency": "1ms"},
    "own-program": {"provider": "example.com/program"},
    "folder-of-the-server": {"provider": "pinnace.io/filesystem", "config": {"path": "/"}},
}


async def attempted(tenant: Tenant, resource: Any, name: str, spec: JSONObject, **metadata: Any) -> str:
    """Why an attempt is refused, by the API server or by a condition; nothing if it is not."""
    try:
        await tenant.create(resource, name, spec, **metadata)
    except (Invalid, Forbidden) as error:
        return error.message
    found = await tenant.until(
        resource, name, lambda obj: (obj.get("status") or {}).get("phase") in ("BackingOff", "Created")
    )
    messages = [each["message"] for each in found["status"]["conditions"] if each["status"] == "False"]
    return " ".join(messages) if found["status"]["phase"] == "BackingOff" else ""


async def test_specs_that_reach_out_of_the_namespace_are_refused(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve(allowed_endpoints=())
    await secret(tenant)
    accepted = [
        name
        for name, spec in {**REFUSED_BACKUPS, **REFUSED_LATER_FIELDS}.items()
        if not await attempted(tenant, NON_ADMIN_BACKUPS, name, {"backupSpec": spec})
        and (spec.keys() & _kept(await tenant.get(NON_ADMIN_BACKUPS, name), "backupSpec"))
    ]
    accepted += [
        name
        for name, changes in REFUSED_LOCATIONS.items()
        if not await attempted(tenant, NON_ADMIN_LOCATIONS, name, location(**changes))
    ]
    assert accepted == []
    assert await server.all(LOCATIONS) == []


def _kept(obj: JSONObject, member: str) -> set[str]:
    return set(obj["spec"][member])


async def test_restores_that_reach_out_of_the_namespace_are_refused(
    serve: Serve, server: Server, tenant: Tenant, new_tenant: NewTenant
) -> None:
    await serve()
    other = await new_tenant()
    for each in (tenant, other):
        await each.back_up("nightly")
        made = await each.reached(NON_ADMIN_BACKUPS, "nightly", "Created")
        backup = made["status"]["veleroBackup"]["name"]
        status = {"phase": "Completed", "completionTimestamp": "2030-01-01T00:00:00Z"}
        await server.set_status(BACKUPS, backup, **status)
    attempts = {**REFUSED_RESTORES, "of-another": {"backupName": backup}}
    accepted = [
        name
        for name, spec in {**attempts, **LATER_RESTORES}.items()
        if not await attempted(
            tenant, NON_ADMIN_RESTORES, name, {"restoreSpec": {"backupName": "nightly", **spec}}
        )
        and (spec.keys() & _kept(await tenant.get(NON_ADMIN_RESTORES, name), "restoreSpec"))
    ]
    assert accepted == []
    for restore in await server.all(RESTORES):
        assert restore["spec"]["includedNamespaces"] == [tenant.namespace]
        assert not restore["spec"].keys() & {"resourceModifier", "restoreStatus", "namespaceMapping"}


async def test_nothing_of_a_requests_metadata_reaches_the_server(
    serve: Serve, server: Server, tenant: Tenant, new_tenant: NewTenant
) -> None:
    """Labels, annotations, owners and finalizers that mimic those of the server's objects."""
    await serve(allowed_endpoints=())
    victim = await new_tenant()
    await victim.back_up("nightly")
    victims = (await victim.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
        "name"
    ]
    await secret(tenant)
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}}
    owner = await tenant.client.create(CONFIGMAPS, config, tenant.namespace)
    mimic: JSONObject = {
        "labels": {
            **COMMON,
            "openshift.io/oadp-nab-origin-nacuuid": victims,
            "openshift.io/oadp-nabsl-origin-nacuuid": victims,
            "velero.io/schedule-name": "daily",
            "pinnace.io/trust-tenant-location": "true",
        },
        "annotations": {**OURS, "velero.io/resource-timeout": "8760h"},
        "finalizers": ["nonadminrestore.oadp.openshift.io/finalizer", "example.com/hold"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        ],
    }
    await tenant.back_up("mimic", metadata=mimic)
    await tenant.reached(NON_ADMIN_BACKUPS, "mimic", "Created")
    await tenant.create(NON_ADMIN_LOCATIONS, "mine", location(), **mimic)
    await tenant.reached(NON_ADMIN_LOCATIONS, "mine", "Created")

    own = [each for each in await server.all(BACKUPS) if each["metadata"]["name"] != victims]
    own += await server.all(LOCATIONS)
    assert len(own) == 2
    for made in own:
        metadata = made["metadata"]
        assert metadata["name"].startswith(tenant.namespace)
        assert tenant.namespace in metadata["annotations"].values()
        assert set(metadata["labels"]) <= {
            *COMMON,
            "openshift.io/oadp-nab-origin-nacuuid",
            "openshift.io/oadp-nabsl-origin-nacuuid",
        }
        assert victims not in metadata["labels"].values()
        assert "ownerReferences" not in metadata
        assert "finalizers" not in metadata
        assert metadata["annotations"].get("pinnace.io/allowed-endpoints", "") == ""
        assert metadata["annotations"].get("pinnace.io/max-hook-time", "30m0s") == "30m0s"
    kept = await server.client.get(BACKUPS, victims, server.namespace)
    assert kept["metadata"]["annotations"]["openshift.io/oadp-nab-origin-namespace"] == victim.namespace

    # Deletion waits only for our own finalizer, and removes no other object.
    await tenant.client.delete(NON_ADMIN_BACKUPS, "mimic", tenant.namespace)
    await tenant.client.patch(
        NON_ADMIN_BACKUPS, "mimic", {"metadata": {"finalizers": None}}, tenant.namespace
    )
    await tenant.gone(NON_ADMIN_BACKUPS, "mimic")
    assert await server.client.get(BACKUPS, victims, server.namespace)


async def test_an_edit_between_acceptance_and_work_changes_nothing(
    serve: Serve, server: Server, tenant: Tenant
) -> None:
    await serve()
    for number in range(10):
        name = f"race-{number}"
        await tenant.back_up(name)
        patch = {"spec": {"backupSpec": {"includedNamespaces": ["kube-system"]}}}
        await tenant.client.patch(NON_ADMIN_BACKUPS, name, patch, tenant.namespace)
    for number in range(10):
        await tenant.until(
            NON_ADMIN_BACKUPS,
            f"race-{number}",
            lambda obj: (obj.get("status") or {}).get("phase") in ("BackingOff", "Created"),
        )
    for backup in await server.all(BACKUPS):
        assert backup["spec"]["includedNamespaces"] == [tenant.namespace]


@pytest.mark.parametrize(
    "resource",
    [NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_LOCATIONS, NON_ADMIN_DOWNLOADS],
    ids=lambda each: each.name,
)
async def test_no_status_and_no_object_of_the_server_can_be_written(
    serve: Serve, server: Server, tenant: Tenant, resource: Any
) -> None:
    await serve()
    for attempt in (
        tenant.client.patch(resource, "x", {"status": {}}, tenant.namespace, subresource="status"),
        tenant.client.list_all(resource, server.namespace),
        tenant.client.list_all(BACKUPS, server.namespace),
        tenant.client.list_all(SECRETS, server.namespace),
        tenant.client.create(
            BACKUPS,
            {"apiVersion": "velero.io/v1", "kind": "Backup", "metadata": {"name": "x"}, "spec": {}},
            tenant.namespace,
        ),
    ):
        with pytest.raises(APIStatusError) as refused:
            await attempt
        assert refused.value.code == 403
    await nothing_made(server)
