"""Fixtures for the real deployment: the image, a bucket that pods reach, an application.

Servers and agents run as pods here, and everything is driven through the command line.
"""

import contextlib
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from deploy.image import build
from deploy.image.root_filesystem import BuildError
from hack.cluster import binaries
from hack.cluster.errors import ClusterError
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from tests.e2e.deployment.application import Application
from tests.e2e.deployment.deployed import Deployed
from tests.e2e.without_server.command import Pinnace
from tests.support.cluster.csi_cluster import CSICluster, csi_cluster, locate_before
from tests.support.cluster.deployments import TAGS
from tests.support.waiting import eventually

"""The same image under two names, to move from one to the other."""


HERE = Path(__file__).parent


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build what tests need before the first one starts, as that can outlast any test's timeout.

    What cannot be had is reported by the tests that need it.
    """
    if session.config.option.collectonly:
        return
    locate_before(session)
    ours = [item for item in session.items if HERE in item.path.parents]
    fixtures = {name for item in ours for name in getattr(item, "fixturenames", ())}
    with contextlib.suppress(ClusterError, BuildError):
        if "helm" in fixtures:
            binaries.locate(binaries.CHART_TOOLS)
        if "image" in fixtures and node_requirements.why_impossible() is None:
            build.cached(TAGS)


@pytest.fixture(scope="session")
def image(node_cluster: NodeCluster) -> tuple[str, ...]:
    """The image of the checkout, on every node, under its names."""
    try:
        node_cluster.load(build.cached(TAGS))
    except BuildError as error:
        if "this needs Debian" in str(error):
            pytest.skip(f"the image cannot be built here: {error}")
        raise
    return TAGS


@pytest.fixture(scope="session")
def reachable_s3(node_cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that pods reach, and this machine too."""
    server = S3Server(tmp_path_factory.mktemp("reachable-s3"), address=node_cluster.network.gateway)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def reachable_bucket(reachable_s3: S3Server) -> Bucket:
    """A fresh bucket of it."""
    return reachable_s3.create_bucket(f"test-{secrets.token_hex(4)}")


@pytest.fixture
async def bare_cluster(node_client: KubeClient) -> None:
    """No definitions of ours are in the cluster: what another test left would be taken for installed."""

    async def ours() -> list[str]:
        found = await node_client.list_all(CUSTOM_RESOURCE_DEFINITIONS)
        return [crd["metadata"]["name"] for crd in found if crd["spec"]["group"] == "velero.io"]

    async def gone() -> bool:
        return not await ours()

    for name in await ours():
        await node_client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)
    await eventually(gone)


@pytest.fixture
async def deployed(
    node_cluster: NodeCluster,
    node_client: KubeClient,
    bare_cluster: None,
    image: tuple[str, ...],
    reachable_bucket: Bucket,
    tmp_path: Path,
) -> AsyncIterator[Deployed]:
    """A cluster and a bucket, and the command to install on them; what is left is removed in the end."""
    namespace = f"velero-{secrets.token_hex(4)}"
    command = Pinnace(
        tmp_path,
        kubeconfig=node_cluster.control_plane.kubeconfig,
        location=None,
        secrets=(reachable_bucket.server.credentials.secret_access_key,),
        environ={"VELERO_NAMESPACE": namespace},
    )
    yield Deployed(command, node_client, namespace, reachable_bucket)
    await command("uninstall", "--force", "--wait")


@pytest.fixture
async def csi_storage(
    node_cluster: NodeCluster, node_client: KubeClient, tmp_path: Path
) -> AsyncIterator[CSICluster]:
    """A CSI driver on the node."""
    async with csi_cluster(node_cluster, node_client, tmp_path / "csi-logs") as found:
        yield found


@pytest.fixture
async def application(node_cluster: NodeCluster, node_client: KubeClient) -> AsyncIterator[Application]:
    """An application with two volumes that runs in a namespace of its own."""
    application = Application(node_cluster, node_client, f"shop-{secrets.token_hex(4)}")
    await application.deploy()
    yield application
    with contextlib.suppress(NotFound):
        await node_client.delete(NAMESPACES, application.namespace)
    await application.remove_disks()
