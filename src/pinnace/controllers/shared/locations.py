"""Opens the stores of BackupStorageLocations, with their credentials from Secrets. (docs/spec: STO 8, 10)"""

import base64
import binascii
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from pinnace.age.identities import Identities
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.labels import NEWEST_SIGNED
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.own_networks import OwnNetworks
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, SECRETS
from pinnace.plugins.installed import NO_PLUGINS, InstalledPlugins
from pinnace.runs.context import ReopenedStore
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.credentials_store import (
    CredentialsStore,
    resolve_credentials,
    signing_key_of,
    with_ca_cert,
    without_named_file,
)
from pinnace.storage.encryption import hides_details_of
from pinnace.storage.errors import InvalidLocation, StorageError, StoreConfigError
from pinnace.storage.newest import Link, after, links_of_text
from pinnace.storage.open import open_backup_store
from pinnace.storage.own_settings import HIDE_DETAILS, signatures_of, without_signing
from pinnace.volumes.repository_places import store_of

_NOTE_ATTEMPTS: Final = 5
"""Of a note in an annotation, whose location may be patched by others at the same time."""


def location_of(backup: Backup) -> str:
    """The name of the location that a backup is in.

    Raises:
        StoreConfigError: the backup has not begun; a server writes the name into the spec when it begins.
    """
    if name := backup.spec.storage_location:
        return name
    phase = backup.status.phase or BackupPhase.NEW
    raise StoreConfigError(
        f"backup {backup.metadata.name} has not begun, its phase is {phase}: wait for its end"
    )


def readable(obj: JSONObject) -> BackupStorageLocation:
    """A location whose every field can be honoured. Raises InvalidLocation."""
    name = text(obj, "metadata", "name")
    try:
        location = decode(BackupStorageLocation, obj)
    except DecodeError as error:
        raise InvalidLocation(f"backup storage location {name} cannot be read: {error}") from error
    if problems := check_spec("BackupStorageLocation", obj).errors:
        raise InvalidLocation(f"backup storage location {name}: {'; '.join(problems)}")
    return location


def moved(location: JSONObject, began_in: str, *, run: str) -> str:
    """From where to where a location was moved during a run; empty if it was not.

    Args:
        began_in, run: as in `LocationStores.reopen`.
    """
    if (now := store_of(location)) == began_in:
        return ""
    return (
        f"backup storage location {text(location, 'metadata', 'name')} was moved while the {run} ran: "
        f"it began in {began_in}, and the location is now {now}"
    )


class _Annotated:
    """The newest signed backups of a location, in its annotation."""

    def __init__(self, client: KubeClient, location: BackupStorageLocation) -> None:
        self._client = client
        self._metadata = location.metadata
        self.links: Sequence[Link] = links_of_text(location.metadata.annotations.get(NEWEST_SIGNED, ""))

    async def note(self, added: Link, replaced: Sequence[Link]) -> None:
        """See NewestOutside. Raises StorageError: the location could not be patched."""
        name, namespace = self._metadata.name, self._metadata.namespace
        try:
            for attempt in range(_NOTE_ATTEMPTS):
                obj = await self._client.get(BACKUP_STORAGE_LOCATIONS, name, namespace)
                noted = links_of_text(text(obj, "metadata", "annotations", NEWEST_SIGNED))
                metadata = {
                    "resourceVersion": text(obj, "metadata", "resourceVersion"),
                    "annotations": {NEWEST_SIGNED: " ".join(map(str, after(noted, added, replaced)))},
                }
                try:
                    await self._client.patch(
                        BACKUP_STORAGE_LOCATIONS, name, {"metadata": metadata}, namespace
                    )
                except Conflict:
                    if attempt == _NOTE_ATTEMPTS - 1:
                        raise
                else:
                    return
        except KubeError as error:
            raise StorageError(f"backup storage location {name} could not be patched: {error}") from error


class LocationStores:
    """Opens a store for each operation, so that rotated credentials are seen.

    Its writes pass the fence of the client, if that has one.

    Args:
        credentials_root: where credential files are kept, private.
        plugins: open what is not built in.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        credentials_root: Path,
        *,
        plugins: InstalledPlugins = NO_PLUGINS,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._credentials = CredentialsStore(credentials_root, namespace)
        self._plugins = plugins
        self._own_networks = OwnNetworks(client)

    @asynccontextmanager
    async def open(self, name: str, *, identities: Identities | None = None) -> AsyncIterator[BackupStore]:
        """The store of the location of that name, closed at the end. Raises KubeError, StorageError.

        Args:
            identities: open encrypted backups; the server itself has none.
        """
        async with await self.acquire(name) as store:
            yield store.opened_by(identities)

    @asynccontextmanager
    async def open_location(self, location: BackupStorageLocation) -> AsyncIterator[BackupStore]:
        """The store of a location that was read already."""
        async with await self._acquire(location) as store:
            yield store

    async def acquire(self, name: str, obj: JSONObject | None = None) -> BackupStore:
        """The store of the location of that name; the caller closes it. Raises KubeError, StorageError.

        Args:
            obj: the location, if it has just been read.
        """
        return await self._acquire(readable(obj) if obj is not None else await self.location(name))

    async def location(self, name: str) -> BackupStorageLocation:
        """The location of that name, freshly read. Raises KubeError, InvalidLocation."""
        return readable(await self.raw(name))

    async def reopen(
        self, name: str, began_in: str, *, run: str, identities: Identities | None = None
    ) -> ReopenedStore:
        """The store of the location at the end of a run, which began in that place; the caller closes it.

        Args:
            began_in: `store_of` the location when the run began.
            run: the kind of the run, for the text that says that the location was moved.
            identities: open encrypted backups.

        Raises:
            KubeError, StorageError: it cannot be read or opened.
        """
        location = await self.raw(name)
        store = (await self.acquire(name, location)).opened_by(identities)
        return ReopenedStore(store, moved(location, began_in, run=run))

    async def raw(self, name: str) -> JSONObject:
        """The location of that name as the API server has it. Raises KubeError."""
        return await self._client.get(BACKUP_STORAGE_LOCATIONS, name, self._namespace)

    async def _acquire(self, location: BackupStorageLocation) -> BackupStore:
        if hides_details_of(location.spec.config):
            raise StoreConfigError(
                f"config.{HIDE_DETAILS} is for locations without a server: a server has the details of its"
                " backups in the cluster"
            )
        location = without_named_file(location)
        location = await with_ca_cert(location, self._read_secret, namespace=self._namespace)
        file = await resolve_credentials(
            location, self._credentials, self._read_secret, namespace=self._namespace
        )
        store = open_backup_store(
            without_signing(location),
            credentials_file=file,
            others=self._plugins.open_store,
            own_networks=await self._own_networks.get() if tenant_of(location.metadata) else (),
        )
        pem = await signing_key_of(location, self._read_secret, namespace=self._namespace)
        outside = _Annotated(self._client, location)
        return store.signed(signatures_of(location.spec.config, pem, outside)).fenced(self._client.fence)

    async def _read_secret(self, name: str) -> Mapping[str, bytes] | None:
        try:
            secret = await self._client.get(SECRETS, name, self._namespace)
        except NotFound:
            return None
        except KubeError as error:
            raise StoreConfigError(str(error)) from error
        try:
            return {
                key: base64.b64decode(value, validate=True)
                for key, value in (secret.get("data") or {}).items()
            }
        except (binascii.Error, TypeError) as error:
            raise StoreConfigError(f"Secret {name} holds something that is not base64") from error
