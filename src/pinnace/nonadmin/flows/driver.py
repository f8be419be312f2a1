"""Carries out what a flow decides: read, decide one step, do it, read again, until the pass ends.

Consecutive status steps become one write, made before any other step is carried out. Each status write
carries the version that was read, so that no decision rests on an old state; a conflict restarts the pass.
A pass can be stopped after any step: the next one finds what was done. (NAC 8)
"""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from pinnace.api.codec import merge_patch
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, APIStatusError, BadRequest, Conflict, Invalid, NotFound
from pinnace.kube.resources import APIResource
from pinnace.nonadmin.flows.conditions import with_cause
from pinnace.nonadmin.flows.steps import (
    Create,
    Delete,
    Fail,
    Finish,
    PassMemory,
    Patch,
    SetFinalizer,
    Step,
    WriteStatus,
)
from pinnace.runtime.backoff import FailureBackoff
from pinnace.runtime.controller import DONE, Result
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

MAX_STEPS: Final = 50
"""Steps of one pass; other keys are served next. Only a deletion with many restores needs more."""


REFUSED_SECONDS: Final = 20.0
LONGEST_REFUSED_SECONDS: Final = 600.0
"""Delays after a refusal by the API server: what it depended on may have changed by then."""

LONGEST_REASON: Final = 500


class StepFailed(Exception):
    """A pass cannot continue; it is tried again."""


class Flow(Protocol):
    """The decisions about requests of one kind."""

    @property
    def resource(self) -> APIResource: ...

    @property
    def finalizer(self) -> str: ...

    async def next_step(self, request: JSONObject, memory: PassMemory) -> Step:
        """Look up the facts and decide on a step."""
        ...


class FlowDriver:
    """Passes over requests of one kind.

    Args:
        backoff: delays after passes that ask for another pass.
        gone: called with each request that no longer exists.
        passes: called with the request of each pass.
        cached: returns the request as a cache shows it; without it, each pass reads the request again.
    """

    def __init__(
        self,
        client: KubeClient,
        flow: Flow,
        *,
        backoff: FailureBackoff[Key] | None = None,
        gone: Callable[[Key], Awaitable[None]] | None = None,
        passes: Callable[[Key], None] = lambda _: None,
        cached: Callable[[Key], JSONObject | None] = lambda _: None,
    ) -> None:
        self._client = client
        self._flow = flow
        self._gone = gone
        self._backoff: FailureBackoff[Key] = backoff or FailureBackoff()
        self._passes = passes
        self._cached = cached
        self._refusals: FailureBackoff[Key] = FailureBackoff(
            base_seconds=REFUSED_SECONDS, cap_seconds=LONGEST_REFUSED_SECONDS
        )
        self._awaited: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Result:
        """Carry out one pass. After an exception the key is tried again."""
        self._passes(key)
        try:
            request = await self._read(key)
        except NotFound as error:
            self._backoff.forget(key)
            self._awaited.pop(key, None)
            self._refusals.forget(key)
            # Without a reason, the cluster does not know the kind.
            if self._gone is not None and error.reason:
                await self._gone(key)
            return DONE
        one_pass = _Pass(self._client, self._flow, request)
        try:
            finish = await self._through(key, one_pass)
            self._refusals.forget(key)
        except _Refused as error:
            # The same object is refused again, until it is edited.
            finish = Finish(refusal=str(error), after_seconds=self._refusals.next_delay(key))
        except Conflict as error:
            log.debug("Object has changed in the meantime", error=error)
            self._awaited[key] = ""
            finish = Finish(requeue=True)
        except NotFound as error:
            finish = await self._after_not_found(key, error)
        if finish.refusal:
            log.info("Request is refused", reason=finish.refusal)
        if finish.requeue:
            return Result.after(self._backoff.next_delay(key))
        self._backoff.forget(key)
        return DONE if finish.after_seconds is None else Result.after(finish.after_seconds)

    async def _read(self, key: Key) -> JSONObject:
        """The request, from the cache unless the cache is known to lag. Raises NotFound.

        Every write carries the version that was read, so an unnoticed lag costs a conflict.
        """
        cached = self._cached(key)
        awaited = self._awaited.get(key)
        if cached is not None and awaited in (None, _version(cached)):
            self._awaited.pop(key, None)
            return cached
        live = await self._client.get(self._flow.resource, key.name, key.namespace)
        if cached is not None and _version(cached) == _version(live):
            self._awaited.pop(key, None)
        return live

    async def _through(self, key: Key, one_pass: "_Pass") -> Finish:
        """Carry out a pass, and note that the cache lags if it does not show yet what the pass wrote."""
        before = _version(one_pass.request)
        try:
            return await one_pass.through()
        finally:
            after = _version(one_pass.request)
            if after not in (before, _version(self._cached(key))):
                self._awaited[key] = after

    async def _after_not_found(self, key: Key, error: NotFound) -> Finish:
        """End the pass if the request itself is gone; a missing namespace or other object is an error."""
        try:
            await self._client.get(self._flow.resource, key.name, key.namespace)
        except NotFound:
            return Finish()
        raise error


def _version(obj: JSONObject | None) -> str:
    return text(obj, "metadata", "resourceVersion")


class _Refused(Exception):
    """The API server refuses the object that a request leads to; the text is its reason."""


class _Pass:
    """One pass. Consecutive changes of the status are written at once, before anything else is done."""

    def __init__(self, client: KubeClient, flow: Flow, request: JSONObject) -> None:
        self._client = client
        self._flow = flow
        self.request = request
        self._key = Key.of(request)
        self._memory = PassMemory()
        self._stored_status = mapping(request, "status")

    async def through(self) -> Finish:
        for _ in range(MAX_STEPS):
            step = await self._flow.next_step(self.request, self._memory)
            if isinstance(step, WriteStatus):
                self._set_status(step.status)
                self._memory.requeue |= step.requeue
                if step.last is None:
                    continue
            await self._write_status()
            match step:
                case Finish():
                    return step
                case WriteStatus(last=Finish() as last):
                    return last
                case Fail():
                    raise StepFailed(step.error)
                case SetFinalizer():
                    await self._set_finalizer(step.present)
                    if not step.present:
                        return Finish()
                case Delete():
                    if not await self._delete(step):
                        return Finish(requeue=self._memory.requeue)
                case Create() | Patch():
                    await self._make(step)
        await self._write_status()
        return Finish(requeue=True)

    def _set_status(self, status: JSONObject) -> None:
        self.request = {**self.request, "status": status}
        self._memory.created = self._memory.patched = frozenset()

    async def _write_status(self) -> None:
        """Store the changes of the status since it was last stored."""
        changes = merge_patch(self._stored_status, mapping(self.request, "status"))
        if changes:
            version = {"resourceVersion": text(self.request, "metadata", "resourceVersion")}
            patch = {"metadata": version, "status": changes}
            resource, (namespace, name) = self._flow.resource, self._key
            self._take(await self._client.patch(resource, name, patch, namespace, subresource="status"))

    def _take(self, request: JSONObject) -> None:
        """Continue with the request as it is stored now."""
        self.request, self._stored_status = request, mapping(request, "status")

    async def _set_finalizer(self, present: bool) -> None:
        """Add or remove the finalizer by a patch: a replacement could revert a tenant's edit. (NAC 8)"""
        others = [
            name for name in listed(self.request, "metadata", "finalizers") if name != self._flow.finalizer
        ]
        patch = {
            "metadata": {
                "resourceVersion": text(self.request, "metadata", "resourceVersion"),
                "finalizers": [*others, self._flow.finalizer] if present else others,
            }
        }
        self._take(await self._client.patch(self._flow.resource, self._key.name, patch, self._key.namespace))

    async def _delete(self, step: Delete) -> bool:
        """Delete an object; return whether the request itself still exists."""
        uid = text(step.obj, "metadata", "uid")
        try:
            await self._client.delete(step.resource, step.key.name, step.key.namespace, uid=uid or None)
        except (NotFound, Conflict):
            log.debug("Object was gone already", resource=step.resource.name, object=str(step.key))
        else:
            log.info("Deleted an object", resource=step.resource.name, object=str(step.key))
        self._memory.deleted |= {uid}
        self._memory.requeue |= step.requeue
        if step.resource == self._flow.resource and step.key == self._key:
            try:
                self._take(await self._client.get(step.resource, self._key.name, self._key.namespace))
            except NotFound:
                return False
        return True

    async def _make(self, step: Create | Patch) -> None:
        resource = step.resource
        self._memory.wrote, self._memory.absent = True, frozenset()
        try:
            if isinstance(step, Create):
                created = await self._client.create(resource, step.body, step.namespace)
                log.info("Created an object", resource=resource.name, object=str(Key.of(created)))
                self._memory.created |= {resource.name}
                self._memory.made[resource.name, Key.of(created).name] = created
            else:
                key = Key.of(step.obj)
                version = {"resourceVersion": text(step.obj, "metadata", "resourceVersion")}
                patch = {**step.patch, "metadata": {**mapping(step.patch, "metadata"), **version}}
                patched = await self._client.patch(
                    resource, key.name, patch, key.namespace, subresource=step.subresource
                )
                self._memory.patched |= {resource.name}
                self._memory.made[resource.name, key.name] = patched
                if resource == self._flow.resource and key == self._key:
                    self._take(patched)
        except AlreadyExists:
            log.info("Object is there already", resource=resource.name)
        except Conflict:
            raise
        except APIStatusError as error:
            if step.failed_status is not None:
                self._set_status(
                    with_cause(step.failed_status, mapping(self.request, "status"), error.message)
                )
                await self._write_status()
            if isinstance(error, (Invalid, BadRequest)):
                raise _Refused(str(error)[:LONGEST_REASON]) from error
            raise
