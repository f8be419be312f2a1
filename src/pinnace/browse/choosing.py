"""Selects items of a backup by the filters of commands or as a user names them. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pinnace.api import kinds
from pinnace.api.chosen_objects import ObjectName, parse_object
from pinnace.api.selection.label_choice import LabelChoice
from pinnace.api.selection.names import IncludesExcludes, is_glob
from pinnace.archive.item_index import IndexedItem

_SHORT_NAMES: Final = {short: kind.plural for kind in kinds.KINDS for short in kind.short_names}

_MAX_REMEMBERED: Final = 10_000
"""The number of types whose answer is cached; clusters have far fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A selection of items. There is no cluster to ask, so types are compared with those in the backup.

    Attributes:
        kind: `deployments.apps`, `deployments`, `Deployment`, or a short name of kubectl; "" for all.
        name: of one item; "" for all.
        namespaces, resources, labels: the filters of `restore create`.
        cluster_resources: False leaves cluster-scoped items out, None does where namespaces are chosen.
    """

    kind: str = ""
    name: str = ""
    namespaces: IncludesExcludes = field(default_factory=IncludesExcludes)
    resources: IncludesExcludes = field(default_factory=IncludesExcludes)
    labels: LabelChoice = field(default_factory=LabelChoice)
    cluster_resources: bool | None = None
    _types: dict[tuple[str, str, str], bool] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def admits(self, entry: IndexedItem) -> bool:
        """Whether an item is selected. Further copies of an object, in other versions, never are."""
        # Asked for each item of a backup: the answers for its types are remembered.
        if self.name and entry.name != self.name:
            return False
        named = entry.resource, entry.kind, entry.version_directory
        is_admitted = self._types.get(named)
        if is_admitted is None:
            if len(self._types) >= _MAX_REMEMBERED:
                self._types.clear()
            is_admitted = self._types[named] = entry.is_preferred and self._admits_type(entry)
        return is_admitted and self._admits_scope(entry) and self.labels.matches(entry.labels)

    def _admits_scope(self, entry: IndexedItem) -> bool:
        if entry.namespace:
            return self.namespaces.matches(entry.namespace)
        if self.cluster_resources is not None:
            return self.cluster_resources
        if entry.resource == kinds.NAMESPACES.plural:
            return self.namespaces.matches(entry.name)
        return self.namespaces.includes_everything

    def _admits_type(self, entry: IndexedItem) -> bool:
        if self.kind and not is_type(entry, self.kind):
            return False
        resources = self.resources
        if any(names_type(entry, pattern) for pattern in resources.excludes):
            return False
        includes = resources.includes
        return not includes or any(names_type(entry, pattern) for pattern in includes)


def names_type(entry: IndexedItem, pattern: str) -> bool:
    """Whether an entry of a filter, a word or a pattern, stands for the type of an item."""
    if is_glob(pattern):
        return IncludesExcludes([pattern]).matches(entry.resource)
    return pattern == "*" or is_type(entry, pattern)


def is_type(entry: IndexedItem, word: str) -> bool:
    """Whether a user's word names the type of an item."""
    word = word.lower()
    plural, _, group = entry.resource.partition(".")
    asked, _, asked_group = word.partition(".")
    if asked not in (plural, entry.kind.lower()) and _SHORT_NAMES.get(asked) != plural:
        return False
    return not asked_group or asked_group == group


def parse_target(words: Sequence[str]) -> ObjectName:
    """A type alone, its name being empty, or an object in any form that `parse_object` reads.

    Raises:
        ValueError: the words are neither.
    """
    if len(words) == 1 and words[0] and not set(words[0]) & set("/ "):
        return ObjectName(words[0], "", "")
    return parse_object(" ".join(words))
