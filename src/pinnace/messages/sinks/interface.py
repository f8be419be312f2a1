"""The protocol of sinks."""

from collections.abc import Sequence
from typing import Protocol

from pinnace.messages.problem import Notification


class MessageSink(Protocol):
    """A service that takes messages.

    Attributes:
        batch: how many messages one attempt may have.
        takes_runs: whether it is told of the stages of runs, in place of problems.
        refresh_seconds: how often problems that go on are said again; None for never.
    """

    @property
    def batch(self) -> int: ...

    @property
    def takes_runs(self) -> bool: ...

    @property
    def refresh_seconds(self) -> float | None: ...

    async def send(self, messages: Sequence[Notification]) -> None:
        """Make one attempt; the caller limits its time. Raises SinkError."""
        ...
