"""Objects in S3 and its compatibles. (docs/spec: STO 14.1)

Nothing is asked of the network before the first call.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

import aiohttp

from pinnace.aio.blocking import finish
from pinnace.api.values.times import utcnow
from pinnace.clouds.aws.finding import find_credentials
from pinnace.clouds.aws.signing import quote_key, signed_url_v4
from pinnace.http.addresses import Addresses
from pinnace.http.requests import RetryPolicy, new_session, tls_context
from pinnace.storage.downloads import Download
from pinnace.storage.errors import StorageError, StoreUnavailable
from pinnace.storage.interface import Body, check_key, check_prefix, check_range
from pinnace.storage.s3.config import S3Config
from pinnace.storage.s3.requests import PARTITION_URLS, BucketRequests, find_bucket_region
from pinnace.storage.s3.signing_v1 import signed_url_v1
from pinnace.storage.upload import upload

_DEFAULT_REGION = "us-east-1"
_FORGET_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """What can only be made once the region is known."""

    public_url: str
    requests: BucketRequests


class S3Store:
    """An ObjectStore in a bucket of S3 or of a store that is compatible with it."""

    def __init__(
        self,
        config: S3Config,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RetryPolicy | None = None,
        region_urls: tuple[str, ...] = PARTITION_URLS,
        clock: Callable[[], datetime] = utcnow,
        addresses: Addresses | None = None,
    ) -> None:
        """Args:
            config: the location's settings.
            environ: where credentials are looked for.
            policy: retries and deadlines.
            addresses: where connections may go; None is anywhere.
            region_urls: the URLs that tell the bucket's region, if neither it nor an endpoint is configured.

        Raises:
            StoreConfigError: there are no credentials, or the CA certificate cannot be read.
        """
        self._config = config
        self._policy = policy or RetryPolicy()
        self._region_urls = region_urls
        self._clock = clock
        self._addresses = addresses
        self._credentials = find_credentials(
            environ,
            profile=config.profile,
            credentials_file=config.credentials_file,
            region=config.region,
        )
        self._tls = tls_context(config.ca_cert, insecure=config.insecure_skip_tls_verify)
        self._region = config.region
        self._lock = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None
        self._opened: _Opened | None = None

    async def put(self, key: str, body: Body) -> None:
        """See ObjectStore.put."""
        check_key(key)
        opened = await self._open()
        try:
            await upload(opened.requests, key, body)
        except (StoreUnavailable, asyncio.CancelledError):
            # The request may have been carried out although its answer did not arrive.
            await self._forget(opened, key)
            raise

    async def _forget(self, opened: _Opened, key: str) -> None:
        try:
            await finish(opened.requests.delete(key), limit_seconds=_FORGET_SECONDS)
        except (StorageError, TimeoutError):
            return  # the store is still away; the failure that brought us here is what counts

    @asynccontextmanager
    async def get(self, key: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """See ObjectStore.get."""
        async with self._download(key, None) as blocks:
            yield blocks

    @asynccontextmanager
    async def get_range(self, key: str, offset: int, length: int) -> AsyncIterator[AsyncIterator[bytes]]:
        """See RangedStore.get_range."""
        check_range(offset, length)
        async with self._download(key, (offset, length)) as blocks:
            yield blocks

    @asynccontextmanager
    async def _download(self, key: str, span: tuple[int, int] | None) -> AsyncIterator[AsyncIterator[bytes]]:
        check_key(key)
        opened = await self._open()
        download = Download(opened.requests.session, opened.requests.source(key), self._policy, span=span)
        try:
            await download.open()
            async with aclosing(download.blocks()) as blocks:
                yield blocks
        finally:
            download.close()

    async def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        check_key(key)
        opened = await self._open()
        return await opened.requests.exists(key)

    async def size(self, key: str) -> int:
        """See ObjectStore.size."""
        check_key(key)
        opened = await self._open()
        return await opened.requests.size(key)

    async def list_prefixes(self, prefix: str) -> list[str]:
        """See ObjectStore.list_prefixes."""
        check_prefix(prefix)
        opened = await self._open()
        return sorted(
            {found async for page in opened.requests.pages(prefix, delimiter="/") for found in page.prefixes}
        )

    async def list_keys(self, prefix: str) -> list[str]:
        """See ObjectStore.list_keys. Markers of pseudo-directories (`b1/`) are keys as well."""
        check_prefix(prefix)
        opened = await self._open()
        return sorted(
            [key async for page in opened.requests.pages(prefix) for key in page.keys], reverse=True
        )

    async def delete(self, key: str) -> None:
        """See ObjectStore.delete."""
        opened = await self._open()
        await opened.requests.delete(key)

    async def signed_url(self, key: str, ttl: timedelta) -> str:
        """See ObjectStore.signed_url; names the public endpoint if one is configured."""
        check_key(key)
        opened = await self._open()
        url, credentials = f"{opened.public_url}/{quote_key(key)}", await opened.requests.credentials()
        if self._config.signature_version == 1:
            return signed_url_v1(url, credentials=credentials, ttl=ttl)
        return signed_url_v4(url, region=self._region, credentials=credentials, now=self._clock(), ttl=ttl)

    async def close(self) -> None:
        """See ObjectStore.close."""
        session, self._session, self._opened = self._session, None, None
        if session is not None:
            await session.close()

    async def _open(self) -> _Opened:
        """Find the region and make the clients, once."""
        async with self._lock:
            if self._opened is None:
                if self._session is None:
                    self._session = new_session(self._tls, addresses=self._addresses)
                self._region = await self._find_region(self._session)
                self._opened = self._connect(self._session)
            return self._opened

    async def _find_region(self, session: aiohttp.ClientSession) -> str:
        if self._region or self._config.endpoint:
            return self._region or _DEFAULT_REGION
        return await find_bucket_region(
            self._config.bucket, session, policy=self._policy, service_urls=self._region_urls
        )

    def _connect(self, session: aiohttp.ClientSession) -> _Opened:
        service_url = self._config.service_url(self._region)
        public_url = self._config.public_url or service_url
        return _Opened(
            public_url=self._config.bucket_url(public_url),
            requests=BucketRequests(
                session=session,
                bucket=self._config.bucket,
                url=self._config.bucket_url(service_url),
                region=self._region,
                credentials=self._credentials.get,
                policy=self._policy,
                clock=self._clock,
                object_headers=self._object_headers(),
            ),
        )

    def _object_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._config.encryption:
            headers["x-amz-server-side-encryption"] = self._config.encryption
        if self._config.kms_key_id:
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = self._config.kms_key_id
        return headers
