"""Locations written as one text, for use without a server.

./backups   /mnt/backups   file:///mnt/backups
s3://bucket/prefix?region=…&s3Url=…&profile=…&credentialsFile=…&caCertFile=…
gs://bucket/prefix?credentialsFile=…&serviceAccount=…
azblob://container/prefix?storageAccount=…&resourceGroup=…&credentialsFile=…
"""

import os
import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import msgspec

from pinnace.aio.small_files import read_small_file
from pinnace.api.meta import ObjectMeta
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.velero.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.storage.errors import InvalidLocation
from pinnace.storage.layout import clean_prefix
from pinnace.storage.open import (
    AWS_PROVIDER,
    AZURE_PROVIDER,
    FILESYSTEM_PROVIDER,
    GCP_PROVIDER,
    qualified_provider,
)

S3_PARAMETERS = (
    "region",
    "s3Url",
    "publicUrl",
    "s3ForcePathStyle",
    "signatureVersion",
    "kmsKeyId",
    "serverSideEncryption",
    "profile",
    "credentialsFile",
    "insecureSkipTLSVerify",
    "checksumAlgorithm",
    "tagging",
    "enableSharedConfig",
    "customerKeyEncryptionFile",
    "customerKeyEncryptionSecret",
    "resticRepoPrefix",
)
"""What an S3 URL may say besides `caCertFile`: the keys of the location's configuration. (STO 14.1, 14.4)"""

GCS_PARAMETERS = ("credentialsFile", "serviceAccount", "kmsKeyName", "storeEndpoint", "resticRepoPrefix")
"""The same of a GCS URL. (STO 14.2)"""

AZURE_PARAMETERS = (
    "storageAccount",
    "resourceGroup",
    "subscriptionId",
    "storageAccountKeyEnvVar",
    "storageAccountURI",
    "blockSizeInBytes",
    "credentialsFile",
    "resticRepoPrefix",
)
"""The same of an Azure URL. (STO 14.3)"""

_CA_PARAMETER = "caCertFile"
_SCHEMES = {AWS_PROVIDER: "s3", GCP_PROVIDER: "gs", AZURE_PROVIDER: "azblob"}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_SHORT_SCHEME = re.compile(r"(s3|gs|azblob):", re.IGNORECASE)


def location_title(location: BackupStorageLocation) -> str:
    """The location as a person names it: its folder, or its URL without parameters."""
    storage, provider = location.spec.object_storage, qualified_provider(location.spec.provider or "")
    if provider == FILESYSTEM_PROVIDER:
        return str(Path(location.spec.config["path"]) / storage.bucket)
    return f"{_SCHEMES.get(provider, provider)}://{storage.bucket}/{storage.prefix}".rstrip("/")


_OF_COMPATIBLE = "s3://bucket/prefix?region=minio&s3ForcePathStyle=true&s3Url=http://HOST:PORT"
_MEANT = {
    **dict.fromkeys(("minio", "http", "https", "rest", "ceph", "b2", "r2", "swift"), _OF_COMPATIBLE),
    **dict.fromkeys(("s3a", "s3n", "aws"), "s3://bucket/prefix"),
    **dict.fromkeys(("gcs", "gcp", "google"), "gs://bucket/prefix"),
    **dict.fromkeys(("azure", "az", "wasb", "wasbs", "abfs", "abfss"), "azblob://container/prefix"),
}
"""What users of other programs write, by its scheme."""
_IN_HINTS = ("region", "s3Url", "s3ForcePathStyle", "storageAccount", "resourceGroup")


def url_of(location: JSONObject) -> str:
    """The URL of a cluster's BackupStorageLocation, without credentials; empty for a folder."""
    scheme = _SCHEMES.get(qualified_provider(text(location, "spec", "provider")))
    bucket = text(location, "spec", "objectStorage", "bucket")
    if scheme is None or not bucket:
        return ""
    prefix = text(location, "spec", "objectStorage", "prefix").strip("/")
    config = mapping(location, "spec", "config")
    query = urlencode({key: config[key] for key in _IN_HINTS if config.get(key)}, safe=":/")
    return f"{scheme}://{bucket}{f'/{prefix}' if prefix else ''}{f'?{query}' if query else ''}"


def location_from_url(url: str, *, name: str = "default", namespace: str = "velero") -> BackupStorageLocation:
    """The location that a URL or a path describes; reads the file that `caCertFile` names.

    Args:
        name, namespace: of the object that is returned; it exists in no cluster.

    Raises:
        InvalidLocation: an unknown scheme or parameter, or a part that is missing; the text says which, and
            never repeats credentials in the URL.
    """
    if not url:
        raise InvalidLocation("the location must not be empty")
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match is not None else ""
    if scheme == "":
        if (short := _SHORT_SCHEME.match(url)) is not None:
            raise InvalidLocation(f"a URL has two slashes, as in {short[1].lower()}://bucket/prefix")
        scheme = url.partition(":")[0].lower()
        if ":" in url and scheme in _MEANT and not Path(url).exists():
            raise InvalidLocation(f"{scheme}: is no scheme of a location; did you mean {_MEANT[scheme]}?")
        spec = _directory_spec(Path(url))
    elif scheme == "file":
        spec = _directory_spec(_file_path(urlsplit(url)))
    elif scheme in _CLOUDS:
        spec = _bucket_spec(urlsplit(url), _CLOUDS[scheme])
    else:
        meant = _MEANT.get(scheme, "")
        raise InvalidLocation(
            f"unknown scheme {scheme!r} in the location{f'; did you mean {meant}?' if meant else ':'} use a"
            " directory, file:///directory, s3://bucket/prefix, gs://bucket/prefix or azblob://container/prefix"
        )
    return BackupStorageLocation(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def _directory_spec(path: Path) -> BackupStorageLocationSpec:
    """`path` may be relative or begin with `~`; it is made absolute, so that it means one directory."""
    # Not by pathlib, which raises RuntimeError for a loop of links and for an unknown user behind `~`.
    directory = Path(os.path.realpath(os.path.expanduser(path)))
    if not directory.name or "\0" in str(directory):
        raise InvalidLocation(f"the location {str(directory)!r} cannot hold backups: name a directory in it")
    return BackupStorageLocationSpec(
        provider=FILESYSTEM_PROVIDER,
        config={"path": str(directory.parent)},
        object_storage=ObjectStorageLocation(bucket=directory.name),
    )


def _file_path(url: SplitResult) -> Path:
    if url.netloc not in ("", "localhost") or not url.path:
        raise InvalidLocation("a file URL has three slashes and an absolute path, as in file:///mnt/backups")
    if url.query or url.fragment:
        raise InvalidLocation("a file URL has no parameters; write ? and # in names as %3F and %23")
    return Path(unquote(url.path))


class _Cloud(msgspec.Struct, frozen=True, kw_only=True):
    """What a URL of an object store means; the texts are for messages."""

    provider: str
    parameters: tuple[str, ...]
    article: str
    name: str
    example: str
    instead: str


_CLOUDS = {
    "s3": _Cloud(
        provider=AWS_PROVIDER,
        parameters=S3_PARAMETERS,
        article="an",
        name="S3 URL",
        example="a bucket, as in s3://bucket/prefix",
        instead="credentialsFile or profile",
    ),
    "gs": _Cloud(
        provider=GCP_PROVIDER,
        parameters=GCS_PARAMETERS,
        article="a",
        name="GCS URL",
        example="a bucket, as in gs://bucket/prefix",
        instead="credentialsFile",
    ),
    "azblob": _Cloud(
        provider=AZURE_PROVIDER,
        parameters=AZURE_PARAMETERS,
        article="an",
        name="Azure URL",
        example="a container, as in azblob://container/prefix",
        instead="credentialsFile or storageAccountKeyEnvVar",
    ),
}


def _bucket_spec(url: SplitResult, cloud: _Cloud) -> BackupStorageLocationSpec:
    if "@" in url.netloc:
        raise InvalidLocation(
            f"{cloud.article} {cloud.name} must not contain credentials: use {cloud.instead}"
        )
    if not url.netloc:
        raise InvalidLocation(f"{cloud.article} {cloud.name} names {cloud.example}")
    if url.fragment:
        raise InvalidLocation(f"{cloud.article} {cloud.name} has no # part; write # as %23")
    config = _parameters(url.query, cloud)
    ca_file = config.pop(_CA_PARAMETER, "")
    if credentials_file := config.get("credentialsFile"):
        config["credentialsFile"] = os.path.abspath(os.path.expanduser(credentials_file))
    return BackupStorageLocationSpec(
        provider=cloud.provider,
        config=config,
        object_storage=ObjectStorageLocation(
            bucket=unquote(url.netloc),
            prefix=clean_prefix(unquote(url.path)).rstrip("/"),
            ca_cert=_read_certificate(ca_file) if ca_file else b"",
        ),
    )


def _parameters(query: str, cloud: _Cloud) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise InvalidLocation(
            f"the parameters of the {cloud.name} must look like name=value&name=value"
        ) from error
    known = (*cloud.parameters, _CA_PARAMETER)
    names = [parameter for parameter, _ in pairs]
    if unknown := sorted(set(names) - set(known)):
        raise InvalidLocation(
            f"unknown parameters [{' '.join(unknown)}] in the {cloud.name}; known are [{' '.join(known)}]"
        )
    if len(set(names)) != len(names):
        raise InvalidLocation(f"a parameter of the {cloud.name} is given twice")
    return dict(pairs)


def _read_certificate(text: str) -> bytes:
    try:
        return read_small_file(Path(os.path.expanduser(text)))
    except OSError as error:
        raise InvalidLocation(f"cannot read {_CA_PARAMETER} {text!r}: {error.strerror}") from error
