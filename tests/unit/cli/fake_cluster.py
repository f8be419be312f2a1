"""A cluster in memory, for the commands that talk to one: each is run as a user runs it."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import pytest

from pinnace.api.objects import JSONObject
from pinnace.kube.client import ServerVersion
from pinnace.kube.errors import APIStatusError, Conflict, NotFound
from pinnace.kube.resources import APIResource, velero
from tests.support.cluster.scripted_api import ScriptedAPI

Key = tuple[str, str | None, str]


class FakeCluster(ScriptedAPI[Key]):
    """Objects by resource, namespace and name.

    Attributes:
        failures: an error to give instead, by verb and resource: `("delete", "namespaces")`.
        unserved: resources, with their version, that the cluster does not know: `("schedules", "v1")`.
        logs: the logs of containers by pod, container and whether they are those before the last restart.
        plugins: what a server answers to a ServerStatusRequest; None when none runs.
        conflicts: how many of the next patches find the object modified.
    """

    def __init__(self) -> None:
        super().__init__()
        self.failures: dict[tuple[str, str], APIStatusError] = {}
        self.unserved: set[tuple[str, str]] = set()
        self.logs: dict[tuple[str, str, bool], str] = {}
        self.plugins: list[JSONObject] | None = []
        self.conflicts = 0

    def key(self, resource: APIResource, namespace: str, name: str) -> Key:
        return resource.group_resource, namespace if resource.namespaced else None, name

    def new_uid(self, resource: APIResource, name: str) -> str:
        return "1"

    def check(self, verb: str, resource: APIResource, namespace: str, name: str) -> None:
        if (resource.name, resource.version) in self.unserved:
            raise NotFound(404, message="404 page not found")
        if error := self.failures.get((verb, resource.name)):
            raise error
        if verb == "patch" and self.conflicts:
            self.conflicts -= 1
            raise Conflict(409, reason="Conflict", message="the object has been modified")

    def add(self, resource: APIResource, name: str, namespace: str | None = "velero", **fields: Any) -> None:
        """Put an object into the cluster; `labels` goes into its metadata."""
        metadata: JSONObject = {"name": name}
        if resource.namespaced:
            metadata["namespace"] = namespace
        for field in ("labels", "annotations", "creationTimestamp", "deletionTimestamp", "finalizers"):
            if field in fields:
                metadata[field] = fields.pop(field)
        obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **fields}
        self.store(resource, namespace or "", obj)

    def named(self, resource: APIResource, name: str, namespace: str | None = "velero") -> JSONObject:
        """The object as it is now."""
        return self.objects[self.key(resource, namespace or "", name)]

    def names(self, resource: APIResource) -> list[str]:
        """The names of all objects of a resource."""
        return [obj["metadata"]["name"] for obj in self.of(resource)]

    # --- The client -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        return None

    async def get(self, resource: APIResource, name: str, namespace: str | None = None) -> JSONObject:
        """A server answers requests for its status by the time that they are looked at again."""
        found = await super().get(resource, name, namespace)
        if found["kind"] == "ServerStatusRequest" and self.plugins is not None:
            found["status"] = {"phase": "Processed", "serverVersion": "v1.6.3", "plugins": self.plugins}
        return found

    async def create(
        self,
        resource: APIResource,
        body: JSONObject | bytes,
        namespace: str | None = None,
        *,
        dry_run: bool = False,
        field_manager: str = "",
    ) -> JSONObject:
        """No field managers are kept."""
        return await super().create(resource, body, namespace, dry_run=dry_run)

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


def connected(monkeypatch: pytest.MonkeyPatch, home: Path) -> FakeCluster:
    """The cluster that the commands of this test find, with nothing of the user's own around it."""
    from pinnace.client import server_status

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
