"""The GC controller: asks for the deletion of Backups that have expired. (docs/spec: CTL 5)

It deletes nothing itself. A Backup whose deletion ended with errors is asked for again with the next pass
over all Backups; that is the only automatic retry of a deletion. Nothing expires while our clock and the API
server's differ: a deletion cannot be undone.
"""

from collections.abc import Callable, Container
from datetime import datetime
from typing import Final

from pinnace.api import API_VERSION, labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.delete_request import DeleteBackupRequestPhase
from pinnace.api.velero.storage_location import BackupStorageLocationAccessMode, BackupStorageLocationPhase
from pinnace.controllers.deletion.scope import request_labels
from pinnace.controllers.shared.clocks import clock_doubt
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import MAIN_WORKERS, Scope
from pinnace.kube.errors import PASSING_ERRORS, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, DELETE_BACKUP_REQUESTS
from pinnace.runtime.controller import DONE, Controller, Result, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

NAME: Final = "gc"


class GCReconciler:
    """Creates a DeleteBackupRequest for each Backup that has expired, unless one is being worked on.

    Args:
        informer: the Backups.
        running: keys of the backups that this process is making.
        enqueue: adds a key to the work queue.
    """

    def __init__(
        self,
        scope: Scope,
        informer: Informer,
        *,
        running: Container[Key],
        enqueue: Callable[[Key], None],
    ) -> None:
        self._scope = scope
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
            backup = decode(Backup, await self._scope.client.get(BACKUPS, key.name, key.namespace))
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
            if await self._is_deletable(backup) and not await self._is_requested(backup):
                await self._request(backup)
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
        name, client = backup.spec.storage_location, self._scope.client
        try:
            location = await client.get(BACKUP_STORAGE_LOCATIONS, name, self._scope.namespace)
        except NotFound:
            if await self._note(backup, "BSLNotFound"):
                log.warning("Backup has expired, but its storage location does not exist", location=name)
            return False
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            if await self._note(backup, "BSLCannotGet"):
                log.warning(
                    "Backup has expired, but its storage location cannot be read", location=name, error=error
                )
            return False
        mode = (location.get("spec") or {}).get("accessMode")
        if mode == BackupStorageLocationAccessMode.READ_ONLY:
            if await self._note(backup, "BSLReadOnly"):
                log.info("Backup has expired, but its storage location is read-only", location=name)
            return False
        if text(location, "status", "phase") == BackupStorageLocationPhase.UNAVAILABLE:
            if await self._note(backup, "BSLUnavailable"):
                log.warning("Backup has expired, but its storage location is unavailable", location=name)
            return False
        await self._note(backup, None)
        return True

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

    async def _is_requested(self, backup: Backup) -> bool:
        selector = ",".join(f"{name}={value}" for name, value in request_labels(backup).items())
        requests = await self._scope.client.list_all(
            DELETE_BACKUP_REQUESTS, self._scope.namespace, label_selector=selector
        )
        phases = [(request.get("status") or {}).get("phase") for request in requests]
        return any(phase != DeleteBackupRequestPhase.PROCESSED for phase in phases)

    async def _request(self, backup: Backup) -> None:
        name, namespace = backup.metadata.name, self._scope.namespace
        metadata = {"generateName": f"{name}-", "namespace": namespace, "labels": request_labels(backup)}
        request = {
            "apiVersion": API_VERSION,
            "kind": DELETE_BACKUP_REQUESTS.kind,
            "metadata": metadata,
            "spec": {"backupName": name},
        }
        await self._scope.client.create(DELETE_BACKUP_REQUESTS, request, namespace)
        log.info("Backup has expired, requested its deletion")


def _is_expired(backup: Backup, now: datetime) -> bool:
    expiration = backup.status.expiration
    going = backup.metadata.deletion_timestamp is not None
    return expiration is not None and expiration <= now and not going


def controller(parts: Parts) -> Controller:
    """The GC controller of a server."""
    informer, queue = parts.informers.of(BACKUPS), parts.queue()
    reconciler = GCReconciler(parts.scope, informer, running=parts.backups_in_flight, enqueue=queue.add)
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=MAIN_WORKERS,
        resync=Resync(reconciler.enqueue_expired, parts.options.gc_frequency.total_seconds()),
        clock=parts.scope.clock,
        queue=queue,
    )
    made.watch(informer, predicate=reconciler.is_due)
    return made
