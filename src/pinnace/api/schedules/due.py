"""When a Schedule runs. Pure. (docs/spec: CTL 4.1, BEY 7.1; ADR 130)"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.schedules.rules import CatchUp, ScheduleRules
from pinnace.api.values.cron import Cron, Interval, Zoned, zone_of
from pinnace.api.values.times import is_ahead
from pinnace.api.velero.schedule import Schedule

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
IN_TIME: Final = timedelta(minutes=10)
"""A run that begins so much after its time is in time: a server is restarted or elected in less."""


def is_paused(obj: JSONObject) -> bool:
    """Whether a Schedule is left alone, valid or not."""
    return (obj.get("spec") or {}).get("paused") is True


def counted_from(
    schedule: Schedule, skipped: datetime | None = None, *, now: datetime, since: datetime | None = None
) -> datetime:
    """The moment that the search for the next run starts after. (docs/spec: BEY 7.1)

    A time ahead of our clock is that of no run: it would keep the schedule from running until then.

    Args:
        skipped: when runs were skipped, where the definition does not store that.
        since: what counts in place of a last run that is ahead of our clock; None: now.
    """
    status = schedule.status
    begin = status.last_backup
    if begin is not None and is_ahead(begin, now):
        begin = since or now
    if begin is None or begin < LONG_AGO:
        begin = schedule.metadata.creation_timestamp or LONG_AGO
    skips = (status.last_skipped, skipped)
    return max([begin, *(moment for moment in skips if moment is not None and not is_ahead(moment, now))])


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """A run that is to be made, now or later.

    Attributes:
        due: its time by the expression.
        planned: the first time from then on that no window holds.
        begins: `planned`, or the end of a window that holds now if that is later.
        missed: the time of the first run that is left out, as `CatchUp.NONE` wants it; None if none is.
    """

    due: datetime
    planned: datetime
    begins: datetime
    missed: datetime | None = None


def next_run(rules: ScheduleRules, since: datetime, now: datetime, zone: tzinfo) -> NextRun | None:
    """The next run after `since`; None if there will be none. All that wait become one.

    Args:
        since: the result of `counted_from`.
        zone: the server's, for expressions without one.
    """
    windows, own_zone, missed = rules.windows, zone_of(rules.cron, zone), None
    due = rules.cron.next(since, zone)
    if due is None:
        return None
    planned = windows.open_from(due, own_zone)
    if rules.catch_up is CatchUp.NONE and now - planned > IN_TIME:
        # Where a window held, a run that was due in it is planned for its end, which may be in time.
        in_time = windows.closed_since(now - IN_TIME, own_zone)
        missed, due = due, _first_from(rules.cron, since, in_time, zone)
        if due is None:
            return None
        planned = windows.open_from(due, own_zone)
    begins = planned if planned >= now else windows.open_from(now, own_zone)
    return NextRun(due=due, planned=planned, begins=begins if begins > now else planned, missed=missed)


def _first_from(cron: Cron, since: datetime, begin: datetime, zone: tzinfo) -> datetime | None:
    """The first time after `since` that is not before `begin`."""
    plain = cron.cron if isinstance(cron, Zoned) else cron
    before = begin - timedelta(microseconds=1)
    if isinstance(plain, Interval):  # counts from `since`
        return cron.next(since + max((before - since) // plain.span, 0) * plain.span, zone)
    return cron.next(max(since, before), zone)


def interval_seconds(rules: Cron, now: datetime, zone: tzinfo) -> float | None:
    """The time between the next two runs; None if there are not that many. It may differ from run to run."""
    first = rules.next(now, zone)
    second = None if first is None else rules.next(first, zone)
    return None if first is None or second is None else (second - first).total_seconds()
