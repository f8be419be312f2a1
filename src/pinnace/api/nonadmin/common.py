"""What the self-service kinds share: phases, conditions, queue position, counters. (docs/spec: NAC 4, 5)"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct

from pinnace.api.fields import ENUM_KEY, REQUIRED, Int64, Time

Mirror = dict[str, Any]
"""A part of another object, copied as it is: fields of later versions included."""


class NonAdminPhase(StrEnum):
    """The phase of a request. Empty: no server has processed it yet. (docs/spec: NAC 5.1)"""

    NEW = "New"
    BACKING_OFF = "BackingOff"
    CREATED = "Created"
    DELETING = "Deleting"


Phase = Annotated[str, Meta(extra={ENUM_KEY: NonAdminPhase})]


class ConditionStatus(StrEnum):
    """Whether a condition holds."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Struct, rename="camel", kw_only=True):
    """One observation about an object, one entry for each type.

    Attributes:
        type: What the condition is about.
        status: Whether it holds.
        observed_generation: The generation of the spec that the condition is about.
        last_transition_time: When the status last changed.
        reason: A word for programs.
        message: A sentence for people.
    """

    type: Annotated[str, REQUIRED] = ""
    status: Annotated[str, REQUIRED, Meta(extra={ENUM_KEY: ConditionStatus})] = ""
    observed_generation: Int64 = 0
    last_transition_time: Annotated[Time, REQUIRED] = datetime.min.replace(tzinfo=UTC)
    reason: Annotated[str, REQUIRED] = ""
    message: Annotated[str, REQUIRED] = ""


class RequestStatus(Struct, rename="camel", kw_only=True):
    """The state of a request.

    Attributes:
        phase: The phase of the request; it does not say whether what was asked for succeeded.
        conditions: The decisions about the request, and their reasons.
    """

    phase: Phase = ""
    conditions: list[Condition] = []


class VeleroObject(Struct, rename="camel", kw_only=True):
    """An object in the server's namespace that was made for a request.

    Attributes:
        nacuuid: The unique id that ties both together.
        name: Name of the object.
        namespace: Namespace of the server.
        status: The object's status.
    """

    nacuuid: str = ""
    name: str = ""
    namespace: str = ""
    status: Mirror | None = None


class QueueInfo(Struct, rename="camel", kw_only=True):
    """The position of a backup or restore in the server's queue.

    Attributes:
        estimated_queue_position: 0 once it has ended, 1 while it runs or is next, otherwise 1 more than the
            number of requests ahead of it. An estimate that a restart of the server may change.
    """

    estimated_queue_position: Annotated[int, REQUIRED] = 0


class PodVolumeCounts(Struct, rename="camel", kw_only=True):
    """Numbers of pod volumes by phase.

    Attributes:
        total: All of them.
        new: Not begun.
        in_progress: Being copied.
        failed: Not copied.
        completed: Copied.
    """

    total: int = 0
    new: int = 0
    in_progress: int = 0
    failed: int = 0
    completed: int = 0


class DataMoverCounts(Struct, rename="camel", kw_only=True):
    """Numbers of volumes that a data mover moves, by phase.

    Attributes:
        total: All of them.
        new: Not begun.
        accepted: Taken by a node.
        prepared: Ready to be moved.
        in_progress: Being moved.
        canceling: About to be cancelled.
        canceled: Cancelled.
        failed: Not moved.
        completed: Moved.
    """

    total: int = 0
    new: int = 0
    accepted: int = 0
    prepared: int = 0
    in_progress: int = 0
    canceling: int = 0
    canceled: int = 0
    failed: int = 0
    completed: int = 0
