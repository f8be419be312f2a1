"""Servers as processes, each with its own namespace, and the command line beside them."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, SECRETS, velero
from tests.e2e.server_process import ServerProcess
from tests.support.waiting import eventually

PASSWORD = "a-word-that-must-stay-in-the-cluster"


FINAL = frozenset({"FailedValidation", "Completed", "PartiallyFailed", "Failed"})


class Home:
    """A namespace of a server: its location, something to back up, and its objects."""

    def __init__(self, client: KubeClient, namespace: str, folder: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.folder = folder
        self.location = folder / "backups"

    async def furnish(self) -> None:
        """Make a location in a folder, three config maps and a Secret."""
        self.location.mkdir()
        spec = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(self.folder)},
            "objectStorage": {"bucket": self.location.name},
            "default": True,
        }
        resource = velero("backupstoragelocations")
        await self.client.create(
            resource, self._object("BackupStorageLocation", "default", spec=spec), self.namespace
        )
        for number in range(3):
            body = self._object("ConfigMap", f"map-{number}", data={"number": str(number)})
            await self.client.create(CONFIGMAPS, {**body, "apiVersion": "v1"}, self.namespace)
        encoded = base64.b64encode(PASSWORD.encode()).decode()
        body = self._object("Secret", "password", data={"password": encoded})
        await self.client.create(SECRETS, {**body, "apiVersion": "v1"}, self.namespace)

    async def move_to(self, bucket: Bucket, *, server_url: str) -> None:
        """Make the location one in a bucket, with its credentials in a Secret."""
        text = bucket.server.credentials_file.read_text()
        body = self._object("Secret", "cloud-credentials", stringData={"cloud": text})
        await self.client.create(SECRETS, {**body, "apiVersion": "v1"}, self.namespace)
        spec = {
            "provider": "aws",
            "config": {**bucket.location_config, "s3Url": server_url, "path": None},
            "objectStorage": {"bucket": bucket.name},
            "credential": {"name": "cloud-credentials", "key": "cloud"},
        }
        resource = velero("backupstoragelocations")
        await self.client.patch(resource, "default", {"spec": spec}, self.namespace)

    def _object(self, kind: str, name: str, **members: Any) -> JSONObject:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "velero.io/v1", "kind": kind, "metadata": metadata, **members}

    async def create_backup(self, name: str, namespace: str = "") -> None:
        """Ask for a backup of config maps and secrets, of the server's namespace without another."""
        spec = {
            "includedNamespaces": [namespace or self.namespace],
            "includedResources": ["configmaps", "secrets"],
        }
        await self.client.create(velero("backups"), self._object("Backup", name, spec=spec), self.namespace)

    async def create_restore(
        self, name: str, backup: str, target: str, *, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Ask for a restore into another namespace."""
        spec = {"backupName": backup, "namespaceMapping": {self.namespace: target}}
        body = self._object("Restore", name, spec=spec)
        body["metadata"]["annotations"] = dict(annotations or {})
        await self.client.create(velero("restores"), body, self.namespace)

    async def status(self, plural: str, name: str) -> JSONObject:
        found = await self.client.get(velero(plural), name, self.namespace)
        return found.get("status") or {}

    async def ended(self, plural: str, name: str) -> JSONObject:
        """The status, once the phase is final."""
        status: JSONObject = {}

        async def check() -> bool:
            status.update(await self.status(plural, name))
            return status.get("phase") in FINAL

        await eventually(check)
        return status


class NewServer(Protocol):
    """The `new_server` fixture."""

    async def __call__(
        self, *arguments: str, via: FaultProxy | None = None, grace_seconds: float | None = None
    ) -> ServerProcess: ...


ALONE = "--leader-elect=false"


ORPHAN = 'get a {} with status "InProgress" during the server starting, mark it as "Failed"'


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


async def as_server(client: KubeClient, control_plane: ControlPlane, namespace: str, folder: Path) -> Path:
    """A kubeconfig of the ServiceAccount that was installed."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/velero/token"
    answer = json.loads(await client.request("POST", path, body=json.dumps(body).encode()))
    config = yaml.safe_load(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": answer["status"]["token"]}
    made = folder / "kubeconfig-of-the-server"
    made.write_text(yaml.safe_dump(config))
    made.chmod(0o600)
    return made
