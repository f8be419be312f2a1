"""The life of one Backup or Restore under its controller, from New to its terminal phase.

    New ──plan──> claim ──> InProgress ──execute──> Completed, PartiallyFailed, Failed
           │        └─────> FailedValidation
           └─ not its turn: stays New until it is

The first patch is conflict-checked: of two servers one gets the object. What is InProgress is ours alone and
is never left so while this process lives: a defect fails it, an interruption settles it, a lost answer to
the claim is remembered. So is nothing else, where no other server can be at work: what a former one asked for
may be stored long after its death, and then shows up here. (docs/spec: CTL 1.2, CTL 3, CTL 8, CTL 15)
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from pinnace.api.backup import Backup, BackupPhase
from pinnace.api.codec import DecodeError, decode
from pinnace.api.objects import JSONObject
from pinnace.api.restore import Restore
from pinnace.api.spec_fields import check_spec
from pinnace.api.values.times import format_time
from pinnace.controllers.ports import Scope
from pinnace.controllers.settling import Settler, is_in_progress
from pinnace.controllers.turns import NoTurns, Turns
from pinnace.controllers.writes import claim, finish
from pinnace.kube.errors import (
    BadRequest,
    Conflict,
    ConnectionFailed,
    Invalid,
    KubeError,
    NotFound,
    ServerFault,
)
from pinnace.kube.resources import APIResource
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

RunT = TypeVar("RunT", Backup, Restore)

NEW: Final = frozenset({"", BackupPhase.NEW})


def is_new(obj: JSONObject) -> bool:
    """Whether a Backup or Restore waits to be taken."""
    return ((obj.get("status") or {}).get("phase") or "") in NEW


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[RunT]):
    """What will be done with a new object.

    Attributes:
        begun: the object as the first patch makes it: InProgress, or FailedValidation.
        execute: the work, None if the object is not valid. Takes the object as it was stored; gives it
            back with its terminal phase.
    """

    begun: RunT
    execute: Callable[[RunT], Awaitable[RunT]] | None = None


class Work(Protocol[RunT]):
    """What backups and restores do differently."""

    async def plan(self, run: RunT, caveats: Sequence[str] = ()) -> Plan[RunT]:
        """Validate and complete a new object. Whatever is raised lets the key be tried again.

        Args:
            caveats: warnings that the log and the counts of the run begin with.
        """
        ...

    def taken(self, run: RunT) -> None:
        """Count an object that the first patch was stored of, valid or not."""
        ...

    def ended(self, run: RunT) -> None:
        """Count an object that has its terminal phase, FailedValidation included."""
        ...


class RunReconciler(Generic[RunT]):
    """Takes new objects of one kind to their terminal phase.

    Args:
        resource, struct: the kind.
        work: what is done with one.
        running: keys of the objects in hand; who deletes backups asks it.
        turns: who may begin; without it, everybody whom a worker takes.
        leads: whether no other server can be working, so that what is InProgress is ours or nobody's.
    """

    def __init__(
        self,
        scope: Scope,
        resource: APIResource,
        struct: type[RunT],
        work: Work[RunT],
        settler: Settler,
        *,
        running: set[Key] | None = None,
        turns: Turns[RunT] | None = None,
        leads: bool = False,
    ) -> None:
        self._scope = scope
        self._resource = resource
        self._struct: type[RunT] = struct
        self._work: Work[RunT] = work
        self._settler = settler
        self._running = set() if running is None else running
        self._turns: Turns[RunT] = turns if turns is not None else NoTurns()
        self._leads = leads
        self._unanswered: dict[Key, list[Plan[RunT]]] = {}

    def concerns(self, obj: JSONObject) -> bool:
        """Whether a change of an object is to be looked at."""
        return is_new(obj) or (self._leads and is_in_progress(obj))

    async def reconcile(self, key: Key) -> Result:
        """One pass. What is raised before the first patch was stored lets the key be tried again."""
        waits = False
        try:
            with bound_fields(**{self._resource.kind.lower(): str(key)}):
                waits = await self._take(key)
        finally:
            if key not in self._unanswered:
                self._running.discard(key)
                if not waits:
                    self._turns.leave(key)
        return DONE

    async def _take(self, key: Key) -> bool:
        """Take an object as far as it goes. Returns whether it must wait for its turn."""
        while (obj := await self._read(key)) is not None:
            claimed: JSONObject | None = obj
            plan = self._plan_behind(key, obj)
            if plan is None:
                if not is_new(obj):
                    await self._pass_by(key, obj)
                    return False
                self._running.add(key)
                try:
                    run = decode(self._struct, obj)
                except DecodeError as error:
                    await self._refuse(key, obj, error)
                    return False
                findings = check_spec(self._resource.kind, obj)
                plan = refused(await self._work.plan(run, findings.warnings), findings.errors)
                # What is not valid waits for nobody. Once it is its turn, it is planned again.
                if plan.execute is not None and not self._turns.begin(key, plan.begun):
                    return True
                try:
                    claimed = await self._claim(key, run, plan)
                except (Invalid, BadRequest) as error:
                    # It will not be taken the next time either: without a verdict the object stays New.
                    await self._refuse(key, obj, error)
                    return False
            if claimed is not None:
                self._unanswered.pop(key, None)
                await self._carry_out(decode(self._struct, claimed), plan)
                return False
        return False

    async def _pass_by(self, key: Key, obj: JSONObject) -> None:
        """Leave alone what is not ours to take, unless nobody else could take care of it."""
        self._unanswered.pop(key, None)
        if self._leads and is_in_progress(obj):
            await self._settler.settle_late(self._resource, obj)

    def _plan_behind(self, key: Key, obj: JSONObject) -> Plan[RunT] | None:
        """Which of our claims without an answer made the object what it is."""
        return next((plan for plan in self._unanswered.get(key, ()) if _is_made_by(obj, plan)), None)

    async def _read(self, key: Key) -> JSONObject | None:
        try:
            return await self._scope.client.get(self._resource, key.name, key.namespace)
        except NotFound:
            self._unanswered.pop(key, None)
            return None

    async def _claim(self, key: Key, run: RunT, plan: Plan[RunT]) -> JSONObject | None:
        """The object as stored; None if another server took it, or somebody edited or deleted it.

        Raises:
            Invalid, BadRequest: the API server does not take what the object would become.
        """
        try:
            return await claim(self._scope.client, self._resource, run, plan.begun)
        except (Conflict, NotFound):
            return None  # what it is now decides (docs/spec: CTL 1.2)
        except (ConnectionFailed, ServerFault):
            # It may be stored although we were not told, even after the next pass has tried again. Forgotten,
            # it would stay so.
            self._unanswered.setdefault(key, []).append(plan)
            raise

    async def _refuse(self, key: Key, obj: JSONObject, error: DecodeError | KubeError) -> None:
        """An object that cannot be read or claimed is failed, not tried for ever."""
        log.warning("Object is refused", error=error)
        self._unanswered.pop(key, None)
        status = {"phase": str(BackupPhase.FAILED_VALIDATION), "validationErrors": [str(error)]}
        patch = {"metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]}, "status": status}
        await self._scope.client.patch(self._resource, key.name, patch, key.namespace)

    async def _carry_out(self, run: RunT, plan: Plan[RunT]) -> None:
        self._work.taken(run)
        if plan.execute is None:
            log.warning("Object is not valid", errors=run.status.validation_errors)
            self._work.ended(run)
            return
        log.info(f"{self._resource.kind} begins")
        try:
            finished = await plan.execute(run)
        except asyncio.CancelledError:
            await self._settler.settle_interrupted(self._resource, run)
            raise
        except Exception as error:  # noqa: BLE001 - a defect must end this run, not leave it InProgress
            log.error(f"{self._resource.kind} ended by a defect", error=error)
            reason = f"unexpected {type(error).__name__}, see the server's log"
            finished = failed(run, reason, self._scope)
        log.info(f"{self._resource.kind} ended", phase=finished.status.phase)
        self._work.ended(finished)
        await finish(self._scope.client, self._resource, run, finished)


def refused(plan: Plan[RunT], problems: Sequence[str]) -> Plan[RunT]:
    """The plan with these problems added to what is wrong with the object; the same without any."""
    if not problems:
        return plan
    status = msgspec.structs.replace(
        plan.begun.status,
        phase=BackupPhase.FAILED_VALIDATION,
        validation_errors=[*plan.begun.status.validation_errors, *problems],
        start_timestamp=None,
    )
    return Plan(begun=msgspec.structs.replace(plan.begun, status=status))


def failed(run: RunT, reason: str, scope: Scope) -> RunT:
    """The object in phase Failed; the one given is left as it is."""
    status = msgspec.structs.replace(
        run.status,
        phase=BackupPhase.FAILED,
        failure_reason=reason,
        completion_timestamp=scope.clock(),
    )
    return msgspec.structs.replace(run, status=status)


def _is_made_by(obj: JSONObject, plan: Plan[RunT]) -> bool:
    """Whether an object is what the plan's first patch makes of it."""
    status, begun = obj.get("status") or {}, plan.begun.status
    started = format_time(begun.start_timestamp) if begun.start_timestamp is not None else None
    return (
        obj["metadata"]["uid"] == plan.begun.metadata.uid
        and status.get("phase") == begun.phase
        and status.get("startTimestamp") == started
    )
