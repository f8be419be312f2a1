"""What the tests of the whole program with a server share: a namespace with a location, servers, commands."""

import base64
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Protocol

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from hack.cluster.s3 import Bucket
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import CONFIGMAPS, SECRETS, velero
from tests.e2e.server_process import ServerProcess
from tests.e2e.without_server.command import Pinnace
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

    async def create_backup(self, name: str) -> None:
        """Ask for a backup of config maps and secrets."""
        spec = {"includedNamespaces": [self.namespace], "includedResources": ["configmaps", "secrets"]}
        await self.client.create(velero("backups"), self._object("Backup", name, spec=spec), self.namespace)

    async def create_restore(self, name: str, backup: str, target: str) -> None:
        """Ask for a restore into another namespace."""
        spec = {"backupName": backup, "namespaceMapping": {self.namespace: target}}
        await self.client.create(velero("restores"), self._object("Restore", name, spec=spec), self.namespace)

    async def status(self, plural: str, name: str) -> JSONObject:
        found = await self.client.get(velero(plural), name, self.namespace)
        return found.get("status") or {}

    async def ended(self, plural: str, name: str) -> JSONObject:
        """The status, once the phase is final."""
        status: JSONObject = {}

        async def check() -> bool:
            status.update(await self.status(plural, name))
            return status.get("phase") in FINAL

        await eventually(check, timeout_seconds=60)
        return status


class NewServer(Protocol):
    """The `new_server` fixture."""

    async def __call__(self, *arguments: str, via: FaultProxy | None = None) -> ServerProcess: ...


@pytest.fixture
async def home(client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path) -> Home:
    """A furnished namespace without a server."""
    made = Home(client, namespace, tmp_path)
    await made.furnish()
    return made


@pytest.fixture
async def new_server(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> AsyncIterator[NewServer]:
    """A function that starts a server of the namespace; all are killed at the end of the test."""
    async with AsyncExitStack() as stack:

        async def start(*arguments: str, via: FaultProxy | None = None) -> ServerProcess:
            kubeconfig = control_plane.kubeconfig
            if via is not None:
                kubeconfig = control_plane.write_kubeconfig(tmp_path / "through-proxy", server=via.url)
            server = ServerProcess(tmp_path, kubeconfig, "-n", namespace, *arguments)
            await server.start()
            stack.push_async_callback(server.kill)
            return server

        yield start


@pytest.fixture
def command(control_plane: ControlPlane, namespace: str, tmp_path: Path) -> Callable[..., Any]:
    """The `pinnace` command for the server of the namespace."""
    folder = tmp_path / "command"
    folder.mkdir()
    environ = {"VELERO_NAMESPACE": namespace}
    return Pinnace(
        folder,
        kubeconfig=control_plane.kubeconfig,
        location=None,
        secrets=(PASSWORD, base64.b64encode(PASSWORD.encode()).decode()),
        environ=environ,
    )
