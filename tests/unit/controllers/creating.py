"""A fake cluster in which objects can also be created, and caches that are always in step with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from pinnace.api.objects import JSONObject
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.resources import APIResource
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from tests.unit.controllers.fakes import NAMESPACE, FakeCluster, World


class CreatingCluster(FakeCluster):
    """Takes new objects of the server's namespace only, each with its kind and namespace in it."""

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> JSONObject:
        assert not dry_run
        obj: JSONObject = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
        assert (obj["apiVersion"], obj["kind"]) == (resource.api_version, resource.kind)
        assert obj["metadata"]["namespace"] == namespace == NAMESPACE
        obj["metadata"].setdefault("labels", {})
        return await super().create(resource, obj, namespace)


class CreatingWorld(World):
    """A world with such a cluster."""

    cluster: CreatingCluster

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.cluster = CreatingCluster(self.clock)
        self.scope = replace(self.scope, client=self.cluster.client)
        self.locations = LocationStores(self.cluster.client, NAMESPACE, folder / "credentials")

    def all_of(self, plural: str) -> dict[str, JSONObject]:
        """The objects of a kind by name."""
        return {name: obj for (kind, name), obj in self.cluster.objects.items() if kind == plural}

    def edit(self, plural: str, name: str, **spec: Any) -> None:
        """Change members of a spec, as a user does."""
        self.cluster.objects[plural, name]["spec"].update(spec)


class Cached(Informer):
    """A cache that is always in step with the fake cluster."""

    def __init__(self, world: CreatingWorld, resource: APIResource) -> None:
        super().__init__(world.cluster.client, resource, NAMESPACE)
        self._world = world

    def objects(self) -> list[JSONObject]:
        return list(self._world.all_of(self.resource.name).values())

    def get(self, key: Key) -> JSONObject | None:
        return self._world.all_of(self.resource.name).get(key.name)
