"""Snapshots of the storage system that a tenant names in an own VolumeSnapshot. (docs/spec: NAC 17 A35)

Backups in the administrator's own location are trusted, but a VolumeSnapshot in them may have been written by
a tenant.
"""

import secrets
from pathlib import Path

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import Forbidden
from pinnace.kube.resources import velero
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds
from tests.support.servers.self_service import Serve, Server, Tenant, create_object
from tests.support.servers.sites import running as running_server
from tests.support.waiting import eventually

GROUP = "snapshot.storage.k8s.io"
CSI = frozenset({"EnableCSI"})


def forged(handle: str) -> dict[str, str]:
    return {
        "velero.io/csi-volumesnapshot-handle": handle,
        "velero.io/csi-driver-name": "disks.example.com",
        "velero.io/csi-vsc-deletion-policy": "Delete",
        "velero.io/csi-deletesnapshotsecret-namespace": "kube-system",
        "velero.io/csi-deletesnapshotsecret-name": "admin",
    }


async def may_make_snapshots(server: Server, tenant: Tenant) -> None:
    """Let the tenant work with VolumeSnapshots, as many clusters do."""
    role = {"name": "snapshots", "namespace": tenant.namespace}
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": [GROUP], "resources": ["volumesnapshots"], "verbs": ["*"]}
    await create_object(
        server.client, {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": role, "rules": [rule]}
    )
    binding = {
        "apiVersion": f"{rbac}/v1",
        "kind": "RoleBinding",
        "metadata": role,
        "roleRef": {"apiGroup": rbac, "kind": "Role", "name": "snapshots"},
        "subjects": [{"kind": "User", "name": f"user-of-{tenant.namespace}", "apiGroup": rbac}],
    }
    await create_object(server.client, binding)


@pytest.mark.parametrize("features", [CSI, frozenset()], ids=["CSI in both", "CSI in the restore alone"])
async def test_a_forged_snapshot_is_bound_to_nothing(
    serve: Serve, server: Server, tenant: Tenant, tmp_path: Path, features: frozenset[str]
) -> None:
    kinds = await ensure_snapshot_crds(server.client)
    await may_make_snapshots(server, tenant)
    (tmp_path / "bucket").mkdir()
    spec = {
        "provider": "pinnace.io/filesystem",
        "config": {"path": str(tmp_path)},
        "objectStorage": {"bucket": "bucket"},
        "default": True,
    }
    await server.add(velero("backupstoragelocations"), "default", spec=spec)
    await serve()
    handle = f"snap-of-the-victim-{secrets.token_hex(4)}"

    async def allowed() -> bool:
        try:
            await tenant.client.list_all(kinds.snapshots, tenant.namespace)
        except Forbidden:
            return False
        return True

    await eventually(allowed)
    snapshot = {"source": {"persistentVolumeClaimName": "none"}}
    async with running_server(server.client, server.namespace, tmp_path, features=features):
        await tenant.back_up("nightly")
        name = (await tenant.reached(NON_ADMIN_BACKUPS, "nightly", "Created"))["status"]["veleroBackup"][
            "name"
        ]
        await tenant.until(
            NON_ADMIN_BACKUPS, "nightly", lambda obj: "completionTimestamp" in str(obj["status"])
        )
        # The id is known before the Backup is worked on, where others wait in front of it.
        for label in ({}, {"velero.io/backup-name": name}):
            await tenant.create(
                kinds.snapshots, f"f{len(label)}", snapshot, annotations=forged(handle), labels=label
            )
        await tenant.back_up("forged")
        non_admin_backup = await tenant.until(
            NON_ADMIN_BACKUPS, "forged", lambda obj: "completionTimestamp" in str(obj.get("status"))
        )
        assert non_admin_backup["status"]["veleroBackup"]["status"]["phase"] == "Completed"
    for number in (0, 1):
        await tenant.client.delete(kinds.snapshots, f"f{number}", tenant.namespace)

    async with running_server(server.client, server.namespace, tmp_path, features=CSI):
        await tenant.restore("back", backupName="forged")
        non_admin_restore = await tenant.until(
            NON_ADMIN_RESTORES, "back", lambda obj: "completionTimestamp" in str(obj.get("status"))
        )
    assert non_admin_restore["status"]["veleroRestore"]["status"]["phase"] == "PartiallyFailed"
    contents: list[JSONObject] = await server.client.list_all(kinds.contents)
    assert handle not in str(contents)
    assert await tenant.client.list_all(kinds.snapshots, tenant.namespace) == []
