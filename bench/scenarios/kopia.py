"""The cost of Pinnace around kopia: `python -m bench kopia`.

The same volume saved by kopia alone and by the adapter, which calls the same program: a volume of few large
files and one of many small ones, each saved twice, new and with nothing changed. Each sample has a repository
of its own.
"""

import asyncio
import base64
import os
import random
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from bench.figures import Figure, Rule, Series, Target, Unit
from bench.floor.generate import SEED
from hack.cluster import binaries
from pinnace.kube.client import KubeClient
from pinnace.kube.resources import SECRETS, APIResource
from pinnace.volumes.kopia.client import Kopia
from pinnace.volumes.uploader.access import AccessProvider, Repository
from pinnace.volumes.uploader.interface import Source

TARGET: Final = Target(first=1.1, aim=1.02)
PLACE = Repository(location="default", namespace="bench")
PASSWORD = "bench"
FILES = (1_000, 50_000)
OURS, ALONE = "adapter", "kopia alone"

Say = Callable[[str], None]


class _Cluster:
    """A location in a folder, and the password."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def get(self, resource: APIResource, name: str, namespace: str) -> dict[str, Any]:
        if resource == SECRETS:
            return {"data": {"repository-password": base64.b64encode(PASSWORD.encode()).decode()}}
        spec = {
            "provider": "pinnace.io/filesystem",
            "config": {"path": str(self._folder)},
            "objectStorage": {"bucket": "bucket"},
        }
        return {
            "apiVersion": "velero.io/v1",
            "kind": "BackupStorageLocation",
            "metadata": {"name": name, "namespace": namespace},
            "spec": spec,
        }


def fill(folder: Path, files: int, size_bytes: int) -> None:
    """Write files of equal size and random content."""
    generator = random.Random(files)
    for number in range(files):
        path = folder / f"{number % 100:02}" / f"{number}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(generator.randbytes(size_bytes // files))


def alone(program: str, folder: Path, volume: Path) -> list[float]:
    """Seconds of the first and second snapshot by kopia itself."""
    environment = {
        **os.environ,
        "HOME": str(folder),
        "KOPIA_PASSWORD": PASSWORD,
        "KOPIA_CONFIG_PATH": str(folder / "alone.config"),
    }
    common = [program, "--disable-file-logging", "--no-auto-maintenance"]

    def run(*args: str) -> float:
        began = time.monotonic()
        subprocess.run([*common, *args], env=environment, check=True, capture_output=True)
        return time.monotonic() - began

    (folder / "alone").mkdir()
    run("repository", "create", "filesystem", f"--path={folder / 'alone'}", "--flat")
    return [run("snapshot", "create", str(volume)) for _ in range(2)]


async def adapted(program: str, folder: Path, volume: Path) -> list[float]:
    """The same by the adapter."""
    work = folder / "work"
    work.mkdir()
    (folder / "bucket").mkdir()
    inherited: Mapping[str, str] = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    accesses = AccessProvider(cast("KubeClient", _Cluster(folder)), "velero", work, inherited=inherited)
    kopia = Kopia(accesses, program=program)
    await kopia.init(PLACE)
    taken = []
    for number in range(2):
        began = time.monotonic()
        await kopia.save(PLACE, Source(path=volume, name="bench", tags={"backup": str(number)}))
        taken.append(time.monotonic() - began)
    return taken


def measure_kopia(folder: Path, runs: int, mebibytes: int, say: Say) -> list[Figure]:
    """Run the scenario; needs no cluster."""
    program = str(binaries.locate(binaries.UPLOADER)["kopia"])
    order = random.Random(SEED)
    figures: list[Figure] = []
    for files in FILES:
        volume = folder / f"volume-{files}"
        volume.mkdir(parents=True)
        say(f"kopia: making {files:,} files, {mebibytes} MiB")
        fill(volume, files, mebibytes << 20)
        samples: dict[str, list[list[float]]] = defaultdict(list)
        for number in range(runs):
            for name in order.sample((OURS, ALONE), k=2):
                work = folder / f"{files}-{number}-{name.replace(' ', '-')}"
                work.mkdir()
                ours = name == OURS
                taken = asyncio.run(adapted(program, work, volume)) if ours else alone(program, work, volume)
                samples[name].append(taken)
                say(f"kopia {number + 1}/{runs}: {name}: {taken[0]:.2f} s, then {taken[1]:.2f} s")
        figures += [
            _figure(files, mebibytes, what, at, samples) for at, what in enumerate(("new", "unchanged"))
        ]
    return figures


def _figure(
    files: int, mebibytes: int, what: str, at: int, samples: Mapping[str, list[list[float]]]
) -> Figure:
    ours, floor = (Series(name=name, values=[taken[at] for taken in samples[name]]) for name in (OURS, ALONE))
    return Figure(
        name=f"save with kopia, {mebibytes} MiB in {files:,} files, {what}",
        unit=Unit.SECONDS,
        rule=Rule.RATIO,
        ours=ours,
        floors=[floor],
        target=TARGET,
    )
