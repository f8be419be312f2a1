"""One application for each module, clients with short deadlines, and stores that give up early."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from msgspec.structs import replace

from hack.cluster.control_plane import ControlPlane
from hack.cluster.pki import KeyPair
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.transport.retrying import ThrottledRetryPolicy
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.filesystem.store import FilesystemStore
from pinnace.storage.layout import Layout
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from pinnace.store_access.requests import RequestPolicy
from tests.integration.faults.world import Lab, install_application, install_crowd
from tests.support.clock import HurriedClock
from tests.support.cluster.namespaces import erase_namespace
from tests.support.faulty_parts import QUICK_STORE, OpenBucket, Reach

QUICK_CLUSTER = ThrottledRetryPolicy(
    attempts=4, throttled_attempts=4, base_seconds=0.01, cap_seconds=0.05, patience_seconds=20.0
)
CALL_SECONDS = 2.0
"""The deadline of one request in these tests. A healthy one needs milliseconds, on a busy machine more."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def application(control_plane: ControlPlane) -> AsyncIterator[str]:
    """The namespace of the application that this module's tests back up; they leave it as it is."""
    async with KubeClient(load_config(str(control_plane.kubeconfig))) as client:
        namespace = await install_application(client)
        yield namespace
        await erase_namespace(control_plane, client, namespace)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def crowd(control_plane: ControlPlane, request: pytest.FixtureRequest) -> AsyncIterator[str]:
    """A namespace with as many ConfigMaps as the module's CROWD says; its tests leave it as it is."""
    async with KubeClient(load_config(str(control_plane.kubeconfig))) as client:
        namespace = await install_crowd(client, request.module.CROWD)
        yield namespace
        await erase_namespace(control_plane, client, namespace)


@pytest.fixture
async def lab(client: KubeClient, application: str, tmp_path: Path) -> AsyncIterator[Lab]:
    """Runs backups and restores of the application."""
    workdir = tmp_path / "work"
    workdir.mkdir()
    lab = Lab(client=client, namespace=application, workdir=workdir)
    yield lab
    await lab.clean_up()


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[BackupStore]:
    """A location in a directory, which has no faults."""
    async with BackupStore(FilesystemStore(tmp_path / "store"), Layout(""), location="default") as store:
        yield store


@pytest.fixture
async def stored(lab: Lab, store: BackupStore, tmp_path: Path) -> BackupStore:
    """The location with a good backup b1 of the application; only the first test of a module makes it."""
    await lab.place_backup(store, tmp_path / "store")
    return store


@pytest.fixture
async def reach(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Reach]:
    """A function that connects through a proxy, or as another user, with short deadlines and few retries."""
    async with AsyncExitStack() as stack:

        async def connect(
            via: FaultProxy | None = None,
            *,
            user: KeyPair | None = None,
            kind: type[KubeClient] = KubeClient,
            patience_seconds: float = QUICK_CLUSTER.patience_seconds,
            call_seconds: float = CALL_SECONDS,
        ) -> KubeClient:
            server = control_plane.url if via is None else via.url
            path = control_plane.write_kubeconfig(tmp_path / "kubeconfig", server=server, client=user)
            retry = replace(QUICK_CLUSTER, patience_seconds=patience_seconds)
            client = kind(load_config(str(path)), timeout_seconds=call_seconds, retry=retry)
            return await stack.enter_async_context(client)

        yield connect


@pytest.fixture
async def open_bucket() -> AsyncIterator[OpenBucket]:
    """A function that opens a bucket as a location; `via` names a proxy before it. Closed after the test."""
    async with AsyncExitStack() as stack:

        def opened(
            bucket: Bucket, *, via: FaultProxy | None = None, policy: RequestPolicy = QUICK_STORE
        ) -> BackupStore:
            settings = {
                **bucket.location_config,
                "bucket": bucket.name,
                "credentialsFile": str(bucket.server.credentials_file),
            }
            if via is not None:
                settings["s3Url"] = via.url
            objects = S3Store(parse_s3_config(settings), environ={}, policy=policy)
            store = BackupStore(objects, Layout(""), location="default", clock=HurriedClock())
            stack.push_async_callback(store.close)
            return store

        yield opened
