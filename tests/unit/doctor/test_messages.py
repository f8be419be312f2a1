"""What the doctor says of the settings of messages."""

import base64
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from pinnace.api.objects import JSONObject
from pinnace.doctor.findings import Level
from pinnace.doctor.messages import judge
from pinnace.messages.ledger import Ledger
from pinnace.notices.codes import Code

NOW = datetime(2026, 11, 28, 12, tzinfo=UTC)

GOOD = "sinks: [{name: a, ping: {url: 'http://a/'}}]"


def secret(document: str | None) -> JSONObject:
    data = {} if document is None else {"messages.yaml": base64.b64encode(document.encode()).decode()}
    return {"metadata": {"name": "m"}, "data": data}


@pytest.mark.parametrize(
    ("documents", "levels"),
    [
        ([], []),
        ([GOOD], [Level.OK]),
        ([GOOD, "sinks: [{name: a, ping: {url: s3cr3t}}]"], [Level.PROBLEM]),
        ([None], [Level.PROBLEM]),
        (["sinks: []"], []),
    ],
)
def test_secrets_that_cannot_be_read_are_problems(documents: list[str | None], levels: list[Level]) -> None:
    findings = judge([secret(each) for each in documents], {}, [])
    assert [finding.level for finding in findings] == levels
    assert {finding.code for finding in findings if finding.level is Level.PROBLEM} <= {Code.MESSAGES_INVALID}
    assert not any("s3cr3t" in finding.text for finding in findings)


@pytest.mark.parametrize(
    ("named", "missing"),
    [("", []), ("a", []), ("none", []), ("a, oops", ["oops"]), ("x,y", ["x", "y"]), ("A", ["A"])],
)
def test_a_schedule_that_names_a_sink_which_no_secret_has_is_named(named: str, missing: list[str]) -> None:
    schedule = {"metadata": {"name": "nightly", "annotations": {"pinnace.io/messages": named}}}
    findings = judge([secret(GOOD)], {}, [schedule])
    assert [(each.level, each.code) for each in findings if each.level is not Level.OK] == [
        (Level.WARNING, Code.MESSAGES_SINK_MISSING) for _ in missing
    ]
    for name, finding in zip(missing, findings, strict=False):
        assert f"schedule nightly names the sink {name!r}" in finding.text


def test_a_sink_of_a_secret_that_cannot_be_read_is_not_called_missing() -> None:
    schedule = {"metadata": {"name": "nightly", "annotations": {"pinnace.io/messages": "b"}}}
    findings = judge([secret(GOOD), secret("sinks: 7")], {}, [schedule])
    assert [each.code for each in findings] == [Code.MESSAGES_INVALID]


def test_a_sink_whose_service_takes_nothing_is_a_warning_with_the_reason() -> None:
    ledger = Ledger(since=0.0)
    ledger.note_failure("no answer within 10 seconds", (NOW - timedelta(minutes=20)).timestamp())
    ledger.note_failure("it answered with status 403", (NOW - timedelta(minutes=1)).timestamp())
    [finding] = judge([secret(GOOD)], {"a": msgspec.json.encode(ledger).decode()}, [])
    assert (finding.level, finding.code) == (Level.WARNING, Code.MESSAGES_NOT_TAKEN)
    assert (
        finding.text == "sink a has taken no message since 2026-11-28 11:40 UTC: it answered with status 403"
    )
    assert "Secret m" in finding.remedy


@pytest.mark.parametrize("noted", ["", "{", "[]", '{"since":0,"failure":"x","failing_since":1e300}'])
def test_a_ledger_that_nobody_can_read_says_nothing_of_its_sink(noted: str) -> None:
    assert [each.level for each in judge([secret(GOOD)], {"a": noted}, [])] == [Level.OK]
