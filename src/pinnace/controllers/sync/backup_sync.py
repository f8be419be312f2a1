"""The BackupSync controller: makes the backups of all locations known to the cluster. (docs/spec: CTL 7)

Each location is synced when it is due, and a location that cannot be opened, or is slow, does not delay the
others: locations are synced side by side. Where two hold backups of one name, the default location comes
first, then the administrator's others, then those of tenants; a slow one loses that right after a while. A
tenant's store may be slow on purpose: the locations of all tenants are synced at once, and together for less
time than one location of the administrator may take. The sync of one location is in `location`.
"""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.values.durations import Duration
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationPhase
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.sync.location import Caches, LocationMemory, LocationSync
from pinnace.controllers.sync.synced import effective_period, in_order, is_due
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, SCHEDULES
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import StorageError
from pinnace.volumes.repository_places import place_of

log = get_logger(__name__)

NAME: Final = "backup-sync"
PERIOD_SECONDS: Final = 30.0
"""How often to look for locations that are due, counted from the end of the last round."""

LOCATION_SECONDS: Final = 300.0
"""The limit for one location; the next pass goes on where this one stopped."""

UNAVAILABLE_SECONDS: Final = 30.0
"""The limit for a location that is Unavailable; the next round of all others waits for it."""

HEAD_START_SECONDS: Final = 15.0
"""How long the default location, and then the administrator's others, may delay the locations after them."""

AT_ONCE: Final = 8
"""Locations of the administrator that are synced side by side."""

TENANTS_SECONDS: Final = 120.0
"""The limit for all tenants' locations together; those that waited longest come first."""

TENANT_SECONDS: Final = 30.0
"""The limit for all locations of one tenant in a round; the next round of all others waits for that one."""

TENANT_LOCATION_SECONDS: Final = 15.0
TENANTS_AT_ONCE: Final = 16


class BackupSync:
    """Keeps the Backups of the cluster in step with the locations.

    Args:
        locations: the BackupStorageLocations.
        caches: the other objects that are looked up.
        default_location: synced first, until a location is marked as the default.
        period: how often a location without a period of its own is synced.
    """

    def __init__(
        self,
        scope: Scope,
        stores: LocationStores,
        *,
        locations: Informer,
        caches: Caches,
        default_location: str,
        period: Duration,
    ) -> None:
        self._scope = scope
        self._stores = stores
        self._locations = locations
        self._caches = caches
        self._default = default_location
        self._period = period
        self._memories: dict[str, LocationMemory] = {}
        self._rounds = 0
        self._last_round: dict[str, int] = {}

    async def run(self) -> None:
        """Sync the locations that are due."""
        locations = self._in_order()
        if not locations:
            log.error("There is no backup storage location to sync")
        places = {location.metadata.name: place_of(encode(location)) for location in locations}
        names = places.keys()
        moved = {name for name, memory in self._memories.items() if memory.place != places.get(name)}
        self._memories = {name: memory for name, memory in self._memories.items() if name not in moved}
        self._last_round = {name: number for name, number in self._last_round.items() if name in names}
        self._rounds += 1
        for name, place in places.items():
            self._memories.setdefault(name, LocationMemory(place=place))
        due = [each for each in locations if each.metadata.name in moved or self._is_due(each)]
        own = [location for location in due if not tenant_of(location.metadata)]
        of_tenants = defaultdict(list)
        for location in due:
            if tenant := tenant_of(location.metadata):
                of_tenants[tenant].append(location)
        async with asyncio.TaskGroup() as group:
            first = 1 if own and own[0].metadata.name == self._default else 0
            await self._begin(group, own[:first])
            await self._begin(group, own[first:])
            await self._sync_tenants([sorted(each, key=self._turn) for each in of_tenants.values()])

    async def _begin(self, group: asyncio.TaskGroup, locations: Sequence[BackupStorageLocation]) -> None:
        """Begin to sync locations of the administrator; returns when those that come after may begin."""
        left = iter(locations)

        async def worker() -> None:
            for location in left:
                unavailable = location.status.phase == BackupStorageLocationPhase.UNAVAILABLE
                await self._sync(location, UNAVAILABLE_SECONDS if unavailable else LOCATION_SECONDS)

        workers = [group.create_task(worker()) for _ in range(min(AT_ONCE, len(locations)))]
        if workers:
            await asyncio.wait(workers, timeout=HEAD_START_SECONDS)

    async def _sync_tenants(self, tenants: Sequence[Sequence[BackupStorageLocation]]) -> None:
        """Sync the locations of several tenants, one of each at a time."""
        left = iter(sorted(tenants, key=lambda locations: _longest_ago(locations[0])))

        async def worker() -> None:
            for locations in left:
                try:
                    async with asyncio.timeout(TENANT_SECONDS):
                        await self._sync_tenant(locations)
                except TimeoutError:
                    tenant = tenant_of(locations[0].metadata)
                    log.warning("Syncing the locations of a tenant takes long, goes on later", tenant=tenant)

        try:
            async with asyncio.timeout(TENANTS_SECONDS), asyncio.TaskGroup() as group:
                for _ in range(min(TENANTS_AT_ONCE, len(tenants))):
                    group.create_task(worker())
        except TimeoutError:
            log.warning("Syncing the backups of tenants' locations takes long and will be continued")

    async def _sync_tenant(self, locations: Sequence[BackupStorageLocation]) -> None:
        for location in locations:
            self._last_round[location.metadata.name] = self._rounds
            await self._sync(location, TENANT_LOCATION_SECONDS)

    def _turn(self, location: BackupStorageLocation) -> tuple[int, datetime]:
        """The sort key for locations of one tenant: those not tried for longest come first."""
        return self._last_round.get(location.metadata.name, 0), _longest_ago(location)

    def _is_due(self, location: BackupStorageLocation) -> bool:
        period = effective_period(location.spec.backup_sync_period, self._period)
        return is_due(location.status.last_synced_time, period, self._scope.clock.now())

    async def _sync(self, location: BackupStorageLocation, limit_seconds: float) -> None:
        with bound_fields(backupLocation=location.metadata.name):
            await self._sync_bound(location, limit_seconds)

    async def _sync_bound(self, location: BackupStorageLocation, limit_seconds: float) -> None:
        memory = self._memories[location.metadata.name]
        try:
            async with asyncio.timeout(limit_seconds), self._stores.open_location(location) as store:
                await LocationSync(self._scope, self._caches, location, store, memory).run()
        except (StorageError, KubeError) as error:
            log.error("Error syncing the backups of a location, will be tried again", error=error)
        except TimeoutError:
            log.warning("Syncing the backups of a location takes long and will be continued")

    def _in_order(self) -> Sequence[BackupStorageLocation]:
        """All locations that can be read, the default one first. (docs/spec: STO 13)"""
        locations = []
        for obj in self._locations.objects():
            try:
                locations.append(decode(BackupStorageLocation, obj))
            except DecodeError as error:
                # Its status says so, by the BackupStorageLocation controller.
                log.debug("Location cannot be read", error=error)
        marked = (each.metadata.name for each in in_order(locations, "") if each.spec.default)
        self._default = next(marked, self._default)
        return in_order(locations, self._default)


def _longest_ago(location: BackupStorageLocation) -> datetime:
    """The sort key of a location; those that were never synced come first."""
    return location.status.last_synced_time or datetime.min.replace(tzinfo=UTC)


def controller(parts: Parts) -> Controller:
    """The BackupSync controller of a server."""
    locations = parts.informers.of(BACKUP_STORAGE_LOCATIONS)
    caches = Caches(backups=parts.informers.of(BACKUPS), schedules=parts.informers.of(SCHEDULES))
    sync = BackupSync(
        parts.scope,
        parts.locations,
        locations=locations,
        caches=caches,
        default_location=parts.options.defaults.storage_location,
        period=parts.options.backup_sync_period,
    )
    made = Controller(NAME, resync=Resync(sync.run, PERIOD_SECONDS), clock=parts.scope.clock)
    made.wait_for(locations, caches.backups, caches.schedules)
    return made
