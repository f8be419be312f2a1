"""The API calls for a queue of 500 backups: `python -m bench.scenarios.long_queue`, or the scenario `queue`.

A real server with self-service and one worker for backups. A hundred tenants create their requests at once,
all of them are served, and a proxy counts the API calls of the whole server from the first request to the end
of the last backup, by verb and resource.
"""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, Rule, Series, Target, Unit, text_table
from bench.measure import SampleFailed
from bench.scenarios.flood import AT_ONCE, has_ended, prepare_self_service, request_body
from bench.scenarios.idle_server import STOP_SECONDS, for_each, request_name, running_server
from hack.cluster.control_plane import ControlPlane
from hack.cluster.proxy import FaultProxy, Upstream
from hack.cluster.stores.s3 import S3Server
from pinnace.api.objects import JSONObject, text
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.keys import Key

REQUESTS = 500
NAMESPACE_COUNT = 100
DEADLINE_SECONDS = 1800.0
POLL_SECONDS = 0.2
CALLS_TARGET = Target(first=20, aim=20)
"""Calls for one request: 10,000 for 500."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run.

    Attributes:
        seconds: from the first request to the end of the last backup.
        calls: API calls in that time, by `METHOD resource`; watches are not counted.
        phases: the number of requests that ended in each phase.
    """

    seconds: float
    calls: Counter[str]
    phases: Counter[str]


async def observe(folder: Path, *, requests: int, namespaces: int, say: Callable[[str], None]) -> Outcome:
    """Run a cluster, a store, a proxy and a server, and serve all requests."""
    names = [f"queue-{number:03d}" for number in range(namespaces)]
    with ControlPlane(folder / "cluster", name="queue") as plane, S3Server(folder / "s3") as s3:
        async with (
            FaultProxy(Upstream.of_api_server(plane)) as proxy,
            KubeClient(load_config(str(plane.kubeconfig))) as client,
        ):
            await prepare_self_service(client, s3, names)
            kubeconfig = plane.write_kubeconfig(folder / "kubeconfig", server=proxy.url)
            with running_server(folder, kubeconfig, "--features", "NonAdmin") as process:
                outcome = await _served(client, proxy, names, requests, say)
                process.terminate()
                with suppress(subprocess.TimeoutExpired):  # then it is killed
                    await asyncio.to_thread(process.wait, STOP_SECONDS)  # while the proxy still listens
                return outcome


async def _served(
    client: KubeClient, proxy: FaultProxy, names: list[str], requests: int, say: Callable[[str], None]
) -> Outcome:
    loop, informer = asyncio.get_running_loop(), Informer(client, NON_ADMIN_BACKUPS)
    async with asyncio.TaskGroup() as group:
        following = group.create_task(informer.run())
        await wait_for_caches([informer], DEADLINE_SECONDS)
        await _create(client, Key(names[0], "first"))  # once it has ended, the server is up
        await _until(informer, 1)
        proxy.exchanges.clear()
        began = loop.time()
        keys = [Key(names[number % len(names)], f"request-{number}") for number in range(requests)]
        await for_each(keys, lambda key: _create(client, key), at_once=AT_ONCE)
        say(f"queue: {requests} requests created in {loop.time() - began:.0f} s")
        await _until(informer, requests + 1)
        seconds = loop.time() - began
        following.cancel()
    calls = Counter(request_name(exchange.head) for exchange in proxy.exchanges)
    return Outcome(
        seconds=seconds,
        calls=Counter({name: count for name, count in calls.items() if not name.startswith("WATCH ")}),
        phases=Counter(_phase(request) for request in informer.objects()),
    )


async def _create(client: KubeClient, key: Key) -> None:
    body = request_body(key.name, includedResources=["configmaps"])
    await client.create(NON_ADMIN_BACKUPS, body, key.namespace)


async def _until(informer: Informer, ended: int) -> None:
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while sum(map(has_ended, informer.objects())) < ended:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError as error:
        raise SampleFailed("the backups did not end in time") from error


def _phase(request: JSONObject) -> str:
    return text(request, "status", "veleroBackup", "status", "phase")


def figures(outcome: Outcome, requests: int) -> list[Figure]:
    """The lines of the table."""

    def figure(name: str, unit: Unit, value: float, target: Target | None = None) -> Figure:
        ours = Series(name="server", values=[value])
        return Figure(
            name=f"queue of {requests}, {name}", unit=unit, rule=Rule.ALONE, ours=ours, target=target
        )

    return [
        figure("from first to last", Unit.SECONDS, outcome.seconds),
        figure("API calls of the whole server", Unit.REQUESTS, outcome.calls.total()),
        figure("API calls for a request", Unit.REQUESTS, outcome.calls.total() / requests, CALLS_TARGET),
    ]


def measure_queue(
    folder: Path,
    say: Callable[[str], None],
    *,
    requests: int = REQUESTS,
    namespaces: int = NAMESPACE_COUNT,
) -> list[Figure]:
    """Run the scenario, and report the API calls. Raises SampleFailed, ClusterError, ExceptionGroup."""
    outcome = asyncio.run(observe(folder, requests=requests, namespaces=namespaces, say=say))
    if outcome.phases["Completed"] != requests + 1:
        raise SampleFailed(f"not all backups were Completed: {dict(outcome.phases)}")
    for name, count in outcome.calls.most_common():
        say(f"queue: {count:6d} {count / requests:6.2f} a request: {name}")
    return figures(outcome, requests)


def main() -> int:
    """Run it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.long_queue", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--namespaces", type=int, default=NAMESPACE_COUNT)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_queue(
            Path(folder),
            lambda text: print(text, file=sys.stderr, flush=True),
            requests=given.requests,
            namespaces=given.namespaces,
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
