"""What the doctor says of the settings of messages."""

import base64

import pytest

from pinnace.api.objects import JSONObject
from pinnace.doctor.findings import Level
from pinnace.doctor.messages import judge
from pinnace.notices.codes import Code

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
    findings = judge([secret(each) for each in documents])
    assert [finding.level for finding in findings] == levels
    assert {finding.code for finding in findings if finding.level is Level.PROBLEM} <= {Code.MESSAGES_INVALID}
    assert not any("s3cr3t" in finding.text for finding in findings)
