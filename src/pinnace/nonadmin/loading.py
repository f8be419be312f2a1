"""The flows of all kinds of requests: each looks up its facts before each step."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pinnace.aio.clock import Clock
from pinnace.api import labels
from pinnace.api.nonadmin.names import BACKUP_FINALIZER, LOCATION_FINALIZER, RESTORE_FINALIZER
from pinnace.api.objects import JSONObject, member, text
from pinnace.kube.resources import (
    BACKUPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    DOWNLOAD_REQUESTS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTORES,
)
from pinnace.nonadmin.caches import BY_BACKUP, BY_RESTORE, storage_location
from pinnace.nonadmin.flows.backup import BackupFacts, backup_id, next_backup_step, stored_id
from pinnace.nonadmin.flows.download import DownloadFacts, download_name, is_about_restore, next_download_step
from pinnace.nonadmin.flows.limits import Slots
from pinnace.nonadmin.flows.location import LocationFacts, next_location_step
from pinnace.nonadmin.flows.restore import RestoreFacts, next_restore_step, restore_id
from pinnace.nonadmin.flows.steps import Create, PassMemory, Patch, Step, WriteStatus
from pinnace.nonadmin.identity import Ambiguous, synced_from
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
    is_being_deleted,
)
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.nonadmin.specs.backup import StorageChoice, location_id
from pinnace.nonadmin.specs.location import location_spec_of
from pinnace.nonadmin.specs.restore import wanted_backup
from pinnace.runtime.keys import Key


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowContext:
    """The parts that all flows share.

    Attributes:
        settings: returns the administrator's settings as they are now.
        backups, restores: the queues of Backups and Restores that wait for the server.
        backup_slots, restore_slots: count the unfinished Backups and Restores of each namespace.
        new_uuid: returns a random UUID as text.
    """

    lookups: Lookups
    settings: Callable[[], AdminSettings]
    backups: WaitingQueue
    restores: WaitingQueue
    backup_slots: Slots
    restore_slots: Slots
    clock: Clock
    new_uuid: Callable[[], str]


class BackupFlow:
    """NonAdminBackups."""

    resource: Final = NON_ADMIN_BACKUPS
    finalizer: Final = BACKUP_FINALIZER

    def __init__(self, context: FlowContext) -> None:
        self._context = context

    async def next_step(self, request: JSONObject, memory: PassMemory) -> Step:
        lookups, slots = self._context.lookups, self._context.backup_slots
        key, unique_id = Key.of(request), backup_id(request)
        backup, ambiguous = None, ""
        try:
            backup = await _made_for(unique_id, BACKUPS.name, lookups.backup, memory)
        except Ambiguous as error:
            ambiguous = str(error)
        ends = is_being_deleted(request) or member(request, "spec", "deleteBackup") is True
        name = labels.label_value(text(backup, "metadata", "name"))
        facts = BackupFacts(
            namespace=lookups.namespace,
            settings=self._context.settings(),
            now=self._context.clock.now(),
            new_uuid=self._context.new_uuid(),
            storage=StorageChoice() if ends else await self._storage(request),
            backup=backup,
            backup_location=await lookups.location_of(backup),
            delete_requests=await lookups.delete_requests(unique_id) if ends and backup is not None else (),
            restores=lookups.restores_of(*key) if ends else (),
            pod_volumes=lookups.labelled(POD_VOLUME_BACKUPS, BY_BACKUP, name),
            uploads=lookups.labelled(DATA_UPLOADS, BY_BACKUP, name),
            namespace_uid=await self._namespace_uid(request, backup, memory, ends=ends),
            position=self._context.backups.position(backup),
            unfinished=slots.taken(key.namespace, besides=stored_id(request)),
            ambiguous=ambiguous,
        )
        # Nothing is awaited between counting and reserving, so no other request gets the same slot.
        step = next_backup_step(request, facts, memory)
        if backup is None and not ambiguous:
            _reserve(slots, key.namespace, stored_id(request), isinstance(step, Create))
        if isinstance(step, WriteStatus) and not unique_id:
            _note_new(stored_id({"status": step.status}), memory)
        return step

    async def _namespace_uid(
        self, non_admin_backup: JSONObject, backup: JSONObject | None, memory: PassMemory, *, ends: bool
    ) -> str:
        """The uid of the namespace if a Backup is about to be made or taken over; empty otherwise."""
        is_new = bool(stored_id(non_admin_backup)) and backup is None and not ends
        is_found = (
            bool(synced_from(non_admin_backup)) and not stored_id(non_admin_backup) and backup is not None
        )
        namespace = text(non_admin_backup, "metadata", "namespace")
        if not (is_new or is_found):
            return ""
        if not memory.namespace_uid:
            memory.namespace_uid = await self._context.lookups.namespace_uid(namespace)
        return memory.namespace_uid

    async def _storage(self, non_admin_backup: JSONObject) -> StorageChoice:
        lookups = self._context.lookups
        request = await lookups.named(
            NON_ADMIN_LOCATIONS,
            text(non_admin_backup, "metadata", "namespace"),
            storage_location(non_admin_backup),
        )
        try:
            return StorageChoice(request=request, location=await lookups.location(location_id(request)))
        except Ambiguous as error:
            return StorageChoice(request=request, ambiguous=str(error))


class RestoreFlow:
    """NonAdminRestores."""

    resource: Final = NON_ADMIN_RESTORES
    finalizer: Final = RESTORE_FINALIZER

    def __init__(self, context: FlowContext) -> None:
        self._context = context

    async def next_step(self, request: JSONObject, memory: PassMemory) -> Step:
        lookups, slots = self._context.lookups, self._context.restore_slots
        key, unique_id = Key.of(request), restore_id(request)
        restore, backup, ambiguous = None, None, ""
        non_admin_backup = await lookups.named(NON_ADMIN_BACKUPS, key.namespace, wanted_backup(request))
        try:
            restore = await _made_for(unique_id, RESTORES.name, lookups.restore, memory)
            backup = None if non_admin_backup is None else await lookups.backup(backup_id(non_admin_backup))
        except Ambiguous as error:
            ambiguous = str(error)
        name = labels.label_value(text(restore, "metadata", "name"))
        facts = RestoreFacts(
            namespace=lookups.namespace,
            settings=self._context.settings(),
            now=self._context.clock.now(),
            new_uuid=self._context.new_uuid(),
            non_admin_backup=non_admin_backup,
            backup=backup,
            backup_location=await lookups.location_of(backup),
            restore=restore,
            pod_volumes=lookups.labelled(POD_VOLUME_RESTORES, BY_RESTORE, name),
            downloads=lookups.labelled(DATA_DOWNLOADS, BY_RESTORE, name),
            position=self._context.restores.position(restore),
            unfinished=slots.taken(key.namespace, besides=unique_id),
            ambiguous=ambiguous,
        )
        step = next_restore_step(request, facts, memory)
        if restore is None and not ambiguous:
            _reserve(slots, key.namespace, unique_id, isinstance(step, Create))
        elif isinstance(step, Patch) and step.resource == RESTORES:
            slots.take(key.namespace, unique_id)  # it is resumed
        if isinstance(step, WriteStatus) and not unique_id:
            _note_new(restore_id({"status": step.status}), memory)
        return step


async def _made_for(
    unique_id: str,
    plural: str,
    look_up: Callable[[str], Awaitable[JSONObject | None]],
    memory: PassMemory,
) -> JSONObject | None:
    """The server's object of a request, from what this pass knows already or else looked up."""
    if unique_id in memory.absent:
        return None
    found = memory.made.get((plural, unique_id)) or await look_up(unique_id)
    if found is None and unique_id:
        memory.absent |= {unique_id}
    return found


def _note_new(unique_id: str, memory: PassMemory) -> None:
    """Note that no object has a new id yet, so that none is looked up."""
    if unique_id:
        memory.absent |= {unique_id}


def _reserve(slots: Slots, namespace: str, unique_id: str, making: bool) -> None:
    """Take a slot for an object that is about to be created; free that of one that is not."""
    (slots.take if making else slots.free)(namespace, unique_id)


class LocationFlow:
    """NonAdminBackupStorageLocations."""

    resource: Final = NON_ADMIN_LOCATIONS
    finalizer: Final = LOCATION_FINALIZER

    def __init__(self, context: FlowContext) -> None:
        self._context = context

    async def next_step(self, request: JSONObject, memory: PassMemory) -> Step:
        lookups, key = self._context.lookups, Key.of(request)
        unique_id = location_id(request)
        location, asked, ambiguous = None, None, ""
        try:
            location = await lookups.location(unique_id, live=memory.wrote)
            asked = await lookups.location_request(unique_id, live=memory.wrote)
        except Ambiguous as error:
            ambiguous = str(error)
        ends = is_being_deleted(request)
        secret = text(location_spec_of(request), "credential", "name")
        facts = LocationFacts(
            namespace=lookups.namespace,
            settings=self._context.settings(),
            now=self._context.clock.now(),
            new_uuid=self._context.new_uuid(),
            secret=None if ends else await lookups.secret(key.namespace, secret),
            request=asked,
            secret_copy=await lookups.secret_copy(unique_id),
            location=location,
            backups=lookups.backups_on(*key) if ends else (),
            # One that is in use is not judged by those that came later.
            others=() if ends or location is not None else lookups.locations_in(key.namespace),
            ambiguous=ambiguous,
        )
        return next_location_step(request, facts, memory)


class DownloadFlow:
    """NonAdminDownloadRequests."""

    resource: Final = NON_ADMIN_DOWNLOADS
    finalizer: Final = ""

    def __init__(self, context: FlowContext) -> None:
        self._context = context

    async def next_step(self, request: JSONObject, memory: PassMemory) -> Step:
        lookups, namespace = self._context.lookups, text(request, "metadata", "namespace")
        non_admin_restore, restore, backup = None, None, None
        wanted = text(request, "spec", "target", "name")
        try:
            if is_about_restore(request):
                non_admin_restore = await lookups.named(NON_ADMIN_RESTORES, namespace, wanted)
                wanted = "" if non_admin_restore is None else wanted_backup(non_admin_restore)
                restore = (
                    None
                    if non_admin_restore is None
                    else await lookups.restore(restore_id(non_admin_restore))
                )
            non_admin_backup = await lookups.named(NON_ADMIN_BACKUPS, namespace, wanted)
            backup = None if non_admin_backup is None else await lookups.backup(backup_id(non_admin_backup))
        except Ambiguous:
            non_admin_backup = None
        facts = DownloadFacts(
            namespace=lookups.namespace,
            now=self._context.clock.now(),
            non_admin_restore=non_admin_restore,
            restore=restore,
            non_admin_backup=non_admin_backup,
            backup=backup,
            backup_location=await lookups.location_of(backup),
            # Not looked up if nothing can come of it: tenants can write any number of such requests.
            download=None
            if non_admin_backup is None
            else await lookups.named(DOWNLOAD_REQUESTS, lookups.namespace, download_name(request)),
        )
        return next_download_step(request, facts, memory)
