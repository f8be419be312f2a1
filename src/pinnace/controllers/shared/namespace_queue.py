"""A queue of backups, or of restores: no two work on one namespace at a time.

    try_start ──its namespaces are free──> runs ──remove──> its namespaces are free again
        └──────another needs one of them─> waits, without a worker, until its key is queued again

The entries of one party (the administrator, each tenant) start in the order of their creation, and parties
take turns: each entry gets a round, and a party gets at most one in each. A party with thousands of entries
delays those of another party by one.

An entry that waits is overtaken by later ones of other namespaces as long as it could not start anyway:
while one that began before it came, or that is before it in the order, still runs or waits. From then on
it blocks all later ones that need one of its namespaces, and only those that have overtaken it run before
it. So a long run makes no other wait but those of its own namespaces, however many namespaces the one behind
it needs, and no entry is overtaken for ever.

The queue is in memory only: a waiting object gets its position again from the next server, which first
settles what was running. (docs/adr/042, 079)
"""

import itertools
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Generic, Protocol, TypeVar

from pinnace.api.selection.names import EVERYTHING, IncludesExcludes, is_glob
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore, RestoreSpec
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

_LONG_AGO = datetime.min.replace(tzinfo=UTC)

RunT_contra = TypeVar("RunT_contra", Backup, Restore, contravariant=True)


class RunQueue(Protocol[RunT_contra]):
    """Decides whether a valid Backup or Restore may start now."""

    def try_start(self, key: Key, run: RunT_contra, targets: "Targets") -> bool:
        """Whether the run starts now. If not, its key is queued again as soon as that may have changed."""
        ...

    def remove(self, key: Key) -> None:
        """Remove a Backup or Restore from the queue. Removing an unknown key is not an error."""
        ...


class NoQueue(Generic[RunT_contra]):
    """Lets every Backup or Restore start at once."""

    def try_start(self, key: Key, run: RunT_contra, targets: "Targets") -> bool:
        return True

    def remove(self, key: Key) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Targets:
    """The namespaces that a backup reads, or a restore may write to; `names` is None for any."""

    names: frozenset[str] | None

    def overlaps(self, other: "Targets") -> bool:
        """Whether both may work on the same namespace."""
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


NO_NAMESPACE: Final = Targets(frozenset())


def _one_party(_key: Key) -> Hashable:
    return ""


@dataclass(slots=True, kw_only=True)
class _Entry:
    key: Key
    targets: Targets
    party: Hashable
    created: tuple[datetime, int]
    round: int
    runs: bool = False
    started: int = 0
    waits_for: Key | None = None

    @property
    def order(self) -> tuple[int, datetime, int]:
        """Earlier entries start first."""
        return (self.round, *self.created)


class NamespaceQueue:
    """The backups or restores that run and those that wait.

    Args:
        wake: queues the key of an object that may start now.
        party_of: returns the party of an object; parties take turns.
    """

    def __init__(
        self, wake: Callable[[Key], None], *, party_of: Callable[[Key], Hashable] = _one_party
    ) -> None:
        self._wake = wake
        self._party_of = party_of
        self._entries: dict[Key, _Entry] = {}
        self._events = itertools.count()
        self._round = 0

    def try_start(self, key: Key, run: Backup | Restore, targets: Targets) -> bool:
        """Start a backup or restore or let it wait; each call decides again.

        The log says once which other it waits for.
        """
        former = self._entries.get(key)
        entry = self._enter(key, run, targets, former)
        blocker = self._blocker(entry)
        if blocker is None:
            entry.runs, entry.started = True, next(self._events)
            self._round = max(self._round, entry.round)
        else:
            entry.waits_for = blocker.key
            if former is None or former.waits_for != blocker.key:
                log.info(
                    f"{type(run).__name__} waits for another that may work on the same namespaces",
                    waits_for=str(blocker.key),
                    namespaces=str(entry.targets),
                )
        if former is not None:
            self._wake_unblocked()  # it may have needed other namespaces before
        return entry.runs

    def _enter(self, key: Key, run: Backup | Restore, targets: Targets, former: _Entry | None) -> _Entry:
        """The entry of an object as it is now, with the rounds of its party in the order of creation."""
        party = former.party if former else self._party_of(key)
        arrival = former.created[1] if former else next(self._events)
        entry = _Entry(
            key=key,
            targets=targets,
            party=party,
            created=(run.metadata.creation_timestamp or _LONG_AGO, arrival),
            round=former.round if former else 0,
        )
        self._entries[key] = entry
        waiting = [each for each in self._entries.values() if each.party == party and not each.runs]
        if former is None:
            entry.round = max([self._round, *(each.round for each in waiting)]) + 1
        rounds = sorted(each.round for each in waiting)
        for each, number in zip(sorted(waiting, key=lambda one: one.created), rounds, strict=True):
            each.round = number
        return entry

    def remove(self, key: Key) -> None:
        """Remove an entry, and wake those that may start now. Removing an unknown key is not an error."""
        if self._entries.pop(key, None) is not None:
            self._wake_unblocked()

    def waiting(self) -> list[tuple[Key, Key]]:
        """The keys that wait, the next to start first, each with the key that it waits for."""
        waiting = sorted(
            (entry for entry in self._entries.values() if not entry.runs), key=lambda entry: entry.order
        )
        blockers = ((entry, self._blocker(entry)) for entry in waiting)
        return [(entry.key, blocker.key) for entry, blocker in blockers if blocker is not None]

    def _blocker(self, entry: _Entry) -> _Entry | None:
        """The entry to wait for: one that runs, else the oldest whose turn it is; None if this may start."""
        blocking = [
            other
            for other in self._entries.values()
            if other.key != entry.key
            and (other.runs or other.order < entry.order)
            and other.targets.overlaps(entry.targets)
            and (other.runs or not self._is_held(other))
        ]
        return min(blocking, key=lambda other: (not other.runs, other.order), default=None)

    def _is_held(self, entry: _Entry) -> bool:
        """Whether an entry that waits could not start, even if none had overtaken it."""
        return any(
            other.targets.overlaps(entry.targets)
            for other in self._entries.values()
            if other.key != entry.key
            and (other.order < entry.order or (other.runs and other.started < entry.created[1]))
        )

    def _wake_unblocked(self) -> None:
        for entry in list(self._entries.values()):
            if not entry.runs and self._blocker(entry) is None:
                self._wake(entry.key)
