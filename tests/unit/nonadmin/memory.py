"""A scripted API server for the flows of self-service, and caches that are in step with it or lag behind."""

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import APIResource, velero
from pinnace.nonadmin.caches import CACHED, Cached
from pinnace.nonadmin.collector import Leftovers
from pinnace.nonadmin.flows.driver import FlowDriver, StepFailed
from pinnace.nonadmin.flows.limits import Slots
from pinnace.nonadmin.loading import BackupFlow, DownloadFlow, FlowContext, LocationFlow, RestoreFlow
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.queue_position import WaitingQueue
from pinnace.nonadmin.settings.admin import AdminSettings
from pinnace.runtime.controller import Result
from pinnace.runtime.keys import Key
from tests.support.clock import FrozenClock
from tests.support.cluster.scripted_api import Call, ScriptedAPI, ignore

SERVER = "velero"
BACKUPS, RESTORES = velero("backups"), velero("restores")
LOCATIONS, DELETE_REQUESTS = velero("backupstoragelocations"), velero("deletebackuprequests")
DOWNLOADS = velero("downloadrequests")
WITH_STATUS = frozenset(
    {
        NON_ADMIN_BACKUPS,
        NON_ADMIN_RESTORES,
        NON_ADMIN_LOCATIONS,
        NON_ADMIN_DOWNLOADS,
        NON_ADMIN_LOCATION_REQUESTS,
        LOCATIONS,
        DOWNLOADS,
    }
)


class Crash(BaseException):
    """The process ends between two calls."""


class MemoryCluster(ScriptedAPI[tuple[str, Key]]):
    """Objects by plural and key, which tell time by a clock that tests move.

    Attributes:
        before_write: called with each write before it takes effect; raise there what shall fail.
    """

    def __init__(self, clock: FrozenClock | None = None) -> None:
        super().__init__(clock)
        self.with_status = {resource.name for resource in WITH_STATUS}
        self.before_write: Callable[[str, str, str], object] = ignore
        self.after = self._note_write
        self._written: list[tuple[str, str, str]] = []
        self._uuids = itertools.count(1)

    def new_uuid(self) -> str:
        """A UUID that no process has drawn before, one before a crash included."""
        return f"00000000-0000-4000-8000-{next(self._uuids):012d}"

    def key(self, resource: APIResource, namespace: str, name: str) -> tuple[str, Key]:
        return resource.name, Key(namespace, name)

    def describe(self, verb: str, resource: APIResource, namespace: str, name: str) -> Call:
        return (verb, resource.name, namespace, "" if verb == "list" else name)

    def check(self, verb: str, resource: APIResource, namespace: str, name: str) -> None:
        if verb not in ("get", "list"):
            self.before_write(verb, resource.name, name)

    def _note_write(self, verb: str, plural: str, name: str) -> None:
        if verb not in ("get", "list"):
            self._written.append((verb, plural, name))

    def writes(self) -> list[Call]:
        """Return the writes that took effect: those refused are tried again in each round."""
        return list(self._written)

    # --- What a user or a server does, without record ---------------------------------------------------

    def add(self, resource: APIResource, namespace: str, name: str, **members: Any) -> JSONObject:
        metadata = {"name": name, "namespace": namespace, **members.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}
        return self.add_new(resource, namespace, body)

    def change(self, resource: APIResource, namespace: str, name: str, **members: Any) -> JSONObject:
        """Replace members of an object as a whole."""
        obj = copy.deepcopy(self.objects[self.key(resource, namespace, name)])
        obj.update(copy.deepcopy(members))
        if "spec" in members:
            obj["metadata"]["generation"] += 1
        return self.store(resource, namespace, obj)


class View:
    """A cache of one kind, always in step unless it is frozen."""

    def __init__(self, cluster: MemoryCluster, cached: Cached) -> None:
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

    def __init__(self, cluster: MemoryCluster, resource: APIResource) -> None:
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

    def __init__(self, cluster: MemoryCluster, origin: Origin, resource: APIResource) -> None:
        super().__init__(origin)
        self._cluster = cluster
        self._resource = resource

    def taken(self, namespace: str, *, besides: str = "") -> int:
        for obj in self._cluster.of(self._resource):
            self.put(obj)
        return super().taken(namespace, besides=besides)


class Service:
    """The reconcilers of self-service over a cluster in memory."""

    def __init__(self, cluster: MemoryCluster | None = None, settings: AdminSettings | None = None) -> None:
        self.cluster = cluster or MemoryCluster()
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
            new_uuid=self.cluster.new_uuid,
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
            before = len(self.cluster.writes())
            for resource, key in list(self._requests()):
                await self.look(resource, *key)
            if len(self.cluster.writes()) == before:
                return
        raise AssertionError(f"not settled after {rounds} rounds: {self.cluster.writes()[-10:]}")

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
