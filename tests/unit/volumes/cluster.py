"""The fake cluster of the controllers' tests, with creating and with objects in other namespaces."""

import copy
from collections.abc import Callable
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.kube.errors import AlreadyExists
from pinnace.kube.resources import APIResource
from tests.unit.controllers.fakes import NAMESPACE, FakeCluster


class VolumeCluster(FakeCluster):
    """Attributes:
    on_create: told of each new object, which is stored by then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.on_create: Callable[[JSONObject], None] = lambda _obj: None
        self.elsewhere: dict[tuple[str, str, str], JSONObject] = {}

    def put(self, plural: str, namespace: str, name: str, **members: Any) -> JSONObject:
        """An object that is not one of ours; cluster-scoped with an empty namespace."""
        metadata = {"namespace": namespace, "name": name, "uid": f"uid-{name}"}
        obj = {"metadata": metadata, **members}
        self.elsewhere[plural, namespace, name] = obj
        return obj

    async def get(self, resource: APIResource, name: str, namespace: str = "") -> JSONObject:
        found = self.elsewhere.get((resource.name, namespace, name))
        if found is not None:
            return self._call("get", resource.name, name, lambda: copy.deepcopy(found))
        return await super().get(resource, name, namespace or NAMESPACE)

    async def create(self, resource: APIResource, body: JSONObject, namespace: str) -> JSONObject:
        assert namespace == NAMESPACE
        name = body["metadata"]["name"]

        def effect() -> JSONObject:
            if (resource.name, name) in self.objects:
                raise AlreadyExists(409, reason="AlreadyExists", message=f"{name} already exists")
            metadata = {**body["metadata"], "uid": f"uid-{name}"}
            self.objects[resource.name, name] = self._stored({**body, "metadata": metadata})
            return copy.deepcopy(self.objects[resource.name, name])

        created = self._call("create", resource.name, name, effect)
        self.on_create(created)
        return created

    def of(self, plural: str) -> list[JSONObject]:
        """All objects of a kind, in the order of their making."""
        return [obj for (kind, _), obj in self.objects.items() if kind == plural]
