"""What one sink was told, and what it is to be told now. Pure. (ADR 129)

Messages follow from what is wrong now and what the sink knows, not from a queue of events: a sink that was
away hears the present state once, and a server that starts again says nothing twice.

Guarantees:
    A problem is told once, again when another run has it after `REPEAT_SECONDS`, and its end once.
    Two messages about one object and cause are `GROUP_SECONDS` apart: what changes meanwhile is one message.
    What cannot end, and was there before the sink, is never told.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from pinnace.messages.problem import Notification, Problem, RunStage, Signal, of_problem, of_stage

GROUP_SECONDS: Final = 300.0
REPEAT_SECONDS: Final = 4 * 3600.0
"""As Alertmanager's `repeat_interval`."""
LEDGERS: Final = "pinnace-messages"
"""The prefix of the ConfigMaps with the ledgers, one for each namespace with sinks; the doctor reads them."""
MOST_OPEN: Final = 300
"""How many problems a sink is told of; the ledger of a sink is stored in a ConfigMap."""


class Entry(Struct, kw_only=True):
    """One problem that a sink was told of.

    Attributes:
        at: when the last message about it was sent, Unix time.
        is_over: whether the sink was told of its end.
    """

    problem: Problem
    at: float
    is_over: bool = False


class Ledger(Struct, kw_only=True):
    """What a sink knows.

    Attributes:
        since: when the sink was first there, Unix time.
        told: by the key of the problem.
        stages: the last stage of the newest run, by the Schedule.
        failing_since: when the sink refused the first of the messages that it still has not taken, Unix time;
            0 if it takes them.
        failure: why it refused the last one.
    """

    since: float
    told: dict[str, Entry] = field(default_factory=dict)
    stages: dict[str, str] = field(default_factory=dict)
    failing_since: float = 0.0
    failure: str = ""

    def due(self, problems: Mapping[str, Problem], cluster: str, now: float) -> list[Notification]:
        """The messages to send now about problems, the oldest first."""
        found = [
            of_problem(problem, Signal.PROBLEM, cluster, now)
            for key, problem in problems.items()
            if self._is_new(key, problem, now)
        ]
        found += [
            of_problem(entry.problem, Signal.RECOVERY, cluster, now)
            for key, entry in self.told.items()
            if key not in problems
            and not entry.is_over
            and entry.problem.passes
            and self._may_speak(key, now)
        ]
        return sorted(found, key=lambda message: (message.since, message.id))

    def due_stages(self, stages: Sequence[RunStage], cluster: str, now: float) -> list[Notification]:
        """The messages to send now about single runs."""
        return [
            of_stage(each, cluster, now)
            for each in stages
            if each.since >= self.since and self.stages.get(str(each.topic)) != each.stage
        ]

    def keep(self, problems: Mapping[str, Problem], stages: Sequence[RunStage], now: float) -> bool:
        """Forget what no message can be about any more. Returns whether anything was forgotten."""
        gone = [
            key
            for key, entry in self.told.items()
            if key not in problems
            and (not entry.problem.passes or (entry.is_over and now - entry.at >= GROUP_SECONDS))
        ]
        for key in gone:
            del self.told[key]
        names = {str(each.topic) for each in stages}
        lost = [name for name in self.stages if name not in names]
        for name in lost:
            del self.stages[name]
        return bool(gone or lost)

    def note(self, message: Notification, problems: Mapping[str, Problem], now: float) -> None:
        """Note that a message was sent, or given up."""
        if message.cause is None:
            if message.signal is not Signal.TEST:
                self.stages[str(message.topic)] = f"{message.occasion} {message.signal}"
            return
        key = f"{message.topic}: {message.cause}"
        known = problems.get(key) or (self.told[key].problem if key in self.told else None)
        if known is not None:
            kept = Problem(
                topic=known.topic,
                cause=known.cause,
                occasion=message.occasion,
                since=message.since,
                passes=known.passes,
            )
            self.told[key] = Entry(problem=kept, at=now, is_over=message.signal is Signal.RECOVERY)

    def note_failure(self, reason: str, now: float) -> bool:
        """Note that the sink refused a message, or by an empty reason that it took one.

        Returns whether that is news.
        """
        if reason == self.failure:
            return False
        self.failing_since = (self.failing_since or now) if reason else 0.0
        self.failure = reason
        return True

    def _is_new(self, key: str, problem: Problem, now: float) -> bool:
        entry = self.told.get(key)
        if entry is None:
            is_old = not problem.passes and problem.since < self.since
            return not is_old and len(self.told) < MOST_OPEN
        if entry.is_over:
            return self._may_speak(key, now)
        is_repeated = entry.problem.occasion != problem.occasion
        return is_repeated and not 0 <= now - entry.at < REPEAT_SECONDS

    def _may_speak(self, key: str, now: float) -> bool:
        # A time ahead of our clock is that of a clock that was wrong: it must not silence anybody.
        return not 0 <= now - self.told[key].at < GROUP_SECONDS
