"""The address of a namespace's repository, as restic's `--repo` takes it: pure. (docs/spec: STO 15)"""

import re
from pathlib import PurePosixPath

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.filesystem import FILESYSTEM_PROVIDER
from pinnace.storage.gcs import GCP_PROVIDER
from pinnace.storage.layout import clean_bucket, clean_prefix
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.volumes.uploader.errors import IdentifierError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_AWS_HOST = re.compile(r"s3:s3([.-][a-z0-9-]+)?\.amazonaws\.com(\.cn)?")
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
    if not needs_region(location):
        return identifier == repository_identifier(location, volume_namespace)
    host, _, rest = identifier.partition("/")
    wanted = repository_identifier(location, volume_namespace).partition("/")[2]
    return rest == wanted and _AWS_HOST.fullmatch(host) is not None


def needs_region(location: BackupStorageLocation) -> bool:
    """Whether the identifier names the region of an AWS bucket, which has to be asked for."""
    config = location.spec.config
    provider = qualified_provider(location.spec.provider)
    return provider == AWS_PROVIDER and not config.get("resticRepoPrefix") and not config.get("s3Url")


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
    match qualified_provider(spec.provider):
        case provider if provider == AWS_PROVIDER:
            return f"s3:{_s3_host(spec.config.get('s3Url', ''), bucket_region)}/{bucket}/{directory}"
        case provider if provider == AZURE_PROVIDER:
            return f"azure:{bucket}:/{directory}"
        case provider if provider == GCP_PROVIDER:
            return f"gs:{bucket}:/{directory}"
        case provider if provider == FILESYSTEM_PROVIDER:
            return str(_folder(spec.config.get("path", "")) / bucket / directory)
    raise IdentifierError(
        "restic repository prefix (resticRepoPrefix) not specified in backup storage location's config"
    )


def _s3_host(endpoint: str, bucket_region: str) -> str:
    if endpoint:
        return endpoint.removesuffix("/")
    return f"s3-{bucket_region}.amazonaws.com" if bucket_region else "s3.amazonaws.com"


def _folder(path: str) -> PurePosixPath:
    folder = PurePosixPath(path)
    if not folder.is_absolute():
        raise IdentifierError("path of a filesystem location must be an absolute path")
    return folder
