"""Whether a location can be used now, asked before a worker is spent on it. (docs/adr/014)

A location that is Unavailable, that a tenant owns, or where work has just failed gets a short look: its phase
may be a minute old. What a look has found wrong holds for half a minute, so that a hundred backups to one
location that is down cost one look and not a hundred.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationPhase
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.errors import KubeError
from pinnace.storage.errors import StorageError

LOOK_SECONDS: Final = 10.0
"""The limit of one look."""

BELIEVED_SECONDS: Final = 30.0
"""How long a problem that a look found is believed."""

SUSPECT_SECONDS: Final = 600.0
"""How long after a failure a location is looked at before work."""


@dataclass(slots=True)
class _Known:
    """The last answers of one location to this process; times are of the monotonic clock."""

    looked_at: object = None
    problem: str = ""
    believed_until: float = 0.0
    suspect_until: float = 0.0
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)


class Availability:
    """Says why locations cannot be used.

    Args:
        clock: for how long a look is believed.
    """

    def __init__(self, locations: LocationStores, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._locations = locations
        self._clock = clock
        self._known: dict[str, _Known] = {}

    async def problem(self, location: BackupStorageLocation) -> str:
        """Why the location cannot be used now; empty if it can, as far as is known."""
        known = self._of(location.metadata.name)
        unavailable = location.status.phase == BackupStorageLocationPhase.UNAVAILABLE
        suspect = self._clock.monotonic() < known.suspect_until
        if not (unavailable or suspect or tenant_of(location.metadata)):
            return ""
        async with known.looking:
            looked_at = (location.metadata.uid, location.spec)
            if known.looked_at == looked_at and self._clock.monotonic() < known.believed_until:
                return known.problem
            known.problem = await self._look(location)
            known.looked_at = looked_at
            known.believed_until = self._clock.monotonic() + BELIEVED_SECONDS if known.problem else 0.0
            return known.problem

    def worked(self, location: str, *, well: bool) -> None:
        """Note how work at a location ended: after a failure, the next work is preceded by a look."""
        self._of(location).suspect_until = 0.0 if well else self._clock.monotonic() + SUSPECT_SECONDS

    def _of(self, location: str) -> _Known:
        if location not in self._known:
            now = self._clock.monotonic()
            self._known = {
                name: known
                for name, known in self._known.items()
                if known.looking.locked() or now < max(known.believed_until, known.suspect_until)
            }
            self._known[location] = _Known()
        return self._known[location]

    async def _look(self, location: BackupStorageLocation) -> str:
        try:
            async with asyncio.timeout(LOOK_SECONDS), self._locations.open_location(location) as store:
                await store.validate()
        except TimeoutError:
            return f"it did not answer within {LOOK_SECONDS:g} seconds"
        except (StorageError, KubeError) as error:
            return str(error) or type(error).__name__
        return ""
