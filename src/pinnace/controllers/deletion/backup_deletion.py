"""The BackupDeletion controller: removes a backup with all that belongs to it. (docs/spec: CTL 6)

    checks ──> refused: Processed, with the reason; nothing was touched
       └─────> InProgress, the Backup Deleting ──> plugins' actions, snapshots ──> restores, files ─┐
                                    errors: Processed, with them; a new request goes on ┘           │
                                                                               its requests <── Backup

Every step may be done twice, so a request that a dead server left InProgress is processed from the top.
Errors that leave the state unclear (a location or API server out of reach) are raised, and the request is
tried again before anything is deleted.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta
from typing import Final

from pinnace.age.errors import InvalidIdentity
from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase
from pinnace.api.retention.holds import refusal
from pinnace.api.retention.removal import RemovalReason, removal_reason
from pinnace.api.values.times import later
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.delete_request import DeleteBackupRequest, DeleteBackupRequestPhase
from pinnace.api.velero.storage_location import BackupStorageLocation, BackupStorageLocationAccessMode
from pinnace.archive.errors import ArchiveError
from pinnace.controllers.deletion.actions import delete_actions
from pinnace.controllers.deletion.scope import (
    RecordedPodVolumes,
    foreign_files,
    request_labels,
    standing_hold,
)
from pinnace.controllers.shared.backup_keys import BackupKeys
from pinnace.controllers.shared.locations import LocationStores, moved
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.pod_volumes import PodVolumes
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import delete_if_there
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import PASSING_ERRORS, Conflict, KubeError, NotFound
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, RESTORES
from pinnace.operations.deletion import DeleteOperation, Snapshots, summary
from pinnace.operations.finalizing_restores import OperationsChanged
from pinnace.operations.waiting import Following
from pinnace.plugins.errors import PluginError
from pinnace.plugins.session import PluginSession
from pinnace.runs.context import RunContext
from pinnace.runtime.controller import DONE, Controller, Result, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupLocked, StorageError, UnreadableObject
from pinnace.storage.key_errors import NOT_OPENED
from pinnace.volumes.repository_places import store_of

log = get_logger(__name__)

NAME: Final = "backup-deletion"
WORKERS: Final = 4
"""The number of locations with a deletion at work, one backup at a time in each."""
EXPIRY_PERIOD_SECONDS: Final = 3600.0
KEPT: Final = timedelta(hours=24)
"""How long a processed request can be read. (docs/spec: CTL 6.4)"""

_WITH_FORCE: Final = (
    f"`backup delete --force` (annotation {labels.FORCE_DELETION}: true of the DeleteBackupRequest) deletes"
    " the rest and leaves it behind"
)


class Refusal(Exception):
    """The backup cannot be deleted; nothing was. The text is the request's error."""


class NotMarked(Exception):
    """The Backup could not be marked as Deleting, so nothing of it was deleted; to be tried again."""


@dataclass(frozen=True, slots=True)
class BackupDeletionReconciler:
    """Processes DeleteBackupRequests.

    Args:
        running: keys of the backups that this process is making.
        pod_volumes: forgets the snapshots of pod volumes; without it, a backup that has some is not deleted.
    """

    scope: Scope
    locations: LocationStores
    informer: Informer
    _: KW_ONLY
    running: set[Key]
    pod_volumes: PodVolumes | None = None

    async def reconcile(self, key: Key) -> Result:
        """One pass over one request."""
        try:
            obj = await self.scope.client.get(DELETE_BACKUP_REQUESTS, key.name, key.namespace)
            request = decode(DeleteBackupRequest, obj)
        except NotFound:
            return DONE
        except DecodeError as error:
            log.warning("Request cannot be read", error=error)
            return DONE
        if request.status.phase == DeleteBackupRequestPhase.PROCESSED:
            return DONE
        backup = str(Key(key.namespace, request.spec.backup_name))
        with bound_fields(backup=backup):
            try:
                await self._process(request, removal_reason(obj))
            except Refusal as refusal:
                log.warning("Backup is not deleted", reason=str(refusal))
                await self._processed(request, [str(refusal)])
            except BackupLocked as held:
                await self._show_reason(request, f"{held}; the deletion is tried again then")
                return Result.after(self._seconds_to(held))
            except PASSING_ERRORS:
                raise  # the API server would not take the reason either
            except NotMarked as error:
                if not isinstance(error.__cause__, Conflict):  # else the next attempt settles it
                    await self._show_reason(request, str(error))
                raise
            except (StorageError, PluginError, KubeError) as error:
                await self._show_reason(request, str(error))
                raise
            except Exception as error:  # a defect of this program: it is tried again, but not in silence
                await self._show_reason(request, f"unexpected {type(error).__name__}: {error}")
                raise
        return DONE

    async def expire(self) -> None:
        """Delete requests that were processed and created a day ago or earlier. (docs/spec: CTL 6.4)"""
        for obj in self.informer.objects():
            try:
                request = decode(DeleteBackupRequest, obj)
            except DecodeError:
                continue
            created = request.metadata.creation_timestamp
            processed = request.status.phase == DeleteBackupRequestPhase.PROCESSED
            if processed and created is not None and later(created, KEPT) <= self.scope.clock.now():
                await delete_if_there(self.scope.client, DELETE_BACKUP_REQUESTS, Key.of(obj))

    async def _process(self, request: DeleteBackupRequest, why: RemovalReason) -> None:
        if not request.spec.backup_name:
            raise Refusal("spec.backupName is required")
        await self._delete_other_requests(request)
        if Key(request.metadata.namespace, request.spec.backup_name) in self.running:
            running = await self._backup(request)
            if running is not None and running.status.phase in phases.UNFINISHED:
                raise NotMarked("the progress of its item operations is being read")  # for a moment only
            raise Refusal("backup is still in progress")
        backup = await self._backup(request)
        if backup is None:
            await self._delete_requests(request.metadata.labels)
            return
        if (reason := backup.metadata.annotations.get(labels.HOLD)) is not None:
            raise Refusal(refusal(backup.metadata.name, reason))
        if backup.status.start_timestamp is None:
            # It never began, so nothing was stored of it; its location need not even exist. (CTL 6.6)
            await self._begin(request, backup)
            await self._end(request, backup, [])
            return
        read = await self._read_location(backup)
        location = _writable(backup.spec.storage_location, read)
        async with (
            await self.locations.acquire(backup.spec.storage_location, read) as store,
            self.scope.plugins.operation(client=self.scope.client, namespace=self.scope.namespace) as plugins,
        ):
            if await foreign_files(store, backup):
                await self._begin(request, backup)
                errors = await self._delete_restores(store, backup)
                log.warning("The files in the location are another backup's and are left alone")
            else:
                if (hold := await standing_hold(self.scope, backup, store)) is not None:
                    raise Refusal(refusal(backup.metadata.name, hold.reason))
                if labels.HOLD_COPIED in backup.metadata.annotations:
                    await store.delete_hold(backup.metadata.name)  # the copy of one that was released
                trusted = not tenant_of(location.metadata)
                errors = await self._delete_stored(
                    request, backup, _Opened(store, plugins, read, why), trusted=trusted
                )
        await self._end(request, backup, errors)

    async def _delete_stored(
        self,
        request: DeleteBackupRequest,
        backup: Backup,
        opened: "_Opened",
        *,
        trusted: bool,
    ) -> list[str]:
        """Delete all but the Backup; return the errors. Raises Refusal before anything is touched.

        Args:
            trusted: whether the administrator's own location holds the backup. In a tenant's, its owner could
                have written items that are not the backup's, and plugins act with the server's rights.
        """
        plugins = opened.plugins
        # Before anything is touched: volumes without the backup that names them are of no use.
        await opened.store.check_deletable(backup.metadata.name)
        store = await opened.store.located(backup.metadata.name)
        context = await self._context(store, plugins)
        operation = DeleteOperation(
            Snapshots(context, backup.metadata.name, trusted=trusted),
            RecordedPodVolumes(self.scope, store, backup, self.pod_volumes),
        )
        forced = request.metadata.annotations.get(labels.FORCE_DELETION) == "true"
        await self._refuse_volume_data(operation, forced=forced)
        async with AsyncExitStack() as fetched:
            found = plugins.delete_actions if trusted else ()
            try:
                running = delete_actions(self.scope, found, store, backup)
                actions = await fetched.enter_async_context(running)
            except ArchiveError as error:
                raise Refusal(
                    f"the backup's contents, which delete item actions need, cannot be read: {error}"
                ) from error
            except NOT_OPENED as error:
                if not forced:
                    raise Refusal(
                        f"delete item actions of plugins need the backup's contents: {error}. {_WITH_FORCE}"
                    ) from error
                log.warning("Delete item actions are not run, as the deletion is forced", reason=error)
                actions = None
            await self._begin(request, backup)
            if trusted:
                await self._cancel_operations(store, plugins, backup)
            errors = await actions.run() if actions is not None else []
            if forced and errors:
                log.warning("What plugins had to clean up is left behind, as it is forced", errors=errors)
                errors = []
        errors += await self._delete_volume_data(operation, forced=forced)
        # In another place there were no snapshots of its pod volumes: they would stay in the first for ever.
        location = await self._read_location(backup)
        if was_moved := moved(location, store_of(opened.location), run="deletion"):
            errors.append(was_moved)
        forgotten = not errors
        errors += await self._delete_restores(store, backup)
        if forgotten:  # else the next try must find in these files what is still to be forgotten
            errors += await self._delete_files(opened, backup)
        return errors

    async def _cancel_operations(self, store: BackupStore, plugins: PluginSession, backup: Backup) -> None:
        """Cancel the item operations that a backup still waits for; a failure does not stop the deletion."""
        if backup.status.phase not in phases.WAITING:
            return
        try:
            unlocked = await BackupKeys(self.scope).unlocked(store, backup)
            following = Following(store=unlocked, plugins=plugins, clock=self.scope.clock)
            await following.backup(backup, cancel="the backup is deleted")
        except (StorageError, OperationsChanged, InvalidIdentity) as error:
            log.warning("Item operations of a deleted backup may still be running", error=error)
        await BackupKeys(self.scope).forget(backup)

    async def _context(self, store: BackupStore, plugins: PluginSession) -> RunContext:
        """The context of one deletion. Only CSI snapshots need to know what the cluster serves."""
        scope = self.scope
        with_csi = FEATURE in scope.features
        discovery = await Discovery.load(scope.client) if with_csi else Discovery(())
        return scope.run_context(discovery=discovery, store=store, plugins=plugins)

    async def _backup(self, request: DeleteBackupRequest) -> Backup | None:
        """The Backup; None if an earlier pass deleted it, which the request's phase tells."""
        client, namespace = self.scope.client, self.scope.namespace
        try:
            return decode(Backup, await client.get(BACKUPS, request.spec.backup_name, namespace))
        except NotFound as error:
            if request.status.phase == DeleteBackupRequestPhase.IN_PROGRESS:
                return None
            raise Refusal("backup not found") from error
        except DecodeError as error:
            raise Refusal(f"backup cannot be read: {error}") from error

    async def _read_location(self, backup: Backup) -> JSONObject:
        try:
            return await self.locations.raw(backup.spec.storage_location)
        except NotFound as error:
            raise Refusal(f"backup storage location {backup.spec.storage_location} not found") from error

    async def _refuse_volume_data(self, operation: DeleteOperation, *, forced: bool) -> None:
        """Raise Refusal if data of volumes would be left behind, unless that is wanted. (docs/adr/021)"""
        try:
            names = summary(await operation.obstacles())
            problem = f"this server cannot delete volume data of the backup: {names}" if names else ""
        except (UnreadableObject, ArchiveError) as error:
            problem = f"cannot tell which snapshots belong to the backup: {error}"
        if problem and not forced:
            raise Refusal(f"{problem}. {_WITH_FORCE}")
        if problem:
            log.warning("Volume data is left behind, as the deletion is forced", reason=problem)

    async def _delete_volume_data(self, operation: DeleteOperation, *, forced: bool) -> list[str]:
        """Delete snapshots and pod volumes. Returns the errors; with `forced` they are logged instead."""
        try:
            errors = await operation.delete()
        except (UnreadableObject, ArchiveError) as error:
            if not forced:
                raise
            errors = [str(error)]
        if forced and errors:
            log.warning("Volume data of the backup is left behind, as its deletion is forced", errors=errors)
            return []
        return errors

    async def _begin(self, request: DeleteBackupRequest, backup: Backup) -> None:
        """Mark request and Backup. A Backup that changed since it was read is looked at again."""
        patch = {
            "metadata": {"labels": request_labels(backup)},
            "status": {"phase": str(DeleteBackupRequestPhase.IN_PROGRESS), "errors": None},
        }
        await self._patch(request, patch)
        deleting: JSONObject = {
            "metadata": {"resourceVersion": backup.metadata.resource_version},
            "status": {"phase": str(BackupPhase.DELETING)},
        }
        client, name = self.scope.client, backup.metadata.name
        try:
            await client.patch(BACKUPS, name, deleting, self.scope.namespace)
        except NotFound as error:
            # Otherwise the next pass would find no Backup and count it as deleted; its files are still there.
            raise Refusal("the Backup was deleted before its files were; it comes back by sync") from error
        except KubeError as error:
            raise NotMarked(f"error patching Backup: {error}") from error
        if Key(self.scope.namespace, name) in self.running:
            # Its finalization has begun since this pass looked, and would store it again.
            raise NotMarked("backup is being finalized")
        self.scope.metrics.backup_deletion_attempted(_schedule_of(backup))
        log.info("Deleting backup")

    async def _delete_restores(self, store: BackupStore, backup: Backup) -> list[str]:
        """Delete the backup's restores, files first; one whose files stay is kept. (docs/spec: CTL 6.2)"""
        client, namespace, errors = self.scope.client, self.scope.namespace, []
        for obj in await client.list_all(RESTORES, namespace):
            if (obj.get("spec") or {}).get("backupName") != backup.metadata.name:
                continue
            key = Key.of(obj)
            try:
                await store.delete_restore(key.name)
                await delete_if_there(client, RESTORES, key)
            except PASSING_ERRORS:
                raise
            except (StorageError, KubeError) as error:
                errors.append(f"error deleting restore {key}: {error}")
        return errors

    async def _delete_files(self, opened: "_Opened", backup: Backup) -> list[str]:
        try:
            await opened.store.delete_backup(backup.metadata.name, reason=opened.reason)
        except StorageError as error:
            return [f"error deleting backup from backup storage: {error}"]
        return []

    async def _end(self, request: DeleteBackupRequest, backup: Backup, errors: list[str]) -> None:
        """Delete the Backup and its requests; with errors keep both, so that it can be tried again."""
        key = Key(self.scope.namespace, backup.metadata.name)
        if not errors:
            try:
                await delete_if_there(self.scope.client, BACKUPS, key, uid=backup.metadata.uid)
            except PASSING_ERRORS:
                raise  # it may be gone: the next pass finds out
            except KubeError as error:
                errors = [f"error deleting backup {key}: {error}"]
        self.scope.metrics.backup_deletion_finished(_schedule_of(backup), succeeded=not errors)
        if errors:
            log.error("Backup could not be deleted as a whole", errors=errors)
            await self._processed(request, errors)
            return
        log.info("Backup deleted")
        await self._delete_requests(request_labels(backup))

    def _seconds_to(self, held: BackupLocked) -> float:
        """How long to wait for the end of an object lock; what has no end is looked at every hour."""
        if held.until is None:
            return EXPIRY_PERIOD_SECONDS
        return max((held.until - self.scope.clock.now()).total_seconds(), 0.0) + 1.0

    async def _show_reason(self, request: DeleteBackupRequest, reason: str) -> None:
        """Say in the request why it waits; it is tried again."""
        if request.status.errors == [reason]:
            return
        try:
            await self._patch(request, {"status": {"errors": [reason]}})
        except KubeError as error:
            log.warning("Cannot say in the request why it waits", reason=reason, error=error)

    async def _processed(self, request: DeleteBackupRequest, errors: list[str]) -> None:
        status = {"phase": str(DeleteBackupRequestPhase.PROCESSED), "errors": errors}
        await self._patch(request, {"status": status})

    async def _patch(self, request: DeleteBackupRequest, patch: JSONObject) -> None:
        metadata = request.metadata
        # With its uid, the patch cannot hit an object that took the name meanwhile.
        patch = {**patch, "metadata": {**patch.get("metadata", {}), "uid": metadata.uid}}
        await self.scope.client.patch(DELETE_BACKUP_REQUESTS, metadata.name, patch, metadata.namespace)

    async def _delete_other_requests(self, request: DeleteBackupRequest) -> None:
        """Requests for the same backup, whatever their phase, give way to this one. (docs/spec: CTL 6.1)"""
        backup_label = {labels.BACKUP_NAME: labels.label_value(request.spec.backup_name)}
        await self._delete_requests(backup_label, all_but=request.metadata.name)

    async def _delete_requests(self, chosen: Mapping[str, str], *, all_but: str = "") -> None:
        names = (labels.BACKUP_NAME, labels.BACKUP_UID)
        selector = ",".join(f"{name}={chosen[name]}" for name in names if name in chosen)
        client, namespace = self.scope.client, self.scope.namespace
        for obj in await client.list_all(DELETE_BACKUP_REQUESTS, namespace, label_selector=selector):
            if obj["metadata"]["name"] != all_but:
                await delete_if_there(client, DELETE_BACKUP_REQUESTS, Key.of(obj))


@dataclass(frozen=True, slots=True)
class _Opened:
    """Store, plugins, location and reason of one deletion.

    Attributes:
        store: the store of the location as it was read.
        plugins: those of this deletion.
        location: the BackupStorageLocation as it was read.
        reason: why the backup is removed.
    """

    store: BackupStore
    plugins: PluginSession
    location: JSONObject
    reason: RemovalReason


def _writable(name: str, obj: JSONObject) -> BackupStorageLocation:
    """The location of that name. Raises Refusal if backups may not be deleted there."""
    try:
        location = decode(BackupStorageLocation, obj)
    except DecodeError as error:
        raise Refusal(f"backup storage location {name} cannot be read: {error}") from error
    if location.spec.access_mode == BackupStorageLocationAccessMode.READ_ONLY:
        raise Refusal(
            f"cannot delete backup because backup storage location {name} is currently in read-only mode"
        )
    return location


def _schedule_of(backup: Backup) -> str:
    return backup.metadata.labels.get(labels.SCHEDULE_NAME, "")


def controller(parts: Parts) -> Controller:
    """The BackupDeletion controller of a server."""
    informer = parts.informers.of(DELETE_BACKUP_REQUESTS)
    reconciler = BackupDeletionReconciler(
        parts.scope,
        parts.locations,
        informer,
        running=parts.backups_in_flight,
        pod_volumes=parts.pod_volumes,
    )
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=WORKERS,
        resync=Resync(reconciler.expire, EXPIRY_PERIOD_SECONDS),
        clock=parts.scope.clock,
        queue=parts.queue(parts.lanes.of_deletions(informer, parts.informers.of(BACKUPS), WORKERS)),
    )
    # Its own patches must not undo the back-off of a request that has to wait.
    made.watch(informer, on_update=False)
    return made
