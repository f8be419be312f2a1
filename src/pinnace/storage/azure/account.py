"""The access to an Azure storage account: its key, from a variable or the resource manager, or a SAS.

(docs/spec: STO 14.3, 16)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote

from pinnace.clouds.azure.credentials import (
    AzureCloud,
    AzureOrigin,
    cloud_of,
    fetch_azure_token,
    find_azure_origin,
)
from pinnace.storage.azure.config import AzureConfig, missing
from pinnace.storage.errors import StoreConfigError
from pinnace.store_access.json import json_error, json_object
from pinnace.store_access.requests import RequestPolicy, new_session, send, tls_context

SAS_VARIABLE = "AZURE_STORAGE_SAS_TOKEN"
"""A shared access signature in place of a key; Azure's own tools know it by this name."""

_API_VERSION = "2021-09-01"


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountKey:
    """A key of the storage account, in base64."""

    key: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAccess:
    """A shared access signature: the query that authorizes requests."""

    query: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyToAsk:
    """An account whose key the resource manager provides."""

    url: str
    cloud: AzureCloud
    origin: AzureOrigin


AccountAccess = AccountKey | SharedAccess | KeyToAsk


def find_account_access(config: AzureConfig, variables: Mapping[str, str]) -> AccountAccess:
    """Decide how requests to the account are authorized, without any network traffic.

    Args:
        variables: the environment and the credentials file.

    Raises:
        StoreConfigError: settings or variables are missing; Velero's texts.
    """
    if config.key_variable:
        key = variables.get(config.key_variable, "")
        if not key:
            raise StoreConfigError(f"no storage account key found in env var {config.key_variable}")
        return AccountKey(key=key)
    if sas := variables.get(SAS_VARIABLE):
        return SharedAccess(query=sas.removeprefix("?"))
    subscription = config.subscription or variables.get("AZURE_SUBSCRIPTION_ID", "")
    if not subscription:
        raise StoreConfigError(
            "azure subscription ID not found in object store's config or in environment variable"
        )
    if not config.resource_group:
        raise missing("resourceGroup")
    cloud = cloud_of(variables)
    url = (
        f"{cloud.resource_manager}/subscriptions/{quote(subscription, safe='')}"
        f"/resourceGroups/{quote(config.resource_group, safe='')}"
        f"/providers/Microsoft.Storage/storageAccounts/{quote(config.account, safe='')}"
        f"/listKeys?api-version={_API_VERSION}"
    )
    return KeyToAsk(url=url, cloud=cloud, origin=find_azure_origin(variables))


async def resolve_account(
    access: AccountAccess, *, policy: RequestPolicy, now: datetime
) -> AccountKey | SharedAccess:
    """Ask the resource manager for the key of a KeyToAsk; return any other access as it is.

    Raises:
        StorageError: no answer, a refusal, or no key with full permissions.
    """
    if not isinstance(access, KeyToAsk):
        return access
    what = "cannot get the key of the storage account"
    resource = access.cloud.resource_manager
    token = await fetch_azure_token(
        access.origin, cloud=access.cloud, resource=resource, policy=policy, now=now
    )

    async def headers() -> Mapping[str, str]:
        return {"authorization": f"Bearer {token.value}", "content-type": "application/json"}

    async with new_session(tls_context()) as session:
        reply = await send(session, "POST", access.url, policy=policy, headers=headers, data=b"")
    if reply.status != 200:
        raise json_error(what, reply.status, reply.body)
    keys = json_object(reply.body, what).get("keys") or []
    if not keys:
        raise StoreConfigError("No storage keys found")
    for key in keys:
        if str(key.get("permissions", "")).upper() == "FULL" and key.get("value"):
            return AccountKey(key=str(key["value"]))
    raise StoreConfigError("No storage key with Full permissions found")
