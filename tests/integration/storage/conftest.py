"""Stores in buckets of the real S3 server."""

import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from hack.cluster.s3 import Bucket, S3Server
from pinnace.storage.s3 import S3Store
from pinnace.storage.s3_config import parse_s3_config
from pinnace.storage.s3_http import RetryPolicy

QUICK = RetryPolicy(attempts=3, delay_seconds=0.01, request_seconds=20.0)

OpenStore = Callable[..., S3Store]


@pytest.fixture
async def open_store() -> AsyncIterator[OpenStore]:
    """A function that opens a bucket; further keywords are configuration keys. Closed after the test."""
    async with AsyncExitStack() as stack:

        def opened(bucket: Bucket, **config: str) -> S3Store:
            settings = {
                **bucket.location_config,
                "bucket": bucket.name,
                "credentialsFile": str(bucket.server.credentials_file),
                **config,
            }
            store = S3Store(parse_s3_config(settings), environ={}, policy=QUICK)
            stack.push_async_callback(store.close)
            return store

        yield opened


@pytest.fixture
def tls_bucket(s3_tls: S3Server) -> Bucket:
    """A fresh, empty bucket of the server with https."""
    return s3_tls.create_bucket(f"test-{secrets.token_hex(4)}")
