"""What a Schedule's expression and annotations say about its runs. Pure. (ADR 130)

A Velero server ignores the annotations and makes each run at its time; an expression that it does not know,
such as `@daily-random`, has phase FailedValidation there.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from functools import lru_cache
from typing import Final

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.schedules.windows import NO_WINDOWS, WindowError, Windows
from pinnace.api.values.cron import Cron, CronError, read_schedule, zone_of


class CatchUp(StrEnum):
    """What becomes of runs that could not begin in time."""

    LAST = "last"
    """One run is made for all of them."""
    NONE = "none"
    """They are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRules:
    """When runs of a Schedule begin. As a `Cron`, it has the times that they are planned for.

    Attributes:
        windows: when none begins.
        allows_overlap: whether one begins while an earlier Backup has not read the cluster yet.
    """

    cron: Cron
    windows: Windows = NO_WINDOWS
    catch_up: CatchUp = CatchUp.LAST
    allows_overlap: bool = False

    def next(self, after: datetime, zone: tzinfo = UTC) -> datetime | None:
        """When the first run that is due after `after` is planned: then, or at the end of windows."""
        due = self.cron.next(after, zone)
        return None if due is None else self.windows.open_from(due, zone_of(self.cron, zone))


_TRUTHS: Final = {"true": True, "false": False}


@lru_cache(maxsize=256)
def _windows(text: str) -> Windows:
    """Kept, as a server reads each Schedule several times a minute. Raises WindowError."""
    return Windows(text)


def seed_of(schedule: JSONObject) -> str:
    """What random times are drawn from: the uid, which two clusters with the same manifests do not share."""
    metadata = mapping(schedule, "metadata")
    return text(metadata, "uid") or f"{text(metadata, 'namespace')}/{text(metadata, 'name')}"


def read_rules(schedule: JSONObject) -> tuple[ScheduleRules | None, list[str]]:
    """The rules of a Schedule; None, with all reasons, if they cannot be read."""
    errors: list[str] = []
    notes = mapping(schedule, "metadata", "annotations")
    cron, windows = None, NO_WINDOWS
    try:
        cron = read_schedule(text(schedule, "spec", "schedule"), seed_of(schedule))
    except CronError as error:
        errors.append(str(error))
    try:
        if given := text(notes, labels.NOT_DURING):
            windows = _windows(given)
    except WindowError as error:
        errors.append(f"annotation {labels.NOT_DURING}: {error}")
    catch_up = text(notes, labels.CATCH_UP) or CatchUp.LAST
    if catch_up not in tuple(CatchUp):
        errors.append(f"annotation {labels.CATCH_UP}: {catch_up!r} is neither none nor last")
    overlap = text(notes, labels.ALLOW_OVERLAP) or "false"
    if overlap not in _TRUTHS:
        errors.append(f"annotation {labels.ALLOW_OVERLAP}: {overlap!r} is neither true nor false")
    if cron is None or errors:
        return None, errors
    rules = ScheduleRules(
        cron=cron, windows=windows, catch_up=CatchUp(catch_up), allows_overlap=_TRUTHS[overlap]
    )
    return rules, []
