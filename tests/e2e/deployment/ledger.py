"""An application that writes all the time: it keeps two books on two disks, which must be equal.

Hooks make it pause, as one freezes a file system. It also has files of every kind on three kinds of volumes.
"""

import hashlib
import os
import stat
import struct
from pathlib import Path

from hack.cluster.nodes.cluster import NodeCluster
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES, PERSISTENT_VOLUME_CLAIMS, PODS
from tests.e2e.deployment.application import Application
from tests.support.cluster.csi_cluster import CLASS
from tests.support.cluster.pods import busybox_pod, exec_in_pod

VOLUMES = ("cache", "debit", "credit")
"""An emptyDir, a disk of the node, a volume of a CSI driver; each is mounted at its name."""

WRITE = """
trap exit TERM
cp /debit/book /tmp/debit; cp /credit/book /tmp/credit   # as they were found
number=0
while :; do
    if [ -e /tmp/freeze ]; then
        touch /tmp/frozen
    else
        rm -f /tmp/frozen; number=$((number + 1)); echo $number > /debit/book; echo $number > /credit/book
    fi
    sleep 0.02
done
"""
FREEZE = "touch /tmp/freeze; while [ ! -e /tmp/frozen ]; do sleep 0.05; done; echo all writers are still"
THAW = "rm /tmp/freeze"

FILL = """
cd /{volume}
umask 027
mkdir -p deep/er empty
head -c 3000000 /dev/urandom > deep/large
dd if=/dev/zero of=sparse bs=1 count=1 seek=2000000 2>/dev/null
echo private > private; chmod 600 private; chown 1234:5678 private
echo sticky > deep/er/program; chmod 4755 deep/er/program
: > deep/nothing; echo spaced > 'name with blanks'
ln -s deep/large link; ln -s /nowhere dangling; ln private twin; mkfifo pipe; mknod null c 1 3
echo marked > marked; touch -d '2001-02-03 04:05:06' marked
"""
ATTRIBUTES = {
    "user.origin": b"somewhere",
    # cap_net_bind_service, in effect when run
    "security.capability": struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0),
}


class Ledger(Application):
    """One pod with hooks, in a namespace of its own."""

    def __init__(self, cluster: NodeCluster, client: KubeClient, namespace: str) -> None:
        super().__init__(cluster, client, namespace)
        self._pods = cluster.nodes[0].kubelet_root / "pods"

    async def deploy(self) -> None:
        """Make everything, and write some files."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        await self.client.create(NAMESPACES, namespace)
        await self.add_disk()
        for name, storage_class in (("debit", self.namespace), ("credit", CLASS)):
            await self.client.create(PERSISTENT_VOLUME_CLAIMS, _claim(name, storage_class), self.namespace)
        await self.create_pod(_pod())
        pod = await self.ready()
        for volume in VOLUMES:
            await self.run("sh", "-c", FILL.format(volume=volume))
        for root in self._volumes(await self.client.get(PODS, pod, self.namespace)):
            for name, value in ATTRIBUTES.items():
                os.setxattr(root / "marked", name, value)

    async def run(self, *command: str) -> str:
        """A command in its pod."""
        return await exec_in_pod(self.client, self.namespace, await self.ready(), *command)

    async def entries(self) -> int:
        """The current number in the books."""
        # While a number is written, the book is empty for a moment.
        return int(await self.run("cat", "/debit/book") or 0)

    async def found(self) -> tuple[str, str]:
        """Both books as the pod found them when it began."""
        return await self.run("cat", "/tmp/debit"), await self.run("cat", "/tmp/credit")

    async def picture(self) -> dict[str, object]:
        """All attributes of the files of all volumes, without the books and the marks of a restore."""
        pod = await self.client.get(PODS, await self.ready(), self.namespace)
        made: dict[str, object] = {}
        for volume, root in zip(VOLUMES, self._volumes(pod), strict=True):
            for path in sorted(root.rglob("*")):
                name = path.relative_to(root)
                if name.parts[0] not in (".velero", "book"):
                    made[f"{volume}/{name}"] = _look(path)
        return made

    def _volumes(self, pod: JSONObject) -> list[Path]:
        """Where they are on the node, in the order of `VOLUMES`."""
        here = self._pods / pod["metadata"]["uid"] / "volumes"
        patterns = ("*empty-dir/cache", "*local-volume/*", "*csi/*/mount")
        return [next(iter(here.glob(pattern))) for pattern in patterns]


def _look(path: Path) -> tuple[object, ...]:
    found = path.lstat()
    said: tuple[object, ...] = (stat.filemode(found.st_mode), found.st_uid, found.st_gid)
    if stat.S_ISLNK(found.st_mode):
        return (*said, path.readlink())
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    if stat.S_ISREG(found.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        return (*said, attributes, found.st_nlink, found.st_size, found.st_mtime_ns, content)
    return (*said, attributes, found.st_rdev)


def _pod() -> JSONObject:
    volumes: list[JSONObject] = [{"name": "cache", "emptyDir": {}}]
    volumes += [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("debit", "credit")]
    pod = busybox_pod("ledger", WRITE, mounts={name: f"/{name}" for name in VOLUMES}, volumes=volumes)
    pod["metadata"]["labels"] = {"app": "shop"}
    pod["metadata"]["annotations"] = {
        "backup.velero.io/backup-volumes": ",".join(VOLUMES),
        "pre.hook.backup.velero.io/command": f'["/bin/sh", "-c", "{FREEZE}"]',
        "pre.hook.backup.velero.io/timeout": "30s",
        "post.hook.backup.velero.io/command": f'["/bin/sh", "-c", "{THAW}"]',
    }
    return pod


def _claim(name: str, storage_class: str) -> JSONObject:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "100Mi"}},
        "storageClassName": storage_class,
    }
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
