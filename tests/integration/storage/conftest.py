"""Stores in buckets of the real S3 server, of a GCS server and of an Azure Blob server."""

import secrets
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from hack.cluster.stores import azure_blob
from hack.cluster.stores.azure_blob import AzureBlobServer
from hack.cluster.stores.gcs import GCSServer
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.storage.azure.config import parse_azure_config
from pinnace.storage.azure.store import AzureStore
from pinnace.storage.gcs.config import parse_gcs_config
from pinnace.storage.gcs.store import GCSStore
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store
from pinnace.store_access.requests import RequestPolicy
from tests.support.stores.opened import OpenStore

QUICK = RequestPolicy(attempts=3, base_seconds=0.01, request_seconds=20.0)
"""For a store that does not answer: the default would take half a minute."""


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """A function that opens a bucket; further keywords are configuration keys. Closed after the test."""
    async with AsyncExitStack() as stack:

        def opened(bucket: Bucket, policy: RequestPolicy = QUICK, **config: str) -> S3Store:
            settings = {
                **bucket.location_config,
                "bucket": bucket.name,
                "credentialsFile": str(bucket.server.credentials_file),
                **config,
            }
            store = S3Store(parse_s3_config(settings), environ={}, policy=policy)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
def tls_bucket(s3_tls: S3Server) -> Bucket:
    """A fresh, empty bucket of the server with https."""
    return s3_tls.create_bucket(f"test-{secrets.token_hex(4)}")


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GCSServer]:
    """A running GCS server, by http. Skipped where there is no Go to build it with."""
    yield from _running_gcs(tmp_path_factory, tls=False)


@pytest.fixture(scope="session")
def gcs_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GCSServer]:
    """A running GCS server, by https with a certificate authority that clients do not know."""
    yield from _running_gcs(tmp_path_factory, tls=True)


def _running_gcs(tmp_path_factory: pytest.TempPathFactory, *, tls: bool) -> Iterator[GCSServer]:
    if shutil.which("go") is None:
        pytest.skip("fake-gcs-server is built with Go, which is not in PATH")
    with GCSServer(tmp_path_factory.mktemp("gcs"), tls=tls) as server:
        yield server


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureBlobServer]:
    """A running Azure Blob server, by http. Skipped where there is no Node.js."""
    yield from _running_azure(tmp_path_factory, tls=False)


@pytest.fixture(scope="session")
def azure_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureBlobServer]:
    """A running Azure Blob server, by https with a certificate authority that clients do not know."""
    yield from _running_azure(tmp_path_factory, tls=True)


def _running_azure(tmp_path_factory: pytest.TempPathFactory, *, tls: bool) -> Iterator[AzureBlobServer]:
    if reason := azure_blob.why_impossible():
        pytest.skip(reason)
    with AzureBlobServer(tmp_path_factory.mktemp("azure"), tls=tls) as server:
        yield server


@pytest.fixture
async def open_gcs() -> AsyncIterator[Callable[..., GCSStore]]:
    """A function that opens a bucket of a server; further keywords are configuration keys."""
    async with AsyncExitStack() as stack:

        def opened(server: GCSServer, bucket: str, policy: RequestPolicy = QUICK, **config: str) -> GCSStore:
            settings = {
                "bucket": bucket,
                "storeEndpoint": server.url,
                "credentialsFile": str(server.credentials_file),
                **config,
            }
            store = GCSStore(parse_gcs_config(settings), environ={}, policy=policy)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
async def open_azure(tmp_path: Path) -> AsyncIterator[Callable[..., AzureStore]]:
    """A function that opens a container of a server; further keywords are configuration keys."""
    async with AsyncExitStack() as stack:

        def opened(
            server: AzureBlobServer, container: str, policy: RequestPolicy = QUICK, **config: str
        ) -> AzureStore:
            credentials = tmp_path / "azure-credentials"
            credentials.write_text(f"AZURE_STORAGE_ACCOUNT_ACCESS_KEY={server.key}\n")
            settings = {
                "bucket": container,
                "storageAccount": azure_blob.ACCOUNT,
                "storageAccountURI": server.account_url,
                "storageAccountKeyEnvVar": "AZURE_STORAGE_ACCOUNT_ACCESS_KEY",
                "credentialsFile": str(credentials),
                **config,
            }
            store = AzureStore(parse_azure_config(settings), environ={}, policy=policy)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
def gcs_bucket(gcs: GCSServer) -> str:
    """The name of a fresh, empty bucket of `gcs`."""
    name = f"test-{secrets.token_hex(4)}"
    gcs.create_bucket(name)
    return name


@pytest.fixture
def azure_container(azure: AzureBlobServer) -> str:
    """The name of a fresh, empty container of `azure`."""
    name = f"test-{secrets.token_hex(4)}"
    azure.create_container(name)
    return name
