"""Ensures that each item is restored once, by one of the chains that run at the same time.

Each selected item is one chain: a coroutine that restores the item and, depth first, the additional items
that its actions name. When two chains need the same additional item, one restores it and the other waits,
unless waiting would be a deadlock (A names B, B names A).
(docs/spec: RST 10, 15)
"""

import asyncio

from pinnace.restore.selection.reading import ItemKey


class Chain:
    """One selected item with its additional items. Waits for at most one item at a time."""

    __slots__ = ("nesting", "waits_for")

    def __init__(self) -> None:
        self.waits_for: ItemKey | None = None
        self.nesting = 0
        """The current depth in additional items; 0 at the selected item."""


class _Claim:
    """An item being restored right now."""

    __slots__ = ("chain", "finished")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.finished: asyncio.Future[None] | None = None


class Claims:
    """The restored set, and for each item in flight the chain that restores it."""

    def __init__(self) -> None:
        self._restored: set[ItemKey] = set()
        self._in_flight: dict[ItemKey, _Claim] = {}

    def __len__(self) -> int:
        """Size of the restored set: all items ever claimed, whether restored successfully or not."""
        return len(self._restored)

    def __contains__(self, key: ItemKey) -> bool:
        """Whether an item was ever claimed or added."""
        return key in self._restored

    def add(self, key: ItemKey) -> None:
        """Count an item that no chain claims as restored (a namespace created on demand)."""
        self._restored.add(key)

    def claim(self, key: ItemKey, chain: Chain) -> bool:
        """Claim the item for this chain; False if a chain, possibly this one, has claimed it before."""
        if key in self._restored:
            return False
        self._restored.add(key)
        self._in_flight[key] = _Claim(chain)
        return True

    def finish(self, key: ItemKey) -> None:
        """Mark the item as finished, restored or not, and wake the chains that wait for it."""
        claim = self._in_flight.pop(key)
        if claim.finished is not None and not claim.finished.done():
            claim.finished.set_result(None)

    async def wait(self, key: ItemKey, chain: Chain) -> None:
        """Return once the item is finished, or at once if waiting would be a deadlock.

        Cancellation leaves nothing behind: the chain just stops waiting.
        """
        claim = self._in_flight.get(key)
        if claim is None or self._leads_to(claim.chain, chain):
            return
        if claim.finished is None:
            claim.finished = asyncio.get_running_loop().create_future()
        chain.waits_for = key
        try:
            # All waiting chains share the future: the cancellation of one must not cancel it.
            await asyncio.shield(claim.finished)
        finally:
            chain.waits_for = None

    def _leads_to(self, start: Chain, goal: Chain) -> bool:
        """Whether `start` waits, directly or through other chains, for `goal`."""
        current = start
        while current is not goal:
            claim = None if current.waits_for is None else self._in_flight.get(current.waits_for)
            if claim is None:
                return False
            current = claim.chain
        return True
