"""Until when object lock holds the files of a backup whose time to live covers rules of retention. Pure."""

from datetime import datetime
from typing import Final

from pinnace.api import labels
from pinnace.api.values.durations import Duration
from pinnace.api.values.times import later
from pinnace.api.velero.backup import Backup

_USUAL: Final = Duration.hours(720)
"""The time to live of a schedule that sets none, unless its server has another default."""


def lock_end(backup: Backup) -> datetime | None:
    """The end of the time to live that was asked for, which lock `until: expiration` means; None without one.

    Not the longer one that covers the rules: files that are held for ten years could be deleted by no rule,
    and in compliance mode by nobody. (docs/adr/128)
    """
    status, own = backup.status, backup.metadata.annotations.get(labels.OWN_TTL)
    if own is None or status.start_timestamp is None or status.expiration is None:
        return status.expiration
    try:
        ttl = Duration.parse(own) if own else _USUAL
    except ValueError:
        ttl = _USUAL
    if ttl <= Duration():
        ttl = _USUAL
    return min(status.expiration, later(status.start_timestamp, ttl.to_timedelta()))
