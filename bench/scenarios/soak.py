"""The growth of a server's memory and descriptors over time: `python -m bench soak`.

Twenty locations, five of which are down (two refuse connections, three accept them and never answer), all
looked at every few seconds instead of every minute, and schedules that make a backup a minute each, which
expire soon. After a warm-up, the slope of the resident memory and the number of descriptors show
whether the server leaks.
"""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.figures import MEBIBYTE, Figure, Rule, Series, Unit
from bench.measure import SampleFailed
from bench.scenarios.idle_server import (
    create_credentials,
    create_location,
    create_object,
    install_definitions,
    resident_bytes,
    running_server,
)
from hack.cluster.control_plane import ControlPlane
from hack.cluster.stores.s3 import S3Server
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.resources import CONFIGMAPS

MINUTES = 30.0
LOCATIONS = 20
REFUSING = 2
SILENT = 3
SCHEDULES = 10
SAMPLE_SECONDS = 5.0
WARM_UP_SHARE = 1 / 3
PERIOD = "5s"
"""Between two syncs of a location, and between two validations; a minute in a real server."""

SLOPE_LIMIT_MIB = 1.0
"""The memory that the server may gain in ten minutes."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Memory and descriptors of the server's process at one time."""

    seconds: float
    resident_bytes: int
    descriptors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """The samples after the warm-up, and the number of backups that the server made."""

    samples: Sequence[Sample]
    backups: int

    @property
    def slope_mib(self) -> float:
        """How much the memory grows in ten minutes, by least squares."""
        return slope([(each.seconds, each.resident_bytes / MEBIBYTE) for each in self.samples]) * 600

    @property
    def more_descriptors(self) -> int:
        """The smallest number of descriptors in the last third, less that in the first third."""
        third = max(len(self.samples) // 3, 1)
        least = [
            min(each.descriptors for each in part) for part in (self.samples[:third], self.samples[-third:])
        ]
        return least[1] - least[0]


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line with the least squares; 0 for fewer than two points."""
    if len(points) < 2:
        return 0.0
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


async def observe(folder: Path, minutes: float, say: Callable[[str], None]) -> Soak:
    """Run a cluster, a store and a server for that time, warm-up included."""
    with ControlPlane(folder / "cluster", name="soak") as plane, S3Server(folder / "s3") as s3:
        async with silent_server() as silent, KubeClient(load_config(str(plane.kubeconfig))) as client:
            down = REFUSING + SILENT
            say(f"soak: {LOCATIONS} locations, {down} down, {SCHEDULES} schedules, {minutes:g} minutes")
            await install_definitions(client)
            await _add_locations(client, s3, silent)
            await _add_work(client)
            arguments = ("--backup-sync-period", PERIOD, "--store-validation-frequency", PERIOD)
            with running_server(folder, plane.kubeconfig, *arguments) as process:
                samples = await _sample(process, folder, minutes * 60, say)
            log = await asyncio.to_thread((folder / "server.log").read_text, errors="replace")
            return Soak(samples=samples, backups=log.count("phase=Completed") or log.count("Completed"))


async def _sample(
    process: "subprocess.Popen[bytes]", folder: Path, seconds: float, say: Callable[[str], None]
) -> list[Sample]:
    loop = asyncio.get_running_loop()
    began, samples = loop.time(), list[Sample]()
    while (now := loop.time() - began) < seconds:
        if process.poll() is not None:
            raise SampleFailed(f"the server ended with code {process.returncode}: {_end_of_log(folder)}")
        descriptors = len(os.listdir(f"/proc/{process.pid}/fd"))
        samples.append(Sample(now, resident_bytes(process), descriptors))
        if len(samples) % 12 == 0:
            last = samples[-1]
            memory = last.resident_bytes / MEBIBYTE
            say(f"soak: {now:5.0f} s: {memory:6.1f} MiB, {last.descriptors} descriptors")
        await asyncio.sleep(SAMPLE_SECONDS)
    return [each for each in samples if each.seconds >= seconds * WARM_UP_SHARE]


def _end_of_log(folder: Path) -> str:
    lines = (folder / "server.log").read_text(errors="replace").splitlines()
    return "\n".join(lines[-45:]) if lines else "its log is empty"


@asynccontextmanager
async def silent_server() -> AsyncIterator[str]:
    """The URL of a server that accepts connections and never answers."""
    open_connections: set[asyncio.StreamWriter] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.add(writer)
        while await reader.read(1 << 16):
            continue
        writer.close()
        open_connections.discard(writer)

    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(await asyncio.start_server(accept, "127.0.0.1", 0))
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for writer in open_connections:
            writer.transport.abort()


async def _add_locations(client: KubeClient, s3: S3Server, silent_url: str) -> None:
    await create_credentials(client, s3)
    for number in range(LOCATIONS):
        bucket = s3.create_bucket(f"soak-{number}")
        url = s3.url
        if number >= LOCATIONS - SILENT:
            url = silent_url
        elif number >= LOCATIONS - SILENT - REFUSING:
            url = "http://127.0.0.1:1"
        config = {**bucket.location_config, "s3Url": url}
        await create_location(client, f"location-{number:02}", bucket.name, config)


async def _add_work(client: KubeClient) -> None:
    for number in range(50):
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": f"data-{number}", "namespace": "default"},
            "data": {"text": "x" * 1000},
        }
        await client.create(CONFIGMAPS, body, "default")
    for number in range(SCHEDULES):
        template = {
            "includedNamespaces": ["default"],
            "storageLocation": f"location-{number:02}",
            "ttl": "2m0s",
        }
        spec = {"schedule": "* * * * *", "template": template}
        await create_object(client, "schedules", f"soak-{number:02}", spec=spec)


def figures(soak: Soak) -> list[Figure]:
    """The lines of the table."""

    def figure(name: str, unit: Unit, value: float) -> Figure:
        return Figure(name=name, unit=unit, rule=Rule.ALONE, ours=Series(name="server", values=[value]))

    return [
        figure("soak, memory growth in 10 minutes", Unit.MEBIBYTES, soak.slope_mib),
        figure("soak, memory at the end", Unit.MEBIBYTES, soak.samples[-1].resident_bytes / MEBIBYTE),
        figure("soak, more descriptors at the end", Unit.COUNT, soak.more_descriptors),
        figure("soak, backups made", Unit.COUNT, soak.backups),
    ]


def measure_soak(folder: Path, minutes: float, say: Callable[[str], None]) -> list[Figure]:
    """Run the scenario. Raises SampleFailed when memory grows by more than the limit."""
    soak = asyncio.run(observe(folder, minutes, say))
    found = figures(soak)
    if soak.slope_mib >= SLOPE_LIMIT_MIB:
        raise SampleFailed(
            f"memory grows by {soak.slope_mib:.2f} MiB in 10 minutes; the limit is {SLOPE_LIMIT_MIB:g}"
        )
    return found
