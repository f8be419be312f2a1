"""CSI on a test's node: a driver of folders, its provisioner, and the real sidecars and snapshot controller.

The provisioner is made of the library that external-provisioner is made of: it deletes what is Released with
the policy Delete, and refuses what all provisioners refuse. The kubelet mounts volumes through the driver.
Snapshots are taken by the project's own controllers for CSI.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
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
from pinnace.kube.resources import STORAGE_CLASSES, APIResource
from tests.support.cluster.snapshot_crds import ensure_snapshot_crds
from tests.support.waiting import eventually

CSI_DRIVERS = APIResource(
    group="storage.k8s.io", version="v1", name="csidrivers", kind="CSIDriver", namespaced=False
)
CSI_NODES = APIResource(
    group="storage.k8s.io", version="v1", name="csinodes", kind="CSINode", namespaced=False
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CSIDriver:
    """How a driver of a test behaves.

    Attributes:
        name: also the name of the storage class, which makes volumes at once, and of the snapshot class.
        attach: volumes are attached to a node before they are mounted there, as disks are.
        hide_sizes: the size of snapshots is not reported, which CSI allows.
        on_each_node: each node has a driver and a csi-snapshotter with `--node-deployment`. Volumes are made
            on the first node only, as there is one provisioner.
    """

    name: str = "folders"
    attach: bool = False
    hide_sizes: bool = False
    on_each_node: bool = False

    @property
    def driver(self) -> str:
        """The name of the CSIDriver."""
        return f"{self.name}.example.io"

    @property
    def late_class(self) -> str:
        """The storage class with WaitForFirstConsumer."""
        return f"{self.name}-late"

    @property
    def directory(self) -> str:
        """Where the node has volumes and snapshots."""
        return f"/var/lib/csi-{self.name}"

    @property
    def socket(self) -> str:
        """The socket of the driver, in the node's mounts."""
        return f"/var/lib/kubelet/plugins/{self.name}/csi.sock"


FOLDERS = CSIDriver()
DISKS = CSIDriver(name="disks", attach=True)
SILENT = CSIDriver(name="silent", hide_sizes=True)
SPREAD = CSIDriver(name="spread", attach=True, on_each_node=True)
CLASS, DRIVER = FOLDERS.name, FOLDERS.driver


class CSICluster:
    """The parts as they run on one node."""

    def __init__(self, client: KubeClient, node: Node, kinds: SnapshotKinds, driver: CSIDriver) -> None:
        self.client = client
        self.kinds = kinds
        self.driver = driver
        self._directory = node.root / driver.directory.lstrip("/")
        self._former = frozenset(self._listed("snapshots"))

    async def contents(self, *namespaces: str) -> list[JSONObject]:
        """The contents of snapshots of these namespaces. Other tests may have left some for ever."""
        listed = await self.client.list_all(self.kinds.contents)
        return [each for each in listed if each["spec"]["volumeSnapshotRef"].get("namespace") in namespaces]

    def snapshots(self) -> list[str]:
        """The snapshots that were taken since the parts run. Other tests may have left some for ever."""
        return [name for name in self._listed("snapshots") if name not in self._former]

    def volumes(self) -> list[str]:
        """The volumes that the storage has, by their handles."""
        return self._listed("volumes")

    def disks(self) -> list[str]:
        """The volumes in Block mode."""
        return [name for name in self.volumes() if (self._directory / "volumes" / name / "disk").exists()]

    def _listed(self, what: str) -> list[str]:
        folder = self._directory / what
        return sorted(os.listdir(folder)) if folder.exists() else []


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
async def csi_cluster(
    cluster: NodeCluster, client: KubeClient, logs: Path, driver: CSIDriver = FOLDERS
) -> AsyncIterator[CSICluster]:
    """Everything that CSI volumes with snapshots need, as long as the context lasts."""
    programs, node = binaries.locate(binaries.CSI_TOOLS), cluster.nodes[0]
    nodes = cluster.nodes if driver.on_each_node else [node]
    found = CSICluster(client, node, await ensure_snapshot_crds(client), driver)
    await _create_classes(client, found.kinds, driver)
    kubeconfig = f"--kubeconfig={cluster.control_plane.kubeconfig}"
    sidecar = [f"--csi-address={driver.socket}", kubeconfig]
    of_node = ["--node-deployment"] if driver.on_each_node else []
    of_cluster = ["--enable-distributed-snapshotting"] if driver.on_each_node else []
    argvs = {
        "csi-folder-provisioner": [*_inside(node), programs["csi-folder-provisioner"], *sidecar],
        "snapshot-controller": [programs["snapshot-controller"], kubeconfig, *of_cluster],
    }
    if driver.attach:
        argvs["csi-attacher"] = [*_inside(node), programs["csi-attacher"], *sidecar]
    for each in nodes:
        argvs |= {
            f"csi-folder-driver-{each.name}": [
                *_inside(each),
                programs["csi-folder-driver"],
                *_arguments(driver, each),
            ],
            f"csi-snapshotter-{each.name}": [
                *("/usr/bin/env", f"NODE_NAME={each.name}", *_inside(each)),
                *(programs["csi-snapshotter"], *sidecar, *of_node),
            ],
        }
    async with contextlib.AsyncExitStack() as stack:
        # Comes last. As long as the kubelet knows this driver, nobody can see whether it knows the next one.
        for each in nodes:
            stack.push_async_callback(eventually, partial(_is_forgotten, client, each.name, driver))
        stack.callback(lambda: _detach(found.disks()))
        for name, argv in argvs.items():
            process = ManagedProcess(name, [str(part) for part in argv], log=logs / f"{name}.log")
            stack.callback(process.stop)
        for each in nodes:
            await eventually(partial(_is_registered, client, each.name, driver))
        yield found


def _inside(node: Node) -> list[str]:
    """Into the node's mounts, where the sockets and the kubelet are; the network is this machine's."""
    return [shutil.which("nsenter") or "nsenter", f"--target={node.pid}", "--mount", "--"]


def _arguments(driver: CSIDriver, node: Node) -> list[str]:
    return [
        f"-name={driver.driver}",
        f"-node={node.name}",
        f"-directory={driver.directory}",
        f"-socket={driver.socket}",
        f"-registration=/var/lib/kubelet/plugins_registry/{driver.name}-reg.sock",
        *(["-attach"] if driver.attach else []),
        *(["-hide-sizes"] if driver.hide_sizes else []),
    ]


async def _is_registered(client: KubeClient, node: str, driver: CSIDriver) -> bool:
    try:
        found = await client.get(CSI_NODES, node)
    except NotFound:
        return False
    return any(each["name"] == driver.driver for each in found["spec"].get("drivers") or [])


async def _is_forgotten(client: KubeClient, node: str, driver: CSIDriver) -> bool:
    return not await _is_registered(client, node, driver)


async def _create_classes(client: KubeClient, kinds: SnapshotKinds, driver: CSIDriver) -> None:
    def storage_class(name: str, binding: str) -> JSONObject:
        return {"metadata": {"name": name}, "provisioner": driver.driver, "volumeBindingMode": binding}

    for resource, body in (
        (CSI_DRIVERS, {"metadata": {"name": driver.driver}, "spec": {"attachRequired": driver.attach}}),
        (STORAGE_CLASSES, storage_class(driver.name, "Immediate")),
        (STORAGE_CLASSES, storage_class(driver.late_class, "WaitForFirstConsumer")),
        (
            kinds.classes,
            {
                "metadata": {"name": driver.name, "labels": {labels.CSI_SNAPSHOT_CLASS: ""}},
                "driver": driver.driver,
                "deletionPolicy": "Delete",
            },
        ),
    ):
        with contextlib.suppress(AlreadyExists):  # another test of this process was here
            await client.create(resource, {"apiVersion": resource.api_version, "kind": resource.kind, **body})
