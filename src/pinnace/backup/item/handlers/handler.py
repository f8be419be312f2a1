"""The protocol of the handlers: a kind may take part in each step."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from pinnace.api.objects import JSONObject
from pinnace.backup.item.context import BackupRun
from pinnace.kube.resources import APIResource
from pinnace.runs.handlers import ItemHandler


class BackupVisit(msgspec.Struct, frozen=True):
    """One item on its way from the cluster into the archive.

    Attributes:
        following: takes over what is left to do for an item in the archive, while the caller goes on to the
            next one; None if an item is to be complete before the one that names it.
        held: what the item holds until it is complete.
    """

    run: BackupRun
    resource: APIResource
    following: asyncio.TaskGroup | None
    held: AsyncExitStack


class BackupHandler(ItemHandler[BackupVisit]):
    """The part of a kind in the backup of one item. A step may raise ItemFailed."""

    @classmethod
    def wants(cls, run: BackupRun, raw: bytes) -> bool:
        """Whether an item needs its handler; its JSON is not decoded."""
        return True

    async def given_up(self, item: JSONObject) -> Sequence[BaseException]:
        """After actions that failed or left the item out: undo `before`, and return further errors."""
        return ()

    async def after(self, item: JSONObject) -> None:
        """After the item was archived."""
