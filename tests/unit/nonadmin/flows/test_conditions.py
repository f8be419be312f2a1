"""Phases and conditions. (docs/spec: NAC 4, 5)"""

from datetime import timedelta

import pytest

from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.nonadmin.flows.conditions import (
    ConditionState,
    with_condition,
    with_phase,
    with_renewed_condition,
)
from tests.support.clock import START

LATER = START + timedelta(minutes=1)


@pytest.mark.parametrize(
    ("former", "wanted", "phase"),
    [
        ("", "New", "New"),
        ("New", "BackingOff", "BackingOff"),
        ("BackingOff", "Created", "Created"),
        ("Created", "BackingOff", "BackingOff"),
        ("BackingOff", "New", "BackingOff"),
        ("Created", "New", "Created"),
        ("Created", "Deleting", "Deleting"),
        ("Deleting", "Created", "Deleting"),
        ("Deleting", "BackingOff", "Deleting"),
    ],
)
def test_phases_move_forward(former: str, wanted: str, phase: str) -> None:
    assert with_phase({"phase": former}, NonAdminPhase(wanted))["phase"] == phase


def seen(holds: bool, message: str = "m", kind: str = "Accepted") -> ConditionState:
    return ConditionState(type=kind, holds=holds, reason="R", message=message)


def test_the_transition_time_changes_only_with_the_status() -> None:
    status = with_condition(with_condition({}, seen(True), START), seen(True, kind="Queued"), START)
    again = with_condition(status, seen(True, "other"), LATER)
    assert [each["type"] for each in again["conditions"]] == ["Accepted", "Queued"]
    assert again["conditions"][0]["message"] == "other"
    assert again["conditions"][0]["lastTransitionTime"] == "2021-08-11T21:43:26Z"
    changed = with_condition(again, seen(False), LATER)
    assert changed["conditions"][0]["lastTransitionTime"] == "2021-08-11T21:44:26Z"
    renewed = with_renewed_condition(again, seen(True), LATER)
    assert [each["type"] for each in renewed["conditions"]] == ["Queued", "Accepted"]
    assert renewed["conditions"][1]["lastTransitionTime"] == "2021-08-11T21:44:26Z"


def test_long_texts_are_cut() -> None:
    status = with_condition({}, seen(False, "x" * 40_000), START)
    assert len(status["conditions"][0]["message"]) == 32768
