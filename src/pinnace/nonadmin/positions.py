"""Shows tenants that their requests have moved up in the queue, without a write for each move of each one.

When a backup ends, all that wait behind it have moved. If each move were written, the number of writes would
grow with the square of the queue. So positions are compared together, twice a second: near ones are written
when they have changed, far ones now and then and for a short time, so that near ones never wait long for
them. Any other write to a request shows its position of that moment.
(docs/spec: NAC 7, docs/adr/015)
"""

import asyncio
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pinnace.aio.clock import SYSTEM_CLOCK, Clock
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.values.queue_positions import NEAR, is_worth_showing
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import APIResource
from pinnace.nonadmin.events import KeysOf
from pinnace.nonadmin.mirror import shown_position
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.runtime.cache import Cache
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

PERIOD_SECONDS: Final = 0.5
FAR_EVERY: Final = 20
"""One round of so many writes far positions too."""

FAR_SECONDS: Final = 0.25
"""A round may begin to write far positions up to this time after its start."""

AT_ONCE: Final = 8
"""Writes in flight at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRequests:
    """One kind of request, and the queue of the objects made for it.

    Attributes:
        requests: cache of the requests, of kind `resource`.
        made: cache of the Backups or Restores that `waiting` has in order.
        request_of: returns the request that such an object was made for.
    """

    resource: APIResource
    requests: Cache
    made: Cache
    waiting: WaitingQueue
    request_of: KeysOf


class Positions:
    """Keeps the positions that the requests of one kind show."""

    def __init__(self, client: KubeClient, queue: QueuedRequests, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._client = client
        self._queue = queue
        self._clock = clock
        self._round = 0
        self._far_left = False
        self._near_seen: int | None = None
        self._far_seen: int | None = None

    async def refresh(self) -> None:
        """Write the positions that are due; no request if nothing has moved. Raises KubeErrors in a group."""
        self._round += 1
        changes, far = self._queue.waiting.changes, self._far_left or self._round % FAR_EVERY == 0
        if changes == (self._far_seen if far else self._near_seen):
            return
        far_until = self._clock.monotonic() + FAR_SECONDS
        wanted = deque(self._wanted(far=far))
        near = deque(wanted.popleft() for _ in range(sum(position <= NEAR for _, position in wanted)))
        all_near = await self._write_all(near)
        all_far = await self._write_all(wanted, until=far_until)
        self._far_left = bool(wanted)
        if all_near:
            self._near_seen = changes
        if far and all_near and all_far:
            self._far_seen = changes

    def _wanted(self, *, far: bool) -> Iterator[tuple[JSONObject, int]]:
        """The requests that must show another position, nearest first."""
        queue = self._queue
        for key in queue.waiting:
            obj = queue.made.get(key)
            position = queue.waiting.position(obj)
            if position > NEAR and not far:
                return
            for request_key in queue.request_of(obj or {}):
                request = queue.requests.get(request_key)
                if request and is_worth_showing(shown_position(mapping(request, "status")), position):
                    yield request, position

    async def _write_all(self, wanted: deque[tuple[JSONObject, int]], *, until: float = math.inf) -> bool:
        """Write positions; return whether all were stored. Those not begun at `until` stay in `wanted`."""
        refused = False

        async def worker() -> None:
            nonlocal refused
            while wanted and self._clock.monotonic() < until:
                stored = await self._write(*wanted.popleft())
                refused = refused or not stored

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(wanted))):
                group.create_task(worker())
        return not refused and not wanted

    async def _write(self, request: JSONObject, position: int) -> bool:
        """Write a position; return whether it was stored. The next round does changed requests."""
        key = Key.of(request)
        patch = {
            # Without it, a position could overwrite the 0 of a request that has ended in the meantime.
            "metadata": {"resourceVersion": text(request, "metadata", "resourceVersion")},
            "status": {"queueInfo": {"estimatedQueuePosition": position}},
        }
        try:
            await self._client.patch(
                self._queue.resource, key.name, patch, key.namespace, subresource="status"
            )
        except (Conflict, NotFound) as error:
            log.debug("Request has changed in the meantime", request=str(key), error=error)
            return False
        return True
