"""The Restore controller: validates new Restores and runs them. (docs/spec: CTL 8, RST 2)"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import msgspec

from pinnace.age.identities import Identities
from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.nonadmin.hiding import hiding_for, results_without
from pinnace.api.nonadmin.names import Origin, tenant_of
from pinnace.api.nonadmin.restore_limits import ROLE
from pinnace.api.objects import JSONObject
from pinnace.api.phases import BackupPhase, RestorePhase
from pinnace.api.resource_policies import PolicyError
from pinnace.api.resuming import resumed, with_one_source
from pinnace.api.selection.filter_policies import FilterPolicies
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.controllers.run_progress import RunProgress
from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.shared.confinement import Confinement, bounded, confined, is_bounded
from pinnace.controllers.shared.identity_secrets import IdentitySecretUnusable, identities_of, with_remedy
from pinnace.controllers.shared.lanes import EXTRA_RUNS, limit_text
from pinnace.controllers.shared.locations import LocationStores, location_of
from pinnace.controllers.shared.namespace_queue import NamespaceQueue, targets_of
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.pod_volumes import PodVolumes, pod_volumes_in_cluster
from pinnace.controllers.shared.runs import RESTORE_RUNS, RunDecision, RunReconciler, failed, refused
from pinnace.controllers.shared.scope import Scope
from pinnace.csi.movement.downloads import RestoreMovedData
from pinnace.kms.errors import KMSError
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import PASSING_ERRORS, Forbidden, KubeError, NotFound
from pinnace.kube.resources import BACKUP_STORAGE_LOCATIONS, BACKUPS, CLUSTER_ROLES, RESTORES
from pinnace.operations.modifiers import FoundModifiers, modifiers_of
from pinnace.operations.policies import filters_of_restore
from pinnace.operations.restore import RestoreOperation
from pinnace.restore.errors import BackupLookupError
from pinnace.restore.modifiers.rules import ModifierError
from pinnace.restore.request import RestoreRequest, RestoreSettings
from pinnace.restore.selection.validation import validate_and_complete
from pinnace.runs.context import LogOptions
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.worker_slots import WorkerSlot
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError
from pinnace.storage.key_errors import EncryptionBroken, IdentityMissing, IdentityRefused
from pinnace.volumes.repository_places import store_of

log = get_logger(__name__)

NAME: Final = "restore"
METRICS_PERIOD_SECONDS: Final = 60.0


class ClusterBackups:
    """Finds backups as custom resources, and makes sure that their location can be opened.

    Errors that may pass are raised unchanged, as they say nothing about the Restore.

    Args:
        slot: the worker of the Restore.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        *,
        availability: Availability | None = None,
        slot: WorkerSlot | None = None,
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._slot = slot or WorkerSlot()
        self._availability = availability or Availability(locations)

    async def backups_of_schedule(self, schedule: str) -> Sequence[Backup]:
        """All backups labelled with the schedule's name. Raises BackupLookupError."""
        client, selector = self._scope.client, f"{labels.SCHEDULE_NAME}={labels.label_value(schedule)}"
        try:
            listed = await client.list_all(BACKUPS, self._scope.namespace, label_selector=selector)
            return [decode(Backup, obj) for obj in listed]
        except PASSING_ERRORS:
            raise
        except (KubeError, DecodeError) as error:
            raise BackupLookupError(str(error)) from error

    async def backup(self, name: str) -> Backup:
        """The backup. Raises BackupLookupError. (docs/spec: RST 3)"""
        what = f'backup.velero.io "{name}"'
        try:
            backup = decode(Backup, await self._scope.client.get(BACKUPS, name, self._scope.namespace))
            what = f'BackupStorageLocation.velero.io "{backup.spec.storage_location}"'
            if labels.HIDDEN_DETAILS in backup.metadata.annotations:
                raise BackupLookupError(
                    f"the details of backup {name} are hidden in its location (encryption.hideDetails), and a"
                    " server does not open them: restore it by `restore create --location URL --identity-file"
                    " FILE`"
                )
            location = await self._locations.location(location_of(backup))
            with self._slot.lent():
                if problem := await self._availability.problem(location):
                    raise BackupLookupError(
                        f"BackupStorageLocation {location.metadata.name} is in Unavailable status. {problem}"
                    )
                async with self._locations.open_location(location) as store:
                    if backup.status.phase == BackupPhase.DELETING:
                        await store.read_backup(name)  # what has no metadata any more cannot be restored
        except PASSING_ERRORS:
            raise
        except NotFound as error:
            raise BackupLookupError(f"{what} not found") from error
        except (KubeError, DecodeError, StorageError) as error:
            raise BackupLookupError(str(error)) from error
        await self._slot.take()
        return backup


class RestoreWork:
    """Plans and carries out Restores.

    Args:
        pod_volumes: restores the content of pod volumes; None: such volumes are an error.
        availability: shared with the Backup controller.
        slot_of: returns the worker of a Restore that is being processed.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        *,
        options: RestoreSettings,
        pod_volumes: PodVolumes | None = None,
        availability: Availability | None = None,
        slot_of: Callable[[Key], WorkerSlot] = lambda _: WorkerSlot(),
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._slot_of = slot_of
        self._options = options
        self._pod_volumes = pod_volumes
        self._availability = availability or Availability(locations)

    async def plan(self, run: Restore, caveats: Sequence[str] = ()) -> RunDecision[Restore]:
        """Validate and complete it, and find its backup. (docs/spec: CTL 8.2)"""
        scope, slot = self._scope, self._slot_of(Key(run.metadata.namespace, run.metadata.name))
        backups = ClusterBackups(scope, self._locations, availability=self._availability, slot=slot)
        timeout = self._options.operation_timeout
        completed = await validate_and_complete(run, backups, operation_timeout=timeout)
        status, backup = completed.restore.status, completed.backup
        if backup is None:
            errors = [*status.validation_errors, *completed.errors]
            status = msgspec.structs.replace(
                status, phase=RestorePhase.FAILED_VALIDATION, validation_errors=errors
            )
            return RunDecision(begun=msgspec.structs.replace(completed.restore, status=status))
        confinement = await self._confined(completed.restore, backup.spec.storage_location)
        discovery = await Discovery.load(scope.client, all_versions=scope.all_versions)
        confinement = await self._bounded(confinement, discovery)
        if confinement.problem:
            return refused(RunDecision(begun=completed.restore), [confinement.problem])
        try:
            identities = await identities_of(scope.client, scope.namespace, completed.restore)
        except IdentitySecretUnusable as error:
            return refused(RunDecision(begun=completed.restore), [str(error)])
        try:
            spec, default = completed.restore.spec, self._options.default_modifiers
            found = await modifiers_of(scope.client, scope.namespace, spec, default=default)
            policies = await filters_of_restore(scope.client, scope.namespace, spec)
        except (ModifierError, PolicyError) as error:
            return refused(RunDecision(begun=completed.restore), [str(error)])
        status = msgspec.structs.replace(
            status, phase=RestorePhase.IN_PROGRESS, start_timestamp=scope.clock.now()
        )
        return RunDecision(
            begun=msgspec.structs.replace(confinement.restore, status=status),
            execute=partial(
                self._execute,
                backup,
                _Checked(
                    discovery=discovery,
                    confinement=confinement,
                    modifiers=found,
                    policies=policies,
                    caveats=[*completed.warnings, *found.warnings, *caveats],
                    identities=identities,
                ),
            ),
            afterwards=partial(self._forget_journal, backup.spec.storage_location, run),
            targets=targets_of(confinement.restore.spec),
        )

    async def plan_again(self, run: Restore, before: Restore, times: int) -> RunDecision[Restore]:
        """Validate it again, with the limits and rules that apply now. (docs/adr/131)"""
        decision = await self.plan(with_one_source(run))
        return replace(decision, begun=resumed(decision.begun, before, times))

    async def _confined(self, restore: Restore, location: str) -> Confinement:
        """The Restore as it is carried out; a location that is gone meanwhile is not trusted."""
        client, namespace = self._scope.client, self._scope.namespace
        try:
            found = await client.get(BACKUP_STORAGE_LOCATIONS, location, namespace)
        except NotFound:
            problem = f'BackupStorageLocation.velero.io "{location}" not found'
            return Confinement(restore=restore, trusted=False, problem=problem)
        return confined(restore, tenant_of(decode(BackupStorageLocation, found).metadata))

    async def _bounded(self, confinement: Confinement, discovery: Discovery) -> Confinement:
        """The confinement with its limits, by what the cluster grants tenants now."""
        if confinement.problem or not is_bounded(confinement):
            return confinement
        try:
            role = await self._scope.client.get(CLUSTER_ROLES, ROLE)
        except (NotFound, Forbidden) as error:
            problem = f"the ClusterRole {ROLE}, which says what a tenant may restore, cannot be read: {error}"
            return replace(confinement, problem=problem)
        return bounded(confinement, role, discovery.canonical)

    async def _forget_journal(self, location: str, run: Restore) -> None:
        """Delete the journal of a restore that has ended; what stays is deleted with the Restore."""
        try:
            async with self._locations.open(location) as store:
                await store.delete_restore_journal(run.metadata.name, run.metadata.uid)
        except (StorageError, KubeError) as error:
            log.warning("The journal of a restore stays in its location", error=error)

    def taken(self, run: Restore) -> None:
        """Count the attempt, valid or not. (docs/spec: SRV 8.1)"""
        self._scope.metrics.restore_attempted(run.spec.schedule_name)

    def ended(self, run: Restore) -> None:
        """Count the outcome."""
        if run.status.phase in phases.UNFINISHED:
            return  # counted when its item operations have ended
        self._scope.metrics.restore_finished(run.spec.schedule_name, run.status.phase)

    async def _execute(
        self,
        backup: Backup,
        checked: "_Checked",
        restore: Restore,
        _read: JSONObject,
    ) -> Restore:
        scope, confinement = self._scope, checked.confinement
        progress = RunProgress(scope.client, RESTORES, restore, "itemsRestored", scope.clock)
        slot = self._slot_of(Key(restore.metadata.namespace, restore.metadata.name))
        async with AsyncExitStack() as stores:
            try:
                with slot.lent():
                    location = await self._locations.raw(backup.spec.storage_location)
                    opened = await self._locations.acquire(backup.spec.storage_location, location)
                store = (await stores.enter_async_context(opened)).opened_by(checked.identities)
            except (StorageError, KubeError) as error:
                log.error("Error opening the backup storage location", error=error)
                self._availability.worked(backup.spec.storage_location, well=False)
                return failed(restore, f"error opening the backup storage location: {error}", scope)
            if problem := await self._locked(store, restore, backup, slot):
                return failed(restore, problem, scope)
            restorer, moved_data = None, None
            if self._pod_volumes is not None:
                restorer = await stores.enter_async_context(self._pod_volumes.restoring(restore, backup))
                if confinement.trusted:  # it makes claims and pods in the server's namespace
                    moved_data = RestoreMovedData(scope.client, scope.namespace)
            plugins = scope.plugins.operation(client=scope.client, namespace=scope.namespace)
            await stores.enter_async_context(plugins)
            operation = RestoreOperation(
                context=scope.run_context(
                    discovery=checked.discovery,
                    store=store,
                    plugins=plugins,
                    reopen_store=partial(
                        self._locations.reopen,
                        *(backup.spec.storage_location, store_of(location)),
                        run="restore",
                        identities=checked.identities,
                    ),
                    log=self.log_options(restore, confinement.tenant),
                    progress=progress.publish,
                    activity=progress.activity,
                    caveats=[text for text in (confinement.caveat, *checked.caveats) if text],
                    worker_slot=slot,
                ),
                saved_pod_volumes=partial(pod_volumes_in_cluster, scope, store, backup.metadata.name),
                options=self._options,
                pod_volumes=restorer,
                moved_data=moved_data,
            )
            request = RestoreRequest(
                restore=restore,
                backup=backup,
                limits=confinement.limits,
                modifiers=checked.modifiers.modifiers,
                policies=checked.policies,
            )
            async with progress:
                ended = await operation.run(request)
        well = ended.status.phase != RestorePhase.FAILED
        self._availability.worked(backup.spec.storage_location, well=well)
        return ended

    async def _locked(self, store: BackupStore, restore: Restore, backup: Backup, slot: WorkerSlot) -> str:
        """Why the backup cannot be opened, if it is encrypted; empty if it can."""
        try:
            with slot.lent():
                await store.require_key(backup)
        except (IdentityMissing, IdentityRefused) as error:
            return with_remedy(error, restore, self._scope.namespace)
        except (EncryptionBroken, KMSError) as error:
            return str(error)
        except StorageError:
            pass  # the restore says what it cannot read
        return ""

    def log_options(self, restore: Restore, owner: str) -> LogOptions:
        """How log and results are kept: without other namespaces where a tenant reads them. (NAC 17 A31)

        Args:
            owner: the tenant that owns the location of the backup; empty for the administrator's.
        """
        options = self._scope.log_options("restore")
        tenant = owner or restore.metadata.annotations.get(Origin.RESTORE.namespace_annotation, "")
        if not tenant:
            return options
        hide = hiding_for(tenant, self._scope.namespace)
        return msgspec.structs.replace(
            options, hide=hide, hide_results=partial(results_without, tenant=tenant, hide=hide)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checked:
    """The findings of the validation of a Restore."""

    discovery: Discovery
    confinement: Confinement
    modifiers: FoundModifiers
    policies: FilterPolicies
    caveats: Sequence[str]
    identities: Identities | None


class RestoreCensus:
    """Sets the gauge that follows from all Restores, once a minute. (docs/spec: CTL 8.3)"""

    def __init__(self, scope: Scope, informer: Informer) -> None:
        self._scope = scope
        self._informer = informer

    async def resync(self) -> None:
        """Count them."""
        self._scope.metrics.restores_existing(sum(1 for _ in self._informer.objects()))


def controller(parts: Parts) -> Controller:
    """The Restore controller of a server."""
    informer, workers = parts.informers.of(RESTORES), parts.options.restore_workers
    lane_of = parts.lanes.of_restores(informer, parts.informers.of(BACKUPS), workers)
    queue = parts.queue(lane_of)
    work = RestoreWork(
        parts.scope,
        parts.locations,
        options=parts.options.restore,
        pod_volumes=parts.pod_volumes,
        availability=parts.availability,
        slot_of=parts.worker_slots(queue),
    )
    waiting = None
    if not parts.options.parallel_restores_into_namespace:
        waiting = NamespaceQueue(queue.add, party_of=lambda key: lane_of(key).party)
    parts.namespace_queues[RESTORES] = waiting
    parts.limits[RESTORES] = lambda key: limit_text(queue.lacking(lane_of(key)))
    reconciler = RunReconciler(
        parts.scope,
        RESTORE_RUNS,
        work,
        parts.settler,
        in_flight=parts.restores_in_flight,
        queue=waiting,
    )
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=workers + EXTRA_RUNS,
        resync=Resync(RestoreCensus(parts.scope, informer).resync, METRICS_PERIOD_SECONDS),
        clock=parts.scope.clock,
        queue=queue,
    )
    reconciler.watch_by(made, informer)
    return made
