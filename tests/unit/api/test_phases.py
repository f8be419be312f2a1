"""The sets of phases, cell by cell, and the decision how a run ended."""

import pytest

from pinnace.api import phases
from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.phases import BackupPhase, RestorePhase, TransferPhase, ended, is_foreign

RUN_SETS = (
    *("NOT_BEGUN", "COLLECTING", "WAITING", "FINALIZING", "UNFINISHED", "RUNNING"),
    *("FINISHED", "FINISHED_IN_PART", "ENDED", "FAILURES", "FINAL", "SERVED"),
    *("NOTHING_STORED", "WITH_LOG", "WITHOUT_CONTENTS", "NOTHING_TO_VERIFY"),
)

# A column for each set above, in that order: n c w f u r F p E x X S - l t v
RUNS = {
    "": "n c . . . r . . . . . . - . . .",
    "New": "n c . . . r . . . . . . - . t .",
    "Queued": "n c . . . r . . . . . . - . t .",
    "ReadyToStart": "n c . . . r . . . . . . - . t .",
    "FailedValidation": ". . . . . . . . . x X S - . t v",
    "InProgress": ". c . . . r . . . . . . . . t .",
    "WaitingForPluginOperations": ". . w . u r . . . . . . . l . .",
    "WaitingForPluginOperationsPartiallyFailed": ". . w . u r . . . . . . . l . .",
    "Finalizing": ". . . f u r . . . . . . . l . .",
    "FinalizingPartiallyFailed": ". . . f u r . . . . . . . l . .",
    "Completed": ". . . . . . F . E . X S . l . .",
    "PartiallyFailed": ". . . . . . F p E . X S . l . .",
    "Failed": ". . . . . . . . E x X S . l . v",
    "Deleting": ". . . . . . . . . . . S . . . v",
    "Uploading": ". . . . . . . . . . . . . . . .",  # declared by Velero 1.7 to 1.10, never written (BEY 2.2)
}

TRANSFER_SETS = ["NEW", "PREPARING", "BEGUN", "STORED", "NOT_DONE", "ENDED"]
TRANSFERS = {
    "": "n . . . . .",
    "New": "n . . . . .",
    "Accepted": ". p b . . .",
    "Prepared": ". p b . . .",
    "InProgress": ". . b . . .",
    "Canceling": ". . . . . .",
    "Canceled": ". . . . x e",
    "Completed": ". . . s . e",
    "Failed": ". . . s x e",
}


def test_the_tables_name_every_phase_and_every_set() -> None:
    assert RUNS.keys() == {*BackupPhase, "", "Uploading"}
    assert {*RestorePhase} < {*BackupPhase}
    assert {*TransferPhase, ""} == TRANSFERS.keys()
    named = {*RUN_SETS, *(f"TRANSFER_{name}" for name in TRANSFER_SETS)}
    assert {name for name, value in vars(phases).items() if isinstance(value, frozenset)} == named


@pytest.mark.parametrize("phase", RUNS)
def test_the_sets_of_a_phase_of_a_run(phase: str) -> None:
    cells = zip(RUN_SETS, RUNS[phase].split(), strict=True)
    assert {name: phase in getattr(phases, name) for name in RUN_SETS} == {
        name: cell != "." for name, cell in cells
    }


@pytest.mark.parametrize("phase", TRANSFERS)
def test_the_sets_of_a_phase_of_a_transfer(phase: str) -> None:
    cells = zip(TRANSFER_SETS, TRANSFERS[phase].split(), strict=True)
    assert {name: phase in getattr(phases, f"TRANSFER_{name}") for name in TRANSFER_SETS} == {
        name: cell != "." for name, cell in cells
    }


@pytest.mark.parametrize(
    ("operations", "finalizing", "whole"),
    [
        (0, False, "Completed"),
        (0, True, "Finalizing"),
        (1, False, "WaitingForPluginOperations"),
        (3, True, "WaitingForPluginOperations"),
    ],
)
@pytest.mark.parametrize("errors", [0, 1, 7])
def test_a_run_ends_by_its_errors_and_by_what_is_left(
    errors: int, operations: int, finalizing: bool, whole: str
) -> None:
    partly = {"Completed": "PartiallyFailed"}.get(whole, f"{whole}PartiallyFailed")

    assert ended(errors, operations=operations, finalizing=finalizing) == (partly if errors else whole)


def test_a_run_that_nobody_finishes_is_only_partially_done() -> None:
    assert ended(1) == phases.CUT_SHORT
    assert phases.CUT_SHORT in phases.FINISHED


@pytest.mark.parametrize("is_ours", [False, True])
@pytest.mark.parametrize("phase", RUNS)
def test_only_an_unfinished_run_without_our_operations_is_foreign(phase: str, is_ours: bool) -> None:
    notes = {ITEM_OPERATIONS: "sha256:0"} if is_ours else {}
    obj = {"metadata": {"annotations": notes}, "status": {"phase": phase}}

    assert is_foreign(obj) == (phase in phases.UNFINISHED and not is_ours)
