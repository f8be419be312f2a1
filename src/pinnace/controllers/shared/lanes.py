"""Chooses the lane of a key in its queue, so that no location and no tenant delays the others.

A location that does not answer occupies the worker that waits for it, and a tenant chooses the storage
endpoint of its own locations. So tenants and the administrator are served round robin, so are the locations
of each, and none of them may occupy all workers. (docs/adr/014)
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping
from pinnace.runtime.cache import Cache
from pinnace.runtime.keys import Key
from pinnace.runtime.queue import Lane, Share

ADMINISTRATOR: Final = ""
"""The party of all objects that were not made for a tenant."""

EXTRA_RUNS: Final = 32
"""How many Backups, or Restores, may be under way beyond those that have a worker: they wait for a store."""

_TENANTS: Final = "tenants"
_LOCATION: Final = "location/"
_UNDER_WAY: Final = " under way"
_WORKERS: Final = "workers"


LaneOf = Callable[[Key], Lane]


class Lanes:
    """Makes the lanes of the queues of one server.

    Args:
        locations: of the BackupStorageLocations.
        default_location: of Backups that name none, as long as no location is marked as the default.
    """

    def __init__(self, namespace: str, locations: Cache, *, default_location: str) -> None:
        self._namespace = namespace
        self._locations = locations
        self._default_location = default_location

    def of_backups(self, backups: Cache, workers: int) -> LaneOf:
        """The lanes of Backups that are run: each needs a worker, except while it waits for a store."""

        def lane(key: Key) -> Lane:
            backup = backups.get(key)
            return self._of_runs(self._location_of(backup), workers, _asked_by(backup, Origin.BACKUP))

        return lane

    def of_verifications(self, backups: Cache, workers: int) -> LaneOf:
        """The lanes of Backups that are verified: one at a time for each location."""

        def lane(key: Key) -> Lane:
            backup = backups.get(key)
            tenant = _asked_by(backup, Origin.BACKUP)
            return self._lane(self._location_of(backup), workers, tenant=tenant, at_once=1)

        return lane

    def of_schedules(self, schedules: Cache, workers: int, *, at_once: int) -> LaneOf:
        """The lanes of Schedules, by the location of their backups."""

        def lane(key: Key) -> Lane:
            template = {"spec": mapping(schedules.get(key), "spec", "template")}
            return self._lane(self._location_of(template), workers, at_once=at_once)

        return lane

    def of_restores(self, restores: Cache, backups: Cache, workers: int) -> LaneOf:
        """The lanes of Restores that are run. One that names a schedule counts to the default location."""

        def lane(key: Key) -> Lane:
            restore = restores.get(key)
            backup = self._backup(backups, _spec(restore, "backupName"))
            return self._of_runs(self._location_of(backup), workers, _asked_by(restore, Origin.RESTORE))

        return lane

    def of_deletions(self, requests: Cache, backups: Cache, workers: int) -> LaneOf:
        """The lanes of DeleteBackupRequests: one at a time for each location."""

        def lane(key: Key) -> Lane:
            request = requests.get(key)
            location = self._location_of(self._backup(backups, _spec(request, "backupName")))
            return self._lane(location, workers, tenant=_asked_by(request, Origin.BACKUP), at_once=1)

        return lane

    def of_downloads(self, requests: Cache, backups: Cache, restores: Cache, workers: int) -> LaneOf:
        """The lanes of DownloadRequests."""

        def lane(key: Key) -> Lane:
            request = requests.get(key)
            target = ((request or {}).get("spec") or {}).get("target") or {}
            name = str(target.get("name") or "")
            if str(target.get("kind") or "").startswith("Restore"):
                name = _spec(restores.get(Key(self._namespace, name)), "backupName")
            location = self._location_of(self._backup(backups, name))
            return self._lane(location, workers, tenant=_asked_by(request, Origin.DOWNLOAD))

        return lane

    def of_locations(self, workers: int) -> LaneOf:
        """The lanes of BackupStorageLocations."""
        return lambda key: self._lane(key.name, workers)

    def of_repositories(self, repositories: Cache, workers: int) -> LaneOf:
        """The lanes of ResticRepositories."""
        return lambda key: self._lane(_spec(repositories.get(key), "backupStorageLocation"), workers)

    def _of_runs(self, location: str, workers: int, tenant: str) -> Lane:
        """The lane of runs; one run more of each location and tenant than has a worker may be under way."""
        lane = self._lane(location, workers, tenant=tenant)
        under_way = {_TENANTS: max(1, (workers + EXTRA_RUNS) * 3 // 4)}
        return replace(
            lane,
            shares=tuple(
                Share(f"{share.name}{_UNDER_WAY}", under_way.get(str(share.name), share.limit + 1))
                for share in lane.shares
            ),
            worker_shares=(Share(_WORKERS, workers), *lane.shares),
        )

    def _lane(self, location: str, workers: int, *, tenant: str = "", at_once: int = 0) -> Lane:
        """The lane of a location and a tenant, the one that asks or that owns the location.

        Args:
            at_once: how many keys of the location are processed at once; 0 for as many as are fair.
        """
        # All workers may serve a location that is the only one: it delays no other.
        alone = len(self._locations.keys()) <= 1
        fair = workers if alone else max(1, workers - 1)
        shares = [Share(f"{_LOCATION}{location}", at_once or fair)]
        tenant = tenant or self._owner(location)
        if tenant:
            shares.append(Share(f"tenant/{tenant}", max(1, workers // 4)))
            shares.append(Share(_TENANTS, max(1, workers * 3 // 4)))
        return Lane(party=tenant or ADMINISTRATOR, name=location, shares=tuple(shares))

    def _owner(self, location: str) -> str:
        found = self._locations.get(Key(self._namespace, location))
        return _annotation(found, Origin.LOCATION.namespace_annotation)

    def _backup(self, backups: Cache, name: str) -> JSONObject | None:
        return backups.get(Key(self._namespace, name)) if name else None

    def _location_of(self, backup: JSONObject | None) -> str:
        if named := _spec(backup, "storageLocation"):
            return named
        marked = (
            str(obj["metadata"]["name"])
            for obj in self._locations.objects()
            if (obj.get("spec") or {}).get("default") is True
        )
        return next(marked, self._default_location)


def limit_text(share: Share | None) -> str:
    """Which limit keeps a run from a worker, for the text that says so; empty if all are busy."""
    name = "" if share is None else str(share.name).removesuffix(_UNDER_WAY)
    if share is None or name == _WORKERS:
        return ""
    of_location = name.removeprefix(_LOCATION)
    whom = f"location {of_location}" if of_location != name else "tenants"
    return f" for {whom} (at most {share.limit} at a time)"


def _asked_by(obj: JSONObject | None, origin: Origin) -> str:
    """The tenant whose request led to an object; empty for the administrator's."""
    return _annotation(obj, origin.namespace_annotation)


def _annotation(obj: JSONObject | None, name: str) -> str:
    return str((((obj or {}).get("metadata") or {}).get("annotations") or {}).get(name) or "")


def _spec(obj: JSONObject | None, field: str) -> str:
    return str(((obj or {}).get("spec") or {}).get(field) or "")
