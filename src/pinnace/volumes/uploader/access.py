"""Location, credentials and password for one call of an uploader.

They are read for each call, so that rotated ones are used. Files are private
to the call: no other call overwrites or removes them, and they are removed after it. (docs/spec: PVL 2, 8.5)
"""

import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from pinnace.aio.fence import FenceClosed
from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import mapping
from pinnace.api.values.error_texts import error_text
from pinnace.api.velero.backup_repository import KOPIA_REPOSITORY
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import BACKUP_REPOSITORIES, BACKUP_STORAGE_LOCATIONS
from pinnace.storage.credentials_store import (
    CredentialsStore,
    resolve_credentials,
    with_ca_cert,
    without_named_file,
)
from pinnace.storage.errors import StorageError
from pinnace.storage.open import store_config
from pinnace.storage.own_settings import REPOSITORY_SECRET, REQUIRE_SIGNATURE
from pinnace.storage.settings import parse_bool
from pinnace.storage.uploader_store import UploaderCall
from pinnace.store_access.addresses import addresses_of
from pinnace.volumes.repository_config import RepositoryConfig
from pinnace.volumes.secrets import read_secret
from pinnace.volumes.uploader.errors import AccessError, PasswordMissing
from pinnace.volumes.uploader.passwords import LEGACY_FIRST, PUBLIC_PASSWORD, Password, read_password

PROXIES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
"""A proxy would resolve the names of a tenant's location itself, and connect to what is refused here."""


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """A repository and the location it is in.

    Attributes:
        identifier: as restic's `--repo` takes it; empty for kopia, whose repository the namespace tells.
        location: name of the BackupStorageLocation, whose credentials are used.
        namespace: the namespace whose volumes the repository holds; restic does not need it.
        source: the namespace whose data is written there; empty where none is.
        uploader: the program whose format it has.
        password: which one opens it.
    """

    identifier: str = ""
    location: str
    namespace: str = ""
    source: str = ""
    uploader: str = "restic"
    password: Password = Password.CURRENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """Location, credentials and password as they were read for one call.

    Attributes:
        directory: private to the call and removed after it.
        credentials: file of the location's own credential, None if it has none.
        inherited: the environment of our own process.
    """

    repository: Repository
    location: BackupStorageLocation
    password: bytes = field(repr=False)
    directory: Path
    credentials: Path | None
    inherited: Mapping[str, str] = field(repr=False)

    @property
    def tenant(self) -> str:
        """The namespace that the location belongs to; empty if it is the administrator's."""
        return tenant_of(self.location.metadata)

    @property
    def call(self) -> UploaderCall:
        """The settings of the call. Raises InvalidLocation, StoreConfigError."""
        settings = store_config(self.location, credentials_file=self.credentials)
        return UploaderCall(settings=settings, environ=self.inherited)

    def check_tenant(self, *, is_own: bool) -> None:
        """Refuse to write other data to a tenant's location, or to use its keys elsewhere. (NAC 17 A34)

        Args:
            is_own: whether the repository is the one of the tenant's namespace in the location.

        Raises:
            AccessError: the PodVolumeBackup or PodVolumeRestore was forged.
        """
        tenant = self.tenant
        if tenant and not (is_own and self.repository.source in ("", tenant)):
            raise AccessError(
                f"backup storage location {self.location.metadata.name} belongs to the namespace {tenant}:"
                " only the repository of that namespace's own volumes may be used there"
            )


class AccessProvider:
    """Gives access to the repositories of one namespace's locations.

    Args:
        workdir: an existing private directory, for the files and caches.
        inherited: the environment of our own process.
        password: of the repositories, in place of that of the Secrets.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        workdir: Path,
        *,
        inherited: Mapping[str, str] = os.environ,
        password: bytes | None = None,
    ) -> None:
        self._given_password = password
        self._client = client
        self._namespace = namespace
        self.workdir = workdir
        self._own_networks = OwnNetworks(client)
        self.inherited = inherited

    @asynccontextmanager
    async def open(
        self, repository: Repository, *, secrets: tuple[str, ...] = LEGACY_FIRST
    ) -> AsyncIterator[Opened]:
        """Read everything; private files are gone when the context ends, however it ends.

        Where the client's writes pass a fence, it has to be open: each program may change the repository.

        Args:
            secrets: names of the Secrets that may have the password; the first that is there counts.

        Raises:
            AccessError: something is missing or cannot be read; Velero's texts. (docs/spec: PVL 5.3) Or the
                fence is closed.
        """
        location = await self.location(repository.location)
        password = await self._password(secrets, location, repository.password)
        try:
            directory = tempfile.TemporaryDirectory(prefix="uploader-", dir=self.workdir)
        except OSError as error:
            raise AccessError(f"error creating temp credentials file: {error.strerror}") from error
        with directory as name:
            try:
                credentials = await self._credentials(location, Path(name))
                await self._check_addresses(location)
            except (StorageError, OSError) as error:
                raise AccessError(f"error setting restic cmd env: {error_text(error)}") from error
            await self._pass_fence(repository)
            yield Opened(
                repository=repository,
                location=location,
                password=password,
                directory=Path(name),
                credentials=credentials,
                inherited=self.inherited,
            )

    async def _pass_fence(self, repository: Repository) -> None:
        if (fence := self._client.fence) is not None:
            try:
                await fence.passed()
            except FenceClosed as closed:
                raise AccessError(
                    f"the repository of {repository.namespace} was not opened: {closed}"
                ) from closed

    async def config(self, repository: Repository) -> RepositoryConfig:
        """The settings in the BackupRepository of a repository of kopia. Raises AccessError."""
        own_labels = {
            labels.VOLUME_NAMESPACE: labels.label_value(repository.namespace),
            labels.STORAGE_LOCATION: labels.label_value(repository.location),
            labels.REPOSITORY_TYPE: KOPIA_REPOSITORY,
        }
        selector = ",".join(f"{name}={value}" for name, value in own_labels.items())
        try:
            found = await self._client.list_all(BACKUP_REPOSITORIES, self._namespace, label_selector=selector)
        except KubeError as error:
            raise AccessError(f"error listing the BackupRepositories: {error}") from error
        settings = mapping(found[0], "spec", "repositoryConfig") if found else {}
        return RepositoryConfig.of(settings)

    async def _password(
        self, secrets: tuple[str, ...], location: BackupStorageLocation, password: Password
    ) -> bytes:
        own = location.spec.config.get(REPOSITORY_SECRET, "")
        if password is not Password.PUBLIC:
            if self._given_password is not None:
                return _given(self._given_password, password)
            return await read_password(self._client, self._namespace, (own,) if own else secrets, password)
        if own or parse_bool(location.spec.config.get(REQUIRE_SIGNATURE, "")):
            raise PasswordMissing("the location's own settings exclude the public password")
        return PUBLIC_PASSWORD

    async def location(self, name: str) -> BackupStorageLocation:
        """The location of that name as it is now. Raises AccessError."""
        what = "error getting backup storage location"
        resource = BACKUP_STORAGE_LOCATIONS
        try:
            location = decode(BackupStorageLocation, await self._client.get(resource, name, self._namespace))
            location = without_named_file(location)
            return await with_ca_cert(location, self._read_secret, namespace=self._namespace)
        except (KubeError, DecodeError, StorageError) as error:
            raise AccessError(f"{what}: {error}") from error

    async def _check_addresses(self, location: BackupStorageLocation) -> None:
        """Refuse a tenant's endpoint with an address that tenants may not use. Raises StorageError.

        All other hosts that an uploader goes to for a tenant are those of the three clouds.
        """
        own = await self._own_networks.get() if tenant_of(location.metadata) else ()
        addresses = addresses_of(location, own)
        host = urlsplit(location.spec.config.get("s3Url", "")).hostname
        if addresses is not None and host:
            # Loaded here: only a tenant's location needs it.
            from pinnace.store_access.connector import check_host

            await check_host(host, addresses)

    async def _credentials(self, location: BackupStorageLocation, directory: Path) -> Path | None:
        store = CredentialsStore(directory / "credentials", self._namespace)
        return await resolve_credentials(location, store, self._read_secret, namespace=self._namespace)

    async def _read_secret(self, name: str) -> Mapping[str, bytes] | None:
        return await read_secret(self._client, name, self._namespace)


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
        self._own_password = password
        self.workdir = workdir
        self.inherited = inherited

    async def config(self, repository: Repository) -> RepositoryConfig:
        """The defaults: no cluster has settings."""
        return RepositoryConfig()

    async def _pass_fence(self, repository: Repository) -> None:
        """A command needs no lease."""

    async def _password(
        self, secrets: tuple[str, ...], location: BackupStorageLocation, password: Password
    ) -> bytes:
        if password is Password.PUBLIC:
            return PUBLIC_PASSWORD
        return _given(self._own_password, password)

    async def location(self, name: str) -> BackupStorageLocation:
        """The one location, whatever the name."""
        return self._known

    async def _credentials(self, location: BackupStorageLocation, directory: Path) -> Path | None:
        return None  # a location by URL names no Secret


def _given(password: bytes, wanted: Password) -> bytes:
    """The one password that is known. Raises PasswordMissing for any other."""
    if wanted is not Password.CURRENT:
        raise PasswordMissing("one password is known")
    return password


def write_private(path: Path, data: bytes) -> Path:
    """Write a file that only this user can read. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return path
