"""Whether a flood of one tenant delays another: `python -m bench flood`.

A real server with self-service. One tenant creates thousands of NonAdminBackups as fast as it can; another
creates one every few seconds, while they are created and judged, and while their Backups wait for the only
worker. For each of those, the number of requests of the flood that were judged between its creation and
its own judgement, in the order that one watch shows, and how long that took. Also the cost of the queue of
Backups: the writes for each one that ends.
"""

import asyncio
import multiprocessing
import re
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure, Rule, Series, Target, Unit
from bench.scenarios.idle_server import (
    cpu_seconds,
    create_credentials,
    create_location,
    install_definitions,
    running_server,
)
from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import S3Server
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from pinnace.nonadmin import manifests
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.keys import Key

REQUESTS = 5_000
FLOODER, HONEST = "bench-flooder", "bench-honest"
AT_ONCE = 32
EVERY_SECONDS = 3.0
ENDS = 20
"""Backups that end while the writes are counted; those of requests made in that time are included."""
AFTERWARDS = 10
"""Honest requests after the flood, when its Backups wait for the only worker, if all were judged."""

FLOOD_SECONDS = 300.0
"""How long honest requests are made while the flood is judged, even if that is not finished."""

DEADLINE_SECONDS = 120.0
POLL_SECONDS = 0.05
BETWEEN_TARGET = Target(first=12, aim=8)
"""Whatever the size of the flood; four are in flight at once, and each may be seen twice."""

WRITES_TARGET = Target(first=30, aim=20)
DELAY_TARGET = Target(first=2, aim=1)
_PATCHES = re.compile(
    r'^apiserver_request_total\{[^}]*resource="(?:nonadmin)?backups"[^}]*verb="PATCH"[^}]*\} (\d+)$',
    re.MULTILINE,
)
PROGRAMS = multiprocessing.get_context("spawn")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """How one honest request was handled.

    Attributes:
        between: requests of the flood that were judged between its creation and its judgement.
        seconds: from its creation until its Backup was made.
    """

    between: int
    seconds: float


@dataclass(slots=True)
class Order:
    """The order in which requests were judged, from one watch: the phase left New, or was never New."""

    judged: set[Key] = field(default_factory=set)
    flood: int = 0
    ended: int = 0

    def saw(self, request: JSONObject) -> None:
        """Record the current state of a request."""
        key = Key.of(request)
        if key not in self.judged and text(request, "status", "phase") in ("Created", "BackingOff"):
            self.judged.add(key)
            self.flood += key.namespace == FLOODER

    def changed(self, old: JSONObject, new: JSONObject) -> None:
        """Record a change of a request."""
        self.saw(new)
        self.ended += not has_ended(old) and has_ended(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Flood:
    """The result of one run.

    Attributes:
        alone: seconds of honest requests before the flood.
        during: honest requests while the flood was created and judged.
        after: honest requests after that.
        judged: requests of the flood that were judged in the time of `during`.
        cpu_seconds: CPU time of the server for them.
        writes_an_end: writes of Backups and requests for each Backup that ended in the time of `after`.
    """

    alone: Sequence[float]
    during: Sequence[Handled]
    after: Sequence[Handled]
    judged: int
    cpu_seconds: float
    writes_an_end: float


async def observe(folder: Path, requests: int, say: Callable[[str], None]) -> Flood:
    """Run a cluster, a store and a server, and make all requests."""
    with ControlPlane(folder / "cluster", name="flood") as plane, S3Server(folder / "s3") as s3:
        async with KubeClient(load_config(str(plane.kubeconfig))) as client:
            await prepare_self_service(client, s3, (FLOODER, HONEST))
            with running_server(folder, plane.kubeconfig, "--features", "NonAdmin") as process:
                async with asyncio.TaskGroup() as group:
                    order, informer = Order(), Informer(client, NON_ADMIN_BACKUPS)
                    informer.add_handlers(on_add=order.saw, on_update=order.changed)
                    following = group.create_task(informer.run())
                    await wait_for_caches([informer], DEADLINE_SECONDS)
                    found = await _flooded(_Honest(client, order), plane, process, requests, say)
                    following.cancel()
    return found


async def _flooded(
    honest: "_Honest",
    plane: ControlPlane,
    process: "subprocess.Popen[bytes]",
    requests: int,
    say: Callable[[str], None],
) -> Flood:
    loop, order = asyncio.get_running_loop(), honest.order
    alone = [(await honest.request()).seconds for _ in range(4)][1:]
    say(f"flood: {requests} requests of one tenant")
    began, before = loop.time(), cpu_seconds(process)
    flooder = PROGRAMS.Process(target=flood, args=(str(plane.kubeconfig), requests))
    flooder.start()
    during: list[Handled] = []
    while order.flood < requests and loop.time() - began < FLOOD_SECONDS:
        during.append(await honest.request())
        say(f"flood: {order.flood} judged, another's: {during[-1]}")
        await asyncio.sleep(EVERY_SECONDS)
    await asyncio.to_thread(flooder.join)
    judged, cpu = order.flood, cpu_seconds(process) - before
    ended, writes = order.ended, await honest.writes()
    after: list[Handled] = []
    while len(after) < AFTERWARDS or order.ended < ended + ENDS:
        after.append(await honest.request())
        await asyncio.sleep(EVERY_SECONDS)
    writes = await honest.writes() - writes
    return Flood(
        alone=alone,
        during=during,
        after=after,
        judged=judged,
        cpu_seconds=cpu,
        writes_an_end=writes / (order.ended - ended),
    )


class _Honest:
    """A tenant that creates one request after the other."""

    def __init__(self, client: KubeClient, order: Order) -> None:
        self.order = order
        self._client = client
        self._made = 0

    async def writes(self) -> int:
        """The number of patches of Backups and requests since the API server started."""
        text = (await self._client.request("GET", "/metrics", accept="text/plain")).decode()
        return sum(int(found[1]) for found in _PATCHES.finditer(text))

    async def request(self) -> Handled:
        """Create one, and wait until it is judged."""
        loop = asyncio.get_running_loop()
        self._made += 1
        key = Key(HONEST, f"honest-{self._made}")
        before, began = self.order.flood, loop.time()
        await self._client.create(NON_ADMIN_BACKUPS, request_body(key.name), key.namespace)
        async with asyncio.timeout(DEADLINE_SECONDS):
            while key not in self.order.judged:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(POLL_SECONDS)
        return Handled(between=self.order.flood - before, seconds=loop.time() - began)


def flood(kubeconfig: str, requests: int) -> None:
    """Create the requests of the flood as fast as the API server takes them; a process of its own."""
    asyncio.run(_flood(kubeconfig, requests))


async def _flood(kubeconfig: str, requests: int) -> None:
    numbers = iter(range(requests))

    async def worker() -> None:
        for number in numbers:
            await client.create(NON_ADMIN_BACKUPS, request_body(f"flood-{number}"), FLOODER)

    async with KubeClient(load_config(kubeconfig)) as client, asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


def has_ended(request: JSONObject) -> bool:
    """Whether the Backup of a NonAdminBackup has ended."""
    return bool(text(request, "status", "veleroBackup", "status", "completionTimestamp"))


def request_body(name: str, **backup_spec: object) -> JSONObject:
    """A new NonAdminBackup."""
    return {
        "apiVersion": NON_ADMIN_BACKUPS.api_version,
        "kind": NON_ADMIN_BACKUPS.kind,
        "metadata": {"name": name},
        "spec": {"backupSpec": backup_spec},
    }


async def prepare_self_service(client: KubeClient, s3: S3Server, tenants: Iterable[str]) -> None:
    """Install the definitions, and make the namespaces of the tenants and the default location."""
    for crd in manifests.crds():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, crd)
    await install_definitions(client)
    for namespace in tenants:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await client.create(NAMESPACES, body)
    await create_credentials(client, s3)
    bucket = s3.create_bucket("self-service")
    await create_location(client, "default", bucket.name, bucket.location_config, default=True)
    async with asyncio.timeout(DEADLINE_SECONDS):
        while True:
            with suppress(NotFound):
                await client.list_all(NON_ADMIN_BACKUPS)
                return
            await asyncio.sleep(POLL_SECONDS)


def figures(found: Flood) -> list[Figure]:
    """The lines of the table."""

    def figure(name: str, unit: Unit, values: Sequence[float], target: Target | None = None) -> Figure:
        ours = Series(name="server", values=values)
        return Figure(name=f"flood, {name}", unit=unit, rule=Rule.ALONE, ours=ours, target=target)

    lines = [
        figure("requests judged", Unit.COUNT, [found.judged]),
        figure("CPU of the server for each", Unit.MILLISECONDS, [found.cpu_seconds * 1000 / found.judged]),
        figure("writes for each Backup that ends", Unit.REQUESTS, [found.writes_an_end], WRITES_TARGET),
        figure("another's request without it", Unit.SECONDS, found.alone),
    ]
    for when, handled in (("comes meanwhile", found.during), ("comes afterwards", found.after)):
        between = [max(each.between for each in handled)]
        seconds = [max(each.seconds for each in handled)]
        lines += [
            figure(f"judged before another's that {when}", Unit.REQUESTS, between, BETWEEN_TARGET),
            figure(f"another's that {when}, at most", Unit.SECONDS, seconds, DELAY_TARGET),
        ]
    return lines


def measure_flood(folder: Path, say: Callable[[str], None], *, requests: int = REQUESTS) -> list[Figure]:
    """Run the scenario."""
    return figures(asyncio.run(observe(folder, requests, say)))
