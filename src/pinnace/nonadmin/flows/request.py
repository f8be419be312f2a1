"""The steps that the flows of all kinds of requests share: the first, the last and refusals. Pure.

(docs/spec: NAC 5, 9, 10, 12)
"""

from datetime import datetime

from pinnace.api.nonadmin.common import NonAdminPhase
from pinnace.api.objects import JSONObject, mapping, member, text
from pinnace.nonadmin.flows.conditions import ConditionState, condition, with_condition, with_phase
from pinnace.nonadmin.flows.steps import DONE, Finish, PassMemory, SetFinalizer, Step, WriteStatus
from pinnace.nonadmin.objects import generation, has_finalizer
from pinnace.runtime.keys import Key


class RequestFlow:
    """One decision about one request. Methods that return `Step | None` return None if nothing is to be done.

    Args:
        finalizer: of requests of that kind.
    """

    def __init__(self, request: JSONObject, memory: PassMemory, *, finalizer: str, now: datetime) -> None:
        self._request = request
        self._memory = memory
        self._finalizer = finalizer
        self._now = now
        self._key = Key.of(request)
        self._status = mapping(request, "status")

    def _mark_new(self) -> Step | None:
        """Give a request without a phase the phase New."""
        if text(self._status, "phase"):
            return None
        return WriteStatus(status=with_phase(self._status, NonAdminPhase.NEW))

    def _accept(self, reason: str, message: str) -> Step | None:
        """Say that this very spec was found valid."""
        return self._write(self._observe("Accepted", True, reason, message))

    def _was_accepted(self) -> bool:
        """Whether this very spec was found valid; what it depends on may have changed since. (9.2)"""
        accepted = condition(self._status, "Accepted")
        judged = member(accepted, "observedGeneration")
        return text(accepted, "status") == "True" and judged == generation(self._request)

    def _refuse(self, reason: str, message: str, *, after_seconds: float | None = None) -> Step:
        """Say why nothing is done about the request, and end the pass."""
        observed = self._observe("Accepted", False, reason, message)
        step = self._write(with_phase(observed, NonAdminPhase.BACKING_OFF))
        return step or Finish(refusal=message, after_seconds=after_seconds)

    def _add_finalizer(self) -> Step | None:
        """Keep the request until the objects that are made for it are gone."""
        return None if has_finalizer(self._request, self._finalizer) else SetFinalizer(present=True)

    def _begin_deletion(self, message: str, *, requeue: bool = False) -> Step | None:
        """Say that the request is being deleted."""
        observed = self._observe("Deleting", True, "DeletionPending", message)
        return self._write(with_phase(observed, NonAdminPhase.DELETING), requeue=requeue)

    def _remove_finalizer(self) -> Step:
        """Let the request be deleted: no object that was made for it is left."""
        return SetFinalizer(present=False) if has_finalizer(self._request, self._finalizer) else DONE

    def _write(self, status: JSONObject, *, requeue: bool = False) -> Step | None:
        """Store a status if it differs from the current one."""
        return WriteStatus(status=status, requeue=requeue) if status != self._status else None

    def _observe(self, kind: str, holds: bool, reason: str, message: str) -> JSONObject:
        """The status with that condition; Accepted states the generation of the spec that was judged."""
        judged = generation(self._request) if kind == "Accepted" else 0
        seen = ConditionState(type=kind, holds=holds, reason=reason, message=message, generation=judged)
        return with_condition(self._status, seen, self._now)

    def _not_yet_deleted(self, obj: JSONObject) -> bool:
        """Whether this pass has not deleted an object that a cache may still show."""
        return text(obj, "metadata", "uid") not in self._memory.deleted
