"""Which backups the rules keep: cases by hand, and properties over months of random runs."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.retention.candidates import RetentionCandidate, Standing
from pinnace.api.retention.deciding import decide
from pinnace.api.retention.rules import BUCKETS, RetentionRule, RetentionRules

BERLIN = ZoneInfo("Europe/Berlin")
SHORT = {"C": Standing.GOOD, "P": Standing.PARTIAL, "F": Standing.FAILED, "?": Standing.APART}


def backup(text: str) -> RetentionCandidate:
    """Of `2026-01-31T02:00 C`: the time in UTC is the name, too."""
    when, _, standing = text.partition(" ")
    moment = datetime.fromisoformat(when).replace(tzinfo=UTC)
    apart = "some doubt" if standing == "?" else ""
    return RetentionCandidate(name=when, standing=SHORT[standing or "C"], moment=moment, apart=apart)


def kept(rules: RetentionRules, *texts: str, zone: tzinfo = UTC) -> list[str]:
    decisions = decide(rules, [backup(text) for text in texts], zone)
    return sorted(each.name for each in decisions if not each.goes)


def only(**rules: object) -> RetentionRules:
    return RetentionRules(**{"keep_min_good": 0, "keep_failed": 0, **rules})  # type: ignore[arg-type]


GOOD_ONES = ["2026-01-01T01:00", "2026-01-02T01:00", "2026-01-03T01:00"]
DAYS = [f"2026-01-{day:02}T03:00" for day in range(1, 32)]


@pytest.mark.parametrize(
    ("rules", "backups", "expected", "zone"),
    [
        pytest.param(only(keep_last=2), DAYS, DAYS[-2:], UTC, id="last"),
        pytest.param(only(keep_daily=3), DAYS, DAYS[-3:], UTC, id="daily"),
        pytest.param(only(keep_weekly=2), DAYS, [DAYS[24], DAYS[30]], UTC, id="ISO weeks end on Sundays"),
        pytest.param(
            only(keep_weekly=2),
            ["2026-12-28T03:00", "2027-01-03T03:00", "2025-12-01T03:00"],
            ["2027-01-03T03:00", "2025-12-01T03:00"],
            UTC,
            id="the days around New Year are one ISO week",
        ),
        pytest.param(
            only(keep_monthly=2),
            [*DAYS, "2026-02-28T03:00"],
            [DAYS[30], "2026-02-28T03:00"],
            UTC,
            id="month ends",
        ),
        pytest.param(
            only(keep_yearly=3),
            DAYS,
            [DAYS[0], DAYS[30]],
            UTC,
            id="the oldest stays while a rule is not full",
        ),
        pytest.param(only(keep_within=timedelta(days=2)), DAYS, DAYS[-3:], UTC, id="within, from the newest"),
        pytest.param(
            only(keep_daily=2),
            ["2026-01-01T22:30", "2026-01-01T23:30", "2026-01-02T22:30", "2026-01-02T23:30"],
            ["2026-01-02T22:30", "2026-01-02T23:30"],
            BERLIN,
            id="days are those of the zone",
        ),
        pytest.param(
            only(keep_hourly=2),
            ["2026-10-25T00:30", "2026-10-25T01:30", "2026-10-24T20:00"],
            ["2026-10-25T00:30", "2026-10-25T01:30"],
            BERLIN,
            id="an hour that a clock set back repeats is two",
        ),
        pytest.param(
            only(keep_daily=2),
            ["2026-01-01T01:00 C", "2026-01-01T02:00 P", "2026-01-02T01:00 P", "2026-01-02T02:00 C"],
            ["2026-01-01T01:00", "2026-01-02T02:00"],
            UTC,
            id="PartiallyFailed stands in only where there is no Completed",
        ),
        pytest.param(
            only(keep_daily=1),
            ["2026-01-01T01:00 C", "2026-01-02T01:00 P", "2026-01-02T02:00 P"],
            ["2026-01-02T02:00"],
            UTC,
            id="PartiallyFailed stands in",
        ),
        pytest.param(
            RetentionRules(keep_last=1, keep_min_good=2, keep_failed=1),
            [*GOOD_ONES, "2026-01-04T01:00 P", "2026-01-05T01:00 F", "2026-01-06T01:00 F"],
            ["2026-01-02T01:00", "2026-01-03T01:00", "2026-01-04T01:00", "2026-01-06T01:00"],
            UTC,
            id="keepMinGood counts Completed ones, keepFailed the newest failed",
        ),
        pytest.param(
            only(keep_daily=1),
            ["2026-01-01T01:00 C", "2026-01-01T02:00 P"],
            ["2026-01-01T01:00", "2026-01-01T02:00"],
            UTC,
            id="the newest stays",
        ),
        pytest.param(
            only(keep_last=1),
            ["2026-01-01T01:00 C", "2026-01-02T01:00 ?", "2025-01-01T01:00 ?"],
            ["2025-01-01T01:00", "2026-01-01T01:00", "2026-01-02T01:00"],
            UTC,
            id="a doubtful one stays, and pushes none out",
        ),
    ],
)
def test_what_is_kept(rules: RetentionRules, backups: list[str], expected: list[str], zone: tzinfo) -> None:
    assert kept(rules, *backups, zone=zone) == sorted(expected)


def test_a_decision_says_which_rule_keeps_and_why_one_goes() -> None:
    decisions = decide(only(keep_last=1, keep_yearly=2), [backup(day) for day in DAYS[:3]], UTC)
    assert [(each.name, each.goes, each.words) for each in decisions] == [
        (DAYS[2], False, "keepLast 1 of 1, keepYearly 1 of 2"),
        (DAYS[1], True, "no rule keeps it"),
        (DAYS[0], False, "keepYearly as the oldest"),
    ]


counts = st.integers(min_value=0, max_value=5)
rule_sets = st.builds(
    RetentionRules,
    keep_last=counts,
    keep_hourly=counts,
    keep_daily=counts,
    keep_weekly=counts,
    keep_monthly=counts,
    keep_yearly=counts,
    keep_within=st.sampled_from([timedelta(), timedelta(hours=5), timedelta(days=9)]),
    keep_min_good=counts,
    keep_failed=counts,
)
zones = st.sampled_from([UTC, BERLIN, ZoneInfo("Australia/Lord_Howe"), ZoneInfo("America/Santiago")])
# Around both changes of clocks, the end of a year and of February.
moments = st.one_of(
    st.integers(min_value=0, max_value=240 * 24 * 60),
    st.integers(min_value=0, max_value=30).map(lambda day: day * 24 * 60),
).map(lambda minutes: datetime(2026, 9, 1, tzinfo=UTC) + timedelta(minutes=minutes))
standings = st.sampled_from([Standing.GOOD] * 6 + [Standing.PARTIAL] * 2 + [Standing.FAILED, Standing.APART])
groups = st.lists(st.tuples(moments, standings), max_size=60).map(
    lambda found: [
        RetentionCandidate(
            name=f"b{number}",
            standing=standing,
            moment=moment,
            apart="some doubt" if standing == Standing.APART else "",
        )
        for number, (moment, standing) in enumerate(found)
    ]
)


def names_kept(rules: RetentionRules, group: list[RetentionCandidate], zone: tzinfo) -> set[str]:
    return {each.name for each in decide(rules, group, zone) if not each.goes}


@given(rules=rule_sets, group=groups, zone=zones, data=st.data())
def test_the_order_does_not_matter_and_a_second_pass_deletes_nothing(
    rules: RetentionRules, group: list[RetentionCandidate], zone: tzinfo, data: st.DataObject
) -> None:
    stay = names_kept(rules, group, zone)
    assert names_kept(rules, data.draw(st.permutations(group)), zone) == stay
    left = [each for each in group if each.name in stay]
    assert names_kept(rules, left, zone) == stay
    # Two servers that act on the same state, or one of them on a part of what the other has done.
    part = [each for each in group if each.name in stay or data.draw(st.booleans())]
    assert names_kept(rules, part, zone) == stay


@given(rules=rule_sets, group=groups, zone=zones)
def test_what_must_stay_stays(rules: RetentionRules, group: list[RetentionCandidate], zone: tzinfo) -> None:
    stay = names_kept(rules, group, zone)
    by_age = sorted(group, key=lambda each: (each.moment, each.name), reverse=True)
    good = [each.name for each in by_age if each.standing == Standing.GOOD]
    finished = [each.name for each in by_age if each.standing in (Standing.GOOD, Standing.PARTIAL)]
    failed = [each.name for each in by_age if each.standing == Standing.FAILED]
    assert {each.name for each in group if each.apart} <= stay
    assert set(good[: rules.keep_min_good]) <= stay
    assert set(finished[: max(1, rules.keep_last)]) <= stay
    assert stay & set(failed) == set(failed[: rules.keep_failed])


@given(rule=st.sampled_from(BUCKETS), count=st.integers(1, 5), group=groups, zone=zones, new=moments)
def test_one_more_backup_removes_at_most_one_from_a_rule_of_buckets(
    rule: RetentionRule, count: int, group: list[RetentionCandidate], zone: tzinfo, new: datetime
) -> None:
    rules = only(**{rule.field: count})
    added = RetentionCandidate(name="new", standing=Standing.GOOD, moment=new)
    before = {each.name for each in decide(rules, group, zone) if any(rule.name in by for by in each.kept_by)}
    after = names_kept(rules, [*group, added], zone)
    assert len(before - after) <= 1


@given(
    rules=rule_sets,
    zone=zones,
    gaps=st.lists(st.integers(min_value=5, max_value=3 * 24 * 60), min_size=20, max_size=90),
    outcomes=st.lists(standings, min_size=90, max_size=90),
)
def test_months_of_runs_leave_what_one_pass_over_all_would_leave_or_more(
    rules: RetentionRules, zone: tzinfo, gaps: list[int], outcomes: list[Standing]
) -> None:
    """But for the oldest, which a rule keeps until it is full: which one depends on earlier passes."""
    moment = datetime(2026, 9, 1, tzinfo=UTC)
    alive: list[RetentionCandidate] = []
    everything: list[RetentionCandidate] = []
    for number, (gap, standing) in enumerate(zip(gaps, outcomes, strict=False)):
        moment += timedelta(minutes=gap)
        apart = "some doubt" if standing == Standing.APART else ""
        made = RetentionCandidate(name=f"b{number:03}", standing=standing, moment=moment, apart=apart)
        everything.append(made)
        before = [*alive, made]
        stay = names_kept(rules, before, zone)
        alive = [each for each in before if each.name in stay]
    at_once = {
        each.name
        for each in decide(rules, everything, zone)
        if any(" of " in by or by == "keepWithin" for by in each.kept_by)
    }
    assert at_once <= {each.name for each in alive}
