"""Two clusters that share one location, each with a server in this process; the test moves the time."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from pinnace.api.objects import JSONObject
from pinnace.api.schedules.due import counted_from, next_run
from pinnace.api.values.times import parse_time
from pinnace.controllers.schedule import judge
from pinnace.kube.resources import velero
from pinnace.runtime.manager import Manager, ManagerPhase
from pinnace.server.app import Assembly
from pinnace.server.options import ServerOptions
from tests.support.clock import FakeClock
from tests.support.servers.sites import FINAL, Site
from tests.support.waiting import eventually

RETRY_SECONDS = 0.5


@dataclass
class Cluster:
    """One of the clusters.

    Attributes:
        seen: every Backup that ever existed, in its last state, by name.
    """

    site: Site
    clock: FakeClock
    seen: dict[str, JSONObject] = field(default_factory=dict)

    async def objects(self, plural: str) -> dict[str, JSONObject]:
        listed = await self.site.client.list_all(velero(plural), self.site.namespace)
        return {obj["metadata"]["name"]: obj for obj in listed}

    async def settled(self) -> bool:
        """Whether nothing is left to do at this time: all due runs have begun, all begun runs have ended."""
        if any(is_due(obj, self.clock.now()) for obj in (await self.objects("schedules")).values()):
            return False
        # After the schedules, whose status is written after what they make.
        backups = await self.objects("backups")
        self.seen |= backups
        if not all(has_ended(obj) for obj in backups.values()):
            return False
        if not all(has_ended(obj) for obj in (await self.objects("restores")).values()):
            return False
        requests = await self.objects("deletebackuprequests")
        return all((obj.get("status") or {}).get("phase") == "Processed" for obj in requests.values())


def has_ended(obj: JSONObject) -> bool:
    return (obj.get("status") or {}).get("phase") in FINAL


def is_due(schedule: JSONObject, now: datetime) -> bool:
    verdict = judge(schedule)
    if "phase" not in (schedule.get("status") or {}):
        return True
    if verdict.rules is None or verdict.schedule is None:
        return bool(schedule["status"]["phase"] != "FailedValidation")
    run = next_run(verdict.rules, counted_from(verdict.schedule, now=now), now, UTC)
    return run is not None and run.begins < now


def is_expired(backup: JSONObject, now: datetime) -> bool:
    expiration = (backup.get("status") or {}).get("expiration")
    return expiration is not None and parse_time(expiration) <= now


@asynccontextmanager
async def serving(cluster: Cluster) -> AsyncIterator[None]:
    """A server; stopped in order at the end."""
    site = cluster.site
    options = ServerOptions(
        namespace=site.namespace,
        metrics_address="127.0.0.1:0",
        leader_election=False,
        log_level="error",
        zone=UTC,
    )
    workdir = Path(tempfile.mkdtemp(dir=site.folder))
    assembly = Assembly(site.client, options, workdir, clock=cluster.clock)
    manager, stop = assembly.manager(), asyncio.Event()
    running = asyncio.create_task(manager.run(stop))
    try:
        await _until_running(manager, running)
        yield
    finally:
        stop.set()
        await running


async def _until_running(manager: Manager, running: asyncio.Task[None]) -> None:
    async def check() -> bool:
        return running.done() or manager.phase is ManagerPhase.RUNNING

    await eventually(check)
    if running.done():
        running.result()


async def pass_time(clock: FakeClock, clusters: Mapping[str, Cluster], minutes: int) -> None:
    """Move the time, and wait until all clusters have done what is due.

    Time moves a little during the wait, so that failed work is tried again.
    """
    clock.turn(60 * minutes)

    async def settled() -> bool:
        clock.turn(RETRY_SECONDS)
        return all([await cluster.settled() for cluster in clusters.values()])

    await eventually(settled)
