"""The fake cluster of the controllers' tests, with creating and with objects in other namespaces."""

import copy
from collections.abc import Callable
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource, velero
from tests.unit.controllers.fakes import NAMESPACE, FakeCluster


class VolumeCluster(FakeCluster):
    """A cluster that may have objects in other namespaces.

    Attributes:
        on_create: called with each new object after it was stored.
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

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        found = self.elsewhere.get((resource.name, namespace or "", name))
        if found is None:
            return await super().get(resource, name, namespace)
        self.calls.append(self.describe("get", resource, namespace or "", name))
        self.before("get", resource.name, name)
        return copy.deepcopy(found)

    def new_uid(self, resource: APIResource, name: str) -> str:
        return f"uid-{name}"

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
    ) -> JSONObject:
        assert namespace == NAMESPACE
        created = await super().create(resource, body, namespace, dry_run=dry_run)
        self.on_create(created)
        return created

    def all_of(self, plural: str) -> list[JSONObject]:
        """The objects of one of our kinds, in the order of their creation."""
        return self.of(velero(plural))
