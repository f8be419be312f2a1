"""A cluster in memory with the few calls that controllers make, and a record of what they counted."""

import copy
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast

import orjson

from pinnace.api.objects import JSONObject
from pinnace.api.selection.selectors import Selector
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import Conflict, ConnectionFailed, Invalid, KubeError, NotFound
from pinnace.kube.resources import APIResource, velero
from pinnace.runtime.keys import Key
from tests.support.clock import FrozenClock

NAMESPACE = "velero"
LOCATIONS = velero("backupstoragelocations")
BROKEN = ConnectionFailed("the connection broke")

Call = tuple[str, str, str]
T = TypeVar("T")


class FakeCluster:
    """Objects of the namespace by plural and name; nothing is found in any other namespace.

    Patches are merge patches with uid and resourceVersion as preconditions.

    Attributes:
        calls: (verb, plural, name) of all calls, in order.
        patches: (plural, name, patch) of those that were stored.
        with_status_subresource: plurals whose definition has one.
        before, after: called with each call before and after it took effect; raise there what shall fail.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], JSONObject] = {}
        self.calls: list[Call] = []
        self.patches: list[tuple[str, str, JSONObject]] = []
        self.with_status_subresource = {"backupstoragelocations", "downloadrequests", "serverstatusrequests"}
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self.after: Callable[[str, str, str], None] = lambda *_: None
        self._versions = itertools.count(1)

    @property
    def client(self) -> KubeClient:
        return cast("KubeClient", self)

    def add(
        self, plural: str, name: str, *, labels: Mapping[str, str] | None = None, **members: Any
    ) -> JSONObject:
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "uid": f"uid-{name[:20]}",
            "labels": dict(labels or {}),
        }
        obj = {"apiVersion": "velero.io/v1", "metadata": metadata, **members}
        obj["metadata"]["creationTimestamp"] = "2021-08-11T21:43:26Z"
        self.objects[plural, name] = self._stored(obj)
        return obj

    def status(self, plural: str, name: str) -> JSONObject:
        """Empty if there is no status, or no such object."""
        return self.objects.get((plural, name), {}).get("status") or {}

    def writes(self) -> list[Call]:
        return [call for call in self.calls if call[0] not in ("get", "list")]

    async def get(self, resource: APIResource, name: str, namespace: str) -> JSONObject:
        plural = resource.name if namespace == NAMESPACE else f"{namespace}'s {resource.name}"
        return self._call("get", resource.name, name, lambda: self._found(plural, name))

    server = "https://127.0.0.1:6443"

    async def list_all(
        self, resource: APIResource, _namespace: str | None = None, *, label_selector: str = ""
    ) -> list[JSONObject]:
        chosen = Selector.parse(label_selector)
        return self._call(
            "list",
            resource.name,
            "",
            lambda: [
                copy.deepcopy(obj)
                for (plural, _), obj in self.objects.items()
                if plural == resource.name and chosen.matches(obj["metadata"]["labels"])
            ],
        )

    async def patch(
        self,
        resource: APIResource,
        name: str,
        patch: JSONObject,
        _namespace: str,
        *,
        subresource: str | None = None,
    ) -> JSONObject:
        def change() -> JSONObject:
            obj = self._found(resource.name, name)
            served = resource.name in self.with_status_subresource
            if subresource == "status" and not served:
                raise NotFound(404, reason="NotFound", message="the server could not find the resource")
            metadata = patch.get("metadata") or {}
            if metadata.get("uid") not in (None, obj["metadata"]["uid"]):
                raise Invalid(422, reason="Invalid", message="metadata.uid: field is immutable")
            if metadata.get("resourceVersion") not in (None, obj["metadata"]["resourceVersion"]):
                raise Conflict(409, reason="Conflict", message="the object has been modified")
            written = {
                member: value
                for member, value in patch.items()
                if not served or member == "metadata" or (member == "status") == (subresource == "status")
            }
            self.objects[resource.name, name] = self._stored(_merged(obj, written))
            self.patches.append((resource.name, name, copy.deepcopy(patch)))
            return copy.deepcopy(self.objects[resource.name, name])

        return self._call("patch", resource.name, name, change)

    async def request(self, _method: str, _path: str) -> bytes:
        """The discovery document of our API group."""
        names = [f"{plural}/status" for plural in sorted(self.with_status_subresource)]
        return orjson.dumps({"resources": [{"name": name} for name in names]})

    async def delete(
        self, resource: APIResource, name: str, _namespace: str, *, uid: str | None = None
    ) -> JSONObject:
        def remove() -> JSONObject:
            if uid not in (None, self._found(resource.name, name)["metadata"]["uid"]):
                raise Conflict(409, reason="Conflict", message="the uid is another")
            return self.objects.pop((resource.name, name))

        return self._call("delete", resource.name, name, remove)

    def _call(self, verb: str, plural: str, name: str, effect: Callable[[], T]) -> T:
        self.calls.append((verb, plural, name))
        self.before(verb, plural, name)
        result = effect()
        self.after(verb, plural, name)
        return result

    def _found(self, plural: str, name: str) -> JSONObject:
        try:
            return copy.deepcopy(self.objects[plural, name])
        except KeyError:
            text = f'{plural}.velero.io "{name}" not found'
            raise NotFound(404, reason="NotFound", message=text) from None

    def _stored(self, obj: JSONObject) -> JSONObject:
        obj["metadata"]["resourceVersion"] = str(next(self._versions))
        return copy.deepcopy(obj)


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


def _merged(obj: JSONObject, patch: JSONObject) -> JSONObject:
    result = dict(obj)
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _merged(result.get(key) or {}, value)
        else:
            result[key] = value
    return result


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
