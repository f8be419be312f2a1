"""A worker slot that records when a run needs its worker."""

from collections.abc import Iterator
from contextlib import contextmanager

from pinnace.runtime.worker_slots import WorkerSlot


class RecordedSlot(WorkerSlot):
    """Records each call in `events`; a test can add to it what else happens."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def give_back(self) -> None:
        self.events.append("given back")

    async def take(self) -> None:
        self.events.append("taken")

    @contextmanager
    def lent(self) -> Iterator[None]:
        self.events.append("lent")
        yield
