"""The configuration of an Azure location, checked once. (docs/spec: STO 14, 14.3)"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pinnace.api.values.digits import is_digits
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.settings import check_keys, existing_file, service_url

log = logging.getLogger(__name__)

VALID_KEYS = (
    "resourceGroup",
    "storageAccount",
    "subscriptionId",
    "blockSizeInBytes",
    "storageAccountKeyEnvVar",
    "storageAccountURI",
    "credentialsFile",
    "bucket",
    "prefix",
    "caCert",
)
"""The keys of Velero's plugin, and its later storageAccountURI."""

REFUSED_KEYS = {
    "useAAD": "blobs are read and written with the key of the storage account; leave it out, and give the"
    " identity the right to list the keys, or name the variable with the key in storageAccountKeyEnvVar",
    "activeDirectoryAuthorityURI": "leave it out, and put AZURE_AUTHORITY_HOST into the credentials file",
}
"""The later keys of Velero's plugin that are not obeyed, and what to do. They are refused by name."""

LARGEST_BLOCK_BYTES = 100 << 20
BLOCK_BYTES = 8 << 20
"""The default. Velero's is the largest; four of those at a time would take 400 MiB of memory. There may be
50,000 blocks, which makes objects of up to 390 GiB."""

_ACCOUNT = re.compile(r"[A-Za-z0-9][-A-Za-z0-9]{0,62}")


@dataclass(frozen=True, slots=True, kw_only=True)
class AzureConfig:
    """The settings of a location; empty texts mean 'not given'.

    Attributes:
        bucket: the container.
        key_variable: name of the variable that holds the account's key.
        account_url: of the account's blob service; empty is the cloud's own address.
        ca_cert: PEM text of the certificates to trust.
    """

    bucket: str
    account: str
    resource_group: str = ""
    subscription: str = ""
    key_variable: str = ""
    block_bytes: int = BLOCK_BYTES
    account_url: str = ""
    credentials_file: Path | None = None
    ca_cert: str = field(default="", repr=False)


def parse_azure_config(config: Mapping[str, str]) -> AzureConfig:
    """Check a configuration and give it types.

    Raises:
        StoreConfigError: an unknown key, a missing one, a missing credentials file.
    """
    check_keys(config, VALID_KEYS, refused=REFUSED_KEYS)
    if not config.get("bucket"):
        raise StoreConfigError("the bucket of an Azure location, which is its container, must not be empty")
    if not config.get("storageAccount"):
        raise missing("storageAccount")
    if not _ACCOUNT.fullmatch(config["storageAccount"]):
        # It becomes a part of the host's name, and must not end it.
        account = config["storageAccount"][:63]
        raise StoreConfigError(f"storageAccount {account!r} is not the name of a storage account")
    return AzureConfig(
        bucket=config["bucket"],
        account=config["storageAccount"],
        resource_group=config.get("resourceGroup", ""),
        subscription=config.get("subscriptionId", ""),
        key_variable=config.get("storageAccountKeyEnvVar", ""),
        block_bytes=_block_bytes(config.get("blockSizeInBytes", "")),
        account_url=service_url("storageAccountURI", config.get("storageAccountURI", "")),
        credentials_file=existing_file(config.get("credentialsFile", "")),
        ca_cert=config.get("caCert", ""),
    )


def missing(*keys: str) -> StoreConfigError:
    """The error for keys without a value. (docs/spec: STO 16)"""
    return StoreConfigError(
        f"unable to get all required config values: the following keys do not have values: {', '.join(keys)}"
    )


def _block_bytes(text: str) -> int:
    if not text:
        return BLOCK_BYTES
    if not is_digits(text) or not 1 <= int(text) <= LARGEST_BLOCK_BYTES:
        log.warning(
            "blockSizeInBytes %r is no number from 1 to %d, using %d", text, LARGEST_BLOCK_BYTES, BLOCK_BYTES
        )
        return BLOCK_BYTES
    return int(text)
