"""Names that are similar to a misspelt one, for messages. Pure.

Both the misspelt name and those it is compared with may be of a tenant's making, and a comparison takes up to
a millisecond: what a list of names costs is limited, whatever is in it.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Final

_MOST_SUGGESTIONS: Final = 3
_LEAST_LIKENESS: Final = 0.65
"""The ratio of difflib: 0.9 for `deploymnets` and `deployments`, 0.67 for `pdo` and `pod`."""
MOST_ADVISED: Final = 5
"""The names of a list that get suggestions; a list of more misspelt names is wrong in another way."""
_MOST_COMPARED: Final = 5000
_LONGEST: Final = 100
"""Characters of a name that is compared: longer ones are no typing errors."""
_MOST_WORK: Final = 200_000
"""Pairs of characters that one name may cost: a tenth of a second at worst."""


def near_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are similar to a misspelt name, the most similar first."""
    from difflib import SequenceMatcher

    wanted = name.lower()
    if not wanted or len(wanted) > _LONGEST:
        return []
    matcher = SequenceMatcher(b=wanted)
    work, found = _MOST_WORK, list[tuple[float, str, str]]()
    for candidate in islice(candidates, _MOST_COMPARED):
        lower = candidate.lower()
        if len(lower) > _LONGEST:
            continue
        matcher.set_seq1(lower)
        if matcher.real_quick_ratio() < _LEAST_LIKENESS or matcher.quick_ratio() < _LEAST_LIKENESS:
            continue
        work -= len(lower) * len(wanted)
        if work < 0:
            break
        if (likeness := matcher.ratio()) >= _LEAST_LIKENESS:
            found.append((likeness, lower, candidate))
    by_lower = {lower: candidate for _, lower, candidate in sorted(found, reverse=True)}
    return list(by_lower.values())[:_MOST_SUGGESTIONS]


class Advice:
    """Suggestions for the first misspelt names of a list, and nothing for those behind.

    Args:
        candidates: the names that may have been meant.
    """

    def __init__(self, candidates: Iterable[str]) -> None:
        self._candidates = tuple(islice(candidates, _MOST_COMPARED))
        self._left = MOST_ADVISED

    def near(self, name: str) -> list[str]:
        """Return the candidates that are similar to a misspelt name, the most similar first."""
        if self._left == 0:
            return []
        self._left -= 1
        return near_names(name, self._candidates)


def did_you_mean(near: Iterable[str]) -> str:
    """Return `; did you mean a or b?`, or nothing without a near match."""
    names = list(near)
    return f"; did you mean {' or '.join(names)}?" if names else ""
