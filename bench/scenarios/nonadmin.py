"""Self-service with many tenants: `python -m bench.scenarios.nonadmin`, or the scenario `nonadmin`.

The cost of one change, the time until near queue positions are those of a model, and the cost of serving a
long queue. The control plane is its own; the backup server is simulated here, so that only self-service is
measured.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.figures import Figure, Rule, Series, Target, Unit, text_table
from bench.measure import SampleFailed
from hack.cluster.control_plane import ControlPlane
from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject
from pinnace.api.values.durations import Duration
from pinnace.api.values.queue_positions import NEAR
from pinnace.api.values.times import format_time
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import AlreadyExists, NotFound
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, velero
from pinnace.nonadmin import manifests
from pinnace.nonadmin.assembly import add_nonadmin
from pinnace.nonadmin.controllers.parts import NonAdminOptions
from pinnace.nonadmin.objects import NON_ADMIN_BACKUPS
from pinnace.nonadmin.settings.source import SettingsFlags
from pinnace.runtime.informer import Informer, wait_for_caches
from pinnace.runtime.keys import Key
from pinnace.runtime.manager import Manager, ManagerPhase

BACKUPS = velero("backups")
SERVER = "bench-server"
REQUESTS = 500
NAMESPACE_COUNT = 100
FINISHES = 10
CHANGE_TARGET = Target(first=4, aim=2)
"""Whatever the number of requests."""

NO_LISTS = Target(first=0, aim=0)
DEADLINE_SECONDS = 600.0
POLL_SECONDS = 0.1
REST_SECONDS = 3.0
PACE_SECONDS = 0.2
"""Between two ends while the whole queue is served; the shorter, the more positions change at once."""

CALLS_TARGET = Target(first=20, aim=15)
"""Calls for one request, from the first creation to the last end: 10,000 for 500."""

NEAR_TARGET = Target(first=2, aim=2)

Say = Callable[[str], None]


@dataclass(slots=True)
class Work:
    """The work of the controllers: passes over requests, and API calls by verb."""

    passes: Counter[str] = field(default_factory=Counter)
    calls: Counter[str] = field(default_factory=Counter)

    def passed(self, controller: str, _key: Key) -> None:
        self.passes[controller] += 1


class CountingClient(KubeClient):
    """Counts API calls; watches are not counted."""

    def __init__(self, *args: Any, work: Work, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._work = work

    async def get(self, *arguments: Any, **settings: Any) -> JSONObject:
        self._work.calls["GET"] += 1
        return await super().get(*arguments, **settings)

    async def create(self, *arguments: Any, **settings: Any) -> JSONObject:
        self._work.calls["POST"] += 1
        return await super().create(*arguments, **settings)

    async def patch(self, *arguments: Any, **settings: Any) -> JSONObject:
        self._work.calls["PATCH"] += 1
        return await super().patch(*arguments, **settings)

    async def delete(self, *arguments: Any, **settings: Any) -> JSONObject:
        self._work.calls["DELETE"] += 1
        return await super().delete(*arguments, **settings)

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
        """Make all requests; return the seconds until all are Created."""
        for namespace in sorted({key.namespace for key in self._keys}):
            with suppress(AlreadyExists):
                await self._client.create(
                    NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
                )
        started = time.monotonic()
        await asyncio.gather(*(self._create(key) for key in self._keys))
        await self._until(
            lambda non_admin_backups: (
                all(_phase(non_admin_backup) == "Created" for non_admin_backup in non_admin_backups)
                and len(non_admin_backups) == len(self._keys)
            )
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
            "apiVersion": NON_ADMIN_BACKUPS.api_version,
            "kind": NON_ADMIN_BACKUPS.kind,
            "metadata": {"name": key.name},
            "spec": {"backupSpec": {}},
        }
        await self._client.create(NON_ADMIN_BACKUPS, body, key.namespace)

    async def settle_positions(self) -> None:
        """Wait until near positions are those of the model. Raises SampleFailed."""
        near = {key: position for key, position in self.positions().items() if position <= NEAR}
        await self._until(
            lambda non_admin_backups: (
                near.items()
                <= {
                    Key.of(non_admin_backup): _position(non_admin_backup)
                    for non_admin_backup in non_admin_backups
                }.items()
            )
        )

    def positions(self) -> dict[Key, int]:
        """The positions of the model: one more than the number of older unfinished Backups."""
        waiting = sorted(
            backup["metadata"]["creationTimestamp"] for backup in self._backups.values() if not _ended(backup)
        )
        return {
            key: 0 if _ended(backup) else 1 + bisect_left(waiting, backup["metadata"]["creationTimestamp"])
            for key, backup in self._backups.items()
        }

    async def progress(self) -> tuple[int, int, int]:
        """Let the server report progress of one Backup; return the passes, requests and lists for it."""
        key = min(self._backups, key=lambda each: self._backups[each]["metadata"]["creationTimestamp"])
        passes, calls, lists = await self._at_rest()
        name = self._backups[key]["metadata"]["name"]
        await self._client.patch(BACKUPS, name, {"status": {"phase": "InProgress"}}, SERVER)
        await self._until(
            lambda non_admin_backups: any(
                _shown(non_admin_backup) == "InProgress" for non_admin_backup in non_admin_backups
            )
        )
        now = await self._at_rest()
        return now[0] - passes, now[1] - calls, now[2] - lists

    async def _at_rest(self) -> tuple[int, int, int]:
        """The counts once they rest: after a conflict, a request is tried again later."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                before = self._counts()
                await asyncio.sleep(REST_SECONDS)
                if self._counts() == before:
                    return before

    def _counts(self) -> tuple[int, int, int]:
        calls = self._work.calls
        return self._work.passes.total(), calls["GET"] + calls["PATCH"] + calls["POST"], calls["LIST"]

    async def finish_oldest(self) -> None:
        """Let the server finish the oldest unfinished Backup."""
        key = min(
            (each for each, backup in self._backups.items() if not _ended(backup)),
            key=lambda each: self._backups[each]["metadata"]["creationTimestamp"],
        )
        status = {"phase": "Completed", "completionTimestamp": format_time(datetime.now(UTC))}
        name = self._backups[key]["metadata"]["name"]
        self._backups[key] = await self._client.patch(BACKUPS, name, {"status": status}, SERVER)

    async def serve_all(self) -> "Waiting":
        """Let the server finish all other Backups, one by one; record the positions shown in that time."""
        waiting = Waiting()
        before = sum(self._work.calls.values())
        async with asyncio.TaskGroup() as group:
            watcher = group.create_task(self._watch(waiting))
            while any(not _ended(backup) for backup in self._backups.values()):
                await self._begin_oldest()
                await self.finish_oldest()
                await asyncio.sleep(PACE_SECONDS)
            await self.settle_positions()
            watcher.cancel()
        waiting.calls = sum(self._work.calls.values()) - before
        return waiting

    async def _begin_oldest(self) -> None:
        key = min(
            (each for each, backup in self._backups.items() if not _ended(backup)),
            key=lambda each: self._backups[each]["metadata"]["creationTimestamp"],
        )
        name = self._backups[key]["metadata"]["name"]
        await self._client.patch(BACKUPS, name, {"status": {"phase": "InProgress"}}, SERVER)

    async def _watch(self, waiting: "Waiting") -> None:
        # From a watch: ten lists a second would take most of the time of the machine.
        informer = Informer(self._client, NON_ADMIN_BACKUPS)
        async with asyncio.TaskGroup() as group:
            group.create_task(informer.run())
            await wait_for_caches([informer], DEADLINE_SECONDS)
            while True:
                shown = {
                    Key.of(non_admin_backup): _position(non_admin_backup)
                    for non_admin_backup in informer.objects()
                }
                waiting.saw(shown, self.positions(), time.monotonic())
                await asyncio.sleep(POLL_SECONDS)

    async def _until(self, holds: Callable[[list[JSONObject]], bool]) -> None:
        try:
            async with asyncio.timeout(DEADLINE_SECONDS):
                while not holds(await self._requests()):  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise SampleFailed("self-service did not reach the expected state in time") from error

    async def _requests(self) -> list[JSONObject]:
        found = await self._client.list_all(NON_ADMIN_BACKUPS)
        return [request for request in found if request["metadata"]["namespace"].startswith("bench-")]


class Waiting:
    """The positions that tenants saw while the queue was served.

    Attributes:
        near_seconds: the longest time that a position was shown after it had been right, counted from when
            the right one was near.
        rises: how often a position went up.
        calls: API calls in that time.
    """

    def __init__(self) -> None:
        self.near_seconds = 0.0
        self.rises = 0
        self.calls = 0
        self._shown: dict[Key, int] = {}
        self._below: dict[Key, dict[int, float]] = {}
        """By key and value, the time since which the right position has been lower than the value."""

    def saw(self, shown: dict[Key, int], due: dict[Key, int], now: float) -> None:
        """Record the shown and the right positions of a moment."""
        for key, right in due.items():
            position = shown[key]
            self.rises += position > self._shown.get(key, position)
            if right > NEAR:
                continue
            since = self._below.setdefault(key, {})
            for value in range(right + 1, NEAR + 2):
                since.setdefault(value, now)
            if position > right:
                self.near_seconds = max(self.near_seconds, now - since[min(position, NEAR + 1)])
        self._shown = shown


def _phase(non_admin_backup: JSONObject) -> str:
    return str((non_admin_backup.get("status") or {}).get("phase") or "")


def _shown(non_admin_backup: JSONObject) -> str:
    return str(non_admin_backup["status"]["veleroBackup"]["status"].get("phase") or "")


def _position(non_admin_backup: JSONObject) -> int:
    return int(non_admin_backup["status"]["queueInfo"]["estimatedQueuePosition"])


def _ended(backup: JSONObject) -> bool:
    return bool((backup.get("status") or {}).get("completionTimestamp"))


async def prepare(client: KubeClient) -> None:
    """Create the kinds and the server's namespace, and wait until the kinds are served."""
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
                await client.list_all(NON_ADMIN_BACKUPS)
                await client.list_all(BACKUPS)
                return
            except NotFound:
                await asyncio.sleep(POLL_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of one run.

    Attributes:
        created_seconds: until all requests are Created.
        calls: API calls until then.
        progress: passes, requests and lists that one change of progress leads to.
        end_seconds: from each end of a backup until all positions are right.
        waiting: the positions seen while all others were served.
        all_calls: API calls until the end of the last one.
    """

    created_seconds: float
    calls: int
    progress: tuple[int, int, int]
    end_seconds: Sequence[float]
    waiting: Waiting
    all_calls: int


async def observe(plane: ControlPlane, *, requests: int, namespaces: int, finishes: int) -> Outcome:
    """Run self-service against a control plane, and serve all requests."""
    config, work = load_config(str(plane.kubeconfig)), Work()
    async with KubeClient(config) as observer, CountingClient(config, work=work) as client:
        await prepare(observer)
        manager, stop = Manager(), asyncio.Event()
        never = SettingsFlags(collection_period=Duration(), sync_period=Duration())
        add_nonadmin(manager, client, NonAdminOptions(namespace=SERVER, settings=never, passes=work.passed))
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stop))
            while manager.phase is not ManagerPhase.RUNNING:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(POLL_SECONDS)
            crowd = Crowd(observer, work, requests=requests, namespaces=namespaces)
            created = await crowd.create()
            calls = sum(work.calls.values())
            if calls < requests:
                raise SampleFailed("the calls of self-service are not counted")
            await crowd.settle_positions()
            progress = await crowd.progress()
            ends = []
            for _ in range(finishes):
                started = time.monotonic()
                await crowd.finish_oldest()
                await crowd.settle_positions()
                ends.append(time.monotonic() - started)
            waiting = await crowd.serve_all()
            stop.set()
    return Outcome(
        created_seconds=created,
        calls=calls,
        progress=progress,
        end_seconds=ends,
        waiting=waiting,
        all_calls=sum(work.calls.values()),
    )


def figures(outcome: Outcome, requests: int) -> list[Figure]:
    """The lines of the table."""

    def figure(name: str, unit: Unit, *values: float, target: Target | None = None) -> Figure:
        ours = Series(name="self-service", values=values)
        return Figure(name=f"self-service, {name}", unit=unit, rule=Rule.ALONE, ours=ours, target=target)

    passes, calls, lists = outcome.progress
    a_request = outcome.created_seconds * 1000 / requests
    return [
        figure(f"{requests} requests at once, each", Unit.MILLISECONDS, a_request),
        figure("API calls for a request", Unit.REQUESTS, outcome.calls / requests),
        figure("one change of progress", Unit.PASSES, passes, target=CHANGE_TARGET),
        figure("one change of progress, API calls", Unit.REQUESTS, calls, target=CHANGE_TARGET),
        figure("one change of progress, lists", Unit.REQUESTS, lists, target=NO_LISTS),
        figure("one end, until near positions are right", Unit.SECONDS, *outcome.end_seconds),
        figure("the queue served, API calls", Unit.REQUESTS, outcome.waiting.calls),
        figure(
            "from first to last, API calls for a request",
            Unit.REQUESTS,
            outcome.all_calls / requests,
            target=CALLS_TARGET,
        ),
        figure("near positions late", Unit.SECONDS, outcome.waiting.near_seconds, target=NEAR_TARGET),
        figure("positions that went up", Unit.REQUESTS, outcome.waiting.rises, target=NO_LISTS),
    ]


def measure_nonadmin(
    folder: Path,
    say: Say,
    *,
    requests: int = REQUESTS,
    namespaces: int = NAMESPACE_COUNT,
    finishes: int = FINISHES,
) -> list[Figure]:
    """Run the scenario. Raises SampleFailed, ClusterError, ExceptionGroup."""
    say(f"nonadmin: {requests} requests in {namespaces} namespaces")
    with ControlPlane(folder, name="nonadmin") as plane:
        outcome = asyncio.run(observe(plane, requests=requests, namespaces=namespaces, finishes=finishes))
    return figures(outcome, requests)


def main() -> int:
    """Run it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.nonadmin", description=__doc__)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    parser.add_argument("--namespaces", type=int, default=NAMESPACE_COUNT)
    parser.add_argument("--finishes", type=int, default=FINISHES)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_nonadmin(
            Path(folder, "nonadmin"),
            lambda text: print(text, file=sys.stderr, flush=True),
            requests=given.requests,
            namespaces=given.namespaces,
            finishes=given.finishes,
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
