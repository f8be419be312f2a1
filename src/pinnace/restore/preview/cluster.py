"""A cluster whose writes are simulated: they are kept in memory, seen by later reads, and never stored.

A create is refused as the API server would refuse it as far as that follows from the objects that exist. With
`ask_server` each write is also sent as the API server's own dry run (`dryRun=All`), so that admission checks
it. Patches of objects that exist are always sent as its dry run, as which fields are immutable cannot be
known otherwise; without `ask_server` not those that only set labels, which all objects of an update get.
"""

import itertools
from collections.abc import AsyncGenerator
from typing import Any, Final, TypeVar

import orjson
from msgspec.structs import replace

from pinnace.aio.clock import SYSTEM_CLOCK
from pinnace.api.objects import JSONObject, copied, dump_json, listed, mapping, text
from pinnace.api.selection.selectors import Selector
from pinnace.api.values.times import format_time
from pinnace.kube.answers import sent_name
from pinnace.kube.client import KubeClient
from pinnace.kube.discovery import Discovery
from pinnace.kube.errors import AlreadyExists, Conflict, NotFound
from pinnace.kube.groups import APIGroup, GroupVersion
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, APIResource
from pinnace.kube.watching import WatchEvent
from pinnace.restore.modifiers.json_patch import merged
from pinnace.restore.preview.kept import KeptObjects, Place
from pinnace.restore.preview.reads import ClusterReads

Key = tuple[str, str, str]
"""Group-resource, namespace and name."""

_DEFINITIONS: Final = CUSTOM_RESOURCE_DEFINITIONS.group_resource
_ACCEPTED: Final = ({"type": "Established", "status": "True"}, {"type": "NamesAccepted", "status": "True"})
T = TypeVar("T")


class SimulatedCluster:
    """Reads a cluster, and keeps writes to itself.

    Args:
        kept: where objects are kept that are read or would be written.
        ask_server: whether creates, and patches of labels, are sent as the API server's dry run.

    Attributes:
        asked, accepted: how many writes were sent as the API server's dry run, and how many it accepted; 0
            unless it is asked.
        not_asked: how many objects the API server could not be asked about, as their namespace or their kind
            does not exist before the restore; 0 unless it is asked.
    """

    def __init__(self, client: KubeClient, kept: KeptObjects, *, ask_server: bool) -> None:
        self._client = client
        self._kept = kept
        self._reads = ClusterReads(client, kept)
        self._ask_server = ask_server
        self._objects: dict[Key, Place] = {}
        self._deleted: set[Key] = set()
        self._created: set[Key] = set()
        self._numbers = itertools.count(1)
        self._new_kinds: set[str] = set()
        self.asked = self.accepted = self.not_asked = 0

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self._client.server

    async def discover(self, *, all_versions: bool) -> Discovery:
        """Return what the cluster serves, with the kinds of the definitions that would be created."""
        found = await Discovery.load(self._client, all_versions=all_versions)
        return with_definitions(found, self._simulated(_DEFINITIONS), all_versions=all_versions)

    def created(self, group_resource: str) -> list[str]:
        """Return the names of the objects of a kind that would be created, sorted."""
        return sorted(name for kind, _, name in self._created if kind == group_resource)

    def creates(self, group_resource: str, namespace: str, name: str) -> bool:
        """Return whether an object would be created."""
        return (group_resource, namespace, name) in self._created

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        """Return an object as it would be."""
        key = (resource.group_resource, namespace or "", name)
        if key in self._objects:
            return self._kept.read(self._objects[key])
        if key in self._deleted or self._is_new(resource, namespace):
            raise _missing(resource, name)
        found = await self._reads.get(resource, name, namespace)
        if found is None:
            raise _missing(resource, name)
        return found

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = "", **query: Any
    ) -> list[JSONObject]:
        """Return the objects of a kind as they would be; with None, of all namespaces."""
        found: list[JSONObject] = []
        if not self._is_new(resource, namespace):
            found = await self._client.list_all(resource, namespace, label_selector=label_selector, **query)
        selector = Selector.parse(label_selector)
        kind = resource.group_resource
        written = [
            self._kept.read(place)
            for (of_kind, home, _), place in self._objects.items()
            if of_kind == kind and namespace in (None, home)
        ]
        simulated = [obj for obj in written if selector.matches(labels_of(obj))]
        changed = {(kind, home, name) for of_kind, home, name in self._objects if of_kind == kind}
        return [obj for obj in found if _key(kind, obj) not in changed | self._deleted] + simulated

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> JSONObject:
        """Return the object as it would be created; `field_manager` has no effect."""
        name = sent_name(body)
        if name and await self._exists(resource, name, namespace):
            text_ = f'{resource.group_resource} "{name}" already exists'
            raise AlreadyExists(409, reason="AlreadyExists", message=text_)
        obj: JSONObject = orjson.loads(body) if isinstance(body, bytes) else copied(body)
        if not name:
            name = f"{text(obj, 'metadata', 'generateName')}{next(self._numbers):05d}"
            obj["metadata"]["name"] = name
        key = (resource.group_resource, namespace or "", name)
        obj = await self._admitted(resource, obj, namespace)
        metadata = obj["metadata"]
        metadata["uid"] = f"dry-run-{next(self._numbers)}"
        metadata["resourceVersion"] = "0"
        metadata.setdefault("creationTimestamp", format_time(SYSTEM_CLOCK.now()))
        if resource.group_resource == _DEFINITIONS:
            obj["status"] = {"conditions": [dict(each) for each in _ACCEPTED]}
            self._new_kinds.add(name)
        if not dry_run:
            self._objects[key] = self._kept.add(dump_json(obj))
            self._created.add(key)
        return obj

    async def create_bytes(
        self, resource: APIResource, body: bytes, namespace: str | None = None, *, field_manager: str = ""
    ) -> bytes:
        """Return the object as it would be created, as JSON; `field_manager` has no effect."""
        return dump_json(await self.create(resource, body, namespace))

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        """Return the object as it would be after a JSON merge patch.

        The API server is not asked about a status or the owners of fields, which it does not refuse.
        """
        if subresource == "status" or _is_of_owners(patch):
            after: JSONObject = merged(await self.get(resource, name, namespace), patch)
            return after
        if self._ask_server or not _only_labels(patch):
            changed = await self.simulate_patch(resource, name, patch, namespace)
        else:
            changed = merged(await self.get(resource, name, namespace), patch)
        key = (resource.group_resource, namespace or "", name)
        self._objects[key] = self._kept.add(dump_json(changed))
        return changed

    async def simulate_patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        """Return the object as it would be after a JSON merge patch, without keeping that."""
        key = (resource.group_resource, namespace or "", name)
        if key in self._objects:
            changed: JSONObject = merged(self._kept.read(self._objects[key]), patch)
            return changed
        if key in self._deleted or self._is_new(resource, namespace):
            raise _missing(resource, name)
        self.asked += self._ask_server
        changed = await self._client.simulate_patch(resource, name, patch, namespace)
        self.accepted += self._ask_server
        return changed

    async def delete(
        self,
        resource: APIResource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        propagation: str | None = None,
    ) -> JSONObject:
        """Return the object that would be deleted; the deletion of its dependents is not simulated."""
        found = await self.get(resource, name, namespace)
        if uid not in (None, text(found, "metadata", "uid")):
            raise Conflict(409, reason="Conflict", message="the object is another one by now")
        key = (resource.group_resource, namespace or "", name)
        self._objects.pop(key, None)
        self._created.discard(key)
        self._deleted.add(key)
        return found

    async def list_version(self, resource: APIResource) -> str:
        """Return the resourceVersion for a watch of every later change of what exists."""
        return await self._client.list_version(resource)

    def watch(self, resource: APIResource, *, resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """Yield the changes of what exists; simulated changes are seen by reads only."""
        return self._client.watch(resource, resource_version=resource_version)

    def _simulated(self, group_resource: str) -> list[JSONObject]:
        """The objects of a kind that would be created or changed."""
        return [
            self._kept.read(place) for (kind, _, _), place in self._objects.items() if kind == group_resource
        ]

    # --- What exists ------------------------------------------------------------------------------------

    def _is_new(self, resource: APIResource, namespace: str | None) -> bool:
        """Whether nothing of the kind can be there: its namespace or its definition would be created."""
        is_new_namespace = bool(namespace) and (NAMESPACES.group_resource, "", namespace) in self._created
        return is_new_namespace or resource.group_resource in self._new_kinds

    async def _exists(self, resource: APIResource, name: str, namespace: str | None) -> bool:
        key = (resource.group_resource, namespace or "", name)
        if key in self._objects:
            return True
        if key in self._deleted or self._is_new(resource, namespace):
            return False
        return await self._reads.exists(resource, name, namespace)

    async def _admitted(self, resource: APIResource, obj: JSONObject, namespace: str | None) -> JSONObject:
        """The object as the API server would store it, if it is asked. Raises KubeError if it refuses."""
        if not self._ask_server:
            return obj
        if self._is_new(resource, namespace) or self._is_deleted(resource, obj, namespace):
            self.not_asked += 1
            return obj
        self.asked += 1
        admitted = await self._client.create(resource, obj, namespace, dry_run=True)
        self.accepted += 1
        return admitted

    def _is_deleted(self, resource: APIResource, obj: JSONObject, namespace: str | None) -> bool:
        """Whether the object still exists, and would be deleted before it is created again."""
        return (resource.group_resource, namespace or "", obj["metadata"]["name"]) in self._deleted


def _is_of_owners(patch: JSONObject) -> bool:
    return patch.keys() == {"metadata"} and patch["metadata"].keys() == {"managedFields"}


def with_definitions(discovery: Discovery, definitions: list[JSONObject], *, all_versions: bool) -> Discovery:
    """Return a discovery that also serves the kinds of these definitions of custom resources."""
    groups = {group.name: group for group in discovery.groups}
    for definition in definitions:
        group = text(definition, "spec", "group")
        known = groups.get(group) or APIGroup(name=group, versions=(), preferred_version="")
        groups[group] = _with_kind(known, definition)
    return Discovery(groups.values(), server_version=discovery.server_version, all_versions=all_versions)


def _with_kind(group: APIGroup, definition: JSONObject) -> APIGroup:
    names = mapping(definition, "spec", "names")
    versions = {version.version: version for version in group.versions}
    for each in listed(definition, "spec", "versions"):
        version = text(each, "name") if isinstance(each, dict) else ""
        if not version or not each.get("served"):
            continue
        resource = APIResource(
            group=group.name,
            version=version,
            name=text(names, "plural"),
            kind=text(names, "kind"),
            namespaced=text(definition, "spec", "scope") == "Namespaced",
            short_names=tuple(str(name) for name in listed(names, "shortNames")),
            singular_name=text(names, "singular"),
        )
        known = versions.get(version) or GroupVersion(version=version)
        others = tuple(one for one in known.resources if one.name != resource.name)
        with_status = known.with_status - {resource.name}
        if "status" in mapping(each, "subresources"):
            with_status |= {resource.name}
        versions[version] = replace(known, resources=(*others, resource), with_status=with_status)
    preferred = group.preferred_version or next(iter(versions), "")
    return APIGroup(name=group.name, versions=tuple(versions.values()), preferred_version=preferred)


def _only_labels(patch: JSONObject) -> bool:
    """Whether a patch changes nothing but labels; it may name the version that it was made for."""
    return patch.keys() == {"metadata"} and patch["metadata"].keys() <= {"labels", "resourceVersion"}


def labels_of(obj: JSONObject) -> dict[str, str]:
    """Return the labels of an object."""
    return {name: str(value) for name, value in mapping(obj, "metadata", "labels").items()}


def _key(group_resource: str, obj: JSONObject) -> Key:
    return group_resource, text(obj, "metadata", "namespace"), text(obj, "metadata", "name")


def _missing(resource: APIResource, name: str) -> NotFound:
    return NotFound(404, reason="NotFound", message=f'{resource.group_resource} "{name}" not found')
