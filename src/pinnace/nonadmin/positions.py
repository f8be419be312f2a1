"""Shows tenants that their requests have moved up in the queue, without a write for every step of every one.

When a backup ends, all that wait behind it have moved. Written at once for each, that is a number of writes
that grows with the square of the queue. So positions are looked at together, once a second: near ones are
written when they have changed, far ones now and then. What else is written to a request shows its position of
that moment.
(docs/spec: NAC 7, docs/adr/015)
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pinnace.api.objects import JSONObject, mapping, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, NotFound
from pinnace.kube.resources import APIResource
from pinnace.nonadmin.caches import Cache
from pinnace.nonadmin.events import KeysOf
from pinnace.nonadmin.mirror import shown_position
from pinnace.nonadmin.queue_position import NEAR, WaitingLine, is_worth_showing
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

PERIOD_SECONDS: Final = 1.0
FAR_EVERY: Final = 10
"""Of so many rounds one looks at the far positions too."""

FAR_WRITES: Final = 40
"""Far positions written in one round; near ones wait for the next round until these are done."""

AT_ONCE: Final = 8
"""Writes under way at the same time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One kind of request and what is made for it.

    Attributes:
        requests: cache of the requests, of kind `resource`.
        made: cache of the Backups or Restores that wait in `line`.
        request_of: the request that one of those was made for.
    """

    resource: APIResource
    requests: Cache
    made: Cache
    line: WaitingLine
    request_of: KeysOf


class Positions:
    """Keeps the positions that the requests of one kind show."""

    def __init__(self, client: KubeClient, queue: Queue) -> None:
        self._client = client
        self._queue = queue
        self._round = 0
        self._far_left = False
        self._near_seen: int | None = None
        self._far_seen: int | None = None

    async def refresh(self) -> None:
        """One round; asks nothing of the API server when nothing has moved. Raises KubeErrors in a group."""
        self._round += 1
        changes, far = self._queue.line.changes, self._far_left or self._round % FAR_EVERY == 0
        if changes == (self._far_seen if far else self._near_seen):
            return
        wanted = list(self._wanted(far=far))
        near = sum(position <= NEAR for _, position in wanted)
        now = wanted[: near + FAR_WRITES]
        self._far_left = len(now) < len(wanted)
        done = await self._write_all(now)
        if done == len(now):
            self._near_seen = changes
            self._far_seen = changes if far and not self._far_left else self._far_seen

    def _wanted(self, *, far: bool) -> Iterator[tuple[JSONObject, int]]:
        """The requests that are to show another position, nearest first."""
        queue = self._queue
        for key in queue.line:
            obj = queue.made.get(key)
            position = queue.line.position(obj)
            if position > NEAR and not far:
                return
            for request_key in queue.request_of(obj or {}):
                request = queue.requests.get(request_key)
                if request and is_worth_showing(shown_position(mapping(request, "status")), position):
                    yield request, position

    async def _write_all(self, wanted: list[tuple[JSONObject, int]]) -> int:
        """How many were stored."""
        left = iter(wanted)
        done = 0

        async def worker() -> None:
            nonlocal done
            for request, position in left:
                done += await self._write(request, position)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(AT_ONCE, len(wanted))):
                group.create_task(worker())
        return done

    async def _write(self, request: JSONObject, position: int) -> bool:
        """Whether it was stored; one that has changed since is looked at again in the next round."""
        key = Key.of(request)
        patch = {
            # Otherwise a position could come after the 0 of one that has ended meanwhile.
            "metadata": {"resourceVersion": text(request, "metadata", "resourceVersion")},
            "status": {"queueInfo": {"estimatedQueuePosition": position}},
        }
        try:
            await self._client.patch(
                self._queue.resource, key.name, patch, key.namespace, subresource="status"
            )
        except (Conflict, NotFound) as error:
            log.debug("Request has changed meanwhile", request=str(key), error=error)
            return False
        return True
