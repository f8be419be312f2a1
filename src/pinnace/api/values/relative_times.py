"""Times as their distance from now, in the largest whole unit. Pure. (docs/spec: CLI 2.3)"""

from datetime import datetime, timedelta

from pinnace.api.values.times import known_time


def relative(text: str | None, now: datetime) -> str:
    """`29d` or `2h ago` for a time of an object; the text itself if it is not a time, `n/a` without one."""
    if not text:
        return "n/a"
    moment = known_time(text)
    return text if moment is None else relative_time(moment, now)


def relative_time(moment: datetime, now: datetime) -> str:
    """`29d` for the future, `2h ago` for the past; the largest whole unit only."""
    delta = moment - now
    text = largest_unit(abs(delta))
    return text if delta > timedelta(0) else f"{text} ago"


def past(text: str | None, now: datetime) -> str:
    """As `relative`, for what should be past; if it is not, as a clock was ahead: `in 29d`."""
    shown, moment = relative(text, now), known_time(text)
    return shown if moment is None or moment <= now else f"in {shown}"


def largest_unit(delta: timedelta) -> str:
    """`29d`: the largest whole unit of a span."""
    seconds = int(delta.total_seconds())
    for limit, size, unit in ((60, 1, "s"), (3600, 60, "m"), (86400, 3600, "h"), (365 * 86400, 86400, "d")):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    return f"{seconds // (365 * 86400)}y"
