"""Timestamps as the API writes them: RFC 3339, UTC, whole seconds. (docs/spec: API 1)"""

import re
from datetime import UTC, datetime

_RFC3339 = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})", re.ASCII)


def utcnow() -> datetime:
    """The current time, aware, in UTC: the default of every injected clock."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """Return `2021-08-11T21:43:26Z`; parts of a second are cut off, as Go does.

    Raises:
        ValueError: `moment` has no time zone, so which instant it means is unknown.
    """
    if moment.tzinfo is None:
        raise ValueError(f"time without a zone: {moment.isoformat()}")
    whole_seconds = moment.astimezone(UTC).replace(microsecond=0, tzinfo=None)
    return whole_seconds.isoformat() + "Z"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time with any offset; the result is in UTC.

    Raises:
        ValueError: `text` is not RFC 3339. Other ISO 8601 forms are refused, as Go refuses them.
    """
    if not _RFC3339.fullmatch(text):
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    return datetime.fromisoformat(text).astimezone(UTC)
