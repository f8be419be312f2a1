"""Which objects the labelSelector or the orLabelSelectors of a spec select. Pure. (docs/spec: BEY 4.5)"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, Self

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.selectors import Operator, Selector, parse_label_selector

_SEPARATOR: Final = " or "
_ASKS_FOR_VALUES: Final = (Operator.EQUALS, Operator.IN)

MOST_QUERIES: Final = 8
"""The most list calls of a kind in a namespace; more selectors than that are matched here, against one list.

Each call costs the API server a look at every object of the kind, whatever it selects.
"""
LONGEST_QUERY: Final = 4096
"""The longest selector in a list call, in characters: many proxies refuse longer request lines than 8 KiB."""


class LabelChoice:
    """Label selectors; it selects what matches at least one, or, without selectors, everything. Immutable.

    Args:
        selectors: in the order of the spec.
    """

    __slots__ = ("_by_pair", "_others", "chooses_locally", "queries", "selectors")

    def __init__(self, selectors: Sequence[Selector] = ()) -> None:
        selects_all = not selectors or any(selector.empty for selector in selectors)
        self.selectors: tuple[Selector, ...] = () if selects_all else tuple(dict.fromkeys(selectors))
        queries = tuple(map(str, self.selectors)) or ("",)
        self.chooses_locally = len(queries) > MOST_QUERIES or any(
            len(each) > LONGEST_QUERY for each in queries
        )
        """Whether list calls return more objects than the selected ones, so that `matches` decides."""
        self.queries: tuple[str, ...] = ("",) if self.chooses_locally else queries
        """The selectors of the list calls that together return every selected object, some of them twice."""
        self._by_pair, self._others = _indexed(self.selectors)

    @classmethod
    def of(cls, selector: LabelSelector | None, alternatives: Sequence[LabelSelector] = ()) -> Self:
        """Read the labelSelector or the orLabelSelectors of a spec; only one of the two may be set.

        Raises:
            ValueError: a selector that Kubernetes would refuse.
        """
        given = alternatives or ([selector] if selector is not None else [])
        return cls([Selector.from_label_selector(each) for each in given])

    @property
    def empty(self) -> bool:
        """Whether every object is selected."""
        return not self.selectors

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels (None: without any) is selected."""
        if not self.selectors:
            return True
        candidates = (self._by_pair.get(pair, ()) for pair in (labels or {}).items())
        return any(selector.matches(labels) for selector in chain(self._others, *candidates))

    def __str__(self) -> str:
        """As `--or-selector` takes it; empty if everything is selected."""
        return _SEPARATOR.join(map(str, self.selectors))


def _indexed(
    selectors: Iterable[Selector],
) -> tuple[Mapping[tuple[str, str], Sequence[Selector]], Sequence[Selector]]:
    """The selectors that ask for a label by the first such label, and those that ask for none.

    An object is compared with the selectors of its own labels only, however many there are.
    """
    by_pair: dict[tuple[str, str], list[Selector]] = {}
    others: list[Selector] = []
    for selector in selectors:
        asked = next((each for each in selector.requirements if each.operator in _ASKS_FOR_VALUES), None)
        if asked is None:
            others.append(selector)
            continue
        for value in asked.values:
            by_pair.setdefault((asked.key, value), []).append(selector)
    return by_pair, others


def parse_or_selectors(text: str) -> list[LabelSelector]:
    """Read the value of `--or-selector`: label selectors with ` or ` between them.

    Raises:
        ValueError: with the text that the command line shows.
    """
    return [parse_label_selector(part) for part in text.split(_SEPARATOR)]


def label_choice_errors(
    selector: LabelSelector | None, alternatives: Sequence[LabelSelector], kind: str
) -> list[str]:
    """The mistakes in the label selectors of a spec; `kind` is `backup` or `restore`."""
    if selector is not None and alternatives:
        return [
            f"encountered labelSelector as well as orLabelSelectors in {kind} spec, only one can be specified"
        ]
    try:
        LabelChoice.of(None, alternatives)
    except ValueError as error:
        return [f"invalid label selector in orLabelSelectors: {error}"]
    return []
