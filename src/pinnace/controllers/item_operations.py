"""Waits for the operations that actions of a Backup or Restore have started, and finalizes it after that.

    WaitingForPluginOperations ──every few seconds: ask for progress──> Finalizing ──> Completed
                     └──its location is gone or read-only, or its list was changed──> CUT_SHORT

A pass begins with the object and the list in the location, so that it does not matter which server took the
pass before. Only objects with the annotation of this project are touched: those of a running Velero
server are its own. (docs/spec: BEY 4.2, 4.3, 5.6; docs/adr/054)
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pinnace.age.errors import InvalidIdentity
from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.values.durations import Duration
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.backup import BackupWork
from pinnace.controllers.restore import RestoreWork
from pinnace.controllers.shared.backup_keys import BackupKeys
from pinnace.controllers.shared.identity_secrets import IdentitySecretUnusable, identities_of
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.runs import BACKUP_RUNS, RESTORE_RUNS, RunKind
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import claim_patch
from pinnace.csi.movement.downloads import RestoreMovedData
from pinnace.csi.movement.uploads import FollowUploads
from pinnace.csi.snapshots import CSIError
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, RESTORES, APIResource
from pinnace.operations.backup import BackupOperation
from pinnace.operations.finalizing_restores import POLL_SECONDS as FINALIZE_POLL_SECONDS
from pinnace.operations.finalizing_restores import OperationsChanged, finalize_restore
from pinnace.operations.outcome_log import log_outcomes
from pinnace.operations.waiting import Following
from pinnace.plugins.session import PluginSession
from pinnace.runtime.controller import CHANGED, DONE, Controller, Reconcile, Result, Resync
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import BackupExists, ObjectNotFound, ReadOnlyLocation
from pinnace.storage.key_errors import IdentityMissing, IdentityRefused

log = get_logger(__name__)

BACKUPS_NAME: Final = "backup-operations"
RESTORES_NAME: Final = "restore-operations"
_SWEEP_SECONDS: Final = 3600.0
"""How often keys of backups that have ended are looked for, beside once at the start."""
_WORKERS: Final = 4
"""How many Backups, or Restores, are processed at once."""

RunT = TypeVar("RunT", Backup, Restore)


class CannotFollow(Exception):
    """The operations cannot be waited for any more; the text says why."""


_GIVEN_UP: Final = (
    CannotFollow,
    OperationsChanged,
    ReadOnlyLocation,
    BackupExists,
    IdentityMissing,
    IdentityRefused,
)
"""The errors that trying again does not end."""


class Steps(Protocol[RunT]):
    """The steps that differ between Backups and Restores."""

    async def location(self, run: RunT) -> str:
        """The name of the location. Raises CannotFollow."""
        ...

    async def unlocked(self, store: BackupStore, run: RunT) -> BackupStore:
        """The location, with what opens the files of an encrypted backup. Raises CannotFollow, KubeError."""
        ...

    async def follow(self, following: Following, run: RunT) -> RunT:
        """The object after a look at its operations."""
        ...

    async def finalize(self, store: BackupStore, plugins: PluginSession, run: RunT) -> RunT:
        """The object with its terminal phase, stored."""
        ...

    async def cut_short(self, ended: RunT, error: Exception) -> RunT:
        """The object that is given up, in its terminal phase, once what there is of it is stored."""
        ...

    async def ended(self, run: RunT) -> None:
        """Count the outcome of an object whose end is stored, and forget what only its waiting needed."""
        ...


class OperationsReconciler(Generic[RunT]):
    """Takes the steps of one kind of objects.

    Args:
        in_flight: keys of the objects that are being worked on; the deletion of backups reads it.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        kind: RunKind[RunT],
        steps: Steps[RunT],
        *,
        settings: "OperationSettings",
        in_flight: set[Key],
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._resource = kind.resource
        self._struct: type[RunT] = kind.struct
        self._steps: Steps[RunT] = steps
        self._settings = settings
        self._in_flight = in_flight

    async def reconcile(self, key: Key) -> Result:
        """One pass. After an error of the location or the API server the key is tried again."""
        self._in_flight.add(key)
        try:
            with bound_fields(**{self._resource.kind.lower(): str(key)}):
                return await self._pass(key)
        finally:
            self._in_flight.discard(key)

    async def _pass(self, key: Key) -> Result:
        # Read after the key is in flight: a deletion that begins later sees it, one that has begun is seen.
        try:
            obj = await self._scope.client.get(self._resource, key.name, key.namespace)
        except NotFound:
            return DONE
        if not is_followed(obj):
            return DONE
        try:
            run = decode(self._struct, obj)
        except DecodeError as error:
            log.warning("Object cannot be read", error=error)
            return DONE
        try:
            after = await self._step(run)
        except _GIVEN_UP as error:
            after = await self._steps.cut_short(_given_up(run, str(error), self._scope), error)
        changed = after != run
        if changed:
            try:
                patch = claim_patch(run, after)
                stored = await self._scope.client.patch(self._resource, key.name, patch, key.namespace)
            except (Conflict, NotFound):
                return CHANGED
            after = decode(self._struct, stored)
        if after.status.phase in phases.WAITING:
            return Result.after(self._settings.poll_seconds)
        if after.status.phase in phases.UNFINISHED:
            return Result.after(0 if changed else FINALIZE_POLL_SECONDS)
        log.info(f"{self._resource.kind} ended", phase=after.status.phase)
        await self._steps.ended(after)
        return DONE

    async def _step(self, run: RunT) -> RunT:
        async with self._opened(await self._steps.location(run)) as (opened, plugins):
            store = await self._steps.unlocked(opened, run)
            if run.status.phase not in phases.WAITING:
                return await self._steps.finalize(store, plugins, run)
            following = Following(
                store=store,
                plugins=plugins,
                clock=self._scope.clock,
                builtin_backup_actions=[FollowUploads(self._scope.client, self._scope.namespace)],
                builtin_restore_actions=[RestoreMovedData(self._scope.client, self._scope.namespace)],
                timeout=self._settings.timeout,
            )
            return await self._steps.follow(following, run)

    @asynccontextmanager
    async def _opened(self, location: str) -> AsyncIterator[tuple[BackupStore, PluginSession]]:
        try:
            store = await self._locations.acquire(location)
        except NotFound as error:
            raise CannotFollow(f"backup storage location {location} is gone: {error}") from error
        plugins = self._scope.plugins.operation(client=self._scope.client, namespace=self._scope.namespace)
        async with store, plugins:
            yield store, plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupSteps:
    """The steps of Backups."""

    scope: Scope
    work: BackupWork
    locations: LocationStores

    async def location(self, run: Backup) -> str:
        """The location of the Backup."""
        return run.spec.storage_location

    async def unlocked(self, store: BackupStore, run: Backup) -> BackupStore:
        """The location, with the key of the backup that was kept while it waits."""
        try:
            return await BackupKeys(self.scope).unlocked(store, run)
        except InvalidIdentity as error:
            raise CannotFollow(f"the key of the backup was changed in its Secret: {error}") from None

    async def follow(self, following: Following, run: Backup) -> Backup:
        """Look at its operations."""
        return await following.backup(run)

    async def finalize(self, store: BackupStore, plugins: PluginSession, run: Backup) -> Backup:
        """Read again what operations asked for, and store the backup. Raises CannotFollow."""
        scope = self.scope
        discovery = await Discovery.load(scope.client, all_versions=scope.all_versions)
        context = scope.run_context(
            discovery=discovery, store=store, plugins=plugins, log=self.work.log_options(run)
        )
        try:
            return await BackupOperation(context).finalize(run)
        except CSIError as error:
            raise CannotFollow(str(error)) from error

    async def cut_short(self, ended: Backup, error: Exception) -> Backup:
        """The Backup, stored as it was before the operations; Failed if that is not possible."""
        if isinstance(error, BackupExists | ReadOnlyLocation):
            return _failed(ended)
        scope = self.scope
        try:
            async with self.locations.open(ended.spec.storage_location) as store:
                plugins = scope.plugins.operation(client=scope.client, namespace=scope.namespace)
                options = self.work.log_options(ended)
                context = scope.run_context(
                    discovery=Discovery(()), store=store, plugins=plugins, log=options
                )
                await BackupOperation(context).cut_short(ended)
        except (NotFound, ObjectNotFound, ReadOnlyLocation, BackupExists):
            return _failed(ended)  # the location, or what was parked there, is gone
        return ended

    async def ended(self, run: Backup) -> None:
        """Count the outcome, and forget the key."""
        self.work.ended(run)
        await BackupKeys(self.scope).forget(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSteps:
    """The steps of Restores.

    Attributes:
        volumes_seconds: how long volumes that get settings may take to be bound.
    """

    scope: Scope
    work: RestoreWork
    volumes_seconds: float

    async def location(self, run: Restore) -> str:
        """The location of its backup. Raises CannotFollow."""
        name = run.spec.backup_name
        try:
            backup = await self.scope.client.get(BACKUPS, name, self.scope.namespace)
        except NotFound as error:
            raise CannotFollow(f"backup {name} is gone, and with it the location of this restore") from error
        return text(backup, "spec", "storageLocation")

    async def unlocked(self, store: BackupStore, run: Restore) -> BackupStore:
        """The location, opened by the identities that the Restore names."""
        try:
            return store.opened_by(await identities_of(self.scope.client, self.scope.namespace, run))
        except IdentitySecretUnusable as error:
            raise CannotFollow(str(error)) from None

    async def follow(self, following: Following, run: Restore) -> Restore:
        """Look at its operations."""
        return await following.restore(run)

    async def finalize(self, store: BackupStore, plugins: PluginSession, run: Restore) -> Restore:
        """Give late volumes their settings, end it when none is left, and add its operations to its log."""
        scope, timeout_seconds = self.scope, self.volumes_seconds
        ended = await finalize_restore(
            scope.client, store, run, scope.clock.now(), timeout_seconds=timeout_seconds
        )
        if ended.status.phase not in phases.UNFINISHED:
            options = self.work.log_options(run, await self._owner(run))
            context = scope.run_context(discovery=Discovery(()), store=store, plugins=plugins, log=options)
            await log_outcomes(context, run)
        return ended

    async def cut_short(self, ended: Restore, error: Exception) -> Restore:
        """The Restore; nothing of it is to be stored."""
        return ended

    async def _owner(self, run: Restore) -> str:
        """The tenant whose bucket holds the log; empty if it is the administrator's."""
        location = await self.scope.client.get(
            BACKUP_STORAGE_LOCATIONS, await self.location(run), self.scope.namespace
        )
        return tenant_of(decode(BackupStorageLocation, location).metadata)

    async def ended(self, run: Restore) -> None:
        """Count the outcome."""
        self.work.ended(run)


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSettings:
    """The settings for waiting for operations; see `ControllerOptions`."""

    poll_seconds: float
    timeout: Duration


def is_followed(obj: JSONObject) -> bool:
    """Whether a Backup or Restore waits for operations that a server of this project has stored."""
    annotated = text(obj, "metadata", "annotations", ITEM_OPERATIONS)
    return bool(annotated) and text(obj, "status", "phase") in phases.UNFINISHED


def backups_controller(parts: Parts) -> Controller:
    """The controller for Backups."""
    work = BackupWork(parts.scope, parts.locations, defaults=parts.options.defaults)
    reconciler = OperationsReconciler(
        parts.scope,
        parts.locations,
        BACKUP_RUNS,
        BackupSteps(scope=parts.scope, work=work, locations=parts.locations),
        settings=_settings(parts),
        in_flight=parts.backups_in_flight,
    )
    resync = Resync(BackupKeys(parts.scope).sweep, _SWEEP_SECONDS)
    return _controller(parts, BACKUPS_NAME, reconciler.reconcile, BACKUPS, resync)


def restores_controller(parts: Parts) -> Controller:
    """The controller for Restores."""
    work = RestoreWork(parts.scope, parts.locations, options=parts.options.restore)
    reconciler = OperationsReconciler(
        parts.scope,
        parts.locations,
        RESTORE_RUNS,
        RestoreSteps(
            scope=parts.scope, work=work, volumes_seconds=parts.options.restore.resource_timeout_seconds
        ),
        settings=_settings(parts),
        in_flight=set(),
    )
    return _controller(parts, RESTORES_NAME, reconciler.reconcile, RESTORES)


def _settings(parts: Parts) -> OperationSettings:
    options = parts.options
    return OperationSettings(poll_seconds=options.operation_poll_seconds, timeout=options.operation_timeout)


def _controller(
    parts: Parts, name: str, reconcile: Reconcile, resource: APIResource, resync: Resync | None = None
) -> Controller:
    made = Controller(
        name, reconcile, workers=_WORKERS, clock=parts.scope.clock, queue=parts.queue(), resync=resync
    )
    made.watch(parts.informers.of(resource), predicate=is_followed)
    return made


def _failed(backup: Backup) -> Backup:
    """The Backup in the phase that says that the location has no finished backup of it."""
    return msgspec.structs.replace(
        backup, status=msgspec.structs.replace(backup.status, phase=BackupPhase.FAILED)
    )


def _given_up(run: RunT, reason: str, scope: Scope) -> RunT:
    """The object in its terminal phase, as its operations cannot be waited for; stored files stay."""
    log.error("Item operations cannot be waited for any more", reason=reason)
    status = msgspec.structs.replace(
        run.status,
        phase=phases.CUT_SHORT,
        failure_reason=f"item operations could not be waited for: {reason}",
        errors=run.status.errors + 1,
        completion_timestamp=scope.clock.now(),
    )
    return msgspec.structs.replace(run, status=status)
