"""The flows of self-service over the scripted cluster, and caches that are in step with it or lag behind."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import NAMESPACES, APIResource, velero
from pinnace.nonadmin.caches import CACHED, Cached
from pinnace.nonadmin.collector import Leftovers
from pinnace.nonadmin.flows.driver import FlowDriver, StepFailed
from pinnace.nonadmin.flows.limits import Slots
from pinnace.nonadmin.loading import BackupFlow, DownloadFlow, FlowContext, LocationFlow, RestoreFlow
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.controller import Result
from pinnace.runtime.keys import Key
from tests.support.cluster.scripted_cluster import ScriptedCluster
from tests.support.cluster.scripted_requests import READS

SERVER = "velero"
BACKUPS, RESTORES = velero("backups"), velero("restores")
LOCATIONS, DELETE_REQUESTS = velero("backupstoragelocations"), velero("deletebackuprequests")
DOWNLOADS = velero("downloadrequests")


class Crash(BaseException):
    """The process ends between two calls."""


def on_writes(hook: Callable[[str, str, str], object]) -> Callable[[str, str, str], None]:
    """For `before`: call a hook before each write, which may raise what shall fail."""

    def check(verb: str, plural: str, name: str) -> None:
        if verb not in READS:
            hook(verb, plural, name)

    return check


class UUIDs:
    """UUIDs that no process has drawn before, one before a crash included."""

    def __init__(self, cluster: ScriptedCluster) -> None:
        self._life = len(cluster.requests)
        self._numbers = itertools.count(1)

    def __call__(self) -> str:
        return f"{self._life:08d}-0000-4000-8000-{next(self._numbers):012d}"


class View:
    """A cache of one kind, always in step unless it is frozen."""

    def __init__(self, cluster: ScriptedCluster, cached: Cached) -> None:
        self._cluster = cluster
        self._cached = cached
        self._frozen: list[JSONObject] | None = None

    def freeze(self) -> None:
        """Lag: show from now on what there is now."""
        self._frozen = copy.deepcopy(self._cluster.of(self._cached.resource))

    def thaw(self) -> None:
        self._frozen = None

    def get(self, key: Key) -> JSONObject | None:
        return next((obj for obj in self.objects() if Key.of(obj) == key), None)

    def keys(self) -> list[Key]:
        return [Key.of(obj) for obj in self.objects()]

    def objects(self) -> list[JSONObject]:
        if self._frozen is not None:
            return self._frozen
        return self._cluster.of(self._cached.resource)

    def by_index(self, index: str, value: str) -> list[JSONObject]:
        return [obj for obj in self.objects() if value in self._cached.indexes[index](obj)]


class InStepQueue(WaitingQueue):
    """The queue, always in step with the cluster."""

    def __init__(self, cluster: ScriptedCluster, resource: APIResource) -> None:
        super().__init__()
        self._cluster = cluster
        self._resource = resource

    def position(self, obj: JSONObject | None) -> int:
        queue = WaitingQueue()
        for each in self._cluster.of(self._resource):
            queue.put(each)
        return queue.position(obj)


class InStepSlots(Slots):
    """The slots, always in step with the cluster."""

    def __init__(self, cluster: ScriptedCluster, origin: Origin, resource: APIResource) -> None:
        super().__init__(origin)
        self._cluster = cluster
        self._resource = resource

    def taken(self, namespace: str, *, besides: str = "") -> int:
        for obj in self._cluster.of(self._resource):
            self.put(obj)
        return super().taken(namespace, besides=besides)


class Service:
    """The reconcilers of self-service over a cluster in memory."""

    def __init__(self, cluster: ScriptedCluster | None = None, settings: AdminSettings | None = None) -> None:
        self.cluster = cluster or ScriptedCluster()
        self.cluster.add(NAMESPACES, SERVER)
        self.settings = settings or AdminSettings()
        self.views = {cached.resource: View(self.cluster, cached) for cached in CACHED}
        self.lookups = Lookups(self.cluster.client, SERVER, self.views)
        context = FlowContext(
            lookups=self.lookups,
            settings=lambda: self.settings,
            backups=InStepQueue(self.cluster, BACKUPS),
            restores=InStepQueue(self.cluster, RESTORES),
            backup_slots=InStepSlots(self.cluster, Origin.BACKUP, BACKUPS),
            restore_slots=InStepSlots(self.cluster, Origin.RESTORE, RESTORES),
            clock=self.cluster.clock,
            new_uuid=UUIDs(self.cluster),
        )
        flows = (BackupFlow(context), RestoreFlow(context), LocationFlow(context), DownloadFlow(context))
        makes = {NON_ADMIN_BACKUPS: BACKUPS, NON_ADMIN_RESTORES: RESTORES}
        self.reconcilers = {}
        for flow in flows:
            made = makes.get(flow.resource)
            leftovers = Leftovers(self.cluster.client, self.views[made], made) if made else None
            self.reconcilers[flow.resource] = FlowDriver(
                self.cluster.client,
                flow,
                gone=leftovers.remove if leftovers else None,
                cached=self.views[flow.resource].get,
            )

    async def look(self, resource: APIResource, namespace: str, name: str) -> Result | None:
        """One pass; None if it ended with an error."""
        try:
            return await self.reconcilers[resource].reconcile(Key(namespace, name))
        except (StepFailed, KubeError):
            return None

    async def settle(self, rounds: int = 12) -> None:
        """Pass over all requests until a round changes nothing."""
        for _ in range(rounds):
            before = len(self.cluster.effects())
            for resource, key in list(self._requests()):
                await self.look(resource, *key)
            if len(self.cluster.effects()) == before:
                return
        raise AssertionError(f"not settled after {rounds} rounds: {self.cluster.effects()[-10:]}")

    def _requests(self) -> Iterator[tuple[APIResource, Key]]:
        for resource in (NON_ADMIN_LOCATIONS, NON_ADMIN_BACKUPS, NON_ADMIN_RESTORES, NON_ADMIN_DOWNLOADS):
            for obj in self.cluster.of(resource):
                yield resource, Key.of(obj)


def finished(phase: str, when: datetime, **members: Any) -> JSONObject:
    """A status of a Backup or Restore that has ended."""
    return {"phase": phase, "completionTimestamp": format_time(when), **members}


def conditions(obj: JSONObject | None) -> list[tuple[str, str, str]]:
    found: Iterable[JSONObject] = ((obj or {}).get("status") or {}).get("conditions") or ()
    return [(each["type"], each["status"], each["reason"]) for each in found]


def message(obj: JSONObject | None, kind: str) -> str:
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in found if each["type"] == kind), "")
