"""A server's controllers on a real API server, with a location of its own."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

from prometheus_client.parser import text_string_to_metric_families

from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CONFIGMAPS, SECRETS, velero
from pinnace.runtime.manager import ManagerPhase
from pinnace.server.app import Assembly
from pinnace.server.options import ServerOptions
from tests.support.waiting import eventually

StartProxy = Callable[[ControlPlane | S3Server], Awaitable[FaultProxy]]


FINAL = frozenset({"FailedValidation", "Completed", "PartiallyFailed", "Failed"})


class Site:
    """A namespace with locations, and the objects of our kinds in it."""

    def __init__(self, client: KubeClient, namespace: str, folder: Path) -> None:
        self.client = client
        self.namespace = namespace
        self.folder = folder

    async def create(
        self, plural: str, name: str, *, spec: Mapping[str, Any] | None = None, **members: Any
    ) -> JSONObject:
        """Create an object; `labels`, `annotations` go to its metadata, other members beside the spec."""
        metadata = {"name": name, "namespace": self.namespace}
        for member in ("labels", "annotations"):
            if member in members:
                metadata[member] = members.pop(member)
        resource = velero(plural)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return await self.client.create(
            resource, {**body, "spec": dict(spec or {}), **members}, self.namespace
        )

    async def get(self, plural: str, name: str) -> JSONObject:
        return await self.client.get(velero(plural), name, self.namespace)

    async def gone(self, plural: str, name: str) -> None:
        """Wait until an object is deleted."""

        async def check() -> bool:
            try:
                await self.get(plural, name)
            except NotFound:
                return True
            return False

        await eventually(check)

    async def reached(self, plural: str, name: str, *phases: str) -> JSONObject:
        """The object, once it has one of these phases; without any, a final one."""
        found: JSONObject = {}

        async def check() -> bool:
            found.update(await self.get(plural, name))
            return (found.get("status") or {}).get("phase") in (phases or FINAL)

        await eventually(check)
        return found

    async def add_folder(self, name: str = "default", **spec: Any) -> Path:
        """A location in a folder; the folder."""
        bucket = f"bucket-{name[:20]}"
        given = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(self.folder)},
            "objectStorage": {"bucket": bucket},
            **spec,
        }
        folder = self.folder / bucket
        folder.mkdir(exist_ok=True)
        await self.create("backupstoragelocations", name, spec=given)
        return folder

    async def add_bucket(self, bucket: Bucket, name: str = "default", **spec: Any) -> None:
        """A location in a bucket, with its credentials in a Secret."""
        metadata = {"name": "cloud-credentials", "namespace": self.namespace}
        text = bucket.server.credentials_file.read_text()
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"cloud": text}}
        await self.client.create(SECRETS, secret, self.namespace)
        given = {
            "provider": "aws",
            "config": bucket.location_config,
            "objectStorage": {"bucket": bucket.name, "prefix": "site"},
            "credential": {"name": "cloud-credentials", "key": "cloud"},
            **spec,
        }
        await self.create("backupstoragelocations", name, spec=given)

    async def add_maps(self, count: int = 3, **data: str) -> None:
        """Config maps in this very namespace, to back up."""
        for number in range(count):
            metadata = {"name": f"map-{number}", "namespace": self.namespace}
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
            await self.client.create(CONFIGMAPS, body, self.namespace)

    def maps_of(self, **spec: Any) -> JSONObject:
        """A Backup's spec for those."""
        return {"includedNamespaces": [self.namespace], "includedResources": ["configmaps"], **spec}


class Serve(Protocol):
    """The `serve` fixture."""

    async def __call__(self, *, client: KubeClient | None = None, **options: Any) -> Assembly: ...


@asynccontextmanager
async def running(
    client: KubeClient, namespace: str, folder: Path, **options: Any
) -> AsyncIterator[Assembly]:
    """A server that has started; stopped in order at the end."""
    given = ServerOptions(
        namespace=namespace,
        metrics_address="127.0.0.1:0",
        **{"leader_election": False, "log_level": "error", **options},
    )
    workdir = folder / f"work-{secrets.token_hex(4)}"
    workdir.mkdir()
    assembly = Assembly(client, given, workdir)
    manager, stop = assembly.manager(), asyncio.Event()
    task = asyncio.create_task(manager.run(stop))
    try:
        await _until(task, lambda: manager.phase is ManagerPhase.RUNNING)
        yield assembly
    finally:
        stop.set()
        await task


async def _until(task: asyncio.Task[None], condition: Callable[[], bool]) -> None:
    async def check() -> bool:
        return task.done() or condition()

    await eventually(check)
    if task.done():
        task.result()


def counters(server: Assembly) -> dict[str, float]:
    """The counters that are not zero, summed over schedules."""
    moved: dict[str, float] = {}
    for family in text_string_to_metric_families(server.metrics.exposition().decode()):
        for sample in family.samples:
            if family.type == "counter" and sample.name.startswith("velero_") and sample.value:
                name = sample.name.removeprefix("velero_").removesuffix("_total")
                moved[name] = moved.get(name, 0) + sample.value
    return moved


async def counted(server: Assembly, **expected: float) -> None:
    """Wait for these counts: an invalid object is counted after its phase can be seen."""

    async def check() -> bool:
        return expected.items() <= counters(server).items()

    await eventually(check)
