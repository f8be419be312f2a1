"""Which objects the labelSelector or the orLabelSelectors of a spec select. Pure. (docs/spec: BEY 4.5)"""

from collections.abc import Mapping, Sequence
from typing import Final, Self

from pinnace.api.meta import LabelSelector
from pinnace.api.selection.selectors import Selector, parse_label_selector

_SEPARATOR: Final = " or "


class LabelChoice:
    """Label selectors of which an object has to match at least one. Immutable; empty, it selects everything.

    Args:
        selectors: in the order of the spec.
    """

    __slots__ = ("queries", "selectors")

    def __init__(self, selectors: Sequence[Selector] = ()) -> None:
        selects_all = not selectors or any(selector.empty for selector in selectors)
        self.selectors: tuple[Selector, ...] = () if selects_all else tuple(dict.fromkeys(selectors))
        self.queries: tuple[str, ...] = tuple(map(str, self.selectors)) or ("",)
        """The selectors of the list calls that together return every selected object, some of them twice."""

    @classmethod
    def of(cls, selector: LabelSelector | None, alternatives: Sequence[LabelSelector] = ()) -> Self:
        """Read the labelSelector and the orLabelSelectors of a spec, only one of which may be set.

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
        return not self.selectors or any(selector.matches(labels) for selector in self.selectors)

    def __str__(self) -> str:
        """As `--or-selector` takes it; empty if everything is selected."""
        return _SEPARATOR.join(map(str, self.selectors))


def parse_or_selectors(text: str) -> list[LabelSelector]:
    """Read the value of `--or-selector`: label selectors with ` or ` between them.

    Raises:
        ValueError: with the text that the command line shows.
    """
    return [parse_label_selector(part) for part in text.split(_SEPARATOR)]


def label_choice_errors(
    selector: LabelSelector | None, alternatives: Sequence[LabelSelector], kind: str
) -> list[str]:
    """What is wrong with the label selectors of a spec; `kind` is `backup` or `restore`."""
    if selector is not None and alternatives:
        return [
            f"encountered labelSelector as well as orLabelSelectors in {kind} spec, only one can be specified"
        ]
    try:
        LabelChoice.of(None, alternatives)
    except ValueError as error:
        return [f"invalid label selector in orLabelSelectors: {error}"]
    return []
