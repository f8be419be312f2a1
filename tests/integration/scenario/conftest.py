"""Servers that can be killed between two writes, and bucket and cluster that they share."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from hack.cluster.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.layout import Layout
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from tests.integration.controllers.conftest import Site
from tests.support.nursery import Nursery, Order, kill
from tests.support.waiting import eventually
from tests.support.write_gate import WriteGate

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]


class Lives:
    """Servers of one namespace, one after the other. The gate that each finds is open."""

    def __init__(self, nursery: Nursery, order: Order, proxies: tuple[FaultProxy, ...]) -> None:
        self._nursery = nursery
        self._order = order
        self._proxies = proxies
        self._pid: int | None = None

    def pass_by(self, gate: WriteGate) -> None:
        """From now on, let the server's requests through this gate."""
        for proxy in self._proxies:
            proxy.rules = gate

    def begin(self) -> None:
        """Start a server; it works at once on whatever there is."""
        assert self._pid is None
        self._pid = self._nursery.start(self._order)

    async def end(self) -> None:
        """Kill the server, and wait until its requests have left the proxies."""
        if self._pid is None:
            return
        kill(self._pid)
        self._pid = None

        async def quiet() -> bool:
            return not any(proxy.busy for proxy in self._proxies)

        await eventually(quiet)
        for proxy in self._proxies:
            proxy.exchanges.clear()
        self.pass_by(WriteGate())

    @property
    def log(self) -> str:
        """What all servers said."""
        return Path(self._order.log).read_text()


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery() as started:
        yield started


@pytest.fixture
async def site(client: KubeClient, namespace: str, velero_crds: None, tmp_path: Path) -> Site:
    """The test's namespace, with three config maps and no location."""
    made = Site(client, namespace, tmp_path)
    await made.add_maps()
    return made


@pytest.fixture
async def target(client: KubeClient) -> AsyncIterator[str]:
    """A namespace to restore into."""
    name = f"target-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await client.delete(NAMESPACES, name)


@pytest.fixture
async def lives(
    site: Site,
    control_plane: ControlPlane,
    bucket: Bucket,
    fault_proxy: StartProxy,
    nursery: Nursery,
    tmp_path: Path,
) -> AsyncIterator[Lives]:
    """Servers of the site, whose location `default` is the bucket; none runs yet."""
    cluster, store = await fault_proxy(control_plane), await fault_proxy(bucket.server)
    config = {**bucket.location_config, "s3Url": store.url}
    await site.add_bucket(bucket, config=config, backupSyncPeriod="1ms")
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url)
    (tmp_path / "scratch").mkdir()
    order = Order(
        kubeconfig=str(kubeconfig),
        namespace=site.namespace,
        scratch=str(tmp_path / "scratch"),
        log=str(tmp_path / "servers.log"),
    )
    made = Lives(nursery, order, (cluster, store))
    yield made
    await made.end()
    assert "Traceback" not in made.log


@pytest.fixture
async def stored(bucket: Bucket) -> AsyncIterator[BackupStore]:
    """The location as it is, past all gates."""
    async with BackupStore(objects_of(bucket), Layout("site/"), location="default") as store:
        yield store


def objects_of(bucket: Bucket) -> S3Store:
    """The bucket's objects, past all gates; the caller closes it."""
    settings = {
        **bucket.location_config,
        "bucket": bucket.name,
        "credentialsFile": str(bucket.server.credentials_file),
    }
    return S3Store(parse_s3_config(settings), environ={})


async def keys_in(bucket: Bucket) -> list[str]:
    """All keys, in order."""
    objects = objects_of(bucket)
    try:
        return sorted(await objects.list_keys(""))
    finally:
        await objects.close()
