"""Applies the rules of retention to one group of backups: those of a schedule in a location. Pure.

    a backup is kept if a rule keeps it, if it is the newest, if it stands apart, or if it is protected;
    a rule keeps the newest of each of its buckets, for as many buckets as it may keep, the newest ones;
    while it has fewer buckets, it keeps the oldest backup of the group too.

Only Completed backups fill buckets; a PartiallyFailed one stands in where its bucket has no Completed. Failed
ones fill none. Guarantees, which hypothesis proves: the order of the backups does not matter; a decision that
was carried out is not followed by another one; one backup more removes at most one from each rule of
buckets. (docs/adr/128)
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

import msgspec

from pinnace.api.retention.candidates import RetentionCandidate, Standing
from pinnace.api.retention.rules import BUCKETS, FAILED, LAST, MIN_GOOD, WITHIN, RetentionRule, RetentionRules
from pinnace.api.values.times import EARLIEST, in_zone, later


class RetentionDecision(msgspec.Struct, frozen=True):
    """What the rules say of one backup.

    Attributes:
        name: of the backup.
        moment: when it began; None if that is not known.
        kept_by: what keeps it, such as `keepDaily 3 of 7`; nothing if it goes.
        reason: why it goes; empty if it is kept.
        has_begun: whether an earlier deletion of it has begun.
    """

    name: str
    moment: datetime | None
    kept_by: tuple[str, ...] = ()
    reason: str = ""
    has_begun: bool = False

    @property
    def goes(self) -> bool:
        """Whether the rules let the backup be deleted."""
        return not self.kept_by

    @property
    def words(self) -> str:
        """What keeps the backup, or why it goes, for people."""
        return ", ".join(self.kept_by) if self.kept_by else self.reason


_Bucket = tuple[object, ...]


def _hour(local: datetime) -> _Bucket:
    # With the offset: the hour that a clock set back repeats is another one.
    return (local.year, local.month, local.day, local.hour, local.utcoffset())


_BUCKET_OF: Final[dict[str, Callable[[datetime], _Bucket]]] = {
    "keep_hourly": _hour,
    "keep_daily": lambda local: (local.year, local.month, local.day),
    "keep_weekly": lambda local: tuple(local.isocalendar()[:2]),
    "keep_monthly": lambda local: (local.year, local.month),
    "keep_yearly": lambda local: (local.year,),
}


def decide(
    rules: RetentionRules, group: Iterable[RetentionCandidate], zone: tzinfo
) -> list[RetentionDecision]:
    """What the rules say of each backup of a group, the newest first.

    Args:
        zone: the zone of the schedule, whose hours, days, weeks, months and years are the buckets.
    """
    ordered = sorted(group, key=lambda each: (each.moment or EARLIEST, each.name), reverse=True)
    kept: dict[str, list[str]] = {each.name: [] for each in ordered}
    finished = [each for each in ordered if each.standing in (Standing.GOOD, Standing.PARTIAL)]
    _keep(kept, LAST, finished, rules.keep_last)
    for rule in BUCKETS:
        count = getattr(rules, rule.field)
        found = _newest_of_buckets(finished, _BUCKET_OF[rule.field], zone)
        _keep(kept, rule, found, count)
        if finished and len(found) < count and finished[-1] not in found:
            kept[finished[-1].name].append(f"{rule.name} as the oldest")
    _keep(kept, WITHIN, _within(finished, rules.keep_within))
    _keep(kept, MIN_GOOD, [each for each in finished if each.standing == Standing.GOOD], rules.keep_min_good)
    _keep(kept, FAILED, [each for each in ordered if each.standing == Standing.FAILED], rules.keep_failed)
    if finished and not kept[finished[0].name]:
        # Else the one that has just been made would go, where it is PartiallyFailed: before anybody sees why.
        kept[finished[0].name].append("being the newest")
    return [_decision(each, kept[each.name]) for each in ordered]


def _keep(
    kept: dict[str, list[str]],
    rule: RetentionRule,
    found: Sequence[RetentionCandidate],
    count: int | None = None,
) -> None:
    """Note the rule at the first ones of those that were found; at all without a count."""
    for position, each in enumerate(found[:count], 1):
        kept[each.name].append(rule.name if count is None else f"{rule.name} {position} of {count}")


def _newest_of_buckets(
    finished: Sequence[RetentionCandidate], bucket_of: Callable[[datetime], _Bucket], zone: tzinfo
) -> list[RetentionCandidate]:
    """The newest Completed backup of each bucket, else its newest; the newest bucket first."""
    newest: dict[_Bucket, RetentionCandidate] = {}
    for each in finished:
        bucket = bucket_of(in_zone(each.moment or EARLIEST, zone))
        first = newest.setdefault(bucket, each)
        if first.standing == Standing.PARTIAL and each.standing == Standing.GOOD:
            newest[bucket] = each
    return list(newest.values())


def _within(finished: Sequence[RetentionCandidate], span: timedelta) -> list[RetentionCandidate]:
    if not finished or not span:
        return []
    since = later(finished[0].moment or EARLIEST, -span)
    return [each for each in finished if (each.moment or EARLIEST) >= since]


def _decision(each: RetentionCandidate, rules: Sequence[str]) -> RetentionDecision:
    if each.apart:
        return RetentionDecision(each.name, each.moment, (each.apart,))
    kept_by = (*rules, *([each.protected] if each.protected else []))
    reason = "" if kept_by else _REASONS[each.standing]
    return RetentionDecision(
        each.name, each.moment, kept_by, reason, has_begun=each.standing == Standing.LEFT_OVER
    )


_REASONS: Final = {
    Standing.GOOD: "no rule keeps it",
    Standing.PARTIAL: "no rule keeps it; it stands in only where there is no Completed one",
    Standing.LEFT_OVER: "its deletion began and ended with errors",
    Standing.FAILED: f"it failed, and {FAILED.name} keeps newer ones",
}
