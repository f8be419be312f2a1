"""Names that are similar to a misspelt one, for messages. Pure."""

from collections.abc import Iterable

_MOST_SUGGESTIONS = 3
_LEAST_LIKENESS = 0.65
"""The ratio of difflib: 0.9 for `deploymnets` and `deployments`, 0.67 for `pdo` and `pod`."""


def near_names(name: str, candidates: Iterable[str]) -> list[str]:
    """Return the candidates that are similar to a misspelt name, the most similar first."""
    from difflib import get_close_matches

    by_lower = {candidate.lower(): candidate for candidate in candidates}
    close = get_close_matches(name.lower(), by_lower, n=_MOST_SUGGESTIONS, cutoff=_LEAST_LIKENESS)
    return [by_lower[found] for found in close]


def did_you_mean(near: Iterable[str]) -> str:
    """Return `; did you mean a or b?`, or nothing without a near match."""
    names = list(near)
    return f"; did you mean {' or '.join(names)}?" if names else ""
