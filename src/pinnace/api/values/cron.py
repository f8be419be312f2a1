"""Cron expressions of Schedules: five fields, `@daily` and the like, `@every <duration>`. Pure.

The dialect is that of robfig/cron 3's ParseStandard, which Velero has since 1.15: no seconds, no weekday 7;
`?` is `*`, empty elements of a list are ignored, and so is what follows `*-`. Of day of month and day of week
either is enough, unless one of them has a `*` without a step: then both must match. The prefixes
`TZ=Europe/Berlin` and `CRON_TZ=Europe/Berlin` name a time zone. (docs/spec: CTL 4.4, BEY 7.1)

Not of that dialect are `@daily-random` and the like, as k8up has them: a time of the day, the week and so on
that is the same for one schedule at all times, and another for the next schedule. (ADR 130)

It is more exact in two points. Activations are found by local time, so that clock changes by half an hour, or
over midnight, are followed exactly. The search covers the calendar's whole cycle instead of five years, so no
activation means never, and schedules for 29 February still work around the year 2100.
"""

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final, Protocol

from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import in_zone, later
from pinnace.api.values.zones import named_zone

_CYCLE_MONTHS: Final = 400 * 12
_LAST_YEAR: Final = 9998  # one year of room before the end of `datetime`
_ANY_TIME: Final = datetime(2000, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_MAX_DIGITS: Final = 18  # above any bound, and within 64 bits


class CronError(ValueError):
    """The expression is not valid; the text says why."""


class Cron(Protocol):
    """A parsed expression."""

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first activation later than `after`, in UTC and whole seconds; None if there never is one.

        Args:
            after: an aware time, not within a day of the first year.
            zone: the time zone of the expression.
        """
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """`@every`: a span after the last time, not aligned to any clock."""

    span: timedelta

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """See Cron; the zone does not matter."""
        try:
            return (in_zone(after, UTC) + self.span).replace(microsecond=0)
        except OverflowError:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """Five fields. Each holds its values in order; weekdays count from Sunday, which is 0.

    Attributes:
        either_day: day of month or day of week is enough; both must match otherwise.
    """

    minutes: Sequence[int]
    hours: Sequence[int]
    days: Sequence[int]
    months: Sequence[int]
    weekdays: Sequence[int]
    either_day: bool

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """See Cron. Local times that the clock skips do not fire; times that it repeats fire twice."""
        if after.year > _LAST_YEAR:
            return None
        # When the clock is set back over midnight, a part of yesterday comes again.
        yesterday = later(in_zone(after, zone), -_DAY).date()
        after = in_zone(after, UTC)
        for day in self._days(yesterday):
            if (found := self._first_of_day(day, after, zone)) is not None:
                # Set back over midnight, the clock may have shown a part of tomorrow before.
                rival = self._first_of_day(day + _DAY, after, zone) if self._has_day(day + _DAY) else None
                return found if rival is None else min(found, rival)
        return None

    def _days(self, first: date) -> Iterator[date]:
        """The days that match, from the first one on, as long as there can be new ones."""
        by_day = (self.days or self.weekdays) if self.either_day else self.weekdays
        if not (self.minutes and self.hours and by_day):
            return
        numbers = range(1, 32) if self.either_day else self.days
        year, month = first.year, first.month
        for _ in range(_CYCLE_MONTHS + 1):
            if month in self.months and year <= _LAST_YEAR:
                length = calendar.monthrange(year, month)[1]
                for day in (date(year, month, number) for number in numbers if number <= length):
                    if day >= first and self._has_day(day):
                        yield day
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)

    def _has_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return (by_date or by_weekday) if self.either_day else (by_date and by_weekday)

    def _first_of_day(self, day: date, after: datetime, zone: tzinfo) -> datetime | None:
        midnights = (datetime(day.year, day.month, day.day), datetime(day.year, day.month, day.day) + _DAY)
        offsets = {_offset(wall, zone, fold) for wall in midnights for fold in (0, 1)}
        if len(offsets) > 1:
            return self._first_of_uneven_day(day, after, zone)
        (offset,) = offsets
        floor = after.replace(tzinfo=None) + offset
        if floor >= midnights[1]:
            return None
        wall = next((wall for wall in self._walls(day) if wall > floor), None)
        return None if wall is None else (wall - offset).replace(tzinfo=UTC)

    def _first_of_uneven_day(self, day: date, after: datetime, zone: tzinfo) -> datetime | None:
        """The first activation on a day with a clock change: checks each local time, also its repetition."""
        moments = (
            (wall, (wall - _offset(wall, zone, fold)).replace(tzinfo=UTC))
            for wall in self._walls(day)
            for fold in (0, 1)
        )
        later = (moment for wall, moment in moments if moment > after and _shows(moment, zone, wall))
        return min(later, default=None)

    def _walls(self, day: date) -> Iterator[datetime]:
        for hour in self.hours:
            for minute in self.minutes:
                yield datetime(day.year, day.month, day.day, hour, minute)


@dataclass(frozen=True, slots=True)
class Zoned:
    """An expression with a time zone of its own."""

    cron: Interval | Calendar
    own: tzinfo

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """See Cron; the zone that is given does not matter."""
        return self.cron.next(after, self.own)


def _offset(wall: datetime, zone: tzinfo, fold: int) -> timedelta:
    return wall.replace(tzinfo=zone, fold=fold).utcoffset() or timedelta()


def _shows(moment: datetime, zone: tzinfo, wall: datetime) -> bool:
    return moment.astimezone(zone).replace(tzinfo=None) == wall


# --- Parsing --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bounds:
    low: int
    high: int
    names: Mapping[str, int] = field(default_factory=dict)


_MINUTES: Final = _Bounds(0, 59)
_HOURS: Final = _Bounds(0, 23)
_DAYS: Final = _Bounds(1, 31)
_MONTH_NAMES: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS: Final = _Bounds(1, 12, {name: number for number, name in enumerate(_MONTH_NAMES, 1)})
_WEEKDAYS: Final = _Bounds(0, 6, {"sun": 0, "mon": 1, "tue": 2, "wed": 3, "thu": 4, "fri": 5, "sat": 6})

_FIELD: Final = re.compile(r"[^ \t\n\r\f\v]+")
_EVERY: Final = "@every "
_ZONES: Final = ("TZ=", "CRON_TZ=")
_OWN_ZONE: Final = "Local"
"""Names the zone that a schedule without a prefix has too."""
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_RANDOM: Final = {
    "@yearly-random": "{minute} {hour} {day} {month} *",
    "@annually-random": "{minute} {hour} {day} {month} *",
    "@monthly-random": "{minute} {hour} {day} * *",
    "@weekly-random": "{minute} {hour} * * {weekday}",
    "@daily-random": "{minute} {hour} * * *",
    "@hourly-random": "{minute} * * * *",
}
RANDOM_DESCRIPTORS: Final = tuple(_RANDOM)


def read_schedule(text: str, seed: str = "") -> Cron:
    """Parse the expression of a Schedule, which must be able to fire. (docs/spec: CTL 4.1)

    Args:
        seed: what `@daily-random` and the like are drawn from, such as the uid of the Schedule.

    Raises:
        CronError: its text is the validation error of the Schedule.
    """
    if not text:
        raise CronError("Schedule must be a non-empty valid Cron expression")
    try:
        cron = parse(text, seed)
    except CronError as error:
        raise CronError(f"invalid schedule: {error}") from error
    if cron.next(_ANY_TIME) is None:
        raise CronError(f"invalid schedule: it never fires: {text}")
    return cron


def drawn(text: str, seed: str) -> str:
    """The expression with five fields in place of `@daily-random` and the like; else the text itself."""
    prefix, _, name = text.rpartition(" ")
    if name not in _RANDOM or (prefix and not prefix.startswith(_ZONES)):
        return text
    fields = _RANDOM[name].format_map(_draw(seed))
    return f"{prefix} {fields}" if prefix else fields


def _draw(seed: str) -> Mapping[str, int]:
    """Numbers of fields by a hash, which spreads schedules evenly; each month has the days."""
    import hashlib  # loads OpenSSL, which few need here

    digest = iter(hashlib.sha256(seed.encode()).digest())
    spans = {"minute": (0, 60), "hour": (0, 24), "day": (1, 28), "month": (1, 12), "weekday": (0, 7)}
    numbers = {name: int.from_bytes(bytes(next(digest) for _ in range(4))) for name in spans}
    return {name: low + numbers[name] % count for name, (low, count) in spans.items()}


def zone_of(cron: Cron, zone: tzinfo) -> tzinfo:
    """The time zone that an expression is read in, where `zone` is the server's."""
    return cron.own if isinstance(cron, Zoned) else zone


def parse(text: str, seed: str = "") -> Cron:
    """Parse an expression, even one that never fires.

    Raises:
        CronError: with the text that users of Velero know.
    """
    text = drawn(text, seed)
    if text.startswith(_ZONES):
        name, _, rest = text.partition("=")[2].partition(" ")
        cron = _parse_plain(rest.strip(" "))
        return cron if name == _OWN_ZONE else Zoned(cron, _zone(name))
    return _parse_plain(text)


def _parse_plain(text: str) -> Interval | Calendar:
    if text.startswith("@"):
        if text.startswith(_EVERY):
            return _interval(text)
        if text not in _DESCRIPTORS:
            raise CronError(f"Unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    elif not text:
        raise CronError("Empty spec string")
    fields = _FIELD.findall(text)
    if len(fields) != 5:
        raise CronError(f"Expected exactly 5 fields, found {len(fields)}: {text}")
    bounds = (_MINUTES, _HOURS, _DAYS, _MONTHS, _WEEKDAYS)
    minutes, hours, days, months, weekdays = map(_field, fields, bounds)
    return Calendar(
        minutes=minutes,
        hours=hours,
        days=days,
        months=months,
        weekdays=weekdays,
        either_day=not (_is_starred(fields[2]) or _is_starred(fields[4])),
    )


def _zone(name: str) -> tzinfo:
    try:
        return named_zone(name)
    except ValueError as error:
        raise CronError(f"provided bad location {name}: unknown time zone {name}") from error


_SHORTEST_INTERVAL: Final = timedelta(minutes=1)
"""Velero looks for due runs once a minute, so that its intervals are never shorter."""


def _interval(text: str) -> Interval:
    try:
        duration = Duration.parse(text.removeprefix(_EVERY))
    except ValueError as error:
        raise CronError(f"Failed to parse duration {text}: {error}") from error
    if duration.nanoseconds <= 0:
        raise CronError(f"the interval must be positive: {text}")
    span = timedelta(seconds=duration.nanoseconds // 1_000_000_000)
    return Interval(max(span, _SHORTEST_INTERVAL))


def _field(text: str, bounds: _Bounds) -> Sequence[int]:
    values: set[int] = set()
    for element in filter(None, text.split(",")):
        values.update(_element(element, bounds))
    return sorted(values)


def _is_starred(text: str) -> bool:
    """Whether an element is `*` or `?` with no step but 1: such a field restricts nothing by itself."""
    for element in text.split(","):
        span, _, step = element.partition("/")
        if span.split("-")[0] in ("*", "?") and (not step or _number(step) == 1):
            return True
    return False


def _element(text: str, bounds: _Bounds) -> range:
    span, *steps = text.split("/")
    first, *last = span.split("-")
    if first in ("*", "?"):
        low, high = bounds.low, bounds.high
    elif len(last) > 1:
        raise CronError(f"Too many hyphens: {text}")
    else:
        low = _value(first, bounds)
        high = _value(last[0], bounds) if last else low
    if len(steps) > 1:
        raise CronError(f"Too many slashes: {text}")
    step = _number(steps[0]) if steps else 1
    if steps and not last:
        high = bounds.high
    if low < bounds.low:
        raise CronError(f"Beginning of range ({low}) below minimum ({bounds.low}): {text}")
    if high > bounds.high:
        raise CronError(f"End of range ({high}) above maximum ({bounds.high}): {text}")
    if low > high:
        raise CronError(f"Beginning of range ({low}) beyond end of range ({high}): {text}")
    if step == 0:
        raise CronError(f"Step of range should be a positive number: {text}")
    return range(low, high + 1, step)


def _value(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return _number(text) if named is None else named


def _number(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not is_digits(digits):
        raise CronError(f'Failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if len(digits.lstrip("0")) > _MAX_DIGITS:
        raise CronError(
            f'Failed to parse int from {text}: strconv.Atoi: parsing "{text}": value out of range'
        )
    if (number := int(digits.lstrip("0") or "0")) and text.startswith("-"):
        raise CronError(f"Negative number (-{number}) not allowed: {text}")
    return number
