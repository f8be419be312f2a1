"""The private configuration and environment of one call of kopia. (docs/spec: KOP 1, 2)"""

import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pinnace.aio.blocking import in_thread
from pinnace.api.values.error_texts import error_text
from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.storage.providers import uploader_store
from pinnace.storage.uploader_store import KopiaSecrets, KopiaStorage
from pinnace.volumes.kopia.commands import IDENTITY
from pinnace.volumes.kopia.places import storage_of
from pinnace.volumes.repository_config import RepositoryConfig
from pinnace.volumes.uploader.access import PROXIES, AccessProvider, Opened, Repository, write_private
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
    storage: KopiaStorage
    secrets: KopiaSecrets
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


async def _access(opened: Opened, storage: KopiaStorage, cache: Path, settings: RepositoryConfig) -> Access:
    directory, inherited = opened.directory, opened.inherited
    try:
        store = uploader_store(opened.location.spec.provider)
        secrets = await store.kopia_secrets(opened.call) if store is not None else KopiaSecrets()
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
    creation = {"KOPIA_CONFIG_PATH": str(directory / "created.config"), **secrets.creation}
    return Access(
        opened=opened,
        storage=storage,
        secrets=secrets,
        ca_file=ca_file,
        environment=variables,
        creation=creation,
        settings=settings,
    )


def config_file(storage: KopiaStorage, secrets: KopiaSecrets, cache: Path, cache_limit_bytes: int) -> bytes:
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


def _cache(accesses: AccessProvider, opened: Opened, storage: KopiaStorage) -> Path:
    """The cache of a repository: another folder once its location is another, or has another address."""
    scratch = opened.inherited.get(_SCRATCH_VARIABLE)
    root = Path(scratch) / ".cache" if scratch else accesses.workdir / "cache"
    metadata = opened.location.metadata
    named = json.dumps([metadata.name, metadata.uid, storage.kind, dict(storage.options)], sort_keys=True)
    return root / "kopia" / hashlib.sha256(named.encode()).hexdigest()[:32]
