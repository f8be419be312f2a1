"""The files and environment that one call of restic needs, created for that call and removed after it.

Location, credentials and password are read for each call, so that rotated ones are used. The files are
private to the call: no other call overwrites or removes them. (docs/spec: PVL 2, PVL 8.5, STO 11, 16)
"""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from pinnace.aio.blocking import in_thread
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.storage_location import BackupStorageLocation
from pinnace.api.values.error_texts import error_text
from pinnace.api.values.times import utcnow
from pinnace.clouds.azure.dotenv import parse_variables
from pinnace.http.addresses import addresses_of
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS
from pinnace.storage.credentials_store import CredentialsStore, resolve_credentials
from pinnace.storage.errors import InvalidLocation, StorageError
from pinnace.storage.open import AZURE_PROVIDER, qualified_provider, store_config
from pinnace.volumes.restic.commands import Files
from pinnace.volumes.restic.environment import azure_credentials_file, environment
from pinnace.volumes.restic.errors import AccessError, IdentifierError
from pinnace.volumes.restic.identifiers import belongs_to
from pinnace.volumes.restic.passwords import read_password
from pinnace.volumes.secrets import read_secret

_SCRATCH_VARIABLE = "VELERO_SCRATCH_DIR"
_LARGEST_CREDENTIALS_BYTES = 1 << 20
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A repository and the location it is in.

    Attributes:
        identifier: as restic's `--repo` takes it.
        location: name of the BackupStorageLocation, whose credentials are used.
        source: the namespace whose data is written there; empty where none is.
    """

    identifier: str
    location: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Files and environment for calls of restic."""

    files: Files
    environment: Mapping[str, str] = field(repr=False)


class AccessProvider:
    """Gives access to the repositories of one namespace's locations.

    Args:
        workdir: an existing private directory, for the files.
        inherited: the environment of our own process.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        workdir: Path,
        *,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._workdir = workdir
        self._own_networks = OwnNetworks(client)
        self.inherited = inherited

    @asynccontextmanager
    async def open(self, repository: Repository) -> AsyncIterator[Access]:
        """Make the files; they are gone when the context ends, however it ends.

        Raises:
            AccessError: something is missing or cannot be read; Velero's texts. (docs/spec: PVL 5.3)
        """
        password = await self._password()
        location = await self.location(repository.location)
        _check_tenant(repository, location)
        try:
            directory = tempfile.TemporaryDirectory(prefix="restic-", dir=self._workdir)
        except OSError as error:
            raise AccessError(f"error creating temp restic credentials file: {error.strerror}") from error
        with directory as name:
            yield await self._access(repository, location, password, Path(name))

    async def _password(self) -> bytes:
        return await read_password(self._client, self._namespace)

    async def location(self, name: str) -> BackupStorageLocation:
        """The location of that name as it is now. Raises AccessError."""
        what = "error getting backup storage location"
        resource = BACKUP_STORAGE_LOCATIONS
        try:
            return decode(BackupStorageLocation, await self._client.get(resource, name, self._namespace))
        except (KubeError, DecodeError) as error:
            raise AccessError(f"{what}: {error}") from error

    async def _access(
        self, repository: Repository, location: BackupStorageLocation, password: bytes, directory: Path
    ) -> Access:
        try:
            password_file = await in_thread(_write_private, directory / "password", password)
            ca_file = None
            if ca_cert := location.spec.object_storage.ca_cert:
                ca_file = await in_thread(_write_private, directory / "ca.pem", ca_cert)
        except OSError as error:
            raise AccessError(f"error creating temp restic credentials file: {error.strerror}") from error
        try:
            credentials = await self._credentials(location, directory)
            await self._check_addresses(location)
            variables = await self._azure_variables(location, credentials)
            account = await self._azure_account(location, credentials)
        except (StorageError, OSError) as error:
            raise AccessError(f"error setting restic cmd env: {error_text(error)}") from error
        variables = environment(
            self.inherited,
            location,
            repository.identifier,
            credentials_file=credentials,
            variables=variables,
            account=account,
        )
        if tenant_of(location.metadata):
            # A proxy would resolve names anew, and connect to what is refused here.
            variables = {name: value for name, value in variables.items() if name.lower() not in _PROXIES}
        scratch = self.inherited.get(_SCRATCH_VARIABLE)
        files = Files(
            identifier=repository.identifier,
            password_file=password_file,
            ca_file=ca_file,
            cache_directory=Path(scratch) / ".cache" / "restic" if scratch else None,
        )
        return Access(files=files, environment=variables)

    async def _check_addresses(self, location: BackupStorageLocation) -> None:
        """Refuse a tenant's endpoint with an address that tenants may not use. Raises StorageError.

        All other hosts that restic goes to for a tenant are those of the three clouds.
        """
        own = await self._own_networks.get() if tenant_of(location.metadata) else ()
        addresses = addresses_of(location, own)
        host = urlsplit(location.spec.config.get("s3Url", "")).hostname
        if addresses is not None and host:
            # Loaded here: only a tenant's location needs it.
            from pinnace.http.connector import check_host

            await check_host(host, addresses)

    async def _credentials(self, location: BackupStorageLocation, directory: Path) -> Path | None:
        store = CredentialsStore(directory / "credentials", self._namespace)

        async def read(name: str) -> Mapping[str, bytes] | None:
            return await read_secret(self._client, name, self._namespace)

        return await resolve_credentials(location, store, read, namespace=self._namespace)

    async def _azure_variables(
        self, location: BackupStorageLocation, credentials: Path | None
    ) -> dict[str, str]:
        file = azure_credentials_file(self.inherited, location, credentials)
        return parse_variables(await in_thread(_read_text, file)) if file is not None else {}

    async def _azure_account(
        self, location: BackupStorageLocation, credentials: Path | None
    ) -> Mapping[str, str]:
        """What opens a storage account whose key the location names no variable of. Raises StorageError."""
        config = location.spec.config
        azure = qualified_provider(location.spec.provider) == AZURE_PROVIDER
        if not azure or config.get("storageAccountKeyEnvVar") or not config.get("storageAccount"):
            return {}
        # Imported here: only Azure needs it.
        from pinnace.clouds.azure.credentials import azure_variables
        from pinnace.http.requests import RetryPolicy
        from pinnace.storage.azure.account import AccountKey, find_account_access, resolve_account
        from pinnace.storage.azure.config import parse_azure_config

        settings = parse_azure_config(store_config(location, credentials_file=credentials))
        variables = await in_thread(azure_variables, settings.credentials_file, self.inherited)
        access = find_account_access(settings, variables)
        found = await resolve_account(access, policy=RetryPolicy(), now=utcnow())
        if isinstance(found, AccountKey):
            return {"AZURE_ACCOUNT_KEY": found.key}
        return {"AZURE_ACCOUNT_SAS": found.query}


class LocationAccess(AccessProvider):
    """Access to the repositories of one location that no cluster keeps as an object.

    Its credentials are those that the location's own settings name, and those of the environment.

    Args:
        known: the location.
        password: of its repositories.
    """

    def __init__(
        self,
        known: BackupStorageLocation,
        password: bytes,
        workdir: Path,
        *,
        inherited: Mapping[str, str] = os.environ,
    ) -> None:
        self._known = known
        self._given_password = password
        self._workdir = workdir
        self.inherited = inherited

    async def _password(self) -> bytes:
        return self._given_password

    async def location(self, name: str) -> BackupStorageLocation:
        """The one location, whatever the name."""
        return self._known

    async def _credentials(self, location: BackupStorageLocation, directory: Path) -> Path | None:
        return None  # a location by URL names no Secret


def _write_private(path: Path, data: bytes) -> Path:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(_LARGEST_CREDENTIALS_BYTES).decode("utf-8", "replace")


def _check_tenant(repository: Repository, location: BackupStorageLocation) -> None:
    """Refuse to write other data to a tenant's location, or to use its keys elsewhere. (NAC 17 A34)

    Raises:
        AccessError: the PodVolumeBackup or PodVolumeRestore was forged.
    """
    tenant = tenant_of(location.metadata)
    if not tenant:
        return
    try:
        is_own = belongs_to(repository.identifier, location, tenant)
    except (IdentifierError, InvalidLocation) as error:
        raise AccessError(str(error)) from error
    if not is_own or repository.source not in ("", tenant):
        raise AccessError(
            f"backup storage location {location.metadata.name} belongs to the namespace {tenant}:"
            " nothing but the repository of that namespace's own volumes is used there"
        )
