"""A node in memory: its pods, their volumes below a folder, PodVolumeBackups and PodVolumeRestores, and a
restic that does what tests say."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.controllers.node import pod_volume_backup, pod_volume_restore
from pinnace.controllers.node.pod_volume_backup import PodVolumeBackupWork
from pinnace.controllers.node.pod_volume_restore import PodVolumeRestoreWork
from pinnace.controllers.node.scope import AgentName, NodeScope
from pinnace.controllers.node.volumes import NodeVolumes
from pinnace.runtime.cache import ObjectCache
from pinnace.runtime.informer import Informer
from pinnace.volumes.uploader.access import Repository
from pinnace.volumes.uploader.interface import Saved, Source, Target, are_of_one_volume
from pinnace.volumes.uploader.output import ByteCounts
from pinnace.volumes.uploader.progress import OnProgress
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.unit.controllers.fakes import NAMESPACE, RecordingMetrics, key

NODE = "node-1"
AGENT = AgentName("node-agent-now", "2")
SNAPSHOT = "2fa3b4c5"
RESTORE_UID = "uid-restore"


class FakeRestic:
    """Notes what it is asked to do.

    Attributes:
        sizes: what it was told of the sizes of restores.
        files: at the root of every snapshot.
        errors: what the next calls raise, one each.
        until: if there is one, calls wait for it.
        repositories, sources, targets: of the calls, in order.
        new_bytes, lacks: what a call of save tells.
        forgotten: ids of snapshots, or the tags by which they were named.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, Path, str]] = []
        self.snapshot = SNAPSHOT
        self.files: set[str] = set()
        self.sizes: list[int] = []
        self.errors: list[Exception] = []
        self.until: asyncio.Event | None = None
        self.repositories: list[Repository] = []
        self.sources: list[Source] = []
        self.targets: list[Target] = []
        self.new_bytes = -1
        self.lacks = ""
        self.forgotten: list[str | dict[str, str]] = []
        self.working = asyncio.Event()

    async def save(
        self, repository: Repository, source: Source, *, on_progress: OnProgress | None = None
    ) -> Saved:
        self.repositories.append(repository)
        self.sources.append(source)
        await self._work("backup", source.path, source.parent, on_progress)
        return Saved(snapshot=self.snapshot, new_bytes=self.new_bytes, lacks=self.lacks)

    async def fill(
        self,
        repository: Repository,
        snapshot: str,
        target: Target,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        self.repositories.append(repository)
        self.targets.append(target)
        self.sizes.append(target.size_bytes)
        await self._work("restore", target.path / target.only, snapshot, on_progress)

    async def forget(self, repository: Repository, snapshot: str) -> None:
        self.forgotten.append(snapshot)

    async def forget_tagged(self, repository: Repository, tags: Mapping[str, str]) -> None:
        if are_of_one_volume(tags):
            self.forgotten.append(dict(tags))

    async def snapshot_ids(self, repository: Repository) -> frozenset[str]:
        return frozenset()

    async def has_file(self, repository: Repository, snapshot: str, name: str) -> bool:
        self.calls.append(("has", Path(name), snapshot))
        return name in self.files

    async def _work(self, what: str, directory: Path, snapshot: str, on_progress: OnProgress | None) -> None:
        self.calls.append((what, directory, snapshot))
        if on_progress is not None:
            await on_progress(ByteCounts(total_bytes=10, bytes_done=4))
        self.working.set()
        if self.until is not None:
            await self.until.wait()
        if self.errors:
            raise self.errors.pop(0)


class NodeWorld:
    """One node with its agent's controllers; what the caches hold is told by `see`.

    Attributes:
        mounted: the directories that are mounts.
    """

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.cluster = ScriptedCluster(self.clock)
        self.metrics = RecordingMetrics()
        self.restic = FakeRestic()
        self.pods_directory = folder / "pods"
        self.pods_directory.mkdir()
        self.mounted: set[Path] = set()
        self.scope = NodeScope(
            client=self.cluster.client,
            namespace=NAMESPACE,
            node=NODE,
            pods_directory=self.pods_directory,
            metrics=self.metrics,
            clock=self.clock,
            agent=AGENT,
            is_mount_point=lambda path: path in self.mounted,
        )
        self.seen_backups = ObjectCache(pod_volume_backup.indexes())
        self.seen_restores = ObjectCache(pod_volume_restore.indexes())
        self.seen_pods = ObjectCache()
        volumes = NodeVolumes(self.scope)
        self.backups = PodVolumeBackupWork(
            self.scope, volumes, self.restic, cast("Informer", self.seen_backups)
        )
        self.restores = PodVolumeRestoreWork(
            self.scope,
            volumes,
            self.restic,
            restores=cast("Informer", self.seen_restores),
            pods=cast("Informer", self.seen_pods),
            backups=cast("Informer", self.seen_backups),
        )
        self.backup_reconciler = pod_volume_backup.new_reconciler(self.scope, self.backups)
        self.restore_reconciler = pod_volume_restore.new_reconciler(self.scope, self.restores)

    def add_pod(self, name: str = "p", *volumes: JSONObject, here: bool = True, **members: Any) -> JSONObject:
        """A pod of the namespace `shop`, on this node or another, with directories for its volumes."""
        obj = self.cluster.add("pods", name, "shop", **members)
        obj["metadata"] |= members.get("metadata", {})
        obj["spec"] = {"volumes": list(volumes or [{"name": "data", "emptyDir": {}}])} | members.get(
            "spec", {}
        )
        if here:
            self.seen_pods.put(obj)
        return obj

    def volume(self, pod: str = "p", directory: str = "kubernetes.io~empty-dir/data") -> Path:
        """The directory of a volume, made, and mounted as the kubelet does it."""
        path = self.pods_directory / f"uid-{pod}" / "volumes" / directory
        path.mkdir(parents=True, exist_ok=True)
        if "kubernetes.io~empty-dir" not in directory:
            self.mounted.add(path)
        return path

    def add_backup(
        self, name: str = "pvb", *, node: str = NODE, claim: str = "", **status: Any
    ) -> JSONObject:
        """A PodVolumeBackup of the volume `data` of pod `p`."""
        spec = {
            "node": node,
            "pod": pod_reference("p"),
            "volume": "data",
            "backupStorageLocation": "default",
            "repoIdentifier": "s3:x/restic/shop",
            "tags": {"backup": "b1"},
        }
        volume_labels = {labels.PVC_UID: claim} if claim else {}
        self.cluster.add(
            "podvolumebackups", name, labels=volume_labels, spec=spec, status={"progress": {}, **status}
        )
        stored = self.cluster.stored("podvolumebackups", name)
        self.seen_backups.put(stored)
        return stored

    def add_restore(
        self, name: str = "pvr", *, pod: str = "p", volume: str = "data", **status: Any
    ) -> JSONObject:
        """A PodVolumeRestore."""
        spec = {
            "pod": pod_reference(pod),
            "volume": volume,
            "backupStorageLocation": "default",
            "repoIdentifier": "s3:x/restic/shop",
            "snapshotID": SNAPSHOT,
        }
        volume_labels = {labels.POD_UID: f"uid-{pod}"}
        self.cluster.add(
            "podvolumerestores", name, labels=volume_labels, spec=spec, status={"progress": {}, **status}
        )
        stored = self.cluster.stored("podvolumerestores", name)
        owner = {"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r1", "uid": RESTORE_UID}
        stored["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        self.seen_restores.put(stored)
        return stored

    async def save(self, name: str = "pvb") -> JSONObject:
        """Let the agent look at a PodVolumeBackup; its status then."""
        await self.backup_reconciler.reconcile(key(name))
        return self.cluster.status("podvolumebackups", name)

    async def fill(self, name: str = "pvr") -> JSONObject:
        """Let the agent look at a PodVolumeRestore; its status then."""
        await self.restore_reconciler.reconcile(key(name))
        return self.cluster.status("podvolumerestores", name)


def pod_reference(name: str) -> JSONObject:
    return {"kind": "Pod", "namespace": "shop", "name": name, "uid": f"uid-{name}"}


def waiting(*names: str, running: str = "restic-wait", statuses: int | None = None) -> JSONObject:
    """Spec and status of a pod with init containers, of which one runs."""
    shown = [
        {"name": name, "state": {"running": {}} if name == running else {"waiting": {}}} for name in names
    ]
    return {
        "spec": {"initContainers": [{"name": name} for name in names]},
        "status": {"initContainerStatuses": shown[:statuses]},
    }
