"""The address of a namespace's repository, as restic's `--repo` takes it. (docs/spec: STO 15)"""

import re

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.layout import clean_bucket, clean_prefix
from pinnace.storage.providers import uploader_store
from pinnace.volumes.uploader.errors import IdentifierError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_USER_INFO = re.compile(r"(?<=//)[^/@\s]+(?=@)")


def repository_identifier(
    location: BackupStorageLocation, volume_namespace: str, *, bucket_region: str = ""
) -> str:
    """The repository of a namespace's volumes in a location.

    Args:
        bucket_region: where `needs_region` says so, the region of the bucket; empty if it is not known.

    Raises:
        IdentifierError: the provider has no repositories, or the name of the namespace is not valid.
        InvalidLocation: the bucket has a slash inside.
    """
    if not _NAMESPACE.fullmatch(volume_namespace):
        # It may come from a list in the bucket, and must not lead elsewhere.
        raise IdentifierError(f"{volume_namespace[:253]!r} cannot be the namespace of a restic repository")
    return f"{_prefix(location, bucket_region)}/{volume_namespace}"


def belongs_to(identifier: str, location: BackupStorageLocation, volume_namespace: str) -> bool:
    """Whether an identifier is the repository of a namespace in a location. (docs/spec: NAC 17 A34)

    Raises:
        IdentifierError, InvalidLocation: as `repository_identifier`.
    """
    store = uploader_store(location.spec.provider)
    if store is not None and needs_region(location):
        identifier = store.without_region(identifier)
    return identifier == repository_identifier(location, volume_namespace)


def needs_region(location: BackupStorageLocation) -> bool:
    """Whether the identifier names the region of the bucket, which has to be asked for."""
    config, store = location.spec.config, uploader_store(location.spec.provider)
    return store is not None and not config.get("resticRepoPrefix") and store.needs_region(config)


async def find_region(location: BackupStorageLocation) -> str:
    """The region of the location's bucket; empty if it is not known, which the identifier allows."""
    store = uploader_store(location.spec.provider)
    return await store.find_region(location.spec.object_storage.bucket) if store is not None else ""


def repository_name(identifier: str) -> str:
    """The name of a repository in logs: the part after the last slash. (docs/spec: PVL 7.1)"""
    return identifier.rpartition("/")[2]


def without_credentials(text: str) -> str:
    """A text with the user and password of URLs in it made unreadable."""
    return _USER_INFO.sub("***", text)


def _prefix(location: BackupStorageLocation, bucket_region: str) -> str:
    spec = location.spec
    if own := spec.config.get("resticRepoPrefix"):
        return own.removesuffix("/")
    bucket = clean_bucket(spec.object_storage.bucket)
    directory = f"{clean_prefix(spec.object_storage.prefix)}restic"
    store = uploader_store(spec.provider)
    if store is None:
        raise IdentifierError(
            "restic repository prefix (resticRepoPrefix) not specified in backup storage location's config"
        )
    try:
        return store.restic_address(spec.config, bucket, directory, bucket_region)
    except StoreConfigError as error:
        raise IdentifierError(str(error)) from error
