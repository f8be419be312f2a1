"""The cron dialect: what is accepted, when it fires, and what clocks that are moved do to it."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.api.values.cron import Calendar, Cron, CronError, Interval, parse, read_schedule

MINUTE = timedelta(minutes=1)
HALF_A_DAY = timedelta(hours=12)
BERLIN = ZoneInfo("Europe/Berlin")
ST_JOHNS = ZoneInfo("America/St_Johns")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def calendar(text: str) -> Calendar:
    parsed = parse(text)
    assert isinstance(parsed, Calendar)
    return parsed


def fired(text: str, after: str, count: int, zone: tzinfo = UTC) -> list[str]:
    """The next activations, as the clock of the zone shows them."""
    cron, moment, shown = parse(text), at(after, zone), []
    for _ in range(count):
        following = cron.next(moment, zone)
        assert following is not None
        moment = following
        shown.append(moment.astimezone(zone).isoformat())
    return shown


@pytest.mark.spec("CTL-023", "CTL-064")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("* * * *", "Expected exactly 5 fields, found 4: * * * *"),
        ("0 * * * * *", "Expected exactly 5 fields, found 6: 0 * * * * *"),
        ("TZ=UTC", "Empty spec string"),
        ("TZ=Nowhere/X 0 1 * * *", "provided bad location Nowhere/X: unknown time zone Nowhere/X"),
        ("CRON_TZ=UTC", "Empty spec string"),
        ("CRON_TZ=UTC 0 1 * *", "Expected exactly 5 fields, found 4: 0 1 * *"),
        ("CRON_TZ=UTC CRON_TZ=UTC 0 1 * * *", "Expected exactly 5 fields, found 6: CRON_TZ=UTC 0 1 * * *"),
        ("CRON_TZ=Nowhere/X 0 1 * * *", "provided bad location Nowhere/X: unknown time zone Nowhere/X"),
        ("CRON_TZ=../x 0 1 * * *", "provided bad location ../x: unknown time zone ../x"),
        (
            "CRON_TZ=/etc/localtime @daily",
            "provided bad location /etc/localtime: unknown time zone /etc/localtime",
        ),
        ("   ", "Expected exactly 5 fields, found 0:    "),
        ("60 * * * *", "End of range (60) above maximum (59): 60"),
        ("* 24 * * *", "End of range (24) above maximum (23): 24"),
        ("* * 0 * *", "Beginning of range (0) below minimum (1): 0"),
        ("* * 32 * *", "End of range (32) above maximum (31): 32"),
        ("* * * 13 *", "End of range (13) above maximum (12): 13"),
        ("* * * 0 *", "Beginning of range (0) below minimum (1): 0"),
        ("* * * * 7", "End of range (7) above maximum (6): 7"),
        ("*/0 * * * *", "Step of range should be a positive number: */0"),
        ("*/-1 * * * *", "Negative number (-1) not allowed: -1"),
        ("5-1 * * * *", "Beginning of range (5) beyond end of range (1): 5-1"),
        ("1-5-9 * * * *", "Too many hyphens: 1-5-9"),
        ("*/2/3 * * * *", "Too many slashes: */2/3"),
        ("x * * * *", 'Failed to parse int from x: strconv.Atoi: parsing "x": invalid syntax'),
        ("1_0 * * * *", 'Failed to parse int from 1_0: strconv.Atoi: parsing "1_0": invalid syntax'),
        ("٣ * * * *", 'Failed to parse int from ٣: strconv.Atoi: parsing "٣": invalid syntax'),
        ("-5 * * * *", 'Failed to parse int from : strconv.Atoi: parsing "": invalid syntax'),
        ("* * L * *", 'Failed to parse int from L: strconv.Atoi: parsing "L": invalid syntax'),
        ("* * * * 1#2", 'Failed to parse int from 1#2: strconv.Atoi: parsing "1#2": invalid syntax'),
        ("@Daily", "Unrecognized descriptor: @Daily"),
        ("@every", "Unrecognized descriptor: @every"),
        ("@reboot", "Unrecognized descriptor: @reboot"),
        (" @daily", "Expected exactly 5 fields, found 1:  @daily"),
        ("@every 5", 'Failed to parse duration @every 5: time: missing unit in duration "5"'),
        ("@every  5m", 'Failed to parse duration @every  5m: time: invalid duration " 5m"'),
        ("@every 1d", 'Failed to parse duration @every 1d: time: unknown unit "d" in duration "1d"'),
    ],
)
def test_what_is_refused_and_why(text: str, message: str) -> None:
    with pytest.raises(CronError) as raised:
        parse(text)
    assert str(raised.value) == message
    with pytest.raises(CronError) as raised:
        read_schedule(text)
    assert str(raised.value) == f"invalid schedule: {message}"


def test_a_number_of_many_digits_is_out_of_range() -> None:
    with pytest.raises(CronError, match="value out of range"):
        parse("9" * 5000 + " * * * *")


@pytest.mark.spec("CTL-019", "API-016")
def test_an_empty_expression_has_a_message_of_its_own() -> None:
    with pytest.raises(CronError, match=r"^Schedule must be a non-empty valid Cron expression$"):
        read_schedule("")
    with pytest.raises(CronError, match=r"^Empty spec string$"):
        parse("")


@pytest.mark.spec("CTL-024")
@pytest.mark.parametrize(
    "text", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", ", * * * *", "0 0 * , *", "0 0 , * *", "0 0 , * ,"]
)
def test_what_never_fires_is_refused(text: str) -> None:
    assert parse(text).next(at("2021-08-11")) is None
    with pytest.raises(CronError) as raised:
        read_schedule(text)
    assert str(raised.value) == f"invalid schedule: it never fires: {text}"


@pytest.mark.spec("CTL-023", "CTL-064")
@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("5/15 * * * *", [5, 20, 35, 50]),
        ("*/25 * * * *", [0, 25, 50]),
        ("?/25 * * * *", [0, 25, 50]),
        ("10-30/10 * * * *", [10, 20, 30]),
        ("*-5/10 * * * *", [0, 10, 20, 30, 40, 50]),
        ("?-1-2-x/30 * * * *", [0, 30]),
        ("3,1,,2,1 * * * *", [1, 2, 3]),
        (", * * * *", []),
        ("+7,007,08 * * * *", [7, 8]),
        ("59/99 * * * *", [59]),
    ],
)
def test_the_syntax_of_a_field(text: str, minutes: list[int]) -> None:
    assert calendar(text).minutes == minutes


@pytest.mark.spec("CTL-023")
def test_names_have_no_case_and_stand_in_ranges_and_lists() -> None:
    cron = calendar("0 0 ? JAN-mar,Dec\tMon,WED")

    assert (cron.months, cron.weekdays, cron.days) == ([1, 2, 3, 12], [1, 3], list(range(1, 32)))
    assert calendar("0 0 * * sun-sat/2").weekdays == [0, 2, 4, 6]
    with pytest.raises(CronError):
        parse("0 0 * mon *")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ],
)
def test_descriptors(text: str, fields: str) -> None:
    assert parse(text) == parse(fields)


@pytest.mark.spec("CTL-023")
@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("@every 5m", 300),
        ("@every 1h30m", 5400),
        ("@every 500ms", 60),
        ("@every 90.5s", 90),
        ("@every 61.999s", 61),
    ],
)
def test_intervals(text: str, seconds: int) -> None:
    assert parse(text) == Interval(timedelta(seconds=seconds))


def test_an_interval_counts_from_the_last_time_in_whole_seconds() -> None:
    cron = read_schedule("@every 5m")

    assert cron.next(at("2021-08-11T21:43:26.7")) == at("2021-08-11T21:48:26")
    assert cron.next(at("2021-10-31T02:30", BERLIN), BERLIN) == at("2021-10-31T00:35")
    assert Interval(timedelta(days=99 * 365)).next(at("9990-01-01")) is None


@pytest.mark.found("L1")
@pytest.mark.spec("CTL-024")
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 0 1 * 1", ["08-02", "08-09", "08-16", "08-23", "08-30", "09-01", "09-06"]),
        ("0 0 */2 * 1", ["08-02", "08-03", "08-05", "08-07", "08-09", "08-11"]),
        ("0 0 1 * */2", ["08-03", "08-05", "08-07", "08-08", "08-10"]),
        ("0 0 */1,5 * 1", ["08-02", "08-09"]),
        ("0 0 ?/3 * 5", ["08-04", "08-06", "08-07", "08-10"]),
        ("0 0 1 * */1", ["09-01", "10-01"]),
        ("0 0 13 * ?", ["08-13", "09-13"]),
        ("0 0 ? * 5", ["08-06", "08-13"]),
        ("0 0 1-3 * 1,*", ["08-02", "08-03", "09-01"]),
        ("0 0 , * 1", ["08-02", "08-09"]),
    ],
)
def test_day_of_month_and_day_of_week(text: str, days: list[str]) -> None:
    assert fired(text, "2021-08-01T12:00", len(days)) == [f"2021-{day}T00:00:00+00:00" for day in days]


@pytest.mark.spec("CTL-022", "CTL-064")
@pytest.mark.parametrize(
    ("text", "after", "following"),
    [
        ("0 9 * * *", "2017-08-10T12:27", "2017-08-11T09:00"),
        ("0 9 * * *", "2017-08-11T09:01", "2017-08-12T09:00"),
        ("0 9 * * *", "2017-08-11T09:00", "2017-08-12T09:00"),
        ("0 9 * * *", "2017-08-11T08:59:59.999", "2017-08-11T09:00"),
        ("0 0 1 * *", "2021-08-31T17:00", "2021-09-01T00:00"),
        ("0 0 31 * *", "2021-08-31T00:00", "2021-10-31T00:00"),
        ("59 23 31 12 *", "2021-12-31T23:59", "2022-12-31T23:59"),
        ("* * * * *", "2021-08-11T23:59:30", "2021-08-12T00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00", "2104-02-29T00:00"),
        ("0 0 29 2 */1", "2044-03-01T00:00", "2048-02-29T00:00"),
        ("0 0 29 2 */6", "2044-03-01T00:00", "2045-02-04T00:00"),
    ],
)
def test_the_next_time(text: str, after: str, following: str) -> None:
    assert read_schedule(text).next(at(after)) == at(following)


@pytest.mark.parametrize(
    ("zone", "text", "after", "expected"),
    [
        (
            BERLIN,
            "30 2 * * *",
            "2021-03-26T12:00",
            ["2021-03-27T02:30:00+01:00", "2021-03-29T02:30:00+02:00"],
        ),
        (
            BERLIN,
            "30 2 * * *",
            "2021-10-30T12:00",
            ["2021-10-31T02:30:00+02:00", "2021-10-31T02:30:00+01:00", "2021-11-01T02:30:00+01:00"],
        ),
        (
            BERLIN,
            "0 */3 * * *",
            "2021-03-28T00:00",
            ["2021-03-28T03:00:00+02:00", "2021-03-28T06:00:00+02:00"],
        ),
        (
            ST_JOHNS,  # at 00:01 the clock goes back to 23:01 of the day before
            "0 0,23 * * *",
            "2010-11-06T22:30",
            ["2010-11-06T23:00:00-02:30", "2010-11-07T00:00:00-02:30", "2010-11-07T00:00:00-03:30"],
        ),
        (
            ST_JOHNS,
            "0,59 0,23 * * *",
            "2010-11-06T23:30",
            [
                "2010-11-06T23:59:00-02:30",
                "2010-11-07T00:00:00-02:30",
                "2010-11-06T23:59:00-03:30",
                "2010-11-07T00:00:00-03:30",
                "2010-11-07T00:59:00-03:30",
            ],
        ),
        (
            LORD_HOWE,  # at 02:00 the clock goes back to 01:30
            "45 1 * * *",
            "2021-04-04T00:00",
            ["2021-04-04T01:45:00+11:00", "2021-04-04T01:45:00+10:30", "2021-04-05T01:45:00+10:30"],
        ),
        (
            ZoneInfo("America/Sao_Paulo"),  # that day began at 01:00
            "0 0 * * *",
            "2018-11-03T00:00",
            ["2018-11-05T00:00:00-02:00"],
        ),
        (
            ZoneInfo("Pacific/Apia"),  # the 30th did not happen
            "0 12 * * *",
            "2011-12-29T11:00",
            ["2011-12-29T12:00:00-10:00", "2011-12-31T12:00:00+14:00"],
        ),
    ],
    ids=["skipped", "repeated", "gap", "past midnight", "in order", "half an hour", "no midnight", "no day"],
)
def test_clocks_that_are_moved(zone: tzinfo, text: str, after: str, expected: list[str]) -> None:
    assert fired(text, after, len(expected), zone) == expected


def test_the_search_ends_with_the_calendar() -> None:
    cron = parse("0 0 1 1 *")

    assert cron.next(at("9998-06-01")) is None
    assert cron.next(at("9999-12-31T23:59"), LORD_HOWE) is None
    assert cron.next(at("9997-06-01")) == at("9998-01-01")


# --- Against a search minute by minute ------------------------------------------------------------------


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> str:
    """A field, dense enough for something to fire within days."""
    number = st.integers(low, high)
    element = st.one_of(
        st.sampled_from(["*", "?", "*/2", "*/3"]),
        number.map(str),
        st.builds(
            lambda pair, step: f"{min(pair)}-{max(pair)}/{step}", st.tuples(number, number), st.integers(1, 9)
        ),
        st.builds(lambda first, step: f"{first}/{step}", number, st.integers(1, 30)),
    )
    return ",".join(draw(st.lists(element, min_size=1, max_size=3)))


expressions = st.tuples(fields(0, 59), fields(0, 23), fields(1, 31), st.just("*"), fields(0, 6)).map(" ".join)
moved = st.sampled_from(
    [
        (UTC, at("2021-08-11T00:00")),
        (BERLIN, at("2021-03-27T20:00")),
        (BERLIN, at("2021-10-30T20:00")),
        (ST_JOHNS, at("2010-11-07T00:00")),
        (LORD_HOWE, at("2021-04-03T10:00")),
        (LORD_HOWE, at("2021-10-02T10:00")),
    ]
)


@pytest.mark.found("U6", "O36")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CRON_TZ=Europe/Berlin 0 3 * * *", "2024-07-01T01:00:00+00:00"),
        ("TZ=Europe/Berlin 0 3 * * *", "2024-07-01T01:00:00+00:00"),
        ("CRON_TZ=Asia/Tokyo   @daily", "2024-06-30T15:00:00+00:00"),
        ("CRON_TZ= 0 3 * * *", "2024-07-01T03:00:00+00:00"),
        ("CRON_TZ=Europe/Berlin @every 2h", "2024-06-30T14:00:00+00:00"),
    ],
)
def test_an_expression_with_a_time_zone_does_not_follow_the_clock_of_the_server(
    text: str, expected: str
) -> None:
    """As schedules of Velero 1.18 are: a server that refuses them makes no backups any more."""
    for zone in (UTC, ST_JOHNS):
        following = read_schedule(text).next(at("2024-06-30T12:00:00"), zone)
        assert following is not None
        assert following.isoformat() == expected


@pytest.mark.parametrize("prefix", ["TZ=Local", "CRON_TZ=Local"])
def test_the_zone_local_is_that_of_the_server(prefix: str) -> None:
    following = read_schedule(f"{prefix} 0 3 * * *").next(at("2024-06-30T12:00:00"), ST_JOHNS)

    assert following == read_schedule("0 3 * * *").next(at("2024-06-30T12:00:00"), ST_JOHNS)


@pytest.mark.found("L1")
@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0 3 */2 * 1", ["12-03", "12-05", "12-07", "12-09", "12-11"]),
        ("0 2 1 * */2", ["12-03", "12-05", "12-06", "12-08", "12-10"]),
        ("0 3 */10 * 1-5", ["12-02", "12-03", "12-04", "12-07"]),
    ],
)
def test_a_step_in_a_day_field_makes_it_one_of_two_ways_to_match(text: str, days: list[str]) -> None:
    """The days that robfig/cron 3.0.1 gives from 1 December 2026, 12:00."""
    assert [time[5:10] for time in fired(text, "2026-12-01T12:00", len(days))] == days


def matches(cron: Calendar, moment: datetime, zone: tzinfo) -> bool:
    wall = moment.astimezone(zone)
    by_date, by_weekday = wall.day in cron.days, wall.isoweekday() % 7 in cron.weekdays
    return (
        wall.minute in cron.minutes
        and wall.hour in cron.hours
        and wall.month in cron.months
        and ((by_date or by_weekday) if cron.either_day else (by_date and by_weekday))
    )


@given(expressions, moved, st.integers(0, 6 * 3600 * 10))
def test_next_is_the_first_minute_that_matches(
    text: str, where: tuple[tzinfo, datetime], tenths: int
) -> None:
    zone, start = where
    after = start + timedelta(seconds=tenths / 10)
    cron = calendar(text)

    following = cron.next(after, zone)

    # No further than half a day: the dates in question are those at which clocks are moved.
    last = min(following or after + HALF_A_DAY, after + HALF_A_DAY)
    minute = after.replace(second=0, microsecond=0) + MINUTE
    while minute < last:
        assert not matches(cron, minute, zone)
        minute += MINUTE
    if following is not None:
        assert following > after
        assert (following.second, following.microsecond) == (0, 0)
        assert matches(cron, following, zone)


@given(st.text(alphabet="0159*?/-,@ \tjanMONevry.hms+_", max_size=24))
def test_no_text_does_anything_but_parse_or_be_refused(text: str) -> None:
    try:
        cron: Cron = read_schedule(text)
    except CronError:
        return
    following = cron.next(at("2021-08-11T21:43:26"))
    assert following is not None
    assert following > at("2021-08-11T21:43:26")
