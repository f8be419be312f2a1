"""Watches how Schedules keep their times: metrics and annotations. (ADR 129)

It looks at all of them once a minute, and at one that is new or was changed at once.

It makes no Backup and asks the API server for nothing: what it decides follows from the caches. It writes a
Schedule only if an annotation changes, which is about twice a run.
"""

from collections.abc import Sequence
from datetime import datetime, tzinfo
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.schedules.due import counted_from, is_paused
from pinnace.api.schedules.missed import Punctuality, RunRecord, Timeliness, punctuality
from pinnace.api.values.times import is_ahead, known_time
from pinnace.api.velero.schedule import Schedule
from pinnace.controllers.schedule import judge
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, SCHEDULES
from pinnace.runtime.controller import DONE, Controller, Result, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NAME: Final = "schedule-runs"
PERIOD_SECONDS: Final = 60.0


class ScheduleRuns:
    """Records for each Schedule when it runs next, when it last succeeded, and whether it missed a run."""

    def __init__(self, scope: Scope, schedules: Informer, backups: Informer, *, zone: tzinfo) -> None:
        self._scope = scope
        self._schedules = schedules
        self._backups = backups
        self._zone = zone
        self._told: dict[Key, str] = {}

    async def resync(self) -> None:
        """Look at all Schedules."""
        of_schedule: dict[str, list[JSONObject]] = {}
        for backup in self._backups.objects():
            of_schedule.setdefault(text(backup, "metadata", "labels", labels.SCHEDULE_NAME), []).append(
                backup
            )
        for schedule in self._schedules.objects():
            await self._record(schedule, of_schedule.get(_label(schedule), ()))

    async def reconcile(self, key: Key) -> Result:
        """Look at one Schedule."""
        schedule = self._schedules.get(key)
        if schedule is not None:
            label = _label(schedule)
            backups = [
                backup
                for backup in self._backups.objects()
                if text(backup, "metadata", "labels", labels.SCHEDULE_NAME) == label
            ]
            await self._record(schedule, backups)
        else:
            self._told.pop(key, None)
        return DONE

    async def _record(self, schedule: JSONObject, backups: Sequence[JSONObject]) -> None:
        found = look(schedule, backups, self._scope.clock.now(), self._zone)
        self._scope.metrics.schedule_runs(
            _label(schedule),
            expected=found.is_expected,
            missed=found.state is Timeliness.MISSED,
            succeed_by=None if found.succeed_by is None else found.succeed_by.timestamp(),
        )
        await self._note(schedule, found.notes(last_success(backups)))

    async def _note(self, schedule: JSONObject, notes: dict[str, str | None]) -> None:
        metadata = mapping(schedule, "metadata")
        present = mapping(metadata, "annotations")
        changed = {name: value for name, value in notes.items() if present.get(name) != value}
        if not changed or metadata.get("deletionTimestamp"):
            return
        key = Key.of(schedule)
        if missed := changed.get(labels.MISSED_RUN):
            state, _, rest = missed.partition(" ")
            # At the start of a server both look at a schedule, before the cache shows what one has written.
            if state == Timeliness.MISSED and self._told.get(key) != rest:
                self._told[key] = rest
                log.error("A run of the schedule was missed", schedule=str(key), due=rest)
        patch = {"metadata": {"uid": metadata.get("uid"), "annotations": changed}}
        try:
            await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        except NotFound:
            return


def _label(schedule: JSONObject) -> str:
    return labels.label_value(text(schedule, "metadata", "name"))


def is_changed(old: JSONObject, new: JSONObject) -> bool:
    """Whether the times of a Schedule may have changed: by its author, or by a run. Pure."""
    return _times_of(old) != _times_of(new)


def _times_of(schedule: JSONObject) -> tuple[object, ...]:
    rules = (labels.NOT_DURING, labels.CATCH_UP, labels.ALLOW_OVERLAP)
    return (
        mapping(schedule, "spec"),
        [mapping(schedule, "metadata", "annotations").get(name) for name in rules],
        [mapping(schedule, "status").get(name) for name in ("lastBackup", "lastSkipped")],
    )


def look(schedule: JSONObject, backups: Sequence[JSONObject], now: datetime, zone: tzinfo) -> Punctuality:
    """How a Schedule keeps its times, given the Backups with its label. Pure."""
    if is_paused(schedule):
        return Punctuality(state=Timeliness.PAUSED)
    verdict = judge(schedule)
    if verdict.schedule is None or verdict.rules is None:
        return Punctuality(state=Timeliness.INVALID, reason="; ".join(verdict.errors))
    begun = [
        moment
        for backup in backups
        if text(backup, "status", "phase") not in phases.FINAL
        and (
            moment := known_time(text(backup, "status", "startTimestamp"))
            or known_time(text(backup, "metadata", "creationTimestamp"))
        )
    ]
    record = RunRecord(
        counted_from=counted_from(verdict.schedule, now=now),
        success_counts_from=_success_counts_from(verdict.schedule, backups, now),
        running_since=min(begun, default=None),
        has_run=verdict.schedule.status.last_backup is not None,
    )
    return punctuality(verdict.rules, record, now, zone)


def _success_counts_from(schedule: Schedule, backups: Sequence[JSONObject], now: datetime) -> datetime:
    moments = (last_success(backups), schedule.metadata.creation_timestamp, schedule.status.last_skipped)
    past = (moment for moment in moments if moment is not None and not is_ahead(moment, now))
    return max(past, default=now)


def last_success(backups: Sequence[JSONObject]) -> datetime | None:
    """When the newest Completed one of some Backups ended; None if none did. Pure."""
    ended = (
        known_time(text(backup, "status", "completionTimestamp"))
        for backup in backups
        if text(backup, "status", "phase") == BackupPhase.COMPLETED
    )
    return max((moment for moment in ended if moment is not None), default=None)


def controller(parts: Parts) -> Controller:
    """The controller that watches the runs of Schedules."""
    schedules, backups = parts.informers.of(SCHEDULES), parts.informers.of(BACKUPS)
    runs = ScheduleRuns(parts.scope, schedules, backups, zone=parts.options.zone)
    resync = Resync(runs.resync, PERIOD_SECONDS)
    made = Controller(NAME, runs.reconcile, resync=resync, clock=parts.scope.clock)

    def changed(old: JSONObject, new: JSONObject) -> None:
        if is_changed(old, new):
            made.enqueue(Key.of(new))

    made.watch(schedules, on_update=False, on_delete=True)
    schedules.add_handlers(on_update=changed)
    made.wait_for(backups)
    return made
