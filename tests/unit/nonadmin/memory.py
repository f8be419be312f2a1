"""A cluster in memory that keeps the API server's rules which the flows lean on, and everything at once.

Status subresources, generations, resourceVersions, finalizers, uids and generated names behave as the real
ones; integration tests prove that they do. Caches are views of it, or lag behind on command.
"""

import asyncio
import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, cast

from pinnace.api.nonadmin.names import Origin
from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import AlreadyExists, Conflict, InvalidName, KubeError, NotFound
from pinnace.kube.resources import APIResource, velero
from pinnace.nonadmin.caches import CACHED, Cached
from pinnace.nonadmin.collector import Leftovers
from pinnace.nonadmin.flows.driver import RequestReconciler, StepFailed
from pinnace.nonadmin.loading import BackupFlow, DownloadFlow, FlowContext, LocationFlow, RestoreFlow
from pinnace.nonadmin.lookups import Lookups
from pinnace.nonadmin.objects import (
    NON_ADMIN_BACKUPS,
    NON_ADMIN_DOWNLOADS,
    NON_ADMIN_LOCATION_REQUESTS,
    NON_ADMIN_LOCATIONS,
    NON_ADMIN_RESTORES,
)
from pinnace.nonadmin.queue_position import WaitingLine
from pinnace.nonadmin.settings import AdminSettings
from pinnace.nonadmin.specs.limits import Places
from pinnace.runtime.controller import Result
from pinnace.runtime.keys import Key
from tests.support.clock import FrozenClock

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


class MemoryCluster:
    """Objects by resource and key.

    Attributes:
        calls: (verb, plural, namespace, name) of all calls.
        before_write: called with each write before it takes effect; raise there what shall fail.
    """

    def __init__(self, clock: FrozenClock | None = None) -> None:
        self.clock = clock or FrozenClock()
        self.objects: dict[tuple[str, Key], JSONObject] = {}
        self.calls: list[tuple[str, str, str, str]] = []
        self.before_write: Callable[[str, str, str], None] = lambda *_: None
        self._versions = itertools.count(1)
        self._uids = itertools.count(1)
        self._names = itertools.count(1)
        self._uuids = itertools.count(1)

    def new_uuid(self) -> str:
        """A UUID that no process has drawn before, one before a crash included."""
        return f"00000000-0000-4000-8000-{next(self._uuids):012d}"

    @property
    def client(self) -> KubeClient:
        return cast("KubeClient", self)

    def of(self, resource: APIResource) -> list[JSONObject]:
        return [obj for (plural, _), obj in self.objects.items() if plural == resource.name]

    def peek(self, resource: APIResource, namespace: str, name: str) -> JSONObject | None:
        return self.objects.get((resource.name, Key(namespace, name)))

    def writes(self) -> list[tuple[str, str, str, str]]:
        return [call for call in self.calls if call[0] not in ("get", "list")]

    # --- What a user or a server does, without record ---------------------------------------------------

    def add(self, resource: APIResource, namespace: str, name: str, **members: Any) -> JSONObject:
        metadata = {"name": name, "namespace": namespace, **members.pop("metadata", {})}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}
        return self._store_new(resource, namespace, body)

    def change(self, resource: APIResource, namespace: str, name: str, **members: Any) -> JSONObject:
        """Replace members of an object as a whole."""
        obj = copy.deepcopy(self._existing(resource, namespace, name))
        obj.update(copy.deepcopy(members))
        if "spec" in members:
            obj["metadata"]["generation"] += 1
        return self._store(resource, obj)

    def remove(self, resource: APIResource, namespace: str, name: str) -> None:
        if self.peek(resource, namespace, name) is not None:
            self._remove(resource, Key(namespace, name))

    # --- What controllers call --------------------------------------------------------------------------

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        self.calls.append(("get", resource.name, namespace or "", name))
        if not name or "/" in name or "%" in name or name in (".", ".."):
            raise InvalidName(f"{name!r} cannot be the name of an object")
        await asyncio.sleep(0)
        return copy.deepcopy(self._existing(resource, namespace or "", name))

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        self.calls.append(("list", resource.name, namespace or "", ""))
        chosen = Selector.parse(label_selector)
        return [
            copy.deepcopy(obj)
            for obj in self.of(resource)
            if obj["metadata"].get("namespace") == namespace
            and chosen.matches(obj["metadata"].get("labels") or {})
        ]

    async def create(
        self, resource: APIResource, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self._write("create", resource, namespace, body["metadata"].get("name") or "")
        return copy.deepcopy(self._store_new(resource, namespace or "", body))

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        self._write("patch", resource, namespace, name)
        former = self._existing(resource, namespace or "", name)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if version not in (None, former["metadata"]["resourceVersion"]):
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        changed = merged(former, patch)
        if resource in WITH_STATUS:
            kept = {"status"} if subresource is None else {"spec", "metadata"}
            changed = {**changed, **{member: former[member] for member in kept if member in former}}
            for member in kept - former.keys():
                changed.pop(member, None)
        if changed.get("spec") != former.get("spec"):
            changed["metadata"]["generation"] += 1
        stored = self._store(resource, changed)
        if stored["metadata"].get("deletionTimestamp") and not stored["metadata"].get("finalizers"):
            del self.objects[resource.name, Key.of(stored)]
        return copy.deepcopy(stored)

    async def delete(
        self, resource: APIResource, name: str, namespace: str | None = None, *, uid: str | None = None
    ) -> JSONObject:
        self._write("delete", resource, namespace, name)
        obj = self._existing(resource, namespace or "", name)
        if uid not in (None, obj["metadata"]["uid"]):
            raise Conflict(409, reason="Conflict", message="the uid is another")
        self._remove(resource, Key(namespace or "", name))
        return copy.deepcopy(obj)

    def _write(self, verb: str, resource: APIResource, namespace: str | None, name: str) -> None:
        self.before_write(verb, resource.name, name)
        self.calls.append((verb, resource.name, namespace or "", name))

    def _existing(self, resource: APIResource, namespace: str, name: str) -> JSONObject:
        obj = self.peek(resource, namespace, name)
        if obj is None:
            text = f'{resource.group_resource} "{name}" not found'
            raise NotFound(404, reason="NotFound", message=text)
        return obj

    def _store_new(self, resource: APIResource, namespace: str, body: JSONObject) -> JSONObject:
        obj = copy.deepcopy(body)
        metadata = obj["metadata"]
        metadata["namespace"] = namespace
        if not metadata.get("name"):
            metadata["name"] = f"{metadata['generateName'][:58]}{next(self._names):05d}"
        if (resource.name, Key.of(obj)) in self.objects:
            raise AlreadyExists(409, reason="AlreadyExists", message=f"{metadata['name']} already exists")
        metadata["uid"] = f"uid-{next(self._uids)}"
        metadata["generation"] = 1
        metadata["creationTimestamp"] = format_time(self.clock())
        return self._store(resource, obj)

    def _store(self, resource: APIResource, obj: JSONObject) -> JSONObject:
        obj = copy.deepcopy(obj)
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        self.objects[resource.name, Key.of(obj)] = obj
        return obj

    def _remove(self, resource: APIResource, key: Key) -> None:
        obj = copy.deepcopy(self.objects[resource.name, key])
        if not obj["metadata"].get("finalizers"):
            del self.objects[resource.name, key]
        elif not obj["metadata"].get("deletionTimestamp"):
            obj["metadata"]["deletionTimestamp"] = format_time(self.clock())
            obj["metadata"]["generation"] += 1
            self._store(resource, obj)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = copy.deepcopy(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


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

    def objects(self) -> list[JSONObject]:
        if self._frozen is not None:
            return self._frozen
        return self._cluster.of(self._cached.resource)

    def by_index(self, index: str, value: str) -> list[JSONObject]:
        return [obj for obj in self.objects() if value in self._cached.indexes[index](obj)]


class Line(WaitingLine):
    """The waiting line that is always in step with the cluster."""

    def __init__(self, cluster: MemoryCluster, resource: APIResource) -> None:
        super().__init__()
        self._cluster = cluster
        self._resource = resource

    def position(self, obj: JSONObject | None) -> int:
        line = WaitingLine()
        for each in self._cluster.of(self._resource):
            line.put(each)
        return line.position(obj)


class InStepPlaces(Places):
    """The places, always in step with the cluster."""

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
            backups=Line(self.cluster, BACKUPS),
            restores=Line(self.cluster, RESTORES),
            backup_places=InStepPlaces(self.cluster, Origin.BACKUP, BACKUPS),
            restore_places=InStepPlaces(self.cluster, Origin.RESTORE, RESTORES),
            clock=self.cluster.clock,
            new_uuid=self.cluster.new_uuid,
        )
        flows = (BackupFlow(context), RestoreFlow(context), LocationFlow(context), DownloadFlow(context))
        makes = {NON_ADMIN_BACKUPS: BACKUPS, NON_ADMIN_RESTORES: RESTORES}
        self.reconcilers = {}
        for flow in flows:
            made = makes.get(flow.resource)
            leftovers = Leftovers(self.cluster.client, self.views[made], made) if made else None
            self.reconcilers[flow.resource] = RequestReconciler(
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
