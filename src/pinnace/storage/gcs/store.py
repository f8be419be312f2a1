"""Objects in Google Cloud Storage. (docs/spec: STO 14.2)"""

import os
from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import aiohttp

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.clouds.gcp.credentials import (
    GoogleOrigin,
    ServiceAccount,
    fetch_google_token,
    find_google_origin,
)
from pinnace.clouds.tokens import CachedToken, Token, sign_sha256
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.gcs.config import GCSConfig
from pinnace.storage.gcs.requests import GCSRequests, sign_blob
from pinnace.storage.gcs.signing import signed_url_google
from pinnace.storage.http_store import HTTPStore
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.requests import RequestPolicy, tls_context

IAM_ENDPOINT = "https://iamcredentials.googleapis.com"


class GCSStore(HTTPStore):
    """An ObjectStore in a bucket of Google Cloud Storage."""

    def __init__(
        self,
        config: GCSConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RequestPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        iam_endpoint: str = IAM_ENDPOINT,
        addresses: Addresses | None = None,
    ) -> None:
        """Args:
            config: the location's settings.
            environ: where credentials are looked for.
            policy: retries and deadlines.
            iam_endpoint: the service that signs URLs for `serviceAccount`.
            addresses: where connections may go; None is anywhere.

        Raises:
            StoreConfigError: there are no credentials, no account to sign URLs with, or the CA certificate
                cannot be read.
        """
        self._config = config
        self._clock = clock
        self._iam_endpoint = iam_endpoint
        self._origin = find_google_origin(config.credentials_file, environ)
        if not isinstance(self._origin, ServiceAccount) and not config.service_account:
            raise StoreConfigError(
                "serviceAccount is expected to be provided as an item in BackupStorageLocation's config"
            )
        policy = policy or RequestPolicy()
        # Not a method: a reference to this store would be a cycle, which only the garbage collector frees.
        fetch = partial(_fetch, self._origin, environ, policy, clock, addresses)
        self._token = CachedToken(fetch, clock=clock)
        super().__init__(
            tls=tls_context(config.ca_cert, insecure=False),
            policy=policy,
            addresses=addresses,
        )

    async def _connect(self, session: aiohttp.ClientSession) -> GCSRequests:
        async def token() -> str:
            return (await self._token.get()).value

        async def sign(key: str, ttl: timedelta) -> str:
            return await self._signed_url(session, key, ttl)

        return GCSRequests(
            session=session,
            bucket=self._config.bucket,
            endpoint=self._config.endpoint,
            token=token,
            policy=self._policy,
            kms_key_name=self._config.kms_key_name,
            sign=sign,
        )

    async def _signed_url(self, session: aiohttp.ClientSession, key: str, ttl: timedelta) -> str:
        """Sign with the key of the credentials, else through IAM as the configured account."""
        origin = self._origin

        async def sign(data: bytes) -> bytes:
            if isinstance(origin, ServiceAccount):
                return await in_thread(sign_sha256, origin.private_key, data, origin.email)
            return await sign_blob(
                session,
                endpoint=self._iam_endpoint,
                account=self._config.service_account,
                token=(await self._token.get()).value,
                data=data,
                policy=self._policy,
            )

        account = origin.email if isinstance(origin, ServiceAccount) else self._config.service_account
        return await signed_url_google(
            self._config.endpoint,
            f"{self._config.bucket}/{key}",
            account=account,
            sign=sign,
            now=self._clock.now(),
            ttl=ttl,
        )


async def _fetch(
    origin: GoogleOrigin,
    environ: Mapping[str, str],
    policy: RequestPolicy,
    clock: Clock,
    addresses: Addresses | None,
) -> Token:
    return await fetch_google_token(
        origin, environ=environ, policy=policy, now=clock.now(), addresses=addresses
    )
