"""Finds schedules that will never run, and those that are late. Pure."""

from datetime import datetime, timedelta

from pinnace.api.objects import JSONObject, mapping
from pinnace.api.values.cron import CronError, read_schedule
from pinnace.api.values.shell_words import argument
from pinnace.api.values.times import known_time
from pinnace.cli.doctor.findings import Finding, ok, problem, skipped, warning

CHECK = "schedules"
LATE = timedelta(hours=1)
AHEAD = timedelta(minutes=5)
"""A last run that is ahead by more was not written by a clock that is right."""


def judge(schedules: list[JSONObject], locations: list[str], now: datetime) -> list[Finding]:
    """A finding for each schedule that will not run, is paused or is late.

    Args:
        locations: the names of the backup storage locations that exist.
    """
    if not schedules:
        return [skipped(CHECK, "there are none", "`schedule create --help` says how to make one")]
    findings = [found for schedule in schedules for found in _judge(schedule, locations, now)]
    return findings or [ok(CHECK, f"all {len(schedules)} will run")]


def _judge(schedule: JSONObject, locations: list[str], now: datetime) -> list[Finding]:
    name = f"schedule {schedule['metadata']['name']}"
    spec, status = mapping(schedule, "spec"), mapping(schedule, "status")
    expression = str(spec.get("schedule") or "")
    namespace, bare = schedule["metadata"]["namespace"], schedule["metadata"]["name"]
    edit = f"`kubectl -n {namespace} edit schedules.velero.io {argument(bare)}`"
    remedy = f"delete it and create it with another --schedule, or change it: {edit}"
    try:
        cron = read_schedule(expression)
    except CronError as error:
        return [problem(CHECK, f"{name} will never run: {error}", remedy)]
    if status.get("phase") == "FailedValidation":
        why = "; ".join(str(one) for one in status.get("validationErrors") or []) or "its spec is not valid"
        return [problem(CHECK, f"{name} will not run: {why}", f"mend the spec of {name}")]
    location = mapping(spec, "template").get("storageLocation")
    if location and location not in locations:
        return [
            problem(
                CHECK,
                f"{name} names the storage location {location}, which does not exist",
                f"create the location, or change {name}",
            )
        ]
    if spec.get("paused"):
        return [warning(CHECK, f"{name} is paused", f"`schedule unpause {argument(bare)}` resumes it")]
    last = known_time(status.get("lastBackup"))
    if last is None:
        return []  # it has not run yet
    if last - now > AHEAD:
        text = f"{name} last ran at {last:%Y-%m-%d %H:%M} UTC, which is in the future: a clock was ahead"
        patch = """'{"status":{"lastBackup":null}}'"""
        command = (
            f"`kubectl -n {namespace} patch schedules.velero.io {argument(bare)} --type merge -p {patch}`"
        )
        return [
            problem(CHECK, text, f"its next run corrects that; where Velero serves it, first run {command}")
        ]
    due = cron.next(last)
    if due is not None and now - due > LATE:
        text = f"{name} last ran at {last:%Y-%m-%d %H:%M} UTC and was due at {due:%Y-%m-%d %H:%M} UTC"
        return [
            warning(CHECK, text, "is a server running, and is an earlier backup of it still in progress?")
        ]
    return []
