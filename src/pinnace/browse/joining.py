"""Matches the items of two backups by their identity, without keeping either list.

Two backups of one cluster have their items in nearly the same order. Both streams are read in step, and an
item is forgotten as soon as its counterpart has come, so that memory grows with the differences only.
"""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Final

import msgspec

from pinnace.archive.item_index import IndexedItem
from pinnace.browse.choosing import Choice
from pinnace.browse.errors import BrowseError
from pinnace.browse.filter_check import FilterCheck
from pinnace.browse.stored import StoredBackup

Identity = tuple[str, str, str]

MOST_APART: Final = 150_000
"""The most objects that are kept: some hundred bytes each, and an index can invent millions."""


class Joined(msgspec.Struct):
    """The items that differ by the indexes.

    Attributes:
        differing: pairs whose checksums differ; their values may still be equal.
    """

    removed: list[IndexedItem] = msgspec.field(default_factory=list)
    added: list[IndexedItem] = msgspec.field(default_factory=list)
    differing: list[tuple[IndexedItem, IndexedItem]] = msgspec.field(default_factory=list)


async def join(old: StoredBackup, new: StoredBackup, choice: Choice, check: FilterCheck) -> Joined:
    """Compare two backups by their indexes, which `check` sees too. Raises BrowseError."""
    joined = Joined()
    waiting: tuple[dict[Identity, IndexedItem], dict[Identity, IndexedItem]] = ({}, {})
    async with aclosing(old.entries()) as first, aclosing(new.entries()) as second:
        streams: list[AsyncIterator[list[IndexedItem]] | None] = [aiter(first), aiter(second)]
        while any(stream is not None for stream in streams):
            for side, stream in enumerate(streams):
                if stream is None:
                    continue
                batch = await anext(stream, None)
                if batch is None:
                    streams[side] = None
                    continue
                check.look(batch)
                _match(batch, side, waiting, joined, choice)
                if sum(map(len, waiting)) + len(joined.differing) > MOST_APART:
                    raise BrowseError(
                        f"backups {old.name} and {new.name} differ by their indexes in more than {MOST_APART}"
                        " objects: choose fewer, such as with --include-namespaces"
                    )
    joined.removed = sorted(waiting[0].values(), key=lambda entry: entry.identity)
    joined.added = sorted(waiting[1].values(), key=lambda entry: entry.identity)
    joined.differing.sort(key=lambda pair: pair[0].identity)
    return joined


def _match(
    batch: list[IndexedItem],
    side: int,
    waiting: tuple[dict[Identity, IndexedItem], dict[Identity, IndexedItem]],
    joined: Joined,
    choice: Choice,
) -> None:
    own, other = waiting[side], waiting[1 - side]
    admits = choice.admits
    for entry in batch:
        if not admits(entry):
            continue
        identity = entry.identity
        counterpart = other.pop(identity, None)
        if counterpart is None:
            own[identity] = entry
        elif counterpart.checksum != entry.checksum:
            joined.differing.append((entry, counterpart) if side == 0 else (counterpart, entry))
