"""The Backup controller: validates new Backups and runs them. (docs/spec: CTL 3)"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

from msgspec.structs import replace

from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.labels import SCHEDULE_NAME, SIZE_BYTES, label_value
from pinnace.api.nonadmin.hiding import hiding_for
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, member, text
from pinnace.api.phases import BackupPhase
from pinnace.api.resource_policies import PolicyError, ResourcePolicies
from pinnace.api.selection.names import IncludesExcludes
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import known_time, parse_time
from pinnace.api.velero.backup import Backup, BackupSpec
from pinnace.api.velero.snapshot_location import VolumeSnapshotLocation
from pinnace.api.velero.storage_location import BackupStorageLocation
from pinnace.backup.request import (
    ServerDefaults,
    Unreadable,
    note_global_policies,
    note_source,
    prepare_backup,
)
from pinnace.controllers.run_progress import RunProgress
from pinnace.controllers.shared.availability import Availability
from pinnace.controllers.shared.backup_keys import BackupKeys
from pinnace.controllers.shared.lanes import EXTRA_RUNS, limit_text
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.namespace_queue import NO_NAMESPACE, NamespaceQueue, Targets
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.pod_volumes import PodVolumes
from pinnace.controllers.shared.runs import BACKUP_RUNS, RunDecision, RunReconciler, failed, refused
from pinnace.controllers.shared.scope import Scope
from pinnace.csi.snapshots import FEATURE
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import PASSING_ERRORS, KubeError
from pinnace.kube.identity import ClusterIdentity, read_identity
from pinnace.kube.requesting import ServerVersion
from pinnace.kube.resources import (
    BACKUP_STORAGE_LOCATIONS,
    BACKUPS,
    NAMESPACES,
    SCHEDULES,
    VOLUME_SNAPSHOT_LOCATIONS,
    APIResource,
)
from pinnace.operations.backup import BackupOperation
from pinnace.operations.namespace_choice import NamespaceChoiceError, choose_namespaces
from pinnace.operations.policies import policies_of
from pinnace.runs.context import LogOptions
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.runtime.worker_slots import WorkerSlot
from pinnace.storage.errors import StorageError
from pinnace.storage.object_lock import LOCK_MODE
from pinnace.volumes.repository_places import store_of

log = get_logger(__name__)

NAME: Final = "backup"
METRICS_PERIOD_SECONDS: Final = 60.0
VERSION_SECONDS: Final = 60.0
"""How long the version of the cluster is kept, which each Backup records."""
FRESH_SECONDS: Final = 10.0
"""How long a location that was read to validate a Backup need not be read again to open its store."""

LocationT = TypeVar("LocationT", BackupStorageLocation, VolumeSnapshotLocation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduling:
    """Decides when Backups begin and when they make room for others.

    Attributes:
        slot_of: returns the worker of a Backup that is being processed.
        namespaces: the queue of the backups that run at once; None where only one runs.
    """

    slot_of: Callable[[Key], WorkerSlot] = lambda _: WorkerSlot()
    namespaces: NamespaceQueue | None = None


class BackupWork:
    """Plans and carries out Backups.

    Args:
        defaults: the values of fields that a Backup leaves out.
        pod_volumes: saves the content of pod volumes; None: such volumes are not saved.
        availability: shared with the Restore controller.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        *,
        defaults: ServerDefaults,
        pod_volumes: PodVolumes | None = None,
        availability: Availability | None = None,
        scheduling: Scheduling | None = None,
    ) -> None:
        self._scheduling = scheduling or Scheduling()
        self._unreadable: dict[tuple[str, str], str] = {}
        self._version: ServerVersion | None = None
        self._identity = ClusterIdentity()
        self._version_until = 0.0
        self._scope = scope
        self._locations = locations
        self._availability = availability or Availability(locations)
        self._defaults = defaults
        self._pod_volumes = pod_volumes

    async def plan(self, run: Backup, caveats: Sequence[str] = ()) -> RunDecision[Backup]:
        """Validate and complete it by what the cluster is and has now. (docs/spec: CTL 3.2)"""
        scope = self._scope
        version = await self._cluster_version()
        discovery = await Discovery.load(
            scope.client, all_versions=scope.all_versions, server_version=version
        )
        listed = await self._listed(BACKUP_STORAGE_LOCATIONS)
        read_at = self._scope.clock.monotonic()
        locations = self._decoded(BackupStorageLocation, listed)
        prepared = prepare_backup(
            run,
            defaults=self._defaults,
            storage_locations=locations,
            snapshot_locations=self._decoded(
                VolumeSnapshotLocation, await self._listed(VOLUME_SNAPSHOT_LOCATIONS)
            ),
            server_version=version,
            now=scope.clock.now(),
        )
        note_source(prepared, self._identity)
        if problem := await self._unavailable(prepared, locations):
            prepared.status.phase = BackupPhase.FAILED_VALIDATION
            prepared.status.validation_errors = [problem]
            prepared.status.start_timestamp = None
        policies, problems = None, []
        try:
            await choose_namespaces(scope.client, prepared)
        except NamespaceChoiceError as error:
            problems.append(str(error))
        try:
            of_server = self._defaults.volume_policies
            policies = await policies_of(
                scope.client, scope.namespace, prepared.spec, discovery.canonical, of_server=of_server
            )
            note_global_policies(prepared, of_server)
        except PolicyError as error:
            note_global_policies(prepared, "")
            problems.append(str(error))
        if prepared.spec.snapshot_move_data and FEATURE not in scope.features:
            problems.append(
                f"spec.snapshotMoveData needs CSI snapshots: start the server with --features {FEATURE}"
            )
        valid = prepared.status.phase == BackupPhase.IN_PROGRESS
        location = _named(listed, prepared.spec.storage_location)
        cluster = _Cluster(discovery=discovery, policies=policies, location=location, read_at=read_at)
        execute = partial(self._execute, cluster, caveats) if valid else None
        targets = NO_NAMESPACE
        if valid and self._scheduling.namespaces is not None:
            targets = await self._targets(prepared.spec)
        return refused(RunDecision(begun=prepared, execute=execute, targets=targets), problems)

    async def _cluster_version(self) -> ServerVersion:
        """The version of the cluster, as it was at most a minute ago; its identity is read with it."""
        now = self._scope.clock.monotonic()
        if self._version is None or now >= self._version_until:
            self._version = await self._scope.client.version()
            self._identity = await read_identity(self._scope.client)
            self._version_until = now + VERSION_SECONDS
        return self._version

    async def _targets(self, spec: BackupSpec) -> Targets:
        """The namespaces of a backup that exist now; any, if they may not be listed. (docs/spec: BEY 4.11)"""
        try:
            listed = await self._scope.client.list_all(NAMESPACES)
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            log.warning("Namespaces cannot be listed, the backup waits for all others", error=error)
            return Targets(None)
        chosen = IncludesExcludes(spec.included_namespaces, spec.excluded_namespaces)
        names = (text(namespace, "metadata", "name") for namespace in listed)
        return Targets(frozenset(filter(chosen.matches, names)))

    def _collected(self, key: Key, schedule: str, size_bytes: int) -> None:
        """Let other backups begin: the cluster has been read, and only the upload is left."""
        self._scope.metrics.backup_tarball_size(schedule, size_bytes)
        if self._scheduling.namespaces is not None:
            self._scheduling.namespaces.remove(key)

    async def _unavailable(
        self, backup: Backup, locations: Sequence[BackupStorageLocation] | Unreadable
    ) -> str:
        """Why the location of an otherwise valid backup cannot take it now. (docs/spec: BEY 4.12)"""
        if backup.status.phase != BackupPhase.IN_PROGRESS or isinstance(locations, Unreadable):
            return ""
        name = backup.spec.storage_location
        location = next(each for each in locations if each.metadata.name == name)
        slot = self._scheduling.slot_of(_key_of(backup))
        with slot.lent():
            problem = await self._availability.problem(location)
        if problem:
            return unavailable(name, problem)
        await slot.take()
        return ""

    def _decoded(
        self, struct: type[LocationT], listed: Sequence[JSONObject] | Unreadable
    ) -> list[LocationT] | Unreadable:
        """The locations that can be read; one that cannot is no reason to fail the backups of the others."""
        if isinstance(listed, Unreadable):
            return listed
        found = []
        for obj in listed:
            known = (struct.__name__, text(obj, "metadata", "name"))
            try:
                found.append(decode(struct, obj))
                self._unreadable.pop(known, None)
            except DecodeError as error:
                if self._unreadable.get(known) != str(error):
                    self._unreadable[known] = str(error)
                    log.warning("Location cannot be read", location=known[1], error=error)
        return found

    async def _listed(self, resource: APIResource) -> list[JSONObject] | Unreadable:
        try:
            return await self._scope.client.list_all(resource, self._scope.namespace)
        except PASSING_ERRORS:
            raise
        except KubeError as error:
            return Unreadable(str(error))

    def taken(self, run: Backup) -> None:
        """Count the attempt."""
        if run.status.phase == BackupPhase.IN_PROGRESS:
            self._scope.metrics.backup_attempted(_schedule_of(run))

    def ended(self, run: Backup) -> None:
        """Count the outcome. (docs/spec: SRV 8.1)"""
        metrics, status, schedule = self._scope.metrics, run.status, _schedule_of(run)
        if status.phase in phases.UNFINISHED:
            return  # counted when its item operations have ended
        metrics.backup_finished(schedule, status.phase)
        if status.start_timestamp is None or status.completion_timestamp is None:
            return
        seconds = (status.completion_timestamp - status.start_timestamp).total_seconds()
        metrics.backup_duration(schedule, seconds)
        if status.phase == BackupPhase.COMPLETED:
            metrics.backup_last_successful(schedule, status.completion_timestamp.timestamp())
        metrics.backup_items(
            schedule,
            items=status.progress.items_backed_up if status.progress is not None else 0,
            errors=status.errors,
            warnings=status.warnings,
        )
        metrics.csi_snapshots(
            schedule,
            run.metadata.name,
            attempted=status.csi_volume_snapshots_attempted,
            completed=status.csi_volume_snapshots_completed,
        )
        metrics.volume_snapshots(
            schedule,
            attempted=status.volume_snapshots_attempted,
            completed=status.volume_snapshots_completed,
        )

    async def _execute(
        self, cluster: "_Cluster", caveats: Sequence[str], backup: Backup, read: JSONObject
    ) -> Backup:
        scope, slot = self._scope, self._scheduling.slot_of(_key_of(backup))
        try:
            with slot.lent():
                location = cluster.fresh_location(self._scope.clock.monotonic())
                if location is None:
                    location = await self._locations.raw(backup.spec.storage_location)
                store = await self._locations.acquire(backup.spec.storage_location, location)
        except (StorageError, KubeError) as error:
            log.error("Error opening the backup storage location", error=error)
            self._availability.worked(backup.spec.storage_location, well=False)
            return failed(backup, f"error opening the backup storage location: {error}", scope)
        plugins = scope.plugins.operation(client=scope.client, namespace=scope.namespace)
        is_locked = bool(text(location, "spec", "config", LOCK_MODE))
        volumes = (
            self._pod_volumes.backing_up(backup, is_locked=is_locked)
            if self._pod_volumes is not None
            else nullcontext()
        )
        progress = RunProgress(scope.client, BACKUPS, backup, "itemsBackedUp", scope.clock)
        context = scope.run_context(
            discovery=cluster.discovery,
            store=store,
            plugins=plugins,
            reopen_store=partial(
                self._locations.reopen, backup.spec.storage_location, store_of(location), run="backup"
            ),
            log=self.log_options(backup),
            progress=progress.publish,
            activity=progress.activity,
            caveats=caveats,
            worker_slot=slot,
            keep_key=partial(BackupKeys(scope).keep, backup),
        )
        async with store, plugins, volumes as pod_volumes, progress:
            operation = BackupOperation(
                replace(context, read=read),
                pod_volumes=pod_volumes,
                policies=cluster.policies,
                on_tarball=partial(self._collected, _key_of(backup), _schedule_of(backup)),
            )
            ended = await operation.run(backup)
        well = ended.status.phase != BackupPhase.FAILED
        if not well and store.encrypts and ended.status.backup_item_operations_attempted:
            await BackupKeys(scope).delete(ended)  # it was about to wait, and is not stored
        self._availability.worked(backup.spec.storage_location, well=well)
        return ended

    def log_options(self, backup: Backup) -> LogOptions:
        """How the log is kept: without other namespaces where a tenant reads it. (docs/spec: NAC 17 A31)"""
        tenant = backup.metadata.annotations.get(Origin.BACKUP.namespace_annotation, "")
        hide = hiding_for(tenant, self._scope.namespace) if tenant else None
        return replace(self._scope.log_options("backup"), hide=hide)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cluster:
    """The state of the cluster when a Backup is validated.

    Attributes:
        location: the BackupStorageLocation of the Backup; None if there is none.
        read_at: when it was read, by the monotonic clock.
    """

    discovery: Discovery
    policies: ResourcePolicies | None
    location: JSONObject | None
    read_at: float

    def fresh_location(self, now: float) -> JSONObject | None:
        """The location, unless the Backup has waited since, for example for a worker."""
        return self.location if now - self.read_at < FRESH_SECONDS else None


class BackupCensus:
    """Sets the gauges that follow from all Backups, once a minute. (docs/spec: CTL 3.7)

    They are there at once when a server starts, and go with the Schedule and its Backups.

    Args:
        informer: the Backups.
        schedules: the Schedules.
    """

    def __init__(self, scope: Scope, informer: Informer, schedules: Informer) -> None:
        self._scope = scope
        self._informer = informer
        self._schedules = schedules

    async def resync(self) -> None:
        """Count them, and find the newest one and the newest success of each schedule."""
        metrics, backups = self._scope.metrics, list(self._informer.objects())
        metrics.backups_existing(len(backups))
        successes = last_successes(backups)
        for schedule, moment in successes.items():
            metrics.backup_last_successful(schedule, moment.timestamp())
        # A backup that has just ended may be counted before the cache shows its end.
        recent = self._scope.clock.now() - timedelta(seconds=METRICS_PERIOD_SECONDS)
        metrics.keep_last_successful(successes, since=recent.timestamp())
        existing = {label_value(text(obj, "metadata", "name")) for obj in self._schedules.objects()}
        for schedule, backup in newest_ended(backups).items():
            began = bool(text(backup, "status", "startTimestamp"))
            size = text(backup, "metadata", "annotations", SIZE_BYTES)
            metrics.newest_backup(
                schedule,
                text(backup, "status", "phase"),
                exists=schedule in existing,
                items=_count(backup, "progress", "itemsBackedUp") if began else None,
                errors=_count(backup, "errors") if began else None,
                size_bytes=int(size) if is_digits(size) and len(size) < 20 else None,
            )
        names = {(_schedule_label(obj), text(obj, "metadata", "name")) for obj in backups}
        metrics.keep_schedules(existing | {schedule for schedule, _ in names}, names)


def controller(parts: Parts) -> Controller:
    """The Backup controller of a server."""
    informer, workers = parts.informers.of(BACKUPS), parts.options.backup_workers
    lane_of = parts.lanes.of_backups(informer, workers)
    queue = parts.queue(lane_of)
    # One worker needs no such queue: it reads for one backup at a time.
    overlaps = NamespaceQueue(queue.add, party_of=lambda key: lane_of(key).party) if workers > 1 else None
    parts.namespace_queues[BACKUPS] = overlaps
    parts.limits[BACKUPS] = lambda key: limit_text(queue.lacking(lane_of(key)))
    work = BackupWork(
        parts.scope,
        parts.locations,
        defaults=parts.options.defaults,
        pod_volumes=parts.pod_volumes,
        availability=parts.availability,
        scheduling=Scheduling(slot_of=parts.worker_slots(queue), namespaces=overlaps),
    )
    reconciler = RunReconciler(
        parts.scope, BACKUP_RUNS, work, parts.settler, in_flight=parts.backups_in_flight, queue=overlaps
    )
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=workers + EXTRA_RUNS,
        resync=Resync(
            BackupCensus(parts.scope, informer, parts.informers.of(SCHEDULES)).resync, METRICS_PERIOD_SECONDS
        ),
        clock=parts.scope.clock,
        queue=queue,
    )
    reconciler.watch_by(made, informer)
    return made


def _named(listed: Sequence[JSONObject] | Unreadable, name: str) -> JSONObject | None:
    if isinstance(listed, Unreadable):
        return None
    return next((obj for obj in listed if text(obj, "metadata", "name") == name), None)


def unavailable(location: str, problem: str) -> str:
    """Why a new backup is refused; the first sentence is Velero's since 1.17."""
    velero = f"backup can't be created because BackupStorageLocation {location} is in Unavailable status."
    return f"{velero} {problem}"


def last_successes(backups: list[JSONObject]) -> dict[str, datetime]:
    """The newest completion of a Completed backup by schedule; "" for those of no schedule."""
    newest: dict[str, str] = {}
    for backup in backups:
        status = backup.get("status") or {}
        completed = status.get("completionTimestamp")
        if status.get("phase") == BackupPhase.COMPLETED and completed and known_time(completed):
            schedule = _schedule_label(backup)
            # Timestamps of the API sort as text: all are UTC with whole seconds.
            newest[schedule] = max(completed, newest.get(schedule, ""))
    return {schedule: parse_time(text) for schedule, text in newest.items()}


def newest_ended(backups: list[JSONObject]) -> dict[str, JSONObject]:
    """The newest Backup that has ended by schedule, in any phase; "" for those of no schedule."""
    newest: dict[str, tuple[datetime, JSONObject]] = {}
    for backup in backups:
        moment = _begin_of(backup)
        if text(backup, "status", "phase") not in phases.FINAL or moment is None:
            continue
        schedule = _schedule_label(backup)
        if schedule not in newest or newest[schedule][0] <= moment:
            newest[schedule] = moment, backup
    return {schedule: backup for schedule, (_, backup) in newest.items()}


def _begin_of(backup: JSONObject) -> datetime | None:
    """When it was made; one that was found in a location was created here later than it began.

    The earlier of both counts: our clock may have been ahead when it began.
    """
    moments = (
        known_time(text(backup, "status", "startTimestamp")),
        known_time(text(backup, "metadata", "creationTimestamp")),
    )
    return min((moment for moment in moments if moment is not None), default=None)


def _schedule_label(backup: JSONObject) -> str:
    return text(backup, "metadata", "labels", SCHEDULE_NAME)


def _count(backup: JSONObject, *path: str) -> int:
    """A count of the status: 0 if it is left out, or anybody has written something else."""
    found = member(backup, "status", *path)
    return found if isinstance(found, int) else 0


def _key_of(backup: Backup) -> Key:
    return Key(backup.metadata.namespace, backup.metadata.name)


def _schedule_of(backup: Backup) -> str:
    return backup.metadata.labels.get(SCHEDULE_NAME, "")
