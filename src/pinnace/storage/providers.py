"""The providers whose stores are here: a provider is a folder and its name in `PROVIDERS`."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pinnace.storage import azure, filesystem, gcs, s3
from pinnace.storage.filesystem import FILESYSTEM_PROVIDER
from pinnace.storage.provider import Provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.storage.uploader_store import UploaderStore

PROVIDERS: Final[Mapping[str, Provider]] = {
    each.PROVIDER.name: each.PROVIDER for each in (s3, gcs, azure, filesystem)
}
"""By their full names, in the order of messages."""

CREDENTIAL_VARIABLES: Final = (
    *(each.PROVIDER.credentials_variable for each in (gcs, s3, azure)),  # Velero's order
    "ALIBABA_CLOUD_CREDENTIALS_FILE",
)
"""Environment variables that name a file of credentials; a plugin needs the last."""

FILESYSTEM: Final = ("filesystem", FILESYSTEM_PROVIDER)
"""The providers that mean a folder; the spec of the location has the full name."""


def qualified_provider(provider: str) -> str:
    """The provider's full name: `aws` is `velero.io/aws`. (docs/spec: STO 8)"""
    return provider if "/" in provider else f"velero.io/{provider}"


def uploader_store(provider: str) -> UploaderStore | None:
    """How restic and kopia reach the stores of a provider; None if they do not know them."""
    found = PROVIDERS.get(qualified_provider(provider))
    return found.uploaders() if found is not None and found.uploaders is not None else None


def lacks_region(provider: str, config: Mapping[str, str]) -> bool:
    """Whether a volume snapshot location needs a region and has none."""
    return bool(provider) and qualified_provider(provider) == AWS_PROVIDER and not config.get("region")


def location_of(provider: str, bucket: str, config: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """Provider, bucket and config of the location that flags describe.

    A folder without `--bucket` is the folder itself, the same that `--location /folder` means; its parent is
    the path of the location, and its name the bucket.
    """
    if provider not in FILESYSTEM:
        return provider, bucket, dict(config)
    if bucket:
        return FILESYSTEM_PROVIDER, bucket, dict(config)
    path = PurePosixPath(config["path"])
    return FILESYSTEM_PROVIDER, path.name, {**config, "path": str(path.parent)}
