"""Reads of a cluster for a preview: by single requests while few objects are needed, by lists afterwards.

A restore handles its objects one by one, and reads each that exists already. A list costs as much as some
single requests, so a namespace, or a kind in all namespaces, is listed as soon as the requests for it have
cost as much as the list. Listed objects are kept in a file: memory holds names only.
"""

import asyncio
from contextlib import aclosing
from typing import Final

import msgspec
import orjson

from pinnace.api.objects import JSONObject, dump_json
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import KubeError, NotFound
from pinnace.kube.resources import APIResource
from pinnace.restore.preview.kept import KeptObjects, Place

_OBJECTS_FOR_A_REQUEST: Final = 100
"""Listing so many objects costs no more than a request for one of them, measured with objects of 2 KiB."""

_REQUESTS_IN_A_NAMESPACE: Final = 4
_REQUESTS_FOR_A_KIND: Final = 16
"""After this number of requests a list is tried; if it is too long, again after twice as many."""

_NEVER: Final = 1 << 62


class _Budget(msgspec.Struct):
    """The number of requests that were made, and the number that makes a list worth a try."""

    try_at: int
    requests: int = 0

    def spend(self) -> bool:
        """Count one request; return whether a list should be tried instead."""
        self.requests += 1
        return self.requests >= self.try_at

    @property
    def objects(self) -> int:
        """The number of objects that a list may have."""
        return self.requests * _OBJECTS_FOR_A_REQUEST


class _Namespace(msgspec.Struct):
    """The objects of a kind in one namespace, or the cluster-scoped ones; absent objects have no place."""

    places: dict[str, Place | None] = msgspec.field(default_factory=dict)
    is_listed: bool = False
    budget: _Budget = msgspec.field(default_factory=lambda: _Budget(_REQUESTS_IN_A_NAMESPACE))


class _Kind(msgspec.Struct):
    namespaces: dict[str, _Namespace] = msgspec.field(default_factory=dict)
    is_listed: bool = False
    budget: _Budget = msgspec.field(default_factory=lambda: _Budget(_REQUESTS_FOR_A_KIND))
    listing: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)
    """Held while a list is read, so that it is read once."""

    def namespace(self, name: str) -> _Namespace:
        found = self.namespaces.get(name)
        if found is None:
            found = self.namespaces[name] = _Namespace(is_listed=self.is_listed)
        return found


class ClusterReads:
    """Reads objects of a cluster, each once: later reads of an object return what the first one found."""

    def __init__(self, client: KubeClient, kept: KeptObjects) -> None:
        self._client = client
        self._kept = kept
        self._kinds: dict[tuple[str, str], _Kind] = {}

    async def get(self, resource: APIResource, name: str, namespace: str | None) -> JSONObject | None:
        """Return an object; None if there is none. Raises KubeError if it cannot be read."""
        place = await self._find(resource, name, namespace or "")
        if place is None:
            return None
        try:
            return self._kept.read(place)
        except orjson.JSONDecodeError:
            # It is nested too deeply to be kept or decoded: a single request shows which.
            return await self._client.get(resource, name, namespace)

    async def exists(self, resource: APIResource, name: str, namespace: str | None) -> bool:
        """Whether there is such an object. Raises KubeError if it cannot be read."""
        return await self._find(resource, name, namespace or "") is not None

    async def _find(self, resource: APIResource, name: str, namespace: str) -> Place | None:
        kind = self._kinds.setdefault((resource.group_resource, resource.version), _Kind())
        home = kind.namespace(namespace)
        if name not in home.places and not home.is_listed:
            await self._ask(resource, kind, name, namespace)
            home = kind.namespace(namespace)
        return home.places.get(name)

    async def _ask(self, resource: APIResource, kind: _Kind, name: str, namespace: str) -> None:
        """Read an object, by a list or by a single request."""
        for_kind, for_namespace = kind.budget.spend(), kind.namespace(namespace).budget.spend()
        if for_kind or for_namespace:
            async with kind.listing:
                if kind.namespace(namespace).is_listed:
                    return
                if for_kind and resource.namespaced and await self._list_kind(resource, kind):
                    return
                if for_namespace and await self._list_namespace(resource, kind, namespace):
                    return
        try:
            found = await self._client.get(resource, name, namespace or None)
        except NotFound:
            place = None
        else:
            place = self._kept.add(_json(found))
        kind.namespace(namespace).places[name] = place

    async def _list_kind(self, resource: APIResource, kind: _Kind) -> bool:
        listed = await self._list(resource, None, kind.budget)
        if listed is None:
            return False
        kind.namespaces = {name: _Namespace(places=places, is_listed=True) for name, places in listed.items()}
        kind.is_listed = True
        return True

    async def _list_namespace(self, resource: APIResource, kind: _Kind, namespace: str) -> bool:
        listed = await self._list(resource, namespace or None, kind.namespace(namespace).budget)
        if listed is None:
            return False
        kind.namespaces[namespace] = _Namespace(places=listed.get(namespace, {}), is_listed=True)
        return True

    async def _list(
        self, resource: APIResource, namespace: str | None, budget: _Budget
    ) -> dict[str, dict[str, Place | None]] | None:
        """The places of listed objects by namespace and name; None if the list is too long, or refused."""
        if budget.requests < budget.try_at:
            return None  # Another task tried meanwhile.
        places: dict[str, dict[str, Place | None]] = {}
        try:
            async with aclosing(self._client.list_pages(resource, namespace)) as pages:
                async for page in pages:
                    if not places and (page.total is None or page.total > budget.objects):
                        budget.try_at = 2 * budget.requests
                        return None
                    if page.restarted:
                        places.clear()
                    for item in page.items:
                        places.setdefault(item.namespace, {})[item.name] = self._kept.add(item.json())
        except KubeError:
            budget.try_at = _NEVER
            return None
        return places


def _json(obj: JSONObject) -> bytes:
    """The JSON of an object; empty if it is nested too deeply to be written."""
    try:
        return dump_json(obj)
    except orjson.JSONEncodeError:
        return b""
