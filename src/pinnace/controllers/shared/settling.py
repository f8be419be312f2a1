"""Settles orphans: Backups and Restores that are still InProgress and that no running server owns.

They are never resumed. If the location already holds a backup's metadata with a terminal phase, the end came
after the upload and the status is taken from there; so it is if the backup waits for operations of plugins.
Everything else is Failed, with the reason.
(docs/spec: CTL 15, SRV 13)
"""

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.labels import ITEM_OPERATIONS
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, text
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup, BackupPhase
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import Run
from pinnace.kube.errors import APIStatusError, KubeError
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource
from pinnace.operations.waiting import WAITING
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import StorageError, StoreUnavailable

log = get_logger(__name__)

ORPHAN_REASON: Final = 'get a {kind} with status "InProgress" during the server starting, mark it as "Failed"'
LATE_REASON: Final = "the {kind} was InProgress, but no server worked on it any more"
INTERRUPTED_REASON: Final = "the server was stopped before the {kind} had ended"

STORE_SECONDS: Final = 30.0
"""How long one location is asked; a location out of reach must not keep a server from starting."""

LOCATIONS_AT_ONCE: Final = 16

INTERRUPTED_SECONDS: Final = 4.0
"""For the whole of an interrupted run. Shorter than what lies between giving up a lease and its end, so that
a server that lost the lease is done before another one begins."""

_UNKNOWN_END: Final = "Cannot tell whether the backup was stored"

TERMINAL: Final = frozenset({BackupPhase.COMPLETED, BackupPhase.PARTIALLY_FAILED, BackupPhase.FAILED})


class Settler:
    """Gives Backups and Restores of our namespace that were left InProgress their terminal state."""

    def __init__(self, scope: Scope, locations: LocationStores) -> None:
        self._scope = scope
        self._locations = locations

    async def settle_orphans(self) -> None:
        """Settle what a dead server left. Only while no other server can be working.

        One that the API server refuses to change is logged and does not keep the server from starting.
        Locations are asked side by side; one that did not answer once is not asked again.
        """
        lanes: dict[str, list[tuple[APIResource, JSONObject]]] = {}
        for resource in (BACKUPS, RESTORES):
            for obj in await self._scope.client.list_all(resource, self._scope.namespace):
                if is_in_progress(obj):
                    lanes.setdefault(_location(obj), []).append((resource, obj))
        waiting = iter(lanes.values())
        settled = await asyncio.gather(
            *(self._settle_lanes(waiting) for _ in range(min(len(lanes), LOCATIONS_AT_ONCE))),
            return_exceptions=True,
        )
        for failure in settled:
            if isinstance(failure, BaseException):
                raise failure

    async def _settle_lanes(self, lanes: Iterator[list[tuple[APIResource, JSONObject]]]) -> None:
        """Settle the orphans of one location after the other."""
        for orphans in lanes:
            answers = True
            for resource, obj in orphans:
                with bound_fields(**{resource.kind.lower(): str(Key.of(obj))}):
                    log.warning(f"{resource.kind} was left InProgress by a former server")
                    answers = await self._settle(resource, obj, ORPHAN_REASON, ask=answers)

    async def settle_late(self, resource: APIResource, obj: JSONObject) -> None:
        """Settle an orphan that shows up later, as its claim was stored after the former server ended.

        Only while no other server can be working.
        """
        log.warning(f"{resource.kind} is InProgress, but the server that took it is gone")
        await self._settle(resource, obj, LATE_REASON)

    async def settle_interrupted(self, resource: APIResource, run: Run) -> None:
        """Settle interrupted work of this server, trying for a short time."""
        key = Key(run.metadata.namespace, run.metadata.name)
        try:
            async with asyncio.timeout(INTERRUPTED_SECONDS):
                obj = await self._scope.client.get(resource, key.name, key.namespace)
                if is_in_progress(obj) and obj["metadata"]["uid"] == run.metadata.uid:
                    await self._settle(resource, obj, INTERRUPTED_REASON)
        except (KubeError, TimeoutError) as error:
            log.warning("Interrupted work stays InProgress until a server starts", error=error)

    async def _settle(self, resource: APIResource, obj: JSONObject, reason: str, *, ask: bool = True) -> bool:
        """Settle one orphan; return whether its location is worth asking about another.

        Args:
            ask: whether the location of a backup is asked about its end.
        """
        patch: dict[str, Any] | None = None
        if resource == BACKUPS:
            if ask:
                try:
                    patch = await self._stored_state(obj)
                except (StoreUnavailable, TimeoutError) as error:
                    log.warning(_UNKNOWN_END, key=str(Key.of(obj)), error=error)
                    ask = False
            else:
                log.warning(_UNKNOWN_END, key=str(Key.of(obj)), error="its location did not answer before")
        if patch is None:
            patch = {
                "status": {
                    "phase": str(BackupPhase.FAILED),
                    "failureReason": reason.format(kind=resource.kind.lower()),
                    "completionTimestamp": format_time(self._scope.clock()),
                }
            }
        key, version = Key.of(obj), obj["metadata"]["resourceVersion"]
        patch.setdefault("metadata", {})["resourceVersion"] = version
        try:
            await self._scope.client.patch(resource, key.name, patch, key.namespace)
        except APIStatusError as error:
            log.warning("Could not settle an orphan, it is left InProgress", key=str(key), error=error)
        else:
            log.info("Settled", key=str(key), phase=patch["status"]["phase"])
        return ask

    async def _stored_state(self, obj: JSONObject) -> dict[str, Any] | None:
        """The patch to what the location says of this very backup, if it ended there or waits there.

        Raises:
            StoreUnavailable, TimeoutError: the location does not answer.
        """
        key, location = Key.of(obj), _location(obj)
        try:
            async with asyncio.timeout(STORE_SECONDS), self._locations.open(location) as store:
                tenant = tenant_of((await self._locations.location(location)).metadata)
                if not await store.exists(key.name):
                    return None
                stored = decode(Backup, await store.get_metadata(key.name))
        except StoreUnavailable:
            raise
        except (StorageError, KubeError, DecodeError) as error:
            log.warning(_UNKNOWN_END, key=str(key), error=error)
            return None
        if stored.metadata.uid != obj["metadata"]["uid"]:
            return None
        if stored.status.phase in TERMINAL:
            return {"status": encode(stored.status)}
        digest = stored.metadata.annotations.get(ITEM_OPERATIONS)
        if stored.status.phase in WAITING and digest and not tenant:
            # What a tenant's location says of operations is not believed. (docs/adr/054)
            return {"metadata": {"annotations": {ITEM_OPERATIONS: digest}}, "status": encode(stored.status)}
        return None


def _location(obj: JSONObject) -> str:
    """The location of a Backup; "" if it names none, and for Restores."""
    return text(obj, "spec", "storageLocation")


def is_in_progress(obj: JSONObject) -> bool:
    """Whether a Backup or Restore was claimed and has not ended."""
    return (obj.get("status") or {}).get("phase") == BackupPhase.IN_PROGRESS
