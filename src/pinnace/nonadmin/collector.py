"""Deletes orphans from the server's namespace: objects whose request is gone. (docs/spec: NAC 14)

Stored backup data is never touched. Each kind is swept on its own: after an error in one the others are
still swept, and then the whole sweep is tried again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from pinnace.api.nonadmin.names import MANAGED_BY_LABEL, MANAGED_BY_VALUE, OADP_LABEL, OADP_VALUE, Origin
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, RESTORES, SECRETS, APIResource
from pinnace.nonadmin.caches import BY_REQUEST, Caches, in_namespace
from pinnace.nonadmin.identity import has_common_labels, id_of, origin_key
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.queue_position import is_served
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.cache import Cache
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NAME: Final = "nonadmin-collector"
KEY: Final = Key("", "collect")
SELECTOR: Final = f"{OADP_LABEL}={OADP_VALUE},{MANAGED_BY_LABEL}={MANAGED_BY_VALUE}"


class CollectionFailed(Exception):
    """Some kinds could not be swept; the log says why."""


class Leftovers:
    """Deletes what the server has still queued for a request that is gone: at once, as others wait behind it.

    A tenant who removes our finalizer from requests could otherwise queue any number of objects. Objects that
    were served stay: the server's sync may just have found them, and their requests are made again.
    """

    def __init__(self, client: KubeClient, cache: Cache, resource: APIResource) -> None:
        self._client = client
        self._cache = cache
        self._resource = resource

    async def remove(self, request: Key) -> None:
        """Delete the unserved objects of a request. Raises KubeError."""
        for obj in self._cache.by_index(BY_REQUEST, in_namespace(*request)):
            if not is_served(obj):
                await delete_seen(self._client, self._resource, obj)


class OrphanSweeper:
    """Sweeps over everything that was made for tenants, once a period."""

    def __init__(
        self, client: KubeClient, namespace: str, caches: Caches, settings: Callable[[], AdminSettings]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._caches = caches
        self._settings = settings

    async def reconcile(self, _key: Key) -> Result:
        """Sweep, and return when the next is due. Raises CollectionFailed after all kinds were tried."""
        period = self._settings().collection_period
        if not period:
            return DONE
        sweeps: dict[str, Callable[[], Awaitable[None]]] = {
            "secrets": self._secrets,
            "backupstoragelocations": lambda: self._sweep(
                BACKUP_STORAGE_LOCATIONS, Origin.LOCATION, NON_ADMIN_LOCATIONS
            ),
            "backups": lambda: self._sweep(BACKUPS, Origin.BACKUP, NON_ADMIN_BACKUPS),
            "restores": lambda: self._sweep(RESTORES, Origin.RESTORE, NON_ADMIN_RESTORES),
            "requests": self._requests,
        }
        failed = []
        for name, sweep in sweeps.items():
            try:
                await sweep()
            except KubeError as error:
                log.error("Could not collect orphans", resource=name, error=error)
                failed.append(name)
        if failed:
            raise CollectionFailed(f"not collected: {', '.join(failed)}")
        return Result.after(period.total_seconds())

    async def _secrets(self) -> None:
        """Sweep the Secrets, which are listed for it, as no cache keeps them."""
        for secret in await self._client.list_all(SECRETS, self._namespace, label_selector=SELECTOR):
            await self._delete_orphan(SECRETS, secret, Origin.LOCATION, NON_ADMIN_LOCATIONS)

    async def _sweep(self, resource: APIResource, origin: Origin, requests: APIResource) -> None:
        for obj in self._caches[resource].objects():
            if has_common_labels(obj):
                await self._delete_orphan(resource, obj, origin, requests)

    async def _delete_orphan(
        self, resource: APIResource, obj: JSONObject, origin: Origin, requests: APIResource
    ) -> None:
        key = origin_key(obj, origin)
        if key is None:
            log.info("Object does not name its request, left alone", object=str(Key.of(obj)))
        elif await self._is_orphan(requests, key, id_of(obj, origin)):
            await delete_seen(self._client, resource, obj)

    async def _is_orphan(self, requests: APIResource, key: Key, unique_id: str) -> bool:
        """Whether the request is gone, or has been replaced by another of the same name."""
        try:
            request = await self._client.get(requests, key.name, key.namespace)
        except NotFound as error:
            if not error.reason:
                raise  # without a reason, the cluster does not know the kind
            return True
        members = {
            NON_ADMIN_BACKUPS: "veleroBackup",
            NON_ADMIN_RESTORES: "veleroRestore",
            NON_ADMIN_LOCATIONS: "veleroBackupStorageLocation",
        }
        own_id = text(request, "status", members[requests], "nacuuid")
        return own_id not in ("", unique_id)

    async def _requests(self) -> None:
        for obj in self._caches[NON_ADMIN_LOCATION_REQUESTS].objects():
            source = [
                text(obj, "status", "nonAdminBackupStorageLocation", name) for name in ("namespace", "name")
            ]
            if (
                not self._settings().require_approval
                or not all(source)
                or await self._is_orphan(NON_ADMIN_LOCATIONS, Key(*source), id_of(obj, Origin.LOCATION))
            ):
                await delete_seen(self._client, NON_ADMIN_LOCATION_REQUESTS, obj)


async def delete_seen(client: KubeClient, resource: APIResource, obj: JSONObject) -> None:
    """Delete the very object that was seen; one that is already gone is no error. Raises KubeError."""
    key = Key.of(obj)
    try:
        await client.delete(resource, key.name, key.namespace, uid=text(obj, "metadata", "uid") or None)
    except (NotFound, Conflict):
        return
    log.info("Deleted an orphan", resource=resource.name, object=str(key))
