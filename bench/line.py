"""What a line of 500 waiting backups costs the API server: `python -m bench.line`, or the scenario `line`.

A real server with self-service and one worker for backups. A hundred tenants create their requests at once,
all of them are worked off, and a proxy counts what the whole server asks of the API server from the first
request to the end of the last backup, by verb and resource.
"""

import argparse
import asyncio
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Rule, Series, Target, Unit, text_table
from bench.flood import AT_ONCE, prepare_self_service
from bench.idle_server import each, request_name, running_server
from bench.measure import SampleFailed
from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy, Upstream
from hack.cluster.s3 import S3Server
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.keys import Key

REQUESTS = 500
NAMESPACE_COUNT = 100
DEADLINE_SECONDS = 1800.0
END_SECONDS = 60.0
POLL_SECONDS = 0.2
CALLS_TARGET = Target(first=20, aim=20)
"""For a request: 10,000 for 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one run shows.

    Attributes:
        seconds: from the first request to the last end.
        calls: of the API server meanwhile, by `METHOD resource`; watches are not counted.
        phases: how many requests ended in each phase.
    """

    seconds: float
    calls: Counter[str]
    phases: Counter[str]


async def observe(folder: Path, *, requests: int, namespaces: int, say: Callable[[str], None]) -> Line:
    """Run everything."""
    names = [f"line-{number:03d}" for number in range(namespaces)]
    with ControlPlane(folder / "cluster", name="line") as plane, S3Server(folder / "s3") as s3:
        async with (
            FaultProxy(Upstream.of_api_server(plane)) as proxy,
            KubeClient(load_config(str(plane.kubeconfig))) as client,
        ):
            await prepare_self_service(client, s3, names)
            kubeconfig = plane.write_kubeconfig(folder / "kubeconfig", server=proxy.url)
            with running_server(folder, kubeconfig, "--features", "NonAdmin") as process:
                line = await _worked_off(client, proxy, names, requests, say)
                process.terminate()
                await asyncio.to_thread(process.wait, END_SECONDS)  # it still needs the proxy
                return line


async def _worked_off(
    client: KubeClient, proxy: FaultProxy, names: list[str], requests: int, say: Callable[[str], None]
) -> Line:
    loop, informer = asyncio.get_running_loop(), Informer(client, NON_ADMIN_BACKUPS)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        await wait_for_caches([informer], DEADLINE_SECONDS)
        await _create(client, Key(names[0], "first"))  # once it has ended, the server is up
        await _until(informer, 1)
        proxy.exchanges.clear()
        began = loop.time()
        keys = [Key(names[number % len(names)], f"nab-{number}") for number in range(requests)]
        await each(keys, lambda key: _create(client, key), at_once=AT_ONCE)
        say(f"line: {requests} requests created in {loop.time() - began:.0f} s")
        await _until(informer, requests + 1)
        seconds = loop.time() - began
        following.cancel()
    calls = Counter(request_name(exchange.head) for exchange in proxy.exchanges)
    return Line(
        seconds=seconds,
        calls=Counter({name: count for name, count in calls.items() if not name.startswith("WATCH ")}),
        phases=Counter(_phase(request) for request in informer.objects()),
    )


async def _create(client: KubeClient, key: Key) -> None:
    body = {
        "apiVersion": NON_ADMIN_BACKUPS.api_version,
        "kind": NON_ADMIN_BACKUPS.kind,
        "metadata": {"name": key.name},
        "spec": {"backupSpec": {"includedResources": ["configmaps"]}},
    }
    await client.create(NON_ADMIN_BACKUPS, body, key.namespace)


async def _until(informer: Informer, ended: int) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while sum(map(_has_ended, informer.objects())) < ended:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(POLL_SECONDS)


def _has_ended(request: JSONObject) -> bool:
    return bool(text(request, "status", "veleroBackup", "status", "completionTimestamp"))


def _phase(request: JSONObject) -> str:
    return text(request, "status", "veleroBackup", "status", "phase")


def figures(line: Line, requests: int) -> list[Figure]:
    """The lines of the table."""

    def figure(name: str, unit: Unit, value: float, target: Target | None = None) -> Figure:
        ours = Series(name="server", values=[value])
        return Figure(
            name=f"line of {requests}, {name}", unit=unit, rule=Rule.ALONE, ours=ours, target=target
        )

    return [
        figure("from first to last", Unit.SECONDS, line.seconds),
        figure("API calls of the whole server", Unit.REQUESTS, line.calls.total()),
        figure("API calls for a request", Unit.REQUESTS, line.calls.total() / requests, CALLS_TARGET),
    ]


def measure_line(
    folder: Path,
    say: Callable[[str], None],
    *,
    requests: int = REQUESTS,
    namespaces: int = NAMESPACE_COUNT,
) -> list[Figure]:
    """Run the scenario; what was asked for is said. Raises SampleFailed, ClusterError."""
    try:
        line = asyncio.run(observe(folder, requests=requests, namespaces=namespaces, say=say))
    except TimeoutError as error:
        raise SampleFailed("the backups did not end in time") from error
    if line.phases["Completed"] != requests + 1:
        raise SampleFailed(f"not all backups were Completed: {dict(line.phases)}")
    for name, count in line.calls.most_common():
        say(f"line: {count:6d} {count / requests:6.2f} a request: {name}")
    return figures(line, requests)


def main() -> int:
    """Run it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.line", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--namespaces", type=int, default=NAMESPACE_COUNT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_line(
            Path(folder),
            lambda text: print(text, file=sys.stderr, flush=True),
            requests=given.requests,
            namespaces=given.namespaces,
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
