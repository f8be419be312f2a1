"""Locations written as one text, for use without a server.

./backups   /mnt/backups   file:///mnt/backups
s3://bucket/prefix?region=…&s3Url=…&profile=…&credentialsFile=…&caCertFile=…
"""

import re
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from pinnace.api.meta import ObjectMeta
from pinnace.api.storage_location import (
    BackupStorageLocation,
    BackupStorageLocationSpec,
    ObjectStorageLocation,
)
from pinnace.storage.errors import InvalidLocation
from pinnace.storage.layout import clean_prefix
from pinnace.storage.open import AWS_PROVIDER, FILESYSTEM_PROVIDER

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
    "resticRepoPrefix",
)
"""What an S3 URL may say besides `caCertFile`: the keys of the location's configuration. (STO 14.1, 14.4)"""

_CA_PARAMETER = "caCertFile"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def location_from_url(url: str, *, name: str = "default", namespace: str = "velero") -> BackupStorageLocation:
    """The location that a URL or a path describes; reads the file that `caCertFile` names.

    Args:
        name, namespace: of the object that is returned; it exists in no cluster.

    Raises:
        InvalidLocation: an unknown scheme or parameter, or a part that is missing; the text says which, and
            never repeats credentials that somebody put into the URL.
    """
    if not url:
        raise InvalidLocation("the location must not be empty")
    match = _SCHEME.match(url)
    scheme = match[1].lower() if match is not None else ""
    if scheme == "":
        spec = _directory_spec(Path(url))
    elif scheme == "file":
        spec = _directory_spec(_file_path(urlsplit(url)))
    elif scheme == "s3":
        spec = _s3_spec(urlsplit(url))
    else:
        raise InvalidLocation(
            f"unknown scheme {scheme!r} in the location: use a directory, file:///directory or s3://bucket/prefix"
        )
    return BackupStorageLocation(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec)


def _directory_spec(path: Path) -> BackupStorageLocationSpec:
    """`path` may be relative or begin with `~`; it is made absolute, so that it means one directory."""
    directory = Path(path.expanduser()).resolve()
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


def _s3_spec(url: SplitResult) -> BackupStorageLocationSpec:
    if "@" in url.netloc:
        raise InvalidLocation("an S3 URL must not contain credentials: use credentialsFile or profile")
    if not url.netloc:
        raise InvalidLocation("an S3 URL names a bucket, as in s3://bucket/prefix")
    if url.fragment:
        raise InvalidLocation("an S3 URL has no # part; write # as %23")
    config = _parameters(url.query)
    ca_file = config.pop(_CA_PARAMETER, "")
    if credentials_file := config.get("credentialsFile"):
        config["credentialsFile"] = str(Path(credentials_file).expanduser().absolute())
    return BackupStorageLocationSpec(
        provider=AWS_PROVIDER,
        config=config,
        object_storage=ObjectStorageLocation(
            bucket=unquote(url.netloc),
            prefix=clean_prefix(unquote(url.path)).rstrip("/"),
            ca_cert=_read_certificate(ca_file) if ca_file else b"",
        ),
    )


def _parameters(query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError as error:
        raise InvalidLocation("the parameters of the S3 URL must look like name=value&name=value") from error
    known = (*S3_PARAMETERS, _CA_PARAMETER)
    names = [parameter for parameter, _ in pairs]
    if unknown := sorted(set(names) - set(known)):
        raise InvalidLocation(
            f"unknown parameters [{' '.join(unknown)}] in the S3 URL; known are [{' '.join(known)}]"
        )
    if len(set(names)) != len(names):
        raise InvalidLocation("a parameter of the S3 URL is given twice")
    return dict(pairs)


def _read_certificate(text: str) -> bytes:
    try:
        return Path(text).expanduser().read_bytes()
    except OSError as error:
        raise InvalidLocation(f"cannot read {_CA_PARAMETER} {text!r}: {error.strerror}") from error
