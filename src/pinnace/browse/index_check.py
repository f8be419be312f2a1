"""The comparison of a backup's index with its tarball: every field of every entry.

Commands list, search and compare backups by their indexes alone, so an index that lies hides objects or
invents them. Both files have their items in the same order and are read in step. An entry waits only until
its item comes, and no more than some thousand wait, however many were invented.
"""

from bisect import bisect_right
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from pinnace.api.velero.download_request import DownloadTargetKind
from pinnace.archive.content import facts_of_foreign
from pinnace.archive.item_index import DamagedIndex, IndexedItem, IndexParser, entry_of
from pinnace.archive.paths import ItemLocation
from pinnace.browse.errors import MissingFile
from pinnace.browse.problems import Problems
from pinnace.browse.scanning import ItemStart
from pinnace.browse.stored import StoredBackup

MOST_WAITING: Final = 20_000
"""The most entries, or items, that wait for their counterpart. Honest ones wait for a batch."""

_FIELDS: Final = {
    "api_version": "apiVersion",
    "kind": "kind",
    "uid": "uid",
    "resource_version": "resourceVersion",
    "labels": "labels",
    "size_bytes": "size",
}


def entry_of_item(location: ItemLocation, content: bytes, place: ItemStart) -> IndexedItem:
    """The entry that an honest index has for an item; its span is as long as known (`ItemStart`)."""
    entry = entry_of(location, content, facts_of_foreign(content), offset=place.offset)
    entry.span = place.span
    return entry


class IndexCheck:
    """Compares the entries of an index with the items of the tarball, batch by batch.

    Attributes:
        is_missing: there is no index.
        damage: why the index cannot be read to its end, or is not compared any further; empty if it can be.
        problems: where index and tarball disagree.
    """

    def __init__(self, backup: StoredBackup) -> None:
        self.is_missing = False
        self.damage = ""
        self.problems = Problems()
        self._parser = IndexParser()
        self._entries = _indexed(backup, self._parser)
        self._indexed: dict[ItemLocation, IndexedItem] = {}
        self._stored: dict[ItemLocation, IndexedItem] = {}
        self._ends: dict[int, tuple[int, int, ItemLocation]] = {}

    @property
    def count(self) -> int:
        """The entries that were read."""
        return self._parser.items

    async def add(self, items: Sequence[IndexedItem]) -> None:
        """Compare the next items of the tarball. Errors of the store are raised."""
        if self.is_missing or self.damage:
            return
        while len(self._indexed) < len(items) and await self._read_some():
            pass
        for stored in items:
            location = stored.location
            entry = self._indexed.pop(location, None)
            if entry is not None:
                self._compare(entry, stored)
            elif self._stored.setdefault(location, stored) is not stored:
                self.problems.add(f"{item_title(location)} is twice in the tarball")
        if len(self._stored) > MOST_WAITING:
            self.damage = f"it lacks more than {MOST_WAITING} items of the tarball"

    async def finish(self, tarball_bytes: int, begins: Sequence[int]) -> None:
        """Compare what is left. Errors of the store are raised.

        Args:
            begins: the offsets in the tarball where its spans begin, in their order.
        """
        while not (self.is_missing or self.damage) and await self._read_some():
            pass
        if self.is_missing or self.damage:
            return
        self.problems.add_all(f"{item_title(location)} is not in the tarball" for location in self._indexed)
        self.problems.add_all(f"{item_title(location)} is not in the index" for location in self._stored)
        self._check_ends(tarball_bytes, begins)
        if self._parser.tarball_bytes != tarball_bytes:
            self.problems.add(
                f"it belongs to a tarball of {self._parser.tarball_bytes} bytes; this has {tarball_bytes}"
            )

    async def aclose(self) -> None:
        """Close the index."""
        await self._entries.aclose()

    async def _read_some(self) -> bool:
        """Read some entries; returns whether more may follow."""
        try:
            batch = await anext(self._entries, None)
        except MissingFile:
            self.is_missing = True
            return False
        except DamagedIndex as error:
            self.damage = str(error)
            return False
        for entry in batch or ():
            location = entry.location
            stored = self._stored.pop(location, None)
            if stored is not None:
                self._compare(entry, stored)
            elif self._indexed.setdefault(location, entry) is not entry:
                self.problems.add(f"{item_title(location)} is twice in the index")
        if len(self._indexed) > MOST_WAITING:
            self.damage = f"it names more than {MOST_WAITING} items that the tarball does not have there"
            return False
        return batch is not None

    def _compare(self, entry: IndexedItem, stored: IndexedItem) -> None:
        name = item_title(entry.location)
        if entry.checksum != stored.checksum:
            self.problems.add(f"{name}: the checksum differs, the item was changed or damaged")
        elif (entry.offset, entry.span._replace(length=0)) != (stored.offset, stored.span._replace(length=0)):
            self.problems.add(f"{name}: the index says that it is elsewhere in the tarball")
        elif wrong := [
            called
            for field, called in _FIELDS.items()
            if (getattr(entry, field) or None) != (getattr(stored, field) or None)
        ]:
            self.problems.add(f"{name}: the index has another {', '.join(wrong)} than the item")
        else:
            self._note_end(entry, stored)

    def _note_end(self, entry: IndexedItem, stored: IndexedItem) -> None:
        """Keep the ends that the index gives a span, to be compared when the real one is known."""
        last, end = sum(stored.span[:2]), sum(entry.span[:2])
        least, most, location = self._ends.get(last, (end, end, entry.location))
        if end < least or end > most:
            location = entry.location
        self._ends[last] = min(least, end), max(most, end), location

    def _check_ends(self, tarball_bytes: int, begins: Sequence[int]) -> None:
        """Compare the ends of spans. One may reach beyond its items, up to that of the tarball."""
        for last, (least, most, location) in self._ends.items():
            following = bisect_right(begins, last)
            real = begins[following] if following < len(begins) else tarball_bytes
            if not real <= least <= most <= tarball_bytes:
                self.problems.add(
                    f"{item_title(location)}: the index says that its part of the tarball ends elsewhere"
                )


async def _indexed(backup: StoredBackup, parser: IndexParser) -> AsyncGenerator[list[IndexedItem], None]:
    async with backup.files.stream(DownloadTargetKind.ITEM_INDEX) as stream:
        async for block in stream:
            for batch in parser.feed(block):
                yield batch
    parser.finish()


def item_title(location: ItemLocation) -> str:
    """An item as a person names it: `configmaps shop/web`."""
    where = f"{location.namespace}/" if location.namespace else ""
    return f"{location.group_resource} {where}{location.name}"
