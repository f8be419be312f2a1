"""The applications of the tests: a claim on a volume of a CSI driver, and one on a folder as volume."""

import gzip
import json
import tarfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES
from tests.integration.snapshots.bench import Bench
from tests.support.cluster.snapshot_controller import ScriptedSnapshots
from tests.support.waiting import eventually

GROUP = "snapshot.storage.k8s.io"
FILE = "notes.txt"


class CSIApp:
    """A claim on a CSI volume, and what its snapshots need. Global names begin with the namespace."""

    def __init__(self, bench: Bench, kinds: SnapshotKinds) -> None:
        self.bench = bench
        self.client = bench.client
        self.kinds = kinds
        self.namespace = bench.namespace
        self.driver = f"{bench.namespace}.example.io"
        self.storage = ScriptedSnapshots(bench.client, kinds, bench.namespace)

    def named(self, name: str) -> str:
        return f"{self.namespace}-{name}"

    async def create(self) -> None:
        storage_class = {
            "metadata": {"name": self.named("sc")},
            "provisioner": self.driver,
            "volumeBindingMode": "WaitForFirstConsumer",  # nothing provisions here
        }
        api = {"apiVersion": STORAGE_CLASSES.api_version, "kind": STORAGE_CLASSES.kind}
        await self.client.create(STORAGE_CLASSES, {**api, **storage_class})
        await self.add_class("vsc", {labels.CSI_SNAPSHOT_CLASS: "true"})
        await self.add_claim("data")

    async def add_class(self, name: str, marks: dict[str, str], **members: Any) -> None:
        metadata = {"name": self.named(name), "labels": marks, **members.pop("metadata", {})}
        api = {"apiVersion": self.kinds.classes.api_version, "kind": self.kinds.classes.kind}
        rest = {"driver": self.driver, "deletionPolicy": "Retain", **members}
        await self.client.create(self.kinds.classes, {**api, "metadata": metadata, **rest})

    async def add_claim(self, name: str, *, policy: str = "Retain", source: JSONObject | None = None) -> None:
        """A bound claim."""
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": self.named(name)},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": policy,
                "storageClassName": self.named("sc"),
                "claimRef": {"namespace": self.namespace, "name": name},
                **(source or {"csi": {"driver": self.driver, "volumeHandle": f"vol-{name}"}}),
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": self.named("sc"),
                "volumeName": self.named(name),
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await self.client.create(PERSISTENT_VOLUMES, volume)
        await self.client.create(PERSISTENT_VOLUME_CLAIMS, claim, self.namespace)

        async def bound() -> bool:
            return bool((await self.claim(name))["status"].get("phase") == "Bound")

        await eventually(bound)

    async def claim(self, name: str = "data", namespace: str = "") -> JSONObject:
        return await self.client.get(PERSISTENT_VOLUME_CLAIMS, name, namespace or self.namespace)

    async def snapshots(self, namespace: str = "") -> list[JSONObject]:
        return await self.client.list_all(self.kinds.snapshots, namespace or self.namespace)

    async def contents(self, namespace: str = "") -> list[JSONObject]:
        """The CSI objects of the namespace's snapshot."""
        return [
            content
            for content in await self.client.list_all(self.kinds.contents)
            if content["spec"]["volumeSnapshotRef"].get("namespace") == (namespace or self.namespace)
        ]

    async def add_snapshot(self, marks: dict[str, str]) -> None:
        """A snapshot of the claim, which the driver makes."""
        body = {
            "apiVersion": self.kinds.snapshots.api_version,
            "kind": self.kinds.snapshots.kind,
            "metadata": {"name": "left", "namespace": self.namespace, "labels": marks},
            "spec": {
                "source": {"persistentVolumeClaimName": "data"},
                "volumeSnapshotClassName": self.named("vsc"),
            },
        }
        await self.client.create(self.kinds.snapshots, body, self.namespace)
        await eventually(self._is_stored)

    async def _is_stored(self) -> bool:
        return bool(self.storage.storage)

    async def lose(self) -> None:
        """Delete claim, volume, and snapshots; the storage keeps the policy's promise."""
        await self.client.delete(PERSISTENT_VOLUME_CLAIMS, "data", self.namespace)
        await self.client.delete(PERSISTENT_VOLUMES, self.named("data"))
        for snapshot in await self.snapshots():
            await self.client.delete(self.kinds.snapshots, snapshot["metadata"]["name"], self.namespace)
        await eventually(self._is_lost)

    async def _is_lost(self) -> bool:
        try:
            await self.claim()
        except NotFound:
            return True
        return False

    async def remove(self) -> None:
        """The cluster-scoped objects."""
        for resource in (PERSISTENT_VOLUMES, STORAGE_CLASSES, self.kinds.classes):
            for obj in await self.client.list_all(resource):
                if obj["metadata"]["name"].startswith(f"{self.namespace}-"):
                    await self.client.delete(resource, obj["metadata"]["name"])
        for content in await self.contents():
            name, free = content["metadata"]["name"], {"metadata": {"finalizers": None}}
            await self.client.patch(self.kinds.contents, name, free)
            with suppress(NotFound):  # it was being deleted
                await self.client.delete(self.kinds.contents, name)

    def of(self, **spec: Any) -> JSONObject:
        return {
            "includedNamespaces": [self.namespace],
            "includedResources": [
                *("pvc", "pv", f"volumesnapshots.{GROUP}"),
                *(f"volumesnapshotcontents.{GROUP}", f"volumesnapshotclasses.{GROUP}"),
            ],
            **spec,
        }

    async def stored(self, path: str) -> JSONObject:
        """An item in the tarball of backup b1."""
        with tarfile.open(self.bench.folder / "bucket/backups/b1/b1.tar.gz") as tar:
            member = tar.extractfile(f"resources/{path}.json")
            assert member is not None
            found: JSONObject = json.loads(member.read())
            return found

    def file(self, name: str) -> list[JSONObject]:
        """A list that is stored beside the tarball of backup b1."""
        path = self.bench.folder / f"bucket/backups/b1/b1-{name}.json.gz"
        return json.loads(gzip.decompress(path.read_bytes())) or []


class FolderApp:
    """A claim on a volume that is a folder of this machine."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self.bench = bench
        self.volume = folder / "disk"
        self.volume_name = f"pv-{bench.namespace}"

    async def create(self) -> None:
        self.volume.mkdir()
        (self.volume / FILE).write_text("as it was")
        client, namespace = self.bench.client, self.bench.namespace
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": self.volume_name,
                "labels": {"app": namespace, "topology.kubernetes.io/zone": "z1"},
            },
            "spec": {
                "capacity": {"storage": "1Mi"},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "claimRef": {"namespace": namespace, "name": "data"},
                "hostPath": {"path": str(self.volume)},
            },
        }
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": namespace, "labels": {"app": namespace}},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "",
                "volumeName": self.volume_name,
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
        await client.create(PERSISTENT_VOLUMES, volume)
        await client.create(PERSISTENT_VOLUME_CLAIMS, claim, namespace)
        await eventually(lambda: self.is_bound(namespace))

    async def is_bound(self, namespace: str) -> bool:
        claim = await self.bench.client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        return bool((claim.get("status") or {}).get("phase") == "Bound")

    async def lose(self) -> None:
        """Delete claim and volume, and spoil the data."""
        client, namespace = self.bench.client, self.bench.namespace
        await client.delete(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        await client.delete(PERSISTENT_VOLUMES, self.volume_name)
        (self.volume / FILE).write_text("overwritten")

        async def gone() -> bool:
            try:
                await client.get(PERSISTENT_VOLUMES, self.volume_name)
            except NotFound:
                return True
            return False

        await eventually(gone)

    async def volume_of(self, namespace: str) -> JSONObject:
        """The persistent volume that the claim has, once it is bound."""
        await eventually(lambda: self.is_bound(namespace))
        client = self.bench.client
        claim = await client.get(PERSISTENT_VOLUME_CLAIMS, "data", namespace)
        return await client.get(PERSISTENT_VOLUMES, claim["spec"]["volumeName"])
