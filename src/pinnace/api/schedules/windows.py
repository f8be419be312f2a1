"""Windows keep runs of a Schedule from beginning: `Mon-Fri 08:00-18:00; Sat 22:00-04:00`. Pure. (ADR 130)

A window holds whenever the local clock shows a time in it. So a clock that is set forward within a window
shortens it, one that is set back lengthens it, and times that the clock shows twice are in it twice. A window
that ends before it begins goes over midnight, and belongs to the weekday of its beginning.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from pinnace.api.values.times import in_zone

_DAY_MINUTES: Final = 24 * 60
_WEEK_MINUTES: Final = 7 * _DAY_MINUTES
_MINUTE: Final = timedelta(minutes=1)
_WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW: Final = re.compile(r"(?:([A-Za-z][A-Za-z,-]*)\s+)?(\d\d):(\d\d)\s*-\s*(\d\d):(\d\d)", re.ASCII)
_LONGEST: Final = 4096


class WindowError(ValueError):
    """The windows cannot be read; the text says why, and how one is written."""


class Windows:
    """Windows of the week; none if they are empty.

    Args:
        text: as an annotation or a flag has them.

    Raises:
        WindowError: they cannot be read, or leave a run no minute of the week.
    """

    def __init__(self, text: str = "") -> None:
        if len(text) > _LONGEST:
            raise WindowError(f"windows must not be longer than {_LONGEST} characters")
        closed = bytearray(_WEEK_MINUTES)
        for window in filter(None, (part.strip() for part in text.split(";"))):
            for begin, length in _spans(window):
                past_week = max(begin + length - _WEEK_MINUTES, 0)
                closed[begin : begin + length - past_week] = b"\1" * (length - past_week)
                closed[:past_week] = b"\1" * past_week
        if all(closed):
            raise WindowError(f"{text} leaves a run no time to begin")
        # Three weeks side by side: a search in the middle one never meets an end.
        self._closed = bytes(closed) * 3
        self.text = text
        self.none = not any(closed)

    def open_from(self, moment: datetime, zone: tzinfo) -> datetime:
        """The first time that is not before the moment, and in no window. In UTC."""
        moment = in_zone(moment, UTC)
        while (at := self._index(moment, zone)) is not None:
            end = _whole(moment) + (self._closed.index(0, at) - at) * _MINUTE
            change = _first_change(moment, end, zone)
            if change is None:
                return end
            moment = change
        return moment

    def closed_since(self, moment: datetime, zone: tzinfo) -> datetime:
        """When the windows that hold at the moment began, one after the other; the moment if none holds."""
        moment = in_zone(moment, UTC)
        while (at := self._index(moment, zone)) is not None:
            begin = _whole(moment) - (at - self._closed.rindex(0, 0, at) - 1) * _MINUTE
            change = _first_change(begin, moment, zone)
            if change is None:
                return begin
            if self._index(change - _MINUTE, zone) is None:
                return change
            moment = change - _MINUTE
        return moment

    def _index(self, moment: datetime, zone: tzinfo) -> int | None:
        """The minute of the second of three weeks; None if no window holds."""
        if self.none:
            return None
        wall = in_zone(moment, zone)
        at = _WEEK_MINUTES + wall.weekday() * _DAY_MINUTES + wall.hour * 60 + wall.minute
        return at if self._closed[at] else None


NO_WINDOWS: Final = Windows()


def _spans(window: str) -> Iterator[tuple[int, int]]:
    """The first minute of the week and the number of minutes, for each weekday of a window."""
    if not (match := _WINDOW.fullmatch(window)):
        raise WindowError(f"{window!r} is no window: write it as in 'Mon-Fri 08:00-18:00' or '22:00-04:00'")
    days, *numbers = match.groups()
    first_hour, first_minute, last_hour, last_minute = map(int, numbers)
    begin, end = first_hour * 60 + first_minute, last_hour * 60 + last_minute
    if max(first_minute, last_minute) > 59 or begin >= _DAY_MINUTES or end > _DAY_MINUTES:
        raise WindowError(f"{window!r} has a time that no clock shows: a day is 00:00-24:00")
    if begin == end:
        raise WindowError(f"{window!r} has no length; the whole day is 00:00-24:00")
    length = end - begin if end > begin else end - begin + _DAY_MINUTES
    for day in _days(days, window) if days else range(7):
        yield day * _DAY_MINUTES + begin, length


def _days(text: str, window: str) -> Iterator[int]:
    for element in text.lower().split(","):
        first, *last = element.split("-")
        if len(last) > 1 or not {first, *last} <= set(_WEEKDAYS):
            raise WindowError(f"{element!r} in {window!r} is no weekday: write Mon, Tue-Thu or Sat,Sun")
        begin = _WEEKDAYS.index(first)
        end = _WEEKDAYS.index(last[0]) if last else begin
        yield from ((begin + step) % 7 for step in range((end - begin) % 7 + 1))


def _whole(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0)


def _first_change(begin: datetime, end: datetime, zone: tzinfo) -> datetime | None:
    """When the clock is set after `begin`, in whole minutes; None if it is not. At most once a week."""
    former = in_zone(begin, zone).utcoffset()
    if in_zone(end, zone).utcoffset() == former:
        return None
    low, high = _whole(begin), _whole(end)
    while high - low > _MINUTE:
        middle = low + (high - low) // _MINUTE // 2 * _MINUTE
        if in_zone(middle, zone).utcoffset() == former:
            low = middle
        else:
            high = middle
    return high
