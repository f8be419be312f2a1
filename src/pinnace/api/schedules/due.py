"""When a Schedule runs. Pure. (docs/spec: CTL 4.1, BEY 7.1)"""

from datetime import UTC, datetime, tzinfo
from typing import Final

from pinnace.api.objects import JSONObject
from pinnace.api.values.cron import Cron
from pinnace.api.values.times import is_ahead
from pinnace.api.velero.schedule import Schedule

LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


def interval_seconds(cron: Cron, now: datetime, zone: tzinfo) -> float | None:
    """The time between the next two runs; None if there are not that many. It may differ from run to run."""
    first = cron.next(now, zone)
    second = None if first is None else cron.next(first, zone)
    return None if first is None or second is None else (second - first).total_seconds()
