"""Ends the Backups and Restores that a Velero server of a later version left before their terminal phase.

Velero has phases between the upload and the end: WaitingForPluginOperations and Finalizing (1.11). Where
Pinnace uses them, an annotation says so; with the others only a Velero server can go on. (From Queued and
ReadyToStart of 1.18 any server goes on: nothing has been done yet.) That server counts as gone when no pod of
the namespace runs `velero server` and nothing has changed the object for an hour while this server watched.
Where pods may not be read, nothing is ended. (docs/spec: CTL 15, BEY 4.2)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pinnace.api import phases
from pinnace.api.objects import JSONObject, listed, mapping, text
from pinnace.api.pod_hooks import is_ended
from pinnace.api.values.times import format_time
from pinnace.controllers.shared.parts import Parts
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import Conflict, Forbidden, NotFound
from pinnace.kube.resources import BACKUPS, PODS, RESTORES, APIResource
from pinnace.runtime.cache import Cache
from pinnace.runtime.controller import Controller, Resync
from pinnace.runtime.keys import Key
from pinnace.runtime.logfields import get_logger

log = get_logger(__name__)

NAME: Final = "foreign-runs"
PERIOD_SECONDS: Final = 60.0
GRACE_SECONDS: Final = 3600.0
"""For how long an object must be unchanged; a Velero server that restarts is back long before."""

REASON: Final = (
    "left in phase {phase} by a Velero server of a later version, and no Velero server has gone on with it "
    "for {minutes:g} minutes: create the {kind} again"
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A state of an object, and when it was first seen, by the monotonic clock."""

    version: str
    since: float


class ForeignRuns:
    """Ends objects in phases that only a Velero server goes on from.

    Args:
        backups, restores: caches of all Backups and Restores.
    """

    def __init__(self, scope: Scope, *, backups: Cache, restores: Cache) -> None:
        self._scope = scope
        self._caches = ((BACKUPS, backups), (RESTORES, restores))
        self._seen: dict[tuple[str, str], _Seen] = {}

    async def resync(self) -> None:
        """Log new objects, and end those that have been unchanged for an hour. Raises KubeError."""
        due = []
        seen = {}
        for resource, obj in self._foreign():
            name = resource.name, text(obj, "metadata", "uid")
            version = text(obj, "metadata", "resourceVersion")
            known = self._seen.get(name)
            if known is None:
                self._tell(resource, obj)
            if known is None or known.version != version:
                known = _Seen(version, self._scope.clock.monotonic())
            seen[name] = known
            if self._scope.clock.monotonic() - known.since >= GRACE_SECONDS:
                due.append((resource, obj))
        self._seen = seen
        if due and not await self._velero_may_run():
            await self._end(due)

    def _foreign(self) -> Iterable[tuple[APIResource, JSONObject]]:
        for resource, cache in self._caches:
            for obj in cache.objects():
                if phases.is_foreign(obj):
                    yield resource, obj

    def _tell(self, resource: APIResource, obj: JSONObject) -> None:
        log.warning(
            f"{resource.kind} is in a phase of a Velero server of a later version, which alone can go on "
            f"with it; it is ended if none does for {GRACE_SECONDS / 60:g} minutes",
            key=str(Key.of(obj)),
            phase=text(obj, "status", "phase"),
        )

    async def _velero_may_run(self) -> bool:
        """Whether a pod of the namespace runs a Velero server; also when that cannot be found out."""
        try:
            pods = await self._scope.client.list_all(PODS, self._scope.namespace)
        except Forbidden as error:
            log.warning("Cannot tell whether a Velero server runs: its objects are left alone", error=error)
            return True
        return any(_runs_velero(pod) for pod in pods)

    async def _end(self, due: Sequence[tuple[APIResource, JSONObject]]) -> None:
        for resource, obj in due:
            key, phase = Key.of(obj), text(obj, "status", "phase")
            status = {
                "phase": str(phases.CUT_SHORT),
                "failureReason": REASON.format(
                    phase=phase, minutes=GRACE_SECONDS / 60, kind=resource.kind.lower()
                ),
                "completionTimestamp": format_time(self._scope.clock.now()),
            }
            version = {"resourceVersion": text(obj, "metadata", "resourceVersion")}
            try:
                await self._scope.client.patch(
                    resource, key.name, {"metadata": version, "status": status}, key.namespace
                )
            except (Conflict, NotFound) as error:
                log.info("Object has changed meanwhile and is left alone", key=str(key), error=error)
            else:
                log.warning(f"Ended a {resource.kind} of a Velero server that is gone", key=str(key))


def controller(parts: Parts) -> Controller:
    """The controller that ends runs of Velero servers that are gone. Only for a server that leads."""
    backups, restores = parts.informers.of(BACKUPS), parts.informers.of(RESTORES)
    runs = ForeignRuns(parts.scope, backups=backups, restores=restores)
    made = Controller(NAME, resync=Resync(runs.resync, PERIOD_SECONDS), clock=parts.scope.clock)
    made.wait_for(backups, restores)
    return made


def _runs_velero(pod: JSONObject) -> bool:
    """Whether a pod that has not ended has a container with the command `velero server`."""
    if is_ended(pod):
        return False
    for container in listed(mapping(pod, "spec"), "containers"):
        words = [str(word) for word in (*listed(container, "command"), *listed(container, "args"))]
        if any(word.rsplit("/", 1)[-1] == "velero" for word in words) and "server" in words:
            return True
    return False
