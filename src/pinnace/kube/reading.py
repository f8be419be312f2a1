"""The part of a client that only reads objects, for all rooms that need no more of it."""

from typing import Protocol

from pinnace.api.objects import JSONObject
from pinnace.kube.resources import APIResource


class ObjectReader(Protocol):
    """Reads single objects. Errors are `pinnace.kube.errors.KubeError`."""

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        """One object, with apiVersion and kind."""
        ...


class ObjectLister(Protocol):
    """Reads all objects that match. Errors are `pinnace.kube.errors.KubeError`."""

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        """The objects of a namespace, or (None) of all."""
        ...


class ObjectSource(ObjectReader, ObjectLister, Protocol):
    """Reads and lists objects."""
