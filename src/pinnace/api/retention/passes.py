"""One pass of the rules of a Schedule over its backups: what goes now, what waits, and what is said. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo
from enum import StrEnum
from typing import Final

import msgspec

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.retention.breaker import (
    BreakerDecision,
    digest,
    hold_back,
    read_announced,
)
from pinnace.api.retention.candidates import RetentionCandidate, Surroundings, candidate
from pinnace.api.retention.deciding import RetentionDecision, decide
from pinnace.api.retention.rules import RetentionRules
from pinnace.api.values.cron import CronError, Zoned, read_schedule
from pinnace.api.values.times import EARLIEST, format_time, is_ahead, known_time
from pinnace.api.velero.delete_request import DeleteBackupRequestPhase


class RetentionResult(StrEnum):
    """The result of a pass, as the Schedule's annotation has it."""

    APPLIED = "applied"
    WAITING = "waiting"
    INVALID = "invalid"


class RetentionPass(msgspec.Struct, frozen=True, kw_only=True):
    """What one pass found.

    Attributes:
        groups: the decisions by location, the newest backup first.
        breaker: of all groups together.
        going: the names of the backups that may be deleted now, the oldest first.
        waiting: the names of those that wait for a day or a confirmation.
    """

    groups: Mapping[str, Sequence[RetentionDecision]]
    breaker: BreakerDecision
    going: Sequence[str]
    waiting: Sequence[str]


def decisions_by_group(
    rules: RetentionRules, backups: Sequence[JSONObject], around: Surroundings, zone: tzinfo
) -> dict[str, list[RetentionDecision]]:
    """What the rules say of the backups of one schedule, by their location."""
    groups: dict[str, list[RetentionCandidate]] = {}
    for obj in backups:
        groups.setdefault(text(obj, "spec", "storageLocation"), []).append(candidate(obj, around))
    return {location: decide(rules, group, zone) for location, group in sorted(groups.items())}


def one_pass(
    schedule: JSONObject,
    rules: RetentionRules,
    backups: Sequence[JSONObject],
    around: Surroundings,
    *,
    zone: tzinfo,
) -> RetentionPass:
    """Apply the rules of a Schedule to its backups.

    Args:
        zone: of schedules that name none.
    """
    around = msgspec.structs.replace(
        around, since=known_time(text(schedule, "metadata", "creationTimestamp"))
    )
    groups = decisions_by_group(rules, backups, around, zone_of(schedule, zone))
    uids = {text(obj, "metadata", "name"): text(obj, "metadata", "uid") for obj in backups}
    decided = sorted(
        (each for group in groups.values() for each in group if each.goes),
        key=lambda each: (each.moment or EARLIEST, each.name),
    )
    begun = [each.name for each in decided if each.has_begun]
    digests = {each.name: digest(each.name, uids[each.name]) for each in decided if not each.has_begun}
    notes = mapping(schedule, "metadata", "annotations")
    confirmed = known_time(notes.get(labels.RETENTION_CONFIRMED))
    if confirmed is not None and is_ahead(confirmed, around.now):
        confirmed = None  # else it would let everything go that is announced until then
    breaker = hold_back(
        [*digests.values()],
        read_announced(text(notes, labels.RETENTION_ANNOUNCED)),
        confirmed=confirmed,
        now=around.now,
    )
    return RetentionPass(
        groups=groups,
        breaker=breaker,
        going=[*begun, *(name for name, its in digests.items() if its in breaker.go)],
        waiting=[name for name, its in digests.items() if its in breaker.wait],
    )


def zone_of(schedule: JSONObject, default: tzinfo) -> tzinfo:
    """The zone of a Schedule, which its expression may name."""
    return _own_zone(schedule) or default


def names_zone(schedule: JSONObject) -> bool:
    """Whether the expression of a Schedule names a zone."""
    return _own_zone(schedule) is not None


def _own_zone(schedule: JSONObject) -> tzinfo | None:
    try:
        cron = read_schedule(text(schedule, "spec", "schedule"))
    except CronError:
        return None
    return cron.own if isinstance(cron, Zoned) else None


def names_being_deleted(requests: Sequence[JSONObject]) -> set[str]:
    """The backups whose deletion is asked for and has not ended."""
    return {
        text(request, "spec", "backupName")
        for request in requests
        if text(request, "status", "phase") != DeleteBackupRequestPhase.PROCESSED
    }


def names_being_restored(restores: Sequence[JSONObject]) -> set[str]:
    """The backups that unfinished restores read."""
    return {
        text(restore, "spec", "backupName")
        for restore in restores
        if text(restore, "status", "phase") not in phases.FINAL
    }


def waiting_text(found: RetentionPass, schedule: str) -> str:
    """What waits, until when, and how it is confirmed; empty if nothing waits."""
    if not found.waiting:
        return ""
    breaker = found.breaker
    until = format_time(breaker.next_at) if breaker.next_at else "they are announced"
    confirm = format_time(breaker.confirmable) if breaker.confirmable else ""
    return (
        f"{len(found.waiting)} backups would go at once, which nobody could expect, and wait until {until}."
        f" `schedule prune {schedule}` shows and confirms them, as does annotation"
        f" {labels.RETENTION_CONFIRMED}: {confirm}"
    )


_LONGEST: Final = 1000


def status_note(result: RetentionResult, said: str, former: str, now: datetime) -> str | None:
    """The annotation of a pass; None if the former one says the same. Its time is when that was first so."""
    note = f"{result} {said}"[:_LONGEST].strip()
    return None if former.partition(" ")[2] == note else f"{format_time(now)} {note}"


def last_result(schedule: JSONObject) -> tuple[str, str]:
    """Result and text of the last pass; empty before the first."""
    _, _, rest = text(schedule, "metadata", "annotations", labels.RETENTION_STATUS).partition(" ")
    result, _, said = rest.partition(" ")
    return result, said
