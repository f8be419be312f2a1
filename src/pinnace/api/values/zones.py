"""Time zones by their names."""

from datetime import UTC, tzinfo
from zoneinfo import ZoneInfo


def named_zone(name: str) -> tzinfo:
    """The zone of the time zone database; UTC without a name.

    Raises:
        ValueError: there is no such zone.
    """
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, KeyError) as error:  # a name that is not known is a KeyError
        raise ValueError(f"unknown time zone {name}") from error
