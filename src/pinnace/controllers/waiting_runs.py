"""Shows why new Backups and Restores have not begun: their queue position, and what they wait for.

Every few seconds those that still wait are looked at together: a Backup becomes Queued with its position, as
in Velero 1.18, and both kinds get an annotation with the reason. One that begins at once is never touched,
and only the first hundred of each kind are: the others stay New. The first three show their exact position
and what runs before them; those behind show an estimate, so that not all are rewritten each time that one
begins. Objects made for tenants show an estimate when they are among the first three, as the request itself
shows its position.
What is shown decides nothing: a server takes an object that is Queued or ReadyToStart like one that is New.
(docs/spec: BEY 4.11; docs/adr/046)
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.api.labels import WAITS_FOR
from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject, mapping, text
from pinnace.api.phases import BackupPhase
from pinnace.api.values.counts import first_names
from pinnace.api.values.queue_positions import NEAR, is_much_lower, is_worth_showing
from pinnace.controllers.shared.namespace_queue import NamespaceQueue
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.runs import is_new
from pinnace.controllers.shared.scope import Scope
from pinnace.controllers.shared.settling import is_in_progress
from pinnace.kube.errors import BadRequest, Conflict, Invalid, NotFound
from pinnace.kube.resources import BACKUPS, RESTORES, APIResource
from pinnace.runtime.cache import Cache
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NAME: Final = "backup-queue"
"""As in Velero 1.18, for `--disable-controllers`."""

PERIOD_SECONDS: Final = 2.0
MOST_SHOWN: Final = 100
_NAMED: Final = 3
_FOR_WORKER: Final = "a free worker of the server"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRuns:
    """The objects of one kind, and what the new ones wait for.

    Attributes:
        cache: all objects of the kind.
        in_flight: keys of the objects that this server works on.
        queue: the objects that must not start yet, in their order; None if they only wait for free workers.
        has_positions: whether the kind has the phase Queued.
        limit: says which limit keeps an object from a worker, if not all workers are busy.
    """

    resource: APIResource
    cache: Cache
    in_flight: Collection[Key]
    queue: NamespaceQueue | None
    has_positions: bool
    limit: Callable[[Key], str] = lambda _key: ""


class WaitingRuns:
    """Keeps status and annotation of the waiting objects of one kind up to date."""

    def __init__(self, scope: Scope, queue: QueuedRuns) -> None:
        self._scope = scope
        self._queue = queue
        self._kind = queue.resource.kind.lower()
        self._has_positions = queue.has_positions
        self._waited: set[Key] = set()

    async def resync(self) -> None:
        """One round; makes no request when nothing has changed. Raises KubeError."""
        waiting = {Key.of(obj): obj for obj in self._queue.cache.objects() if self._waits(obj)}
        held = {key: blocker for key, blocker in self._held() if key in waiting}
        # Those that must wait for others have been planned already; the rest waits for a free worker.
        others = sorted(waiting.keys() - held.keys(), key=lambda key: (_created(waiting[key]), key))
        before, self._waited = self._waited, set(waiting)
        if not before & waiting.keys():
            return
        runs = self._running()  # once: it looks at all objects
        for position, key in enumerate([*held, *others][:MOST_SHOWN], start=1):
            of_tenant = _is_of_tenant(waiting[key])
            if key not in before or (of_tenant and position > NEAR):
                continue
            is_exact = position <= NEAR and not of_tenant
            if key in held:
                other = f"{self._kind} {held[key].name}" if is_exact else f"other {self._kind}s"
                reason = f"{other}, which may work on the same namespaces"
            else:
                reason = f"{_FOR_WORKER}{self._queue.limit(key)}{runs}" if is_exact else _FOR_WORKER
            await self._show(waiting[key], position, reason)

    def _waits(self, obj: JSONObject) -> bool:
        deleting = mapping(obj, "metadata").get("deletionTimestamp")
        return is_new(obj) and not deleting and Key.of(obj) not in self._queue.in_flight

    def _held(self) -> Sequence[tuple[Key, Key]]:
        return self._queue.queue.waiting() if self._queue.queue is not None else ()

    def _running(self) -> str:
        running = sorted(Key.of(obj).name for obj in self._queue.cache.objects() if is_in_progress(obj))
        if not running:
            return ""
        return f", which runs {self._kind} {first_names(running, _NAMED)}"

    async def _show(self, obj: JSONObject, position: int, reason: str) -> None:
        metadata: JSONObject = {}
        if text(obj, "metadata", "annotations", WAITS_FOR) != reason:
            metadata["annotations"] = {WAITS_FOR: reason}
        patch: JSONObject = {"metadata": metadata} if metadata else {}
        if self._has_positions and _is_due(obj, position):
            patch["status"] = {"phase": str(BackupPhase.QUEUED), "queuePosition": position}
        if not patch:
            return
        key, resource = Key.of(obj), self._queue.resource
        # An object that has begun meanwhile must not be shown as waiting.
        metadata["resourceVersion"] = text(obj, "metadata", "resourceVersion")
        try:
            await self._scope.client.patch(resource, key.name, {**patch, "metadata": metadata}, key.namespace)
        except (Conflict, NotFound):
            return  # the next round decides by its present state
        except (Invalid, BadRequest) as error:
            if "status" not in patch:
                raise
            log.warning(
                "Positions in the queue are not shown: the definition of Backups is of a Velero before 1.18",
                error=error,
            )
            self._has_positions = False


def _is_due(backup: JSONObject, position: int) -> bool:
    """Whether to write a Backup's position, by what it shows now."""
    status = mapping(backup, "status")
    shown = status.get("queuePosition")
    if status.get("phase") != BackupPhase.QUEUED or not isinstance(shown, int):
        return True
    if _is_of_tenant(backup):
        return is_much_lower(shown, position)
    return is_worth_showing(shown, position) or shown < position <= NEAR


def _is_of_tenant(obj: JSONObject) -> bool:
    """Whether the object was made for a request of self-service, whose status shows the position."""
    annotations = mapping(obj, "metadata", "annotations")
    return any(annotations.get(origin.namespace_annotation) for origin in (Origin.BACKUP, Origin.RESTORE))


def _created(obj: JSONObject) -> str:
    return text(obj, "metadata", "creationTimestamp")


def controller(parts: Parts) -> Controller:
    """The controller that shows what waits. Make it after the controllers of Backups and Restores."""
    in_flight = {BACKUPS: parts.backups_in_flight, RESTORES: parts.restores_in_flight}
    queues = [
        QueuedRuns(
            resource=resource,
            cache=parts.informers.of(resource),
            in_flight=in_flight[resource],
            queue=queue,
            has_positions=resource == BACKUPS,
            limit=parts.limits.get(resource, lambda _key: ""),
        )
        for resource, queue in parts.namespace_queues.items()
    ]
    shown = [WaitingRuns(parts.scope, queue) for queue in queues]

    async def resync() -> None:
        for each in shown:
            await each.resync()

    made = Controller(NAME, resync=Resync(resync, PERIOD_SECONDS), clock=parts.scope.clock)
    made.wait_for(*(parts.informers.of(queue.resource) for queue in queues))
    return made
