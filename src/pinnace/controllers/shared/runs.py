"""The life of one Backup or Restore under its controller, from New to its terminal phase.

    New ──plan──> claim ──> InProgress ──execute──> the phase of `phases.ended`, or Failed
           │        └─────> FailedValidation
           └─ must wait in the queue: stays New, or is shown as Queued, until it may start

The first patch is conflict-checked: of two servers one gets the object. An object that this server has taken
is never left InProgress while the process lives: a defect fails it, an interruption settles it, a claim whose
answer was lost is remembered, and so is an end that the API server has refused, until it takes it. While this
server leads, it also settles InProgress objects that no running server owns: the claim of a former server may
be stored long after that server has ended.
(docs/spec: CTL 1.2, CTL 3, CTL 8, CTL 15)
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pinnace.aio.cancelling import is_cancelled
from pinnace.api import phases
from pinnace.api.codec import DecodeError, decode
from pinnace.api.definitions.spec_fields import check_spec
from pinnace.api.labels import WAITS_FOR
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.api.velero.restore import Restore
from pinnace.controllers.shared.namespace_queue import NO_NAMESPACE, NoQueue, RunQueue, Targets
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.settling import Settler, is_in_progress
from pinnace.controllers.shared.writes import LONGEST_REFUSED_SECONDS, REFUSED_SECONDS, claim, finish
from pinnace.kube.errors import (
    BadRequest,
    Conflict,
    ConnectionFailed,
    Invalid,
    KubeError,
    NotFound,
    ServerFault,
)
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

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
        targets: the namespaces that it works on.
    """

    begun: RunT
    execute: Callable[[RunT, JSONObject], Awaitable[RunT]] | None = None
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
        self._in_flight = set() if in_flight is None else in_flight
        self._queue: RunQueue[RunT] = queue if queue is not None else NoQueue()
        self._cached: Callable[[Key], JSONObject | None] = lambda _: None
        self._is_stopping: Callable[[], bool] = lambda: False
        self._unanswered: dict[Key, list[RunDecision[RunT]]] = {}
        self._held: dict[Key, JSONObject] = {}
        self._unstored: dict[Key, _Ended[RunT]] = {}
        self._refusals: FailureBackoff[Key] = FailureBackoff(
            base_seconds=REFUSED_SECONDS, cap_seconds=LONGEST_REFUSED_SECONDS
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
        return self._scope.leads and is_in_progress(obj) and Key.of(obj) not in self._in_flight

    async def reconcile(self, key: Key) -> Result:
        """One pass. An error raised before the first patch is stored makes the key be tried again."""
        waits = False
        try:
            with bound_fields(**{self._resource.kind.lower(): str(key)}):
                waits = await self._take(key)
        finally:
            if key not in self._unanswered:
                self._in_flight.discard(key)
                if not waits:
                    self._held.pop(key, None)
                    self._queue.remove(key)
        if key in self._unstored:
            return Result.after(self._refusals.next_delay(key))
        self._refusals.forget(key)
        return DONE

    async def _take(self, key: Key) -> bool:
        """Take an object as far as it goes. Returns whether it must wait in the queue."""
        obj = self._new(key) or await self._read(key)
        while obj is not None:
            ended = self._unstored.pop(key, None)
            if ended is not None and ended.is_end_of(obj):
                await self._store(key, ended)
                return False
            claimed: JSONObject | None = obj
            plan = self._plan_behind(key, obj)
            if plan is None:
                if not is_new(obj):
                    await self._pass_by(key, obj)
                    return False
                self._in_flight.add(key)
                try:
                    run = decode(self._struct, obj)
                except DecodeError as error:
                    await self._refuse(key, obj, error)
                    return False
                findings = check_spec(self._resource.kind, obj)
                plan = refused(
                    _begun(await self._work.plan(_without_results(run), findings.warnings)), findings.errors
                )
                if plan.execute is not None and self._is_stopping():
                    # It may have waited long for a worker. This server would only interrupt it: the next one
                    # begins it.
                    return False
                # An invalid object does not wait in the queue. One that waited is planned again.
                if plan.execute is not None and not self._queue.try_start(key, plan.begun, plan.targets):
                    self._held[key] = mapping(obj, "spec")
                    return True
                try:
                    claimed = await self._claim(key, run, plan)
                except (Invalid, BadRequest) as error:
                    # The API server will refuse it the next time too, and the object would stay New for ever.
                    await self._refuse(key, obj, error)
                    return False
            if claimed is not None:
                self._unanswered.pop(key, None)
                await self._carry_out(key, claimed, plan)
                return False
            obj = await self._read(key)
        return False

    def _new(self, key: Key) -> JSONObject | None:
        """The object if it is new by the cache: if that is behind, its claim meets a conflict."""
        if key in self._unanswered or key in self._unstored:
            return None
        cached = self._cached(key)
        return cached if cached is not None and is_new(cached) else None

    async def _pass_by(self, key: Key, obj: JSONObject) -> None:
        """Leave the object alone, unless it is an orphan that only this server can settle."""
        self._unanswered.pop(key, None)
        if self._scope.leads and is_in_progress(obj):
            await self._settler.settle_late(self._resource, obj)

    def _plan_behind(self, key: Key, obj: JSONObject) -> RunDecision[RunT] | None:
        """The plan whose claim got no answer, but was stored; None if there is none."""
        return next((plan for plan in self._unanswered.get(key, ()) if _is_made_by(obj, plan)), None)

    async def _read(self, key: Key) -> JSONObject | None:
        try:
            return await self._scope.client.get(self._resource, key.name, key.namespace)
        except NotFound:
            self._unanswered.pop(key, None)
            self._unstored.pop(key, None)
            return None

    async def _claim(self, key: Key, run: RunT, plan: RunDecision[RunT]) -> JSONObject | None:
        """The object as stored; None if another server took it, or it was edited or deleted.

        Raises:
            Invalid, BadRequest: the API server does not take what the object would become.
        """
        try:
            return await claim(self._scope.client, self._resource, run, plan.begun)
        except (Conflict, NotFound):
            return None  # what it is now decides (docs/spec: CTL 1.2)
        except (ConnectionFailed, ServerFault):
            # It may be stored although no answer came, even after the next pass has tried again. If this plan
            # were forgotten, the object would stay InProgress.
            self._unanswered.setdefault(key, []).append(plan)
            raise

    async def _refuse(self, key: Key, obj: JSONObject, error: DecodeError | KubeError) -> None:
        """Fail an object that cannot be read or claimed, instead of trying it for ever."""
        log.warning("Object is refused", error=error)
        self._unanswered.pop(key, None)
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

    async def _carry_out(self, key: Key, obj: JSONObject, plan: RunDecision[RunT]) -> None:
        run = decode(self._struct, obj)
        self._work.taken(run)
        if plan.execute is None:
            log.warning("Object is not valid", errors=run.status.validation_errors)
            self._work.ended(run)
            return
        log.info(f"{self._resource.kind} begins")
        try:
            finished = await plan.execute(run, obj)
        except asyncio.CancelledError:
            await self._settler.settle_interrupted(self._resource, run)
            raise
        except Exception as error:
            if is_cancelled():  # a cancellation that was turned into another error on its way
                await self._settler.settle_interrupted(self._resource, run)
                raise asyncio.CancelledError from error
            log.error(f"{self._resource.kind} ended by a defect", error=error)
            reason = f"unexpected {type(error).__name__}, see the server's log"
            finished = failed(run, reason, self._scope)
        log.info(f"{self._resource.kind} ended", phase=finished.status.phase)
        self._work.ended(finished)
        await self._store(key, _Ended(begun=run, finished=finished))

    async def _store(self, key: Key, ended: "_Ended[RunT]") -> None:
        """Store the end of a run; one that is refused is remembered, as only the run itself knows it."""
        if not await finish(self._scope.client, self._resource, ended.begun, ended.finished):
            self._unstored[key] = ended


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended(Generic[RunT]):
    """A run that has ended, before and after its work."""

    begun: RunT
    finished: RunT

    def is_end_of(self, obj: JSONObject) -> bool:
        """Whether the object is the one that was worked on, and does not show its end yet."""
        return is_in_progress(obj) and text(obj, "metadata", "uid") == self.begun.metadata.uid


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
        completion_timestamp=scope.clock(),
    )
    return msgspec.structs.replace(run, status=status)


def _is_made_by(obj: JSONObject, plan: RunDecision[RunT]) -> bool:
    """Whether an object is what the plan's first patch makes of it."""
    status, begun = obj.get("status") or {}, plan.begun.status
    started = format_time(begun.start_timestamp) if begun.start_timestamp is not None else None
    return (
        obj["metadata"]["uid"] == plan.begun.metadata.uid
        and status.get("phase") == begun.phase
        and status.get("startTimestamp") == started
    )
