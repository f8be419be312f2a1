"""The rules of retention, from the annotation of a Schedule or from flags. (docs/adr/128)"""

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Final, NamedTuple, Self

import msgspec

from pinnace.api import labels
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.strict_yaml import read_yaml
from pinnace.api.values.digits import is_digits
from pinnace.api.values.durations import Duration
from pinnace.api.values.near import did_you_mean, near_names

DEFAULT_MIN_GOOD: Final = 1
DEFAULT_FAILED: Final = 3

_MOST: Final = 10_000
_MOST_YEARS: Final = 100
_LONGEST: Final = timedelta(days=100 * 366)
_TEN_YEARS: Final = timedelta(days=3653)
_TEXT_LIMIT: Final = 4096
"""Bytes of an annotation with rules; all of them with the largest values take less than 300."""

_UNITS: Final[Mapping[str, timedelta]] = {
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
    "y": timedelta(days=365),
}
_SPAN: Final = re.compile(r"(?:\d{1,6}[hdwy])+", re.ASCII)
_TERM: Final = re.compile(r"(\d+)([hdwy])", re.ASCII)


class RetentionError(ValueError):
    """The rules cannot be read, or keep nothing; the text says which one and why."""


class RetentionRule(NamedTuple):
    """One rule.

    Attributes:
        field: of `RetentionRules`.
        name: in the annotation.
        period: the length of its buckets at most; zero if it has no buckets of time.
    """

    field: str
    name: str
    period: timedelta = timedelta()

    @property
    def flag(self) -> str:
        """The flag of commands."""
        return f"--{self.field.replace('_', '-')}"


BUCKETS: Final = (
    RetentionRule("keep_hourly", "keepHourly", timedelta(hours=1)),
    RetentionRule("keep_daily", "keepDaily", timedelta(days=1)),
    RetentionRule("keep_weekly", "keepWeekly", timedelta(weeks=1)),
    RetentionRule("keep_monthly", "keepMonthly", timedelta(days=31)),
    RetentionRule("keep_yearly", "keepYearly", timedelta(days=366)),
)
LAST: Final = RetentionRule("keep_last", "keepLast")
WITHIN: Final = RetentionRule("keep_within", "keepWithin")
MIN_GOOD: Final = RetentionRule("keep_min_good", "keepMinGood")
FAILED: Final = RetentionRule("keep_failed", "keepFailed")
RULES: Final = (LAST, *BUCKETS, WITHIN, MIN_GOOD, FAILED)
_BY_NAME: Final = {rule.name: rule for rule in RULES}


class RetentionRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of one schedule. Zero switches a rule off.

    Attributes:
        keep_last: keeps so many of the newest backups.
        keep_hourly, keep_daily, keep_weekly, keep_monthly, keep_yearly: keep the newest backup of each of so
            many of the newest hours, days, ISO weeks, months and years that have one.
        keep_within: keeps what began so long before the newest backup, or later.
        keep_min_good: keeps so many of the newest Completed backups.
        keep_failed: keeps so many of the newest failed backups.
    """

    keep_last: int = 0
    keep_hourly: int = 0
    keep_daily: int = 0
    keep_weekly: int = 0
    keep_monthly: int = 0
    keep_yearly: int = 0
    keep_within: timedelta = timedelta()
    keep_min_good: int = DEFAULT_MIN_GOOD
    keep_failed: int = DEFAULT_FAILED

    @classmethod
    def read(cls, values: Mapping[str, str], *, flags: bool = False) -> Self:
        """The rules that are written so, by the names of the annotation.

        Args:
            flags: errors name the flags of commands.

        Raises:
            RetentionError: a name or value cannot be read, or the rules would keep no finished backup.
        """
        found: dict[str, int | timedelta] = {}
        for name, value in values.items():
            rule = _BY_NAME.get(name)
            if rule is None:
                near = did_you_mean(near_names(name, [*_BY_NAME]))
                raise RetentionError(f"there is no rule {name[:40]!r}{near or '; there are ' + _names()}")
            shown = rule.flag if flags else rule.name
            found[rule.field] = _span(value, shown) if rule == WITHIN else _count(value, shown)
        made = cls(**found)  # type: ignore[arg-type]  # each by the type of its field
        # The default of keepMinGood alone does not count: who sets no other rule did not ask for deletions.
        keeping = [rule for rule in RULES if rule != FAILED and found.get(rule.field)]
        if not keeping:
            needed = ", ".join(rule.flag if flags else rule.name for rule in (LAST, BUCKETS[1], WITHIN))
            raise RetentionError(f"the rules keep no finished backup: set one such as {needed}")
        return made

    @classmethod
    def parse(cls, text: str) -> Self:
        """The rules of an annotation: YAML such as `keepDaily: 7`. Raises RetentionError."""
        if len(text) > _TEXT_LIMIT:
            raise RetentionError(f"it is longer than {_TEXT_LIMIT} characters")
        try:
            content = read_yaml(text)
        except ValueError as error:
            raise RetentionError(str(error)) from error
        if not isinstance(content, dict):
            raise RetentionError("it is no mapping: write rules such as keepDaily: 7, one on each line")
        for name, value in content.items():
            if not isinstance(value, str):
                raise RetentionError(f"{name[:40]} must have a value, such as 7")
        return cls.read(content)

    @classmethod
    def of_schedule(cls, schedule: JSONObject) -> Self | None:
        """The rules of a Schedule; None if it has none. Raises RetentionError."""
        notes = mapping(schedule, "metadata", "annotations")
        if labels.RETENTION not in notes:
            return None
        text = notes[labels.RETENTION]
        try:
            return cls.parse(text if isinstance(text, str) else "")
        except RetentionError as error:
            raise RetentionError(f"annotation {labels.RETENTION}: {error}") from error

    def __str__(self) -> str:
        """The rules that keep something, for people: `keepDaily 7, keepMinGood 1, keepFailed 3`."""
        values = [(rule, getattr(self, rule.field)) for rule in RULES]
        return ", ".join(
            f"{rule.name} {_span_text(value) if rule == WITHIN else value}" for rule, value in values if value
        )

    @property
    def time_to_live(self) -> timedelta:
        """The time to live of a backup, so that nothing expires it as long as a rule may keep it.

        Each rule counts backups, or from the newest backup: none of them has an end in time. Ten years stand
        for that, or the longest rule where that is longer.
        """
        nominal: list[timedelta] = [(getattr(self, rule.field) + 1) * rule.period for rule in BUCKETS]
        return max(_TEN_YEARS, self.keep_within + _UNITS["y"], *nominal)


def covering_ttl(schedule: JSONObject, ttl: object) -> str | None:
    """The `spec.ttl` of a Schedule's Backup that covers the Schedule's rules.

    Args:
        ttl: that of the template; one that is longer stays.

    Returns:
        None if the Schedule has no rules that can be read, or the template's own is enough or invalid.
    """
    try:
        rules = RetentionRules.of_schedule(schedule)
        own = Duration.parse(ttl) if isinstance(ttl, str) and ttl else Duration()
    except ValueError:
        return None
    if rules is None or own < Duration():
        return None
    covering = Duration.seconds(rules.time_to_live.total_seconds())
    return str(covering) if own < covering else None


def with_covering_ttl(schedule: JSONObject, template: JSONObject) -> JSONObject:
    """The spec of a Schedule's Backup, kept for as long as the Schedule's rules may keep it."""
    ttl = covering_ttl(schedule, template.get("ttl"))
    return template if ttl is None else {**template, "ttl": ttl}


def _names() -> str:
    return ", ".join(_BY_NAME)


def _count(text: str, name: str) -> int:
    most = _MOST_YEARS if name in (BUCKETS[-1].name, BUCKETS[-1].flag) else _MOST
    if not is_digits(text) or len(text) > len(str(_MOST)) or int(text) > most:
        raise RetentionError(f"{name} must be a number from 0 to {most}, and is {text[:40]!r}")
    return int(text)


def _span(text: str, name: str) -> timedelta:
    """The time of a text such as `36h`, `30d`, `2w` or `1y`; a bare `m` could be minutes or months."""
    if text == "0":
        return timedelta()
    if not _SPAN.fullmatch(text):
        raise RetentionError(f"{name} must be a time such as 36h, 30d, 12w or 2y, and is {text[:40]!r}")
    terms: list[tuple[str, str]] = _TERM.findall(text)
    span = sum((int(number) * _UNITS[unit] for number, unit in terms), timedelta())
    if span > _LONGEST:
        raise RetentionError(f"{name} must be at most 100 years, and is {text[:40]}")
    return span


def _span_text(span: timedelta) -> str:
    hours = int(span.total_seconds()) // 3600
    days, rest = divmod(hours, 24)
    return "".join(f"{count}{unit}" for count, unit in ((days, "d"), (rest, "h")) if count) or "0"
