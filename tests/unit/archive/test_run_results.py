"""The warnings and errors of a log, as a file of a backup. (docs/spec: BEY 3.4)"""

import pytest

from pinnace.archive.run_results import MOST_MESSAGES, RunResults
from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice


def a_log() -> RunLog:
    return RunLog(None, fields={"backup": "velero/b1"})


@pytest.mark.spec("BEY-010")
def test_lines_are_sorted_by_severity_and_namespace() -> None:
    log = a_log()
    log.child(namespace="ns1", resource="pods").warning(Notice(Code.DEFECT, "it is odd"), name="p")
    log.error(Notice(Code.DEFECT, "it broke"), error=ValueError("why"))
    log.error(Notice(Code.DEFECT, "and again"), error="because", namespace="ns1")
    log.log("warning", "of a plugin")
    log.info("all is well")

    results = log.results()
    assert [
        (each["severity"], each["code"], each.get("facts")) for each in results["pinnace"]["notices"]
    ] == [
        ("error", "defect", None),
        ("error", "defect", None),
        ("warning", "defect", {"resource": "pods", "name": "p"}),
        ("warning", "action-message", None),
    ]
    del results["pinnace"]
    assert results == {
        "errors": {
            "velero": [" message: /it broke error: /why"],
            "namespaces": {"ns1": [" message: /and again error: /because"]},
        },
        "warnings": {
            "velero": [" message: /of a plugin"],
            "namespaces": {"ns1": [" resource: /pods name: /p message: /it is odd"]},
        },
    }
    assert (log.warnings, log.errors) == (2, 2)


def test_a_log_without_problems_has_two_empty_parts() -> None:
    assert a_log().results() == {"errors": {}, "warnings": {}}


def test_hidden_text_is_removed_from_the_results() -> None:
    log = a_log()
    log.hide_in_file(lambda text: text.replace("secret", "***"))
    log.warning(Notice(Code.DEFECT, "secret"), namespace="secret-ns")
    assert log.results()["warnings"] == {"namespaces": {"***-ns": [" message: /***"]}}


def test_the_number_of_messages_is_limited_and_the_rest_counted() -> None:
    results = RunResults()
    for number in range(MOST_MESSAGES + 3):
        results.add("errors", Notice(Code.DEFECT, f"m{number}"), None, {})
    messages = results.to_dict()["errors"]["velero"]
    assert len(messages) == MOST_MESSAGES + 1
    assert messages[-1] == " message: /3 more errors: see the log of the backup"
