"""Who restores which item, when many are at it at once.

Each selected item is one chain: a coroutine that restores the item and, depth first, the additional items
its actions name. Two chains can meet at the same additional item. Then one restores it and the other waits,
unless waiting would close a circle (A names B, B names A), where nobody would ever go on.
(docs/spec: RST 10, 15)
"""

import asyncio
from typing import NamedTuple


class ItemKey(NamedTuple):
    """Identity of an item in the restored set: its kind, *target* namespace and name in the backup."""

    group_resource: str
    namespace: str
    name: str


class Chain:
    """One selected item and everything it draws in. Waits for at most one item at a time."""

    __slots__ = ("nesting", "waits_for")

    def __init__(self) -> None:
        self.waits_for: ItemKey | None = None
        self.nesting = 0
        """How deep in additional items the chain is right now; 0 at the selected item."""


class _Claim:
    """An item being restored right now."""

    __slots__ = ("chain", "finished")

    def __init__(self, chain: Chain) -> None:
        self.chain = chain
        self.finished: asyncio.Future[None] | None = None


class Claims:
    """The restored set, and for each item in flight the chain that has it."""

    def __init__(self) -> None:
        self._restored: set[ItemKey] = set()
        self._in_flight: dict[ItemKey, _Claim] = {}

    def __len__(self) -> int:
        """Size of the restored set: everything ever claimed, whatever became of it."""
        return len(self._restored)

    def add(self, key: ItemKey) -> None:
        """Count something as restored that no chain claims (a namespace made on demand)."""
        self._restored.add(key)

    def claim(self, key: ItemKey, chain: Chain) -> bool:
        """Take the item for this chain; False if some chain, maybe this one, has or had it."""
        if key in self._restored:
            return False
        self._restored.add(key)
        self._in_flight[key] = _Claim(chain)
        return True

    def finish(self, key: ItemKey) -> None:
        """The item's life has ended, well or not; whoever waits for it goes on."""
        claim = self._in_flight.pop(key)
        if claim.finished is not None and not claim.finished.done():
            claim.finished.set_result(None)

    async def wait(self, key: ItemKey, chain: Chain) -> None:
        """Return once the item is finished, or at once if waiting would be for ever.

        Cancellation leaves nothing behind: the chain simply waits no longer.
        """
        claim = self._in_flight.get(key)
        if claim is None or self._leads_to(claim.chain, chain):
            return
        if claim.finished is None:
            claim.finished = asyncio.get_running_loop().create_future()
        chain.waits_for = key
        try:
            # The future is shared by all who wait: the cancellation of one must not cancel it.
            await asyncio.shield(claim.finished)
        finally:
            chain.waits_for = None

    def _leads_to(self, start: Chain, goal: Chain) -> bool:
        """Follow who waits for whom from one chain; does it end at the other?"""
        current = start
        while current is not goal:
            claim = None if current.waits_for is None else self._in_flight.get(current.waits_for)
            if claim is None:
                return False
            current = claim.chain
        return True
