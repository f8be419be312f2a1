"""Whose turn it is: no two restores write to one namespace at a time, unless a user asks for that.

    begin ──nobody in the way──> runs ──leave──> its namespaces are free
      └─────somebody is────────> waits, holding no worker, until it is woken to begin again

The order is that of the Restores' creation. Who waits stands in the way of everybody younger who needs one of
its namespaces, so that nobody is overtaken for ever. All of this is in memory: what waits is still New in the
cluster and gets its place again from the next server, and what ran there has been settled before.
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


class Turns(Protocol[RunT_contra]):
    """Decides whether a valid object may begin now."""

    def begin(self, key: Key, run: RunT_contra) -> bool:
        """Whether it may begin. If not, its key is queued again as soon as that may have changed."""
        ...

    def leave(self, key: Key) -> None:
        """It has ended, or will not begin. Whoever was never heard of may leave."""
        ...


class NoTurns(Generic[RunT_contra]):
    """Everybody may begin at once."""

    def begin(self, key: Key, run: RunT_contra) -> bool:
        return True

    def leave(self, key: Key) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Targets:
    """The namespaces that a restore may write to; `names` is None for any."""

    names: frozenset[str] | None

    def meet(self, other: "Targets") -> bool:
        """Whether both may write to the same namespace."""
        if self.names is None or other.names is None:
            return True
        return not self.names.isdisjoint(other.names)

    def __str__(self) -> str:
        return "any" if self.names is None else ",".join(sorted(self.names))


def targets_of(spec: RestoreSpec) -> Targets:
    """What the spec alone says: a pattern may be any namespace, for only the archive knows which there are.

    Cluster-scoped objects count for nothing: they are created if they are missing, and never changed.
    """
    included = spec.included_namespaces
    if not included or any(name == EVERYTHING or is_glob(name) for name in included):
        return Targets(None)
    chosen = IncludesExcludes(included, spec.excluded_namespaces)
    mapping = spec.namespace_mapping
    return Targets(frozenset(mapping.get(name, name) for name in included if chosen.matches(name)))


@dataclass(slots=True, kw_only=True)
class _Place:
    key: Key
    targets: Targets
    order: tuple[datetime, int]
    runs: bool = False
    waits_for: Key | None = None


class NamespaceTurns:
    """The restores that run and those that wait.

    Args:
        wake: lets a key be looked at again.
    """

    def __init__(self, wake: Callable[[Key], None]) -> None:
        self._wake = wake
        self._places: dict[Key, _Place] = {}
        self._arrivals = itertools.count()

    def begin(self, key: Key, run: Restore) -> bool:
        """Take the namespaces of a restore, or a place in the line. Asked again, it decides anew.

        The log says once what somebody waits for.
        """
        former = self._places.get(key)
        arrival = former.order[1] if former else next(self._arrivals)
        order = (run.metadata.creation_timestamp or _LONG_AGO, arrival)
        place = self._places[key] = _Place(key=key, targets=targets_of(run.spec), order=order)
        blocker = self._blocker(place)
        if blocker is None:
            place.runs = True
        else:
            place.waits_for = blocker.key
            if former is None or former.waits_for != blocker.key:
                log.info(
                    "Restore waits until another has ended that may write to the same namespaces",
                    waits_for=str(blocker.key),
                    namespaces=str(place.targets),
                )
        if former is not None:
            self._wake_unblocked()  # it may have needed other namespaces before
        return place.runs

    def leave(self, key: Key) -> None:
        """Give up namespaces or place, and wake whoever may begin now. Idempotent."""
        if self._places.pop(key, None) is not None:
            self._wake_unblocked()

    def _blocker(self, place: _Place) -> _Place | None:
        """Who must leave first: somebody that runs, else the eldest that waits."""
        in_the_way = [
            other
            for other in self._places.values()
            if other.key != place.key
            and (other.runs or other.order < place.order)
            and other.targets.meet(place.targets)
        ]
        return min(in_the_way, key=lambda other: (not other.runs, other.order), default=None)

    def _wake_unblocked(self) -> None:
        for place in list(self._places.values()):
            if not place.runs and self._blocker(place) is None:
                self._wake(place.key)
