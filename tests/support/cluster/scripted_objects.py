"""The objects of the scripted cluster: what users and controllers do to them, without record."""

import asyncio
import copy
import itertools
from typing import Any, Self

from pinnace.api.kinds import KINDS
from pinnace.api.objects import JSONObject, copied
from pinnace.api.values.times import format_time
from pinnace.kube.resources import NAMESPACES, APIResource, known
from tests.support.clock import FakeClock
from tests.support.cluster.server_rules import WITHOUT_GENERATION

Key = tuple[str, str, str]
"""Group-resource, namespace and name; the namespace of a cluster-scoped object is empty."""
HOME = "velero"
"""Where `add` puts an object whose namespace is not given."""
_BY_NAME = {name: known(kind) for kind in reversed(KINDS) for name in (kind.plural, kind.group_resource)}
_BY_KIND = {(kind.group, kind.kind): known(kind) for kind in KINDS}
_IN_METADATA = (
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
    "creationTimestamp",
    "deletionTimestamp",
    "uid",
)


def resource_of(kind: "APIResource | str") -> APIResource:
    """Return the resource of a plural of the table of kinds, or of any group-resource."""
    if not isinstance(kind, str):
        return kind
    if found := _BY_NAME.get(kind):
        return found
    plural, dot, group = kind.partition(".")
    assert dot, f"{kind} is no plural of the table of kinds"
    return APIResource(group=group, version="v1", name=plural, kind="", namespaced=True)


class ScriptedObjects:
    """The objects of a cluster, and the changes that its watches tell.

    Attributes:
        objects: as they are stored, by key. An object that a test edits in place changes unseen by watches.
        version_now: the newest resourceVersion.
        collects_garbage: whether what an object owned goes with it; in a real cluster a little later.
    """

    def __init__(self, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.objects: dict[Key, JSONObject] = {}
        self.collects_garbage = True
        self.version_now = 0
        self._made = itertools.count(1)
        self._uids: set[str] = set()
        self._events: list[tuple[int, str, Key, JSONObject]] = []
        self._changed = asyncio.Event()
        self._oldest = 0

    def compact(self) -> None:
        """Forget all former states: watches and lists that began before are answered with 410."""
        self._oldest = self.version_now

    def key(self, resource: APIResource, namespace: str | None, name: str) -> Key:
        return resource.group_resource, (namespace or "") if resource.namespaced else "", name

    def of(self, kind: APIResource | str) -> list[JSONObject]:
        """Return the stored objects of a kind, in the order of their creation."""
        wanted = resource_of(kind).group_resource
        return [obj for key, obj in self.objects.items() if key[0] == wanted]

    def names(self, kind: APIResource | str) -> list[str]:
        """Return the names of all objects of a kind, in the order of their creation."""
        return [obj["metadata"]["name"] for obj in self.of(kind)]

    def peek(self, kind: APIResource | str, name: str, namespace: str | None = HOME) -> JSONObject | None:
        """Return an object as it is stored, or None."""
        return self.objects.get(self.key(resource_of(kind), namespace, name))

    def stored(self, kind: APIResource | str, name: str, namespace: str | None = HOME) -> JSONObject:
        """Return an object as it is stored."""
        return self.objects[self.key(resource_of(kind), namespace, name)]

    def item(self, group_resource: str, namespace: str, name: str) -> JSONObject:
        """Return an object as it is stored, by its key."""
        return self.objects[group_resource, namespace, name]

    def status(self, kind: APIResource | str, name: str) -> JSONObject:
        """Return the status of an object; empty if there is none, or no such object."""
        return (self.peek(kind, name) or {}).get("status") or {}

    def add(
        self, kind: APIResource | str, name: str, namespace: str | None = None, **members: Any
    ) -> JSONObject:
        """Put an object into the cluster, or in place of another, and return what is stored.

        Args:
            name: may be written `namespace/name`; without a namespace the object is in `HOME`.
            members: those of the object; labels, annotations and the like go into its metadata.
        """
        resource = resource_of(kind)
        within, _, name = name.rpartition("/")
        metadata: JSONObject = {"name": name, **members.pop("metadata", {})}
        if resource.namespaced:
            metadata["namespace"] = within or namespace or HOME
        metadata.update({member: members.pop(member) for member in _IN_METADATA if member in members})
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return self.put({**body, **members}, resource)

    def add_all(self, kind: APIResource | str, *names: str, **members: Any) -> Self:
        """Put an object of each name into the cluster."""
        for name in names:
            self.add(kind, name, **copy.deepcopy(members))
        return self

    def put(self, obj: JSONObject, kind: APIResource | str | None = None, namespace: str = "") -> JSONObject:
        """Put an object, with what it lacks of a server's own, into the cluster; return what is stored.

        Args:
            kind: needed for a kind that is not of the table of kinds.
        """
        if kind is None:
            group = obj["apiVersion"].rpartition("/")[0]
            kind = _BY_KIND.get((group, obj["kind"])) or f"{obj['kind'].lower()}s.{group}"
        resource = resource_of(kind)
        stored = copied(obj)
        metadata = stored["metadata"]
        if namespace:
            metadata["namespace"] = namespace
        key = self.key(resource, metadata.get("namespace"), metadata["name"])
        former = self.objects.get(key, {}).get("metadata", {})
        metadata.setdefault("uid", former.get("uid") or self._uid(metadata["name"]))
        self._uids.add(metadata["uid"])
        metadata.setdefault("creationTimestamp", format_time(self.clock.now()))
        if resource.group_resource not in WITHOUT_GENERATION:
            metadata.setdefault("generation", 1)
        return self._store(key, stored)

    def vanish(self, kind: APIResource | str, name: str, namespace: str | None = HOME) -> JSONObject | None:
        """Let an object be gone, whatever finalizers it has; return it if it was there."""
        key = self.key(resource_of(kind), namespace, name)
        return self._vanish(key) if key in self.objects else None

    def put_all(self, kind: APIResource | str, *objects: JSONObject) -> Self:
        """Put objects as they are into the cluster."""
        for obj in objects:
            self.put(obj, kind)
        return self

    def change(
        self, kind: APIResource | str, name: str, namespace: str | None = HOME, **members: Any
    ) -> JSONObject:
        """Replace members of an object as a whole, and return what is stored."""
        resource = resource_of(kind)
        obj = {**copy.deepcopy(self.stored(resource, name, namespace)), **copy.deepcopy(members)}
        if "spec" in members and "generation" in obj["metadata"]:
            obj["metadata"]["generation"] += 1
        return self._store(self.key(resource, namespace, name), obj)

    def remove(self, kind: APIResource | str, name: str, namespace: str | None = HOME) -> JSONObject | None:
        """Delete an object, or mark it as being deleted if it has finalizers; return it if it was there."""
        key = self.key(resource_of(kind), namespace, name)
        if key not in self.objects:
            return None
        obj = copied(self.objects[key])
        metadata = obj["metadata"]
        if key[0] == NAMESPACES.group_resource and self._empty(name):
            obj.setdefault("status", {})["phase"] = "Terminating"
        elif not metadata.get("finalizers"):
            self._vanish(key)
            return obj
        if metadata.get("deletionTimestamp"):
            return obj
        metadata["deletionTimestamp"] = format_time(self.clock.now())
        metadata["deletionGracePeriodSeconds"] = 0
        if "generation" in metadata:
            metadata["generation"] += 1
        return copied(self._store(key, obj))

    def _uid(self, name: str) -> str:
        uid = f"uid-{name[:20]}"
        while uid in self._uids:
            uid = f"uid-{name[:20]}-{next(self._made)}"
        return uid

    def _store(self, key: Key, obj: JSONObject) -> JSONObject:
        self.version_now += 1
        obj["metadata"]["resourceVersion"] = str(self.version_now)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.objects[key] = obj
        self._tell(kind, key, obj)
        return obj

    def _tell(self, kind: str, key: Key, obj: JSONObject) -> None:
        self._events.append((self.version_now, kind, key, copied(obj)))
        self._changed.set()

    def _vanish(self, key: Key) -> JSONObject:
        obj = self.objects.pop(key)
        self.version_now += 1
        self._tell("DELETED", key, obj)
        for dependent in self._dependents(key, obj) if self.collects_garbage else ():
            references = self.objects[dependent]["metadata"]["ownerReferences"]
            present = {each["metadata"].get("uid") for each in self.objects.values()}
            if not any(each["uid"] in present for each in references):
                self._remove(dependent)
        home = key[1]
        terminating = self.objects.get((NAMESPACES.group_resource, "", home)) if home else None
        if terminating is not None and terminating["metadata"].get("deletionTimestamp"):
            self.remove(NAMESPACES, home)
        return obj

    def _remove(self, key: Key) -> None:
        group_resource, namespace, name = key
        if key in self.objects:
            plural, _, group = group_resource.partition(".")
            resource = APIResource(group=group, version="", name=plural, kind="", namespaced=bool(namespace))
            self.remove(resource, name, namespace)

    def _dependents(self, key: Key, owner: JSONObject) -> list[Key]:
        """Return the objects that an object owns: in its own namespace, unless it is cluster-scoped."""
        uid = owner["metadata"].get("uid")
        return [
            each
            for each, obj in self.objects.items()
            if key[1] in ("", each[1])
            and any(reference.get("uid") == uid for reference in obj["metadata"].get("ownerReferences") or ())
        ]

    def _empty(self, namespace: str) -> bool:
        """Delete what a namespace holds; return whether finalizers keep something in it."""
        for key in [key for key in self.objects if key[1] == namespace]:
            self._remove(key)
        return any(key[1] == namespace for key in self.objects)
