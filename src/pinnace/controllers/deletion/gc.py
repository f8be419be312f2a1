"""The GC controller: asks for the deletion of Backups that have expired. (docs/spec: CTL 5)

It deletes nothing itself. A Backup whose deletion ended with errors is asked for again with the next pass
over all Backups; that is the only automatic retry of a deletion. Nothing expires while our clock and the API
server's differ: a deletion cannot be undone.
"""

from collections.abc import Callable, Container
from datetime import datetime
from typing import Final

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.velero.backup import Backup
from pinnace.controllers.deletion.asking import ask_for_deletion, asking_controller, location_obstacle
from pinnace.controllers.shared.clocks import clock_doubt
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import StorageError

log = get_logger(__name__)

NAME: Final = "gc"


class GCReconciler:
    """Creates a DeleteBackupRequest for each Backup that has expired, unless one is being worked on.

    Args:
        informer: the Backups.
        locations: open the location of a backup, which may have a hold beside it.
        running: keys of the backups that this process is making.
        enqueue: adds a key to the work queue.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        informer: Informer,
        *,
        running: Container[Key],
        enqueue: Callable[[Key], None],
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._informer = informer
        self._running = running
        self._enqueue = enqueue
        self._doubt = ""

    def is_due(self, obj: JSONObject) -> bool:
        """Whether a Backup has expired by its cached state; most changes of Backups need no reconcile."""
        try:
            return _is_expired(decode(Backup, obj), self._scope.clock.now())
        except DecodeError:
            return False

    async def enqueue_expired(self) -> None:
        """Queue all Backups that have expired by the cache. Makes no request."""
        for obj in self._informer.objects():
            if self.is_due(obj):
                self._enqueue(Key.of(obj))

    async def reconcile(self, key: Key) -> Result:
        """One pass over one Backup, whatever its phase."""
        try:
            obj = await self._scope.client.get(BACKUPS, key.name, key.namespace)
            backup = decode(Backup, obj)
        except NotFound:
            return DONE
        except DecodeError as error:
            log.warning("Backup cannot be read and does not expire", error=error)
            return DONE
        # A running Backup is queued again by the update that ends it.
        runs = backup.status.phase == BackupPhase.IN_PROGRESS and key in self._running
        if runs or not _is_expired(backup, self._scope.clock.now()) or self._is_doubtful():
            return DONE
        with bound_fields(backup=str(key)):
            if await self._is_deletable(backup):
                await self._ask(obj, backup)
        return DONE

    def _is_doubtful(self) -> bool:
        """Whether the clocks differ too much, which is logged when it begins and ends."""
        former, self._doubt = self._doubt, clock_doubt(self._scope.client)
        if self._doubt and not former:
            log.warning("Backups that have expired are kept for now", reason=self._doubt)
        elif former and not self._doubt:
            log.info("Backups expire again: the clocks agree")
        return bool(self._doubt)

    async def _is_deletable(self, backup: Backup) -> bool:
        """Whether the location allows it; a backup that never began is in none. (docs/spec: CTL 6.6)

        What keeps a backup is logged once, and looked at again with the next pass over all Backups. Raises
        the errors that pass.
        """
        if backup.status.start_timestamp is None:
            return True
        name = backup.spec.storage_location
        found = await location_obstacle(self._scope.client, self._scope.namespace, name)
        if await self._note(backup, found.label if found else None) and found:
            (log.info if found.is_wanted else log.warning)(
                f"Backup has expired, but {found.reason}", location=name
            )
        return found is None

    async def _ask(self, obj: JSONObject, backup: Backup) -> None:
        """Ask for the deletion unless a hold keeps the backup. A location that cannot be read is left to the
        deletion, which asks it again and says in its request what it waits for.
        """
        if backup.status.start_timestamp is not None:
            try:
                async with self._locations.open(backup.spec.storage_location) as store:
                    await ask_for_deletion(self._scope, obj, store, RemovalReason.EXPIRY)
                    return
            except StorageError as error:
                log.debug("Location of an expired backup cannot be asked for holds", error=error)
        await ask_for_deletion(self._scope, obj, None, RemovalReason.EXPIRY)

    async def _note(self, backup: Backup, failure: str | None) -> bool:
        """Label an expired backup with what keeps it, as Velero 1.9 and later; return whether it is news.

        (docs/spec: BEY 7.2)
        """
        if backup.metadata.labels.get(labels.GC_FAILURE) == failure:
            return False
        metadata = {"uid": backup.metadata.uid, "labels": {labels.GC_FAILURE: failure}}
        await self._scope.client.patch(
            BACKUPS, backup.metadata.name, {"metadata": metadata}, backup.metadata.namespace
        )
        return True


def _is_expired(backup: Backup, now: datetime) -> bool:
    expiration = backup.status.expiration
    going = backup.metadata.deletion_timestamp is not None
    return expiration is not None and expiration <= now and not going


def controller(parts: Parts) -> Controller:
    """The GC controller of a server."""
    informer, queue = parts.informers.of(BACKUPS), parts.queue()
    reconciler = GCReconciler(
        parts.scope, parts.locations, informer, running=parts.backups_in_flight, enqueue=queue.add
    )
    made = asking_controller(parts, NAME, reconciler.reconcile, reconciler.enqueue_expired, queue)
    made.watch(informer, predicate=reconciler.is_due)
    return made
