"""Problems that people are told of, and the messages about them. Pure."""

import hashlib
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from pinnace.messages.redaction import redact_text

LONGEST_TEXT: Final = 1000
NOT_KNOWN: Final = 0.0
"""In place of the time since there is a problem, where its object does not say: from the first look on."""


class Cause(StrEnum):
    """What is wrong."""

    FAILURE = "failure"
    PARTIAL_FAILURE = "partial-failure"
    MISSED_RUN = "missed-run"
    LOCATION_UNAVAILABLE = "location-unavailable"
    VERIFICATION_FAILED = "verification-failed"
    DELETION_HELD = "deletion-held"


class Signal(StrEnum):
    """What a message says; the first three are about single runs, and only `ping` sends them."""

    START = "start"
    OK = "ok"
    FAIL = "fail"
    PROBLEM = "problem"
    RECOVERY = "recovery"
    TEST = "test"


class Topic(Struct, frozen=True, kw_only=True):
    """The object that a message is about.

    Attributes:
        schedule: the name of the Schedule that routes the message; empty for none.
    """

    kind: str
    namespace: str
    name: str
    schedule: str = ""

    def __post_init__(self) -> None:
        for field in ("namespace", "name", "schedule"):
            force_setattr(self, field, one_line(getattr(self, field)))

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


class Problem(Struct, frozen=True, kw_only=True):
    """Something that is wrong with an object, for as long as it is.

    Attributes:
        occasion: what made it so, such as the name of a backup; another one is told again after a while.
        since: Unix time.
        passes: whether it can end; if not, nobody is told of its end, or of one that was there before.
    """

    topic: Topic
    cause: Cause
    occasion: str = ""
    since: float
    text: str = ""
    passes: bool = True

    def __post_init__(self) -> None:
        force_setattr(self, "occasion", one_line(self.occasion))
        force_setattr(self, "text", clean(self.text))

    @property
    def key(self) -> str:
        """Object and cause: what messages are grouped by."""
        return f"{self.topic}: {self.cause}"


class RunStage(Struct, frozen=True, kw_only=True):
    """How far the newest run of a Schedule is; `signal` is START, OK or FAIL."""

    topic: Topic
    run: str
    signal: Signal
    since: float

    @property
    def stage(self) -> str:
        """What a ledger keeps."""
        return f"{self.run} {self.signal}"


class Notification(Struct, frozen=True, kw_only=True):
    """What is said to one sink.

    Attributes:
        id: the same for each attempt, so that a receiver can drop a second one.
        at: Unix time of what it tells.
        cluster: the name of the cluster.
    """

    id: str
    signal: Signal
    topic: Topic
    at: float
    since: float
    cluster: str
    cause: Cause | None = None
    occasion: str = ""
    text: str = ""
    passes: bool = True

    def __post_init__(self) -> None:
        force_setattr(self, "cluster", one_line(self.cluster))

    @property
    def title(self) -> str:
        """One line."""
        match self.signal:
            case Signal.PROBLEM:
                said = f"{self.cause} of {self.topic}"
            case Signal.RECOVERY:
                said = f"recovered: {self.cause} of {self.topic}"
            case Signal.TEST:
                said = "a test message"
            case _:
                said = f"{self.signal}: {self.topic}"
        return f"[{self.cluster}] {said}"

    @property
    def body(self) -> str:
        """The lines below the title."""
        lines = [f"Cluster: {self.cluster}", f"Object: {self.topic}"]
        if self.cause is not None:
            lines.append(f"Cause: {self.cause}")
        if self.occasion:
            lines.append(f"Run: {self.occasion}")
        lines.append(f"Since: {rfc3339(self.since)}")
        if self.text:
            lines += ["", self.text]
        return "\n".join(lines)


def rfc3339(unix_seconds: float) -> str:
    """A time as CloudEvents and Alertmanager read it."""
    return datetime.fromtimestamp(unix_seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def one_line(text: str) -> str:
    """One line without control characters, of limited length.

    Names and reasons come from objects that tenants and stores can write: a line break would end a header.
    """
    shown = text[: 4 * LONGEST_TEXT]
    return " ".join("".join(each if each.isprintable() else " " for each in shown).split())[:LONGEST_TEXT]


def clean(text: str) -> str:
    """One line, without the secrets that can be recognised in it."""
    return redact_text(one_line(text))[:LONGEST_TEXT]


def of_problem(problem: Problem, signal: Signal, cluster: str, at: float) -> Notification:
    """The message that a problem is there, or has ended."""
    return Notification(
        id=_id(cluster, problem.key, problem.occasion, f"{problem.since:.0f}", signal),
        signal=signal,
        topic=problem.topic,
        at=at,
        since=problem.since,
        cluster=cluster,
        cause=problem.cause,
        occasion=problem.occasion,
        text=problem.text,
        passes=problem.passes,
    )


def of_stage(stage: RunStage, cluster: str, at: float) -> Notification:
    """The message that a run has begun or ended."""
    return Notification(
        id=_id(cluster, str(stage.topic), stage.stage),
        signal=stage.signal,
        topic=stage.topic,
        at=at,
        since=stage.since,
        cluster=cluster,
        occasion=stage.run,
    )


def trial(cluster: str, at: float) -> Notification:
    """The message of `notify test`."""
    topic = Topic(kind="Test", namespace="", name="test")
    text = "This is a test. Real messages are about backups, restores, schedules and locations."
    return Notification(
        id=_id(cluster, "test", f"{at:.6f}"),
        signal=Signal.TEST,
        topic=topic,
        at=at,
        since=at,
        cluster=cluster,
        text=text,
        passes=False,
    )


def _id(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
