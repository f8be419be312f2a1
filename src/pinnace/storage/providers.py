"""Providers of locations as flags name them, for `install` and the commands of locations. Pure."""

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from pinnace.storage.open import AWS_PROVIDER, FILESYSTEM_PROVIDER, qualified_provider

FILESYSTEM: Final = ("filesystem", FILESYSTEM_PROVIDER)
"""The providers that mean a folder; the spec of the location has the full name."""


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
