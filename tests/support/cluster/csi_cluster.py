"""CSI on a test's node: a driver of folders, the real snapshot controller and its sidecar, and a provisioner.

The provisioner is the test's own: it makes folders and persistent volumes for claims, from snapshots too. The
kubelet mounts them through the driver; snapshots are taken by the project's own controllers for CSI.
"""

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.node import Node
from hack.cluster.processes import ManagedProcess
from pinnace.api import labels
from pinnace.api.objects import JSONObject
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import (
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    APIResource,
)
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds
from tests.support.waiting import POLL_SECONDS, eventually

DRIVER = "folders.example.io"
CLASS = "folders"
BLOCK_BYTES = 1 << 20
"""The size of a volume in Block mode."""
DIRECTORY = "/var/lib/csi-folders"
SOCKET = f"/var/lib/kubelet/plugins/{CLASS}/csi.sock"
REGISTRATION = f"/var/lib/kubelet/plugins_registry/{CLASS}-reg.sock"
CSI_DRIVERS = APIResource(
    group="storage.k8s.io", version="v1", name="csidrivers", kind="CSIDriver", namespaced=False
)
CSI_NODES = APIResource(
    group="storage.k8s.io", version="v1", name="csinodes", kind="CSINode", namespaced=False
)


class CSICluster:
    """The parts as they run on one node.

    Attributes:
        disks: the names of the volumes in Block mode.
    """

    def __init__(self, client: KubeClient, node: Node, kinds: SnapshotKinds) -> None:
        self.client = client
        self.kinds = kinds
        self.disks: list[str] = []
        self._directory = node.root / DIRECTORY.lstrip("/")

    def snapshots(self) -> list[str]:
        """The snapshots that the storage has."""
        return sorted(os.listdir(self._directory / "snapshots"))

    async def provision(self) -> None:
        """Make volumes for claims of the class, for ever."""
        while True:
            for claim in await self.client.list_all(PERSISTENT_VOLUME_CLAIMS):
                spec, phase = claim["spec"], (claim.get("status") or {}).get("phase")
                # As the provisioners of drivers do: none makes a volume for a claim with a selector.
                is_open = "volumeName" not in spec and "selector" not in spec
                if spec.get("storageClassName") == CLASS and phase == "Pending" and is_open:
                    await self._provision(claim)
            await asyncio.sleep(POLL_SECONDS)

    async def _provision(self, claim: JSONObject) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        with contextlib.suppress(NotFound):
            await self.client.get(PERSISTENT_VOLUMES, name)
            return  # it exists already; the claim is being bound
        folder = self._directory / "volumes" / name
        if source := claim["spec"].get("dataSource"):
            handle = await self._ready_snapshot(source["name"], claim["metadata"]["namespace"])
            if handle is None:
                return
            await asyncio.to_thread(_copy, self._directory / "snapshots" / handle, folder)
        else:
            await asyncio.to_thread(folder.mkdir)
            if claim["spec"].get("volumeMode") == "Block":
                await asyncio.to_thread((folder / "disk").write_bytes, bytes(BLOCK_BYTES))
        if claim["spec"].get("volumeMode") == "Block":
            self.disks.append(name)
        await self.client.create(PERSISTENT_VOLUMES, _volume(name, claim))

    async def _ready_snapshot(self, name: str, namespace: str) -> str | None:
        snapshot = await self.client.get(self.kinds.snapshots, name, namespace)
        status = snapshot.get("status") or {}
        if not status.get("readyToUse"):
            return None
        content = await self.client.get(self.kinds.contents, status["boundVolumeSnapshotContentName"])
        handle: str = content["status"]["snapshotHandle"]
        return handle


def _copy(source: Path, target: Path) -> None:
    """Copy with links, modes and owners, as a snapshot of a disk has them."""
    subprocess.run(["cp", "-a", source, target], check=True)


def _detach(disks: list[str]) -> None:
    """Free the loop devices of volumes that pods had to the end, and those that the kubelet made of them."""
    if not disks:
        return
    listed = subprocess.run(
        ["losetup", "--list", "--json", "--output", "NAME,BACK-MAJ:MIN,BACK-INO,BACK-FILE"],
        check=True,
        capture_output=True,
    )
    loops = json.loads(listed.stdout or "{}").get("loopdevices", [])
    ours = [loop["name"] for loop in loops if any(disk in loop["back-file"] for disk in disks)]
    files = {_identity(name) for name in ours}
    held = [loop["name"] for loop in loops if (loop["back-maj:min"].strip(), loop["back-ino"]) in files]
    for name in (*held, *ours):
        # One that the driver frees at this moment is gone.
        subprocess.run(["losetup", "--detach", name], check=False, capture_output=True)


def _identity(path: str) -> tuple[str, int]:
    found = os.stat(path)
    return f"{os.major(found.st_dev)}:{os.minor(found.st_dev)}", found.st_ino


def _volume(name: str, claim: JSONObject) -> JSONObject:
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "storageClassName": CLASS,
            "volumeMode": spec.get("volumeMode", "Filesystem"),
            "persistentVolumeReclaimPolicy": "Delete",
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{key: metadata[key] for key in ("namespace", "name", "uid")},
            },
            "csi": {"driver": DRIVER, "volumeHandle": name},
        },
    }


def locate_before(session: pytest.Session) -> None:
    """Build the programs before the first test starts, if a test asks for the fixture `csi_storage`.

    What cannot be had is reported by the tests that need it.
    """
    if session.config.option.collectonly or node_requirements.why_impossible() is not None:
        return
    if any("csi_storage" in getattr(item, "fixturenames", ()) for item in session.items):
        with contextlib.suppress(ClusterError):
            binaries.locate(binaries.CSI_TOOLS)


@contextlib.asynccontextmanager
async def csi_cluster(cluster: NodeCluster, client: KubeClient, logs: Path) -> AsyncIterator[CSICluster]:
    """Everything that CSI volumes with snapshots need, as long as the context lasts."""
    programs, node = binaries.locate(binaries.CSI_TOOLS), cluster.nodes[0]
    found = CSICluster(client, node, await ensure_snapshot_crds(client))
    await _create_classes(client, found.kinds)
    kubeconfig = f"--kubeconfig={cluster.control_plane.kubeconfig}"
    # In the node's mounts, where the sockets and the kubelet are, but in this machine's network.
    inside = [shutil.which("nsenter") or "nsenter", f"--target={node.pid}", "--mount", "--"]
    driver = [DRIVER, node.name, DIRECTORY, SOCKET, REGISTRATION]
    argvs = {
        "csi-folder-driver": [*inside, programs["csi-folder-driver"], *driver],
        "csi-snapshotter": [*inside, programs["csi-snapshotter"], f"--csi-address={SOCKET}", kubeconfig],
        "snapshot-controller": [programs["snapshot-controller"], kubeconfig],
    }
    async with contextlib.AsyncExitStack() as stack:
        # Comes last. As long as the kubelet knows this driver, nobody can see whether it knows the next one.
        stack.push_async_callback(eventually, lambda: _is_forgotten(client, node.name))
        stack.callback(lambda: _detach(found.disks))
        for name, argv in argvs.items():
            process = ManagedProcess(name, [str(part) for part in argv], log=logs / f"{name}.log")
            stack.callback(process.stop)
        await eventually(lambda: _is_registered(client, node.name))
        async with asyncio.TaskGroup() as group:
            provisioner = group.create_task(found.provision())
            yield found
            provisioner.cancel()


async def _is_registered(client: KubeClient, node: str) -> bool:
    try:
        found = await client.get(CSI_NODES, node)
    except NotFound:
        return False
    return any(driver["name"] == DRIVER for driver in found["spec"].get("drivers") or [])


async def _is_forgotten(client: KubeClient, node: str) -> bool:
    return not await _is_registered(client, node)


async def _create_classes(client: KubeClient, kinds: SnapshotKinds) -> None:
    for resource, body in (
        (CSI_DRIVERS, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}}),
        (STORAGE_CLASSES, {"metadata": {"name": CLASS}, "provisioner": DRIVER}),
        (
            kinds.classes,
            {
                "metadata": {"name": CLASS, "labels": {labels.CSI_SNAPSHOT_CLASS: ""}},
                "driver": DRIVER,
                "deletionPolicy": "Delete",
            },
        ),
    ):
        with contextlib.suppress(AlreadyExists):  # another test of this process was here
            await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
