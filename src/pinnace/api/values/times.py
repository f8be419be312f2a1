"""Timestamps as the API writes them: RFC 3339, UTC, whole seconds. (docs/spec: API 1)

Go's calendar begins before Python's and ends after it, and anybody may write a date of year 0, or one that
leaves the calendar by its offset, into a status: here such a date counts as the first, or the last, second of
the calendar, so that no reader fails because of it.
"""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
LATEST: Final = datetime.max.replace(microsecond=0, tzinfo=UTC)
_MARGIN: Final = timedelta(days=2)
"""More than any time zone differs from UTC."""

CLOCK_DIFFERENCE: Final = timedelta(minutes=5)
"""By how much the clocks of two servers, or of a server and the API server, may differ."""

_HTTP_DATE_LENGTH: Final = len("Fri, 27 Nov 2026 18:19:39 GMT")
_MONTHS: Final = "JanFebMarAprMayJunJulAugSepOctNovDec"
_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", re.ASCII)


def format_time(moment: datetime) -> str:
    """Return `2021-08-11T21:43:26Z`; parts of a second are cut off, as Go does.

    Raises:
        ValueError: `moment` has no time zone, so which instant it means is unknown.
    """
    if moment.tzinfo is None:
        raise ValueError(f"time without a zone: {moment.isoformat()}")
    whole_seconds = _in_utc(moment).replace(microsecond=0, tzinfo=None)
    return whole_seconds.isoformat() + "Z"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time with any offset; the result is in UTC, at most at an end of the calendar.

    Raises:
        ValueError: `text` is not RFC 3339. Other ISO 8601 forms are refused, as Go refuses them.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    if text.startswith("0000"):
        datetime.fromisoformat(f"0004{text[4:]}")  # a leap year, as year 0 is
        return EARLIEST
    return _in_utc(datetime.fromisoformat(text))


def known_time(text: object) -> datetime | None:
    """Read a time that anybody may have written; None for anything that is not one."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether a time that should be past is so far ahead that a clock was wrong when it was written."""
    return moment - now > CLOCK_DIFFERENCE


def later(moment: datetime, by: timedelta) -> datetime:
    """A time that much later, or earlier; at most at an end of the calendar."""
    try:
        return moment + by
    except OverflowError:
        return LATEST if by > timedelta() else EARLIEST


def in_zone(moment: datetime, zone: tzinfo | None) -> datetime:
    """The time in a zone, None for the local one; within two days at an end of the calendar."""
    try:
        return moment.astimezone(zone)
    except OverflowError:
        inside = EARLIEST + _MARGIN if moment.year < EARLIEST.year + 1 else LATEST - _MARGIN
        return inside.astimezone(zone)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return EARLIEST if moment.year == EARLIEST.year else LATEST


def http_date(text: str) -> datetime | None:
    """The time in a Date header; None if it is none."""
    month = _MONTHS.find(text[8:11])
    if len(text) == _HTTP_DATE_LENGTH and text.endswith(" GMT") and month % 3 == 0:
        with suppress(ValueError):
            # As every server writes it. The parser of mails reads older forms; few commands need to load it.
            day = f"{text[12:16]}-{month // 3 + 1:02}-{text[5:7]}"
            return datetime.fromisoformat(f"{day}T{text[17:25]}+00:00")
    from email.utils import parsedate_to_datetime

    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
