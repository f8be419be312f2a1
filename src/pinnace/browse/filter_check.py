"""Tells names in filters that no object of the backups has: a typo must not pass for "there is nothing"."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pinnace.api.kinds import NAMESPACES
from pinnace.api.selection.names import EVERYTHING, is_glob
from pinnace.api.values.near import did_you_mean, near_names
from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice, names_type
from pinnace.browse.stored import StoredBackup

_MOST_COMPARED: Final = 5000
"""Names that a misspelt one is compared with: a million would take a minute, without an interrupt."""


class FilterCheck:
    """Compares the names in a selection's include lists with the objects that it is shown.

    Attributes:
        is_needed: whether the selection leaves anything out.
        choice: the selection.
        selects_any: whether it selects one of the objects shown so far.
    """

    def __init__(self, choice: Choice) -> None:
        self.is_needed = choice != Choice()
        self.selects_any = False
        self.choice = choice
        self._types = [name for name in choice.resources.includes if name != EVERYTHING]
        self._places = [name for name in choice.namespaces.includes if not is_glob(name)]
        self._kinds = set[str]()
        self._namespaces = set[str]()

    def look(self, entries: Iterable[IndexedItem]) -> None:
        """Take note of objects of a backup, unless the selection leaves nothing out."""
        for entry in entries if self.is_needed else ():
            if entry.resource not in self._kinds:
                self._kinds.add(entry.resource)
                self._types = [name for name in self._types if not names_type(entry, name)]
            self._namespaces.add(
                entry.name if entry.resource == NAMESPACES.group_resource else entry.namespace
            )
            self.selects_any = self.selects_any or self.choice.admits(entry)

    async def look_into(self, backups: Sequence[StoredBackup]) -> None:
        """Take note of all objects of backups."""
        for backup in backups if self.is_needed else ():
            async for batch in backup.entries():
                self.look(batch)

    def unknown(self) -> Iterator[tuple[str, str]]:
        """The names that none of the objects has, each with `; did you mean ...?` or an empty text."""
        kinds = sorted({*self._kinds, *(kind.partition(".")[0] for kind in self._kinds)})[:_MOST_COMPARED]
        for name in self._types:
            yield name, did_you_mean(near_names(name, kinds))
        places = sorted(self._namespaces - {""})[:_MOST_COMPARED]
        for name in self._places:
            if name not in self._namespaces:
                yield name, did_you_mean(near_names(name, places))

    def advice(self) -> str:
        """`; did you mean ...?` about all of them together; empty without any similar name."""
        return "".join(text for _, text in self.unknown())
