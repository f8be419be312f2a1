"""Verifies the newest backup of a Schedule when an annotation of the Schedule says so. (docs/adr/067)

    `pinnace.io/verify` ──> not a cron expression: `last-verification` says so
          └──due──> the newest finished Backup is verified ──> annotations of the Backup and the Schedule

Verifications count from the last one, which the Schedule's annotation `last-verification` names, or from its
creation; those missed meanwhile become one. An unfinished one is made again from the beginning.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.schedules.rules import seed_of
from pinnace.api.values.cron import Cron, CronError, read_schedule
from pinnace.api.values.times import format_time, is_ahead, parse_time
from pinnace.api.velero.backup import Backup
from pinnace.api.verification_answer import Soundness
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.verification.verifier import WORKERS, BackupVerifier
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import BACKUPS, SCHEDULES
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.volumes.uploader.share import ReadShare

log = get_logger(__name__)

NAME: Final = "verification"

_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PAST_DUE_SECONDS: Final = 0.001
_LONGEST_MESSAGE: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationSchedule:
    """The verification that a Schedule's annotations ask for."""

    cron: Cron
    share: ReadShare | None = None

    @classmethod
    def of(cls, schedule: JSONObject) -> "VerificationSchedule | None":
        """None if no verification is asked for. Raises ValueError: the annotations cannot be read."""
        notes = mapping(schedule, "metadata", "annotations")
        expression = text(notes, labels.VERIFY)
        if not expression:
            return None
        share, seed = text(notes, labels.VERIFY_READ_DATA), f"{seed_of(schedule)} verification"
        try:
            return cls(cron=read_schedule(expression, seed), share=ReadShare.parse(share) if share else None)
        except CronError as error:
            raise ValueError(f"annotation {labels.VERIFY}: {error}") from error
        except ValueError as error:
            raise ValueError(f"annotation {labels.VERIFY_READ_DATA}: {error}") from error


class VerificationReconciler:
    """Verifies backups of Schedules.

    Args:
        zone: the time zone of cron expressions.
    """

    def __init__(self, verifier: BackupVerifier, *, zone: tzinfo) -> None:
        self._verifier = verifier
        self._scope = verifier.scope
        self._zone = zone

    async def reconcile(self, key: Key) -> Result:
        """Verify the newest backup of the Schedule if that is due."""
        metrics, label = self._scope.metrics, labels.label_value(key.name)
        try:
            schedule = await self._scope.client.get(SCHEDULES, key.name, key.namespace)
            wanted = VerificationSchedule.of(schedule)
        except NotFound:
            metrics.verification_gone(label)
            return DONE
        except ValueError as error:
            await self._refuse(key, schedule, str(error))
            return DONE
        if wanted is None or schedule["metadata"].get("deletionTimestamp"):
            metrics.verification_gone(label)
            return DONE
        now = self._scope.clock.now()
        last, result = last_verification(schedule)
        if last is not None and is_ahead(last, now):
            last = None  # nobody's: it must not end all verification
        if last is not None and result in (Soundness.SOUND, Soundness.UNSOUND):
            metrics.backup_verified(label, last.timestamp(), sound=result == Soundness.SOUND)
        created = schedule["metadata"].get("creationTimestamp")
        due = wanted.cron.next(last or (parse_time(created) if created else _LONG_AGO), self._zone)
        if due is None or now <= due:
            return self._at(due, now)
        with bound_fields(schedule=str(key)):
            await self._verify_newest(key, schedule, wanted)
        return self._at(wanted.cron.next(now, self._zone), self._scope.clock.now())

    async def _verify_newest(self, key: Key, schedule: JSONObject, wanted: VerificationSchedule) -> None:
        selector = f"{labels.SCHEDULE_NAME}={labels.label_value(key.name)}"
        listed = await self._scope.client.list_all(BACKUPS, key.namespace, label_selector=selector)
        backup = newest_finished(listed)
        if backup is None:
            log.warning("There is no finished backup of the schedule to verify")
            await self._note(key, schedule, f"{format_time(self._scope.clock.now())} {Soundness.NO_BACKUP}")
            return
        name = backup.metadata.name
        log.info("Verifying a backup", backup=name)
        when, result = await self._verifier.note(backup, await self._verifier.findings(backup, wanted.share))
        await self._note(key, schedule, f"{when} {result} {name}")
        metrics, label = self._scope.metrics, labels.label_value(key.name)
        if result == Soundness.NOT_VERIFIED:
            metrics.backup_not_verified(label)
        else:
            seconds = self._scope.clock.now().timestamp()
            metrics.backup_verified(label, seconds, sound=result == Soundness.SOUND)

    async def _refuse(self, key: Key, schedule: JSONObject, reason: str) -> None:
        note = f"{format_time(self._scope.clock.now())} {Soundness.INVALID} {reason}"[:_LONGEST_MESSAGE]
        _, _, former = _last_note(schedule).partition(" ")
        if former != note.partition(" ")[2]:
            log.warning("Backups of the schedule are not verified", schedule=str(key), error=reason)
            await self._note(key, schedule, note)

    async def _note(self, key: Key, schedule: JSONObject, note: str) -> None:
        uid = schedule["metadata"]["uid"]
        patch = {"metadata": {"uid": uid, "annotations": {labels.LAST_VERIFICATION: note}}}
        try:
            await self._scope.client.patch(SCHEDULES, key.name, patch, key.namespace)
        except NotFound:
            return

    def _at(self, due: datetime | None, now: datetime) -> Result:
        if due is None:
            return DONE
        return Result.after(max((due - now).total_seconds(), 0.0) + _PAST_DUE_SECONDS)


def newest_finished(listed: Sequence[JSONObject]) -> Backup | None:
    """The finished Backup that began last; None if there is none. Pure."""
    found = []
    for obj in listed:
        try:
            backup = decode(Backup, obj)
        except DecodeError:
            continue
        if backup.status.phase in phases.FINISHED and not obj["metadata"].get("deletionTimestamp"):
            found.append(backup)
    return max(found, key=lambda each: each.status.start_timestamp or _LONG_AGO, default=None)


def last_verification(schedule: JSONObject) -> tuple[datetime | None, str]:
    """When a Schedule's backup was last verified, and the result; None if it is not known. Pure."""
    when, _, rest = _last_note(schedule).partition(" ")
    try:
        return parse_time(when), rest.partition(" ")[0]
    except ValueError:
        return None, ""


def _last_note(schedule: JSONObject) -> str:
    return text(schedule, "metadata", "annotations", labels.LAST_VERIFICATION)


def controller(parts: Parts) -> Controller:
    """The verification controller of a server."""
    informer = parts.informers.of(SCHEDULES)
    queue = parts.queue(parts.lanes.of_schedules(informer, WORKERS, at_once=1))
    reconciler = VerificationReconciler(BackupVerifier.of(parts), zone=parts.options.zone)
    made = Controller(NAME, reconciler.reconcile, workers=WORKERS, clock=parts.scope.clock, queue=queue)
    made.watch(informer)
    return made
