"""The life of one PodVolumeBackup or PodVolumeRestore under the agent of its node.

    New ──claim──> InProgress ──carry out──> Completed, Failed
     └─ refused: Failed           └─ given up, interrupted, or left by a dead agent: Failed

What this process has claimed it takes to an end, also when answers of the API server are lost; what a former
one left InProgress it fails when it starts. So nobody waits for an order that nobody works on.
(docs/spec: CTL 9, CTL 10, PVL 5.3, PVL 12.4)
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from pinnace.aio.racing import unless_stopped
from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.objects import JSONObject
from pinnace.api.pod_volume import PodVolumeBackup, PodVolumePhase, PodVolumeProgress, PodVolumeRestore
from pinnace.api.values.times import format_time
from pinnace.controllers.node.scope import NodeScope
from pinnace.controllers.shared.writes import PASSING_ERRORS, patch_until_stored
from pinnace.kube.errors import Conflict, KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.volumes.outcomes import phase_of
from pinnace.volumes.restic.output import Progress

log = get_logger(__name__)

OrderT = TypeVar("OrderT", PodVolumeBackup, PodVolumeRestore)
AnyOrderT = TypeVar("AnyOrderT", PodVolumeBackup, PodVolumeRestore, contravariant=True)

NODE_ANNOTATION: Final = "pinnace.io/node"
"""Says on an order in progress whose it is: that of a pod which is gone does not tell otherwise."""

ORPHAN_MESSAGE: Final = (
    'get a {kind} with status "InProgress" during the server starting, mark it as "Failed"'
)
INTERRUPTED_MESSAGE: Final = "the node agent was stopped before the {kind} had ended"
DELETED_MESSAGE: Final = "it was deleted"

INTERRUPTED_SECONDS: Final = 4.0
"""For telling that an order was interrupted; a stop must not take long."""

_NEW: Final = frozenset({"", PodVolumePhase.NEW})

Report = Callable[[Progress], Awaitable[None]]


class OrderFailed(Exception):
    """An order cannot be carried out; the text becomes its message."""


def is_new(obj: JSONObject) -> bool:
    """Whether an order waits to be taken."""
    return phase_of(obj) in _NEW


class Work(Protocol[AnyOrderT]):
    """What backups and restores do differently. Errors in reach of a retry (`PASSING_ERRORS`) may pass."""

    async def is_due(self, order: AnyOrderT) -> bool:
        """Whether a new order is ours and can begin; who looks too early is called again by an event.

        Raises:
            OrderFailed: it will never be.
        """
        ...

    async def carry_out(self, order: AnyOrderT, report: Report) -> JSONObject:
        """Do it, and return what the status of a Completed order says besides phase and time.

        Raises:
            OrderFailed: it was not done.
        """
        ...

    def ended(self, order: AnyOrderT | None = None, status: JSONObject | None = None) -> None:
        """Count the end; with nothing, that of an order which never began."""
        ...


@dataclass(slots=True)
class _InHand:
    """An order that is being carried out."""

    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""


class OrderReconciler(Generic[OrderT]):
    """Takes the orders of one kind to their end."""

    def __init__(
        self, scope: NodeScope, resource: APIResource, struct: type[OrderT], work: Work[OrderT]
    ) -> None:
        self._scope = scope
        self._resource = resource
        self._struct: type[OrderT] = struct
        self._work: Work[OrderT] = work
        self._in_hand: dict[str, _InHand] = {}
        self._claimed: set[str] = set()

    async def reconcile(self, key: Key) -> Result:
        """One pass. What is raised lets the key be tried again; a claimed order stays ours until its end."""
        with bound_fields(**{self._resource.kind.lower(): str(key)}):
            await self._take(key)
        return DONE

    def give_up(self, uid: str, reason: str) -> None:
        """Drop an order that is in hand; others are left alone."""
        if (hand := self._in_hand.get(uid)) is not None and not hand.given_up.is_set():
            hand.reason = reason
            hand.given_up.set()

    def deleted(self, obj: JSONObject) -> None:
        """Note that somebody deleted an order: nobody waits for it any more."""
        uid = obj["metadata"]["uid"]
        self._claimed.discard(uid)
        self.give_up(uid, DELETED_MESSAGE)

    async def fail_orphan(self, obj: JSONObject) -> None:
        """Fail an order that a former agent left InProgress. Only before any is carried out."""
        message = ORPHAN_MESSAGE.format(kind=self._resource.kind.lower())
        log.warning(f"{self._resource.kind} was left InProgress by a former agent", key=str(Key.of(obj)))
        await self._store(obj["metadata"]["uid"], Key.of(obj), self._failed(message))

    async def _take(self, key: Key) -> None:
        while (obj := await self._read(key)) is not None:
            ours = obj["metadata"]["uid"] in self._claimed and phase_of(obj) == PodVolumePhase.IN_PROGRESS
            if not ours and not is_new(obj):
                return
            try:
                order = decode(self._struct, obj)
                if not ours and not await self._work.is_due(order):
                    return
                claimed = order if ours else await self._claim(order)
            except (DecodeError, OrderFailed) as error:
                # One that cannot be read is failed, not tried for ever.
                log.warning(f"{self._resource.kind} is refused", error=error)
                await self._store(obj["metadata"]["uid"], key, self._failed(str(error)))
                self._work.ended()
                return
            if claimed is not None:
                await self._carry_out(key, claimed)
                return

    async def _read(self, key: Key) -> JSONObject | None:
        try:
            return await self._scope.client.get(self._resource, key.name, key.namespace)
        except NotFound:
            self._work.ended()
            return None

    async def _claim(self, order: OrderT) -> OrderT | None:
        """The order as stored; None if somebody changed or deleted it meanwhile."""
        metadata = order.metadata
        patch = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": {NODE_ANNOTATION: self._scope.node},
            },
            "status": {
                "phase": str(PodVolumePhase.IN_PROGRESS),
                "startTimestamp": format_time(self._scope.clock()),
            },
        }
        # Before it is asked: without an answer nobody knows, and the next pass finds it InProgress.
        self._claimed.add(metadata.uid)
        try:
            stored = await self._scope.client.patch(self._resource, metadata.name, patch, metadata.namespace)
        except (Conflict, NotFound):
            self._claimed.discard(metadata.uid)
            return None  # what it is now decides
        return decode(self._struct, stored)

    async def _carry_out(self, key: Key, order: OrderT) -> None:
        uid, hand = order.metadata.uid, _InHand()
        self._in_hand[uid] = hand
        log.info(f"{self._resource.kind} begins", volume=order.spec.volume)
        status: JSONObject
        try:
            done = await unless_stopped(hand.given_up, self._work.carry_out(order, self._reporter(order)))
            status = self._failed(hand.reason) if done is None else self._completed(done)
        except PASSING_ERRORS:
            raise
        except OrderFailed as error:
            status = self._failed(str(error))
        except asyncio.CancelledError:
            await self._tell_interrupted(key, order)
            raise
        except Exception as error:  # noqa: BLE001 - a defect must end this order, not leave it InProgress
            log.error(f"{self._resource.kind} ended by a defect", error=error)
            status = self._failed(f"unexpected {type(error).__name__}, see the node agent's log")
        finally:
            del self._in_hand[uid]
        await self._store(uid, key, status)
        self._work.ended(order, status)

    def _reporter(self, order: OrderT) -> Report:
        async def report(progress: Progress) -> None:
            now = PodVolumeProgress(total_bytes=progress.total_bytes, bytes_done=progress.bytes_done)
            metadata = order.metadata
            patch = {"metadata": {"uid": metadata.uid}, "status": {"progress": encode(now)}}
            try:
                await self._scope.client.patch(self._resource, metadata.name, patch, metadata.namespace)
            except KubeError as error:
                log.warning("Error updating the progress of a volume", error=error)

        return report

    async def _tell_interrupted(self, key: Key, order: OrderT) -> None:
        """Fail what we were told to drop; does its best for a short time. The next start does the rest."""
        message = INTERRUPTED_MESSAGE.format(kind=self._resource.kind.lower())
        try:
            async with asyncio.timeout(INTERRUPTED_SECONDS):
                await self._store(order.metadata.uid, key, self._failed(message))
        except TimeoutError:
            log.warning("Interrupted work stays InProgress until an agent starts")

    async def _store(self, uid: str, key: Key, status: JSONObject) -> None:
        """Store the end of an order, and wait as long as it takes while the API server is out of reach."""
        log.info(f"{self._resource.kind} ended", phase=status["phase"], reason=status.get("message", ""))
        patch = {"metadata": {"uid": uid}, "status": status}
        await patch_until_stored(self._scope.client, self._resource, key, patch)
        self._claimed.discard(uid)

    def _completed(self, members: JSONObject) -> JSONObject:
        return self._ended(PodVolumePhase.COMPLETED) | members

    def _failed(self, message: str) -> JSONObject:
        return {**self._ended(PodVolumePhase.FAILED), "message": message}

    def _ended(self, phase: PodVolumePhase) -> JSONObject:
        return {"phase": str(phase), "completionTimestamp": format_time(self._scope.clock())}
