"""Which names an include list and an exclude list admit. (docs/spec: API 13.1-13.3, BKP 2.6, 4.1, 4.2)"""

from collections.abc import Callable, Iterable
from typing import Final, Self

from pinnace.api.selection.globs import Glob, GlobError, Text, is_glob

EVERYTHING: Final = "*"

_MAX_REMEMBERED: Final = 10_000  # answers kept for lists with globs; clusters have far fewer namespaces

MAX_PATTERN_CHARACTERS: Final = 16_384
"""Characters of all patterns of a pair of lists: each is compared with every kind, or every namespace."""

__all__ = ["EVERYTHING", "Glob", "GlobError", "IncludesExcludes", "KnownNames", "is_glob", "validate"]


class IncludesExcludes:
    """A pair of lists of names and globs.

    A name is admitted when no exclude matches it and the includes are empty, contain `*`, or have a match.
    A pattern that is not valid matches nothing and is named by `validate`; it never breaks the others.
    Immutable; answers for lists with globs are remembered, since engines ask for every item.
    """

    __slots__ = (
        "_answers",
        "_exclude_globs",
        "_exclude_names",
        "_include_all",
        "_include_globs",
        "_include_names",
        "excludes",
        "includes",
    )

    def __init__(self, includes: Iterable[str] = (), excludes: Iterable[str] = ()) -> None:
        self.includes: tuple[str, ...] = tuple(sorted(set(includes)))
        self.excludes: tuple[str, ...] = tuple(sorted(set(excludes)))
        self._include_all = not self.includes or EVERYTHING in self.includes
        self._include_names, self._include_globs = _compile(self.includes)
        self._exclude_names, self._exclude_globs = _compile(self.excludes)
        self._answers: dict[str, bool] = {}

    @classmethod
    def resolved(
        cls, includes: Iterable[str], excludes: Iterable[str], canonical: Callable[[str], str]
    ) -> Self:
        """The pair of lists of resources, each entry under its canonical name.

        `*` among the excludes is dropped, and so is an empty entry. (docs/spec: API 13.3, BKP 4.2)

        Args:
            includes: Resource names as a user wrote them.
            excludes: Resource names as a user wrote them.
            canonical: Returns `pods` for `po`, and unknown names unchanged.
        """
        return cls(
            includes=[name if name == EVERYTHING else canonical(name) for name in includes if name],
            excludes=[canonical(name) for name in excludes if name not in ("", EVERYTHING)],
        )

    def matches(self, name: str) -> bool:
        """Whether the lists admit `name`."""
        if name in self._exclude_names:
            return False
        if not self._exclude_globs:
            if self._include_all or name in self._include_names:
                return True
            if not self._include_globs:
                return False
        answer = self._answers.get(name)
        if answer is None:
            answer = self._matches_globs(name)
            if len(self._answers) >= _MAX_REMEMBERED:
                self._answers.clear()
            self._answers[name] = answer
        return answer

    def _matches_globs(self, name: str) -> bool:
        text = Text(name)
        if any(glob.matches(text) for glob in self._exclude_globs):
            return False
        if self._include_all or name in self._include_names:
            return True
        return any(glob.matches(text) for glob in self._include_globs)

    @property
    def includes_everything(self) -> bool:
        """Whether there are no excludes, and the includes are empty or exactly `*`."""
        return not self.excludes and self.includes in ((), (EVERYTHING,))

    @property
    def include_list(self) -> str:
        """The includes as users see them: `bar, foo`, or `*` when there are none."""
        return ", ".join(self.includes) or EVERYTHING

    @property
    def exclude_list(self) -> str:
        """The excludes as users see them: `bar, foo`, or `<none>`."""
        return ", ".join(self.excludes) or "<none>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IncludesExcludes):
            return NotImplemented
        return (self.includes, self.excludes) == (other.includes, other.excludes)

    def __hash__(self) -> int:
        return hash((self.includes, self.excludes))

    def __repr__(self) -> str:
        return f"IncludesExcludes(includes={self.includes!r}, excludes={self.excludes!r})"


class KnownNames:
    """Names that the names and patterns of a list may match."""

    __slots__ = ("_names", "_texts")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._texts: tuple[Text, ...] | None = None

    def has(self, wanted: str) -> bool:
        """Whether a name is known, or a pattern stands for a known one; an invalid one stands for none."""
        if not is_glob(wanted):
            return wanted in self._names
        try:
            glob = Glob(wanted)
        except GlobError:
            return False
        if self._texts is None:
            self._texts = tuple(map(Text, self._names))
        return any(map(glob.matches, self._texts))


def validate(includes: Iterable[str], excludes: Iterable[str]) -> list[str]:
    """Return what is wrong with a pair of lists, in the order and the words of the API; empty when valid.

    (docs/spec: API 13.2, BKP 2.6; patterns that are not valid: README, decided questions)
    """
    included, excluded = set(includes), set(excludes)
    errors: list[str] = []
    if EVERYTHING in included and len(included) > 1:
        errors.append("includes list must either contain '*' only, or a non-empty list of items")
    if EVERYTHING in excluded:
        errors.append("excludes list cannot contain '*'")
    errors.extend(
        f"excludes list cannot contain an item in the includes list: {name}"
        for name in sorted(included & excluded)
    )
    patterns = sorted(filter(is_glob, included | excluded))
    if (characters := sum(map(len, patterns))) > MAX_PATTERN_CHARACTERS:
        return [
            *errors,
            f"the patterns of the lists have {characters} characters together, at most"
            f" {MAX_PATTERN_CHARACTERS} are allowed: name what is meant in full",
        ]
    for pattern in patterns:
        try:
            Glob(pattern)
        except GlobError as error:
            errors.append(str(error))
    return errors


def _compile(patterns: Iterable[str]) -> tuple[frozenset[str], tuple[Glob, ...]]:
    names: set[str] = set()
    globs: list[Glob] = []
    for pattern in patterns:
        if not is_glob(pattern):
            names.add(pattern)
            continue
        try:
            globs.append(Glob(pattern))
        except GlobError:
            continue  # matches nothing (docs/spec: API 13.1); validate() reports it to the user
    return frozenset(names), tuple(globs)
