"""Settles orphans: Backups and Restores that are still InProgress and that no running server owns.

Backups are never resumed; Restores are by their controller, where this server may do that without being asked
(docs/adr/131). If the location already holds a backup's metadata with a terminal phase, the end came after
the upload and the status is taken from there; so it is if the backup waits for operations of plugins.
Everything else is Failed, with the reason; the transfers of volumes that it has begun are cancelled first,
and CSI snapshots that were to be moved and have no DataUpload are deleted.
(docs/spec: CTL 15, SRV 13)
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from pinnace.api import labels, phases
from pinnace.api.codec import DecodeError, decode, encode
from pinnace.api.labels import ENCRYPTED, INTERRUPTED, ITEM_OPERATIONS, RESUME_REQUESTED, SIZE_BYTES
from pinnace.api.nonadmin.names import tenant_of
from pinnace.api.objects import JSONObject, text
from pinnace.api.phases import BackupPhase
from pinnace.api.resuming import MOST_RESUMES, times_resumed
from pinnace.api.values.digits import is_digits
from pinnace.api.values.times import format_time, known_time
from pinnace.api.velero.backup import Backup
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.writes import NO_ACTIVITY, Run
from pinnace.csi.movement.uploads import CONTENT
from pinnace.csi.objects import delete_objects, served_kinds
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import APIStatusError, KubeError, NotFound
from pinnace.kube.resources import (
    BACKUPS,
    DATA_DOWNLOADS,
    DATA_UPLOADS,
    POD_VOLUME_BACKUPS,
    POD_VOLUME_RESTORES,
    RESTORES,
    APIResource,
)
from pinnace.runtime.durable import INTERRUPTED_SECONDS
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.storage.errors import ObjectNotFound, StorageError, StoreUnavailable
from pinnace.volumes.outcomes import is_cancel_wanted, phase_of

log = get_logger(__name__)

ORPHAN_REASON: Final = 'get a {kind} with status "InProgress" during the server starting, mark it as "Failed"'
LATE_REASON: Final = "the {kind} was InProgress, but no server worked on it any more"
INTERRUPTED_REASON: Final = "the server was stopped before the {kind} had ended"

STORE_SECONDS: Final = 30.0
"""How long one location is asked; a location out of reach must not keep a server from starting."""

LOCATIONS_AT_ONCE: Final = 16

_UNKNOWN_END: Final = "Cannot tell whether the backup was stored"


CANCEL_MESSAGE: Final = "it was canceled, as its {kind} {name} failed: {reason}"
_TRANSFERS: Final = {
    BACKUPS: (labels.BACKUP_UID, (DATA_UPLOADS, POD_VOLUME_BACKUPS)),
    RESTORES: (labels.RESTORE_UID, (DATA_DOWNLOADS, POD_VOLUME_RESTORES)),
}


@dataclass(frozen=True, slots=True)
class Settler:
    """Gives Backups and Restores of the server's namespace that were left InProgress their terminal state.

    Args:
        resumes: whether interrupted Restores are resumed without being asked.
        left: the Restores that a dead server left, for their controller to resume; it takes them out.
        ask_kinds: returns the kinds of CSI snapshots that the cluster serves now; None if it serves none.
    """

    scope: Scope
    locations: LocationStores
    _: KW_ONLY
    resumes: bool = False
    left: set[Key] = field(default_factory=set)
    ask_kinds: Callable[[KubeClient], Awaitable[SnapshotKinds | None]] = served_kinds

    async def settle_orphans(self) -> None:
        """Settle the orphans of a dead server. Only while no other server can be working.

        An orphan that the API server refuses to change is logged and does not keep the server from starting.
        Locations are asked side by side; a location that did not answer once is not asked again.
        """
        lanes: dict[str, list[tuple[APIResource, JSONObject]]] = {}
        for resource in (BACKUPS, RESTORES):
            for obj in await self.scope.client.list_all(resource, self.scope.namespace):
                if is_in_progress(obj) and self.may_resume(resource, obj):
                    self.left.add(Key.of(obj))
                elif is_in_progress(obj):
                    lanes.setdefault(_location(obj), []).append((resource, obj))
        waiting = iter(lanes.values())
        settled = await asyncio.gather(
            *(self._settle_lanes(waiting) for _ in range(min(len(lanes), LOCATIONS_AT_ONCE))),
            return_exceptions=True,
        )
        for failure in settled:
            if isinstance(failure, BaseException):
                raise failure

    def may_resume(self, resource: APIResource, obj: JSONObject) -> bool:
        """Whether this server resumes an orphan instead of settling it."""
        return self.resumes and resource == RESTORES and times_resumed(obj) < MOST_RESUMES

    async def _settle_lanes(self, lanes: Iterator[list[tuple[APIResource, JSONObject]]]) -> None:
        """Settle the orphans of one location after the other."""
        for orphans in lanes:
            answers = True
            for resource, obj in orphans:
                with bound_fields(**{resource.kind.lower(): str(Key.of(obj))}):
                    log.warning(f"{resource.kind} was left InProgress by a former server")
                    stored, answers = await self._ask_location(resource, obj, ask=answers)
                    try:
                        await self._settle(resource, obj, stored, ORPHAN_REASON)
                    except APIStatusError as error:
                        log.warning("Could not settle an orphan, it is left InProgress", error=error)
                    if answers and stored is None and resource == BACKUPS:
                        await self._abort_upload(obj)

    async def settle_late(self, resource: APIResource, obj: JSONObject, problem: str = "") -> None:
        """Settle an orphan that shows up later, as its claim was stored after the former server ended.

        Only while no other server can be working.

        Args:
            problem: why it is not resumed; empty where it was not to be.

        Raises:
            KubeError: it is still InProgress; no event may ever show it again, so try again.
        """
        log.warning(f"{resource.kind} is InProgress, but the server that took it is gone")
        stored, answers = await self._ask_location(resource, obj)
        reason = LATE_REASON + ("; " + problem.replace("{", "{{").replace("}", "}}") if problem else "")
        await self._settle(resource, obj, stored, reason)
        if answers and stored is None and resource == BACKUPS:
            await self._abort_upload(obj)

    async def settle_interrupted(self, resource: APIResource, run: Run) -> None:
        """Settle interrupted work of this server, trying for a short time."""
        key = Key(run.metadata.namespace, run.metadata.name)
        try:
            async with asyncio.timeout(INTERRUPTED_SECONDS):
                obj = await self.scope.client.get(resource, key.name, key.namespace)
                if is_in_progress(obj) and obj["metadata"]["uid"] == run.metadata.uid:
                    if self.may_resume(resource, obj):
                        log.info("The next server resumes the interrupted Restore", key=str(key))
                        return
                    stored, _ = await self._ask_location(resource, obj)
                    await self._settle(resource, obj, stored, INTERRUPTED_REASON)
        except (KubeError, TimeoutError) as error:
            log.warning("Interrupted work stays InProgress until a server starts", error=error)

    async def _ask_location(
        self, resource: APIResource, obj: JSONObject, *, ask: bool = True
    ) -> tuple[dict[str, Any] | None, bool]:
        """The patch to the end of an orphan that its location knows, and whether to ask it about others.

        Args:
            ask: whether the location of a backup is asked about its end.
        """
        if resource != BACKUPS:
            return None, ask
        if not ask:
            log.warning(_UNKNOWN_END, key=str(Key.of(obj)), error="its location did not answer before")
            return None, False
        try:
            return await self._stored_state(obj), True
        except (StoreUnavailable, TimeoutError) as error:
            log.warning(_UNKNOWN_END, key=str(Key.of(obj)), error=error)
            return None, False

    async def _settle(
        self, resource: APIResource, obj: JSONObject, stored: dict[str, Any] | None, reason: str
    ) -> None:
        """Settle one orphan. Raises KubeError.

        Args:
            stored: the patch to its end as its location has it; None if that is not known.
            reason: why it is Failed in that case.
        """
        patch = stored
        if patch is None:
            why = reason.format(kind=resource.kind.lower())
            patch = {
                "status": {
                    "phase": str(BackupPhase.FAILED),
                    "failureReason": why,
                    "completionTimestamp": format_time(self.scope.clock.now()),
                }
            }
            if resource == RESTORES:
                patch["metadata"] = {"annotations": {INTERRUPTED: "true", RESUME_REQUESTED: None}}
            # Before the object ends: no server looks at it again after that.
            await self._cancel_transfers(resource, obj, why)
        patch["status"] = {**patch["status"], **NO_ACTIVITY}
        key, version = Key.of(obj), obj["metadata"]["resourceVersion"]
        patch.setdefault("metadata", {})["resourceVersion"] = version
        await self.scope.client.patch(resource, key.name, patch, key.namespace)
        log.info("Settled", key=str(key), phase=patch["status"]["phase"])
        self._count(resource, obj, patch["status"]["phase"])
        if stored is None and resource == BACKUPS:
            await self._delete_snapshots(obj)

    def _count(self, resource: APIResource, obj: JSONObject, phase: str) -> None:
        """Count the outcome: the counters of the server that began the run are gone with it."""
        if resource == BACKUPS:
            schedule = text(obj, "metadata", "labels", labels.SCHEDULE_NAME)
            self.scope.metrics.backup_finished(schedule, phase)
        else:
            self.scope.metrics.restore_finished(text(obj, "spec", "scheduleName"), phase)

    async def _cancel_transfers(self, resource: APIResource, obj: JSONObject, why: str) -> None:
        """Set `spec.cancel` of the DataUploads, PodVolumeBackups and so on that have not ended. (BEY-013)"""
        label, kinds = _TRANSFERS[resource]
        selector = f"{label}={obj['metadata']['uid']}"
        message = CANCEL_MESSAGE.format(kind=resource.kind, name=obj["metadata"]["name"], reason=why)
        for kind in kinds:
            try:
                found = await self.scope.client.list_all(kind, self.scope.namespace, label_selector=selector)
            except NotFound:
                continue  # the cluster has no such kind
            for transfer in found:
                if phase_of(transfer) in phases.TRANSFER_ENDED or is_cancel_wanted(transfer):
                    continue
                key = Key.of(transfer)
                patch = {"spec": {"cancel": True}, "status": {"message": message}}
                try:
                    await self.scope.client.patch(kind, key.name, patch, key.namespace)
                except APIStatusError as error:
                    log.warning(f"A {kind.kind} is not canceled", key=str(key), error=error)

    async def _delete_snapshots(self, obj: JSONObject) -> None:
        """Delete the snapshots of a backup that were to be moved and have no DataUpload, which would do it.

        Those that cannot be deleted now have the label of the backup, and are deleted with it.
        """
        name = obj["metadata"]["name"]
        if (obj.get("spec") or {}).get("snapshotMoveData") is not True:
            return
        selector = f"{labels.BACKUP_UID}={obj['metadata']['uid']}"
        try:
            async with asyncio.timeout(STORE_SECONDS):
                kinds = await self.ask_kinds(self.scope.client)
                if kinds is None:
                    return
                uploads = await self.scope.client.list_all(
                    DATA_UPLOADS, self.scope.namespace, label_selector=selector
                )
                moved = {text(upload, "metadata", "annotations", CONTENT) for upload in uploads}
                problems, _ = await delete_objects(self.scope.client, kinds, name, kept=moved)
        except (KubeError, TimeoutError) as error:
            problems = [str(error) or "the time was up"]
        for problem in problems:
            log.warning("A CSI snapshot stays until its backup is deleted", backup=name, error=problem)

    async def _abort_upload(self, obj: JSONObject) -> None:
        """Abort what a dead server was uploading of a backup; its parts go with the backup at the latest."""
        began = known_time(text(obj, "status", "startTimestamp"))
        try:
            async with asyncio.timeout(STORE_SECONDS), self.locations.open(_location(obj)) as store:
                await store.abort_interrupted(obj["metadata"]["name"], obj["metadata"]["uid"], began)
        except (StorageError, KubeError, TimeoutError) as error:
            log.debug("Cannot tell whether an upload was interrupted", key=str(Key.of(obj)), error=error)

    async def _stored_state(self, obj: JSONObject) -> dict[str, Any] | None:
        """The patch to what the location says of this very backup, if it ended there or waits there.

        Raises:
            StoreUnavailable, TimeoutError: the location does not answer.
        """
        key, location = Key.of(obj), _location(obj)
        try:
            async with asyncio.timeout(STORE_SECONDS), self.locations.open(location) as store:
                tenant = tenant_of((await self.locations.location(location)).metadata)
                stored = decode(Backup, await (await store.located(key.name)).get_metadata(key.name))
        except ObjectNotFound:
            return None
        except StoreUnavailable:
            raise
        except (StorageError, KubeError, DecodeError) as error:
            log.warning(_UNKNOWN_END, key=str(key), error=error)
            return None
        if stored.metadata.uid != obj["metadata"]["uid"]:
            return None
        notes = stored.metadata.annotations
        known = {SIZE_BYTES: size} if is_digits(size := notes.get(SIZE_BYTES, "")) else {}
        if ENCRYPTED in notes:
            known[ENCRYPTED] = "true"
        if stored.status.phase in phases.ENDED:
            metadata = {"metadata": {"annotations": known}} if known else {}
            return {**metadata, "status": encode(stored.status)}
        digest = notes.get(ITEM_OPERATIONS)
        if stored.status.phase in phases.WAITING and digest and not tenant:
            # What a tenant's location says of operations is not believed. (docs/adr/054)
            annotations = {**known, ITEM_OPERATIONS: digest}
            return {"metadata": {"annotations": annotations}, "status": encode(stored.status)}
        return None


def _location(obj: JSONObject) -> str:
    """The location of a Backup; "" if it names none, and for Restores."""
    return text(obj, "spec", "storageLocation")


def is_in_progress(obj: JSONObject) -> bool:
    """Whether a Backup or Restore was claimed and has not ended."""
    return (obj.get("status") or {}).get("phase") == BackupPhase.IN_PROGRESS
