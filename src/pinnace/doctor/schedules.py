"""Finds schedules that will not run, and those that are late. Pure."""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.passes import RetentionResult, last_result
from pinnace.api.retention.rules import RetentionError, RetentionRules
from pinnace.api.schedules.rules import ScheduleRules, read_rules
from pinnace.api.values.relative_times import relative_time
from pinnace.api.values.shell_words import argument
from pinnace.api.values.times import is_ahead, known_time
from pinnace.api.verification_answer import Soundness
from pinnace.doctor.findings import Finding, ok, problem, skipped, warning
from pinnace.notices.codes import Code

CHECK: Final = "schedules"
LATE: Final = timedelta(hours=1)


def running(backups: Sequence[JSONObject]) -> set[str]:
    """The schedules that have a backup in progress, or waiting to begin."""
    return {
        text(backup, "metadata", "labels", labels.SCHEDULE_NAME)
        for backup in backups
        if text(backup, "status", "phase") in phases.COLLECTING
    }


def judge(
    schedules: Sequence[JSONObject],
    locations: Collection[str],
    now: datetime,
    *,
    zone: tzinfo = UTC,
    in_progress: Collection[str] = (),
    without_server: str = "",
) -> list[Finding]:
    """A finding for each schedule that will not run, is paused or is late.

    Args:
        locations: the names of the backup storage locations that exist.
        zone: that of the server.
        in_progress: the schedules with a backup that has not ended, which may delay the next one.
        without_server: where no server answers, so that no schedule runs; empty if one does, or may.
    """
    if not schedules:
        return [skipped(CHECK, "there are none", "`schedule create --help` says how to make one")]
    findings = [
        found
        for schedule in schedules
        for found in (
            *_judge(schedule, locations, now, zone, is_running=text(schedule, *_NAME) in in_progress),
            *_judge_verification(schedule),
            *_judge_retention(schedule),
        )
    ]
    only = f"schedule {text(schedules[0], *_NAME)} will" if len(schedules) == 1 else ""
    if without_server:
        none = f"{only} not run" if only else f"none of {len(schedules)} will run"
        said = f"{none}, as no server answers in {without_server}"
        remedy = "start the server: it makes up for the last run that was missed"
        findings.append(problem(CHECK, said, remedy, code=Code.SCHEDULES_WITHOUT_SERVER))
    return findings or [ok(CHECK, f"{only or f'all {len(schedules)} will'} run")]


_NAME: Final = ("metadata", "name")


def _judge_verification(schedule: JSONObject) -> list[Finding]:
    """A warning if the server refused what the schedule says about verification. (docs/adr/067)"""
    notes = mapping(schedule, "metadata", "annotations")
    _, _, last = text(notes, labels.LAST_VERIFICATION).partition(" ")
    result, _, why = last.partition(" ")
    if result != Soundness.INVALID or labels.VERIFY not in notes:
        return []
    said = f"backups of schedule {text(schedule, *_NAME)} are not verified: {why}"
    remedy = "correct this annotation of the schedule"
    return [warning(CHECK, said, remedy, code=Code.SCHEDULE_NOT_VERIFIED)]


def _judge_retention(schedule: JSONObject) -> list[Finding]:
    """A problem if the rules of retention cannot be read, a warning if deletions wait. (docs/adr/128)"""
    name = text(schedule, *_NAME)
    try:
        rules = RetentionRules.of_schedule(schedule)
    except RetentionError as error:
        said = f"no backup of schedule {name} is deleted by its rules: {error}"
        remedy = "correct this annotation of the schedule"
        return [problem(CHECK, said, remedy, code=Code.RETENTION_INVALID)]
    result, said = last_result(schedule)
    if rules is None or result != RetentionResult.WAITING:
        return []
    remedy = f"`schedule prune {argument(name)}` shows and confirms them"
    said = f"schedule {name}: {said.partition('.')[0]}"
    return [warning(CHECK, said, remedy, code=Code.RETENTION_WAITING)]


def _due(schedule: JSONObject, rules: ScheduleRules, last: datetime | None, zone: tzinfo) -> datetime | None:
    """When the next run is planned. What the server noted counts, unless it ran since: it knows its zone."""
    noted = known_time(text(schedule, "metadata", "annotations", labels.NEXT_RUN))
    if noted is not None and (last is None or last < noted):
        return noted
    since = last or known_time(schedule["metadata"].get("creationTimestamp"))
    return None if since is None else rules.next(since, zone)


def _judge(
    schedule: JSONObject, locations: Collection[str], now: datetime, zone: tzinfo, *, is_running: bool
) -> list[Finding]:
    name = f"schedule {schedule['metadata']['name']}"
    spec, status = mapping(schedule, "spec"), mapping(schedule, "status")
    namespace, bare = schedule["metadata"]["namespace"], schedule["metadata"]["name"]
    edit = f"`kubectl -n {namespace} edit schedules.velero.io {argument(bare)}`"
    remedy = f"delete it and create it with another --schedule, or change it: {edit}"
    rules, errors = read_rules(schedule)
    if rules is None:
        said = f"{name} will never run: {'; '.join(errors)}"
        return [problem(CHECK, said, remedy, code=Code.SCHEDULE_INVALID)]
    if status.get("phase") == "FailedValidation":
        why = "; ".join(str(one) for one in status.get("validationErrors") or []) or "its spec is not valid"
        remedy = f"fix the spec of {name}"
        return [problem(CHECK, f"{name} will not run: {why}", remedy, code=Code.SCHEDULE_INVALID)]
    location = mapping(spec, "template").get("storageLocation")
    if location and location not in locations:
        return [
            problem(
                CHECK,
                f"{name} names the storage location {location}, which does not exist",
                f"create the location, or change {name}",
                code=Code.SCHEDULE_LOCATION_MISSING,
            )
        ]
    if spec.get("paused"):
        remedy = f"`schedule unpause {argument(bare)}` resumes it"
        return [warning(CHECK, f"{name} is paused", remedy, code=Code.SCHEDULE_PAUSED)]
    last = known_time(status.get("lastBackup"))
    if last is not None and is_ahead(last, now):
        said = f"{name} last ran at {last:%Y-%m-%d %H:%M} UTC, which is in the future: a clock was ahead"
        patch = """'{"status":{"lastBackup":null}}'"""
        command = (
            f"`kubectl -n {namespace} patch schedules.velero.io {argument(bare)} --type merge -p {patch}`"
        )
        remedy = f"its next run corrects that; where Velero serves it, first run {command}"
        return [problem(CHECK, said, remedy, code=Code.SCHEDULE_AHEAD)]
    due = _due(schedule, rules, last, zone)
    if due is None or now - due <= LATE:
        return []
    ran = f"last ran at {last:%Y-%m-%d %H:%M} UTC" if last is not None else "has never run"
    said = f"{name} {ran} and was due at {due:%Y-%m-%d %H:%M} UTC, {relative_time(due, now)}"
    if is_running:
        said += "; a backup of it has not ended"
        return [warning(CHECK, said, "`backup get` shows what it waits for", code=Code.SCHEDULE_LATE)]
    return [problem(CHECK, said, "the log of the server says why", code=Code.SCHEDULE_LATE)]
