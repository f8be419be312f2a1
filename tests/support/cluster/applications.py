"""An application of pods that hooks run in."""

import gzip
import json
import secrets
from pathlib import Path
from typing import Any

from hack.cluster.control_plane import ControlPlane
from pinnace.api.codec import decode
from pinnace.api.objects import JSONObject
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.cli.backup.local import make_backup
from pinnace.cli.restore.local import make_restore
from pinnace.cli.settings import Settings
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import PODS
from tests.integration.roundtrip.runs import items
from tests.support.cluster.pods import run_pod


class Application:
    """Pods in a namespace of a cluster with a node, and a location for their backups.

    Attributes:
        copy: the namespace that they are restored into.
        backup, restored: status of the last backup and the last restore.
    """

    def __init__(self, client: KubeClient, namespace: str, plane: ControlPlane, location: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.copy = f"copy-{secrets.token_hex(4)}"
        self.backup: JSONObject = {}
        self.restored: JSONObject = {}
        self._location = location
        self._settings = Settings(
            namespace="velero",
            kubeconfig=str(plane.kubeconfig),
            kubecontext=None,
            location=str(location),
            features=frozenset(),
            colour=False,
            ca_cert="",
        )

    async def run_pod(self, pod: JSONObject, **annotations: str) -> JSONObject:
        """Create a pod with these annotations; return it once it is ready."""
        pod["metadata"]["annotations"] = annotations
        return await run_pod(self.client, self.namespace, pod)

    async def back_up(self, **spec: Any) -> str:
        """Back up the namespace; return the log."""
        wanted = {"includedNamespaces": [self.namespace], "includedResources": ["pods", "configmaps"], **spec}
        metadata = {"name": "b", "namespace": "velero"}
        await make_backup(self._settings, decode(Backup, {"metadata": metadata, "spec": wanted}))
        folder = self._location / "backups/b"
        self.backup = json.loads((folder / "velero-backup.json").read_bytes())["status"]
        return gzip.decompress((folder / "b-logs.gz").read_bytes()).decode()

    def saved_pods(self) -> list[str]:
        """The names of the pods in the backup."""
        return sorted(name for kind, _, name in items(self._location, "b") if kind == "pods")

    async def restore(self, **spec: Any) -> str:
        """Restore into `copy`; return the log."""
        wanted = {"backupName": "b", "namespaceMapping": {self.namespace: self.copy}, **spec}
        metadata = {"name": "r", "namespace": "velero"}
        restore = decode(Restore, {"metadata": metadata, "spec": wanted})
        await make_restore(self._settings, restore, allow_partially_failed=False)
        folder = self._location / "restores/r"
        self.restored = json.loads((folder / "velero-restore.json").read_bytes())["status"]
        return gzip.decompress((folder / "restore-r-logs.gz").read_bytes()).decode()

    def results(self) -> JSONObject:
        """The content of the restore's results file."""
        data = gzip.decompress((self._location / "restores/r/restore-r-results.gz").read_bytes())
        results: JSONObject = json.loads(data)
        return results

    async def compare(self, *pods: str) -> None:
        """Assert that the restored namespace has exactly these pods, and that each equals its original."""
        found = {pod["metadata"]["name"]: pod for pod in await self.client.list_all(PODS, self.copy)}
        assert sorted(found) == sorted(pods)
        for name in pods:
            before = await self.client.get(PODS, name, self.namespace)
            assert _essence(found[name]) == _essence(before)


def _essence(pod: JSONObject) -> JSONObject:
    """The part of a pod that the user wrote."""
    containers = [
        {key: container.get(key) for key in ("name", "image", "command", "envFrom")}
        for container in pod["spec"]["containers"]
    ]
    return {"annotations": pod["metadata"].get("annotations"), "containers": containers}
