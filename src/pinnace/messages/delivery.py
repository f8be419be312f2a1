"""Tells one sink what it is to be told, and tries again while that fails. (ADR 129)

    nothing due ──> look again
    due ──attempt of 10 s──> taken: noted in the ledger
             │ refused, no answer
             └──> again after a back-off; after an hour it is given up, counted and noted

Guarantees:
    An attempt takes `ATTEMPT_SECONDS` at most, and a sink has one at a time.
    A message that was taken is not sent again by this process; one that was taken while its process died may
    be, with the same id.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import random
from typing import Final

from msgspec import Struct

from pinnace.aio.clock import Clock
from pinnace.aio.retrying import RetryPolicy
from pinnace.messages.errors import SinkError
from pinnace.messages.ledger import Ledger
from pinnace.messages.problem import Notification, Problem, RunStage, Signal, of_problem
from pinnace.messages.sinks.interface import MessageSink

ATTEMPT_SECONDS: Final = 10.0
GIVEN_UP_SECONDS: Final = 3600.0
LOOK_SECONDS: Final = 30.0
"""Between two looks at what is wrong, while all is told."""
MOST_AN_HOUR: Final = 60
"""How many attempts that succeed a sink has an hour; what is over that waits, and is told as it is then."""
_POLICY: Final = RetryPolicy(base_seconds=5.0, cap_seconds=300.0, patience_seconds=GIVEN_UP_SECONDS)


class SinkFacts(Struct, frozen=True, kw_only=True):
    """What a sink can be told of now."""

    problems: Mapping[str, Problem]
    stages: Sequence[RunStage] = ()


class DeliveryOutcome(Struct, frozen=True, kw_only=True):
    """What one look has done.

    Attributes:
        again_seconds: when to look again.
        error: why the sink did not take its messages; empty if it did, or had none.
    """

    sent: int = 0
    lost: int = 0
    error: str = ""
    again_seconds: float = LOOK_SECONDS


class Delivery:
    """The messages of one sink.

    Args:
        ledger: what the sink knows; changed in place.
        save: stores the ledger, after each change.
        cluster: the name of the cluster in messages.
    """

    def __init__(
        self,
        sink: MessageSink,
        ledger: Ledger,
        save: Callable[[Ledger], Awaitable[None]],
        *,
        cluster: str,
        clock: Clock,
    ) -> None:
        self._sink = sink
        self._ledger = ledger
        self._save = save
        self._cluster = cluster
        self._clock = clock
        self._due_since: dict[str, float] = {}
        self._attempts = 0
        self._not_before = float("-inf")
        self._sent: deque[float] = deque()
        self._refreshed = float("-inf")

    async def look(self, facts: SinkFacts) -> DeliveryOutcome:
        """Make an attempt if something is due. Raises what `save` raises; no error of the sink."""
        now, moment = self._clock.now().timestamp(), self._clock.monotonic()
        due = self._due(facts, now)
        ids = {message.id for message in due}
        self._due_since = {name: since for name, since in self._due_since.items() if name in ids} | {
            name: moment for name in ids if name not in self._due_since
        }
        if self._ledger.keep(facts.problems, facts.stages, now) and not due:
            await self._save(self._ledger)
        is_refresh = self._is_refresh_due(moment)
        if not due:
            self._attempts = 0
        if moment < self._not_before:
            return DeliveryOutcome(again_seconds=self._not_before - moment)
        if (pause := self._pause(moment)) > 0:
            return DeliveryOutcome(again_seconds=min(pause, LOOK_SECONDS))
        batch = due[: self._sink.batch]
        if is_refresh:
            batch += self._refresh(facts, ids, now)
        if not batch:
            return DeliveryOutcome()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                await self._sink.send(batch)
        except SinkError as error:
            return await self._failed(due, facts, str(error))
        except TimeoutError:
            return await self._failed(due, facts, f"no answer within {ATTEMPT_SECONDS:g} seconds")
        self._attempts = 0
        self._refreshed = moment
        if due:
            self._sent.append(moment)
        told = [message for message in batch if message.id in ids]
        await self._note(told, facts, failure="")
        return DeliveryOutcome(sent=len(told), again_seconds=0.0 if len(due) > len(told) else LOOK_SECONDS)

    def _due(self, facts: SinkFacts, now: float) -> list[Notification]:
        if self._sink.takes_runs:
            return self._ledger.due_stages(facts.stages, self._cluster, now)
        return self._ledger.due(facts.problems, self._cluster, now)

    def _is_refresh_due(self, moment: float) -> bool:
        period = self._sink.refresh_seconds
        return period is not None and moment - self._refreshed >= period

    def _refresh(self, facts: SinkFacts, but: set[str], now: float) -> list[Notification]:
        """What goes on and was told already: a service that forgets it would take it for ended."""
        again = (
            of_problem(problem, Signal.PROBLEM, self._cluster, now)
            for key, problem in facts.problems.items()
            if key in self._ledger.told and not self._ledger.told[key].is_over and problem.passes
        )
        return [message for message in again if message.id not in but]

    def _pause(self, moment: float) -> float:
        """How long the sink must be left alone, as it had its share of this hour."""
        while self._sent and moment - self._sent[0] >= 3600:
            self._sent.popleft()
        if self._sink.takes_runs or self._sink.refresh_seconds is not None:
            return 0.0  # programs read what these sinks get, and each run counts
        if len(self._sent) < MOST_AN_HOUR:
            return 0.0
        return 3600 - (moment - self._sent[0])

    async def _failed(self, due: Sequence[Notification], facts: SinkFacts, error: str) -> DeliveryOutcome:
        self._attempts += 1
        moment = self._clock.monotonic()
        wait = _POLICY.backoff_seconds(self._attempts, jitter=random)
        self._not_before = moment + wait
        lost = [each for each in due if moment - self._due_since[each.id] >= GIVEN_UP_SECONDS]
        await self._note(lost, facts, failure=error)
        return DeliveryOutcome(lost=len(lost), error=error, again_seconds=wait)

    async def _note(self, messages: Sequence[Notification], facts: SinkFacts, *, failure: str) -> None:
        now = self._clock.now().timestamp()
        is_news = self._ledger.note_failure(failure, now)
        for message in messages:
            self._due_since.pop(message.id, None)
            self._ledger.note(message, facts.problems, now)
        if messages or is_news:
            await self._save(self._ledger)
