"""A bucket that a tenant owns on a real S3 server, and files that its owner writes by hand."""

import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from hack.cluster.stores.s3 import Bucket
from pinnace.api.nonadmin.names import COMMON_LABELS, Origin
from pinnace.api.objects import JSONObject
from pinnace.kube.resources import SECRETS
from pinnace.nonadmin.objects import NON_ADMIN_LOCATIONS
from pinnace.storage.encoding import compress, encode_list
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from tests.support.servers.self_service import LOCATIONS, Server, Tenant
from tests.support.servers.tenants import unique_id
from tests.support.waiting import eventually

RBAC = "rbac.authorization.k8s.io"
ENDED = {
    "phase": "Completed",
    "formatVersion": "1.1.0",
    "startTimestamp": "2021-08-01T00:00:00Z",
    "completionTimestamp": "2021-08-01T00:01:00Z",
}


class OwnBucket:
    """A tenant's location in a bucket.

    Attributes:
        location: its name in the server's namespace.
    """

    def __init__(self, server: Server, tenant: Tenant, bucket: Bucket) -> None:
        self.tenant = tenant
        self.location = ""
        self._server = server
        self._bucket = bucket
        config = {**bucket.location_config, "bucket": bucket.name}
        config["credentialsFile"] = str(bucket.server.credentials_file)
        self._config = config

    async def create(self, name: str = "mine", **settings: str) -> None:
        """Ask for the location, as a tenant does, and wait until the server has it.

        Args:
            settings: more of its `config`.
        """
        tenant = self.tenant
        keys = self._bucket.server.credentials_file.read_text()
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}}
        await tenant.client.create(SECRETS, {**body, "stringData": {"cloud": keys}}, tenant.namespace)
        spec = {
            "provider": "aws",
            "config": {**self._bucket.location_config, **settings},
            "objectStorage": {"bucket": self._bucket.name},
            "credential": {"name": "keys", "key": "cloud"},
            "backupSyncPeriod": "1ms",
        }
        await tenant.create(NON_ADMIN_LOCATIONS, name, {"backupStorageLocationSpec": spec})
        found = await tenant.reached(NON_ADMIN_LOCATIONS, name, "Created")
        self.location = str(found["status"]["veleroBackupStorageLocation"]["name"])

    async def plant(
        self,
        name: str,
        *,
        origin: str = "",
        id_label: str = "",
        items: Mapping[str, JSONObject] | None = None,
        files: Mapping[str, Sequence[JSONObject]] | None = None,
        status: JSONObject | None = None,
        **spec: Any,
    ) -> str:
        """Write a backup by hand; returns its name.

        Args:
            name: what tells its name apart from others; another tenant's unique id is taken as it is.
            origin: the namespace that it says it is of; the tenant's if left out.
            id_label: the unique id that it says it has; its name if left out.
            items: of the tarball, by their path below `resources`.
            files: lists beside it, by the end of their names.
        """
        namespace = origin or self.tenant.namespace
        request = f"of-{name}"[:60]
        name = name if len(name) > 36 else self.named(name)
        metadata = {
            "name": name,
            "namespace": "elsewhere",
            "labels": {**COMMON_LABELS, Origin.BACKUP.id_label: id_label or name},
            "annotations": {
                Origin.BACKUP.namespace_annotation: namespace,
                Origin.BACKUP.name_annotation: request,
            },
        }
        backup = {
            "apiVersion": "velero.io/v1",
            "kind": "Backup",
            "metadata": metadata,
            "spec": {"includedNamespaces": [namespace], "storageLocation": "x", **spec},
            "status": ENDED if status is None else status,
        }
        folder = f"{self.tenant.namespace}/backups/{name}/"
        store = S3Store(parse_s3_config(self._config), environ={})
        try:
            await store.put(f"{folder}{name}.tar.gz", tarball(items or {}))
            for end, objects in (files or {}).items():
                await store.put(f"{folder}{name}{end}", encode_list(objects))
            await store.put(f"{folder}velero-backup.json", json.dumps(backup).encode())
        finally:
            await store.close()
        return name

    def named(self, name: str) -> str:
        """The name of a backup that plant() writes."""
        return unique_id(self.tenant.namespace, name)

    async def put(self, files: Mapping[str, bytes]) -> None:
        """Write files by hand, by their keys below the tenant's prefix."""
        store = S3Store(parse_s3_config(self._config), environ={})
        try:
            for key, data in files.items():
                await store.put(f"{self.tenant.namespace}/{key}", data)
        finally:
            await store.close()

    async def names(self) -> list[str]:
        """The backups in the bucket."""
        store = S3Store(parse_s3_config(self._config), environ={})
        try:
            found = await store.list_keys(f"{self.tenant.namespace}/backups/")
        finally:
            await store.close()
        return sorted({key.split("/")[2] for key in found})

    async def synced(self) -> None:
        """Wait until a server has synced the location once more."""
        before = await self._last_synced()

        async def check() -> bool:
            return await self._last_synced() != before

        await eventually(check)

    async def _last_synced(self) -> str:
        location = await self._server.client.get(LOCATIONS, self.location, self._server.namespace)
        return str((location.get("status") or {}).get("lastSyncedTime"))


def tarball(items: Mapping[str, JSONObject]) -> bytes:
    """The contents of a backup."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        members = {f"resources/{path}.json": json.dumps(obj).encode() for path, obj in items.items()}
        for path, data in {"metadata/version": b"1.1.0\n", **members}.items():
            member = tarfile.TarInfo(path)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return compress(buffer.getvalue())


def config_map(namespace: str, name: str = "prices") -> JSONObject:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"tea": "3"}}


def hostile_items(namespace: str, word: str, other: str = "kube-system") -> dict[str, JSONObject]:
    """The items of a tarball: one honest config map, and objects that its writer has no right to."""
    subject = {"kind": "User", "name": "mallory", "apiGroup": RBAC}
    role = {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}
    claim = {"namespace": namespace, "name": "data"}
    within = f"namespaces/{namespace}"
    volume = {"storage": "1Gi"}
    snapshot = {"velero.io/csi-volumesnapshot-handle": "snap-v", "velero.io/csi-driver-name": "d.example.com"}
    return {
        f"configmaps/{within}/prices": config_map(namespace),
        f"configmaps/namespaces/{other}/{word}": config_map(other, word),
        f"clusterrolebindings.{RBAC}/cluster/{word}": {
            "apiVersion": f"{RBAC}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": word},
            "roleRef": role,
            "subjects": [subject],
        },
        f"rolebindings.{RBAC}/{within}/{word}": {
            "apiVersion": f"{RBAC}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": word, "namespace": namespace},
            "roleRef": role,
            "subjects": [subject],
        },
        f"persistentvolumes/cluster/{word}": {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": word},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": volume,
                "hostPath": {"path": "/"},
                "persistentVolumeReclaimPolicy": "Retain",
                "claimRef": claim,
            },
        },
        f"persistentvolumeclaims/{within}/data": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": volume},
                "volumeName": word,
                "storageClassName": "",
            },
        },
        f"endpoints/{within}/{word}": {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": word, "namespace": namespace},
            "subsets": [{"addresses": [{"ip": "10.9.9.9"}], "ports": [{"port": 80}]}],
        },
        f"volumesnapshots.snapshot.storage.k8s.io/{within}/{word}": {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {"name": word, "namespace": namespace, "annotations": snapshot},
            "spec": {"source": {"persistentVolumeClaimName": "data"}},
        },
    }
