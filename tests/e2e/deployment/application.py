"""An application with data: a Deployment with a claim on a disk of the node and an emptyDir."""

import shutil
from contextlib import suppress

from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.images import BUSYBOX
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Forbidden, NotFound
from pinnace.kube.resources import (
    DEPLOYMENTS,
    NAMESPACES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
)
from tests.support.cluster.namespaces import delete_namespace
from tests.support.cluster.pods import FOREVER, exec_in_pod, wait_ready
from tests.support.waiting import eventually

WRITE = """
umask 027
dd if=/dev/urandom of=/data/orders.db bs=1024 count=1024 2>/dev/null
mkdir -p /data/by-day/monday /cache/pages
echo 17 > /data/by-day/monday/count
ln -s orders.db /data/current
echo secret > /data/private; chmod 600 /data/private; chown 1234:5678 /data/private
echo page > /cache/pages/start
"""
LOOK = """
cd / && find data cache -path '*/.velero' -prune -o -exec stat -c '%n %F %a %u:%g' {} + | sort
find data cache -path '*/.velero' -prune -o -type f -exec sha256sum {} + | sort -k 2; readlink data/current
"""
"""Names, kinds, modes, owners, contents; without the file that marks a restore as done."""


class Application:
    """One pod of a Deployment in a namespace of its own."""

    def __init__(self, cluster: NodeCluster, client: KubeClient, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self._node = cluster.nodes[0]
        self._disks: list[str] = []

    async def deploy(self) -> None:
        """Make everything, and write some files."""
        await self.client.create(NAMESPACES, _named("Namespace", self.namespace))
        await self.add_disk()
        claim = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": self.namespace,
        }
        body = {**_named("PersistentVolumeClaim", "data"), "spec": claim}
        await self.client.create(PERSISTENT_VOLUME_CLAIMS, body, self.namespace)
        body = {**_named("Deployment", "shop"), "apiVersion": "apps/v1", "spec": _deployment()}
        await self.client.create(DEPLOYMENTS, body, self.namespace)
        await exec_in_pod(self.client, self.namespace, await self.ready(), "sh", "-c", WRITE)

    async def create_pod(self, pod: JSONObject) -> None:
        """A namespace takes pods as soon as it has its default service account."""

        async def created() -> bool:
            try:
                await self.client.create(PODS, pod, self.namespace)
            except Forbidden:
                return False
            return True

        await eventually(created)

    async def ready(self) -> str:
        """The name of its pod, once that is ready."""
        names: list[str] = []

        async def there() -> bool:
            found = await self.client.list_all(PODS, self.namespace, label_selector="app=shop")
            names[:] = [pod["metadata"]["name"] for pod in found]
            return bool(names)

        await eventually(there)
        await wait_ready(self.client, self.namespace, names[0])
        return names[0]

    async def content(self) -> str:
        """What is in its volumes."""
        return await exec_in_pod(self.client, self.namespace, await self.ready(), "sh", "-c", LOOK)

    async def lose(self) -> None:
        """Delete its namespace and its disk, and put an empty disk in place, as a provisioner would."""
        await delete_namespace(self.client, self.namespace)
        await self.remove_disks()
        await self.add_disk()

    async def lose_all_but_the_namespace(self, owner: KubeClient) -> None:
        """Delete all that a user of the namespace can delete, and put another empty disk in place."""
        await owner.delete(DEPLOYMENTS, "shop", self.namespace)
        await owner.delete(PERSISTENT_VOLUME_CLAIMS, "data", self.namespace)

        async def gone() -> bool:
            left = await owner.list_all(PODS, self.namespace)
            return not left and not await owner.list_all(PERSISTENT_VOLUME_CLAIMS, self.namespace)

        await eventually(gone)
        await self.remove_disks()
        await self.add_disk()

    async def add_disk(self, *, storage_class: str = "") -> None:
        """An empty local volume on the node, for any claim of its class."""
        name = f"{self.namespace}-{len(self._disks)}"
        (self._node.directory / "lib" / name).mkdir()
        self._disks.append(name)
        on_node = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self._node.name]}
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/var/lib/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [on_node]}]}},
            "storageClassName": storage_class or self.namespace,
        }
        await self.client.create(PERSISTENT_VOLUMES, {**_named("PersistentVolume", name), "spec": spec})

    async def remove_disks(self) -> None:
        """Delete the volumes with all that is on them."""
        for name in self._disks:
            with suppress(NotFound):
                await self.client.delete(PERSISTENT_VOLUMES, name)
            shutil.rmtree(self._node.directory / "lib" / name, ignore_errors=True)


def _deployment() -> JSONObject:
    container = {
        "name": "main",
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sh", "-c", FOREVER],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in ("data", "cache")],
    }
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "cache", "emptyDir": {}},
    ]
    metadata = {
        "labels": {"app": "shop"},
        "annotations": {"backup.velero.io/backup-volumes": "data,cache"},
    }
    pod = {
        "containers": [container],
        "volumes": volumes,
        "terminationGracePeriodSeconds": 2,
        "dnsPolicy": "Default",
    }
    return {
        "selector": {"matchLabels": {"app": "shop"}},
        "template": {"metadata": metadata, "spec": pod},
    }


def _named(kind: str, name: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}
