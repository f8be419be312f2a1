"""One pass over one location: backups that the cluster lacks are created, orphans are deleted.

    which Backups are Completed ──> list directories ──> create what is missing ──> delete orphans ──> status
                                        └ failed: nothing happens

A backup that cannot be read, or that the API server refuses, is left out, reported once, and harms no other.
Nothing in the location is changed, and no object that exists is touched. Companions of a Backup
(PodVolumeBackups, CSI snapshot contents) that could not be created are owed until a later pass; after a
restart the companions of all Backups that were found in the location are owed. So a pass can be stopped
anywhere. (docs/spec: CTL 7, STO 17)
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject
from pinnace.api.values.counts import first_names
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there, patch_status
from pinnace.controllers.sync.synced import (
    MAX_POD_VOLUME_BACKUPS,
    NotSynced,
    SyncedLocation,
    Unfinished,
    backup_object,
    is_found_in_location,
    pod_volume_backup_object,
)
from pinnace.csi.snapshots import FEATURE, CSIError
from pinnace.kube.errors import AlreadyExists, BadRequest, Invalid, InvalidName, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, POD_VOLUME_BACKUPS
from pinnace.operations.snapshots import create_contents
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.set_aside import SetAside
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.checked_files import SignatureRefused
from pinnace.storage.documents import StoredObjects
from pinnace.storage.errors import ObjectNotFound, StorageError, UnreadableObject
from pinnace.storage.key_errors import NOT_OPENED

log = get_logger(__name__)


AT_ONCE: Final = 4
"""Backups in flight; each may take the largest metadata file into memory."""

MAX_BACKUPS_OF_TENANT: Final = 1_000
"""Made known from one location of a tenant. Its owner can write any number of files, and each would be an
object of the cluster, in the memory of every server. (docs/spec: NAC 17 A14)"""

METADATA_CHECK: Final = timedelta(hours=1)
"""How often directories of known backups are checked for their metadata: a request for each."""

LONGEST_REASON: Final = 500
"""An API server's refusal may repeat what it refuses."""

LONGEST_NAME: Final = 253
_NAMED: Final = 10
"""How many backups one line of the log names."""
LEFT_OUT: Final = "Backup is not, or not wholly, made known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caches:
    """Informers of the objects that a pass looks up, so that it need not ask the API server for them."""

    backups: Informer
    schedules: Informer


@dataclass(slots=True)
class LocationMemory:
    """The memory of a location between passes; of no use once the location is in another place.

    Attributes:
        place: the place that the location stood for. (`volumes.repository_places`)
        owed: backups whose companions may not be there yet; None if nothing is known of them.
        told: the reported reason for each backup that was left out.
        checked: when directories of known backups were last checked.
        set_aside: directories of a tenant's location that hold no backup that can be made known.
        refused: the version of each metadata file that was refused, and why; it is not read again.
    """

    place: str = ""
    owed: set[str] | None = None
    told: dict[str, str] = field(default_factory=dict)
    checked: datetime | None = None
    set_aside: SetAside[str] = field(default_factory=SetAside)
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)


class LocationSync:
    """One pass. An error ends it; the next pass starts from the beginning."""

    def __init__(
        self,
        scope: Scope,
        caches: Caches,
        location: BackupStorageLocation,
        store: BackupStore,
        memory: LocationMemory,
    ) -> None:
        self._scope = scope
        self._caches = caches
        self._location = location.metadata.name
        self._tenant = tenant_of(location.metadata)
        self._store = store
        self._memory = memory
        self._owed = set() if memory.owed is None else memory.owed
        self._left_out: dict[str, str] = {}
        self._not_opened: list[str] = []
        self._found_in = SyncedLocation(
            name=self._location,
            namespace=scope.namespace,
            schedule_uid=self._schedule_uid,
            tenant=self._tenant,
        )

    async def run(self) -> None:
        """Sync, and note it in the status of the location.

        Raises:
            StorageError, KubeError: the location cannot be listed, or the status not be written.
        """
        # Before the listing: a backup that was Completed by then has its files. (docs/spec: CTL 7)
        known = self._of_location()
        if self._memory.owed is None:
            found = (name for name, backup in known.items() if is_found_in_location(backup))
            self._owed.update(found)
        self._memory.owed = self._owed
        listed = await self._store.list_backups()
        self._owed.intersection_update({*known, *listed})
        owed = sorted(self._owed & known.keys())
        await self._create_missing(listed, len(known))
        await self._pay(owed, known)
        if self._not_opened:
            log.info(
                "Backups are encrypted: their volumes are not made known, and restores and deletions read the"
                " location",
                backups=first_names(sorted(self._not_opened), _NAMED),
            )
        completed = [name for name, backup in known.items() if backup.status.phase in phases.FINISHED]
        await self._delete_orphans(await self._orphans(completed, set(listed)))
        self._memory.told = self._left_out
        status = {"lastSyncedTime": format_time(self._scope.clock.now())}
        key = Key(self._scope.namespace, self._location)
        await patch_status(self._scope, BACKUP_STORAGE_LOCATIONS, key, status)

    def _of_location(self) -> Mapping[str, Backup]:
        """The Backups with the location's label, by name."""
        found = {}
        for obj in self._caches.backups.objects():
            if _is_of_location(obj, self._location):
                try:
                    found[Key.of(obj).name] = decode(Backup, obj)
                except DecodeError as error:
                    log.debug("Backup cannot be read", backup=str(Key.of(obj)), error=error)
        return found

    # --- What is missing --------------------------------------------------------------------------------

    async def _create_missing(self, listed: Iterable[str], known: int) -> None:
        aside, now = self._memory.set_aside, self._scope.clock.now()
        aside.keep_only(set(listed))
        gone = self._memory.refused.keys() - set(listed)
        for name in gone:
            del self._memory.refused[name]
        missing = [
            name
            for name in listed
            if self._caches.backups.get(self._key(name)) is None and not aside.waits(name, now)
        ]
        # Those that were never looked at come first: a tenant's own do not wait behind rubbish.
        missing.sort(key=aside.__contains__)
        room = max(MAX_BACKUPS_OF_TENANT - known, 0)
        if self._tenant and len(missing) > room:
            self._leave_out(self._location, f"a tenant's location holds more than {MAX_BACKUPS_OF_TENANT}")
            missing = missing[:room]
        await _each(missing, self._create)

    async def _create(self, name: str) -> None:
        namespace = self._scope.namespace
        version = ""
        try:
            if name in self._memory.told or name in self._memory.set_aside:
                # Asked before the file is read: one that changes meanwhile is read once more.
                version = await self._store.metadata_version(name)
                refused, reason = self._memory.refused.get(name, ("", ""))
                if version and version == refused:
                    self._set_aside(name, reason)
                    return
            body = backup_object(
                await self._store.get_metadata(name),
                name=name,
                found_in=self._found_in,
                now=self._scope.clock.now(),
            )
            # Noted before the request, as this may be cancelled anywhere.
            self._owed.add(name)
            created = await self._scope.client.create(BACKUPS, body, namespace)
        except ObjectNotFound:
            return  # no backup: being written or deleted, or left over from one that failed
        except AlreadyExists:
            self._owed.discard(name)
            return
        except (NotSynced, UnreadableObject, Invalid, BadRequest, InvalidName) as error:
            # A signature that is refused may be trusted later, though the metadata stays as it is.
            passing = Unfinished | SignatureRefused
            if isinstance(error, NotSynced | UnreadableObject) and not isinstance(error, passing):
                self._memory.refused[name] = version, str(error)
            self._set_aside(name, str(error))
            return
        except (StorageError, KubeError) as error:
            self._leave_out(name, str(error))
            return
        self._memory.set_aside.forget(name)
        log.info("Found a backup in the location", backup=name)
        await self._create_companions(name, created["metadata"]["uid"], have=())

    def _schedule_uid(self, name: str) -> str | None:
        schedule = self._caches.schedules.get(self._key(name))
        return None if schedule is None else schedule["metadata"]["uid"]

    # --- What belongs to it -----------------------------------------------------------------------------

    async def _pay(self, owed: Collection[str], known: Mapping[str, Backup]) -> None:
        if not owed:
            return
        alive = {obj["metadata"]["uid"] for obj in self._caches.backups.objects()}
        listed = await self._scope.client.list_all(POD_VOLUME_BACKUPS, self._scope.namespace)
        # The cluster is about to collect the companions of a deleted Backup: they have to be made again.
        have = {obj["metadata"]["name"] for obj in listed if _owner_uid(obj) in {"", *alive}}

        async def pay(name: str) -> None:
            await self._create_companions(name, known[name].metadata.uid, have=have)

        await _each(owed, pay)

    async def _create_companions(self, backup: str, uid: str, *, have: Collection[str]) -> None:
        """Create the PodVolumeBackups and, with the feature on, the contents of CSI snapshots.

        No other kind is taken from a bucket, and no content from a tenant's. (docs/spec: CTL 7, NAC A35)
        None are made of an encrypted backup that is not opened here: its plain list has no names. (ADR 124)
        """
        try:
            stored = await self._store.read_pod_volume_backups(backup)
        except NOT_OPENED:
            self._not_opened.append(backup)
            self._owed.discard(backup)
            return
        except UnreadableObject as error:
            self._leave_out(backup, str(error))
            self._owed.discard(backup)
            return
        except StorageError as error:
            self._leave_out(backup, str(error))
            return
        if len(stored) > MAX_POD_VOLUME_BACKUPS:
            self._leave_out(backup, f"more than {MAX_POD_VOLUME_BACKUPS} pod volume backups")
            stored = StoredObjects()
        complete = [await self._create_companion(each, backup, uid, have) for each in stored]
        if FEATURE in self._scope.features and not self._tenant:
            complete.append(await self._create_contents(backup))
        if all(complete):
            self._owed.discard(backup)

    async def _create_contents(self, backup: str) -> bool:
        """Make the CSI snapshots known, to be deleted with the backup; return whether that is done."""
        try:
            problems = await create_contents(self._scope.client, self._store, backup)
        except (StorageError, KubeError, CSIError) as error:
            self._leave_out(backup, f"its CSI snapshots: {error}")
            return isinstance(error, UnreadableObject)
        for problem in problems:
            self._leave_out(backup, f"a CSI snapshot: {problem}")
        return True

    async def _create_companion(self, raw: JSONObject, backup: str, uid: str, have: Collection[str]) -> bool:
        """Create one PodVolumeBackup; return whether nothing is left to do for it."""
        namespace = self._scope.namespace
        try:
            name, body = pod_volume_backup_object(
                raw,
                backup=backup,
                backup_uid=uid,
                location=self._location,
                namespace=namespace,
                tenant=self._tenant,
            )
            if name not in have:
                await self._scope.client.create(POD_VOLUME_BACKUPS, body, namespace)
        except AlreadyExists:
            return False  # the next pass finds out which Backup it belongs to
        except (NotSynced, Invalid, BadRequest) as error:
            self._leave_out(backup, f"a pod volume backup: {error}")
            return True
        except KubeError as error:
            self._leave_out(backup, f"a pod volume backup: {error}")
            return False
        return True

    # --- What is no longer there ------------------------------------------------------------------------

    async def _orphans(self, completed: Collection[str], listed: set[str]) -> Collection[str]:
        """The backups without metadata. Those not listed are checked at once, the others every hour.

        A list alone, which may be late or cut by a faulty store, takes no Backup away. (docs/adr/007)
        """
        now, checked = self._scope.clock.now(), self._memory.checked
        all_due = checked is None or not checked <= now < checked + METADATA_CHECK
        absent: list[str] = []

        async def check(name: str) -> None:
            try:
                if not await self._store.exists(name):
                    absent.append(name)
            except StorageError as error:
                self._leave_out(name, str(error))

        await _each([name for name in completed if all_due or name not in listed], check)
        if all_due:
            self._memory.checked = now
        return absent

    async def _delete_orphans(self, orphans: Collection[str]) -> None:
        for name in orphans:
            try:
                await self._delete_orphan(self._key(name))
            except KubeError as error:
                log.error("Error deleting an orphaned backup", backup=name, error=error)

    async def _delete_orphan(self, key: Key) -> None:
        try:
            obj = await self._scope.client.get(BACKUPS, key.name, key.namespace)
        except NotFound:
            return
        status = obj.get("status") or {}
        if status.get("phase") in phases.FINISHED and _is_of_location(obj, self._location):
            await delete_if_there(self._scope.client, BACKUPS, key, uid=obj["metadata"]["uid"])
            log.info("Deleted a Backup that is no longer in the location", backup=key.name)

    def _set_aside(self, backup: str, reason: str) -> None:
        """Leave out a backup that cannot be used as it is: in a tenant's location, for longer each time."""
        self._owed.discard(backup)
        if not self._tenant:
            self._leave_out(backup, reason)
        elif self._memory.set_aside.put(backup, self._scope.clock.now()):
            log.warning(LEFT_OUT, backup=backup[:LONGEST_NAME], reason=reason[:LONGEST_REASON])

    def _leave_out(self, backup: str, reason: str) -> None:
        """Report why something of a backup is not made known: one reason, and not again with each pass."""
        reason = reason[:LONGEST_REASON]
        if backup not in self._left_out and self._memory.told.get(backup) != reason:
            log.warning(LEFT_OUT, backup=backup[:LONGEST_NAME], reason=reason)
        self._left_out.setdefault(backup, reason)

    def _key(self, name: str) -> Key:
        return Key(self._scope.namespace, name)


def _is_of_location(obj: JSONObject, location: str) -> bool:
    own_labels = obj["metadata"].get("labels") or {}
    return own_labels.get(labels.STORAGE_LOCATION) == labels.label_value(location)


def _owner_uid(obj: JSONObject) -> str:
    own_labels = obj["metadata"].get("labels") or {}
    return str(own_labels.get(labels.BACKUP_UID) or "")


async def _each(names: Iterable[str], work: Callable[[str], Awaitable[None]]) -> None:
    """Do something with each, a few at a time. Only for work that ends its errors itself."""
    left = iter(names)

    async def worker() -> None:
        for name in left:
            await work(name)

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())
