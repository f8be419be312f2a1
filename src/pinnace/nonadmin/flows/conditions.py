"""Phase and conditions of a request: the order of phases, and transition times. Pure. (docs/spec: NAC 5)"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.nonadmin.hiding import hidden
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.values.times import format_time

MAX_MESSAGE_CHARACTERS: Final = 32768
MAX_REASON_CHARACTERS: Final = 1024

RESUMED_CONDITION: Final = "Resumed"
"""A type of NonAdminRestores. It is there once the Restore was interrupted: False until it goes on, with the
reason."""

_ORDER: Final = {"": 0, NonAdminPhase.NEW: 1, NonAdminPhase.BACKING_OFF: 2, NonAdminPhase.CREATED: 2,
                 NonAdminPhase.DELETING: 3}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionState:
    """The new state of one type of condition.

    Attributes:
        generation: of the spec that was judged; 0 for a condition without it.
    """

    type: str
    holds: bool
    reason: str
    message: str
    generation: int = 0


def with_phase(status: JSONObject, phase: NonAdminPhase) -> JSONObject:
    """The status in a phase; unchanged if that would be a step back. (docs/spec: NAC 5.1)"""
    former = text(status, "phase")
    if _ORDER.get(former, 0) > _ORDER[phase]:
        return status
    return {**status, "phase": str(phase)}


def with_condition(status: JSONObject, observation: ConditionState, now: datetime) -> JSONObject:
    """The status with one condition added, or changed in place; the rest keeps its order."""
    entry = _entry(observation, now)
    conditions: list[Any] = []
    found = False
    for former in listed(status, "conditions"):
        if text(former, "type") != observation.type:
            conditions.append(former)
        elif not found:
            found = True
            if text(former, "status") == entry["status"]:
                entry["lastTransitionTime"] = (
                    text(former, "lastTransitionTime") or entry["lastTransitionTime"]
                )
            conditions.append(entry)
    if not found:
        conditions.append(entry)
    return {**status, "conditions": conditions}


def with_renewed_condition(status: JSONObject, observation: ConditionState, now: datetime) -> JSONObject:
    """The status with a condition removed and added again, so that its time is that of the last write."""
    return with_condition(without_condition(status, observation.type), observation, now)


def without_condition(status: JSONObject, kind: str) -> JSONObject:
    """The status without the condition of a type."""
    conditions = [entry for entry in listed(status, "conditions") if text(entry, "type") != kind]
    return {**status, "conditions": conditions}


def condition(status: JSONObject, kind: str) -> JSONObject:
    """The condition of a type; empty if there is none."""
    return next((mapping(entry) for entry in listed(status, "conditions") if text(entry, "type") == kind), {})


def holds(status: JSONObject, kind: str) -> bool:
    """Whether the condition of a type is there and True."""
    return text(condition(status, kind), "status") == "True"


def _entry(observation: ConditionState, now: datetime) -> JSONObject:
    entry: JSONObject = {
        "type": observation.type,
        "status": "True" if observation.holds else "False",
        "lastTransitionTime": format_time(now),
        "reason": observation.reason[:MAX_REASON_CHARACTERS],
        "message": observation.message[:MAX_MESSAGE_CHARACTERS],
    }
    if observation.generation:
        entry["observedGeneration"] = observation.generation
    return entry


def with_cause(status: JSONObject, before: JSONObject, cause: str) -> JSONObject:
    """The status with the cause, without names of namespaces, in its new conditions that are False."""
    known = listed(before, "conditions")
    told = []
    for each in listed(status, "conditions"):
        if each not in known and text(each, "status") == "False":
            message = f"{text(each, 'message')}: {hidden(cause, ())}"
            each = {**each, "message": message[:MAX_MESSAGE_CHARACTERS]}
        told.append(each)
    return {**status, "conditions": told}
