"""The outcome of every object of one restore, and the two files made of them. (docs/spec: BEY 3.5)

`resource_list` is Velero's file: each object with one of four actions. `details` is Pinnace's own: the
objects that were not simply created, grouped by outcome and reason, so that a reason that 700 objects share
is kept once.
"""

from collections import Counter
from collections.abc import Mapping

from pinnace.api.objects import JSONObject
from pinnace.api.restore_outcomes import ACTIONS, Outcome
from pinnace.api.volume_info import RestoredVolumeInfo
from pinnace.restore.selection.reading import ItemKey
from pinnace.restore.volumes.patches import WantedPatch

_Entry = tuple[Outcome, str]
_LATER_WINS = frozenset({Outcome.SKIPPED, Outcome.REFUSED})


class ItemOutcomes:
    """Collects the outcomes; the reason of most objects is empty, and equal entries are shared."""

    def __init__(self) -> None:
        self._of_kinds: dict[str, dict[tuple[str, str], _Entry]] = {}
        self._shared: dict[_Entry, _Entry] = {}
        self.volumes: list[RestoredVolumeInfo] = []
        """The volumes that were filled. (docs/spec: BEY 3.7)"""
        self.unpatched: list[WantedPatch] = []
        """The claims that were not bound at the end, and the settings that their volumes are to get."""

    def record(self, kind: str, key: ItemKey, outcome: Outcome, reason: str = "") -> None:
        """Record the outcome of an object.

        The first outcome stays, except that an object left out as an additional item may be restored later.

        Args:
            kind: `v1/Secret` or `apps/v1/Deployment`.
        """
        of_kind = self._of_kinds.setdefault(kind, {})
        place = (key.namespace, key.name)
        known = of_kind.get(place)
        if known is None or known[0] in _LATER_WINS:
            entry = (outcome, reason)
            of_kind[place] = self._shared.setdefault(entry, entry)

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many objects have each outcome."""
        return Counter(outcome for of_kind in self._of_kinds.values() for outcome, _ in of_kind.values())

    def resource_list(self) -> dict[str, list[str]]:
        """Velero's list: `{"apps/v1/Deployment": ["ns1/web(created)"]}`, sorted."""
        return {
            kind: sorted(f"{_title(place)}({ACTIONS[outcome]})" for place, (outcome, _) in of_kind.items())
            for kind, of_kind in sorted(self._of_kinds.items())
        }

    def details(self, *, with_reasons: bool = True, with_created: bool = False) -> JSONObject:
        """Counts of all outcomes, and the objects with the reasons.

        Args:
            with_created: name the objects that were simply created, too.
        """
        groups: dict[_Entry, dict[str, list[str]]] = {}
        for kind, of_kind in sorted(self._of_kinds.items()):
            for place, (outcome, reason) in of_kind.items():
                entry = (outcome, reason if with_reasons else "")
                if with_created or entry != (Outcome.CREATED, ""):
                    groups.setdefault(entry, {}).setdefault(kind, []).append(_title(place))
        return {
            "counts": {str(outcome): number for outcome, number in sorted(self.counts.items())},
            "groups": [
                {
                    "outcome": str(outcome),
                    "reason": reason,
                    "objects": {kind: sorted(names) for kind, names in objects.items()},
                }
                for (outcome, reason), objects in sorted(groups.items())
            ],
        }


def _title(place: tuple[str, str]) -> str:
    namespace, name = place
    return f"{namespace}/{name}" if namespace else name
