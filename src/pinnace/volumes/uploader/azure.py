"""The keys of a storage account of Azure, for programs that cannot look them up. (docs/spec: STO 16)"""

from collections.abc import Mapping
from pathlib import Path

from pinnace.aio.blocking import in_thread
from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.clouds.azure.dotenv import parse_variables
from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.open import store_config
from pinnace.storage.providers import qualified_provider
from pinnace.volumes.uploader.errors import AccessError

_LARGEST_CREDENTIALS_BYTES = 1 << 20


def azure_credentials_file(
    inherited: Mapping[str, str], location: BackupStorageLocation, credentials_file: Path | None
) -> Path | None:
    """The file with the variables for Azure: the location's before the environment's. (docs/spec: STO-033)"""
    if qualified_provider(location.spec.provider) != AZURE_PROVIDER:
        return None
    if credentials_file is not None:
        return credentials_file
    named = location.spec.config.get("credentialsFile") or inherited.get("AZURE_CREDENTIALS_FILE", "")
    return Path(named) if named else None


async def azure_variables_of(
    inherited: Mapping[str, str], location: BackupStorageLocation, credentials: Path | None
) -> dict[str, str]:
    """The variables of the credentials file; none where there is no such file. Raises OSError."""
    file = azure_credentials_file(inherited, location, credentials)
    return parse_variables(await in_thread(_read_text, file)) if file is not None else {}


async def azure_account(
    inherited: Mapping[str, str], location: BackupStorageLocation, credentials: Path | None
) -> Mapping[str, str]:
    """AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS, where the location names no variable of the key.

    Raises:
        StorageError: the account cannot be opened.
    """
    config = location.spec.config
    azure = qualified_provider(location.spec.provider) == AZURE_PROVIDER
    if not azure or config.get("storageAccountKeyEnvVar") or not config.get("storageAccount"):
        return {}
    # Imported here: only Azure needs it.
    from pinnace.clouds.azure.credentials import azure_variables
    from pinnace.storage.azure.account import AccountKey, find_account_access, resolve_account
    from pinnace.storage.azure.config import parse_azure_config
    from pinnace.store_access.requests import RequestPolicy

    settings = parse_azure_config(store_config(location, credentials_file=credentials))
    variables = await in_thread(azure_variables, settings.credentials_file, inherited)
    access = find_account_access(settings, variables)
    found = await resolve_account(access, policy=RequestPolicy(), now=SYSTEM_CLOCK.now())
    if isinstance(found, AccountKey):
        return {"AZURE_ACCOUNT_KEY": found.key}
    return {"AZURE_ACCOUNT_SAS": found.query}


def azure_opening(
    config: Mapping[str, str], variables: Mapping[str, str], opening: Mapping[str, str], *, what: str
) -> dict[str, str]:
    """The account's name and its key or signature: AZURE_ACCOUNT_NAME, and _KEY or _SAS.

    Args:
        variables: of the environment and the credentials file.
        opening: as `azure_account` found it.
        what: the beginning of error texts.

    Raises:
        AccessError: a setting is missing.
    """
    account = config.get("storageAccount", "")
    if not account:
        raise AccessError(
            f"{what}: unable to get all required config values: "
            "the following keys do not have values: storageAccount"
        )
    if variable := config.get("storageAccountKeyEnvVar", ""):
        key = variables.get(variable, "")
        if not key:
            raise AccessError(f"{what}: no storage key secret with key {variable} found")
        opening = {"AZURE_ACCOUNT_KEY": key}
    if not opening:
        raise AccessError(
            f"{what}: no key of the storage account: name its variable by storageAccountKeyEnvVar in the "
            "location's config, or give the account's resourceGroup and credentials that may list its keys"
        )
    return {"AZURE_ACCOUNT_NAME": account, **opening}


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST_CREDENTIALS_BYTES).decode("utf-8", "replace")
