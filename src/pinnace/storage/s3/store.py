"""Objects in S3 and its compatibles. (docs/spec: STO 14.1)

Nothing is asked of the network before the first call.
"""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

import aiohttp

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.clouds.aws.finding import find_credentials
from pinnace.clouds.aws.signing import quote_key, signed_url_v4
from pinnace.storage.http_store import HTTPStore
from pinnace.storage.interface import check_prefix
from pinnace.storage.s3.config import S3Config
from pinnace.storage.s3.requests import (
    PARTITION_URLS,
    BucketRequests,
    find_bucket_region,
)
from pinnace.storage.s3.signing_v1 import signed_url_v1
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.requests import RequestPolicy, tls_context

_DEFAULT_REGION = "us-east-1"


class S3Store(HTTPStore):
    """An ObjectStore in a bucket of S3 or of a store that is compatible with it."""

    def __init__(
        self,
        config: S3Config,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RequestPolicy | None = None,
        region_urls: tuple[str, ...] = PARTITION_URLS,
        clock: Clock = SYSTEM_CLOCK,
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
        self._region_urls = region_urls
        self._clock = clock
        self._credentials = find_credentials(
            environ,
            profile=config.profile,
            credentials_file=config.credentials_file,
            region=config.region,
            shared_config=config.shared_config,
        )
        super().__init__(
            tls=tls_context(config.ca_cert, insecure=config.insecure_skip_tls_verify),
            policy=policy or RequestPolicy(),
            addresses=addresses,
        )

    async def abort_uploads(
        self, prefix: str, *, since: datetime | None = None, before: datetime | None = None
    ) -> int:
        """See UploadsStore.abort_uploads."""
        check_prefix(prefix)
        requests = await self._bucket()
        aborted = 0
        # The list first: a page that follows an abort may begin at an upload that is gone.
        for found in [each async for each in requests.uploads(prefix)]:
            is_in_time = (since is None or (found.begun is not None and found.begun >= since)) and (
                before is None or (found.begun is not None and found.begun < before)
            )
            if is_in_time:
                await requests.abort_upload(found.key, found.upload_id)
                aborted += 1
        return aborted

    async def _bucket(self) -> BucketRequests:
        requests = await self._requests()
        assert isinstance(requests, BucketRequests), "they are made by _connect()"
        return requests

    async def _connect(self, session: aiohttp.ClientSession) -> BucketRequests:
        region = await self._find_region(session)
        service_url = self._config.service_url(region)
        public_url = self._config.bucket_url(self._config.public_url or service_url)
        return BucketRequests(
            session=session,
            bucket=self._config.bucket,
            url=self._config.bucket_url(service_url),
            region=region,
            credentials=self._credentials.get,
            policy=self._policy,
            clock=self._clock,
            object_headers=self._object_headers(),
            sign=partial(self._signed_url, public_url, region),
        )

    async def _signed_url(self, public_url: str, region: str, key: str, ttl: timedelta) -> str:
        """A URL of the public endpoint if one is configured."""
        url, credentials = f"{public_url}/{quote_key(key)}", await self._credentials.get()
        if self._config.signature_version == 1:
            return signed_url_v1(url, credentials=credentials, ttl=ttl)
        return signed_url_v4(url, region=region, credentials=credentials, now=self._clock.now(), ttl=ttl)

    async def _find_region(self, session: aiohttp.ClientSession) -> str:
        if self._config.region or self._config.endpoint:
            return self._config.region or _DEFAULT_REGION
        return await find_bucket_region(
            self._config.bucket, session, policy=self._policy, service_urls=self._region_urls
        )

    def _object_headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        if self._config.encryption:
            headers["x-amz-server-side-encryption"] = self._config.encryption
        if self._config.kms_key_id:
            headers["x-amz-server-side-encryption-aws-kms-key-id"] = self._config.kms_key_id
        if self._config.tagging:
            headers["x-amz-tagging"] = self._config.tagging
        return headers
