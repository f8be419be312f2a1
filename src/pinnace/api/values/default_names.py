"""Default names of backups and restores. Pure."""

from collections.abc import Iterator
from datetime import datetime
from typing import Final

_MOST: Final = 100
"""So many backups or restores of one source in one second get names."""


def stamped_name(base: str, now: datetime) -> str:
    """`<base>-<YYYYMMDDhhmmss>` in local time."""
    return f"{base}-{now.astimezone():%Y%m%d%H%M%S}"


def other_names(name: str) -> Iterator[str]:
    """The names to try in this order where another backup or restore of the same second has the name."""
    return (f"{name}-{number}" for number in range(2, _MOST + 1))
