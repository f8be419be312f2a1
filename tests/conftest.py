"""What all tests share: real servers, clients for them, and guards around each test.

Servers start when the first test asks for one and live as long as the test process; each process of a
parallel run has its own, so tests that look at a whole cluster do not see each other. docs/development.md
shows how to use each fixture.
"""

import contextlib
import gc
import inspect
import os
import secrets
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from hack.cluster import binaries
from hack.cluster.control_plane import ControlPlane
from hack.cluster.errors import ClusterError
from hack.cluster.nodes import requirements as node_requirements
from hack.cluster.nodes.cluster import NodeCluster
from hack.cluster.nodes.network import TEST_NETWORK
from hack.cluster.stores.s3 import Bucket, S3Server
from tests.support.clock import FakeClock
from tests.support.cluster.connect import Connect
from tests.support.dealing import in_order, share_of, shares_nodes
from tests.support.tasks import cancel, leftover_tasks

if TYPE_CHECKING:
    # Loaded by the fixtures that need it: most tests are of pure code, and quicker without.
    from hack.cluster.proxy import FaultProxy
    from hack.cluster.stores.azure_blob import AzureBlobServer
    from hack.cluster.stores.gcs import GCSServer
    from pinnace.kube.client import KubeClient

    Server = ControlPlane | S3Server | GCSServer | AzureBlobServer

NODE_FIXTURES = frozenset(("node_cluster",))
CLUSTER_FIXTURES = frozenset(("control_plane", "second_cluster")) | NODE_FIXTURES
STORE_FIXTURES = frozenset(("s3", "s3_tls", "gcs", "gcs_tls", "azure", "azure_tls"))

# Nothing of the developer's own may be found by accident: no test may reach a real cluster or cloud.
for _variable in ("AWS_EC2_METADATA_DISABLED", "AZURE_IMDS_DISABLED", "NO_GCE_CHECK"):
    os.environ[_variable] = "true"
for _variable in (
    "KUBECONFIG",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AZURE_CREDENTIALS_FILE",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "CLOUDSDK_CONFIG",
):
    os.environ[_variable] = os.devnull
for _variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
    os.environ.pop(_variable, None)
for _variable in ("KUBERNETES_SERVICE_HOST", "PINNACE_LOCATION", "VELERO_NAMESPACE"):
    os.environ.pop(_variable, None)

# Servers that pods reach listen there, where no proxy of this machine is on the way.
os.environ["NO_PROXY"] = ",".join(filter(None, (os.environ.get("NO_PROXY"), str(TEST_NETWORK))))

# With `nohup` or in the background of a script some signals are ignored, and the programs of the tests would
# inherit that. A handler is not inherited, and this process goes on paying no heed to them.
for _signal in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(_signal) is signal.SIG_IGN:
        signal.signal(_signal, lambda *_: None)

# A slow machine is no wrong answer. The everyday run stays quick; HYPOTHESIS_PROFILE=thorough looks harder.
settings.register_profile("quick", deadline=None, max_examples=25, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_configure(config: pytest.Config) -> None:
    """Let parallel runs take the files in the order of `in_order`, instead of those of most tests first."""
    gc.disable()  # until the tests are collected: nearly all that is made till then stays
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Let `--dist loadfile` keep files together that share a cluster with nodes."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    scheduler = LoadScopeScheduling(config, log)
    scheduler._split_scope = share_of
    return scheduler


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the cluster with nodes after the last of its tests: idle, it costs a tenth of a core."""
    if isinstance(item, pytest.Function) and shares_nodes(item) and nextitem and not shares_nodes(nextitem):
        for fixture in item.session._fixturemanager.getfixturedefs("node_cluster", item) or ():
            fixture.finish(item._request)  # type: ignore[arg-type]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the servers that their fixtures start, so that `-m "not cluster"` works."""
    items[:] = in_order(items)
    for item in items:
        names = set(getattr(item, "fixturenames", ()))
        if names & CLUSTER_FIXTURES:
            item.add_marker("cluster")
        if names & STORE_FIXTURES:
            item.add_marker("store")
        if names & NODE_FIXTURES:
            item.add_marker("node")
            if not shares_nodes(item):
                raise pytest.UsageError(
                    f"{item.nodeid} uses a node: name its file in tests/support/dealing.py"
                )


def pytest_collection_finish(session: pytest.Session) -> None:
    """Get the servers' programs before the first test starts, as building them outlasts any test's timeout.

    What cannot be had is reported by the tests that need it. Modules and tests stay to the end, and the
    garbage collector need not look through them again and again: a tenth of the unit tests' time.
    """
    gc.freeze()
    gc.enable()
    if session.config.option.collectonly:
        return
    markers = {marker.name for item in session.items for marker in item.iter_markers()}
    with contextlib.suppress(ClusterError):
        if "cluster" in markers:
            binaries.locate(binaries.CONTROL_PLANE)
        if "store" in markers:
            binaries.locate(binaries.S3_SERVER)
        if "node" in markers and node_requirements.why_impossible() is None:
            binaries.locate(binaries.NODE)


@pytest.fixture(autouse=True)
def _no_pending_tasks(request: pytest.FixtureRequest) -> None:
    """Fail an async test that leaves asyncio tasks running; sync tests are spared the event loop."""
    if inspect.iscoroutinefunction(getattr(request.node, "function", None)):
        request.getfixturevalue("_task_guard")


@pytest.fixture
async def _task_guard() -> AsyncIterator[None]:
    yield
    if leftovers := await leftover_tasks():
        await cancel(leftovers)
        pytest.fail(f"the test left tasks running: {', '.join(map(repr, leftovers))}", pytrace=False)


@pytest.fixture
def clock() -> FakeClock:
    """A clock that stands at 2021-08-11T21:43:26Z until the test advances it."""
    return FakeClock()


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running cluster. Shared by the process's tests: work in `namespace`, name global objects uniquely."""
    yield from _running_cluster(tmp_path_factory, "first")


@pytest.fixture(scope="module")
def second_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Another running cluster, to restore into. Ended with its module, as it is never quite idle."""
    yield from _running_cluster(tmp_path_factory, "second")


def _running_cluster(tmp_path_factory: pytest.TempPathFactory, name: str) -> Iterator[ControlPlane]:
    plane = ControlPlane(tmp_path_factory.mktemp(f"cluster-{name}"), name=name)
    plane.start()
    yield plane
    plane.remove()


@pytest.fixture(scope="session")
def node_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A running cluster with one node: pods run. Shared by the process's tests, as `control_plane` is.

    A machine on which nodes can never run skips the test; one that merely lacks a program fails it.
    """
    if reason := node_requirements.why_impossible():
        pytest.skip(reason)
    cluster = NodeCluster(tmp_path_factory.mktemp("cluster-nodes"), name="node")
    cluster.start()
    yield cluster
    cluster.remove()


@pytest.fixture
async def node_client(node_cluster: NodeCluster, connect: Connect) -> "KubeClient":
    """A client of the cluster with nodes."""
    return await connect(node_cluster.control_plane)


@pytest.fixture
async def node_namespace(node_client: "KubeClient") -> AsyncIterator[str]:
    """The name of a fresh namespace in the cluster with nodes; its deletion is begun after the test."""
    from pinnace.kube.errors import NotFound
    from pinnace.kube.resources import NAMESPACES, SERVICE_ACCOUNTS
    from tests.support.waiting import eventually

    name = await _make_namespace(node_client)
    try:

        async def takes_pods() -> bool:
            try:
                await node_client.get(SERVICE_ACCOUNTS, "default", name)
            except NotFound:
                return False
            return True

        await eventually(takes_pods)
        yield name
    finally:
        await node_client.delete(NAMESPACES, name)


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """A function that connects a client to a cluster, directly or through a fault proxy, as administrator."""
    from pinnace.kube.client import KubeClient
    from pinnace.kube.config import load_config

    async with AsyncExitStack() as stack:

        async def connect_to(cluster: ControlPlane, *, via: "FaultProxy | None" = None) -> KubeClient:
            kubeconfig = cluster.kubeconfig
            if via is not None:
                path = tmp_path / f"kubeconfig-{secrets.token_hex(4)}"
                kubeconfig = cluster.write_kubeconfig(path, server=via.url)
            return await stack.enter_async_context(KubeClient(load_config(str(kubeconfig))))

        yield connect_to


@pytest.fixture
async def client(control_plane: ControlPlane, connect: Connect) -> "KubeClient":
    """A client of the first cluster."""
    return await connect(control_plane)


@pytest.fixture
async def second_client(second_cluster: ControlPlane, connect: Connect) -> "KubeClient":
    """A client of the second cluster."""
    return await connect(second_cluster)


@pytest.fixture
async def namespace(control_plane: ControlPlane, client: "KubeClient") -> AsyncIterator[str]:
    """The name of a fresh namespace in the first cluster; it is gone when the test is over."""
    from tests.support.cluster.namespaces import erase_namespace

    name = await _make_namespace(client)
    yield name
    await erase_namespace(control_plane, client, name)


async def _make_namespace(client: "KubeClient") -> str:
    from pinnace.kube.resources import NAMESPACES

    name = f"test-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


@pytest.fixture
async def velero_crds(client: "KubeClient") -> None:
    """Our custom resources are served by the first cluster; they stay there for the tests to come."""
    from tests.support.cluster.crds import ensure_crds

    await ensure_crds(client)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server, by http."""
    yield from _running_store(tmp_path_factory, tls=False)


@pytest.fixture(scope="session")
def s3_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """A running S3 server, by https with a certificate authority that nobody knows (`s3_tls.ca_file`)."""
    yield from _running_store(tmp_path_factory, tls=True)


def _running_store(tmp_path_factory: pytest.TempPathFactory, *, tls: bool) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"), tls=tls)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def bucket(s3: S3Server) -> Bucket:
    """A fresh, empty bucket of `s3`."""
    return s3.create_bucket(f"test-{secrets.token_hex(4)}")


@pytest.fixture
async def fault_proxy() -> AsyncIterator[Callable[["Server"], Awaitable["FaultProxy"]]]:
    """A function that starts a fault-injecting proxy before a cluster or an object store's server."""
    from hack.cluster.proxy import FaultProxy, Upstream

    async with AsyncExitStack() as stack:

        async def start(server: "Server") -> FaultProxy:
            if isinstance(server, ControlPlane):
                upstream = Upstream.of_api_server(server)
            else:
                upstream = Upstream.of_s3(server)
            return await stack.enter_async_context(FaultProxy(upstream))

        yield start
