"""Looks up the objects that flows need: in the caches first, then at the API server."""

from collections.abc import Sequence
from typing import Final

from pinnace.api import labels
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import BadRequest, InvalidName, NotFound
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DELETE_BACKUP_REQUESTS,
    NAMESPACES,
    RESTORES,
    SECRETS,
    APIResource,
)
from pinnace.nonadmin.caches import BY_BACKUP, BY_ID, BY_LOCATION, BY_NAMESPACE, Caches, in_namespace
from pinnace.nonadmin.identity import has_common_labels, id_of, unique_object
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.runtime.keys import Key

_MAX_NAME_CHARACTERS: Final = 253


class Lookups:
    """Looks up objects by name or id. All methods may raise KubeError; those by id also Ambiguous.

    Args:
        namespace: the server's.
    """

    def __init__(self, client: KubeClient, namespace: str, caches: Caches) -> None:
        self.namespace = namespace
        self._client = client
        self._caches = caches

    async def named(self, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
        """The object of that name; None also for a text that cannot be a name, as tenants write it."""
        if not name or len(name) > _MAX_NAME_CHARACTERS:
            return None
        cache = self._caches.get(resource)
        found = None if cache is None else cache.get(Key(namespace, name))
        return found if found is not None else await self._live(resource, namespace, name)

    async def _live(self, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
        try:
            return await self._client.get(resource, name, namespace)
        except (NotFound, InvalidName, BadRequest):
            return None

    async def backup(self, unique_id: str) -> JSONObject | None:
        """The Backup with that id."""
        return await self._with_id(BACKUPS, "VeleroBackup", Origin.BACKUP, unique_id)

    async def restore(self, unique_id: str) -> JSONObject | None:
        """The Restore with that id."""
        return await self._with_id(RESTORES, "VeleroRestore", Origin.RESTORE, unique_id)

    async def location(self, unique_id: str, *, live: bool = False) -> JSONObject | None:
        """The BackupStorageLocation with that id."""
        kind = "VeleroBackupStorageLocation"
        return await self._with_id(BACKUP_STORAGE_LOCATIONS, kind, Origin.LOCATION, unique_id, live=live)

    async def location_request(self, unique_id: str, *, live: bool = False) -> JSONObject | None:
        """The NonAdminBackupStorageLocationRequest with that id."""
        return await self._with_id(
            NON_ADMIN_LOCATION_REQUESTS,
            NON_ADMIN_LOCATION_REQUESTS.kind,
            Origin.LOCATION,
            unique_id,
            live=live,
        )

    async def secret_copy(self, unique_id: str) -> JSONObject | None:
        """The Secret of the server's namespace with that id."""
        found = await self._live(SECRETS, self.namespace, unique_id) if unique_id else None
        return found if found is not None and id_of(found, Origin.LOCATION) == unique_id else None

    async def secret(self, namespace: str, name: str) -> JSONObject | None:
        """A tenant's Secret; always freshly read, as none is kept in memory."""
        usable = name and len(name) <= _MAX_NAME_CHARACTERS
        return await self._live(SECRETS, namespace, name) if usable else None

    async def namespace_uid(self, namespace: str) -> str:
        """The uid of a namespace; empty if it does not exist or is being deleted."""
        try:
            found = await self._client.get(NAMESPACES, namespace)
        except NotFound:
            return ""
        return "" if text(found, "status", "phase") == "Terminating" else text(found, "metadata", "uid")

    async def _with_id(
        self, resource: APIResource, kind: str, origin: Origin, unique_id: str, *, live: bool = False
    ) -> JSONObject | None:
        if not unique_id:
            return None
        found = unique_object(
            () if live else self._caches[resource].by_index(BY_ID, unique_id),
            kind=kind,
            label=origin.id_label,
            value=unique_id,
            namespace=self.namespace,
        )
        if found is None:
            # The cache may not show a new object yet; its name is its id.
            named = await self._live(resource, self.namespace, unique_id)
            found = named if named is not None and id_of(named, origin) == unique_id else None
        return found

    async def location_of(self, backup: JSONObject | None) -> JSONObject | None:
        """The BackupStorageLocation that holds a Backup."""
        return await self.named(
            BACKUP_STORAGE_LOCATIONS, self.namespace, text(backup, "spec", "storageLocation")
        )

    async def delete_requests(self, backup: str) -> Sequence[JSONObject]:
        """The DeleteBackupRequests that were made here for a Backup."""
        value = labels.label_value(backup)
        found = self._caches[DELETE_BACKUP_REQUESTS].by_index(BY_BACKUP, value)
        if not found:
            # Its name is not known, and without this list a second one would be made.
            selector = f"{labels.BACKUP_NAME}={value}"
            found = await self._client.list_all(
                DELETE_BACKUP_REQUESTS, self.namespace, label_selector=selector
            )
        return [obj for obj in found if has_common_labels(obj)]

    def restores_of(self, namespace: str, non_admin_backup: str) -> Sequence[JSONObject]:
        """The NonAdminRestores that name a NonAdminBackup."""
        return self._caches[NON_ADMIN_RESTORES].by_index(BY_BACKUP, in_namespace(namespace, non_admin_backup))

    def backups_on(self, namespace: str, non_admin_location: str) -> Sequence[JSONObject]:
        """The NonAdminBackups that name a NonAdminBackupStorageLocation."""
        return self._caches[NON_ADMIN_BACKUPS].by_index(
            BY_LOCATION, in_namespace(namespace, non_admin_location)
        )

    def locations_in(self, namespace: str) -> Sequence[JSONObject]:
        """The NonAdminBackupStorageLocations of a namespace."""
        return self._caches[NON_ADMIN_LOCATIONS].by_index(BY_NAMESPACE, namespace)

    def labelled(self, resource: APIResource, index: str, value: str) -> Sequence[JSONObject]:
        """The objects under an index of their cache."""
        return self._caches[resource].by_index(index, value) if value else ()
