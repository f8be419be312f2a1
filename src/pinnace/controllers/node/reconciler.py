"""The life of one PodVolumeBackup or PodVolumeRestore under the agent of its node, and of a DataUpload or
DataDownload from the moment that a server has made its volume reachable on that node.

    New ──claim──> InProgress ──carry out──> Completed, Failed
     └─ refused: Failed    ^ │    └─ given up: Failed, Canceled
                           └─┴─ its agent was stopped or died: the next one of the node claims it

An agent takes every object that it has claimed to its end (`runtime.durable`). What another agent of its node
has begun, and left as it ended, is begun again, a few times at most. When an agent starts, it fails those
that a Velero agent left InProgress, so that no backup or restore waits for an orphan.
(docs/spec: CTL 9, CTL 10, PVL 5.3, PVL 12.4; docs/adr/043)
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

from pinnace.aio.racing import unless_stopped
from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import TransferPhase
from pinnace.api.values.times import format_time
from pinnace.api.velero.data_movement import DataDownload, DataUpload
from pinnace.api.velero.pod_volume import PodVolumeBackup, PodVolumeRestore
from pinnace.api.velero.transfers import TransferProgress
from pinnace.controllers.node.holding import MAX_ATTEMPTS, Holding, attempts_of, holder_of, pod_of_holder
from pinnace.controllers.node.scope import NodeScope
from pinnace.kube.errors import PASSING_ERRORS, BadRequest, Invalid, KubeError
from pinnace.kube.resources import APIResource
from pinnace.runtime.controller import Result
from pinnace.runtime.durable import INTERRUPTED_SECONDS, DurableRuns, Storing, WorkEnd, store_until_stored
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger
from pinnace.volumes.outcomes import canceled_message, is_cancel_wanted, phase_of
from pinnace.volumes.uploader.output import ByteCounts

log = get_logger(__name__)

PodVolumeT = TypeVar("PodVolumeT", PodVolumeBackup, PodVolumeRestore, DataUpload, DataDownload)
AnyPodVolumeT = TypeVar(
    "AnyPodVolumeT", PodVolumeBackup, PodVolumeRestore, DataUpload, DataDownload, contravariant=True
)

ORPHAN_MESSAGE: Final = 'get a {kind} with status "{phase}" during the server starting, mark it as "Failed"'
INTERRUPTED_MESSAGE: Final = (
    "the node agent was stopped before the {kind} had ended; the next one of the node takes it up"
)
TOO_OFTEN_MESSAGE: Final = (
    "the work on the {kind} was begun {attempts} times, and its node agent ended each time: see the events"
    " and the memory limit of the pods of the DaemonSet node-agent"
)
DELETED_MESSAGE: Final = "it was deleted"

_RESULTS: Final = ("message", "snapshotID", "completionTimestamp", "progress")
"""The fields of a status that only the end of the work, or a report of it, may write."""

Report = Callable[[ByteCounts], Awaitable[None]]


class PodVolumeFailed(Exception):
    """A volume cannot be saved or restored; the text becomes the message of its object."""


def _volume_of(pod_volume: PodVolumeBackup | PodVolumeRestore | DataUpload | DataDownload) -> str:
    """The volume, or the claim whose volume it is, for the log."""
    if isinstance(pod_volume, DataUpload):
        return pod_volume.spec.source_pvc
    if isinstance(pod_volume, DataDownload):
        return pod_volume.spec.target_volume.pvc
    return pod_volume.spec.volume


class PodVolumeSteps(Protocol[AnyPodVolumeT]):
    """The steps that differ between the kinds. They may raise `PASSING_ERRORS`, which are tried again."""

    async def is_due(self, pod_volume: AnyPodVolumeT) -> bool:
        """Whether a new object is for this agent and can begin. If not yet, an event queues its key again.

        Raises:
            PodVolumeFailed: it never can.
        """
        ...

    async def carry_out(self, pod_volume: AnyPodVolumeT, report: Report) -> JSONObject:
        """Save or restore the volume; returns the status of the Completed object besides phase and time.

        Raises:
            PodVolumeFailed: it was not done.
        """
        ...

    async def discard(self, pod_volume: AnyPodVolumeT, snapshot: str = "") -> None:
        """Remove a snapshot that no object refers to; does its best.

        Args:
            snapshot: empty for all that former agents may have made for this object.
        """
        ...

    def ended(self, pod_volume: AnyPodVolumeT | None = None, status: JSONObject | None = None) -> None:
        """Count the end of an object.

        Args:
            pod_volume: None if its work never began.
            status: how it ended; None if it is gone, or another agent holds it.
        """
        ...


@dataclass(slots=True)
class _InFlight:
    """An object that is being worked on.

    Attributes:
        is_seen: the watch has shown the claim of this agent, so that it shows no older state any more.
        is_lost: it has ended or is held by another agent, so that this one must not store its end.
    """

    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    reason: str = ""
    is_canceled: bool = False
    is_seen: bool = False
    is_lost: bool = False


@dataclass(slots=True)
class _VolumeClaim:
    """An object that this agent claims, and its work.

    Attributes:
        obj: as it was read.
        is_held: whether an object is InProgress, and no other agent of the node has begun it.
    """

    obj: JSONObject
    first_patch: Callable[[JSONObject], JSONObject]
    is_held: Callable[[JSONObject], bool]
    work: _InFlight = field(default_factory=_InFlight)

    @property
    def patch(self) -> JSONObject:
        return self.first_patch(self.obj)

    def has_made(self, obj: JSONObject) -> bool:
        return bool(obj["metadata"]["uid"] == self.obj["metadata"]["uid"]) and self.is_held(obj)


class PodVolumeReconciler(Generic[PodVolumeT]):
    """Takes objects of one kind from New, or from the phase that stands for it, to their terminal phase.

    Args:
        startable: the phases of objects that no agent has claimed yet.
        slots: an object is claimed when one of them is free.
    """

    def __init__(
        self,
        scope: NodeScope,
        resource: APIResource,
        struct: type[PodVolumeT],
        work: PodVolumeSteps[PodVolumeT],
        *,
        startable: frozenset[str] = phases.TRANSFER_NEW,
        slots: asyncio.Semaphore | None = None,
    ) -> None:
        slots = slots or asyncio.Semaphore(1)
        self._scope = scope
        self._holding = Holding(scope)
        self._startable = startable
        self._resource = resource
        self._struct: type[PodVolumeT] = struct
        self._work: PodVolumeSteps[PodVolumeT] = work
        self._in_flight: dict[str, _InFlight] = {}
        self._runs: DurableRuns[_VolumeClaim] = DurableRuns(
            scope.client, resource, self, slot=lambda: slots, again=PASSING_ERRORS
        )

    async def reconcile(self, key: Key) -> Result:
        """One pass. After an error the key is tried again; a claimed object stays claimed until its end."""
        return await self._runs.reconcile(key)

    def give_up(self, uid: str, reason: str) -> None:
        """End the work on an object that is in flight, with this reason; does nothing for others."""
        if (work := self._in_flight.get(uid)) is not None and not work.given_up.is_set():
            work.reason = reason
            work.given_up.set()

    def is_left(self, obj: JSONObject) -> bool:
        """Whether another agent of this node has begun the work, and may have left it."""
        return self._holding.is_left(obj)

    def changed(self, obj: JSONObject) -> None:
        """Give up an object in flight that a user cancels, a server has ended, or another agent has taken."""
        uid = obj["metadata"]["uid"]
        work = self._in_flight.get(uid)
        if work is None or work.given_up.is_set():
            return
        is_taken = work.is_seen and self._holding.is_left(obj)
        work.is_seen = work.is_seen or holder_of(obj) == str(self._scope.agent)
        if is_taken or phase_of(obj) in phases.TRANSFER_ENDED:
            work.is_lost = True
            self.give_up(uid, f"it is {phase_of(obj)}, and held by {holder_of(obj) or 'no agent'}")
        elif is_cancel_wanted(obj):
            work.is_canceled = True
            self.give_up(uid, canceled_message(obj))

    def deleted(self, obj: JSONObject) -> None:
        """Give up an object that was deleted."""
        self.give_up(obj["metadata"]["uid"], DELETED_MESSAGE)

    async def fail_orphan(self, obj: JSONObject) -> None:
        """Fail an object that an agent of another version has left; does nothing for others.

        Call it before the first reconcile only.
        """
        if holder_of(obj):
            return
        phase = phase_of(obj)
        message = ORPHAN_MESSAGE.format(kind=self._resource.kind.lower(), phase=phase)
        log.warning(f"{self._resource.kind} was left {phase} by a former agent", key=str(Key.of(obj)))
        await self._runs.store(Key.of(obj), self._end(obj["metadata"]["uid"], self._failed(message)))

    async def decide(self, obj: JSONObject) -> _VolumeClaim | WorkEnd | None:
        """Claim what is new and due, or was left by an agent that has ended, unless it is refused."""
        left = self._holding.is_left(obj)
        if not left and phase_of(obj) not in self._startable:
            return None
        if left and not await self._holding.has_ended(pod_of_holder(obj)):
            return None  # the end of that pod queues the key again
        if (refusal := self._refusal(obj)) is not None:
            if left:
                await self._discard_left(obj)
            return self._not_begun(obj, refusal)
        try:
            if not await self._work.is_due(decode(self._struct, obj)):
                return None
        except (DecodeError, PodVolumeFailed) as error:
            return self._refused(obj, error)
        return _VolumeClaim(obj, self._first_patch, self._is_held)

    def _refusal(self, obj: JSONObject) -> JSONObject | None:
        """The status of an object that is not begun, or not begun again."""
        if is_cancel_wanted(obj):
            return self._canceled(canceled_message(obj))
        if (attempts := attempts_of(obj)) >= MAX_ATTEMPTS:
            kind = self._resource.kind.lower()
            return self._failed(TOO_OFTEN_MESSAGE.format(kind=kind, attempts=attempts))
        return None

    def _refused(self, obj: JSONObject, error: Exception) -> WorkEnd:
        """Fail an object that cannot be worked on, instead of trying it for ever."""
        log.warning(f"{self._resource.kind} is refused", error=error)
        return self._not_begun(obj, self._failed(str(error)))

    def _not_begun(self, obj: JSONObject, status: JSONObject) -> WorkEnd:
        async def counted(_storing: Storing) -> None:
            self._work.ended(status=status)

        return self._end(obj["metadata"]["uid"], status, holder=holder_of(obj), then=counted)

    def _is_held(self, obj: JSONObject) -> bool:
        return phase_of(obj) == TransferPhase.IN_PROGRESS and not self._holding.is_left(obj)

    def _first_patch(self, obj: JSONObject) -> JSONObject:
        status = obj.get("status") or {}
        has_begun, began = phase_of(obj) == TransferPhase.IN_PROGRESS, text(status, "startTimestamp")
        return {
            "metadata": {
                "resourceVersion": obj["metadata"]["resourceVersion"],
                "annotations": self._holding.marks(obj),
            },
            "status": {
                "phase": str(TransferPhase.IN_PROGRESS),
                # Of the first attempt: the time of the whole counts.
                "startTimestamp": (began if has_begun else "") or format_time(self._scope.clock.now()),
                # A message says what the object waited for, and anything else is nobody's result.
                **{name: None for name in _RESULTS if status.get(name)},
            },
        }

    async def refused(self, obj: JSONObject, error: Invalid | BadRequest) -> None:
        """Try the object again: what refuses its claim may be corrected."""
        raise error

    async def carry_out(self, obj: JSONObject, claim: _VolumeClaim) -> WorkEnd | None:
        """Save or restore the volume, until the object is given up."""
        try:
            pod_volume = decode(self._struct, obj)
        except DecodeError as error:
            return self._refused(obj, error)
        uid, work = pod_volume.metadata.uid, _InFlight()
        self._in_flight[uid] = claim.work = work
        if pod_volume.spec.cancel:  # since it was read, and before its events had this to act on
            work.is_canceled = True
            self.give_up(uid, canceled_message({"status": {"message": pod_volume.status.message}}))
        log.info(f"{self._resource.kind} begins", volume=_volume_of(pod_volume))
        try:
            done = await unless_stopped(
                work.given_up, self._work.carry_out(pod_volume, self._reporter(pod_volume))
            )
        except PodVolumeFailed as error:
            return await self._ended(pod_volume, work, self._failed(str(error)))
        finally:
            del self._in_flight[uid]
        if done is not None:
            status = self._completed(done)
        else:
            status = self._canceled(work.reason) if work.is_canceled else self._failed(work.reason)
        return await self._ended(pod_volume, work, status)

    async def failed(self, obj: JSONObject, claim: _VolumeClaim, reason: str) -> WorkEnd | None:
        """The end in phase Failed."""
        status = self._failed(f"{reason}, see the node agent's log")
        return await self._ended(decode(self._struct, obj), claim.work, status)

    def gone(self, key: Key) -> None:
        """Count the object as ended."""
        self._work.ended()

    async def _ended(self, pod_volume: PodVolumeT, work: _InFlight, status: JSONObject) -> WorkEnd | None:
        """The end of the work; None if this agent must not store it. Its snapshot is removed in that case."""
        if work.is_lost:
            log.warning(f"{self._resource.kind} is no longer held by this agent", reason=work.reason)
            await self._discard(pod_volume, status)
            self._work.ended(pod_volume, None)
            return None

        async def stored(storing: Storing) -> None:
            if storing is Storing.NOT_OURS:
                await self._discard(pod_volume, status)
            self._work.ended(pod_volume, status)

        return self._end(pod_volume.metadata.uid, status, then=stored)

    async def _discard(self, pod_volume: PodVolumeT, status: JSONObject) -> None:
        if status.get("snapshotID"):
            await self._work.discard(pod_volume, status["snapshotID"])

    def _reporter(self, pod_volume: PodVolumeT) -> Report:
        async def report(progress: ByteCounts) -> None:
            now = TransferProgress(total_bytes=progress.total_bytes, bytes_done=progress.bytes_done)
            metadata = pod_volume.metadata
            patch = {"metadata": {"uid": metadata.uid}, "status": {"progress": encode(now)}}
            try:
                await self._scope.client.patch(self._resource, metadata.name, patch, metadata.namespace)
            except KubeError as error:
                log.warning("Error updating the progress of a volume", error=error)

        return report

    async def interrupted(self, obj: JSONObject, claim: _VolumeClaim) -> None:
        """Store that the work was interrupted, trying for a short time."""
        message = INTERRUPTED_MESSAGE.format(kind=self._resource.kind.lower())
        patch: JSONObject = {"status": {"message": message}}
        guard = self._holding.guard(obj["metadata"]["uid"], patch)
        log.warning(message)
        try:
            async with asyncio.timeout(INTERRUPTED_SECONDS):
                await store_until_stored(self._scope.client, self._resource, Key.of(obj), patch, guard=guard)
        except TimeoutError:
            log.warning("It is not stored that work was interrupted")

    async def _discard_left(self, obj: JSONObject) -> None:
        """Remove snapshots that a former agent may have saved for an object that is not begun again."""
        try:
            pod_volume = decode(self._struct, obj)
        except DecodeError:
            return
        await self._work.discard(pod_volume)

    def _completed(self, members: JSONObject) -> JSONObject:
        """The status of work that is done, without what a server wrote of it meanwhile."""
        return {**self._terminal(TransferPhase.COMPLETED), "message": None, **members}

    def _failed(self, message: str) -> JSONObject:
        return {**self._terminal(TransferPhase.FAILED), "message": message}

    def _canceled(self, message: str) -> JSONObject:
        return {**self._terminal(TransferPhase.CANCELED), "message": message}

    def _terminal(self, phase: TransferPhase) -> JSONObject:
        return {"phase": str(phase), "completionTimestamp": format_time(self._scope.clock.now())}

    def _end(
        self,
        uid: str,
        status: JSONObject,
        *,
        holder: str = "",
        then: Callable[[Storing], Awaitable[None]] | None = None,
    ) -> WorkEnd:
        """The end of an object; `holder` is the agent that left it, empty for this one."""
        log.info(f"{self._resource.kind} ended", phase=status["phase"], reason=status.get("message", ""))
        patch: JSONObject = {"status": status}

        def is_due(obj: JSONObject) -> bool:
            return obj["metadata"]["uid"] == uid and phase_of(obj) not in phases.TRANSFER_ENDED

        return WorkEnd(
            patch=patch, is_due=is_due, guard=self._holding.guard(uid, patch, holder=holder), then=then
        )
