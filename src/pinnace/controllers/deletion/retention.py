"""The retention controller: asks for the deletion of backups that the rules of their Schedule do not keep.

    annotation `pinnace.io/retention` ──> cannot be read, or keeps nothing: `retention-status` says so
       └──> what goes ──> more than ten that nobody could expect: announced in the Schedule, they wait
                └───────> a last look at each ──> DeleteBackupRequest

It deletes nothing itself: a DeleteBackupRequest takes the data of volumes along, or is refused. Every doubt
keeps a backup: clocks that differ, a cluster without an identity, a location that is away, a hold, a restore
that reads the backup, an object that changed meanwhile. A pass can be repeated: backups whose deletion is
asked for neither count nor go again. (docs/adr/128)
"""

from collections.abc import Callable, Iterable
from datetime import tzinfo
from typing import Final, Protocol

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.breaker import write_announced
from pinnace.api.retention.candidates import Surroundings
from pinnace.api.retention.passes import (
    RetentionPass,
    RetentionResult,
    names_being_deleted,
    names_being_restored,
    one_pass,
    status_note,
    waiting_text,
)
from pinnace.api.retention.removal import RemovalReason
from pinnace.api.retention.rules import RetentionError, RetentionRules
from pinnace.controllers.deletion.asking import ask_for_deletion, asking_controller, location_obstacle
from pinnace.controllers.shared.clocks import clock_doubt
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.identity import read_identity
from pinnace.kube.resources import BACKUPS, DELETE_BACKUP_REQUESTS, RESTORES, SCHEDULES
from pinnace.runtime.controller import CHANGED, DONE, Controller, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.errors import StorageError

log = get_logger(__name__)

NAME: Final = "retention"
_PAST_DUE_SECONDS: Final = 1.0


class RetentionMetrics(Protocol):
    """The metrics of rules of retention."""

    def retention_passed(self, schedule: str, *, readable: bool, waiting: int) -> None: ...

    def retention_requested(self, schedule: str) -> None: ...

    def retention_gone(self, schedule: str) -> None: ...


class RetentionReconciler:
    """Applies the rules of Schedules.

    Args:
        schedules: the Schedules.
        zone: of Schedules that name none.
        enqueue: adds a key to the work queue.
    """

    def __init__(
        self,
        scope: Scope,
        locations: LocationStores,
        schedules: Informer,
        *,
        metrics: RetentionMetrics,
        zone: tzinfo,
        enqueue: Callable[[Key], None],
    ) -> None:
        self._scope = scope
        self._locations = locations
        self._schedules = schedules
        self._metrics = metrics
        self._zone = zone
        self._enqueue = enqueue

    async def enqueue_all(self) -> None:
        """Queue all Schedules with rules. Makes no request."""
        for obj in self._schedules.objects():
            if has_rules(obj):
                self._enqueue(Key.of(obj))

    def keys_of_backup(self, backup: JSONObject) -> Iterable[Key]:
        """The Schedule with rules that made a Backup, by its label."""
        label = text(backup, "metadata", "labels", labels.SCHEDULE_NAME)
        for obj in self._schedules.objects() if label else ():
            if has_rules(obj) and labels.label_value(obj["metadata"]["name"]) == label:
                yield Key.of(obj)

    async def reconcile(self, key: Key) -> Result:
        """One pass of the rules of one Schedule."""
        label = labels.label_value(key.name)
        try:
            schedule = await self._scope.client.get(SCHEDULES, key.name, key.namespace)
        except NotFound:
            self._metrics.retention_gone(label)
            return DONE
        if schedule["metadata"].get("deletionTimestamp"):
            return DONE
        with bound_fields(schedule=str(key)):
            try:
                rules = RetentionRules.of_schedule(schedule)
            except RetentionError as error:
                self._metrics.retention_passed(label, readable=False, waiting=0)
                return await self._note(
                    key, schedule, RetentionResult.INVALID, f"{error}; nothing is deleted"
                )
            if rules is None:
                self._metrics.retention_gone(label)
                return await self._forget(key, schedule)
            return await self._pass(key, schedule, rules)

    async def _pass(self, key: Key, schedule: JSONObject, rules: RetentionRules) -> Result:
        client, now = self._scope.client, self._scope.clock.now().replace(microsecond=0)
        around = await self._surroundings(key)
        backups = await client.list_all(
            BACKUPS, key.namespace, label_selector=f"{labels.SCHEDULE_NAME}={labels.label_value(key.name)}"
        )
        if doubt := clock_doubt(client):  # by the answers to the requests above
            log.warning("No backup is deleted by rules for now", reason=doubt)
            return DONE
        found = one_pass(schedule, rules, backups, around, zone=self._zone)
        self._metrics.retention_passed(
            labels.label_value(key.name), readable=True, waiting=len(found.waiting)
        )
        said = waiting_text(found, key.name)
        result = RetentionResult.WAITING if said else RetentionResult.APPLIED
        # Before anything is deleted: an announcement that is not stored announces nothing.
        noted = await self._note(
            key, schedule, result, said, announced=write_announced(found.breaker.announced)
        )
        if noted != DONE:
            return noted
        await self._request_all(key, found, {obj["metadata"]["name"]: obj for obj in backups})
        if found.breaker.next_at is None:
            return DONE
        return Result.after((found.breaker.next_at - now).total_seconds() + _PAST_DUE_SECONDS)

    async def _surroundings(self, key: Key) -> Surroundings:
        client = self._scope.client
        cluster = (await read_identity(client)).uid
        requests = await client.list_all(DELETE_BACKUP_REQUESTS, key.namespace)
        restores = await client.list_all(RESTORES, key.namespace)
        return Surroundings(
            now=self._scope.clock.now().replace(microsecond=0),
            cluster=cluster,
            deleting=names_being_deleted(requests),
            restoring=names_being_restored(restores),
        )

    async def _request_all(self, key: Key, found: RetentionPass, listed: dict[str, JSONObject]) -> None:
        """Ask for the deletion of all that may go now, by location."""
        by_location: dict[str, list[JSONObject]] = {}
        for name in found.going:
            obj = listed[name]
            # One that never began is in no location.
            has_begun = bool(text(obj, "status", "startTimestamp"))
            location = text(obj, "spec", "storageLocation") if has_begun else ""
            by_location.setdefault(location, []).append(obj)
        for obj in by_location.pop("", []):
            await self._request(key, obj, None)
        for location, backups in by_location.items():
            obstacle = await location_obstacle(self._scope.client, self._scope.namespace, location)
            if obstacle is not None:
                log.info("Backups that no rule keeps stay for now", location=location, reason=obstacle.reason)
                continue
            try:
                async with self._locations.open(location) as store:
                    for obj in backups:
                        await self._request(key, obj, store)
            except StorageError as error:
                log.warning(
                    "Backups that no rule keeps stay, as their location cannot be asked for holds",
                    location=location,
                    error=error,
                )

    async def _request(self, key: Key, listed: JSONObject, store: BackupStore | None) -> None:
        """Ask for the deletion of a backup after a last look at it. Raises StorageError, KubeError."""
        name = listed["metadata"]["name"]
        try:
            obj = await self._scope.client.get(BACKUPS, name, self._scope.namespace)
        except NotFound:
            return
        if obj["metadata"].get("resourceVersion") != listed["metadata"].get("resourceVersion"):
            self._enqueue(key)  # what it is now decides
            return
        if await ask_for_deletion(self._scope, obj, store, RemovalReason.RULE):
            self._metrics.retention_requested(labels.label_value(key.name))

    async def _note(
        self, key: Key, schedule: JSONObject, result: RetentionResult, said: str, *, announced: str = ""
    ) -> Result:
        """Write the result of a pass into the Schedule, if it is another one than before."""
        notes = mapping(schedule, "metadata", "annotations")
        former = text(notes, labels.RETENTION_STATUS)
        changed: dict[str, str | None] = {}
        if (note := status_note(result, said, former, self._scope.clock.now())) is not None:
            changed[labels.RETENTION_STATUS] = note
            if result != RetentionResult.APPLIED:
                log.warning("Rules of retention are not carried out", result=result, reason=said)
        if announced != text(notes, labels.RETENTION_ANNOUNCED):
            changed[labels.RETENTION_ANNOUNCED] = announced or None
        return await self._annotate(key, schedule, changed) if changed else DONE

    async def _forget(self, key: Key, schedule: JSONObject) -> Result:
        """Remove what passes have noted in a Schedule that has no rules any more."""
        notes = mapping(schedule, "metadata", "annotations")
        left: dict[str, str | None] = {
            name: None for name in (labels.RETENTION_STATUS, labels.RETENTION_ANNOUNCED) if name in notes
        }
        return await self._annotate(key, schedule, left) if left else DONE

    async def _annotate(self, key: Key, schedule: JSONObject, notes: dict[str, str | None]) -> Result:
        """Set annotations of the Schedule as it was read; CHANGED if it is another one by now."""
        metadata = {"resourceVersion": schedule["metadata"]["resourceVersion"], "annotations": notes}
        try:
            await self._scope.client.patch(SCHEDULES, key.name, {"metadata": metadata}, key.namespace)
        except (Conflict, NotFound):
            return CHANGED
        return DONE


def has_rules(schedule: JSONObject) -> bool:
    """Whether a Schedule has rules, or had some when a pass looked at it last."""
    notes = mapping(schedule, "metadata", "annotations")
    return labels.RETENTION in notes or labels.RETENTION_STATUS in notes


def _has_ended(backup: JSONObject) -> bool:
    return text(backup, "status", "phase") in phases.FINAL


def controller(parts: Parts) -> Controller:
    """The retention controller of a server."""
    schedules, queue = parts.informers.of(SCHEDULES), parts.queue()
    reconciler = RetentionReconciler(
        parts.scope,
        parts.locations,
        schedules,
        metrics=parts.scope.metrics,
        zone=parts.options.zone,
        enqueue=queue.add,
    )
    made = asking_controller(parts, NAME, reconciler.reconcile, reconciler.enqueue_all, queue)
    made.watch(schedules, predicate=has_rules, on_delete=True)
    made.watch(parts.informers.of(BACKUPS), keys=reconciler.keys_of_backup, predicate=_has_ended)
    return made
