"""Objects as blobs in Azure. (docs/spec: STO 14.3)"""

import asyncio
import os
from collections.abc import Mapping

import aiohttp

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.clouds.aws.signing import quote_key
from pinnace.clouds.azure.credentials import azure_variables, cloud_of
from pinnace.storage.azure.account import AccountKey, SharedAccess, find_account_access, resolve_account
from pinnace.storage.azure.config import AzureConfig
from pinnace.storage.azure.requests import ContainerRequests
from pinnace.storage.http_store import HTTPStore
from pinnace.store_access.addresses import Addresses
from pinnace.store_access.requests import RequestPolicy, tls_context


class AzureStore(HTTPStore):
    """An ObjectStore in a container of an Azure storage account.

    Attributes:
        account_url: of the account's blob service.
    """

    def __init__(
        self,
        config: AzureConfig,
        *,
        environ: Mapping[str, str] = os.environ,
        policy: RequestPolicy | None = None,
        clock: Clock = SYSTEM_CLOCK,
        addresses: Addresses | None = None,
    ) -> None:
        """Args:
            config: the location's settings.
            environ: where credentials are looked for if the location has no file of its own.
            policy: retries and deadlines.
            addresses: where connections may go; None is anywhere.

        Raises:
            StoreConfigError: settings or credentials are missing, or the CA certificate cannot be read.
        """
        variables = azure_variables(config.credentials_file, environ)
        self._config = config
        self._clock = clock
        self._wanted = find_account_access(config, variables)
        suffix = cloud_of(variables).storage_suffix
        self.account_url = config.account_url or f"https://{config.account}.blob.{suffix}"
        self._lock = asyncio.Lock()
        self._found: AccountKey | SharedAccess | None = None
        super().__init__(
            tls=tls_context(config.ca_cert, insecure=False),
            policy=policy or RequestPolicy(),
            addresses=addresses,
        )

    async def _connect(self, session: aiohttp.ClientSession) -> ContainerRequests:
        return ContainerRequests(
            session=session,
            account=self._config.account,
            container=self._config.bucket,
            url=f"{self.account_url}/{quote_key(self._config.bucket)}",
            access=self._access,
            policy=self._policy,
            clock=self._clock,
            block_bytes=self._config.block_bytes,
        )

    async def _access(self) -> AccountKey | SharedAccess:
        """The key, asked for once: a store lives as long as one operation."""
        async with self._lock:
            if self._found is None:
                self._found = await resolve_account(self._wanted, policy=self._policy, now=self._clock.now())
            return self._found
