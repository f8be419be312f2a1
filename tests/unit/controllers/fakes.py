"""The surroundings of a server's controllers: the scripted cluster, a clock, what they counted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from pinnace.api.objects import JSONObject
from pinnace.controllers.shared.locations import LocationStores
from pinnace.controllers.shared.scope import Scope
from pinnace.kube.errors import ConnectionFailed, KubeError
from pinnace.kube.resources import APIResource, velero
from pinnace.runtime.informer import Informer
from pinnace.runtime.keys import Key
from tests.support.clock import FakeClock
from tests.support.cluster.scripted_cluster import ScriptedCluster

NAMESPACE = "velero"
LOCATIONS = velero("backupstoragelocations")
BROKEN = ConnectionFailed("the connection broke")


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

    def __init__(self, folder: Path, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.cluster = ScriptedCluster(self.clock)
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
        return self.cluster.add(LOCATIONS, name, spec=spec)

    def all_of(self, plural: str) -> dict[str, JSONObject]:
        """Return the objects of a kind by name."""
        return {obj["metadata"]["name"]: obj for obj in self.cluster.of(plural)}

    def edit(self, plural: str, name: str, **spec: Any) -> None:
        """Change members of a spec, as a user does."""
        self.cluster.stored(plural, name)["spec"].update(spec)

    def files(self, name: str = "default") -> list[str]:
        """Keys in a location."""
        root = self.folder / f"bucket-{name}"
        return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


class Cached(Informer):
    """A cache that is always in step with the cluster."""

    def __init__(self, world: World, resource: APIResource) -> None:
        super().__init__(world.cluster.client, resource, NAMESPACE)
        self._world = world

    def objects(self) -> list[JSONObject]:
        return list(self._world.all_of(self.resource.name).values())

    def get(self, key: Key) -> JSONObject | None:
        return self._world.all_of(self.resource.name).get(key.name)


def key(name: str) -> Key:
    return Key(NAMESPACE, name)
