"""A queue of restores: no two write to one namespace at a time, unless a user asks for that.

    try_start ──its namespaces are free──> runs ──remove──> its namespaces are free again
        └──────another needs one of them─> waits, without a worker, until its key is queued again

Restores start in the order of their creation. One that waits blocks all younger ones that need one of its
namespaces, so that no restore is overtaken for ever. The queue is in memory only: a waiting Restore is still
New in the cluster and gets its position again from the next server, which first settles what was running.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

from pinnace.api.backup import Backup
from pinnace.api.restore import Restore, RestoreSpec
from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, is_glob
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

RunT_contra = TypeVar("RunT_contra", Backup, Restore, contravariant=True)


class RunQueue(Protocol[RunT_contra]):
    """Decides whether a valid Backup or Restore may start now."""

    def try_start(self, key: Key, run: RunT_contra) -> bool:
        """Whether it starts now. If not, its key is queued again as soon as that may have changed."""
        ...

    def remove(self, key: Key) -> None:
        """Remove a Backup or Restore from the queue. Removing an unknown key is not an error."""
        ...


class NoQueue(Generic[RunT_contra]):
    """Lets every Backup or Restore start at once."""

    def try_start(self, key: Key, run: RunT_contra) -> bool:
        return True

    def remove(self, key: Key) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Targets:
    """The namespaces that a restore may write to; `names` is None for any."""

    names: frozenset[str] | None

    def overlaps(self, other: "Targets") -> bool:
        """Whether both may write to the same namespace."""
        if self.names is None or other.names is None:
            return True
        return not self.names.isdisjoint(other.names)

    def __str__(self) -> str:
        return "any" if self.names is None else ",".join(sorted(self.names))


def targets_of(spec: RestoreSpec) -> Targets:
    """The namespaces by the spec alone. A pattern stands for any, as only the archive tells which there are.

    Cluster-scoped objects do not count: a restore creates those that are missing and changes none.
    """
    included = spec.included_namespaces
    if not included or any(name == EVERYTHING or is_glob(name) for name in included):
        return Targets(None)
    chosen = IncludesExcludes(included, spec.excluded_namespaces)
    mapping = spec.namespace_mapping
    return Targets(frozenset(mapping.get(name, name) for name in included if chosen.matches(name)))


@dataclass(slots=True, kw_only=True)
class _Entry:
    key: Key
    targets: Targets
    order: tuple[datetime, int]
    runs: bool = False
    waits_for: Key | None = None


class NamespaceQueue:
    """The restores that run and those that wait.

    Args:
        wake: queues the key of a restore that may start now.
    """

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self._entries: dict[Key, _Entry] = {}
        self._arrivals = itertools.count()

    def try_start(self, key: Key, run: Restore) -> bool:
        """Start a restore or let it wait; called again, it decides anew.

        The log says once which restore it waits for.
        """
        former = self._entries.get(key)
        arrival = former.order[1] if former else next(self._arrivals)
        order = (run.metadata.creation_timestamp or _LONG_AGO, arrival)
        entry = self._entries[key] = _Entry(key=key, targets=targets_of(run.spec), order=order)
        blocker = self._blocker(entry)
        if blocker is None:
            entry.runs = True
        else:
            entry.waits_for = blocker.key
            if former is None or former.waits_for != blocker.key:
                log.info(
                    "Restore waits until another has ended that may write to the same namespaces",
                    waits_for=str(blocker.key),
                    namespaces=str(entry.targets),
                )
        if former is not None:
            self._wake_unblocked()  # it may have needed other namespaces before
        return entry.runs

    def remove(self, key: Key) -> None:
        """Remove a restore, and wake those that may start now. Removing an unknown key is not an error."""
        if self._entries.pop(key, None) is not None:
            self._wake_unblocked()

    def _blocker(self, entry: _Entry) -> _Entry | None:
        """The restore to wait for: one that runs, else the oldest that waits; None if it may start."""
        blocking = [
            other
            for other in self._entries.values()
            if other.key != entry.key
            and (other.runs or other.order < entry.order)
            and other.targets.overlaps(entry.targets)
        ]
        return min(blocking, key=lambda other: (not other.runs, other.order), default=None)

    def _wake_unblocked(self) -> None:
        for entry in list(self._entries.values()):
            if not entry.runs and self._blocker(entry) is None:
                self._wake(entry.key)
