"""The store of a namespace's kopia repository, and the settings that open it: pure. (docs/spec: KOP 2)"""

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.errors import StoreConfigError
from pinnace.storage.filesystem import FILESYSTEM_PROVIDER
from pinnace.storage.gcs import GCP_PROVIDER
from pinnace.storage.layout import clean_bucket, clean_prefix
from pinnace.storage.object_lock import LOCK_MODE, LockMode, object_lock_of
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.volumes.uploader.errors import IdentifierError

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """The credentials of the store; kopia itself looks for those that are empty.

    Attributes:
        aws: `accessKeyID`, `secretAccessKey`, `sessionToken`.
        gcp_file: the file with the credentials.
        azure: AZURE_ACCOUNT_NAME, and AZURE_ACCOUNT_KEY or AZURE_ACCOUNT_SAS.
    """

    aws: Mapping[str, str] = field(default_factory=dict, repr=False)
    gcp_file: Path | None = None
    azure: Mapping[str, str] = field(default_factory=dict, repr=False)


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    """The store of a repository, as kopia's configuration names it.

    Attributes:
        kind: kopia's name of it: `s3`, `gcs`, `azureBlob`, `filesystem`.
        options: without secrets.
    """

    kind: str
    options: Mapping[str, Any]

    def config(self, secrets: Secrets) -> dict[str, Any]:
        """The `storage` of a configuration file, secrets included."""
        options = dict(self.options)
        if self.kind == "s3":
            options |= {"accessKeyID": "", "secretAccessKey": "", "sessionToken": "", **secrets.aws}
        elif self.kind == "gcs" and secrets.gcp_file is not None:
            options["credentialsFile"] = str(secrets.gcp_file)
        elif self.kind == "azureBlob":
            options["storageAccount"] = secrets.azure.get("AZURE_ACCOUNT_NAME", "")
            if key := secrets.azure.get("AZURE_ACCOUNT_KEY"):
                options["storageKey"] = key
            if sas := secrets.azure.get("AZURE_ACCOUNT_SAS"):
                options["sasToken"] = sas
        return {"type": self.kind, "config": options}

    def create_flags(self, secrets: Secrets, ca_file: Path | None) -> list[str]:
        """The arguments of `repository create` after the kind; no secret is among them."""
        options = self.options
        match self.kind:
            case "s3":
                flags = [f"--bucket={options['bucket']}", f"--endpoint={options['endpoint']}"]
                if options.get("region"):
                    flags.append(f"--region={options['region']}")
                if options.get("doNotUseTLS"):
                    flags.append("--disable-tls")
                if options.get("doNotVerifyTLS"):
                    flags.append("--disable-tls-verification")
                if ca_file is not None:
                    flags.append(f"--root-ca-pem-path={ca_file}")
            case "gcs":
                flags = [f"--bucket={options['bucket']}"]
                if secrets.gcp_file is not None:
                    flags.append(f"--credentials-file={secrets.gcp_file}")
            case "azureBlob":
                account = secrets.azure.get("AZURE_ACCOUNT_NAME", "")
                flags = [f"--container={options['container']}", f"--storage-account={account}"]
                if options.get("storageDomain"):
                    flags.append(f"--storage-domain={options['storageDomain']}")
            case _:
                return [f"--path={options['path']}", "--flat"]
        return [*flags, f"--prefix={options['prefix']}"]


class RepositoryHold(msgspec.Struct, frozen=True, kw_only=True):
    """How long what kopia stores is held: each file from its upload on, and what is used for as long again by
    each full maintenance.

    Attributes:
        hours: kopia wants more than a day and the time between two full maintenances.
    """

    mode: str
    hours: int


_LOCKED_ONLY: Final = (AZURE_PROVIDER, GCP_PROVIDER)
"""Where kopia 0.21 holds files in the store's locked mode, whatever mode it is given."""
HELD_HOURS: Final = 720
"""Where files of a location are held until their backup expires, which a repository of many has no time of:
the default time to live of backups."""


def hold_of(location: BackupStorageLocation) -> RepositoryHold | None:
    """How long the repositories of a location are held; None for not at all.

    Raises:
        IdentifierError: the location's settings of object lock cannot be read, or kopia would hold its files
            longer than asked: in Azure and Google Cloud Storage it knows one mode alone.
    """
    try:
        lock = object_lock_of(location.spec.config)
    except StoreConfigError as error:
        raise IdentifierError(str(error)) from error
    if lock is None:
        return None
    if lock.mode != LockMode.COMPLIANCE and qualified_provider(location.spec.provider or "") in _LOCKED_ONLY:
        raise IdentifierError(
            f"config.{LOCK_MODE} is {lock.mode}, and kopia holds files in Azure and Google Cloud Storage so"
            f" that nobody can delete them: set it to {LockMode.COMPLIANCE} if that is wanted, or save data"
            " of volumes in another location"
        )
    hours = HELD_HOURS if lock.period is None else math.ceil(lock.period / timedelta(hours=1))
    return RepositoryHold(mode=lock.mode, hours=hours)


def repository_prefix(location: BackupStorageLocation, namespace: str) -> str:
    """The prefix of the keys of a namespace's repository, with a slash at its end.

    Raises:
        IdentifierError: the name of the namespace is not valid; it may come from a list in the bucket.
    """
    if not _NAMESPACE.fullmatch(namespace):
        raise IdentifierError(f"{namespace[:253]!r} cannot be the namespace of a kopia repository")
    return f"{clean_prefix(location.spec.object_storage.prefix)}kopia/{namespace}/"


def storage_of(location: BackupStorageLocation, namespace: str) -> Storage:
    """The store of a namespace's repository in a location.

    Raises:
        IdentifierError: the provider has no repositories of kopia, or the location's settings do not fit.
        InvalidLocation: the bucket has a slash inside.
    """
    spec = location.spec
    config, prefix = spec.config, repository_prefix(location, namespace)
    bucket = clean_bucket(spec.object_storage.bucket)
    match qualified_provider(spec.provider):
        case provider if provider == AWS_PROVIDER:
            return Storage(kind="s3", options=_s3(location, bucket, prefix))
        case provider if provider == GCP_PROVIDER:
            return Storage(kind="gcs", options={"bucket": bucket, "prefix": prefix})
        case provider if provider == AZURE_PROVIDER:
            options = {"container": bucket, "prefix": prefix}
            if domain := _azure_domain(config.get("storageAccountURI", "")):
                options["storageDomain"] = domain
            return Storage(kind="azureBlob", options=options)
        case provider if provider == FILESYSTEM_PROVIDER:
            folder = PurePosixPath(config.get("path", ""))
            if not folder.is_absolute():
                raise IdentifierError("path of a filesystem location must be an absolute path")
            # Flat, so that the names of the files are those of the keys in a bucket, with `.f` at the end.
            return Storage(
                kind="filesystem", options={"path": str(folder / bucket / prefix), "dirShards": []}
            )
    raise IdentifierError(f"the provider {spec.provider} of the location has no repositories of kopia")


def _s3(location: BackupStorageLocation, bucket: str, prefix: str) -> dict[str, Any]:
    spec = location.spec
    config, region = spec.config, spec.config.get("region", "")
    options: dict[str, Any] = {"bucket": bucket, "prefix": prefix, "region": region}
    if url := config.get("s3Url", ""):
        parts = urlsplit(url)
        if not parts.hostname or parts.scheme not in ("http", "https"):
            raise IdentifierError("s3Url of the location is not an http or https URL")
        if parts.path.strip("/"):
            raise IdentifierError(
                "s3Url of the location has a path, which kopia cannot use: name host and port only"
            )
        options["endpoint"] = parts.netloc.rpartition("@")[2]
        if parts.scheme == "http":
            options["doNotUseTLS"] = True
    elif region:
        options["endpoint"] = f"s3.{region}.amazonaws.com{'.cn' if region.startswith('cn-') else ''}"
    else:
        options["endpoint"] = "s3.amazonaws.com"
    if config.get("insecureSkipTLSVerify", "") in _TRUE:
        options["doNotVerifyTLS"] = True
    if spec.object_storage.ca_cert:
        options["rootCA"] = base64.b64encode(spec.object_storage.ca_cert).decode()
    return options


def _azure_domain(uri: str) -> str:
    """`blob.core.example.org` of https://account.blob.core.example.org; empty without a URI."""
    host = urlsplit(uri).hostname or ""
    return host.partition(".")[2]
