"""Makes NonAdminBackups for backups that were found in storage. (docs/spec: NAC 15, 17 A14)

In a new cluster, in a namespace that was made again, or after a plain deletion, the server's own sync creates
the Backup again; this creates its request. The owner of a bucket can write anything into it: from a tenant's
location only backups of that very tenant count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.nonadmin.names import NAMESPACE_UID_ANNOTATION, SYNCED_FROM_LABEL, Origin
from pinnace.api.objects import JSONObject, listed, mapping, member, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, APIStatusError, InvalidName
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS
from pinnace.nonadmin.caches import Caches
from pinnace.nonadmin.identity import id_of, origin_key, tenant_of_location
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS, NON_ADMIN_LOCATIONS, velero_body
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.set_aside import SetAside

log = get_logger(__name__)

NAME: Final = "nonadmin-synchronizer"
KEY: Final = Key("", "synchronize")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedLocation:
    """A location that has requests made for its Backups.

    Attributes:
        own_name, tenant: name and namespace of the tenant's location; empty for a default location.
    """

    own_name: str = ""
    tenant: str = ""


class Synchronizer:
    """Compares all Backups with their requests, once a period.

    Args:
        default_location: the one that the server's flag names, which need not be marked as default.
    """

    def __init__(
        self,
        client: KubeClient,
        caches: Caches,
        lookups: Lookups,
        settings: Callable[[], AdminSettings],
        *,
        default_location: str = "",
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._client = client
        self._caches = caches
        self._lookups = lookups
        self._settings = settings
        self._default_location = default_location
        self._clock = clock
        self._reported: set[tuple[Key, str]] = set()
        self._refused: SetAside[Key] = SetAside()
        self._forged: SetAside[Key] = SetAside()

    async def reconcile(self, _key: Key) -> Result:
        """Make the missing requests, and return when to look again. Raises KubeError: the API server is away.

        A request that the API server refuses is set aside and delays no other: the owner of a bucket can
        have written its content.
        """
        period = self._settings().sync_period
        if not period:
            return DONE
        locations = await self._watched_locations()
        present: dict[str, str] = {}
        now, seen = self._clock.now(), set()
        backups = self._caches[BACKUPS].objects()
        for non_admin_backup, former in wanted_requests(backups, locations, self._report_forged):
            key = Key.of(non_admin_backup)
            seen.add(key)
            if self._refused.waits(key, now):
                continue
            if key.namespace not in present:
                present[key.namespace] = await self._lookups.namespace_uid(key.namespace)
            if not present[key.namespace] or await self._lookups.named(NON_ADMIN_BACKUPS, *key) is not None:
                continue
            if former and self._is_held_back(non_admin_backup, former, present[key.namespace]):
                continue
            await self._create(non_admin_backup)
        self._refused.keep_only(seen)
        return Result.after(period.total_seconds())

    def _report_forged(self, backup: Key) -> None:
        """Log a forged Backup, but not in each round."""
        if self._forged.put(backup, self._clock.now()):
            log.warning("Backup claims to be another tenant's, left alone", backup=backup.name)

    def _is_held_back(self, non_admin_backup: JSONObject, former: str, present: str) -> bool:
        """Whether a backup needs the administrator's consent to be handed over; logged once. (NAC 17 A29)"""
        key = Key.of(non_admin_backup)
        if self._settings().hands_over(key.namespace, former, present):
            self._reported.discard((key, present))
            return False
        if (key, present) not in self._reported:
            self._reported.add((key, present))
            log.warning(
                "Backup is of a former namespace of that name, held back: see adoptFormerNamespaces",
                object=str(key),
                formerUID=former,
                uid=present,
            )
        return True

    async def _create(self, non_admin_backup: JSONObject) -> None:
        key = Key.of(non_admin_backup)
        try:
            await self._client.create(NON_ADMIN_BACKUPS, non_admin_backup, key.namespace)
        except AlreadyExists:
            return
        except (APIStatusError, InvalidName) as error:
            if self._refused.put(key, self._clock.now()):
                log.warning("Could not make the request of a stored backup", object=str(key), error=error)
            return
        self._refused.forget(key)
        log.info("Made a request for a backup found in storage", object=str(key))

    async def _watched_locations(self) -> dict[str, WatchedLocation]:
        """The watched locations by name: default ones, and those of tenants whose request still exists."""
        watched = {}
        for location in self._caches[BACKUP_STORAGE_LOCATIONS].objects():
            name, owner = Key.of(location).name, origin_key(location, Origin.LOCATION)
            if owner is not None:
                if await self._lookups.named(NON_ADMIN_LOCATIONS, *owner) is not None:
                    watched[name] = WatchedLocation(own_name=owner.name, tenant=owner.namespace)
            elif tenant_of_location(location):
                log.warning(
                    "Location of a tenant lacks labels or annotations of its owner, left alone",
                    backupLocation=name,
                )
            elif member(location, "spec", "default") is True or name == self._default_location:
                watched[name] = WatchedLocation()
        return watched


def wanted_requests(
    backups: Iterable[JSONObject],
    locations: Mapping[str, WatchedLocation],
    report_forged: Callable[[Key], None],
) -> Iterable[tuple[JSONObject, str]]:
    """The requests of all finished Backups of tenants in those locations, including those that exist.

    With each comes the uid of the namespace that was backed up; empty where it does not matter.

    Args:
        report_forged: called with each Backup that claims to be another tenant's; those are left alone.
    """
    for backup in backups:
        key, location = (
            origin_key(backup, Origin.BACKUP),
            locations.get(text(backup, "spec", "storageLocation")),
        )
        if key is None or location is None or not text(backup, "status", "completionTimestamp"):
            continue
        if is_forged(backup, location.tenant):
            report_forged(Key.of(backup))
            continue
        spec = {name: value for name, value in mapping(backup, "spec").items() if name != "storageLocation"}
        if location.own_name:
            spec["storageLocation"] = location.own_name
        own_labels = {SYNCED_FROM_LABEL: id_of(backup, Origin.BACKUP)}
        metadata = {"name": key.name, "namespace": key.namespace, "labels": own_labels}
        former = "" if location.tenant else text(backup, "metadata", "annotations", NAMESPACE_UID_ANNOTATION)
        yield velero_body(NON_ADMIN_BACKUPS, metadata, {"backupSpec": spec}), former


def is_forged(backup: JSONObject, tenant: str) -> bool:
    """Whether a Backup of a tenant's location claims to be another tenant's. (docs/spec: NAC 17 A14)"""
    key = origin_key(backup, Origin.BACKUP)
    return bool(tenant) and (
        key is None
        or key.namespace != tenant
        or Key.of(backup).name != id_of(backup, Origin.BACKUP)
        or listed(backup, "spec", "includedNamespaces") != [tenant]
    )
