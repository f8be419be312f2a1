"""Requests to Azure's resource manager, and waiting for the operations that they begin.

The resource manager answers before the work is done and says in one of three ways where to look: a URL of the
operation's state (`Azure-AsyncOperation`), a URL that answers 202 until the work is done (`Location`), or no
more than the state in the resource itself (`properties.provisioningState`). Disks and snapshots use the
first.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pinnace.aio.clock import Clock
from pinnace.api.objects import JSONObject
from pinnace.volumes.disks.json_requests import Answer, JSONService, NotFoundError
from pinnace.volumes.disks.waiting import wait_until
from pinnace.volumes.native.snapshotters import SnapshotError

API_VERSION: Final = "2021-12-01"
"""Of disks and snapshots."""

_NOTHING_THERE: Final = 204
"""The status of a deletion that found nothing, or left nothing."""
_SUCCEEDED: Final = "Succeeded"
_FAILED: Final = frozenset({"Failed", "Canceled"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceManager:
    """The resource manager of a cloud.

    Attributes:
        url: without a slash at its end.
        limit_seconds: how long an operation may take.
    """

    url: str
    service: JSONService = field(repr=False)
    limit_seconds: float
    clock: Clock

    async def get(self, resource_id: str, what: str) -> JSONObject:
        """A resource. Raises StorageError that begins with `what`, also for an answer about anything else."""
        found = (await self._call("GET", resource_id, what)).body
        if str(found.get("id", "")).casefold() != resource_id.casefold():
            raise SnapshotError(f"{what}: the answer is not the resource that was asked for")
        return found

    async def carry_out(
        self, method: str, resource_id: str, what: str, body: Mapping[str, object] | None = None
    ) -> None:
        """Change a resource and wait until that is done.

        Raises:
            NotFoundError: the resource does not exist.
            StorageError, SnapshotError: it was refused, failed, or took too long.
        """
        answer = await self._call(method, resource_id, what, body)
        done = self._watch(answer, method, resource_id, what)
        if done is not None:
            await wait_until(done, f"{what}: it", limit_seconds=self.limit_seconds, clock=self.clock)
        elif method == "DELETE" and answer.status != _NOTHING_THERE:
            await self._check_gone(resource_id, what)

    async def _check_gone(self, resource_id: str, what: str) -> None:
        """Check that a resource was deleted: a proxy or login page in between may have sent the success."""
        try:
            await self.get(resource_id, what)
        except NotFoundError:
            return
        raise SnapshotError(f"{what}: the answer was a success, but the resource still exists")

    def _watch(
        self, answer: Answer, method: str, resource_id: str, what: str
    ) -> Callable[[], Awaitable[bool]] | None:
        """A check whether the work is done; None if it is done already."""
        if operation := answer.headers.get("Azure-AsyncOperation"):
            url = self._checked(operation, what)

            async def finished() -> bool:
                state = (await self._asked(url, what)).body
                return _is_over(state.get("status"), state, what)

            return finished
        if answer.status == 202 and (location := answer.headers.get("Location")):
            monitor = self._checked(location, what)

            async def answered() -> bool:
                return (await self._asked(monitor, what)).status != 202

            return answered
        if method != "PUT" or _is_over(_state_of(answer.body), answer.body, what):
            return None

        async def provisioned() -> bool:
            resource = (await self._call("GET", resource_id, what)).body
            return _is_over(_state_of(resource), resource, what)

        return provisioned

    async def _asked(self, url: str, what: str) -> Answer:
        """The state of an operation. A missing operation is a SnapshotError: the resource may be there."""
        try:
            return await self.service.call("GET", url, what)
        except NotFoundError as error:
            raise SnapshotError(f"{error}; Azure has forgotten the operation") from error

    def _checked(self, url: str, what: str) -> str:
        """The URL, if our token may be sent to it. Raises SnapshotError."""
        if not url.startswith(f"{self.url}/"):
            raise SnapshotError(f"{what}: the resource manager names another server for its operation")
        return url

    async def _call(
        self, method: str, resource_id: str, what: str, body: Mapping[str, object] | None = None
    ) -> Answer:
        return await self.service.call(
            method, f"{self.url}{resource_id}?api-version={API_VERSION}", what, body
        )


def _state_of(resource: JSONObject) -> str:
    """The state of a resource; empty if the answer is not about a resource."""
    return str((resource.get("properties") or {}).get("provisioningState", ""))


def _is_over(state: object, answer: JSONObject, what: str) -> bool:
    """Whether the work has succeeded. Raises SnapshotError if it has failed."""
    if state in _FAILED:
        error = answer.get("error") or {}
        reason = f"{error.get('message')} ({error.get('code')})" if error else f"Azure only says {state}"
        raise SnapshotError(f"{what}: {reason}")
    return state == _SUCCEEDED
