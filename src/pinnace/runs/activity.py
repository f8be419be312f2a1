"""The current activity of a run, for display."""

from collections.abc import Iterable
from pathlib import Path

import msgspec


class Reading(msgspec.Struct):
    """How far the objects of one resource are.

    Attributes:
        done: objects that were processed.
        total: objects that are known to be there.
        is_final: whether that number is final.
        lists, lists_done: how many lists are read, one for each namespace, and how many were.
    """

    done: int = 0
    total: int = 0
    is_final: bool = False
    lists: int = 1
    lists_done: int = 0


class Activity(msgspec.Struct):
    """The current activity of a run, for display: written by the run, read by what shows it.

    Attributes:
        kinds: the resources whose objects are being processed.
        unknown: the resources that may have more objects than is known: while there are any, a total is a
            lower bound. Without them it is an estimate until `collected` is set.
        done, total: how many items were processed, and how many are known. They change with each item; a
            `ProgressSink` is told once a second.
        collected: how many items there are, once all were processed.
        hooks: the hooks that run now, each as `namespace/pod hook`.
        upload_bytes, sent_bytes: the size of the files that are being uploaded, 0 before that, and how much
            of it was read by the store so far.
        waiting: what else the run waits for, such as `volumes of shop/db`.
        downloading: the target file of a download of a tarball.
    """

    kinds: dict[str, Reading] = msgspec.field(default_factory=dict)
    unknown: set[str] = msgspec.field(default_factory=set)
    done: int = 0
    total: int = 0
    collected: int | None = None
    hooks: list[str] = msgspec.field(default_factory=list)
    waiting: list[str] = msgspec.field(default_factory=list)
    upload_bytes: int = 0
    sent_bytes: int = 0
    downloading: Path | None = None

    def plan(self, resources: Iterable[str]) -> None:
        """Record the resources that are going to be processed."""
        self.unknown = set(resources)

    def counted(self, resource: str) -> None:
        """Record that the number of a resource's objects is known before they are listed."""
        self.unknown.discard(resource)

    def begin(self, resource: str, total: int | None = None) -> None:
        """Record that the objects of a resource are processed next; `total` is None if it is not known."""
        reading = Reading(total=total or 0, is_final=total is not None)
        self.kinds[resource] = reading
        if reading.is_final:
            self.unknown.discard(resource)

    def listing(self, resource: str, done: int, lists: int) -> None:
        """Record that the next of several lists of a resource is read."""
        if (reading := self.kinds.get(resource)) is not None:
            reading.lists_done, reading.lists = done, lists

    def page(self, resource: str, items: int, remaining: int | None, *, is_only_list: bool) -> None:
        """Record a page of a resource; `remaining` objects follow it, None if that is not known."""
        reading = self.kinds.setdefault(resource, Reading())
        known = reading.done + items + (remaining or 0)
        if is_only_list and remaining is not None:
            reading.total, reading.is_final = known, True
            self.unknown.discard(resource)
        else:
            reading.total = max(reading.total, known)

    def processed(self, resource: str, items: int = 1) -> None:
        """Record that objects of a resource were processed."""
        if (reading := self.kinds.get(resource)) is not None:
            reading.done += items
            reading.total = max(reading.total, reading.done)

    def end(self, resource: str) -> None:
        """Record that all objects of a resource were processed."""
        self.kinds.pop(resource, None)
        self.unknown.discard(resource)

    def wait_for(self, what: str) -> None:
        """Record that the run waits for something, until `waited_for`; once, however often it is said."""
        if what not in self.waiting:
            self.waiting.append(what)

    def waited_for(self, what: str) -> None:
        """Record that the run does not wait for that any more, if it did."""
        if what in self.waiting:
            self.waiting.remove(what)

    def sent(self, size_bytes: int) -> None:
        """Record that the store has read more bytes of the files that are uploaded, or is sent them again."""
        self.sent_bytes = min(self.sent_bytes + size_bytes, self.upload_bytes)
