"""Containers of Azure, as restic and kopia reach them. (docs/spec: STO 15, 16, KOP 2)

Neither program looks the key of a storage account up, so that it is found here.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.velero.storage_location import BackupStorageLocationSpec
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage, UploaderCall, UploaderStore

_NAME, _KEY, _SAS = "AZURE_ACCOUNT_NAME", "AZURE_ACCOUNT_KEY", "AZURE_ACCOUNT_SAS"
_LARGEST_CREDENTIALS_BYTES: Final = 1 << 20


class AzureUploaderStore(UploaderStore):
    """See UploaderStore."""

    holds_for_good = True

    def restic_address(self, config: Mapping[str, str], bucket: str, directory: str, region: str) -> str:
        """`azure:container:/directory`."""
        return f"azure:{bucket}:/{directory}"

    async def restic_environment(self, call: UploaderCall) -> Mapping[str, str | None]:
        """The account's name and its key or signature."""
        return await _account(call)

    def kopia_storage(self, spec: BackupStorageLocationSpec, bucket: str, prefix: str) -> KopiaStorage:
        """The container, and the domain of its account if that is not Azure's."""
        options, flags = {"container": bucket, "prefix": prefix}, [f"--container={bucket}"]
        # blob.core.example.org of https://account.blob.core.example.org
        host = urlsplit(spec.config.get("storageAccountURI", "")).hostname or ""
        if domain := host.partition(".")[2]:
            options["storageDomain"] = domain
            flags.append(f"--storage-domain={domain}")
        flags.append(f"--prefix={prefix}")
        return KopiaStorage(kind="azureBlob", command="azure", options=options, flags=tuple(flags))

    async def kopia_secrets(self, call: UploaderCall) -> KopiaSecrets:
        """The account's name and its key or signature."""
        found = await _account(call)
        options, creation = {"storageAccount": found[_NAME]}, {}
        if _KEY in found:
            options["storageKey"] = creation["AZURE_STORAGE_KEY"] = found[_KEY]
        else:
            options["sasToken"] = creation["AZURE_STORAGE_SAS_TOKEN"] = found[_SAS]
        return KopiaSecrets(options=options, flags=(f"--storage-account={found[_NAME]}",), creation=creation)


async def _account(call: UploaderCall) -> dict[str, str]:
    """The name of the storage account, and its key or its signature.

    Raises:
        StorageError, OSError: a setting is missing, or the account cannot be opened.
    """
    account = call.settings.get("storageAccount", "")
    if not account:
        raise StoreConfigError(
            "unable to get all required config values: the following keys do not have values: storageAccount"
        )
    if not (variable := call.settings.get("storageAccountKeyEnvVar", "")):
        return {_NAME: account, **await _asked_for(call)}
    if key := {**call.environ, **await _variables(call)}.get(variable, ""):
        return {_NAME: account, _KEY: key}
    raise StoreConfigError(f"no storage key secret with key {variable} found")


async def _variables(call: UploaderCall) -> dict[str, str]:
    """The variables of a file of credentials: the location's, else the environment's. (docs/spec: STO-033)"""
    from pinnace.clouds.azure.dotenv import parse_variables

    named = call.settings.get("credentialsFile") or call.environ.get("AZURE_CREDENTIALS_FILE", "")
    return parse_variables(await in_thread(_read_text, Path(named))) if named else {}


async def _asked_for(call: UploaderCall) -> dict[str, str]:
    from pinnace.clouds.azure.credentials import azure_variables
    from pinnace.storage.azure.account import AccountKey, find_account_access, resolve_account
    from pinnace.storage.azure.config import parse_azure_config
    from pinnace.store_access.requests import RequestPolicy

    settings = parse_azure_config(call.settings)
    variables = await in_thread(azure_variables, settings.credentials_file, call.environ)
    access = find_account_access(settings, variables)
    found = await resolve_account(access, policy=RequestPolicy(), now=SYSTEM_CLOCK.now())
    return {_KEY: found.key} if isinstance(found, AccountKey) else {_SAS: found.query}


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST_CREDENTIALS_BYTES).decode("utf-8", "replace")
