"""Whether a Schedule missed a run, and by when a backup of it should have succeeded. Pure. (ADR 129)

A run is missed when it has not begun after its grace: 10 minutes, or a tenth of the time to the run after
it if that is longer. An earlier backup of the schedule that still runs delays it: its running time is added.
Backups that begin and fail are not missed runs. So there is a time for the next success, too: half an
interval after the first run since the last success, or one and a half after that success ended, whichever is
later, and 10 minutes. Irregular expressions, such as weekdays, get their own dates by that.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.schedules.due import is_paused, next_run
from pinnace.api.schedules.rules import ScheduleRules
from pinnace.api.values.cron import Cron
from pinnace.api.values.times import format_time, known_time

SHORTEST_GRACE: Final = timedelta(minutes=10)
GRACE_PART: Final = 10
"""The grace is at least this part of an interval."""
_LONGEST_REASON: Final = 1000


class Timeliness(StrEnum):
    """What became of the run of a Schedule that is due next; the annotation `missed-run` begins with it."""

    NO = "no"
    MISSED = "missed"
    RUNNING = "running"
    NEW = "new"
    PAUSED = "paused"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuality:
    """How a Schedule keeps its times.

    Attributes:
        due: when the run begins that comes next, or is late; None for none.
        left_out: the time of a run that is left out, as the schedule wants it; it counts as missed.
        interval: from that run to the next; None for none.
        reason: why no run is expected; empty if one is.
        succeed_by: when a backup should have succeeded at the latest; None where none is expected.
    """

    state: Timeliness
    due: datetime | None = None
    interval: timedelta | None = None
    left_out: datetime | None = None
    reason: str = ""
    succeed_by: datetime | None = None

    @property
    def is_expected(self) -> bool:
        """Whether the schedule runs at all."""
        return self.state not in (Timeliness.PAUSED, Timeliness.INVALID)

    @property
    def missed(self) -> datetime | None:
        """The time of the run that was missed; None if none was."""
        return (self.left_out or self.due) if self.state is Timeliness.MISSED else None

    def notes(self, last_success: datetime | None) -> dict[str, str | None]:
        """The annotations of the Schedule; None removes one."""
        said = f"{self.state} {self.reason}".strip()
        if (missed := self.missed) is not None:
            said = f"{Timeliness.MISSED} {format_time(missed)}"
        return {
            labels.NEXT_RUN: None if self.due is None else format_time(self.due),
            labels.LAST_SUCCESS: None if last_success is None else format_time(last_success),
            labels.MISSED_RUN: said[:_LONGEST_REASON],
        }


def grace(interval: timedelta | None) -> timedelta:
    """How late a run may begin."""
    return max(SHORTEST_GRACE, (interval or timedelta()) / GRACE_PART)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a Schedule and its Backups say about its runs so far.

    Attributes:
        counted_from: the search for the next run starts after it.
        success_counts_from: when the newest Completed backup ended, the schedule was created or a run was
            skipped on purpose, whichever came last.
        running_since: when the backup of the schedule that still runs began; None if none does.
        has_run: whether it made a backup since its creation.
    """

    counted_from: datetime
    success_counts_from: datetime
    running_since: datetime | None = None
    has_run: bool = True


def punctuality(rules: ScheduleRules, record: RunRecord, now: datetime, zone: tzinfo) -> Punctuality:
    """How a valid schedule that is not paused keeps its times."""
    run = next_run(rules, record.counted_from, now, zone)
    if run is None:
        return Punctuality(state=Timeliness.NO)
    due, after = run.begins, rules.next(run.begins, zone)
    interval = None if after is None else after - due
    allowed = grace(interval)
    running = None if rules.allows_overlap else record.running_since
    if running is not None and running < now:
        allowed += now - running
    if run.missed is not None or now > due + allowed:
        state = Timeliness.MISSED
    elif now > due and running is not None:
        state = Timeliness.RUNNING
    else:
        state = Timeliness.NO if record.has_run else Timeliness.NEW
    succeed_by = _succeed_by(rules, record.success_counts_from, zone)
    return Punctuality(state=state, due=due, interval=interval, left_out=run.missed, succeed_by=succeed_by)


def _succeed_by(cron: Cron, since: datetime, zone: tzinfo) -> datetime | None:
    first = cron.next(since, zone)
    second = None if first is None else cron.next(first, zone)
    if first is None or second is None:
        return None
    interval = second - first
    return max(first + interval / 2, since + interval * 1.5) + SHORTEST_GRACE


def shown_as_missed(schedule: JSONObject, cron: Cron | None, now: datetime) -> str:
    """The `Timeliness` that a reader of a Schedule is shown; empty if no server noted one.

    A server that is gone corrects no annotation: a run that was to come and lies behind its grace is missed,
    unless the Schedule is paused meanwhile.
    """
    notes = mapping(schedule, "metadata", "annotations")
    state = text(notes, labels.MISSED_RUN).partition(" ")[0]
    if state and is_paused(schedule):
        return Timeliness.PAUSED
    due = known_time(notes.get(labels.NEXT_RUN))
    if state not in (Timeliness.NO, Timeliness.NEW) or due is None or cron is None:
        return state
    after = cron.next(due)
    late = now > due + grace(None if after is None else after - due)
    return Timeliness.MISSED if late else state
