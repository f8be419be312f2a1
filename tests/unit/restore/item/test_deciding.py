"""The table at the head of `deciding`, cell by cell. (docs/spec: RST 17, BEY 5.1)"""

from itertools import combinations
from typing import Any

import pytest

from pinnace.api import kinds
from pinnace.api.restore_outcomes import Outcome
from pinnace.api.velero.restore import ExistingResourcePolicy
from pinnace.kube.errors import AlreadyExists, Forbidden, Invalid, KubeError
from pinnace.kube.resources import known
from pinnace.restore.item.deciding import (
    Decision,
    Existing,
    LostClaim,
    Step,
    decide,
    decide_after_refused_patch,
)

THERE = AlreadyExists(409, message="it is there")
IMMUTABLE = Invalid(422, reason="Invalid", message="field is immutable")
FORBIDDEN = Forbidden(403, message="you may not patch")
NONE, UPDATE, RECREATE = ExistingResourcePolicy

Cell = tuple[Step, Outcome, str]
"""The step, the outcome, and which message the results get."""

UNCHANGED: Cell = (Step.NOTHING, Outcome.UNCHANGED, "")
LABELLED: Cell = (Step.LABELS, Outcome.UNCHANGED, "")
LEFT: Cell = (Step.NOTHING, Outcome.DIFFERENT, "warning")
LEFT_LABELLED: Cell = (Step.LABELS, Outcome.DIFFERENT, "warning")
ENTRIES: Cell = (Step.ENTRIES, Outcome.UPDATED, "")
SOME_ENTRIES: Cell = (Step.ENTRIES, Outcome.UPDATED, "warning")
PATCHED: Cell = (Step.PATCH, Outcome.UPDATED, "")
REFUSED: Cell = (Step.NOTHING, Outcome.FAILED, "error")

ROWS: dict[str, tuple[dict[str, Any], tuple[Cell, Cell, Cell]]] = {
    # name: fields of the object, cells under none, update, recreate; a row comes before those below it
    "is being deleted": ({"is_terminating": True}, (REFUSED, REFUSED, REFUSED)),
    "lacks subjects": ({"missing_subjects": [{"name": "a"}]}, (ENTRIES, PATCHED, PATCHED)),
    "same": ({"is_same": True}, (UNCHANGED, LABELLED, LABELLED)),
    "account": ({}, (ENTRIES, ENTRIES, ENTRIES)),
    "live claim": ({"live_claim": "shop/other"}, (LEFT, LEFT_LABELLED, LEFT_LABELLED)),
    "lost claim": ({"lost_claim": LostClaim(title="shop/a", remedy="free it")}, (LEFT, PATCHED, PATCHED)),
    "differs": ({}, (LEFT, PATCHED, PATCHED)),
}
MORE: dict[str, tuple[dict[str, Any], tuple[Cell, Cell, Cell]]] = {
    "same, and the cluster writes it": (
        {"is_same": True, "is_cluster_managed": True},
        (UNCHANGED, UNCHANGED, UNCHANGED),
    ),
    "live claim, and the cluster writes it": (
        {"live_claim": "shop/other", "is_cluster_managed": True},
        (LEFT, LEFT, LEFT),
    ),
    "lacks subjects, and the cluster writes it": (
        {"missing_subjects": [{"name": "a"}], "is_cluster_managed": True},
        (ENTRIES, ENTRIES, ENTRIES),
    ),
    "lacks subjects, and differs otherwise": (
        {"missing_subjects": [{"name": "a"}], "differs_otherwise": True},
        (SOME_ENTRIES, PATCHED, PATCHED),
    ),
}


def decided(policy: ExistingResourcePolicy, *rows: str) -> Decision:
    fields: dict[str, Any] = {}
    for row in rows:
        fields |= (ROWS | MORE)[row][0]
    kind = kinds.SERVICE_ACCOUNTS if "account" in rows else kinds.CONFIGMAPS
    return decide(Existing(in_cluster={}, **fields), THERE, known(kind), policy)


def cell(decision: Decision) -> Cell:
    messages = [name for name in ("warning", "error") if getattr(decision, name)]
    assert len(messages) <= 1
    return decision.step, decision.outcome, "".join(messages)


@pytest.mark.spec("BEY-046")
@pytest.mark.parametrize("row", ROWS | MORE)
@pytest.mark.parametrize("policy", ExistingResourcePolicy)
def test_a_cell_of_the_table(policy: ExistingResourcePolicy, row: str) -> None:
    assert cell(decided(policy, row)) == (ROWS | MORE)[row][1][list(ExistingResourcePolicy).index(policy)]


@pytest.mark.parametrize(("upper", "lower"), list(combinations(ROWS, 2)))
@pytest.mark.parametrize("policy", ExistingResourcePolicy)
def test_the_upper_of_two_rows_decides(policy: ExistingResourcePolicy, upper: str, lower: str) -> None:
    # Under the other policies a patch brings the subjects, whatever else is so.
    decides = lower if upper == "lacks subjects" and policy is not NONE else upper

    assert cell(decided(policy, upper, lower)) == cell(decided(policy, decides))


def test_the_texts_name_the_claim_and_the_refusal() -> None:
    assert "is bound to the claim shop/other" in decided(UPDATE, "live claim").warning
    assert decided(NONE, "lost claim").warning.endswith(
        "its claim shop/a is gone, and no claim can be bound to it until it is freed: free it"
    )
    assert decided(UPDATE, "lost claim").reason == "its claim shop/a was gone, and it was freed"
    assert decided(UPDATE, "differs").reason == ""
    assert decided(NONE, "differs").warning == (
        "could not restore, it is there. Warning: the in-cluster version is different than the backed-up"
        " version."
    )
    both = decided(NONE, "lacks subjects, and differs otherwise")
    assert both.warning.endswith(f"version. Only {both.reason}")
    assert both.reason.endswith("it differs otherwise, and was left so")


DATA_BEHIND = {
    kinds.NAMESPACES: "everything in it",
    kinds.PERSISTENT_VOLUME_CLAIMS: "the data of its volume",
    kinds.PERSISTENT_VOLUMES: "the data on it",
    kinds.CUSTOM_RESOURCE_DEFINITIONS: "all objects of its kind",
    kinds.VOLUME_SNAPSHOTS: "the snapshot in the storage system",
    kinds.VOLUME_SNAPSHOT_CONTENTS: "the snapshot in the storage system",
}
AGAIN: Cell = (Step.RECREATION, Outcome.RECREATED, "")


@pytest.mark.parametrize("policy", [UPDATE, RECREATE])
@pytest.mark.parametrize("refusal", [None, FORBIDDEN, IMMUTABLE], ids=["too deep", "forbidden", "immutable"])
@pytest.mark.parametrize(
    "kind", [kinds.CONFIGMAPS, kinds.ROLE_BINDINGS, *DATA_BEHIND], ids=lambda kind: kind.kind
)
@pytest.mark.parametrize("originals", [(), ("shop", "sea")], ids=["", "with originals"])
def test_a_refused_patch_recreates_only_what_is_immutable_and_has_nothing_behind_it(
    policy: ExistingResourcePolicy, refusal: KubeError | None, kind: kinds.Kind, originals: tuple[str, ...]
) -> None:
    decision = decide_after_refused_patch(refusal, known(kind), policy, originals)

    asked = policy is RECREATE and refusal is IMMUTABLE
    behind = "the rights of the accounts in shop, sea" if originals else DATA_BEHIND.get(kind)
    assert cell(decision) == (AGAIN if asked and behind is None else LEFT_LABELLED)
    why = str(refusal) if refusal else "it is nested too deeply to be compared"
    assert why in decision.reason
    assert decision.reason.endswith(f"again, as that would delete {behind}") == bool(asked and behind)
