"""What is read as rules of retention, and what is refused."""

from datetime import UTC, datetime, timedelta

import pytest

from pinnace.api import labels
from pinnace.api.meta import ObjectMeta
from pinnace.api.retention.locking import lock_end
from pinnace.api.retention.rules import RetentionError, RetentionRules, with_covering_ttl
from pinnace.api.velero.backup import Backup, BackupStatus


def test_rules_are_read_and_the_defaults_are_filled_in() -> None:
    rules = RetentionRules.parse("keepDaily: 7\nkeepWithin: 2w1d12h\nkeepYearly: 100")
    assert rules == RetentionRules(
        keep_daily=7,
        keep_within=timedelta(days=15, hours=12),
        keep_yearly=100,
        keep_min_good=1,
        keep_failed=3,
    )
    assert str(rules) == "keepDaily 7, keepYearly 100, keepWithin 15d12h, keepMinGood 1, keepFailed 3"
    assert RetentionRules.parse("{keepMinGood: 2, keepFailed: 0}") == RetentionRules(
        keep_min_good=2, keep_failed=0
    )
    assert RetentionRules.parse("keepLast: 1\nkeepMinGood: 0").keep_min_good == 0


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no mapping"),
        ("keepDaily", "no mapping"),
        ("- keepDaily: 7", "no mapping"),
        ("{}", "keep no finished backup"),
        ("keepLast: 0\nkeepMinGood: 0", "keep no finished backup"),
        ("keepLast: 0", "keep no finished backup"),
        ("keepFailed: 5", "keep no finished backup"),
        ("keepWithin: 0d", "keep no finished backup"),
        ("keepLast: 7\nkeepLast: 8", "there twice"),
        ("keepDayly: 7", "did you mean keepDaily"),
        ("KeepDaily: 7", "no rule 'KeepDaily'"),
        ("keepDaily: -1", "a number from 0"),
        ("keepDaily: 1.5", "a number from 0"),
        ("keepDaily: 0x7", "a number from 0"),
        ("keepDaily: \u0667", "a number from 0"),
        ("keepDaily: 99999999999", "a number from 0"),
        ("keepYearly: 101", "a number from 0 to 100"),
        ("keepDaily:", "must have a value"),
        ("keepDaily: [7]", "must have a value"),
        ("keepWithin: 5m", "such as 36h"),
        ("keepWithin: 720", "such as 36h"),
        ("keepWithin: -30d", "such as 36h"),
        ("keepWithin: 999999y", "at most 100 years"),
        ("keepDaily: 7\n: x: [", "YAML"),
        ("# " + "x" * 5000, "longer than"),
    ],
)
def test_what_cannot_be_read_or_keeps_nothing_is_refused(text: str, error: str) -> None:
    with pytest.raises(RetentionError, match=error):
        RetentionRules.parse(text)


def test_errors_of_flags_name_the_flags() -> None:
    with pytest.raises(RetentionError, match="--keep-last"):
        RetentionRules.read({"keepLast": "x"}, flags=True)
    with pytest.raises(RetentionError, match="--keep-last, --keep-daily"):
        RetentionRules.read({"keepFailed": "1"}, flags=True)


@pytest.mark.parametrize(
    ("rules", "ttl", "written"),
    [
        ("keepLast: 3", None, "87672h0m0s"),
        ("keepMinGood: 1", "720h", "87672h0m0s"),
        ("keepLast: 3", "100000h", "100000h"),
        ("keepYearly: 20", None, "184464h0m0s"),
        ("keepWithin: 15y", None, "140160h0m0s"),
        ("keepLost: 3", "720h", "720h"),
        ("keepLast: 3", "often", "often"),
        ("keepLast: 3", "-1h", "-1h"),
        (None, "720h", "720h"),
    ],
)
def test_a_backup_lives_for_as_long_as_a_rule_may_keep_it(
    rules: str | None, ttl: str | None, written: str | None
) -> None:
    schedule = {"metadata": {"annotations": {} if rules is None else {labels.RETENTION: rules}}}
    template = {"a": 1} if ttl is None else {"a": 1, "ttl": ttl}
    assert with_covering_ttl(schedule, template) == {"a": 1, "ttl": written}


@pytest.mark.parametrize(
    ("own", "days"), [(None, 3653), ("48h", 2), ("", 30), ("0s", 30), ("x", 30), ("999999h", 3653)]
)
def test_object_lock_holds_for_the_time_that_was_asked_for_and_not_for_that_of_the_rules(
    own: str | None, days: int
) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    backup = Backup(
        metadata=ObjectMeta(annotations={} if own is None else {labels.OWN_TTL: own}),
        status=BackupStatus(start_timestamp=start, expiration=start + timedelta(days=3653)),
    )
    assert lock_end(backup) == start + timedelta(days=days)
