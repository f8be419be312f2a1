"""A fake cluster in which objects can also be created, and caches that are always in step with it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from pinnace.api.objects import JSONObject
from pinnace.api.values.times import format_time
from pinnace.controllers.shared.locations import LocationStores
from pinnace.kube.errors import AlreadyExists, Invalid
from pinnace.kube.resources import APIResource
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from tests.support.clock import FrozenClock
from tests.unit.controllers.fakes import NAMESPACE, FakeCluster, World


class CreatingCluster(FakeCluster):
    """Gives new objects a uid, a creation time by the clock, and a name where there is only its beginning."""

    def __init__(self, clock: FrozenClock) -> None:
        super().__init__()
        self._clock = clock
        self._created = 0

    async def create(
        self, resource: APIResource, body: JSONObject | bytes, namespace: str, *, dry_run: bool = False
    ) -> JSONObject:
        assert not dry_run
        obj: JSONObject = orjson.loads(body if isinstance(body, bytes) else orjson.dumps(body))
        metadata = obj["metadata"]
        assert (obj["apiVersion"], obj["kind"]) == (resource.api_version, resource.kind)
        assert metadata["namespace"] == namespace == NAMESPACE
        self._created += 1
        metadata.setdefault("name", f"{metadata.get('generateName', '')}{self._created}")
        metadata.setdefault("labels", {})
        name = metadata["name"]

        def store() -> JSONObject:
            if metadata.get("resourceVersion"):
                raise Invalid(422, reason="Invalid", message="resourceVersion should not be set")
            if (resource.name, name) in self.objects:
                raise AlreadyExists(409, reason="AlreadyExists", message=f'"{name}" already exists')
            metadata["uid"] = f"created-{self._created}"
            metadata["creationTimestamp"] = format_time(self._clock())
            self.objects[resource.name, name] = self._stored(obj)
            return obj

        return self._call("create", resource.name, name, store)


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
