"""The cost of the node agent around restic: `python -m bench.scenarios.restic`, or the scenario `restic`.

Volumes of random data are saved and restored by an agent, from the creation of the PodVolumeBackup or
PodVolumeRestore to its end, and by restic alone with the same repository format, host and cache. Each sample
has a repository and a cache of its own. Then several volumes of one node, one after the other and at once.
There is no kubelet: the files that the agent sees below the directory of pods are made here.
"""

import argparse
import asyncio
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import MEBIBYTE, Figure, Rule, Series, Target, Unit, text_table
from bench.floor.generate import SEED
from bench.measure import SampleFailed
from hack.cluster.control_plane import ControlPlane
from pinnace.api import labels
from pinnace.api.definitions.crds import crd_manifests
from pinnace.api.objects import JSONObject
from pinnace.kube.client import KubeClient
from pinnace.kube.config import load_config
from pinnace.kube.errors import Forbidden, KubeError
from pinnace.kube.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, PODS, SECRETS, velero
from pinnace.runtime.manager import ManagerPhase
from pinnace.server.node_agent import NodeAgent, NodeAgentOptions
from pinnace.volumes.restic.commands import HOST
from pinnace.volumes.uploader.access import AccessProvider
from pinnace.volumes.uploader.passwords import SECRET_KEY, SECRET_NAME
from pinnace.volumes.uploaders import Uploaders

TARGET = Target(first=1.1, aim=1.02)
NAMESPACE = "velero"
NODE = "bench"
PASSWORD = secrets.token_urlsafe(16)
SIZE_MEBIBYTES = 1024
FILE_COUNTS = (1_000, 50_000)
VOLUMES_AT_ONCE = 4
FILES_A_DIRECTORY = 500
SAMPLE_SECONDS = 1_800.0
READY_SECONDS = 60.0
POLL_SECONDS = 0.05
OURS, ALONE = "node agent", "restic alone"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A pod with one volume."""

    pod: JSONObject
    path: Path

    @property
    def name(self) -> str:
        """The uid of the pod."""
        name: str = self.pod["metadata"]["name"]
        return name


class ResticBench:
    """A control plane with pods that have volumes.

    Args:
        folder: for everything; best on the disk that is to be measured.
        runs: samples of each candidate.
    """

    def __init__(self, client: KubeClient, folder: Path, runs: int, say: Say) -> None:
        self._client = client
        self._folder = folder
        self._runs = runs
        self._say = say
        self._order = random.Random(SEED)
        self._restore_uid = ""
        self._pods = folder / "pods"
        self._pods.mkdir()

    async def prepare(self) -> None:
        """Create the objects that the agent reads."""
        for manifest in crd_manifests():
            await self._client.create(CUSTOM_RESOURCE_DEFINITIONS, manifest)
        await self._client.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        # The garbage collector deletes pods of a node that does not exist.
        await self._client.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET_NAME}}
        await self._client.create(SECRETS, {**secret, "stringData": {SECRET_KEY: PASSWORD}}, NAMESPACE)
        location = {"provider": "pinnace.io/filesystem", "objectStorage": {"bucket": "b"}}
        await self._when_served(lambda: self._create("backupstoragelocations", "default", spec=location))
        # The garbage collector deletes objects whose owner does not exist.
        owner = await self._create("restores", "r", spec={"backupName": "b"})
        self._restore_uid = owner["metadata"]["uid"]

    async def _when_served(self, make: Callable[[], Any]) -> None:
        async with asyncio.timeout(READY_SECONDS):
            while True:
                with suppress(KubeError):
                    await make()
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def add_volume(self, name: str, *, files: int, size_bytes: int) -> Volume:
        """A running pod with a volume of that many files, and one that waits for the same volume."""
        self._say(f"restic: making {files:,} files, {size_bytes / MEBIBYTE:.0f} MiB")
        pod = await self._add_pod(name)
        path = self._volume_of(pod)
        await asyncio.to_thread(fill, path, files, size_bytes)
        return Volume(pod=pod, path=path)

    async def _add_pod(self, name: str) -> JSONObject:
        waiting = {"name": "restic-wait", "image": "i"}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "automountServiceAccountToken": False,
                "tolerations": [{"operator": "Exists"}],
                "initContainers": [waiting],
                "containers": [{"name": "main", "image": "i"}],
                "volumes": [{"name": "data", "emptyDir": {}}],
            },
        }
        async with asyncio.timeout(READY_SECONDS):
            while True:
                with suppress(Forbidden):  # the namespace has no service account yet
                    await self._client.create(PODS, body, NAMESPACE)
                    break
                await asyncio.sleep(POLL_SECONDS)
        running = {"name": "restic-wait", "state": {"running": {}}, "image": "i", "imageID": "i"}
        status = {"initContainerStatuses": [{**running, "ready": False, "restartCount": 0}]}
        return await self._client.patch(PODS, name, {"status": status}, NAMESPACE, subresource="status")

    def _volume_of(self, pod: JSONObject) -> Path:
        path: Path = self._pods / pod["metadata"]["uid"] / "volumes" / "kubernetes.io~empty-dir" / "data"
        path.mkdir(parents=True, exist_ok=True)
        return path

    # --- Samples -----------------------------------------------------------------------------------------

    async def compare(self, volume: Volume) -> dict[str, dict[str, list[float]]]:
        """Seconds of saving and of restoring, by candidate, in random order."""
        found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for number in range(self._runs + 1):  # the first warms up
            for candidate in self._order.sample([OURS, ALONE], k=2):
                run = self._with_agent if candidate == OURS else self._alone
                for what, seconds in (await run(volume)).items():
                    if number:
                        found[what][candidate].append(seconds)
                    self._say(
                        f"restic {number or 'warm-up'}/{self._runs}: {what}: {candidate}: {seconds:.2f} s"
                    )
        return found

    async def _with_agent(self, volume: Volume) -> dict[str, float]:
        async with self._place() as (repository, scratch), self._agent(scratch):
            saved = await self._seconds(lambda: self._save(repository, [volume]))
            snapshot = (await self._only_order("podvolumebackups"))["status"]["snapshotID"]
            target = await self._add_pod(f"{volume.name}-{secrets.token_hex(3)}")
            path = self._volume_of(target)
            restored = await self._seconds(lambda: self._restore(repository, target, snapshot))
            await asyncio.to_thread(shutil.rmtree, path)
            await self._forget_orders()
        return {"save": saved, "restore": restored}

    async def _alone(self, volume: Volume) -> dict[str, float]:
        async with self._place() as (repository, scratch):
            target = scratch / "target"
            target.mkdir()
            save = ("backup", ".", f"--host={HOST}", "--quiet")
            saved = await self._seconds(
                lambda: self._restic(repository, scratch, *save, directory=volume.path)
            )
            back = ("restore", "latest", "--target=.", "--quiet")
            restored = await self._seconds(lambda: self._restic(repository, scratch, *back, directory=target))
        return {"save": saved, "restore": restored}

    async def at_once(self, volumes: Sequence[Volume], workers: int) -> float:
        """Seconds until all volumes of the node are saved."""
        async with self._place() as (repository, scratch), self._agent(scratch, workers):
            seconds = await self._seconds(lambda: self._save(repository, volumes))
            await self._forget_orders()
        self._say(f"restic: {len(volumes)} volumes, {workers} at once: {seconds:.2f} s")
        return seconds

    @staticmethod
    async def _seconds(work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        async with asyncio.timeout(SAMPLE_SECONDS):
            await work()
        return time.perf_counter() - started

    # --- The two candidates ------------------------------------------------------------------------------

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[tuple[Path, Path]]:
        """A new repository, and a folder for cache and temporary files."""
        with tempfile.TemporaryDirectory(prefix="sample-", dir=self._folder) as name:
            repository, scratch = Path(name, "repository"), Path(name, "scratch")
            await asyncio.to_thread(scratch.mkdir)
            await self._restic(repository, scratch, "init", "--repository-version=1")
            yield repository, scratch

    @asynccontextmanager
    async def _agent(self, scratch: Path, workers: int = 1) -> AsyncIterator[None]:
        options = NodeAgentOptions(
            namespace=NAMESPACE,
            node=NODE,
            pods_directory=self._pods,
            metrics_address="127.0.0.1:0",
            backup_workers=workers,
        )
        inherited = {**os.environ, "VELERO_SCRATCH_DIR": str(scratch)}
        accesses = AccessProvider(self._client, NAMESPACE, scratch, inherited=inherited)
        manager = NodeAgent(self._client, options, scratch, uploaders=Uploaders.of(accesses)).manager()
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(manager.run(stop))
            try:
                while manager.phase is not ManagerPhase.RUNNING:  # noqa: ASYNC110 - it has no event
                    await asyncio.sleep(POLL_SECONDS)
                yield
            finally:
                stop.set()

    async def _restic(
        self, repository: Path, scratch: Path, *arguments: str, directory: Path | None = None
    ) -> None:
        process = await asyncio.create_subprocess_exec(
            *("restic", f"--repo={repository}", f"--cache-dir={scratch / '.cache/restic'}", *arguments),
            env={**os.environ, "RESTIC_PASSWORD": PASSWORD},
            cwd=directory,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            _, stderr = await process.communicate()
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if process.returncode:
            raise SampleFailed(f"restic {arguments[0]} failed: {stderr.decode(errors='replace').strip()}")

    # --- Orders ------------------------------------------------------------------------------------------

    async def _save(self, repository: Path, volumes: Sequence[Volume]) -> None:
        for volume in volumes:
            tags = {"volume": volume.name, "backup": "b"}
            spec = {**self._common_spec(repository, volume.pod), "node": NODE, "tags": tags}
            await self._create("podvolumebackups", f"save-{volume.name}", spec=spec)
        await self._ended("podvolumebackups", len(volumes))

    async def _restore(self, repository: Path, pod: JSONObject, snapshot: str) -> None:
        spec = {**self._common_spec(repository, pod), "snapshotID": snapshot}
        owner = {"apiVersion": "velero.io/v1", "kind": "Restore", "name": "r", "uid": self._restore_uid}
        marks = {labels.POD_UID: pod["metadata"]["uid"]}
        metadata = {"labels": marks, "ownerReferences": [{**owner, "controller": True}]}
        await self._create("podvolumerestores", "restore", spec=spec, **metadata)
        await self._ended("podvolumerestores", 1)

    @staticmethod
    def _common_spec(repository: Path, pod: JSONObject) -> JSONObject:
        metadata = pod["metadata"]
        reference = {key: metadata[key] for key in ("namespace", "name", "uid")}
        place = {"repoIdentifier": str(repository), "backupStorageLocation": "default"}
        return {"pod": {"kind": "Pod", **reference}, "volume": "data", **place}

    async def _ended(self, plural: str, count: int) -> None:
        while True:
            pod_volumes = await self._client.list_all(velero(plural), NAMESPACE)
            statuses = [pod_volume.get("status") or {} for pod_volume in pod_volumes]
            for status in statuses:
                if status.get("phase") == "Failed":
                    raise SampleFailed(
                        f"a PodVolumeBackup or PodVolumeRestore failed: {status.get('message')}"
                    )
            if sum(status.get("phase") == "Completed" for status in statuses) == count:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _only_order(self, plural: str) -> JSONObject:
        [pod_volume] = await self._client.list_all(velero(plural), NAMESPACE)
        return pod_volume

    async def _forget_orders(self) -> None:
        for plural in ("podvolumebackups", "podvolumerestores"):
            for pod_volume in await self._client.list_all(velero(plural), NAMESPACE):
                await self._client.delete(velero(plural), pod_volume["metadata"]["name"], NAMESPACE)

    async def _create(self, plural: str, name: str, *, spec: JSONObject, **metadata: Any) -> JSONObject:
        resource = velero(plural)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
        metadata = {"name": name, **metadata}
        return await self._client.create(resource, {**body, "metadata": metadata}, NAMESPACE)


def fill(directory: Path, files: int, size_bytes: int) -> None:
    """Fill a directory with files of about one size, whose content nothing compresses or deduplicates."""
    source = random.Random(f"{SEED} {directory.parts[-4]}")
    size = max(1, size_bytes // files)
    for number in range(files):
        if number % FILES_A_DIRECTORY == 0:
            parent = directory / f"{number // FILES_A_DIRECTORY:04}"
            parent.mkdir()
        (parent / f"{number:06}").write_bytes(source.randbytes(size))


async def observe(folder: Path, runs: int, size_mebibytes: int, say: Say) -> list[Figure]:
    """Run the control plane, and measure all volumes."""
    size = size_mebibytes * MEBIBYTE
    with ControlPlane(folder / "cluster", name="restic") as plane:
        async with KubeClient(load_config(str(plane.kubeconfig))) as client:
            bench = ResticBench(client, folder, runs, say)
            await bench.prepare()
            figures = []
            for files in FILE_COUNTS:
                volume = await bench.add_volume(f"files-{files}", files=files, size_bytes=size)
                figures += overhead_figures(files, size_mebibytes, await bench.compare(volume))
                await asyncio.to_thread(shutil.rmtree, volume.path)
            volumes = [
                await bench.add_volume(f"volume-{number}", files=250, size_bytes=size // VOLUMES_AT_ONCE)
                for number in range(VOLUMES_AT_ONCE)
            ]
            serial = [await bench.at_once(volumes, 1) for _ in range(runs)]
            parallel = [await bench.at_once(volumes, VOLUMES_AT_ONCE) for _ in range(runs)]
    return [*figures, together_figure(serial, parallel)]


def overhead_figures(
    files: int, size_mebibytes: int, seconds: dict[str, dict[str, list[float]]]
) -> list[Figure]:
    """The lines for one volume."""
    return [
        Figure(
            name=f"{what} a volume, {size_mebibytes} MiB in {files:,} files",
            unit=Unit.SECONDS,
            rule=Rule.RATIO,
            ours=Series(name=OURS, values=found[OURS]),
            floors=[Series(name=ALONE, values=found[ALONE])],
            target=TARGET,
        )
        for what, found in seconds.items()
    ]


def together_figure(serial: Sequence[float], parallel: Sequence[float]) -> Figure:
    """The line for several volumes of one node."""
    return Figure(
        name=f"save {VOLUMES_AT_ONCE} volumes of a node at once",
        unit=Unit.SECONDS,
        rule=Rule.RATIO,
        ours=Series(name=f"{VOLUMES_AT_ONCE} workers", values=parallel),
        floors=[Series(name="one after the other", values=serial)],
    )


def measure_restic(folder: Path, runs: int, size_mebibytes: int, say: Say) -> list[Figure]:
    """Run the scenario. Raises SampleFailed."""
    if shutil.which("restic") is None:
        raise SampleFailed("restic is not installed (Debian: apt-get install restic)")
    folder.mkdir()
    return asyncio.run(observe(folder, runs, size_mebibytes, say))


def main() -> int:
    """Run it alone."""
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios.restic", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="samples of each candidate (5)")
    parser.add_argument(
        "--volume-mib", type=int, default=SIZE_MEBIBYTES, help=f"size of the volumes ({SIZE_MEBIBYTES})"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pinnace-bench-") as folder:
        found = measure_restic(
            Path(folder, "restic"),
            options.runs,
            options.volume_mib,
            lambda text: print(text, file=sys.stderr, flush=True),
        )
    print(text_table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
