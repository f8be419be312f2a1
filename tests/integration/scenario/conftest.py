"""Servers that can be killed between two writes, and bucket and cluster that they share."""

import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import NAMESPACES
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.layout import Layout
from tests.support.cluster.namespaces import erase_namespace
from tests.support.servers.lives import Lives, objects_of
from tests.support.servers.nursery import Nursery, Order
from tests.support.servers.sites import Site

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]


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
async def target(control_plane: ControlPlane, client: KubeClient) -> AsyncIterator[str]:
    """A namespace to restore into."""
    name = f"target-{secrets.token_hex(4)}"
    await client.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await erase_namespace(control_plane, client, name)


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
