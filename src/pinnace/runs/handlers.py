"""The frame of both engines for one item: the same steps for all, and handlers for what a kind adds.

An engine knows the order of the steps only. What a pod, a claim or a volume needs in them is a handler, which
the engine's table names by kind; an item of another kind visits none. (docs/adr/120)
"""

from typing import Generic, TypeVar

from pinnace.api.objects import JSONObject

VisitT = TypeVar("VisitT")


class ItemHandler(Generic[VisitT]):
    """The part of a kind in the visit of one item. A step that a kind does not need does nothing.

    Each engine adds its own last step, `after`, with what it knows then.
    """

    def __init__(self, visit: VisitT) -> None:
        self.visit = visit

    async def before(self, item: JSONObject) -> JSONObject:
        """Before the actions: return the item that they get; it may be another."""
        return item

    async def prepared(self, item: JSONObject) -> None:
        """After the actions, before the item is written; it may be changed in place."""
