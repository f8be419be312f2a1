"""How Backups count for the rules: every doubt keeps a backup, and lets it push no other one out."""

from datetime import UTC, datetime
from typing import Any

import pytest

from pinnace.api import labels
from pinnace.api.retention.candidates import Standing, Surroundings, candidate

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)
OURS = {labels.SOURCE_CLUSTER_UID: "ours"}


def backup(phase: str = "Completed", **more: Any) -> dict[str, Any]:
    metadata = {"name": "b", "creationTimestamp": "2026-11-28T03:00:00Z", **more.pop("metadata", {})}
    status = {
        "phase": phase,
        "startTimestamp": "2026-11-28T03:00:01Z",
        "completionTimestamp": "2026-11-28T03:05:00Z",
        **more.pop("status", {}),
    }
    return {"kind": "Backup", "metadata": metadata, "status": status, **more}


FOUND = backup(metadata={"annotations": OURS, "creationTimestamp": "2026-11-28T05:00:00Z"})


def around(**more: Any) -> Surroundings:
    return Surroundings(**{"now": NOW, "cluster": "ours", "since": NOW, **more})


@pytest.mark.parametrize(
    ("obj", "standing"),
    [
        (backup(), Standing.GOOD),
        (backup(metadata={"annotations": OURS}), Standing.GOOD),
        (backup("PartiallyFailed"), Standing.PARTIAL),
        (backup("Failed"), Standing.FAILED),
        (backup("Deleting"), Standing.LEFT_OVER),
        (backup("FailedValidation", status={"startTimestamp": None}), Standing.FAILED),
        (
            backup(metadata={"annotations": {labels.VERIFIED: "2026-11-28T05:00:00Z unsound"}}),
            Standing.PARTIAL,
        ),
        (backup(metadata={"annotations": {labels.VERIFIED: "2026-11-28T05:00:00Z sound"}}), Standing.GOOD),
        # Found in the location, as its server was installed again: its annotation says that it is ours.
        (
            backup(metadata={"annotations": OURS, "creationTimestamp": "2026-11-28T05:00:00Z"}),
            Standing.GOOD,
        ),
    ],
)
def test_a_backup_counts_by_its_phase(obj: dict[str, Any], standing: Standing) -> None:
    found = candidate(obj, around())
    assert (found.standing, found.apart, found.protected) == (standing, "", "")


@pytest.mark.parametrize(
    ("obj", "surroundings", "reason"),
    [
        (backup("InProgress"), {}, "has not ended"),
        (backup("WaitingForPluginOperations"), {}, "has not ended"),
        (backup("FinalizingPartiallyFailed"), {}, "has not ended"),
        (backup(""), {}, "has not ended"),
        (backup("Deleting"), {"deleting": {"b"}}, "deletion is requested"),
        (backup("Archived"), {}, "phase Archived is not known"),
        (backup(metadata={"deletionTimestamp": "2026-11-28T05:00:00Z"}), {}, "being deleted"),
        (backup(), {"deleting": {"b"}}, "deletion is requested"),
        (backup(status={"startTimestamp": None}), {}, "start is not known"),
        (backup(status={"startTimestamp": "2027-11-28T03:00:01Z"}), {}, "in the future"),
        (backup(status={"startTimestamp": "2025-11-28T03:00:01Z"}), {}, "before its creation"),
        (backup(), {"now": NOW.replace(year=2025)}, "in the future"),
        (backup(metadata={"annotations": {labels.SOURCE_CLUSTER_UID: "theirs"}}), {}, "another cluster made"),
        (backup(metadata={"annotations": OURS}), {"cluster": ""}, "another cluster made"),
        (backup(metadata={"creationTimestamp": "2026-11-28T05:00:00Z"}), {}, "may be of another cluster"),
        (backup(spec={"ttl": "often"}), {}, "cannot be read"),
        (FOUND, {"since": NOW.replace(hour=2)}, "another server of this cluster"),
        (FOUND, {"since": None}, "another server of this cluster"),
    ],
)
def test_a_doubtful_one_stands_apart(obj: dict[str, Any], surroundings: dict[str, Any], reason: str) -> None:
    found = candidate(obj, around(**surroundings))
    assert found.standing == Standing.APART
    assert reason in found.apart


@pytest.mark.parametrize(
    ("notes", "surroundings", "protected"),
    [
        ({labels.HOLD: "legal"}, {}, "held: legal"),
        ({labels.HOLD: ""}, {}, "held"),
        ({}, {"held": {"b": "audit"}}, "held: audit"),
        ({}, {"restoring": {"b"}}, "a restore reads it"),
    ],
)
def test_a_held_one_counts_and_stays(
    notes: dict[str, str], surroundings: dict[str, Any], protected: str
) -> None:
    found = candidate(backup(metadata={"annotations": notes}), around(**surroundings))
    assert (found.standing, found.protected) == (Standing.GOOD, protected)
