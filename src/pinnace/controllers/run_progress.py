"""The progress of a backup or restore in its status: numbers, and what it is doing now. (docs/adr/062)

The engines publish numbers at most once a second while items are processed. During a long hook, a wait or an
upload no item is: then this writes every few seconds what has changed.
"""

import asyncio
import math
from types import TracebackType
from typing import Final, Self

from pinnace.aio.clock import Clock
from pinnace.api.codec import encode
from pinnace.api.objects import JSONObject, mapping
from pinnace.api.velero.backup import ResourceActivity, RunActivity
from pinnace.controllers.shared.writes import Run, patch_progress
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import APIResource
from pinnace.runs.activity import Activity
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

FIRST_SECONDS: Final = 1.0
"""No number is written earlier: the end of a shorter run has the same numbers."""

QUIET_SECONDS: Final = 3.0
"""After so long without a published number, what else has changed is written."""

MOST: Final = 10
"""The longest list of resources, hooks or waits: a status is for display."""


def shown(activity: Activity, *, is_counted: bool) -> RunActivity:
    """The progress of a run in its status; `is_counted` tells whether any item is known yet."""
    largest = sorted(activity.kinds.items(), key=lambda kind: (-kind[1].total, kind[0]))
    return RunActivity(
        total_is_final=activity.collected is not None,
        total_is_estimate=activity.collected is None and is_counted and not activity.unknown,
        resources=[
            ResourceActivity(
                name=name, items_done=reading.done, total_items=reading.total, total_is_final=reading.is_final
            )
            for name, reading in largest[:MOST]
            if reading.total
        ],
        hooks=activity.hooks[:MOST],
        waiting=activity.waiting[:MOST],
        upload_bytes=activity.upload_bytes,
        uploaded_bytes=activity.sent_bytes,
    )


class RunProgress:
    """Writes the progress of one run into its status; inside the context also while no item is processed.

    Velero's definitions drop the activity: under those, only the numbers are written from then on.

    Args:
        done_field: the field of `status.progress` with the items that are done.

    Attributes:
        activity: what the run is doing, for its `RunContext`.
    """

    def __init__(
        self, client: KubeClient, resource: APIResource, run: Run, done_field: str, clock: Clock
    ) -> None:
        self.activity = Activity()
        self._client = client
        self._resource = resource
        self._run = run
        self._done_field = done_field
        self._clock = clock
        self._sent: JSONObject = {}
        self._is_kept = True
        self._writing = asyncio.Lock()
        self._quiet_since = 0.0
        self._first_at = -math.inf

    async def publish(self, total: int, done: int) -> None:
        """Write these numbers and what the run is doing; a `ProgressSink`. Raises KubeError."""
        async with self._writing:
            self.activity.done, self.activity.total = done, total
            if self._clock.monotonic() >= self._first_at:
                await self._write(self._status())

    async def __aenter__(self) -> Self:
        self._quiet_since = self._clock.monotonic()
        self._first_at = self._quiet_since + FIRST_SECONDS
        self._ticker = asyncio.create_task(self._tick(), name="progress between items")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            # A request in flight must not arrive after the final state.
            await self._writing.acquire()
        self._ticker.cancel()
        await asyncio.gather(self._ticker, return_exceptions=True)

    async def _tick(self) -> None:
        while self._is_kept:
            left = self._quiet_since + QUIET_SECONDS - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(left)
                continue
            async with self._writing:
                self._quiet_since = self._clock.monotonic()
                status = self._status()
                if status != self._sent:
                    try:
                        await self._write(status)
                    except KubeError as problem:  # the next one may succeed; nothing depends on it
                        log.info("The activity of a run was not written", error=problem)

    def _status(self) -> JSONObject:
        activity = self.activity
        total, done = activity.total, activity.done
        if activity.collected is not None:
            total = done = activity.collected
        status: JSONObject = {"progress": {"totalItems": total, self._done_field: done}}
        if self._is_kept:
            now = encode(shown(activity, is_counted=bool(total)))
            # In a merge patch, what is not named stays.
            status["activity"] = {name: now.get(name) for name in RunActivity.__struct_encode_fields__}
        return status

    async def _write(self, status: JSONObject) -> None:
        stored = await patch_progress(self._client, self._resource, self._run, status)
        self._quiet_since, self._sent = self._clock.monotonic(), status
        self._is_kept = "activity" in mapping(stored, "status")
