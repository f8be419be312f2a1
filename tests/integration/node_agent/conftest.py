"""A server in the test's process, and agents as processes in the nodes: like pods, but started sooner.

An agent is the first process of a process namespace, as in a container: whatever ends it ends its restic too.
"""

import base64
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.cluster import binaries
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.images import add_busybox, add_program, image_from_tree
from hack.cluster.nodes.python_image import add_distribution, add_python, python_config
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import DEPLOYMENTS, NAMESPACES, SECRETS
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from tests.support.cluster.crds import ensure_crds
from tests.support.cluster.csi_cluster import FOLDERS, CSICluster, CSIDriver, csi_cluster, locate_before
from tests.support.servers.sites import Site, running
from tests.support.volumes.node_stages import IMAGE, PASSWORD, Stage


def pytest_collection_finish(session: pytest.Session) -> None:
    """Building the parts of CSI outlasts any test's timeout."""
    locate_before(session)


@pytest.fixture
def csi_driver() -> CSIDriver:
    """The behaviour of the driver; a test may give another as its parameter."""
    return FOLDERS


@pytest.fixture
async def csi_storage(
    node_cluster: NodeCluster, node_client: KubeClient, tmp_path: Path, csi_driver: CSIDriver
) -> AsyncIterator[CSICluster]:
    """A CSI driver on the node."""
    async with csi_cluster(node_cluster, node_client, tmp_path / "csi-logs", csi_driver) as found:
        yield found


@pytest.fixture(scope="session")
def agent_image(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of the checkout with restic and kopia, on all nodes."""
    folder = tmp_path_factory.mktemp("image")
    tree = folder / "tree"
    add_busybox(tree)
    add_python(tree)
    add_distribution(tree, "pinnace")
    restic = shutil.which("restic")
    if restic is None:
        pytest.skip("restic is not installed (Debian: apt-get install restic)")
    add_program(tree, Path(restic))
    shutil.copy(binaries.locate(binaries.UPLOADER)["kopia"], tree / "usr" / "bin")
    (tree / "velero-restic-restore-helper").symlink_to("usr/local/bin/pinnace")
    config = python_config("/usr/local/bin/pinnace", user="65534:65534")
    archive = image_from_tree(tree, folder / "image.tar", {IMAGE: config})
    shutil.rmtree(tree)
    node_cluster.load(archive)
    return IMAGE


@pytest.fixture
def uploader() -> str:
    """The program that saves volumes; a test may give another as its parameter."""
    return "restic"


@pytest.fixture
async def stage(quiet_stage: Stage, uploader: str) -> AsyncIterator[Stage]:
    """A running server with a location, and a namespace for an application; no agent."""
    async with running(quiet_stage.client, quiet_stage.site.namespace, quiet_stage.folder, uploader=uploader):
        await quiet_stage.site.reached("backupstoragelocations", "default", "Available")
        yield quiet_stage


@pytest.fixture
async def quiet_stage(
    node_cluster: NodeCluster,
    node_client: KubeClient,
    node_namespace: str,
    agent_image: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Stage]:
    """The same without a running server."""
    monkeypatch.setenv("PATH", f"{binaries.locate(binaries.UPLOADER)['kopia'].parent}:{os.environ['PATH']}")
    await ensure_crds(node_client)
    server = f"{node_namespace}-server"
    async with AsyncExitStack() as stack:
        await node_client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": server}}
        )
        stack.push_async_callback(node_client.delete, NAMESPACES, server)
        site = Site(node_client, server, tmp_path)
        made = Stage(node_cluster, site, node_namespace, tmp_path)
        await _add_password(site)
        await _add_deployment(site, agent_image)
        await site.add_folder(default=True)
        yield made
        for namespace in made.namespaces:
            await node_client.delete(NAMESPACES, namespace)


async def _add_password(site: Site) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET_NAME, "namespace": site.namespace},
        "data": {SECRET_KEY: base64.b64encode(PASSWORD).decode()},
    }
    await site.client.create(SECRETS, secret, site.namespace)


async def _add_deployment(site: Site, image: str) -> None:
    """The server runs in the test, but this says what its image is."""
    marks = {"deploy": "velero"}
    template = {
        "metadata": {"labels": marks},
        "spec": {"containers": [{"name": "velero", "image": image}]},
    }
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "velero"},
        "spec": {"replicas": 0, "selector": {"matchLabels": marks}, "template": template},
    }
    await site.client.create(DEPLOYMENTS, body, site.namespace)
