"""A cluster in memory, for the commands that talk to one: each is run as a user runs it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import pytest

from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.kube.client import ServerVersion
from pinnace.kube.errors import AlreadyExists, APIStatusError, Conflict, NotFound
from pinnace.kube.resources import APIResource, velero

Key = tuple[str, str | None, str]


class FakeCluster:
    """Objects by resource, namespace and name, with the answers of an API server.

    Attributes:
        writes: what was asked for, in order: verb, resource and name.
        failures: an error to give instead, by verb and resource: `("delete", "namespaces")`.
        unserved: resources, with their version, that the cluster does not know: `("schedules", "v1")`.
        logs: the logs of containers by pod, container and whether they are those before the last restart.
        plugins: what a server answers to a ServerStatusRequest; None when none runs.
    """

    def __init__(self) -> None:
        self.objects: dict[Key, JSONObject] = {}
        self.writes: list[tuple[str, str, str]] = []
        self.failures: dict[tuple[str, str], APIStatusError] = {}
        self.unserved: set[tuple[str, str]] = set()
        self.logs: dict[tuple[str, str, bool], str] = {}
        self.plugins: list[JSONObject] | None = []
        self.conflicts = 0
        self._version = 100

    def add(self, resource: APIResource, name: str, namespace: str | None = "velero", **fields: Any) -> None:
        """Put an object into the cluster; `labels` goes into its metadata."""
        metadata: JSONObject = {"name": name, "resourceVersion": str(self._next_version())}
        if resource.namespaced:
            metadata["namespace"] = namespace
        for field in ("labels", "annotations", "creationTimestamp", "deletionTimestamp", "finalizers"):
            if field in fields:
                metadata[field] = fields.pop(field)
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.objects[self._key(resource, name, namespace)] = obj

    def named(self, resource: APIResource, name: str, namespace: str | None = "velero") -> JSONObject:
        """The object as it is now."""
        return self.objects[self._key(resource, name, namespace)]

    def names(self, resource: APIResource) -> list[str]:
        """The names of all objects of a resource."""
        return [name for plural, _, name in self.objects if plural == resource.group_resource]

    # --- The client -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        self._check("get", resource)
        found = self.objects.get(self._key(resource, name, namespace))
        if found is None:
            raise _missing(resource, name)
        return deepcopy(self._answered(found))

    async def create(
        self, resource: APIResource, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self._check("create", resource)
        metadata = body["metadata"]
        name = metadata.get("name") or f"{metadata['generateName']}{self._next_version()}"
        self.writes.append(("create", resource.name, name))
        key = self._key(resource, name, namespace)
        if key in self.objects:
            message = f'{resource.group_resource} "{name}" already exists'
            raise AlreadyExists(409, reason="AlreadyExists", message=message)
        stored = {**metadata, "name": name, "uid": "1", "resourceVersion": str(self._next_version())}
        self.objects[key] = {**deepcopy(body), "metadata": stored}
        return deepcopy(self.objects[key])

    async def replace(
        self, resource: APIResource, name: str, body: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self._check("replace", resource)
        self.writes.append(("replace", resource.name, name))
        current = await self.get(resource, name, namespace)
        assert body["metadata"]["resourceVersion"] == current["metadata"]["resourceVersion"]
        self.objects[self._key(resource, name, namespace)] = deepcopy(body)
        return body

    async def patch(
        self, resource: APIResource, name: str, patch: JSONObject, namespace: str | None = None
    ) -> JSONObject:
        self._check("patch", resource)
        self.writes.append(("patch", resource.name, name))
        current = await self.get(resource, name, namespace)
        version = (patch.get("metadata") or {}).get("resourceVersion")
        if self.conflicts or version not in (None, current["metadata"]["resourceVersion"]):
            self.conflicts = max(0, self.conflicts - 1)
            raise Conflict(409, reason="Conflict", message="the object has been modified")
        merged = _merged(current, patch)
        merged["metadata"]["resourceVersion"] = str(self._next_version())
        self.objects[self._key(resource, name, namespace)] = merged
        return deepcopy(merged)

    async def delete(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        self._check("delete", resource)
        self.writes.append(("delete", resource.name, name))
        try:
            return self.objects.pop(self._key(resource, name, namespace))
        except KeyError:
            raise _missing(resource, name) from None

    async def list_all(
        self, resource: APIResource, namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        self._check("list", resource)
        selector = Selector.parse(label_selector)
        return [
            deepcopy(obj)
            for (plural, where, _), obj in self.objects.items()
            if plural == resource.group_resource
            and (namespace is None or not resource.namespaced or where == namespace)
            and selector.matches(obj["metadata"].get("labels"))
        ]

    async def request(self, method: str, path: str, *, params: Mapping[str, str], accept: str = "") -> bytes:
        """Only logs of pods are asked for by path."""
        pod = unquote(path).removesuffix("/log").rpartition("/")[2]
        assert (method, path.endswith(f"/pods/{pod}/log")) == ("GET", True)
        assert "text/plain" in accept
        found = self.logs.get((pod, params["container"], params["previous"] == "true"))
        if found is None:
            raise NotFound(404, reason="NotFound", message="previous terminated container not found")
        return found.encode()

    async def version(self) -> ServerVersion:
        return ServerVersion(git_version="v1.30.2", major="1", minor="30")

    # --- What makes it tick -----------------------------------------------------------------------------

    def _answered(self, found: JSONObject) -> JSONObject:
        """A server answers requests for its status by the time that somebody looks at them again."""
        if found["kind"] == "ServerStatusRequest" and self.plugins is not None:
            found["status"] = {"phase": "Processed", "serverVersion": "v1.6.3", "plugins": self.plugins}
        return found

    def _check(self, verb: str, resource: APIResource) -> None:
        if (resource.name, resource.version) in self.unserved:
            raise NotFound(404, message="404 page not found")
        if error := self.failures.get((verb, resource.name)):
            raise error

    def _key(self, resource: APIResource, name: str, namespace: str | None) -> Key:
        return (resource.group_resource, namespace if resource.namespaced else None, name)

    def _next_version(self) -> int:
        self._version += 1
        return self._version


def _missing(resource: APIResource, name: str) -> NotFound:
    return NotFound(404, reason="NotFound", message=f'{resource.group_resource} "{name}" not found')


def _merged(target: JSONObject, patch: JSONObject) -> JSONObject:
    """A merge patch applied. (RFC 7386)"""
    result = dict(target)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result[key] if isinstance(result.get(key), dict) else {}, value)
        else:
            result[key] = value
    return result


def connected(monkeypatch: pytest.MonkeyPatch, home: Path) -> FakeCluster:
    """The cluster that the commands of this test find, with nothing of the user's own around it."""
    from pinnace.cli.client import server_status

    cluster = FakeCluster()
    monkeypatch.setenv("HOME", str(home))
    for name in ("PINNACE_LOCATION", "VELERO_NAMESPACE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pinnace.kube.config.load_config", lambda *_, **__: None)

    def client(_config: None, *, user_agent: str) -> AbstractAsyncContextManager[Any]:
        assert user_agent.startswith("pinnace/v")
        return cluster

    monkeypatch.setattr("pinnace.kube.client.KubeClient", client)
    monkeypatch.setattr(server_status, "POLL_SECONDS", 0)
    return cluster


SCHEDULES = velero("schedules")
BACKUP_LOCATIONS = velero("backupstoragelocations")
SNAPSHOT_LOCATIONS = velero("volumesnapshotlocations")
