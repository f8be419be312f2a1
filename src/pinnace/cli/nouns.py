"""The words for each kind: those of commands, of the API, and the short names that kubectl knows. Pure.

One table serves command names (`bsl get`, `get backups.velero.io`), names as `-o name` prints them
(`backup.velero.io/nightly`), and messages.
"""

from collections.abc import Sequence
from typing import Final

from pinnace.api import GROUP, TENANT_GROUP, TENANT_VERSION, VERSION, kinds


def _words(kind: kinds.Kind) -> tuple[str, ...]:
    """The other words for the noun: its plural, the short names, singular and plural of the API."""
    plural = () if " " in kind.noun else (f"{kind.noun}s",)
    words = dict.fromkeys((*plural, *kind.short_names, kind.singular, kind.plural))
    return tuple(word for word in words if word != kind.noun)


NOUNS: Final[dict[str, tuple[str, ...]]] = {
    **{kind.noun: _words(kind) for kind in kinds.KINDS if kind.noun},
    "plugin": ("plugins",),
}
"""By the words of the noun's commands."""
_BY_WORD: Final = {word: noun for noun, words in NOUNS.items() for word in (noun, *words)}
_GROUPS: Final = frozenset(
    {"", GROUP, f"{VERSION}.{GROUP}", TENANT_GROUP, f"{TENANT_VERSION}.{TENANT_GROUP}"}
)


def noun_of(word: str) -> str | None:
    """The noun that a word stands for, as `bsl` and `backupstoragelocations.velero.io`; None for others."""
    resource, _, group = word.lower().partition(".")
    return _BY_WORD.get(resource) if group in _GROUPS else None


def bare_name(word: str, noun: str) -> str:
    """The name in TYPE/NAME, or the word itself if it has no type.

    Raises:
        ValueError: the type is another one than that of the command.
    """
    resource, slash, name = word.partition("/")
    found = noun_of(resource) if slash and name and "/" not in name else None
    if found is None or noun not in NOUNS:
        return word
    if found != noun:
        raise ValueError(f"{word} is a {found}, not a {noun}")
    return name


def noun_first(words: Sequence[str]) -> str:
    """A command's words, noun first: `backup get` for `get backups` too."""
    if len(words) == 2 and words[0] in ("create", "get", "describe", "delete"):
        return f"{words[1].removesuffix('s')} {words[0]}"
    return " ".join(words)
