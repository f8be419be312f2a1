"""The cost of a server that has nothing to do: `python -m bench.scenarios.idle_server` (scenario `idle`).

There are two hundred finished backups with their files in a bucket, and fifty schedules that are not due.
Once all of them were reconciled, the CPU time of the process, its memory, and each request to the API server
and the object store are measured; two proxies count the requests.
"""

import asyncio
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from bench.figures import MEBIBYTE, Figure, Rule, Series, Unit, text_table
from bench.measure import SampleFailed
from hack.cluster.control_plane import ControlPlane
from hack.cluster.faults import RequestHead
from hack.cluster.proxy import FaultProxy, Upstream
from hack.cluster.stores.s3 import Bucket, S3Server
from pinnace.api.codec import decode
from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.values.times import format_time
from pinnace.api.velero.backup import Backup
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import KubeError
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, SECRETS, velero
from pinnace.storage.backup_files import BackupFiles, encode_metadata
from pinnace.storage.backup_store import BackupStore
from pinnace.storage.layout import Layout
from pinnace.storage.s3.config import parse_s3_config
from pinnace.storage.s3.store import S3Store

T = TypeVar("T")

PROGRAM = Path(sys.executable).with_name("pinnace")
NAMESPACE = "velero"
BACKUPS = 200
SCHEDULES = 50
AT_ONCE = 8
SETTLE_SECONDS = 75.0
"""The time before the window, and more than a minute, so that each location was synced before."""

WINDOW_SECONDS = 120.0
READY_SECONDS = 60.0
STOP_SECONDS = 60.0
POLL_SECONDS = 0.1
_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The result of one run.

    Attributes:
        requests: to the API server by `METHOD resource`, to the object store by `METHOD store`.
    """

    seconds: float
    cpu_seconds: float
    resident_bytes: int
    requests: Counter[str]

    def a_minute(self, count: float) -> float:
        """A count of the window, for one minute."""
        return count * 60 / self.seconds


async def observe(folder: Path, say: Callable[[str], None]) -> Idle:
    """Run a cluster, a store and two proxies, and a server for the window."""
    with ControlPlane(folder / "cluster", name="idle") as plane, S3Server(folder / "s3") as s3:
        bucket = s3.create_bucket("idle")
        async with (
            FaultProxy(Upstream.of_api_server(plane)) as cluster,
            FaultProxy(Upstream.of_s3(s3)) as store,
            KubeClient(load_config(str(plane.kubeconfig))) as client,
        ):
            say(f"idle: loading {BACKUPS} backups and {SCHEDULES} schedules")
            await _load(client, bucket, store.url)
            kubeconfig = plane.write_kubeconfig(folder / "kubeconfig", server=cluster.url)
            return await _watch(folder, kubeconfig, (cluster, store), say)


async def _watch(
    folder: Path, kubeconfig: Path, proxies: tuple[FaultProxy, FaultProxy], say: Callable[[str], None]
) -> Idle:
    with running_server(folder, kubeconfig) as process:
        say(f"idle: {SETTLE_SECONDS:.0f} s until it is quiet, then {WINDOW_SECONDS:.0f} s")
        await asyncio.sleep(SETTLE_SECONDS)
        for proxy in proxies:
            proxy.exchanges.clear()
        before = cpu_seconds(process)
        await asyncio.sleep(WINDOW_SECONDS)
        cluster, store = proxies
        requests = [
            *(request_name(exchange.head) for exchange in cluster.exchanges),
            *(f"{exchange.head.method} store" for exchange in store.exchanges),
        ]
        return Idle(
            seconds=WINDOW_SECONDS,
            cpu_seconds=cpu_seconds(process) - before,
            resident_bytes=resident_bytes(process),
            requests=Counter(requests),
        )


@contextmanager
def running_server(folder: Path, kubeconfig: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in a context; its log is `server.log` in the folder. It is killed if it does not stop."""
    command = [str(PROGRAM), "server", "--kubeconfig", str(kubeconfig), "-n", NAMESPACE]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--metrics-address", "127.0.0.1:0", "--profiler-address", "", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "AWS_EC2_METADATA_DISABLED": "true"},
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def cpu_seconds(process: subprocess.Popen[bytes]) -> float:
    """The CPU time of a running process. Raises SampleFailed: it has ended."""
    if process.poll() is not None:
        raise SampleFailed(f"the server ended with code {process.returncode}")
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_A_SECOND


def resident_bytes(process: subprocess.Popen[bytes]) -> int:
    """The resident memory of a running process."""
    found = _RESIDENT.search(Path(f"/proc/{process.pid}/status").read_text())
    return int(found[1]) * 1024 if found else 0


def request_name(head: RequestHead) -> str:
    """The name of a request in reports: `PATCH leases`, `WATCH backups`, `GET /version`."""
    method = "WATCH" if "watch" in head.query else head.method
    found = re.search(r"/namespaces/[^/]+/([^/]+)(/[^/]+)?(/[^/]+)?", head.path)
    if found is None:
        if re.fullmatch(r"/api/v1/namespaces/[^/]+", head.path):
            return f"{method} namespaces"
        return f"{method} {head.path}"
    if method == "GET" and not found[2]:
        method = "LIST"
    return f"{method} {found[1]}{found[3] or ''}"


# --- The objects ---------------------------------------------------------------------------------------


async def install_definitions(client: KubeClient) -> None:
    """Install the custom resource definitions and the server's namespace, and wait until they are served."""
    for manifest in crd_manifests():
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, manifest)
    await client.create(
        NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    )
    await _served(client)


async def _load(client: KubeClient, bucket: Bucket, store_url: str) -> None:
    await install_definitions(client)
    await create_credentials(client, bucket.server)
    config = {**bucket.location_config, "s3Url": store_url}
    await create_location(client, "default", bucket.name, config, default=True)
    settings = {
        **bucket.location_config,
        "bucket": bucket.name,
        "credentialsFile": str(bucket.server.credentials_file),
    }
    objects = S3Store(parse_s3_config(settings), environ={})
    async with BackupStore(objects, Layout(""), location="default") as store:
        await for_each(range(BACKUPS), lambda number: _add_backup(client, store, number))
    await for_each(range(SCHEDULES), lambda number: _add_schedule(client, number))


async def _served(client: KubeClient) -> None:
    async with asyncio.timeout(READY_SECONDS):
        for manifest in crd_manifests():
            resource = velero(manifest["metadata"]["name"].split(".")[0])
            while not await _is_listed(client, resource.name):  # noqa: ASYNC110 - discovery has no watch
                await asyncio.sleep(POLL_SECONDS)


async def _is_listed(client: KubeClient, plural: str) -> bool:
    try:
        await client.list_all(velero(plural), NAMESPACE)
    except KubeError:
        return False
    return True


async def create_credentials(client: KubeClient, server: S3Server) -> None:
    """Create the Secret that locations of `create_location` name."""
    text = server.credentials_file.read_text()
    metadata = {"name": "cloud-credentials", "namespace": NAMESPACE}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"cloud": text}}
    await client.create(SECRETS, secret, NAMESPACE)


async def create_location(
    client: KubeClient, name: str, bucket: str, config: Mapping[str, str], *, default: bool = False
) -> None:
    """Create a BackupStorageLocation in an S3 server."""
    spec = {
        "provider": "aws",
        "default": default,
        "config": config,
        "objectStorage": {"bucket": bucket},
        "credential": {"name": "cloud-credentials", "key": "cloud"},
    }
    await create_object(client, "backupstoragelocations", name, spec=spec)


async def _add_backup(client: KubeClient, store: BackupStore, number: int) -> None:
    name, now = f"backup-{number:03}", datetime.now(UTC) - timedelta(minutes=number)
    times = {"startTimestamp": format_time(now), "completionTimestamp": format_time(now)}
    status = {"phase": "Completed", "expiration": format_time(now + timedelta(days=30)), **times}
    labels = {"velero.io/storage-location": "default", "velero.io/schedule-name": f"s-{number % SCHEDULES}"}
    obj = await create_object(
        client, "backups", name, spec={"storageLocation": "default"}, status=status, labels=labels
    )
    metadata = encode_metadata(decode(Backup, obj))
    await store.put_backup(BackupFiles(name=name, metadata=metadata, contents=None))


async def _add_schedule(client: KubeClient, number: int) -> None:
    spec = {"schedule": "0 0 1 1 *", "template": {"ttl": "720h0m0s"}}
    status = {"phase": "Enabled", "lastBackup": format_time(datetime.now(UTC))}
    await create_object(client, "schedules", f"s-{number}", spec=spec, status=status)


async def create_object(
    client: KubeClient, plural: str, name: str, *, labels: dict[str, str] | None = None, **members: Any
) -> dict[str, Any]:
    """Create a custom resource in the server's namespace; members are `spec` and `status`."""
    resource = velero(plural)
    metadata = {"name": name, "namespace": NAMESPACE, "labels": labels or {}}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **members}
    return await client.create(resource, body, NAMESPACE)


async def for_each(
    things: Iterable[T], work: Callable[[T], Awaitable[None]], *, at_once: int = AT_ONCE
) -> None:
    """Call `work` with each thing, several at once."""
    left = iter(things)

    async def worker() -> None:
        for thing in left:
            await work(thing)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


# --- The figures ----------------------------------------------------------------------------------------


def figures(idle: Idle) -> list[Figure]:
    """The lines of the table."""
    api = sum(count for name, count in idle.requests.items() if not name.endswith(" store"))
    store = sum(idle.requests.values()) - api

    def figure(name: str, unit: Unit, value: float) -> Figure:
        return Figure(name=name, unit=unit, rule=Rule.ALONE, ours=Series(name="server", values=[value]))

    return [
        figure("idle server, CPU a minute", Unit.MILLISECONDS, idle.a_minute(idle.cpu_seconds) * 1000),
        figure("idle server, memory", Unit.MEBIBYTES, idle.resident_bytes / MEBIBYTE),
        figure("idle server, API requests a minute", Unit.REQUESTS, idle.a_minute(api)),
        figure("idle server, store requests a minute", Unit.REQUESTS, idle.a_minute(store)),
    ]


def measure_idle(folder: Path, say: Callable[[str], None]) -> list[Figure]:
    """Run the scenario, and report the requests by name."""
    idle = asyncio.run(observe(folder, say))
    for name, count in idle.requests.most_common():
        say(f"idle: {idle.a_minute(count):6.1f} a minute: {name}")
    return figures(idle)


def main() -> int:
    """Run it alone."""
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_idle(Path(folder), lambda text: print(text, file=sys.stderr, flush=True))
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
