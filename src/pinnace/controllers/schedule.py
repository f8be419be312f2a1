"""The Schedule controller: makes Backups when cron expressions say so. (docs/spec: CTL 4, API 4)

    paused: nothing is done
    validate ──> FailedValidation, until the spec is corrected
       └───────> Enabled ──due──> look for the run's Backup ──> create it ──> lastBackup
                    ├ skipImmediately: what is due is left out ──> lastSkipped
                    ├ a window of `not-during` holds: tried again at its end
                    ├ an earlier Backup has not ended, and overlap is not allowed: tried again every minute
                    ├ the API server refuses the Backup: FailedValidation, tried again every minute
                    └ not due: tried again when it is

Runs count from the last one, or from the creation of the Schedule before its first: a Schedule that another
server made does not run at once because that server never ran it. (docs/spec: BEY 7.1)

`status.lastBackup` alone says which runs are done, and it is written last: a server that dies in between
leaves a Backup that the next one finds by its label and by the time in its name, so that the run is neither
missed nor made twice. Runs missed meanwhile become one, or none where the Schedule says so. `api.schedules`
decides what is due when. (ADR 130)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Final, Protocol

from pinnace.api import labels
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.objects import JSONObject, text
from pinnace.api.schedules.due import NextRun, counted_from, interval_seconds, is_paused, next_run
from pinnace.api.schedules.rules import ScheduleRules, read_rules
from pinnace.api.schedules.runs import backup_of, is_made_for, is_unfinished
from pinnace.api.values.times import format_time, is_ahead, known_time, parse_time
from pinnace.api.velero.schedule import Schedule, SchedulePhase
from pinnace.backup.request import movement_errors, ttl_errors
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import MAIN_WORKERS, Scope
from pinnace.kube.errors import PASSING_ERRORS, AlreadyExists, Conflict, KubeError, NotFound
from pinnace.kube.resources import BACKUPS, SCHEDULES
from pinnace.runtime.controller import CHANGED, DONE, Controller, Result, Resync
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

NAME: Final = "schedule"
POLL_PERIOD_SECONDS: Final = 60.0
"""How often to look for runs that a timer missed because the clock was set. (docs/spec: CTL 2.1)"""

_IN_FLIGHT: Final = timedelta(minutes=2)
"""For how long a create without an answer may still take effect; API servers end requests after one."""

_PAST_DUE_SECONDS: Final = 0.001
_AGAIN_SECONDS: Final = 60.0
"""Between two looks at a run that is due and cannot begin."""

_WEBHOOK: Final = "webhook"
"""In the API server's error when an admission webhook does not answer, which can last."""

_NAME_TAKEN_SECONDS: Final = 1.0


class ScheduleMetrics(Protocol):
    """The metrics of schedules. (docs/spec: SRV 8.1)"""

    def schedule_seen(self, schedule: str, phase: str) -> None: ...

    def schedule_gone(self, schedule: str) -> None: ...

    def schedule_overdue(self, schedule: str, seconds: float) -> None: ...

    def schedule_interval(self, schedule: str, seconds: float) -> None: ...

    def backup_refused(self, schedule: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of the validation of a Schedule.

    Attributes:
        schedule: None if it cannot be read.
        rules: None if spec or annotations are not valid.
        errors: why it is not valid.
        warnings: the fields that are ignored.
    """

    schedule: Schedule | None
    rules: ScheduleRules | None
    errors: list[str]
    warnings: tuple[str, ...] = ()

    @property
    def phase(self) -> SchedulePhase:
        """The phase that follows."""
        return SchedulePhase.FAILED_VALIDATION if self.rules is None else SchedulePhase.ENABLED


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A run that was begun: the name of its Backup follows from the moment."""

    uid: str
    moment: datetime


class _Refused(Exception):
    """The API server refused the Backup of a run: a quota, an admission webhook or its validation."""


class ScheduleReconciler:
    """Makes the Backups of Schedules.

    Args:
        informer: the Schedules.
        zone: the time zone of cron expressions and of the names of Backups.
        enqueue: adds a key to the work queue.
        skip_immediately: the default of `spec.skipImmediately`.
    """

    def __init__(
        self,
        scope: Scope,
        informer: Informer,
        *,
        metrics: ScheduleMetrics,
        zone: tzinfo,
        enqueue: Callable[[Key], None],
        skip_immediately: bool = False,
    ) -> None:
        self._scope = scope
        self._informer = informer
        self._metrics = metrics
        self._zone = zone
        self._enqueue = enqueue
        self._skip_immediately = skip_immediately
        self._begun: dict[Key, _Attempt] = {}
        self._skipped: dict[str, datetime] = {}
        self._ahead: dict[str, datetime] = {}
        self._warned: dict[Key, tuple[str, ...]] = {}
        self._refused: dict[Key, str] = {}
        self._explained: dict[Key, datetime] = {}

    async def reconcile(self, key: Key) -> Result:
        """Validate the Schedule and make its Backup if one is due."""
        try:
            obj = await self._scope.client.get(SCHEDULES, key.name, key.namespace)
        except NotFound:
            self._begun.pop(key, None)
            self._warned.pop(key, None)
            self._refused.pop(key, None)
            self._explained.pop(key, None)
            self._metrics.schedule_gone(labels.label_value(key.name))
            return DONE
        if obj["metadata"].get("deletionTimestamp") or is_paused(obj):
            return DONE
        verdict = judge(obj)
        self._warn(key, verdict.warnings)
        status = obj.get("status") or {}
        refusal = self._refused.get(key, "") if verdict.rules is not None else ""
        if verdict.errors:
            self._refused.pop(key, None)
        # The status follows from the spec, so that a corrected spec clears the errors of the former one, and
        # from the outcome of the last run.
        phase = SchedulePhase.FAILED_VALIDATION if refusal else verdict.phase
        errors = [refusal] if refusal else verdict.errors
        if (status.get("phase"), status.get("validationErrors") or []) != (phase, errors):
            try:
                await self._publish(key, obj, phase, errors)
            except (Conflict, NotFound):
                return CHANGED  # its present state decides (docs/spec: CTL 1.2)
        seen = status.get("phase") or "" if verdict.rules is None else verdict.phase
        self._metrics.schedule_seen(labels.label_value(key.name), seen)
        if verdict.schedule is None or verdict.rules is None:
            return DONE
        with bound_fields(schedule=str(key)):
            try:
                return await self._run_if_due(key, obj, verdict.schedule, verdict.rules)
            except _Refused as refused:
                await self._report(key, obj["metadata"]["uid"], str(refused))
                return Result.after(_AGAIN_SECONDS)

    async def poll(self) -> None:
        """Queue the Schedules that are due by the cache, and record how late they are. Makes no request."""
        for obj in self._informer.objects():
            verdict, now, due = judge(obj), self._scope.clock.now(), None
            if verdict.schedule is not None and verdict.rules is not None and not is_paused(obj):
                run = next_run(verdict.rules, self._counted_from(verdict.schedule), now, self._zone)
                due = None if run is None else run.begins
            if due is not None and now > due:
                self._enqueue(Key.of(obj))
            elif verdict.rules is None and not is_paused(obj):
                # It cannot run at all, and no run has been made since the last one.
                due = _last_run(obj)
            late_seconds = 0.0 if due is None else (now - due).total_seconds()
            name = labels.label_value(text(obj, "metadata", "name"))
            self._metrics.schedule_overdue(name, max(0.0, late_seconds))

    def _warn(self, key: Key, warnings: tuple[str, ...]) -> None:
        """Log what is ignored of a Schedule, once. The log of each of its Backups says it too."""
        if self._warned.get(key, ()) != warnings:
            self._warned[key] = warnings
            for warning in warnings:
                log.warning(warning, schedule=str(key))

    async def _report(self, key: Key, uid: str, refusal: str) -> None:
        """Put into the status why a run cannot begin, and count it once for each run."""
        if key not in self._refused:
            self._metrics.backup_refused(labels.label_value(key.name))
        if self._refused.get(key) == refusal:
            return
        log.error("The Backup that is due is refused, trying again every minute", error=refusal)
        patch = {
            "metadata": {"uid": uid},
            "status": {"phase": str(SchedulePhase.FAILED_VALIDATION), "validationErrors": [refusal]},
        }
        await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        self._refused[key] = refusal

    async def _publish(self, key: Key, obj: JSONObject, phase: SchedulePhase, errors: list[str]) -> None:
        if errors:
            log.warning("Schedule is not valid", errors=errors)
        patch = {
            "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
            "status": {"phase": str(phase), "validationErrors": errors or None},
        }
        await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)

    async def _run_if_due(
        self, key: Key, obj: JSONObject, schedule: Schedule, rules: ScheduleRules
    ) -> Result:
        now = self._scope.clock.now()
        if (seconds := interval_seconds(rules, now, self._zone)) is not None:
            self._metrics.schedule_interval(labels.label_value(key.name), seconds)
        if self._is_to_be_skipped(schedule):
            return await self._skip(key, schedule, rules, now)
        run = next_run(rules, self._counted_from(schedule), now, self._zone)
        if run is None or (now <= run.begins and run.missed is None):
            self._explain(key, run, now)
            return self._at(run, now)
        backups = await self._backups_of(schedule)
        # A server that died may have made the Backup of a run that seems to be missed.
        moment = self._made(schedule, backups, run.missed or run.due, now)
        if moment is None:
            self._explain(key, run, now)
            if now <= run.begins:
                return self._at(run, now)
            running = [] if rules.allows_overlap else [one for one in backups if is_unfinished(one)]
            if running:
                names = [one["metadata"]["name"] for one in running]
                log.info("The Backup that is due waits until earlier ones have ended", waits_for=names)
                return Result.after(_AGAIN_SECONDS)
            moment = self._begin(key, schedule, now)
            if not await self._create(key, obj, moment):
                del self._begun[key]
                return Result.after(_NAME_TAKEN_SECONDS)
        # With its uid, the patch cannot hit a new Schedule of that name, which has not run yet.
        status: JSONObject = {"lastBackup": format_time(moment)}
        if self._refused.pop(key, ""):
            status |= {"phase": str(SchedulePhase.ENABLED), "validationErrors": None}
        patch = {"metadata": {"uid": schedule.metadata.uid}, "status": status}
        await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        self._begun.pop(key, None)
        now = self._scope.clock.now()
        return self._at(next_run(rules, moment, now, self._zone), now)

    def _explain(self, key: Key, run: NextRun | None, now: datetime) -> None:
        """Log, once for each run, why one that is due is left out or waits for the end of a window."""
        if run is None or self._explained.get(key) == (subject := run.missed or run.due):
            return
        if run.missed is not None:
            log.warning("Runs that could not begin in time are left out", since=format_time(run.missed))
        elif run.due < now <= run.begins:
            log.info("The run that is due waits for the end of a window", until=format_time(run.begins))
        else:
            return
        self._explained[key] = subject

    def _counted_from(self, schedule: Schedule) -> datetime:
        """The moment that the search for the next run starts after."""
        uid, now = schedule.metadata.uid, self._scope.clock.now()
        last = schedule.status.last_backup
        if last is None or not is_ahead(last, now):
            self._ahead.pop(uid, None)
        elif uid not in self._ahead:
            self._ahead[uid] = now
            log.warning(
                "The last run of the schedule is in the future, as a clock was ahead: counting from now",
                schedule=schedule.metadata.name,
                lastBackup=format_time(last),
            )
        return counted_from(schedule, self._skipped.get(uid), now=now, since=self._ahead.get(uid))

    def _is_to_be_skipped(self, schedule: Schedule) -> bool:
        wanted = schedule.spec.skip_immediately
        if wanted is None:
            return self._skip_immediately and schedule.metadata.uid not in self._skipped
        return wanted

    async def _skip(self, key: Key, schedule: Schedule, rules: ScheduleRules, now: datetime) -> Result:
        """Skip the run that is due, and store that it was skipped."""
        patch = {
            "metadata": {"resourceVersion": schedule.metadata.resource_version},
            "spec": {"skipImmediately": False},
            "status": {"lastSkipped": format_time(now)},
        }
        try:
            await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        except (Conflict, NotFound):
            return CHANGED
        # Definitions of Velero before 1.13 drop both fields: without this, no run would ever be due.
        self._skipped[schedule.metadata.uid] = now
        log.info("What is due now is skipped once, as skipImmediately says")
        return self._at(next_run(rules, now, now, self._zone), now)

    async def _backups_of(self, schedule: Schedule) -> list[JSONObject]:
        selector = f"{labels.SCHEDULE_NAME}={labels.label_value(schedule.metadata.name)}"
        return await self._scope.client.list_all(BACKUPS, self._scope.namespace, label_selector=selector)

    def _made(
        self, schedule: Schedule, backups: Sequence[JSONObject], due: datetime, now: datetime
    ) -> datetime | None:
        """When an earlier try made the Backup of the run that is due, if one did."""
        made = [
            parse_time(backup["metadata"]["creationTimestamp"])
            for backup in backups
            if is_made_for(schedule, backup, due, now, self._zone)
        ]
        if not made:
            return None
        log.info("The Backup of the run that is due is there already")
        return min(max(*made, due), now)

    def _begin(self, key: Key, schedule: Schedule, now: datetime) -> datetime:
        """The moment of the run: of an earlier try whose create may yet take effect, or now."""
        uid, begun = schedule.metadata.uid, self._begun.get(key)
        if begun is None or begun.uid != uid or not begun.moment <= now <= begun.moment + _IN_FLIGHT:
            begun = self._begun[key] = _Attempt(uid, now)
        return begun.moment

    async def _create(self, key: Key, obj: JSONObject, moment: datetime) -> bool:
        """Create the Backup, or find it created. False if another object has the name."""
        client, backup = self._scope.client, backup_of(obj, moment, self._zone)
        name, own_labels = backup["metadata"]["name"], backup["metadata"]["labels"]
        try:
            await client.create(BACKUPS, backup, key.namespace)
        except AlreadyExists:
            existing = await client.get(BACKUPS, name, key.namespace)
            owner = (existing["metadata"].get("labels") or {}).get(labels.SCHEDULE_NAME)
            if owner != own_labels[labels.SCHEDULE_NAME]:
                log.warning("The name of the Backup is taken, trying the next", backup=name)
                return False
        except PASSING_ERRORS as error:
            if _WEBHOOK not in str(error):
                raise
            raise _Refused(_refusal(error)) from error
        except KubeError as error:
            raise _Refused(_refusal(error)) from error
        log.info("Created the Backup that was due", backup=name)
        return True

    def _at(self, run: NextRun | None, now: datetime) -> Result:
        if run is None:
            return DONE
        return Result.after(max((run.begins - now).total_seconds(), 0.0) + _PAST_DUE_SECONDS)


def judge(obj: JSONObject) -> Verdict:
    """Read and validate a Schedule. (docs/spec: CTL 4.1)"""
    schedule, rules = None, None
    errors: list[str] = []
    try:
        schedule = decode(Schedule, obj)
        rules, errors = read_rules(obj)
        if rules is not None:
            errors += ttl_errors(schedule.spec.template, "spec.template")
            errors += movement_errors(schedule.spec.template, "spec.template")
    except DecodeError as error:
        errors.append(str(error))
    findings = check_spec("Schedule", obj)
    errors += findings.errors
    return Verdict(
        schedule=schedule, rules=None if errors else rules, errors=errors, warnings=findings.warnings
    )


def _refusal(error: KubeError) -> str:
    return f"the Backup that is due could not be created: {error}"


def _last_run(obj: JSONObject) -> datetime | None:
    """When a Schedule ran last, or was created if it never did."""
    last = known_time(text(obj, "status", "lastBackup"))
    return last or known_time(text(obj, "metadata", "creationTimestamp"))


def controller(parts: Parts) -> Controller:
    """The Schedule controller of a server."""
    informer, queue = parts.informers.of(SCHEDULES), parts.queue()
    reconciler = ScheduleReconciler(
        parts.scope,
        informer,
        metrics=parts.scope.metrics,
        zone=parts.options.zone,
        enqueue=queue.add,
        skip_immediately=parts.options.schedule_skip_immediately,
    )
    made = Controller(
        NAME,
        reconciler.reconcile,
        workers=MAIN_WORKERS,
        resync=Resync(reconciler.poll, POLL_PERIOD_SECONDS),
        clock=parts.scope.clock,
        queue=queue,
    )
    made.watch(informer)
    return made
