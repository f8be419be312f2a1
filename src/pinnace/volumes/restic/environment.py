"""The environment of a restic process: pure. (docs/spec: STO 16, PVL 7.2)"""

from collections.abc import Mapping
from pathlib import Path

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.gcs import GCP_PROVIDER
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.volumes.restic.commands import identifier_is_secret
from pinnace.volumes.uploader.azure import azure_opening

_WHAT = "error setting restic cmd env"

_OVERRIDDEN = (
    "RESTIC_REPOSITORY",
    "RESTIC_REPOSITORY_FILE",
    "RESTIC_PASSWORD",
    "RESTIC_PASSWORD_FILE",
    "RESTIC_PASSWORD_COMMAND",
    "RESTIC_KEY_HINT",
)
"""Variables that restic would read in addition to our flags, and refuse to work with both."""

_AWS_KEYS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_ACCESS_KEY",
    "AWS_SECRET_KEY",
    "MINIO_ACCESS_KEY",
    "MINIO_SECRET_KEY",
)
"""Variables that restic prefers to a credentials file; they belong to another location."""

_PROGRESS_VARIABLE = "RESTIC_PROGRESS_FPS"


def environment(
    inherited: Mapping[str, str],
    location: BackupStorageLocation,
    identifier: str,
    *,
    credentials_file: Path | None = None,
    variables: Mapping[str, str] | None = None,
    account: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All variables for restic in a location.

    Args:
        inherited: of our own process.
        identifier: the repository; put here if it has credentials in it.
        credentials_file: of the location's own credential, None if it has none.
        variables: for Azure, the content of its credentials file.
        account: for Azure, the variable that opens the storage account, where the location names none.

    Raises:
        AccessError: a setting that Azure needs is missing.
    """
    made = {name: value for name, value in inherited.items() if name not in _OVERRIDDEN}
    # By default restic prints 60 times a second when it prints JSON.
    made.setdefault(_PROGRESS_VARIABLE, "1")
    if identifier_is_secret(identifier):
        made["RESTIC_REPOSITORY"] = identifier
    config = location.spec.config
    file = str(credentials_file) if credentials_file is not None else config.get("credentialsFile", "")
    provider = qualified_provider(location.spec.provider)
    if provider == AWS_PROVIDER:
        if file:
            for name in _AWS_KEYS:
                made.pop(name, None)
            made["AWS_SHARED_CREDENTIALS_FILE"] = file
        if "profile" in config:
            made["AWS_PROFILE"] = config["profile"]
    elif provider == GCP_PROVIDER and file:
        made["GOOGLE_APPLICATION_CREDENTIALS"] = file
    elif provider == AZURE_PROVIDER:
        made |= azure_opening(config, {**inherited, **(variables or {})}, account or {}, what=_WHAT)
    return made
