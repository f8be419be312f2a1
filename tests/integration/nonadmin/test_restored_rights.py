"""The objects that a tenant with only the role `edit` gets back from the administrator's location.

A restore runs with the server's rights; objects that the tenant may not write are left out, and named.
(docs/spec: NAC 17 A36)
"""

import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    CONFIGMAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    APIResource,
    velero,
)
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.support.servers.self_service import Serve, Server, Tenant
from tests.support.servers.sites import running as running_server
from tests.support.waiting import eventually

RBAC = "rbac.authorization.k8s.io"


def namespaced(group: str, name: str, kind: str) -> APIResource:
    return APIResource(group=group, version="v1", name=name, kind=kind, namespaced=True)


ROLES = namespaced(RBAC, "roles", "Role")
ROLE_BINDINGS = namespaced(RBAC, "rolebindings", "RoleBinding")
RESOURCE_QUOTAS = namespaced("", "resourcequotas", "ResourceQuota")
LIMIT_RANGES = namespaced("", "limitranges", "LimitRange")
ENDPOINTS = namespaced("", "endpoints", "Endpoints")
REVISIONS = namespaced("apps", "controllerrevisions", "ControllerRevision")

REVOKED: list[tuple[APIResource, JSONObject]] = [
    (ROLES, {"rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
    (
        ROLE_BINDINGS,
        {
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": RBAC, "kind": "User", "name": "mallory"}],
        },
    ),
    (RESOURCE_QUOTAS, {"spec": {"hard": {"count/configmaps": "1000"}}}),
    (LIMIT_RANGES, {"spec": {"limits": [{"type": "Container", "max": {"cpu": "64"}}]}}),
    (ENDPOINTS, {"subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 443}]}]}),
    (REVISIONS, {"revision": 1, "data": {}}),
]
"""Objects that an administrator had made in the namespace, and has deleted since."""


@pytest.fixture
async def store(server: Server, tmp_path: Path) -> AsyncIterator[Path]:
    """The administrator's location with a whole server before it."""
    folder = tmp_path / "bucket"
    folder.mkdir()
    spec = {
        "provider": "pinnace.io/filesystem",
        "config": {"path": str(tmp_path)},
        "objectStorage": {"bucket": folder.name},
        "default": True,
    }
    await server.add(velero("backupstoragelocations"), "default", spec=spec)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running_server(server.client, server.namespace, tmp_path))
        yield folder


async def grant(server: Server, tenant: Tenant) -> str:
    """Make what the administrator gave once: objects, and a volume on a disk; returns the volume's name."""
    for resource, body in REVOKED:
        metadata = {"name": "given", "namespace": tenant.namespace}
        item = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **body}
        await server.client.create(resource, item, tenant.namespace)
    volume = f"disk-of-{tenant.namespace}"
    size = {"storage": "1Gi"}
    spec = {
        "capacity": size,
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "hostPath": {"path": "/of-another-tenant-by-now"},
        "claimRef": {"namespace": tenant.namespace, "name": "data"},
    }
    item = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume}, "spec": spec}
    await server.client.create(PERSISTENT_VOLUMES, item)
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": size},
        "storageClassName": "",
        "volumeName": volume,
    }
    await tenant.create(PERSISTENT_VOLUME_CLAIMS, "data", claim)

    async def bound() -> bool:
        found = await tenant.get(PERSISTENT_VOLUME_CLAIMS, "data")
        return bool((found.get("status") or {}).get("phase") == "Bound")

    await eventually(bound)
    return volume


async def revoke(server: Server, tenant: Tenant, volume: str) -> None:
    for resource, _ in REVOKED:
        await server.client.delete(resource, "given", tenant.namespace)
    no_finalizers = {"metadata": {"finalizers": None}}
    for kind, name, namespace in (
        (PERSISTENT_VOLUME_CLAIMS, "data", tenant.namespace),
        (PERSISTENT_VOLUMES, volume, None),
    ):
        with contextlib.suppress(NotFound):
            await server.client.delete(kind, name, namespace)
            await server.client.patch(kind, name, no_finalizers, namespace)


async def is_there(server: Server, resource: APIResource, name: str, namespace: str | None) -> bool:
    try:
        await server.client.get(resource, name, namespace)
    except NotFound:
        return False
    return True


def results_of(store: Path, restore: str) -> JSONObject:
    found: JSONObject = json.loads(
        gzip.decompress((store / "restores" / restore / f"restore-{restore}-results.gz").read_bytes())
    )
    return found


async def backed_up_and_restored(
    server: Server, tenant: Tenant, **settings: object
) -> tuple[str, JSONObject]:
    """Back up what was given, take it away, restore; returns the volume and the ended request."""
    volume = await grant(server, tenant)
    await tenant.create(CONFIGMAPS, "prices", None)
    await tenant.back_up("nightly")
    await tenant.until(NON_ADMIN_BACKUPS, "nightly", lambda obj: _phase(obj, "veleroBackup") == "Completed")
    await revoke(server, tenant, volume)
    await tenant.client.delete(CONFIGMAPS, "prices", tenant.namespace)
    await tenant.restore("back", backupName="nightly")
    ended = ("Completed", "PartiallyFailed", "Failed", "FailedValidation")
    non_admin_restore = await tenant.until(
        NON_ADMIN_RESTORES, "back", lambda obj: _phase(obj, "veleroRestore") in ended
    )
    return volume, non_admin_restore


def _phase(obj: JSONObject, made: str) -> str:
    return str((((obj.get("status") or {}).get(made) or {}).get("status") or {}).get("phase"))


async def test_a_tenant_gets_back_nothing_that_edit_may_not_write(
    server: Server, tenant: Tenant, serve: Serve, store: Path
) -> None:
    await serve()
    volume, non_admin_restore = await backed_up_and_restored(server, tenant)

    assert _phase(non_admin_restore, "veleroRestore") == "Completed"
    assert await is_there(server, CONFIGMAPS, "prices", tenant.namespace)
    there = [
        resource.kind
        for resource, _ in REVOKED
        if await is_there(server, resource, "given", tenant.namespace)
    ]
    assert there == []
    assert not await is_there(server, PERSISTENT_VOLUMES, volume, None)
    claim = await tenant.get(PERSISTENT_VOLUME_CLAIMS, "data")
    assert "volumeName" not in claim["spec"]
    warnings = results_of(store, non_admin_restore["status"]["veleroRestore"]["name"])["warnings"]
    texts = " ".join([*warnings["namespaces"][tenant.namespace], *warnings.get("cluster", [])])
    for resource, _ in REVOKED:
        assert f"{resource.group_resource} not restored (" in texts, resource.kind
    # The positive control: the tenant may indeed not write them.
    for resource, body in REVOKED:
        item = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {"name": "own"},
            **body,
        }
        with pytest.raises(Forbidden):
            await tenant.client.create(resource, item, tenant.namespace)


async def test_an_administrator_may_allow_kinds(
    server: Server, tenant: Tenant, serve: Serve, store: Path
) -> None:
    document = f"nonAdmin: {{restorableResources: [limitranges, 'rolebindings.{RBAC}']}}"
    metadata = {"name": "pinnace-nonadmin", "namespace": server.namespace}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    config["data"] = {"settings.yaml": document}
    await server.client.create(CONFIGMAPS, config, server.namespace)
    await serve()
    await backed_up_and_restored(server, tenant)

    there = [
        resource.kind
        for resource, _ in REVOKED
        if await is_there(server, resource, "given", tenant.namespace)
    ]
    assert there == ["RoleBinding", "LimitRange"]


async def test_a_namespace_that_went_meanwhile_is_not_made_anew(
    server: Server, tenant: Tenant, serve: Serve, store: Path
) -> None:
    """Its labels may exempt it from admission; a Restore that names a namespace that is gone makes none."""
    await serve()
    await tenant.create(CONFIGMAPS, "prices", None)
    await tenant.back_up("nightly")
    non_admin_backup = await tenant.until(
        NON_ADMIN_BACKUPS, "nightly", lambda obj: _phase(obj, "veleroBackup") == "Completed"
    )
    gone = f"{tenant.namespace}-gone"
    await server.add(
        velero("restores"),
        "late",
        metadata={"annotations": {"openshift.io/oadp-nar-origin-namespace": tenant.namespace}},
        spec={
            "backupName": non_admin_backup["status"]["veleroBackup"]["name"],
            "namespaceMapping": {tenant.namespace: gone},
        },
    )

    async def ended() -> bool:
        found = await server.client.get(velero("restores"), "late", server.namespace)
        return (found.get("status") or {}).get("phase") == "PartiallyFailed"

    await eventually(ended)
    assert f"namespace {gone} does not exist" in str(results_of(store, "late")["errors"]["velero"])
