"""The results of a restore: the part that each message belongs to, and the file."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace.archive.runlog import RunLog
from pinnace.notices.codes import Code
from pinnace.notices.notice import Notice
from pinnace.restore.results import ResultMessages, Results, log_results


def test_messages_go_to_their_part() -> None:
    result = ResultMessages()
    result.add("", Notice(Code.DEFECT, "of the cluster"))
    result.add("ns-1", Notice(Code.DEFECT, "of a namespace"))
    result.add_velero(Notice(Code.DEFECT, "one"), Notice(Code.DEFECT, "two"))

    assert result.to_dict() == {
        "velero": ["one", "two"],
        "cluster": ["of the cluster"],
        "namespaces": {"ns-1": ["of a namespace"]},
    }
    assert result.count == 4


def test_empty_parts_are_left_out() -> None:
    assert Results().to_dict() == {"errors": {}, "warnings": {}}


messages = st.lists(st.tuples(st.sampled_from(["velero", "", "a", "b"]), st.text(max_size=5)), max_size=8)


def filled(entries: list[tuple[str, str]]) -> ResultMessages:
    result = ResultMessages()
    for part, text in entries:
        if part == "velero":
            result.add_velero(Notice(Code.DEFECT, text))
        else:
            result.add(part, Notice(Code.DEFECT, text))
    return result


@given(messages, messages)
def test_merging_appends_the_messages_in_order(left: Any, right: Any) -> None:
    merged = filled(left)
    merged.merge(filled(right))

    assert merged == filled(left + right)
    assert merged.count == len(left) + len(right)
    assert len(list(merged.notices())) == merged.count


@pytest.mark.parametrize(("severity", "counted"), [("warnings", (1, 0)), ("errors", (0, 1))])
def test_every_message_is_logged(severity: str, counted: tuple[int, int]) -> None:
    results, log = Results(), RunLog(None, fields={})
    getattr(results, severity).add("ns-1", Notice(Code.DEFECT, "something"))

    log_results(log, results, resource="pods")

    assert (log.warnings, log.errors) == counted
