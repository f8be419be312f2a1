"""The life of one Backup or Restore under its controller, from New to its terminal phase.

    New ──plan──> claim ──> InProgress ──execute──> the phase of `phases.ended`, or Failed
           │        └─────> FailedValidation
           └─ must wait in the queue: stays New, or is shown as Queued, until it may start

A Restore that was interrupted may be planned and claimed again, as `controllers.shared.settling` and its
annotations say (docs/adr/131).

The first patch is conflict-checked: of two servers one gets the object, and `runtime.durable` takes it to its
end. While this server leads, it also settles InProgress objects that no running server owns: the claim of a
former server may be stored long after that server has ended.
(docs/spec: CTL 1.2, CTL 3, CTL 8, CTL 15)
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar, runtime_checkable

import msgspec

from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.labels import INTERRUPTED, RESUME_REQUESTED, RESUMED, WAITS_FOR
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.resuming import is_requested, times_resumed, why_not_resumable
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.namespace_queue import NO_NAMESPACE, NoQueue, RunQueue, Targets
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.settling import Settler, is_in_progress
from pinnace.controllers.shared.writes import claim_patch, end_patch
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource
from pinnace.runtime.controller import Controller, Result
from pinnace.runtime.durable import DurableRuns, Storing, WorkEnd
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

RunT = TypeVar("RunT", Backup, Restore)

"""Nothing has been done in any of these phases, so that any server can begin. (docs/adr/046)"""


def is_new(obj: JSONObject) -> bool:
    """Whether no server has taken the Backup or Restore yet."""
    return ((obj.get("status") or {}).get("phase") or "") in phases.NOT_BEGUN


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDecision(Generic[RunT]):
    """The decision about a new object.

    Attributes:
        begun: the object as the first patch makes it: InProgress, or FailedValidation.
        execute: the work, None if the object is not valid. Takes the object as it was stored, as a struct and
            as it was read; gives it back with its terminal phase.
        afterwards: called when its end is stored.
        targets: the namespaces that it works on.
    """

    begun: RunT
    execute: Callable[[RunT, JSONObject], Awaitable[RunT]] | None = None
    afterwards: Callable[[], Awaitable[None]] | None = None
    targets: Targets = NO_NAMESPACE


@dataclass(frozen=True, slots=True)
class RunKind(Generic[RunT]):
    """The kind of a run: its resource, and the struct that its objects are decoded to."""

    resource: APIResource
    struct: type[RunT]


BACKUP_RUNS: Final = RunKind(BACKUPS, Backup)
RESTORE_RUNS: Final = RunKind(RESTORES, Restore)


class RunSteps(Protocol[RunT]):
    """The steps that differ between backups and restores."""

    async def plan(self, run: RunT, caveats: Sequence[str] = ()) -> RunDecision[RunT]:
        """Validate and complete a new object. After any error the key is tried again.

        Args:
            caveats: warnings that the log and the counts of the run begin with.
        """
        ...

    def taken(self, run: RunT) -> None:
        """Count an object whose first patch is stored, valid or not."""
        ...

    def ended(self, run: RunT) -> None:
        """Count an object that has its terminal phase, FailedValidation included."""
        ...


@runtime_checkable
class ResumableSteps(RunSteps[RunT], Protocol):
    """The steps of runs that can go on after an interruption."""

    async def plan_again(self, run: RunT, before: RunT, times: int) -> RunDecision[RunT]:
        """Plan an object that was interrupted, to go on with it.

        Args:
            run: without results.
            before: as it was when it was interrupted.
            times: how often it was resumed so far.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunClaim(Generic[RunT]):
    """A new object with the decision about it."""

    run: RunT
    decision: RunDecision[RunT]

    @property
    def patch(self) -> JSONObject:
        return claim_patch(self.run, self.decision.begun)

    def has_made(self, obj: JSONObject) -> bool:
        status, begun = obj.get("status") or {}, self.decision.begun.status
        started = format_time(begun.start_timestamp) if begun.start_timestamp is not None else None
        begun_annotations = self.decision.begun.metadata.annotations
        return (
            obj["metadata"]["uid"] == self.decision.begun.metadata.uid
            and status.get("phase") == begun.phase
            and status.get("startTimestamp") == started
            and text(obj, "metadata", "annotations", RESUMED) == begun_annotations.get(RESUMED, "")
        )


class RunReconciler(Generic[RunT]):
    """Takes new objects of one kind to their terminal phase.

    Args:
        work: what is done with one.
        in_flight: keys of the objects that are being worked on; the deletion of backups reads it.
        queue: decides which may start; without it, each object starts that a worker takes.
    """

    def __init__(
        self,
        scope: Scope,
        kind: RunKind[RunT],
        work: RunSteps[RunT],
        settler: Settler,
        *,
        in_flight: set[Key] | None = None,
        queue: RunQueue[RunT] | None = None,
    ) -> None:
        self._scope = scope
        self._resource = kind.resource
        self._struct: type[RunT] = kind.struct
        self._work: RunSteps[RunT] = work
        self._settler = settler
        self._plan_again = work.plan_again if isinstance(work, ResumableSteps) else None
        self._in_flight = set() if in_flight is None else in_flight
        self._queue: RunQueue[RunT] = queue if queue is not None else NoQueue()
        self._cached: Callable[[Key], JSONObject | None] = lambda _: None
        self._is_stopping: Callable[[], bool] = lambda: False
        self._held: dict[Key, JSONObject] = {}
        self._waits: set[Key] = set()
        self._runs: DurableRuns[_RunClaim[RunT]] = DurableRuns(
            scope.client, self._resource, self, cached=self._new
        )

    def watch_by(self, controller: Controller, informer: Informer) -> None:
        """Let a controller reconcile what changes and what is deleted; the cache gives new objects."""
        self._cached = informer.get
        self._is_stopping = lambda: controller.is_stopping
        controller.watch(informer, predicate=self.concerns)
        # An object that is deleted while it waits must leave the queue, or it would block others.
        controller.watch(informer, predicate=is_new, on_add=False, on_update=False, on_delete=True)

    def concerns(self, obj: JSONObject) -> bool:
        """Whether a change of the object needs a reconcile.

        What is shown of one that waits in the queue changes nothing; a change of its spec may.
        """
        if is_new(obj):
            return self._held.get(Key.of(obj)) != mapping(obj, "spec")
        # An object that this server works on is no orphan.
        if Key.of(obj) in self._in_flight:
            return False
        if is_in_progress(obj):
            # What a dead server left is not known yet when the first objects are seen.
            return self._scope.leads or self._settler.may_resume(self._resource, obj)
        return self._plan_again is not None and is_requested(obj)

    def _may_take_up(self, key: Key) -> bool:
        """Whether an InProgress object that this server does not work on is an orphan."""
        return self._scope.leads or key in self._settler.left

    async def reconcile(self, key: Key) -> Result:
        """One pass. An error raised before the first patch is stored makes the key be tried again."""
        self._waits.discard(key)
        try:
            return await self._runs.reconcile(key)
        finally:
            if not self._runs.has_claim(key):
                self._in_flight.discard(key)
                if key not in self._waits:
                    self._held.pop(key, None)
                    self._queue.remove(key)

    def _new(self, key: Key) -> JSONObject | None:
        """The object if it is new by the cache: if that is behind, its claim meets a conflict."""
        cached = self._cached(key)
        return cached if cached is not None and is_new(cached) else None

    async def decide(self, obj: JSONObject) -> _RunClaim[RunT] | None:
        """Plan a new object; settle an orphan that only this server can settle."""
        key = Key.of(obj)
        if not is_new(obj):
            self._runs.forget_claims(key)
            return await self._take_up(key, obj)
        self._in_flight.add(key)
        try:
            run = decode(self._struct, obj)
        except DecodeError as error:
            await self.refused(obj, error)
            return None
        findings = check_spec(self._resource.kind, obj)
        planned = await self._work.plan(_without_results(run), findings.warnings)
        return self._may_start(key, obj, run, refused(_begun(planned), findings.errors))

    def _may_start(
        self, key: Key, obj: JSONObject, run: RunT, decision: RunDecision[RunT]
    ) -> _RunClaim[RunT] | None:
        """The claim of what was planned; None if it must wait."""
        if decision.execute is not None and self._is_stopping():
            # It may have waited long for a worker, and this server would only interrupt it.
            return None
        # An invalid object does not wait in the queue. One that waited is planned again.
        if decision.execute is not None and not self._queue.try_start(key, decision.begun, decision.targets):
            self._held[key] = mapping(obj, "spec")
            self._waits.add(key)
            return None
        return _RunClaim(run=run, decision=decision)

    async def _take_up(self, key: Key, obj: JSONObject) -> _RunClaim[RunT] | None:
        """Settle or resume an orphan; resume an interrupted Restore that is to go on."""
        if is_in_progress(obj):
            if not self._may_take_up(key):
                return None
            if not self._settler.may_resume(self._resource, obj):
                await self._settler.settle_late(self._resource, obj)
                return None
        elif not is_requested(obj):
            return None
        elif problem := why_not_resumable(obj):
            await self._not_resumed(obj, problem)
            return None
        if self._plan_again is None:
            return None
        self._in_flight.add(key)
        run = decode(self._struct, obj)
        planned = await self._plan_again(_without_results(run), run, times_resumed(obj))
        if planned.execute is None:
            problems = planned.begun.status.validation_errors
            await self._not_resumed(obj, f"it cannot be resumed: {'; '.join(problems)}")
            return None
        return self._may_start(key, obj, run, _begun(planned))

    async def _not_resumed(self, obj: JSONObject, problem: str) -> None:
        """Leave an object as it ended, or settle it, and take the request away. Raises KubeError."""
        key, metadata = Key.of(obj), obj["metadata"]
        log.warning("Restore is not resumed", key=str(key), error=problem)
        if is_in_progress(obj):
            await self._settler.settle_late(self._resource, obj, problem)
            return
        patch: JSONObject = {
            "metadata": {
                "resourceVersion": metadata["resourceVersion"],
                "annotations": {RESUME_REQUESTED: None},
            }
        }
        if text(metadata, "annotations", INTERRUPTED):
            patch["status"] = {"failureReason": problem}
        await self._scope.client.patch(self._resource, key.name, patch, key.namespace)

    async def refused(self, obj: JSONObject, error: DecodeError | KubeError) -> None:
        """Fail an object that cannot be read or claimed, instead of trying it for ever."""
        key = Key.of(obj)
        log.warning("Object is refused", error=error)
        self._runs.forget_claims(key)
        status: JSONObject = {
            "phase": str(BackupPhase.FAILED_VALIDATION),
            "validationErrors": [str(error)],
        }
        metadata: JSONObject = {"resourceVersion": obj["metadata"]["resourceVersion"]}
        if mapping(obj, "status").get("queuePosition"):
            status["queuePosition"] = None
        if text(obj, "metadata", "annotations", WAITS_FOR):
            metadata["annotations"] = {WAITS_FOR: None}
        patch = {"metadata": metadata, "status": status}
        await self._scope.client.patch(self._resource, key.name, patch, key.namespace)

    async def carry_out(self, obj: JSONObject, claim: _RunClaim[RunT]) -> WorkEnd | None:
        """Execute what was planned; an object that is not valid has ended."""
        run = decode(self._struct, obj)
        self._settler.left.discard(Key.of(obj))
        self._work.taken(run)
        if claim.decision.execute is None:
            log.warning("Object is not valid", errors=run.status.validation_errors)
            self._work.ended(run)
            return None
        log.info(f"{self._resource.kind} begins")
        return self._end(run, await claim.decision.execute(run, obj), claim.decision.afterwards)

    async def failed(self, obj: JSONObject, claim: _RunClaim[RunT], reason: str) -> WorkEnd:
        """The end in phase Failed."""
        run = decode(self._struct, obj)
        return self._end(run, failed(run, f"{reason}, see the server's log", self._scope))

    async def interrupted(self, obj: JSONObject, claim: _RunClaim[RunT]) -> None:
        """Settle the object."""
        await self._settler.settle_interrupted(self._resource, decode(self._struct, obj))

    def gone(self, key: Key) -> None:
        """Do nothing."""

    def _end(
        self, begun: RunT, finished: RunT, afterwards: Callable[[], Awaitable[None]] | None = None
    ) -> WorkEnd:
        log.info(f"{self._resource.kind} ended", phase=finished.status.phase)
        self._work.ended(finished)

        def is_due(obj: JSONObject) -> bool:
            return is_in_progress(obj) and text(obj, "metadata", "uid") == begun.metadata.uid

        async def then(storing: Storing) -> None:
            if afterwards is not None and storing is Storing.STORED:
                await afterwards()

        return WorkEnd(patch=end_patch(begun, finished), is_due=is_due, then=then)


def _without_results(run: RunT) -> RunT:
    """The object as its author wrote it: what a status says before a run is nobody's result."""
    return msgspec.structs.replace(run, status=type(run.status)())


def _begun(plan: RunDecision[RunT]) -> RunDecision[RunT]:
    """The plan without what the object showed while it waited."""
    metadata = plan.begun.metadata
    if WAITS_FOR not in metadata.annotations:
        return plan
    annotations = {name: value for name, value in metadata.annotations.items() if name != WAITS_FOR}
    metadata = msgspec.structs.replace(metadata, annotations=annotations)
    return replace(plan, begun=msgspec.structs.replace(plan.begun, metadata=metadata))


def refused(plan: RunDecision[RunT], problems: Sequence[str]) -> RunDecision[RunT]:
    """The plan with these problems added to what is wrong with the object; the same without any."""
    if not problems:
        return plan
    status = msgspec.structs.replace(
        plan.begun.status,
        phase=BackupPhase.FAILED_VALIDATION,
        validation_errors=[*plan.begun.status.validation_errors, *problems],
        start_timestamp=None,
    )
    return RunDecision(begun=msgspec.structs.replace(plan.begun, status=status))


def failed(run: RunT, reason: str, scope: Scope) -> RunT:
    """The object in phase Failed; the one given is left as it is."""
    status = msgspec.structs.replace(
        run.status,
        phase=BackupPhase.FAILED,
        failure_reason=reason,
        completion_timestamp=scope.clock.now(),
    )
    return msgspec.structs.replace(run, status=status)
