"""The server's part of DataUploads and DataDownloads: makes their volumes reachable, and cleans up.

    New ──> Accepted: claim and pod are made ──> Prepared: mounted on a node, whose agent does the transfer
                 └── cancelled, not mounted within half an hour, or no agent for so long ──> Canceled, Failed
    Completed ──> a filled volume is given to its claim ──┐
    Failed, Canceled ─────────────────────────────────────┴─> everything made for it is removed, the finalizer
                                                              last: only then has the operation ended

A pass looks at what is there and takes the next step, so that any server can go on where another one ended.
Objects for another mover are left alone. (docs/spec: BEY 6.7; docs/adr/065)
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain
from math import inf
from typing import Final, Protocol

from pinnace.api import labels, phases
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.phases import TransferPhase
from pinnace.api.values.times import format_time, known_time
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.csi.movement.errors import MovementError
from pinnace.csi.movement.exposing import Exposer, selected_node
from pinnace.csi.movement.objects import (
    FINALIZER,
    TIMEOUT_SECONDS,
    claim_like,
    has_finalizer,
    is_built_in,
    is_in_place,
    phase,
)
from pinnace.csi.movement.preparing import PrepareQueue
from pinnace.csi.movement.rebinding import drop_filled, rebind, target_claim, why_unsettled
from pinnace.csi.movement.snapshots import MovedSnapshots
from pinnace.csi.movement.taking import give_back, take
from pinnace.csi.movement.uploads import is_for_us
from pinnace.csi.objects import served_kinds
from pinnace.csi.snapshots import SnapshotKinds
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import PASSING_ERRORS, Conflict, KubeError, NotFound
from pinnace.kube.resources import DATA_DOWNLOADS, DATA_UPLOADS, APIResource
from pinnace.runtime.controller import DONE, Controller, Result
from pinnace.runtime.durable import AT_ONCE, take_step
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import bound_fields, get_logger
from pinnace.volumes.outcomes import canceled_message
from pinnace.volumes.repositories import Repositories, RepositoryUnavailable
from pinnace.volumes.uploader.interface import KOPIA

log = get_logger(__name__)

DOWNLOADS_NAME: Final = "data-download"
UPLOADS_NAME: Final = "data-upload"
POLL_SECONDS: Final = 1.0
TRANSFER_POLL_SECONDS: Final = 10.0
QUEUE_POLL_SECONDS: Final = 3.0
CONSUMER_SECONDS: Final = 30.0
"""How long the first pod of a restored claim is waited for, whose node then decides where the volume is."""
EXPLAIN_SECONDS: Final = 60.0
"""After this time the status of an object says what its volume waits for."""
CANCEL_SECONDS: Final = 3600.0
LOST_CANCEL_SECONDS: Final = 300.0
"""How long an agent may take to obey `spec.cancel`, and how long it may be missing then. (docs/spec: BEY 6.4)
"""
SETTLE_SECONDS: Final = 600.0
"""How long a filled volume may take to be bound to its claim."""
_WORKERS: Final = 4
CLOCKS_DIFFER_SECONDS: Final = 3600.0
"""How far the clocks of servers may be apart; a time further in the future is nobody's."""

DELETED: Final = "it was deleted"
STILL_BUSY: Final = "its node agent did not end the transfer within an hour"
NO_AGENT_SINCE: Final = "pinnace.io/no-agent-since"
CANCEL_SINCE: Final = "pinnace.io/cancel-since"
"""Annotations with two times: when a node was first without an agent, when `spec.cancel` was first seen."""


class MovementSteps(Protocol):
    """The steps that differ between DataUploads and DataDownloads. All may raise KubeError, MovementError."""

    @property
    def resource(self) -> APIResource:
        """The kind."""
        ...

    async def reserve(self, movement: JSONObject) -> None:
        """Take what the transfer needs for itself before it waits for its turn."""
        ...

    async def node(self, movement: JSONObject, *, waited_seconds: float) -> str:
        """The node that has its volume mounted; empty until one has."""
        ...

    async def completed(self, movement: JSONObject) -> bool:
        """Take the next step after the transfer; return whether nothing is left to do."""
        ...

    async def removed(self, movement: JSONObject) -> bool:
        """Take the next step of removing what was made; return whether nothing is left."""
        ...


@dataclass(frozen=True, slots=True)
class Downloads:
    """DataDownloads: a new volume like the claim's, which gets it when it is filled, or the one it has."""

    scope: Scope
    exposer: Exposer
    repositories: Repositories

    @property
    def resource(self) -> APIResource:
        """DataDownloads."""
        return DATA_DOWNLOADS

    async def reserve(self, movement: JSONObject) -> None:
        """Take the volume of a claim that exists, before the restore creates pods that use the claim."""
        if is_in_place(movement):
            await take(self.scope.client, self.exposer, movement)

    async def node(self, movement: JSONObject, *, waited_seconds: float) -> str:
        """Make the volume, where the claim's pod is to run if that is known."""
        target = await target_claim(self.scope.client, movement)
        if is_in_place(movement):
            claim = await self.exposer.temporary_claim(movement)
            if claim is None:
                raise MovementError("the temporary claim of the volume was deleted")
            await self._ensure_repository(movement)
            return await self.exposer.node(movement, claim["spec"])
        if bound := text(target, "spec", "volumeName"):
            raise MovementError(f"the claim is bound to the volume {bound} already")
        on_node = ""
        if await self.exposer.waits_for_consumer(text(target, "spec", "storageClassName")):
            on_node = selected_node(target)
            is_early = not on_node and waited_seconds < CONSUMER_SECONDS
            if is_early and not await self.exposer.ignores_delayed_binding():
                return ""
        await self._ensure_repository(movement)
        return await self.exposer.node(movement, claim_like(target, movement), on_node=on_node)

    async def _ensure_repository(self, movement: JSONObject) -> None:
        """Wait until the repository can be read. Raises MovementError."""
        spec = movement["spec"]
        try:
            await self.repositories.ensure(
                spec["sourceNamespace"], spec["backupStorageLocation"], uploader=KOPIA
            )
        except RepositoryUnavailable as error:
            raise MovementError(str(error)) from error

    async def completed(self, movement: JSONObject) -> bool:
        """Bind the claim to the volume. Raises MovementError if that takes too long."""
        if await rebind(self.scope.client, self.exposer, movement):
            return True
        ended = text(movement, "status", "completionTimestamp")
        if ended and _seconds_since(ended, self.scope.clock.now()) > SETTLE_SECONDS:
            raise MovementError(await why_unsettled(self.scope.client, movement))
        return False

    async def removed(self, movement: JSONObject) -> bool:
        """Delete the new volume, unless the claim has it or waits for it; give an existing one back."""
        if is_in_place(movement):
            if not await give_back(self.scope.client, self.exposer, movement):
                return False
        elif not await self.exposer.remove(movement):
            return False
        else:
            await drop_filled(self.scope.client, movement)
        return await _copies_removed(self.scope, self.exposer, movement)


@dataclass(frozen=True, slots=True)
class Uploads:
    """DataUploads: a volume made of the snapshot, which is deleted with the snapshot in the end."""

    scope: Scope
    exposer: Exposer
    repositories: Repositories
    snapshots: MovedSnapshots

    @property
    def resource(self) -> APIResource:
        """DataUploads."""
        return DATA_UPLOADS

    async def reserve(self, movement: JSONObject) -> None:
        """Do nothing: the snapshot is the backup's own."""

    async def node(self, movement: JSONObject, *, waited_seconds: float) -> str:
        """Make the volume of the snapshot."""
        spec = movement["spec"]
        claim = await self.snapshots.claim_spec(movement)
        if claim is None:
            return ""
        try:
            await self.repositories.ensure(
                spec["sourceNamespace"],
                spec["backupStorageLocation"],
                uploader=KOPIA,
                backup=text(movement, "metadata", "labels", labels.BACKUP_UID) or movement["metadata"]["uid"],
            )
        except RepositoryUnavailable as error:
            raise MovementError(str(error)) from error
        return await self.exposer.node(movement, claim, of_backup=True)

    async def completed(self, movement: JSONObject) -> bool:
        """Return true: nothing is left but to remove what was made."""
        return True

    async def removed(self, movement: JSONObject) -> bool:
        """Delete the volume, and then the snapshot."""
        gone = await self.exposer.remove(movement) and await self.snapshots.remove(movement)
        return gone and await _copies_removed(self.scope, self.exposer, movement)


async def _copies_removed(scope: Scope, exposer: Exposer, movement: JSONObject) -> bool:
    """Give up the copies that its driver read; return whether that is done.

    The driver may need them to delete the volume, and has ten minutes for that.
    """
    ended = text(movement, "status", "completionTimestamp")
    is_late = _seconds_since(ended, scope.clock.now()) > SETTLE_SECONDS if ended else True
    return await exposer.copies.release(movement, although_read=is_late)


class MovementReconciler:
    """Takes the steps for the objects of one kind."""

    def __init__(self, scope: Scope, exposer: Exposer, kind: MovementSteps, queue: PrepareQueue) -> None:
        self._queue = queue
        self._scope = scope
        self._exposer = exposer
        self._kind = kind

    async def reconcile(self, key: Key) -> Result:
        """One pass."""
        resource = self._kind.resource
        with bound_fields(**{resource.kind.lower(): str(key)}):
            return await take_step(self._scope.client, resource, key, self._step)

    async def _step(self, obj: JSONObject) -> Result:
        if not concerns(obj):
            return DONE
        try:
            return await self._next(obj)
        except (Conflict, *PASSING_ERRORS):
            raise
        except (MovementError, KubeError) as error:
            return await self._give_up(obj, TransferPhase.FAILED, str(error))

    async def _next(self, obj: JSONObject) -> Result:
        now = phase(obj)
        if now in phases.TRANSFER_ENDED:
            return await self._end(obj, now)
        if "deletionTimestamp" in obj["metadata"]:
            return await self._give_up(obj, TransferPhase.CANCELED, DELETED)
        if now == TransferPhase.IN_PROGRESS:
            if why := await self._exposer.why_unmounted(obj):
                return await self._give_up(obj, TransferPhase.FAILED, why)
            return await self._await_agent(obj, has_worked=True)
        if obj["spec"].get("cancel") is True:
            return await self._give_up(obj, TransferPhase.CANCELED, canceled_message(obj))
        if now == TransferPhase.NEW:
            if is_in_place(obj) and not has_finalizer(obj):
                await self._patch(obj, {"metadata": {"finalizers": _with_finalizer(obj)}})
                return AT_ONCE
            await self._kind.reserve(obj)
            return await self._accept(obj)
        if now == TransferPhase.PREPARED:
            return await self._await_agent(obj, has_worked=False)
        waited = self._waited_seconds(obj)
        if waited > TIMEOUT_SECONDS:
            reason = await self._exposer.why_not(obj)
            told = f"its volume was not mounted within {TIMEOUT_SECONDS / 60:g} minutes: {reason}"
            return await self._give_up(obj, TransferPhase.FAILED, told)
        node = await self._kind.node(obj, waited_seconds=waited)
        if node:
            log.info("The volume is mounted", node=node)
            status = {"phase": str(TransferPhase.PREPARED), "node": node, "message": None}
            await self._patch(obj, {"status": status})
        elif waited > EXPLAIN_SECONDS:
            await self._explain(obj, await self._exposer.why_not(obj))
        return Result.after(POLL_SECONDS)

    async def _await_agent(self, obj: JSONObject, *, has_worked: bool) -> Result:
        """Wait for the agent of the node to begin or to end the work, but not where none runs any more.

        An agent has an hour to obey `spec.cancel`.
        """
        notes: dict[str, str | None] = {}
        node, canceled = text(obj, "status", "node"), obj["spec"].get("cancel") is True
        reason = await self._exposer.why_no_agent(node, has_worked=has_worked)
        lacking = self._since(obj, NO_AGENT_SINCE, notes, is_so=bool(reason))
        ignored = self._since(obj, CANCEL_SINCE, notes, is_so=canceled)
        if canceled and (lacking > LOST_CANCEL_SECONDS or ignored > CANCEL_SECONDS):
            return await self._give_up(
                obj, TransferPhase.CANCELED, f"{canceled_message(obj)}; {reason or STILL_BUSY}"
            )
        if lacking > TIMEOUT_SECONDS:
            told = f"no node agent took it up within {TIMEOUT_SECONDS / 60:g} minutes: {reason}"
            if has_worked:
                told = f"its transfer was interrupted: {reason}"
            return await self._give_up(obj, TransferPhase.FAILED, told)
        if notes:
            log.info("Data waits for a node agent", reason=reason)
            patch: JSONObject = {"metadata": {"annotations": notes}}
            if NO_AGENT_SINCE in notes and not canceled:
                patch["status"] = {"message": reason or None}
            await self._patch(obj, patch)
        return Result.after(TRANSFER_POLL_SECONDS)

    def _since(self, obj: JSONObject, name: str, notes: dict[str, str | None], *, is_so: bool) -> float:
        """The seconds since a state began, by its annotation; `notes` gets a change of the annotation."""
        noted = mapping(obj, "metadata", "annotations").get(name)
        if is_so and known_time(noted) is not None:
            return _seconds_since(str(noted), self._scope.clock.now())
        if is_so or noted:
            notes[name] = format_time(self._scope.clock.now()) if is_so else None
        return 0.0

    async def _explain(self, obj: JSONObject, reason: str) -> None:
        """Say in the status what is waited for."""
        if text(obj, "status", "message") != reason:
            log.info("A volume is not mounted yet", reason=reason)
            await self._patch(obj, {"status": {"message": reason}})

    async def _accept(self, obj: JSONObject) -> Result:
        patch = {
            "metadata": {"finalizers": _with_finalizer(obj)},
            "status": {
                "phase": str(TransferPhase.ACCEPTED),
                "acceptedTimestamp": format_time(self._scope.clock.now()),
            },
        }
        if await self._queue.accept(obj, partial(self._patch, obj, patch)):
            return AT_ONCE
        return Result.after(QUEUE_POLL_SECONDS)

    async def _end(self, obj: JSONObject, now: str) -> Result:
        """Do what is left of an object in its terminal phase, and remove the finalizer."""
        if not has_finalizer(obj):
            return DONE
        if now == TransferPhase.COMPLETED and not await self._kind.completed(obj):
            return Result.after(POLL_SECONDS)
        try:
            if not await self._kind.removed(obj):
                return Result.after(POLL_SECONDS)
            kept = [each for each in listed(obj, "metadata", "finalizers") if each != FINALIZER]
            await self._patch(obj, {"metadata": {"finalizers": kept}})
        except (Conflict, *PASSING_ERRORS):
            raise
        except (MovementError, KubeError) as error:
            # The phase stays as it is, and so does the object, until everything is removed.
            log.error("Objects that were made to move data cannot be removed yet", reason=str(error))
            return Result.after(TRANSFER_POLL_SECONDS)
        return DONE

    async def _give_up(self, obj: JSONObject, to: TransferPhase, reason: str) -> Result:
        log.warning("Data is not moved", phase=to, reason=reason)
        status = {
            "phase": str(to),
            "message": reason,
            "completionTimestamp": format_time(self._scope.clock.now()),
        }
        try:
            await self._patch(obj, {"status": status})
        except NotFound:
            return DONE
        return AT_ONCE

    async def _patch(self, obj: JSONObject, patch: JSONObject) -> None:
        """Change the object, unless it has changed since it was read."""
        metadata = obj["metadata"]
        patch.setdefault("metadata", {})["resourceVersion"] = metadata["resourceVersion"]
        await self._scope.client.patch(self._kind.resource, metadata["name"], patch, metadata["namespace"])

    def _waited_seconds(self, obj: JSONObject) -> float:
        since = text(obj, "status", "acceptedTimestamp")
        return _seconds_since(since, self._scope.clock.now()) if since else 0.0


def _with_finalizer(obj: JSONObject) -> list[str]:
    return list(dict.fromkeys([*listed(obj, "metadata", "finalizers"), FINALIZER]))


def _seconds_since(moment: str, now: datetime) -> float:
    """The seconds since a time of an object; endless for one that no clock has shown."""
    noted = known_time(moment)
    passed = -inf if noted is None else (now - noted).total_seconds()
    return passed if passed > -CLOCKS_DIFFER_SECONDS else inf


def concerns(obj: JSONObject) -> bool:
    """Whether something is to be done about an object."""
    if not is_built_in(obj):
        return False
    has_ended = phase(obj) in phases.TRANSFER_ENDED
    return not has_ended or FINALIZER in (mapping(obj, "metadata").get("finalizers") or [])


def uploads_controller(parts: Parts) -> Controller:
    """The DataUpload controller of a server."""
    scope = parts.scope
    exposer = Exposer(scope.client, scope.namespace, fresh_seconds=TRANSFER_POLL_SECONDS / 2)
    repositories = parts.repositories

    def reconciler(kinds: SnapshotKinds) -> MovementReconciler:
        moved = MovedSnapshots(scope.client, kinds, scope.namespace)
        uploads = Uploads(scope, exposer, repositories, moved)
        return MovementReconciler(scope, exposer, uploads, prepare_queue(parts, exposer))

    made = Controller(
        UPLOADS_NAME,
        queue=parts.queue(),
        clock=parts.scope.clock,
        resync=None,
        workers=_WORKERS,
        reconcile=_OnceServed(scope.client, reconciler).reconcile,
    )
    made.watch(parts.informers.of(DATA_UPLOADS), predicate=lambda obj: concerns(obj) and is_for_us(obj))
    return made


def prepare_queue(parts: Parts, exposer: Exposer) -> PrepareQueue:
    """The queue of a controller; what the other one accepts is seen a moment later."""
    informers = [parts.informers.of(kind) for kind in (DATA_UPLOADS, DATA_DOWNLOADS)]
    return PrepareQueue(
        lambda: chain.from_iterable(informer.objects() for informer in informers),
        exposer.prepare_queue_length,
    )


class _OnceServed:
    """Moves data of CSI snapshots once the cluster serves them, which may be after the server's start."""

    def __init__(self, client: KubeClient, reconciler: Callable[[SnapshotKinds], MovementReconciler]) -> None:
        self._client = client
        self._new_reconciler = reconciler
        self._reconciler: MovementReconciler | None = None

    async def reconcile(self, key: Key) -> Result:
        """Take a step of one DataUpload. Raises KubeError."""
        if self._reconciler is None:
            kinds = await served_kinds(self._client)
            if kinds is None:
                log.warning(
                    "The cluster serves no CSI snapshots, so that none can be moved", dataupload=str(key)
                )
                return DONE
            self._reconciler = self._new_reconciler(kinds)
        return await self._reconciler.reconcile(key)


def downloads_controller(parts: Parts) -> Controller:
    """The DataDownload controller of a server."""
    scope = parts.scope
    exposer = Exposer(scope.client, scope.namespace, fresh_seconds=TRANSFER_POLL_SECONDS / 2)
    repositories = parts.repositories
    kind = Downloads(scope, exposer, repositories)
    reconciler = MovementReconciler(scope, exposer, kind, prepare_queue(parts, exposer))
    made = Controller(
        DOWNLOADS_NAME, reconciler.reconcile, workers=_WORKERS, clock=parts.scope.clock, queue=parts.queue()
    )
    made.watch(parts.informers.of(DATA_DOWNLOADS), predicate=concerns)
    return made
