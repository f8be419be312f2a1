"""The control plane of a benchmark: started, loaded, emptied.

The controller manager is stopped once the cluster is up: namespaces and objects then hold exactly what was
created, and no controller's own work falls into a sample.
"""

import asyncio
import json
import shutil
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import aiohttp
import orjson

from bench.floor.access import Access
from bench.floor.create import write_waves
from bench.floor.generate import GROUP, SHARES, CreateRequest, Generator
from bench.floor.lists import PAGE_ITEMS, continue_token, list_paths
from bench.floor.posting import create_all, open_session
from hack.cluster.control_plane import ControlPlane, Options

READY_SECONDS = 60.0
DELETE_LANES = 16
POLL_SECONDS = 0.05
COLLECTIONS = sorted({share.path.replace("/namespaces/{}", "") for share in SHARES})
"""The collections of generated objects, over all namespaces."""
_SERVER_FIELDS = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"})


class BenchCluster:
    """A control plane with N generated objects. A context manager; its folder is removed at the end.

    Args:
        folder: everything of this run goes below it.
    """

    def __init__(self, folder: Path, generator: Generator) -> None:
        self.folder = folder
        self.generator = generator
        self._plane = ControlPlane(
            folder / "cluster",
            name="bench",
            options=Options(api_server_flags=("--delete-collection-workers=8",)),
        )
        self.kubeconfig = self._plane.kubeconfig
        self.access_file = folder / "access.json"
        self.paths_file = folder / "paths.json"
        self.requests_file = folder / "requests"

    def __enter__(self) -> Self:
        try:
            self._plane.start()
            self._plane.stop_process("kube-controller-manager")
            pki = self._plane.directory / "pki"
            self.access = Access(
                server=self._plane.url,
                authority=str(pki / "ca.crt"),
                certificate=str(pki / "admin.crt"),
                key=str(pki / "admin.key"),
            )
            self.access.save(self.access_file)
        except BaseException:
            self._plane.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._plane.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def load(self) -> None:
        """Create all objects, and store the lists that a backup of them makes."""
        asyncio.run(self._load())

    def count(self) -> int:
        """The number of objects in those lists."""
        return asyncio.run(self._count())

    def server_version(self) -> str:
        """The API server's version."""
        return str(asyncio.run(self._get_json("/version"))["gitVersion"])

    def save_requests(self) -> int:
        """Write the objects of the namespaces as ready-made creates for the floor; return their number."""
        return asyncio.run(self._save_requests())

    def empty(self) -> None:
        """Delete all objects of the namespaces and wait until they are gone; the namespaces stay."""
        asyncio.run(self._empty())

    async def _load(self) -> None:
        async with open_session(self.access, in_flight=32) as session:
            await create_all(session, self.generator.foundation())
            async with asyncio.timeout(READY_SECONDS):
                while not await self._serves_widgets(session):  # noqa: ASYNC110 - discovery has no watch
                    await asyncio.sleep(POLL_SECONDS)
            await create_all(session, self.generator.accounts())
            await create_all(session, self.generator.objects())
            self.paths_file.write_text(json.dumps(list_paths(await self._resource_lists(session))))

    async def _serves_widgets(self, session: aiohttp.ClientSession) -> bool:
        async with session.get(f"/apis/{GROUP}/v1/widgets?limit=1") as response:
            return response.status == 200

    async def _resource_lists(self, session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        groups = (await _json(session, "/apis"))["groups"]
        # The preferred version of each group goes first.
        versions = [
            version["groupVersion"]
            for group in groups
            for version in sorted(group["versions"], key=lambda v: v != group["preferredVersion"])
        ]
        return [await _json(session, path) for path in ("/api/v1", *(f"/apis/{name}" for name in versions))]

    async def _get_json(self, path: str) -> dict[str, Any]:
        async with open_session(self.access, in_flight=1) as session:
            return await _json(session, path)

    async def _count(self) -> int:
        async with open_session(self.access, in_flight=1) as session:
            total = 0
            for path in json.loads(self.paths_file.read_text()):
                page = await _json(session, f"{path}?limit=1")
                total += len(page["items"]) + page["metadata"].get("remainingItemCount", 0)
            return total

    async def _save_requests(self) -> int:
        # Service accounts first: pods are only admitted where theirs exists.
        waves: list[list[CreateRequest]] = [[], []]
        async with open_session(self.access, in_flight=1) as session:
            for collection in COLLECTIONS:
                wave = waves[0] if collection.endswith("/serviceaccounts") else waves[1]
                wave += await self._creates_of(session, collection)
        return write_waves(self.requests_file, waves)

    async def _creates_of(self, session: aiohttp.ClientSession, collection: str) -> list[CreateRequest]:
        requests: list[CreateRequest] = []
        prefix, _, resource = collection.rpartition("/")
        token = ""
        while True:
            url = f"{collection}?limit={PAGE_ITEMS}" + (f"&continue={token}" if token else "")
            async with session.get(url) as response:
                response.raise_for_status()
                page = await response.read()
            for item in orjson.loads(page)["items"]:
                namespace = item["metadata"].get("namespace", "")
                if namespace in self.generator.namespaces:
                    path = f"{prefix}/namespaces/{namespace}/{resource}"
                    requests.append(CreateRequest(path, orjson.dumps(as_new(item))))
            if not (token := continue_token(page)):
                return requests

    async def _empty(self) -> None:
        targets = iter(
            collection.replace("/v1/", f"/v1/namespaces/{namespace}/")
            for collection in COLLECTIONS
            for namespace in self.generator.namespaces
        )

        async def work(session: aiohttp.ClientSession) -> None:
            for target in targets:
                async with session.delete(target) as response:
                    response.raise_for_status()
                    await response.read()

        async with open_session(self.access, in_flight=DELETE_LANES) as session:
            async with asyncio.TaskGroup() as group:
                for _ in range(DELETE_LANES):
                    group.create_task(work(session))
            async with asyncio.timeout(READY_SECONDS):
                while await self._left(session):  # noqa: ASYNC110 - only the server knows
                    await asyncio.sleep(POLL_SECONDS)

    async def _left(self, session: aiohttp.ClientSession) -> int:
        pages = [await _json(session, f"{path}?limit={PAGE_ITEMS}") for path in COLLECTIONS]
        namespaces = set(self.generator.namespaces)
        return sum(item["metadata"]["namespace"] in namespaces for page in pages for item in page["items"])


def as_new(item: dict[str, Any]) -> dict[str, Any]:
    """An object as a restore creates it: without the fields that the server set."""
    metadata = {key: value for key, value in item["metadata"].items() if key not in _SERVER_FIELDS}
    new = {key: value for key, value in item.items() if key != "status"} | {"metadata": metadata}
    spec = new.get("spec")
    if isinstance(spec, dict) and spec.get("clusterIP", "None") != "None":
        new["spec"] = {key: value for key, value in spec.items() if key not in ("clusterIP", "clusterIPs")}
    return new


async def _json(session: aiohttp.ClientSession, path: str) -> dict[str, Any]:
    async with session.get(path) as response:
        response.raise_for_status()
        document: dict[str, Any] = orjson.loads(await response.read())
    return document
