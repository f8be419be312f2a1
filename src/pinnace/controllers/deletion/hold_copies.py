"""The holds controller: copies the hold on a Backup into its location, and takes the copy away with the hold.

    annotation `pinnace.io/hold` ──> file beside the backup, of this server ──> annotation `hold-copied`
    the annotation goes ──> the file goes, if it is this server's ──> `hold-copied` goes

Every server and command on the bucket obeys the file. A file of somebody else is neither replaced nor
deleted: it names the server whose Backup it copies, and only that one takes it away. A location that is away
or read-only is tried again with the next pass over all Backups. (docs/adr/128)
"""

from collections.abc import Callable
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.holds import hold_of
from pinnace.api.velero.backup import Backup
from pinnace.controllers.deletion.asking import asking_controller, location_obstacle
from pinnace.controllers.deletion.scope import foreign_files, holder_here
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import BACKUPS
from pinnace.runtime.controller import CHANGED, DONE, Controller, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import UnreadableObject
from pinnace.storage.holds import Hold

log = get_logger(__name__)

NAME: Final = "holds"


class HoldCopies:
    """Keeps the files of holds as the Backups of this server say.

    Args:
        backups: the Backups.
        enqueue: adds a key to the work queue.
    """

    def __init__(
        self, scope: Scope, locations: LocationStores, backups: Informer, *, enqueue: Callable[[Key], None]
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._backups = backups
        self._enqueue = enqueue

    async def enqueue_all(self) -> None:
        """Queue all Backups whose file is not what it should be. Makes no request."""
        for obj in self._backups.objects():
            if is_due(obj):
                self._enqueue(Key.of(obj))

    async def reconcile(self, key: Key) -> Result:
        """One pass over one Backup. Raises StorageError: the location cannot be read or written now."""
        client = self._scope.client
        try:
            obj = await client.get(BACKUPS, key.name, key.namespace)
            backup = decode(Backup, obj)
        except (NotFound, DecodeError):
            return DONE
        if not is_due(obj):
            return DONE
        location = backup.spec.storage_location
        with bound_fields(backup=str(key)):
            obstacle = await location_obstacle(client, key.namespace, location)
            if obstacle is not None:
                log.info("Hold is not copied into the location for now", reason=obstacle.reason)
                return DONE
            if not (holder := await holder_here(self._scope)):
                log.warning("Hold is not copied, as the uid of namespace kube-system cannot be read")
                return DONE
            async with self._locations.open(location) as store:
                is_done = await self._settle(obj, backup, store, holder)
            return await self._note(obj) if is_done else DONE

    async def _settle(self, obj: JSONObject, backup: Backup, store: BackupStore, holder: str) -> bool:
        """Write or delete the file. Returns whether it is as the Backup says. Raises StorageError."""
        name, reason = backup.metadata.name, hold_of(obj)
        if not await store.exists(name) or await foreign_files(store, backup):
            return reason is None  # nothing of it is there that could be held
        found = await store.read_hold(name)
        is_ours = found is not None and found.holder == holder
        if reason is None:
            if is_ours:
                await store.delete_hold(name)
                log.info("Hold was released, and its file deleted")
            return True
        if await _is_in_record(store, name):
            return True  # its record says it to everyone; a file may have released that hold
        if found is not None and found.held and not is_ours:
            log.debug("Somebody else holds the backup in the location")
            return False
        await store.put_hold(name, Hold.at(self._scope.clock.now(), held=True, reason=reason, holder=holder))
        log.info("Hold was copied into the location")
        return True

    async def _note(self, obj: JSONObject) -> Result:
        """Note in the Backup what was done, if it still says the same."""
        metadata = obj["metadata"]
        notes = {labels.HOLD_COPIED: hold_of(obj)}
        patch = {"metadata": {"resourceVersion": metadata["resourceVersion"], "annotations": notes}}
        try:
            await self._scope.client.patch(BACKUPS, metadata["name"], patch, metadata["namespace"])
        except (Conflict, NotFound):
            return CHANGED
        return DONE


async def _is_in_record(store: BackupStore, backup: str) -> bool:
    """Whether the stored record of a backup has a hold; not so if it cannot be read. Raises StorageError."""
    try:
        return labels.HOLD in (await store.read_backup(backup)).metadata.annotations
    except UnreadableObject:
        return False  # perhaps evidence: it is held as well as can be


def is_due(obj: JSONObject) -> bool:
    """Whether a finished Backup says something else about its hold than it notes that was copied."""
    copied = mapping(obj, "metadata", "annotations").get(labels.HOLD_COPIED)
    return text(obj, "status", "phase") in phases.FINISHED and hold_of(obj) != copied


def controller(parts: Parts) -> Controller:
    """The holds controller of a server."""
    backups, queue = parts.informers.of(BACKUPS), parts.queue()
    copies = HoldCopies(parts.scope, parts.locations, backups, enqueue=queue.add)
    made = asking_controller(parts, NAME, copies.reconcile, copies.enqueue_all, queue)
    made.watch(backups, predicate=is_due)
    return made
