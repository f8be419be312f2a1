"""The caches that flows look objects up in, with indexes: an event costs no list, however many objects exist.

A cache may lag. An object that it has is good enough to continue with, as every write is checked; an object
that it lacks is asked for at the API server before anything is done about that.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.api import labels
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, text
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    DELETE_BACKUP_REQUESTS,
    DOWNLOAD_REQUESTS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTORES,
    APIResource,
)
from pinnace.nonadmin.flows.limits import is_waiting
from pinnace.nonadmin.identity import id_of, origin_key
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.specs.restore import wanted_backup
from pinnace.runtime.cache import Cache, IndexFunction

BY_ID: Final = "id"
BY_REQUEST: Final = "request"
BY_BACKUP: Final = "backup"
BY_RESTORE: Final = "restore"
BY_LOCATION: Final = "location"
BY_TARGET: Final = "target"
BY_WAITING: Final = "waiting"
BY_NAMESPACE: Final = "namespace"


Caches = Mapping[APIResource, Cache]


def in_namespace(namespace: str, name: str) -> str:
    """The index value of a name within a namespace."""
    return f"{namespace}/{name}"


def _id(origin: Origin) -> IndexFunction:
    def values(obj: JSONObject) -> Iterable[str]:
        return _present(id_of(obj, origin))

    return values


def _request(origin: Origin) -> IndexFunction:
    def values(obj: JSONObject) -> Iterable[str]:
        key = origin_key(obj, origin)
        return [] if key is None else [in_namespace(*key)]

    return values


def _label(name: str) -> IndexFunction:
    def values(obj: JSONObject) -> Iterable[str]:
        return _present(text(obj, "metadata", "labels", name))

    return values


def _within(name_of: Callable[[JSONObject], str]) -> IndexFunction:
    def values(obj: JSONObject) -> Iterable[str]:
        name = name_of(obj)
        return [in_namespace(text(obj, "metadata", "namespace"), name)] if name else []

    return values


def _present(value: str) -> Iterable[str]:
    return [value] if value else []


def _namespace(request: JSONObject) -> Iterable[str]:
    return [text(request, "metadata", "namespace")]


def _waiting(request: JSONObject) -> Iterable[str]:
    return [text(request, "metadata", "namespace")] if is_waiting(request) else []


def storage_location(non_admin_backup: JSONObject) -> str:
    """The name of the NonAdminBackupStorageLocation that a request is for."""
    return text(non_admin_backup, "spec", "backupSpec", "storageLocation")


def download_target(non_admin_download: JSONObject) -> str:
    """The name of the request that a NonAdminDownloadRequest is about."""
    return text(non_admin_download, "spec", "target", "name")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cached:
    """One kind that is cached, from all namespaces or from the server's only."""

    resource: APIResource
    everywhere: bool = False
    indexes: Mapping[str, IndexFunction]


CACHED: Final = (
    Cached(
        resource=NON_ADMIN_BACKUPS,
        everywhere=True,
        indexes={BY_LOCATION: _within(storage_location), BY_WAITING: _waiting},
    ),
    Cached(
        resource=NON_ADMIN_RESTORES,
        everywhere=True,
        indexes={BY_BACKUP: _within(wanted_backup), BY_WAITING: _waiting},
    ),
    Cached(resource=NON_ADMIN_LOCATIONS, everywhere=True, indexes={BY_NAMESPACE: _namespace}),
    Cached(resource=NON_ADMIN_DOWNLOADS, everywhere=True, indexes={BY_TARGET: _within(download_target)}),
    Cached(resource=NON_ADMIN_LOCATION_REQUESTS, indexes={BY_ID: _id(Origin.LOCATION)}),
    Cached(resource=BACKUPS, indexes={BY_ID: _id(Origin.BACKUP), BY_REQUEST: _request(Origin.BACKUP)}),
    Cached(resource=RESTORES, indexes={BY_ID: _id(Origin.RESTORE), BY_REQUEST: _request(Origin.RESTORE)}),
    Cached(resource=BACKUP_STORAGE_LOCATIONS, indexes={BY_ID: _id(Origin.LOCATION)}),
    Cached(resource=DELETE_BACKUP_REQUESTS, indexes={BY_BACKUP: _label(labels.BACKUP_NAME)}),
    Cached(resource=DOWNLOAD_REQUESTS, indexes={}),
    Cached(resource=POD_VOLUME_BACKUPS, indexes={BY_BACKUP: _label(labels.BACKUP_NAME)}),
    Cached(resource=POD_VOLUME_RESTORES, indexes={BY_RESTORE: _label(labels.RESTORE_NAME)}),
    Cached(resource=DATA_UPLOADS, indexes={BY_BACKUP: _label(labels.BACKUP_NAME)}),
    Cached(resource=DATA_DOWNLOADS, indexes={BY_RESTORE: _label(labels.RESTORE_NAME)}),
)
