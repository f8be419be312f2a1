"""The protocol of the handlers: a kind may take part in each step."""

from collections.abc import Sequence

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.plugins.protocols import ResourceIdentifier
from pinnace.restore.item.applying import Applied, Prepared
from pinnace.restore.item.claims import Chain
from pinnace.restore.item.context import RestoreRun
from pinnace.restore.results import Results
from pinnace.restore.selection.reading import ItemRef
from pinnace.runs.handlers import ItemHandler


class ItemVisit(msgspec.Struct, frozen=True):
    """One item on its way from the archive into the cluster.

    Attributes:
        raw: its bytes in the backup.
        results: get its warnings and errors.
        chain: the selected item that it belongs to.
        is_forced: whether the filters of the restore do not count, as another item needs it.
    """

    run: RestoreRun
    ref: ItemRef
    raw: bytes
    results: Results
    chain: Chain
    is_forced: bool = False

    async def exists(self, item: JSONObject) -> bool:
        """Whether the item exists in the cluster already; then it is not changed, as in any restore."""
        return await self.run.applier.existing.exists(self.ref, self.run.kinds.resource_for(self.ref, item))


class RestoreHandler(ItemHandler[ItemVisit]):
    """The part of a kind in the restore of one item. A step may raise LeftOut, or ItemError."""

    def check(self, item: JSONObject) -> None:
        """Before the item is claimed: it does not count as restored if it is left out here."""

    async def needed_first(self, item: JSONObject) -> Sequence[ResourceIdentifier]:
        """The items of the backup that come before the actions of this one, whatever the filters say.

        For tenants, whose limits are filters, only those that the filters admit by kind.
        """
        return ()

    async def after(self, sent: Prepared, applied: Applied) -> None:
        """After the item was created, or the existing object was treated by the policy."""
