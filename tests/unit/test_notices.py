"""Codes, explanations, and the texts that carry them."""

import errno
import pickle
import re
from string import Formatter

import orjson
import pytest

from pinnace.api.nonadmin.hiding import HIDDEN, hiding_for, results_without
from pinnace.kube.errors import Conflict, ConnectionFailed, Forbidden, Invalid, KubeError, ServerFault
from pinnace.notices.codes import Code
from pinnace.notices.explanations import EXPLANATIONS, advice_for
from pinnace.notices.notice import Notice, notice_of
from pinnace.restore.errors import ItemError
from pinnace.restore.results import MOST_NOTICES, Results
from pinnace.storage.documents import MOST_RESULTS_BYTES, TreeDocument

FACTS = {
    "action",
    "container",
    "level",
    "namespace",
    "policy",
    "quota",
    "resource",
    "user",
    "verb",
    "webhook",
}
"""The facts that advice may use; each is set where the code is."""


@pytest.mark.parametrize("code", Code)
def test_each_code_is_a_readable_slug_with_an_explanation(code: Code) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", code)
    explanation = EXPLANATIONS[code]
    assert explanation.meaning[0].isupper()
    assert explanation.meaning.endswith(".")
    assert {name for _, name, _, _ in Formatter().parse(explanation.advice) if name} <= FACTS


def test_advice_needs_all_of_its_facts() -> None:
    assert advice_for(Code.QUOTA_EXCEEDED, {"quota": "few"}) == "Raise the quota few or free what it counts."
    assert advice_for(Code.QUOTA_EXCEEDED, {}) == ""
    assert advice_for(Code.OBJECT_CONFLICT, {}) == ""


@pytest.mark.parametrize(
    ("error", "code", "facts"),
    [
        (
            Forbidden(403, message='pods "a" is forbidden: exceeded quota: few, requested: pods=1'),
            Code.QUOTA_EXCEEDED,
            {"quota": "few"},
        ),
        (
            Forbidden(403, message='secrets is forbidden: User "ann" cannot list resource "secrets" in API'),
            Code.RIGHTS_MISSING,
            {"user": "ann", "verb": "list", "resource": "secrets"},
        ),
        (
            Invalid(
                422, message="x is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request"
            ),
            Code.POLICY_DENIED,
            {"policy": "p"},
        ),
        (
            ServerFault(500, message='failed calling webhook "w.io": no endpoints'),
            Code.WEBHOOK_UNREACHABLE,
            {"webhook": "w.io"},
        ),
        (Conflict(409, message="changed"), Code.OBJECT_CONFLICT, {}),
        (ConnectionFailed("no route"), Code.CLUSTER_UNREACHABLE, {}),
        (OSError(errno.ENOSPC, "no room"), Code.DISK_FULL, {}),
        (TimeoutError("late"), Code.ITEM_NOT_SAVED, {}),
        (ConnectionResetError(errno.ECONNRESET, "reset"), Code.ITEM_NOT_SAVED, {}),
        (ValueError("odd"), Code.ITEM_NOT_SAVED, {}),
        (ItemError(Notice(Code.MODIFIER_FAILED, "x", object="a")), Code.MODIFIER_FAILED, {"object": "a"}),
    ],
    ids=[
        "quota",
        "rights",
        "policy",
        "webhook",
        "conflict",
        "network",
        "disk",
        "time",
        "reset",
        "unknown",
        "reported",
    ],
)
def test_an_error_that_knows_its_cause_decides_the_code(
    error: Exception, code: Code, facts: dict[str, str]
) -> None:
    notice = notice_of(error, Code.ITEM_NOT_SAVED, "the text")
    assert (notice, notice.code, notice.facts) == ("the text", code, facts)


def test_a_notice_keeps_code_and_facts_when_it_is_pickled_and_when_its_text_changes() -> None:
    notice = Notice(Code.HOOK_FAILED, "a", object="pods/ns/p")
    for other in (pickle.loads(pickle.dumps(notice)), notice.saying("b")):
        assert (other.code, other.facts) == (Code.HOOK_FAILED, {"object": "pods/ns/p"})
    error = pickle.loads(pickle.dumps(ItemError(notice)))
    assert (str(error), error.notice.code) == ("a", Code.HOOK_FAILED)


def test_results_have_velero_s_texts_and_the_same_as_data() -> None:
    results = Results()
    results.errors.add("shop", Notice(Code.QUOTA_EXCEEDED, "refused", quota="few"))
    results.warnings.add_velero(Notice(Code.NOTHING_SELECTED, "nothing"))
    assert results.to_dict() == {
        "errors": {"namespaces": {"shop": ["refused"]}},
        "warnings": {"velero": ["nothing"]},
        "pinnace": {
            "notices": [
                {
                    "severity": "error",
                    "code": "quota-exceeded",
                    "message": "refused",
                    "namespace": "shop",
                    "facts": {"quota": "few"},
                },
                {"severity": "warning", "code": "nothing-selected", "message": "nothing"},
            ]
        },
    }


def test_a_hundred_thousand_warnings_leave_a_file_that_can_be_read() -> None:
    results = Results()
    for number in range(100_000):
        notice = Notice(Code.EXISTING_DIFFERS, f"configmaps/shop/c{number} differs", object=f"c{number}")
        results.warnings.add("shop", notice)
    document = TreeDocument(most_bytes=MOST_RESULTS_BYTES)
    document.feed(orjson.dumps(results.to_dict()))
    read = document.finish()
    assert len(read["pinnace"]["notices"]) == MOST_NOTICES
    assert len(read["warnings"]["namespaces"]["shop"]) == 100_000


def test_a_tenant_reads_no_other_namespace_in_the_notices() -> None:
    results = Results()
    results.errors.add("other", Notice(Code.ACTION_FAILED, "see namespaces/other", object="other/pod"))
    results.errors.add("shop", Notice(Code.ACTION_FAILED, "own"))
    shown = results_without(results.to_dict(), "shop", hiding_for("shop", "velero"))
    assert "other" not in str(shown)
    assert [each["namespace"] for each in shown["pinnace"]["notices"]] == [HIDDEN, "shop"]


def test_every_error_of_an_api_server_has_a_code() -> None:
    unknown = [KubeError]
    while unknown:
        kind = unknown.pop()
        unknown += kind.__subclasses__()
        assert isinstance(kind.notice_code, Code)
