"""Work on an object that must come to its end: claim, carry out, store the end until it is stored.

    read ──an end of it that was refused──────────────────────────────────────────> store the end
      ├────its claim got no answer, or its work broke off──────────> carry out ──> store the end
      └─decide─> leave it   └─> claim ──stored──> carry out
          └────> an end: it is refused, or canceled ──────────────────────────────> store the end

A claim that meets a conflict is decided again by what the object is now. While the process lives, an object
that was claimed reaches its end, whether answers are lost or the work has a defect. An end that the API
server refuses is sent again, later each time, until it is taken or the object has another end. Work that is
cancelled says so by `interrupted`. What a process leaves behind when it dies is settled by the next one.

The kinds differ in this only; all else is the same code:

                           Backup, Restore           volume on a node            steps (see below)
    ---------------------------------------------------------------------------------------------------
    state of the work      in memory                 in memory                   in the cluster
    read from              the cache if new          the API server              the API server
    before the claim       validated, queued by      for this node, and due;     -
                           namespace                 a free slot
    first patch            InProgress or Failed-     InProgress, with node,      -
                           Validation, with start    agent and attempts
    is our claim by        uid, phase, start         uid, InProgress, holder     -
    claim is not valid     FailedValidation          tried again                 -
    API server away        Failed, as any defect     begun again by this agent   tried again
      during the work
    given up meanwhile     -                         canceled, deleted, ended,   each step looks
                                                     taken by another agent
    interrupted            settled: its end in the   a message; the next agent   the next process goes on
                           location, or Failed; a    begins it again
                           Restore may be resumed
    the end is written     over the uid              if this agent still holds   over the version read
                                                     it
    the end came too late  dropped                   its snapshot is removed     decided again
    orphans                settled by the leader     begun again, 5 times; those decided again
                                                     of Velero are failed

Steps need neither claim nor memory: `take_step` reads the object and does what follows from its state, as for
repositories, and for DataUploads and DataDownloads under a server. Self-service takes several steps in a
pass, and its caches may lag: it has a driver of its own, `nonadmin.flows.driver`.
(docs/spec: CTL 1.2, 15; docs/adr/113)
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, Generic, Protocol, TypeVar

from pinnace.aio.cancelling import is_cancelled
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import (
    PASSING_ERRORS,
    APIStatusError,
    BadRequest,
    Conflict,
    Invalid,
    KubeError,
    NotFound,
    NotLeading,
    ServerFault,
)
from pinnace.kube.resources import APIResource
from pinnace.runtime.backoff import FailureBackoff, RetryDelay
from pinnace.runtime.controller import CHANGED, DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger

log = get_logger(__name__)

REFUSED_SECONDS: Final = 5.0
LONGEST_REFUSED_SECONDS: Final = 300.0
"""The first and the longest wait until a terminal state that the API server refused is sent again: rights or
admission webhooks may be corrected meanwhile."""

INTERRUPTED_SECONDS: Final = 4.0
"""The limit for what is done about interrupted work. Shorter than what lies between giving up a lease and its
end, so that a server that lost the lease is done before another one begins."""

AT_ONCE: Final = Result.after(0.0)
"""The next step may follow now."""


class Storing(Enum):
    """The outcome of storing a state.

    REFUSED: the API server does not accept it. NOT_OURS: the object is gone, has another terminal phase, or
    another process holds it.
    """

    STORED = auto()
    REFUSED = auto()
    NOT_OURS = auto()


Guard = Callable[[JSONObject], Storing | None]
"""Looks at an object before each write of a patch; None lets it be written, over the version that it saw."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkEnd:
    """The end of the work on an object.

    Attributes:
        patch: the merge patch of the terminal state.
        is_due: whether an object is the one that was worked on, and does not show its end yet.
        guard: decides whether the patch may be written; None if the patch itself says which object it is for.
        then: called once, after the first attempt to store the end.
    """

    patch: JSONObject
    is_due: Callable[[JSONObject], bool]
    guard: Guard | None = None
    then: Callable[[Storing], Awaitable[None]] | None = None


class WorkClaim(Protocol):
    """The claim of an object."""

    @property
    def patch(self) -> JSONObject:
        """The first patch, with the resourceVersion of the object that it was made for."""
        ...

    def has_made(self, obj: JSONObject) -> bool:
        """Whether an object is what the first patch made of it."""
        ...


ClaimT = TypeVar("ClaimT", bound=WorkClaim)


class DurableWork(Protocol[ClaimT]):
    """The parts that differ between kinds. After an error of `decide` or `refused` the key is tried again."""

    async def decide(self, obj: JSONObject) -> ClaimT | WorkEnd | None:
        """Decide about an object without a claim of this process; settle it if it is an orphan.

        None leaves it alone in this pass. Claims whose answers were lost are kept: they may still be stored.
        """
        ...

    async def refused(self, obj: JSONObject, error: Invalid | BadRequest) -> None:
        """Fail an object whose claim the API server does not take, or raise the error to try it again."""
        ...

    async def carry_out(self, obj: JSONObject, claim: ClaimT) -> WorkEnd | None:
        """The end of the work on an object as it was stored; None if there is none to store."""
        ...

    async def failed(self, obj: JSONObject, claim: ClaimT, reason: str) -> WorkEnd | None:
        """The end of work that a defect has ended."""
        ...

    async def interrupted(self, obj: JSONObject, claim: ClaimT) -> None:
        """Say what becomes of work that was cancelled, within `INTERRUPTED_SECONDS`."""
        ...

    def gone(self, key: Key) -> None:
        """Take note that an object does not exist any more."""
        ...


class DurableRuns(Generic[ClaimT]):
    """Takes objects of one kind to their end, one pass after the other.

    Args:
        cached: returns an object that may be decided about as a cache shows it: a stale one costs a conflict.
        slot: entered for the claim and the work.
        again: errors of the work that make this process begin it again.
    """

    def __init__(
        self,
        client: KubeClient,
        resource: APIResource,
        work: DurableWork[ClaimT],
        *,
        cached: Callable[[Key], JSONObject | None] = lambda _: None,
        slot: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
        again: tuple[type[Exception], ...] = (),
    ) -> None:
        self._client = client
        self._resource = resource
        self._work: DurableWork[ClaimT] = work
        self._cached = cached
        self._slot = slot
        self._again = again
        self._claims: dict[Key, list[ClaimT]] = {}
        self._unstored: dict[Key, WorkEnd] = {}
        self._refusals: FailureBackoff[Key] = FailureBackoff(
            base_seconds=REFUSED_SECONDS, cap_seconds=LONGEST_REFUSED_SECONDS
        )

    async def reconcile(self, key: Key) -> Result:
        """One pass. An error raised before an object is claimed makes the key be tried again."""
        with bound_fields(**{self._resource.kind.lower(): str(key)}):
            await self._take(key)
        if key in self._unstored:
            return Result.after(self._refusals.next_delay(key))
        self._refusals.forget(key)
        return DONE

    def has_claim(self, key: Key) -> bool:
        """Whether a claim got no answer, or the work of one is to be begun again."""
        return key in self._claims

    def forget_claims(self, key: Key) -> None:
        """Forget the claims of an object that has another owner, has ended or is gone."""
        self._claims.pop(key, None)

    async def store(self, key: Key, end: WorkEnd) -> Storing:
        """Store an end; one that is refused is remembered, as only the work itself knows it."""
        storing = await store_until_stored(self._client, self._resource, key, end.patch, guard=end.guard)
        if storing is Storing.REFUSED:
            self._unstored[key] = end
        return storing

    async def _take(self, key: Key) -> None:
        obj = self._new(key) or await self._read(key)
        while obj is not None:
            end = self._unstored.pop(key, None)
            if end is not None and end.is_due(obj):
                await self.store(key, end)
                return
            ours = self._claim_of(key, obj)
            decided = ours or await self._work.decide(obj)
            if decided is None:
                return
            if isinstance(decided, WorkEnd):
                await self._end(key, decided)
                return
            async with self._slot():
                # If it has changed while it waited for a slot, the claim fails and it is read again.
                try:
                    stored = obj if ours is not None else await self._claim(key, decided)
                except (Invalid, BadRequest) as error:
                    await self._work.refused(obj, error)
                    return
                if stored is not None:
                    self.forget_claims(key)
                    await self._carry_out(key, stored, decided)
                    return
            obj = await self._read(key)

    def _new(self, key: Key) -> JSONObject | None:
        return None if key in self._claims or key in self._unstored else self._cached(key)

    def _claim_of(self, key: Key, obj: JSONObject) -> ClaimT | None:
        return next((claim for claim in self._claims.get(key, ()) if claim.has_made(obj)), None)

    async def _read(self, key: Key) -> JSONObject | None:
        try:
            return await self._client.get(self._resource, key.name, key.namespace)
        except NotFound:
            self.forget_claims(key)
            self._unstored.pop(key, None)
            self._work.gone(key)
            return None

    async def _claim(self, key: Key, claim: ClaimT) -> JSONObject | None:
        """The object as stored; None if another process took it, or it was edited or deleted."""
        # If the answer is lost, the patch may be stored, even after a later pass has tried again. Were this
        # claim forgotten, the object would never end.
        self._claims.setdefault(key, []).append(claim)
        try:
            return await self._client.patch(self._resource, key.name, claim.patch, key.namespace)
        except ServerFault:
            raise
        except (APIStatusError, NotLeading) as error:
            self._not_stored(key, claim)
            if isinstance(error, (Conflict, NotFound)):
                return None  # what it is now decides (docs/spec: CTL 1.2)
            raise

    def _not_stored(self, key: Key, claim: ClaimT) -> None:
        others = [each for each in self._claims[key] if each is not claim]
        if others:
            self._claims[key] = others
        else:
            del self._claims[key]

    async def _carry_out(self, key: Key, obj: JSONObject, claim: ClaimT) -> None:
        try:
            end = await self._work.carry_out(obj, claim)
        except asyncio.CancelledError:
            await self._work.interrupted(obj, claim)
            raise
        except Exception as error:
            if is_cancelled():  # a cancellation that was turned into another error on its way
                await self._work.interrupted(obj, claim)
                raise asyncio.CancelledError from error
            if isinstance(error, self._again):
                self._claims[key] = [claim]
                raise
            # Any defect of the work: the object must not stay as it was claimed.
            log.error(f"{self._resource.kind} ended by a defect", error=error)
            end = await self._work.failed(obj, claim, f"unexpected {type(error).__name__}")
        if end is not None:
            await self._end(key, end)

    async def _end(self, key: Key, end: WorkEnd) -> None:
        storing = await self.store(key, end)
        if end.then is not None:
            await end.then(storing)


async def store_until_stored(
    client: KubeClient,
    resource: APIResource,
    key: Key,
    patch: JSONObject,
    *,
    guard: Guard | None = None,
    delay: RetryDelay | None = None,
) -> Storing:
    """Store a state, and wait as long as it takes while the API server is out of reach.

    When this is cancelled, the next process finds the object as it was.
    """
    delay = delay or RetryDelay()
    while True:
        try:
            body = patch
            if guard is not None:
                obj = await client.get(resource, key.name, key.namespace)
                if (known := guard(obj)) is not None:
                    return known
                version = {"resourceVersion": obj["metadata"]["resourceVersion"]}
                body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
            await client.patch(resource, key.name, body, key.namespace)
        except PASSING_ERRORS as error:
            log.warning("Terminal state not stored yet, will be tried again", key=str(key), error=error)
            await asyncio.sleep(delay.next_delay())
        except NotFound:
            log.info("Object was deleted while it was worked on", key=str(key))
            return Storing.NOT_OURS
        except KubeError as error:
            if guard is not None and isinstance(error, Conflict):
                continue
            log.error("Error storing the terminal state", key=str(key), error=error)
            return Storing.REFUSED
        else:
            return Storing.STORED


async def take_step(
    client: KubeClient,
    resource: APIResource,
    key: Key,
    step: Callable[[JSONObject], Awaitable[Result]],
    *,
    gone: Callable[[Key], None] = lambda _: None,
) -> Result:
    """Read an object and take the step that follows from its state; an object that is gone needs none.

    A step that meets a conflict is decided again. Any other error makes the key be tried again.
    """
    try:
        obj = await client.get(resource, key.name, key.namespace)
    except NotFound:
        gone(key)
        return DONE
    try:
        return await step(obj)
    except Conflict:
        return CHANGED
