"""The private configuration and environment of one call of kopia. (docs/spec: KOP 1, 2)"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from pinnace.aio.blocking import in_thread
from pinnace.api.values.error_texts import error_text
from pinnace.clouds.aws.credentials import AccessKey, FixedCredentials
from pinnace.clouds.aws.finding import find_credentials
from pinnace.storage.azure import AZURE_PROVIDER
from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.storage.gcs import GCP_PROVIDER
from pinnace.storage.open import store_config
from pinnace.storage.providers import qualified_provider
from pinnace.storage.s3 import AWS_PROVIDER
from pinnace.storage.s3.config import parse_s3_config
from pinnace.volumes.kopia.commands import IDENTITY
from pinnace.volumes.kopia.places import Secrets, Storage, storage_of
from pinnace.volumes.repository_config import RepositoryConfig
from pinnace.volumes.uploader.access import PROXIES, AccessProvider, Opened, Repository, write_private
from pinnace.volumes.uploader.azure import azure_account, azure_opening, azure_variables_of
from pinnace.volumes.uploader.errors import AccessError, IdentifierError
from pinnace.volumes.uploader.memory import VARIABLE as MEMORY_VARIABLE
from pinnace.volumes.uploader.passwords import NEW_FIRST

CONTENT_CACHE_BYTES: Final = 256 << 20
METADATA_CACHE_BYTES: Final = 1 << 30
"""On the disk of the scratch directory, for one repository; contents are read once."""
_CONTENT_SHARE: Final = 5
"""Of a limit for both, this part is for contents."""

_SCRATCH_VARIABLE: Final = "VELERO_SCRATCH_DIR"
_WHAT: Final = "error preparing a call of kopia"
_INHERITED: Final = frozenset({"PATH", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOMAXPROCS"})
_CLOUDS: Final = ("AWS_", "GOOGLE_", "AZURE_", "GCE_", "STORAGE_EMULATOR_HOST")
"""For kopia's own search of credentials, where the location names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The files and the environment of one call of kopia.

    Attributes:
        environment: all of it; nothing is inherited.
        creation: the variables that only `repository create` needs in addition.
    """

    opened: Opened
    storage: Storage
    secrets: Secrets
    ca_file: Path | None
    environment: Mapping[str, str] = field(repr=False)
    creation: Mapping[str, str] = field(repr=False)
    settings: RepositoryConfig

    @property
    def policy_file(self) -> Path:
        """Where a policy is written for kopia to read."""
        return self.opened.directory / "policy.json"


@asynccontextmanager
async def kopia_access(
    accesses: AccessProvider, repository: Repository, *, keep_cache: bool = True
) -> AsyncIterator[Access]:
    """Make the files; they are gone when the context ends, however it ends. Only the cache stays.

    Args:
        keep_cache: without it the cache begins empty and is removed, so that all data is read from the store.

    Raises:
        AccessError: something is missing or cannot be read.
        IdentifierError: the location has no place for the repository.
    """
    async with accesses.open(repository, secrets=NEW_FIRST) as opened:
        opened.check_tenant(is_own=repository.namespace == opened.tenant)
        try:
            storage = storage_of(opened.location, repository.namespace)
            cache = _cache(accesses, opened, storage) if keep_cache else opened.directory / "cache"
            yield await _access(opened, storage, cache, await accesses.config(repository))
        except InvalidLocation as error:
            raise IdentifierError(str(error)) from error


async def _access(opened: Opened, storage: Storage, cache: Path, settings: RepositoryConfig) -> Access:
    directory, inherited = opened.directory, opened.inherited
    try:
        aws = await _aws(opened)
        secrets = Secrets(aws=_aws_config(aws.fixed), gcp_file=_gcp_file(opened), azure=await _azure(opened))
        config = config_file(storage, secrets, cache, settings.cache_limit_bytes)
        await in_thread(write_private, directory / "repository.config", config)
        ca_file = None
        if ca_cert := opened.location.spec.object_storage.ca_cert:
            ca_file = await in_thread(write_private, directory / "ca.pem", ca_cert)
    except (StorageError, OSError) as error:
        raise AccessError(f"{_WHAT}: {error_text(error)}") from error
    variables = {
        name: value
        for name, value in inherited.items()
        if name in _INHERITED or name == MEMORY_VARIABLE or name.lower() in PROXIES
    }
    if not opened.tenant:
        variables |= {name: value for name, value in inherited.items() if name.startswith(_CLOUDS)}
    else:
        variables = {name: value for name, value in variables.items() if name.lower() not in PROXIES}
    if ca_file is not None:
        variables["SSL_CERT_FILE"] = str(ca_file)  # beside the directories of the system
    variables |= {
        "HOME": str(directory),
        "KOPIA_CONFIG_PATH": str(directory / "repository.config"),
        "KOPIA_LOG_DIR": str(directory / "logs"),
        "KOPIA_CHECK_FOR_UPDATES": "false",
        "KOPIA_DISABLE_COLOR": "true",
        "KOPIA_PASSWORD": opened.password.decode("utf-8", "surrogateescape"),
    }
    creation = {"KOPIA_CONFIG_PATH": str(directory / "created.config"), **_creation(aws.now, secrets)}
    return Access(
        opened=opened,
        storage=storage,
        secrets=secrets,
        ca_file=ca_file,
        environment=variables,
        creation=creation,
        settings=settings,
    )


def config_file(storage: Storage, secrets: Secrets, cache: Path, cache_limit_bytes: int) -> bytes:
    """The configuration file, as `repository connect` writes it."""
    contents, metadata = CONTENT_CACHE_BYTES, METADATA_CACHE_BYTES
    if cache_limit_bytes:
        contents = cache_limit_bytes // _CONTENT_SHARE
        metadata = cache_limit_bytes - contents
    user, _, host = IDENTITY.partition("@")
    content: dict[str, Any] = {
        "storage": storage.config(secrets),
        "caching": {
            "cacheDirectory": str(cache),
            "maxCacheSize": contents,
            "maxMetadataCacheSize": metadata,
            "maxListCacheDuration": 30,
        },
        "hostname": host,
        "username": user,
        "enableActions": False,
        # Never from the cache: a repository that is gone must be seen to be gone.
        "formatBlobCacheDuration": -1,
    }
    return json.dumps(content).encode()


def _cache(accesses: AccessProvider, opened: Opened, storage: Storage) -> Path:
    """The cache of a repository: another folder once its location is another, or has another address."""
    scratch = opened.inherited.get(_SCRATCH_VARIABLE)
    root = Path(scratch) / ".cache" if scratch else accesses.workdir / "cache"
    metadata = opened.location.metadata
    named = json.dumps([metadata.name, metadata.uid, storage.kind, dict(storage.options)], sort_keys=True)
    return root / "kopia" / hashlib.sha256(named.encode()).hexdigest()[:32]


class _AWSCredentials(msgspec.Struct, frozen=True):
    """Credentials of a bucket.

    Attributes:
        fixed: those that stay valid; None for temporary ones, which kopia renews itself.
        now: those that are valid now.
    """

    fixed: AccessKey | None = None
    now: AccessKey | None = None


async def _aws(opened: Opened) -> _AWSCredentials:
    if qualified_provider(opened.location.spec.provider) != AWS_PROVIDER:
        return _AWSCredentials()
    settings = parse_s3_config(store_config(opened.location, credentials_file=opened.credentials))
    source = find_credentials(
        opened.inherited,
        profile=settings.profile,
        credentials_file=settings.credentials_file,
        region=settings.region,
        shared_config=settings.shared_config,
    )
    now = await source.get()
    is_own = bool(settings.profile or settings.credentials_file)  # kopia would not find them itself
    is_fixed = isinstance(source, FixedCredentials) or is_own or now.session_token is None
    return _AWSCredentials(fixed=now if is_fixed else None, now=now)


def _aws_config(found: AccessKey | None) -> Mapping[str, str]:
    if found is None:
        return {}
    return {
        "accessKeyID": found.access_key_id,
        "secretAccessKey": found.secret_access_key,
        "sessionToken": found.session_token or "",
    }


def _creation(aws: AccessKey | None, secrets: Secrets) -> dict[str, str]:
    made = {}
    if aws is not None:
        made["AWS_ACCESS_KEY_ID"] = aws.access_key_id
        made["AWS_SECRET_ACCESS_KEY"] = aws.secret_access_key
        made["AWS_SESSION_TOKEN"] = aws.session_token or ""
    if key := secrets.azure.get("AZURE_ACCOUNT_KEY"):
        made["AZURE_STORAGE_KEY"] = key
    if sas := secrets.azure.get("AZURE_ACCOUNT_SAS"):
        made["AZURE_STORAGE_SAS_TOKEN"] = sas
    return made


def _gcp_file(opened: Opened) -> Path | None:
    if qualified_provider(opened.location.spec.provider) != GCP_PROVIDER:
        return None
    if opened.credentials is not None:
        return opened.credentials
    named = opened.location.spec.config.get("credentialsFile", "")
    return Path(named) if named else None


async def _azure(opened: Opened) -> Mapping[str, str]:
    if qualified_provider(opened.location.spec.provider) != AZURE_PROVIDER:
        return {}
    variables = await azure_variables_of(opened.inherited, opened.location, opened.credentials)
    account = await azure_account(opened.inherited, opened.location, opened.credentials)
    config = opened.location.spec.config
    return azure_opening(config, {**opened.inherited, **variables}, account, what=_WHAT)
