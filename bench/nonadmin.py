"""Self-service with many tenants: what one change costs, and whether all queue positions are right.

    python -m bench.nonadmin [--requests 500] [--namespaces 100]

A control plane of its own; the backup server is played here, so that only self-service is measured.
"""

import argparse
import asyncio
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hack.cluster.control_plane import ControlPlane
from pinnace.api.crds import crd_manifests
from pinnace.api.durations import Duration
from pinnace.api.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, velero
from pinnace.nonadmin import manifests
from pinnace.nonadmin.assembly import NonAdminOptions, add_nonadmin
from pinnace.nonadmin.objects import NABS
from pinnace.nonadmin.settings_source import SettingsFlags
from pinnace.runtime.keys import JSONObject, Key
from pinnace.runtime.manager import Manager, ManagerPhase

BACKUPS = velero("backups")
SERVER = "bench-server"
DEADLINE_SECONDS = 600.0
POLL_SECONDS = 0.1


@dataclass(slots=True)
class Work:
    """What the controllers did: passes over requests, and requests to the API server by verb."""

    passes: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def passed(self, controller: str, _key: Key) -> None:
        self.passes[controller] += 1


class CountingClient(KubeClient):
    """Counts what is asked of the API server; watches are not counted."""

    def __init__(self, *args: Any, work: Work, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._work = work

    async def request(self, method: str, path: str, **arguments: Any) -> bytes:
        self._work.calls[method] += 1
        return await super().request(method, path, **arguments)

    def list_pages(self, *arguments: Any, **settings: Any) -> Any:
        self._work.calls["LIST"] += 1
        return super().list_pages(*arguments, **settings)


class Crowd:
    """Requests of many tenants, and the server that works on them one by one."""

    def __init__(self, client: KubeClient, work: Work, *, requests: int, namespaces: int) -> None:
        self._client = client
        self._work = work
        self._keys = [Key(f"bench-{number % namespaces:03d}", f"nab-{number}") for number in range(requests)]
        self._backups: dict[Key, JSONObject] = {}

    async def create(self) -> float:
        """Make all requests; the seconds until all are Created."""
        for namespace in sorted({key.namespace for key in self._keys}):
            with suppress(AlreadyExists):
                await self._client.create(
                    NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                )
        started = time.monotonic()
        await asyncio.gather(*(self._create(key) for key in self._keys))
        await self._until(
            lambda nabs: all(_phase(nab) == "Created" for nab in nabs) and len(nabs) == len(self._keys)
        )
        seconds = time.monotonic() - started
        for backup in await self._client.list_all(BACKUPS, SERVER):
            notes = backup["metadata"]["annotations"]
            key = Key(
                notes["openshift.io/oadp-nab-origin-namespace"], notes["openshift.io/oadp-nab-origin-name"]
            )
            self._backups[key] = backup
        return seconds

    async def _create(self, key: Key) -> None:
        body = {
            "apiVersion": NABS.api_version,
            "kind": NABS.kind,
            "metadata": {"name": key.name},
            "spec": {"backupSpec": {}},
        }
        await self._client.create(NABS, body, key.namespace)

    async def settle_positions(self) -> None:
        """Wait until every request shows the position that the model says. Raises TimeoutError."""
        wanted = self.positions()
        await self._until(lambda nabs: {Key.of(nab): _position(nab) for nab in nabs} == wanted)

    def positions(self) -> dict[Key, int]:
        """The model: one more than there are unfinished that were created earlier."""
        waiting = sorted(
            backup["metadata"]["creationTimestamp"] for backup in self._backups.values() if not _ended(backup)
        )
        return {
            key: 0
            if _ended(backup)
            else 1 + sum(each < backup["metadata"]["creationTimestamp"] for each in waiting)
            for key, backup in self._backups.items()
        }

    async def progress(self) -> tuple[int, int, int]:
        """Let the server report progress of one; the passes, requests and lists that this led to."""
        key = min(self._backups, key=lambda each: self._backups[each]["metadata"]["creationTimestamp"])
        await asyncio.sleep(1.0)  # what came before has to come to rest
        passes, calls, lists = self._counts()
        name = self._backups[key]["metadata"]["name"]
        await self._client.patch(BACKUPS, name, {"status": {"phase": "InProgress"}}, SERVER)
        await self._until(lambda nabs: any(_shown(nab) == "InProgress" for nab in nabs))
        await asyncio.sleep(1.0)
        now = self._counts()
        return now[0] - passes, now[1] - calls, now[2] - lists

    def _counts(self) -> tuple[int, int, int]:
        calls = self._work.calls
        return self._work.passes.total(), calls["GET"] + calls["PATCH"] + calls["POST"], calls["LIST"]

    async def finish_oldest(self) -> None:
        """Let the server finish the one that waits longest."""
        key = min(
            (each for each, backup in self._backups.items() if not _ended(backup)),
            key=lambda each: self._backups[each]["metadata"]["creationTimestamp"],
        )
        status = {"phase": "Completed", "completionTimestamp": format_time(datetime.now(UTC))}
        name = self._backups[key]["metadata"]["name"]
        self._backups[key] = await self._client.patch(BACKUPS, name, {"status": status}, SERVER)

    async def _until(self, holds: Any) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                nabs = await self._client.list_all(NABS)
                if holds([nab for nab in nabs if nab["metadata"]["namespace"].startswith("bench-")]):
                    return
                await asyncio.sleep(POLL_SECONDS)


def _phase(nab: JSONObject) -> str:
    return str((nab.get("status") or {}).get("phase") or "")


def _shown(nab: JSONObject) -> str:
    return str(nab["status"]["veleroBackup"]["status"].get("phase") or "")


def _position(nab: JSONObject) -> int:
    return int(nab["status"]["queueInfo"]["estimatedQueuePosition"])


def _ended(backup: JSONObject) -> bool:
    return bool((backup.get("status") or {}).get("completionTimestamp"))


async def prepare(client: KubeClient) -> None:
    """The kinds and the server's namespace."""
    for crd in (*crd_manifests(), *manifests.crds()):
        with suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    with suppress(AlreadyExists):
        await client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SERVER}}
        )
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            try:
                await client.list_all(NABS)
                await client.list_all(BACKUPS)
                return
            except NotFound:
                await asyncio.sleep(POLL_SECONDS)


async def measure(plane: ControlPlane, *, requests: int, namespaces: int, finishes: int) -> list[str]:
    """One run; a line for each figure."""
    config, work = load_config(str(plane.kubeconfig)), Work()
    async with KubeClient(config) as observer, CountingClient(config, work=work) as client:
        await prepare(observer)
        manager, stop = Manager(), asyncio.Event()
        never = SettingsFlags(collection_period=Duration(), sync_period=Duration())
        add_nonadmin(manager, client, NonAdminOptions(namespace=SERVER, settings=never, passes=work.passed))
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stop))
            while manager.phase is not ManagerPhase.RUNNING:  # noqa: ASYNC110 - it tells nobody
                await asyncio.sleep(POLL_SECONDS)
            crowd = Crowd(observer, work, requests=requests, namespaces=namespaces)
            created = await crowd.create()
            calls = sum(work.calls.values())
            await crowd.settle_positions()
            passes, asked, lists = await crowd.progress()
            started = time.monotonic()
            for _ in range(finishes):
                await crowd.finish_oldest()
                await crowd.settle_positions()
            seconds = (time.monotonic() - started) / finishes if finishes else 0.0
            stop.set()
    return [
        f"requests, namespaces                        {requests}, {namespaces}",
        f"until all are Created                       {created:.1f} s, {requests / created:.0f} /s",
        f"calls of the API server for each            {calls / requests:.1f}",
        f"one change of progress: passes, calls, lists {passes}, {asked}, {lists}",
        f"one end: until all positions are right      {seconds:.2f} s ({finishes} times, all right)",
    ]


def main() -> None:
    """Run once and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--namespaces", type=int, default=100)
    parser.add_argument("--finishes", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ControlPlane(Path(folder)) as plane:
        lines = asyncio.run(
            measure(plane, requests=given.requests, namespaces=given.namespaces, finishes=given.finishes)
        )
    print("\n".join(lines))


if __name__ == "__main__":
    main()
