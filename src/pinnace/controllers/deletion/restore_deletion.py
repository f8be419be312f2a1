"""Removes the files of a deleted Restore from its location, if the Restore has the finalizer of Velero.

Servers of Velero 1.12 and later put a finalizer on each Restore. Without a server that takes it off again,
such a Restore stays Terminating for ever, and with it the namespace. This server puts none on its own
Restores: their files go with the backup. (docs/spec: BEY 5.8; docs/adr/052)
"""

from collections.abc import Container
from typing import Final

from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, RESTORES
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

NAME: Final = "restore-deletion"
FINALIZER: Final = "restores.velero.io/external-resources-finalizer"
BUSY_SECONDS: Final = 5.0
"""After this time a deleted Restore that still runs is looked at again."""
_LONGEST_RETRY_SECONDS: Final = 60.0
_WORKERS: Final = 2


def is_held(restore: JSONObject) -> bool:
    """Whether a Restore is deleted as soon as its files are."""
    metadata = mapping(restore, "metadata")
    return bool(metadata.get("deletionTimestamp")) and FINALIZER in listed(metadata, "finalizers")


class RestoreDeletionReconciler:
    """Deletes the files of a Restore that is being deleted, then takes the finalizer off.

    Args:
        running: keys of the Restores that this server works on.
    """

    def __init__(self, scope: Scope, locations: LocationStores, running: Container[Key] = ()) -> None:
        self._scope = scope
        self._locations = locations
        self._running = running

    async def reconcile(self, key: Key) -> Result:
        """One pass. If the location cannot be used, an error is raised, and the key is tried again."""
        client = self._scope.client
        try:
            restore = await client.get(RESTORES, key.name, key.namespace)
        except NotFound:
            return DONE
        if not is_held(restore):
            return DONE
        if key in self._running:
            return Result.after(BUSY_SECONDS)  # its log and results are still to be written
        with bound_fields(restore=str(key)):
            await self._delete_files(key, text(restore, "spec", "backupName"))
            metadata = restore["metadata"]
            kept = [name for name in metadata["finalizers"] if name != FINALIZER]
            patch = {"metadata": {"finalizers": kept, "resourceVersion": metadata["resourceVersion"]}}
            try:
                await client.patch(RESTORES, key.name, patch, key.namespace)
            except NotFound:
                return DONE
        return DONE

    async def _delete_files(self, key: Key, backup_name: str) -> None:
        """Delete the files; they stay if the backup or its location is gone, as their place is not known."""
        try:
            backup = await self._scope.client.get(BACKUPS, backup_name, key.namespace) if backup_name else {}
            location = text(backup, "spec", "storageLocation")
            if not location:
                return
            async with self._locations.open(location) as store:
                await store.delete_restore(key.name)
            log.info("Files of a deleted restore are removed", location=location)
        except NotFound as error:
            log.warning("Files of a deleted restore may be left in its location", error=error)


def controller(parts: Parts) -> Controller:
    """The controller of Restores that are being deleted."""
    reconciler = RestoreDeletionReconciler(parts.scope, parts.locations, parts.restores_in_flight)
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=_WORKERS,
        clock=parts.scope.clock,
        queue=parts.queue(backoff=FailureBackoff(base_seconds=1.0, cap_seconds=_LONGEST_RETRY_SECONDS)),
    )
    made.watch(parts.informers.of(RESTORES), predicate=is_held)
    return made
