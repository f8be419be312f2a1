"""How many DataUploads and DataDownloads may be prepared at once, their transfers not yet begun.

`loadConcurrency.prepareQueueLength` of the node agents' settings: each one that is prepared has a claim, a
pod and often a second snapshot in the storage system, while it waits for its turn on a node.
(docs/spec: BEY 6.9)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from pinnace.api import phases
from pinnace.api.objects import JSONObject
from pinnace.api.phases import TransferPhase
from pinnace.csi.movement.objects import is_built_in, phase

_FRESH_SECONDS: Final = 10.0
"""How long the setting is reused: many objects ask for it at the same time."""


class PrepareQueue:
    """Accepts as many objects as the settings allow.

    Args:
        objects: the DataUploads and DataDownloads as last seen.
        length: the setting; 0 for no limit.
    """

    def __init__(
        self, objects: Callable[[], Iterable[JSONObject]], length: Callable[[], Awaitable[int]]
    ) -> None:
        self._objects = objects
        self._length = length
        self._known: tuple[float, int] | None = None
        self._accepted: set[str] = set()
        self._lock = asyncio.Lock()

    async def accept(self, obj: JSONObject, store: Callable[[], Awaitable[None]]) -> bool:
        """Accept an object by `store`, unless as many as allowed are prepared; return whether it was.

        Raises whatever `store` and the reading of the settings raise.
        """
        async with self._lock:
            length = await self._limit()
            if length and self._number_prepared() >= length:
                return False
            await store()
            self._accepted.add(obj["metadata"]["uid"])
            return True

    def _number_prepared(self) -> int:
        """The number of objects that are prepared, or were accepted and are still seen as New."""
        ours = [obj for obj in self._objects() if is_built_in(obj)]
        unseen = {obj["metadata"]["uid"] for obj in ours if phase(obj) == TransferPhase.NEW}
        self._accepted &= unseen
        return len(self._accepted) + sum(phase(obj) in phases.TRANSFER_PREPARING for obj in ours)

    async def _limit(self) -> int:
        now = asyncio.get_running_loop().time()
        if self._known is None or now - self._known[0] >= _FRESH_SECONDS:
            self._known = now, await self._length()
        return self._known[1]
