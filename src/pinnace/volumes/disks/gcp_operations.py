"""Requests to Google's compute service, and waiting for the operations that they begin.

A request that changes something is answered by an operation, which runs on and reports its failure when it
is read. Reading it needs a permission that Velero does not need. Where a role lacks it, the state of the
snapshot or disk is read instead.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, unquote

from pinnace.aio.clock import Clock
from pinnace.api.objects import JSONObject
from pinnace.volumes.disks.json_requests import ForbiddenError, JSONService, NotFoundError
from pinnace.volumes.disks.waiting import wait_until
from pinnace.volumes.native.snapshotters import SnapshotError

READY_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute:
    """The compute service.

    Attributes:
        url: of its version 1, without a slash at its end.
    """

    url: str
    service: JSONService = field(repr=False)
    clock: Clock

    async def get(self, path: str, what: str) -> JSONObject:
        """A resource. Raises StorageError that begins with `what`, also for an answer about anything else."""
        found = (await self.service.call("GET", f"{self.url}/{path}", what)).body
        if found.get("name") != unquote(path.rpartition("/")[2]):
            raise SnapshotError(f"{what}: the answer is not the resource that was asked for")
        return found

    async def insert(
        self, place: str, kind: str, body: Mapping[str, Any], what: str, *, made: Callable[[str], bool]
    ) -> None:
        """Make a resource and wait until it is there.

        Args:
            place: project and zone, region or `global`.
            kind: `disks` or `snapshots`.
            body: names the resource.
            made: whether it is there, by its status.

        Raises:
            SnapshotError, StorageError: it could not be made.
        """
        # The id keeps a second try from making a second one.
        answer = await self.service.call(
            "POST", f"{self.url}/{place}/{kind}?requestId={uuid.uuid4()}", what, body
        )
        _check_operation(answer.body, what)
        resource = f"{place}/{kind}/{quote(str(body['name']), safe='')}"

        async def done() -> bool:
            if await self._is_done(place, answer.body, what):
                return True
            status = await self._status(resource, what)
            if status == "FAILED":
                raise SnapshotError(f"{what}: {body['name']} failed")
            return made(status)

        await self._wait(done, f"{what}: {body['name']}")

    async def delete(self, place: str, kind: str, name: str, what: str) -> None:
        """Delete a resource and wait until it is gone.

        Raises:
            NotFoundError: there is none of that name.
            SnapshotError, StorageError: it could not be deleted.
        """
        resource = f"{place}/{kind}/{quote(name, safe='')}"
        answer = await self.service.call("DELETE", f"{self.url}/{resource}", what)
        _check_operation(answer.body, what)

        async def done() -> bool:
            if await self._is_done(place, answer.body, what):
                return True
            return not await self._status(resource, what)

        await self._wait(done, f"{what}: it")

    async def _is_done(self, place: str, begun: JSONObject, what: str) -> bool:
        """Whether an operation has succeeded, as far as we may know. Raises SnapshotError if it failed."""
        try:
            operation = await self.get(f"{place}/operations/{begun['name']}", what)
        except (ForbiddenError, NotFoundError):
            return False
        if error := _error_of(operation):
            raise SnapshotError(f"{what}: {error}")
        return operation.get("status") == "DONE"

    async def _status(self, resource: str, what: str) -> str:
        """The status of a resource, empty if there is none."""
        try:
            return str((await self.get(resource, what)).get("status", ""))
        except NotFoundError:
            return ""

    async def _wait(self, done: Callable[[], Awaitable[bool]], what: str) -> None:
        await wait_until(done, what, limit_seconds=READY_SECONDS, clock=self.clock)


def _check_operation(begun: JSONObject, what: str) -> None:
    """Refuse an answer that is no operation: a proxy or login page in between may have sent it."""
    if not isinstance(begun.get("name"), str) or not begun["name"]:
        raise SnapshotError(f"{what}: the answer is not an operation of the compute service")


def _error_of(operation: JSONObject) -> str:
    """Why an operation failed; empty if it did not."""
    errors = (operation.get("error") or {}).get("errors") or []
    texts = [f"{error.get('message')} ({error.get('code')})" for error in errors]
    if not texts and operation.get("httpErrorStatusCode"):
        texts = [f"{operation.get('httpErrorMessage')} ({operation['httpErrorStatusCode']})"]
    return "; ".join(texts)
