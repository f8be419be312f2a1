"""A cluster in memory with the few calls that controllers make, and a record of what they counted."""

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from pinnace.api.objects import JSONObject
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.client import ServerVersion
from pinnace.kube.errors import ConnectionFailed, KubeError
from pinnace.kube.resources import APIResource, velero
from pinnace.runtime.keys import Key
from tests.support.clock import FrozenClock
from tests.support.cluster.scripted_api import ScriptedAPI

NAMESPACE = "velero"
LOCATIONS = velero("backupstoragelocations")
BROKEN = ConnectionFailed("the connection broke")


class FakeCluster(ScriptedAPI[tuple[str, str]]):
    """Objects by plural and name; the plural of those of another namespace begins with it.

    Attributes:
        patches: (plural, name, patch) of those that were stored.
        versions_read: how often the version was asked for.
    """

    def __init__(self, clock: FrozenClock | None = None) -> None:
        super().__init__(clock)
        self.patches: list[tuple[str, str, JSONObject]] = []
        self.versions_read = 0
        self.with_status = {"backupstoragelocations", "downloadrequests", "serverstatusrequests"}

    def key(self, resource: APIResource, namespace: str, name: str) -> tuple[str, str]:
        plural = resource.name if namespace in ("", NAMESPACE) else f"{namespace}'s {resource.name}"
        return plural, name

    def add(
        self, plural: str, name: str, *, labels: Mapping[str, str] | None = None, **members: Any
    ) -> JSONObject:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name[:20]}",
            "labels": dict(labels or {}),
            "creationTimestamp": "2021-08-11T21:43:26Z",
        }
        obj = {"apiVersion": "velero.io/v1", "metadata": metadata, **members}
        kind = APIResource(group="velero.io", version="v1", name=plural, kind="", namespaced=True)
        return self.store(kind, NAMESPACE, obj)

    def status(self, plural: str, name: str) -> JSONObject:
        """Empty if there is no status, or no such object."""
        return self.objects.get((plural, name), {}).get("status") or {}

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        changed = await super().patch(resource, name, patch, namespace, subresource=subresource)
        self.patches.append((resource.name, name, copy.deepcopy(patch)))
        return changed

    async def version(self) -> ServerVersion:
        self.versions_read += 1
        return ServerVersion(git_version="v1.16.4", major="1", minor="16")

    async def request(self, _method: str, _path: str) -> bytes:
        """The discovery document of our API group."""
        names = [f"{plural}/status" for plural in sorted(self.with_status)]
        return orjson.dumps({"resources": [{"name": name} for name in names]})


def fail_once(*call: str, error: KubeError = BROKEN) -> Callable[[str, str, str], None]:
    """For `before` or `after`: the first call that matches fails."""
    left = [error]

    def check(*actual: str) -> None:
        if actual[: len(call)] == call and left:
            raise left.pop()

    return check


def fail_always(*call: str, error: KubeError = BROKEN) -> Callable[[str, str, str], None]:
    """For `before` or `after`: every call that matches fails."""

    def check(*actual: str) -> None:
        if actual[: len(call)] == call:
            raise error

    return check


class RecordingMetrics:
    """Keeps every call as (name, arguments)."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        def record(*args: object, **kwargs: object) -> None:
            self.calls.append((name, *args, *kwargs.values()))

        return record


class World:
    """One server's surroundings: cluster, clock, metrics, a location `default` in a folder."""

    def __init__(self, folder: Path) -> None:
        self.cluster = FakeCluster()
        self.clock = FrozenClock()
        self.metrics = RecordingMetrics()
        self.folder = folder
        self.scope = Scope(
            client=self.cluster.client,
            namespace=NAMESPACE,
            metrics=self.metrics,
            workdir=folder,
            clock=self.clock,
        )
        self.locations = LocationStores(self.cluster.client, NAMESPACE, folder / "credentials")

    def add_location(self, name: str = "default", **spec: Any) -> JSONObject:
        spec = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(self.folder)},
            "objectStorage": {"bucket": f"bucket-{name}"},
            **spec,
        }
        (self.folder / f"bucket-{name}").mkdir(exist_ok=True)
        obj = self.cluster.add(LOCATIONS.name, name, spec=spec)
        self.cluster.objects[LOCATIONS.name, name]["metadata"]["generation"] = 1
        return obj

    def files(self, name: str = "default") -> list[str]:
        """Keys in a location."""
        root = self.folder / f"bucket-{name}"
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def key(name: str) -> Key:
    return Key(NAMESPACE, name)
